//! The description and the documents say what the code does.

use std::collections::BTreeSet;

use ringfence_server::{Code, Limits};
use serde_json::Value;

use crate::rig::document;

fn file(name: &str) -> String {
    std::fs::read_to_string(format!("{}/../../{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

#[test]
fn the_reference_is_what_the_code_says() {
    assert!(file("docs/reference/openapi.json") == ringfence_server::openapi(), "run `make docs`");
}

#[test]
fn the_documents_name_every_code_with_its_status() {
    let text = file("docs/api.md");
    let rows: BTreeSet<(String, String)> = text
        .lines()
        .filter_map(|line| {
            let mut cells = line.split('|').map(str::trim).skip(1);
            let (code, status) = (cells.next()?.strip_prefix('`')?.strip_suffix('`')?, cells.next()?);
            (status.len() == 3 && status.parse::<u16>().is_ok()).then(|| (code.to_owned(), status.to_owned()))
        })
        .collect();
    let codes = Code::ALL.iter().map(|code| (code.word().to_owned(), code.status().as_u16().to_string())).collect();
    assert_eq!(rows, codes);
}

#[test]
fn the_documents_say_what_is_taken_of_strangers() {
    let (text, limits) = (file("docs/api.md"), Limits::default());
    let Limits { connections, connections_of_one_peer, requests, sessions, work, work_of_one_tenant, streams, .. } = limits;
    let (head, idle, write) = (limits.head_time.as_secs(), limits.idle_time.as_secs(), limits.write_pause.as_secs());
    let (body, pause) = (limits.body_time.as_secs(), limits.body_pause.as_secs());
    for row in [
        format!("| connections | {connections}, of one address (IPv6: /64) {connections_of_one_peer};"),
        format!("| time for which a connection is kept on which nothing is asked | {idle} s |"),
        format!("| requests being answered | {requests} |"),
        format!("| sessions that stand | {sessions} |"),
        format!("| runs, audits and promotions under way | {work}, of one tenant {work_of_one_tenant};"),
        format!("| streams of events | {streams} |"),
        format!("| head of a request | {} KiB, {} fields, {head} s from its first byte;", limits.head_bytes >> 10, limits.head_fields),
        format!("| bodies of all requests together | {} MiB |", limits.body_bytes_in_all >> 20),
        format!("| time of a body | {body} s, and {pause} s without progress |"),
        format!("| time in which a client takes nothing of an answer | {write} s |"),
    ] {
        assert!(text.contains(&row), "docs/api.md does not say `{row}`");
    }
}

fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|field| references(field, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

#[test]
fn the_description_is_whole() {
    let mut found = BTreeSet::new();
    references(document(), &mut found);
    assert!(found.len() > 20);
    for place in &found {
        assert!(place.starts_with('#') && document().pointer(place.trim_start_matches('#')).is_some(), "{place} is not there");
    }
    let unused: Vec<&String> = document()["components"]["schemas"]
        .as_object()
        .unwrap()
        .keys()
        .filter(|name| !found.contains(&format!("#/components/schemas/{name}")))
        .collect();
    assert!(unused.is_empty(), "{unused:?}");
    for (path, methods) in document()["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            assert!(operation["operationId"].is_string() && operation["summary"].is_string(), "{method} {path}");
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                let is_bounded = parameter["in"] != "path" || parameter["schema"]["pattern"].is_string();
                assert!(is_bounded && !parameter["schema"]["type"].is_array(), "{method} {path}: {parameter}");
            }
        }
    }
}
