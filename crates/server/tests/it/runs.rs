//! Runs from the request to the record.

use std::io::{BufRead, BufReader, Write};

use ringfence_evidence::{PublicKey, verify};
use serde_json::{Value, json};

use crate::rig::Rig;

#[test]
fn a_run_goes_the_same_line_as_on_the_command_line() {
    let rig = Rig::new();
    let program = "import os\nprint(input(), os.environ['MODE'], open('/inputs/a b').read())\nopen('r.txt', 'w').write('made')";
    let report = rig.run(&json!({
        "command": ["python3", "-c", program], "profile": "data-analysis", "agent": "me", "env": {"MODE": "fast"}, "limits": {"memory": "256MiB"},
        "stdin": "hello", "inputs": [{"name": "a b", "content": "x"}, {"name": "z", "content_base64": "//4A"}], "exports": ["r.*"],
    }));
    assert_eq!((&report["stdout"], &report["end"]), (&json!("hello fast x\n"), &json!({"kind": "exited", "code": 0})), "{report}");
    let run = report["run"].as_str().unwrap();
    let view = rig.get(&format!("/v1/runs/{run}")).json();
    assert_eq!((&view["state"], &view["report"], &view["evidence"]), (&json!("exited"), &report, &report["evidence"]));
    let artifacts = rig.get(&format!("/v1/runs/{run}/artifacts")).json();
    let digest = artifacts["artifacts"][0]["sha256"].as_str().unwrap();
    let fetched = rig.get(&format!("/v1/artifacts/{digest}"));
    assert_eq!((fetched.body.as_str(), fetched.header("content-disposition")), ("made", Some("attachment")));
    let bundle = rig.get(&format!("/v1/runs/{run}/evidence")).json();
    assert_eq!(bundle["verification"]["is_intact"], true);
    let key = PublicKey::from_pem(bundle["public_key"].as_str().unwrap()).unwrap();
    let text = |name: &str| bundle[name].as_str().unwrap().as_bytes().to_vec();
    let verified = verify(&text("events"), &text("statement"), &key).unwrap();
    assert_eq!(verified.digest.to_string(), report["evidence"].as_str().unwrap());
    assert_eq!(serde_json::to_value(&verified.lines[0].event).unwrap()["tenant"], "default");
    assert_eq!(std::fs::read_dir(rig.home().work()).unwrap().count(), 0, "what was handed over goes with the run");
}

#[test]
fn how_a_run_ended_is_told() {
    let rig = Rig::new();
    for (body, state) in [
        (json!({"command": ["sh", "-c", "exit 3"]}), "exited"),
        (json!({"command": ["sh", "-c", "kill -9 $$"]}), "signaled"),
        (json!({"command": ["sleep", "9"], "limits": {"wall": "200ms"}}), "limit"),
        (json!({"command": ["true"], "tier": "gvisor"}), "refused"),
        (json!({"command": ["true"], "allow": ["example.com:443"]}), "refused"),
        (json!({"command": ["/nothing"]}), "failed"),
    ] {
        let report = rig.run(&body);
        assert_eq!(report["end"]["kind"], state, "{body}");
        let list = rig.get(&format!("/v1/runs?state={state}&limit=1")).json();
        assert_eq!(list["runs"][0]["run"], report["run"], "{body}");
    }
    let first = rig.get("/v1/runs?limit=2").json();
    let second = rig.get(&format!("/v1/runs?limit=10&before={}", first["next"].as_str().unwrap())).json();
    assert_eq!((first["runs"].as_array().unwrap().len(), second["runs"].as_array().unwrap().len(), &second["next"]), (2, 4, &Value::Null));
    let metrics = rig.get("/metrics").body;
    assert!(metrics.contains("ringfence_runs_total{end=\"refused\"} 2\n"), "{metrics}");
}

