//! Bodies that are too large, too deep, or not what they say.

use std::io::Write;

use ringfence_server::{Limits, ServeOptions};
use serde_json::json;

use crate::rig::{Rig, options, parse, until_end};

fn head(rig: &Rig, path: &str, fields: &str) -> String {
    let key = &rig.key;
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\nConnection: close\r\n{fields}\r\n"
    )
}

/// Most memory that this process has had, KiB.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn what_is_said_to_be_too_large_is_refused_before_it_is_read() {
    let rig = Rig::new();
    for length in ["8388609", "99999999999", "999999999999999999"] {
        let reply = parse(&rig.say(head(&rig, "/v1/runs", &format!("Content-Length: {length}\r\n")).as_bytes()));
        assert_eq!((reply.status, reply.code().as_str()), (413, "body_too_large"), "{length}");
    }
    let reply = parse(&rig.say(head(&rig, "/v1/audit", "Content-Length: 5000\r\n").as_bytes()));
    assert_eq!(reply.status, 413);
}

#[test]
fn what_turns_out_too_large_is_read_no_further() {
    let rig = Rig::new();
    let before = peak_kib();
    let mut stream = rig.connect();
    stream.write_all(head(&rig, "/v1/runs", "Transfer-Encoding: chunked\r\n").as_bytes()).unwrap();
    let chunk = format!("10000\r\n{}\r\n", " ".repeat(65_536));
    let sent = (0..4000).take_while(|_| stream.write_all(chunk.as_bytes()).is_ok()).count();
    assert!(sent < 1000, "{sent} chunks of 64 KiB were taken");
    let answer = until_end(&mut stream);
    assert!(answer.is_empty() || parse(&answer).status == 413, "{answer}");
    assert!(peak_kib() - before < 64 << 10, "{} KiB", peak_kib() - before);
}

#[test]
fn json_that_is_deep_or_has_many_names_takes_no_room() {
    let rig = Rig::new();
    let send = |body: &str| rig.ask_as(&rig.key, "POST", "/v1/runs", "", Some(body));
    let before = peak_kib();
    let deep = format!("{{\"command\":{}{}}}", "[".repeat(200_000), "]".repeat(200_000));
    let reply = send(&deep);
    assert!([400, 422].contains(&reply.status), "{reply:?}");
    let unknown: String = (0..200_000).map(|number| format!("\"k{number}\":0,")).collect();
    assert_eq!(send(&format!("{{{unknown}\"command\":[\"true\"]}}")).code(), "invalid_request");
    let variables: String = (0..200_000).map(|number| format!("\"K{number}\":\"\",")).collect();
    assert_eq!(send(&format!("{{\"env\":{{{variables}\"K\":\"\"}},\"command\":[\"true\"]}}")).code(), "invalid_request");
    let words = "\"\",".repeat(300_000);
    assert_eq!(send(&format!("{{\"command\":[{words}\"\"]}}")).code(), "invalid_request");
    assert!(peak_kib() - before < 128 << 10, "{} KiB", peak_kib() - before);
    for (body, code) in [
        ("", "bad_json"),
        ("{", "bad_json"),
        ("nonsense", "bad_json"),
        ("{\"command\":[\"true\"]}}", "bad_json"),
        ("{\"command\":[\"\u{1}\"]}", "bad_json"),
        ("[]", "invalid_request"),
        ("null", "invalid_request"),
        ("{}", "invalid_request"),
        ("{\"command\":\"true\"}", "invalid_request"),
        ("{\"command\":[1]}", "invalid_request"),
        ("{\"command\":[\"true\"],\"command\":[\"false\"]}", "invalid_request"),
        ("{\"command\":[\"true\"],\"wait\":true}", "invalid_request"),
    ] {
        assert_eq!(send(body).code(), code, "{body}");
    }
    let bytes = [head(&rig, "/v1/runs", "Content-Length: 20\r\n").as_bytes(), b"{\"command\":[\"\xff\xfe\xfd\"]} "].concat();
    assert_eq!(parse(&rig.say(&bytes)).code(), "bad_json");
}

#[test]
fn a_body_is_plain_json_by_its_head() {
    let rig = Rig::new();
    let send = |fields: &str| {
        let key = &rig.key;
        let head = format!(
            "POST /v1/audit HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nConnection: close\r\nContent-Length: 2\r\n{fields}\r\n{{}}"
        );
        parse(&rig.say(head.as_bytes()))
    };
    for fields in [
        "",
        "Content-Type: text/plain\r\n",
        "Content-Type: application/json; charset=utf-16\r\n",
        "Content-Type: application/x-www-form-urlencoded\r\n",
        "Content-Type: application/json\r\nContent-Encoding: gzip\r\n",
    ] {
        assert_eq!(send(fields).code(), "unsupported_media_type", "{fields}");
    }
    assert_eq!(send("Content-Type: Application/JSON; charset=UTF-8\r\n").code(), "invalid_request");
}

#[test]
fn all_bodies_together_have_room_for_so_much() {
    let limits = Limits { body_bytes_in_all: 100_000, ..Limits::default() };
    let rig = Rig::with(ServeOptions { limits, ..options() });
    let body = json!({"command": ["true"], "stdin": "x".repeat(99_000)}).to_string();
    assert_eq!(rig.ask_as(&rig.key, "POST", "/v1/runs?wait=true", "", Some(&body)).status, 201);
    let mut held = rig.connect();
    held.write_all(
        format!("{}{}", head(&rig, "/v1/runs", &format!("Content-Length: {}\r\n", body.len())), &body[..body.len() - 1]).as_bytes(),
    )
    .unwrap();
    let mut codes = (0..100).map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        rig.ask_as(&rig.key, "POST", "/v1/runs?wait=true", "", Some(&body)).status
    });
    assert!(codes.any(|status| status == 503));
    drop(held);
    let mut codes = (0..100).map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        rig.ask_as(&rig.key, "POST", "/v1/runs?wait=true", "", Some(&body)).status
    });
    assert!(codes.any(|status| status == 201));
}
