//! How much a tenant keeps.

use std::io::Write;

use ringfence_store::Home;
use serde_json::{Value, json};

use crate::e2b::wire::{Sandbox, control};
use crate::rig::{Rig, options};

/// A server whose tenants may keep two states, of one mebibyte together.
fn bounded() -> Rig {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::open(&folder.path().join("home")).unwrap();
    std::fs::File::create(home.settings()).unwrap().write_all(b"[state]\nmax-count = 2\nmax-bytes = \"1MiB\"\n").unwrap();
    Rig::over(folder, options())
}

fn run(rig: &Rig, key: &str, state: &str, script: &str) -> Value {
    let body = json!({"command": ["sh", "-c", script], "profile": "base", "state": state}).to_string();
    let reply = rig.ask_as(key, "POST", "/v1/runs?wait=true", "", Some(&body));
    assert_eq!(reply.status, 201, "{reply:?}");
    reply.json()
}

fn ids(rig: &Rig, key: &str) -> Vec<String> {
    let listed = rig.ask_as(key, "GET", "/v1/states", "", None).json();
    listed["states"].as_array().unwrap().iter().map(|state| state["state"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_tenant_that_keeps_as_much_as_it_may_is_told_so_and_others_are_not_touched() {
    let rig = bounded();
    let (one, two) = (rig.tenant("one"), rig.tenant("two"));
    for state in ["a", "b", "a"] {
        assert_eq!(run(&rig, &one, state, "date >> log")["end"]["kind"], "exited", "{state}");
    }
    let refused = run(&rig, &one, "c", "date >> log");
    let (rule, hint) = (refused["end"]["rule"].as_str().unwrap(), refused["end"]["hint"].as_str().unwrap());
    assert!(rule.contains("tenant `one` keeps 2 states") && hint.contains("max-count") && hint.contains("remove"), "{refused}");
    let made = rig.ask_as(&one, "POST", "/v1/sessions", "", Some("{}")).json();
    let session = made["session"].as_str().unwrap();
    for way in ["snapshots", "pause"] {
        let reply = rig.ask_as(&one, "POST", &format!("/v1/sessions/{session}/{way}"), "", Some("{}"));
        assert_eq!((reply.status, reply.code().as_str()), (403, "policy_refused"), "{way}: {reply:?}");
    }
    assert_eq!(rig.ask_as(&one, "GET", &format!("/v1/sessions/{session}"), "", None).status, 200, "a session that cannot be kept goes on");
    assert_eq!(run(&rig, &two, "c", "date >> log")["end"]["kind"], "exited");
    let kept = ids(&rig, &one);
    assert_eq!(kept.len(), 2);
    assert_eq!(rig.ask_as(&one, "DELETE", &format!("/v1/states/{}", kept[0]), "", None).status, 204);
    let snapshot = rig.ask_as(&one, "POST", &format!("/v1/sessions/{session}/snapshots"), "", Some("{}"));
    assert_eq!(snapshot.status, 201, "{snapshot:?}");
    assert_eq!(run(&rig, &one, "c", "date >> log")["end"]["kind"], "refused");
}

#[test]
fn the_bytes_of_a_tenant_are_bounded_too() {
    let rig = bounded();
    let key = rig.tenant("one");
    let report = run(&rig, &key, "a", "head -c 700000 /dev/urandom > large");
    assert_eq!(report["warnings"], json!([]), "{report}");
    let report = run(&rig, &key, "b", "head -c 700000 /dev/urandom > large");
    let warning = report["warnings"][0].as_str().unwrap();
    assert!(warning.contains("stays as it was") && warning.contains("may keep 2 of 1048576 bytes"), "{report}");
    assert_eq!((report["exit_status"].clone(), ids(&rig, &key).len()), (json!(123), 1), "{report}");
    // What replaces is counted in place of what it replaces.
    let report = run(&rig, &key, "a", "head -c 800000 /dev/urandom > large");
    assert_eq!((&report["warnings"], &report["exit_status"]), (&json!([]), &json!(0)), "{report}");
    let drafts =
        std::fs::read_dir(rig.home().states()).unwrap().flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with("draft"));
    assert_eq!(drafts.count(), 0, "what was not kept is gone");
}

#[test]
fn clients_of_e2b_are_told_as_well_and_what_cannot_be_kept_goes_on() {
    let rig = bounded();
    let sandbox = Sandbox::new(&rig);
    let path = |way: &str| format!("/sandboxes/{}/{way}", sandbox.id);
    for _ in 0..2 {
        let kept = control(&rig, &rig.e2b_key, "POST", &path("snapshots"), Some(&json!({})));
        assert_eq!(kept.status, 201, "{kept:?}");
    }
    for way in ["snapshots", "pause"] {
        let refused = control(&rig, &rig.e2b_key, "POST", &path(way), Some(&json!({})));
        assert!(refused.status == 400 && refused.message().contains("max-count"), "{way}: {refused:?}");
    }
    assert_eq!(sandbox.envd("GET", "/envs", "", b"").status, 200);
}