#[test]
fn the_same_request_is_done_once() {
    let rig = Rig::new();
    let ask = |key: &str, body: Value| {
        rig.ask_as(&rig.key, "POST", "/v1/runs?wait=true", &format!("Idempotency-Key: {key}\r\n"), Some(&body.to_string()))
    };
    let first = ask("a", json!({"command": ["true"]}));
    let again = ask("a", json!({"command": ["true"]}));
    assert_eq!((first.status, &first.body, first.header("location")), (201, &again.body, again.header("location")));
    assert_eq!(ask("a", json!({"command": ["false"]})).code(), "idempotency_mismatch");
    assert_eq!(ask("b", json!({"command": []})).code(), ask("b", json!({"command": []})).code());
    assert_eq!(rig.get("/v1/runs").json()["runs"].as_array().unwrap().len(), 1);
    assert_ne!(ask("c", json!({"command": ["true"]})).json()["run"], first.json()["run"]);
    let long = "k".repeat(256);
    for bad in ["", long.as_str(), "a\r\nIdempotency-Key: b"] {
        assert_eq!(ask(bad, json!({"command": ["true"]})).status, 400, "{bad}");
    }
    let both: Vec<_> = std::thread::scope(|scope| {
        let begun: Vec<_> = (0..4).map(|_| scope.spawn(|| ask("d", json!({"command": ["sleep", "0.5"]})))).collect();
        begun.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let made = both.iter().filter(|reply| reply.status == 201).count();
    assert!(made >= 1 && both.iter().all(|reply| reply.status == 201 || reply.code() == "idempotency_in_flight"), "{both:?}");
    assert_eq!(rig.get("/v1/runs").json()["runs"].as_array().unwrap().len(), 3);
}

#[test]
fn a_run_is_followed_and_stopped() {
    let rig = Rig::new();
    let begun = rig.post("/v1/runs", &json!({"command": ["sleep", "60"]})).json();
    let run = begun["run"].as_str().unwrap().to_owned();
    let mut stream = rig.connect();
    let head = format!(
        "GET /v1/runs/{run}/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nAccept: text/event-stream\r\nConnection: close\r\n\r\n",
        rig.key
    );
    stream.write_all(head.as_bytes()).unwrap();
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    let mut names = Vec::new();
    for line in lines {
        if let Some(name) = line.strip_prefix("event: ") {
            names.push(name.to_owned());
            if name == "command_starting" {
                assert_eq!(rig.ask_as(&rig.key, "GET", &format!("/v1/runs/{run}/evidence"), "", None).code(), "conflict");
                assert_eq!(rig.ask_as(&rig.key, "POST", &format!("/v1/runs/{run}/cancel"), "", None).status, 202);
            }
        }
    }
    assert_eq!(
        (names.first().map(String::as_str), names.last().map(String::as_str)),
        (Some("run_requested"), Some("run_ended")),
        "{names:?}"
    );
    let view = (0..100).map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        rig.get(&format!("/v1/runs/{run}")).json()
    });
    let view = view.into_iter().find(|view| view["state"] != "running").unwrap();
    assert_eq!(view["end"], json!({"kind": "failed", "step": "interrupted", "cause": "SIGTERM"}), "{view}");
    let events = rig.get(&format!("/v1/runs/{run}/events?after=1&limit=2")).json();
    assert_eq!((&events["events"][0]["seq"], &events["next"]), (&json!(2), &json!(3)), "{events}");
    let fields = format!("Accept: text/event-stream\r\nLast-Event-ID: {}\r\n", names.len() - 2);
    let rest = rig.ask_as(&rig.key, "GET", &format!("/v1/runs/{run}/events"), &fields, None).body;
    assert!(rest.contains(&format!("id: {}\nevent: run_ended\n", names.len() - 1)) && rest.matches("id: ").count() == 1, "{rest}");
}

#[test]
fn a_secret_in_a_variable_does_not_stand_in_the_record() {
    let rig = Rig::new();
    let report = rig.run(&json!({"command": ["echo", "hunter2hunter2"], "env": {"API_TOKEN": "hunter2hunter2"}, "profile": "base"}));
    let bundle = rig.get(&format!("/v1/runs/{}/evidence", report["run"].as_str().unwrap()));
    assert!(!bundle.body.contains("hunter2"), "{}", bundle.body);
}

#[test]
fn an_artifact_that_was_changed_is_not_served_as_if_it_were_whole() {
    let rig = Rig::new();
    let report = rig.run(&json!({"command": ["sh", "-c", "head -c 300000 /dev/zero > z"], "exports": ["z"]}));
    let digest = report["artifacts"][0]["sha256"].as_str().unwrap();
    let hex = digest.trim_start_matches("sha256:");
    let path = rig.home().root().join("artifacts").join(&hex[..2]).join(&hex[2..]);
    assert_eq!(rig.get(&format!("/v1/artifacts/{digest}")).body.len(), 300_000);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[7] = 1;
    std::fs::write(&path, bytes).unwrap();
    assert!(rig.get(&format!("/v1/artifacts/{digest}")).body.len() < 300_000);
}
