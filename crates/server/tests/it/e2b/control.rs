//! The control plane: sandboxes made, listed, given time, told of.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::wire::{Sandbox, ask, control, until};
use crate::rig::{Rig, open, options};

fn get(rig: &Rig, path: &str) -> Value {
    let answered = control(rig, &rig.e2b_key, "GET", path, None);
    assert_eq!(answered.status, 200, "{path}: {answered:?}");
    answered.json()
}

fn ids(list: &Value) -> Vec<String> {
    list.as_array().unwrap().iter().map(|one| one["sandboxID"].as_str().unwrap().to_owned()).collect()
}

fn refused(rig: &Rig, body: &Value) -> (u16, String) {
    let answered = control(rig, &rig.e2b_key, "POST", "/v2/sandboxes", Some(body));
    assert_eq!(answered.json()["code"].as_u64(), Some(answered.status.into()), "{answered:?}");
    (answered.status, answered.message())
}

#[test]
fn a_sandbox_is_told_of_as_it_was_made() {
    let rig = Rig::new();
    let sandbox = Sandbox::with(&rig, json!({"metadata": {"mark": "a b"}, "envVars": {"MODE": "x"}, "allowInternetAccess": true}));
    let detail = get(&rig, &format!("/sandboxes/{}", sandbox.id));
    assert_eq!(
        (&detail["metadata"], &detail["state"], &detail["templateID"]),
        (&json!({"mark": "a b"}), &json!("running"), &json!("base"))
    );
    assert_eq!((&detail["envdAccessToken"], &detail["lifecycle"]["onTimeout"]), (&json!(sandbox.token), &json!("kill")));
    assert_eq!((&detail["memoryMB"], &detail["allowInternetAccess"]), (&json!(2048), &json!(false)), "a client's default is no ask");
    assert!(get(&rig, "/v2/sandboxes")[0]["envdAccessToken"].is_null(), "tokens are not listed");
    let connected = control(&rig, &rig.e2b_key, "POST", &format!("/v2/sandboxes/{}/connect", sandbox.id), Some(&json!({})));
    assert_eq!((connected.status, &connected.json()["envdAccessToken"]), (200, &json!(sandbox.token)));
    assert_eq!(connected.json()["domain"], format!("localhost:{}", rig.address.port()));
}

#[test]
fn lists_come_in_pages_by_what_was_asked() {
    let rig = Rig::new();
    let made: Vec<Sandbox<'_>> =
        ["a", "b", "a"].iter().map(|mark| Sandbox::with(&rig, json!({"metadata": {"mark": mark, "x": "1&2"}}))).collect();
    let id = |at: usize| made[at].id.clone();
    assert_eq!(ids(&get(&rig, "/v2/sandboxes")), [id(2), id(1), id(0)]);
    assert_eq!(ids(&get(&rig, "/v2/sandboxes?order=asc")), [id(0), id(1), id(2)]);
    assert_eq!(ids(&get(&rig, "/v2/sandboxes?metadata=mark%3Dc")), Vec::<String>::new());
    assert_eq!(ids(&get(&rig, "/v2/sandboxes?metadata=mark%3Da%26x%3D1%25262&state=running")), [id(2), id(0)]);
    assert_eq!(ids(&get(&rig, "/v2/sandboxes?state=paused")), Vec::<String>::new());
    assert_eq!(ids(&get(&rig, "/v2/sandboxes?template=code-interpreter-v1")), Vec::<String>::new());
    assert_eq!(ids(&get(&rig, "/v2/sandboxes?startedAfter=2999-01-01T00:00:00Z")), Vec::<String>::new());
    let detail = get(&rig, &format!("/sandboxes/{}", id(1)));
    assert_eq!(ids(&get(&rig, &format!("/v2/sandboxes?startedAfter={}", detail["startedAt"].as_str().unwrap())))[0], id(2));
    let first = control(&rig, &rig.e2b_key, "GET", "/v2/sandboxes?limit=2", None);
    let next = first.header("x-next-token").unwrap().to_owned();
    assert_eq!((ids(&first.json()), &next), (vec![id(2), id(1)], &id(1)));
    made[1].delete();
    let second = control(&rig, &rig.e2b_key, "GET", &format!("/v2/sandboxes?limit=2&nextToken={next}"), None);
    assert_eq!((ids(&second.json()), second.header("x-next-token")), (vec![id(0)], None), "although the last of the page is gone");
    for query in ["limit=0", "limit=101", "state=lost", "order=up", "startedAfter=soon"] {
        assert_eq!(control(&rig, &rig.e2b_key, "GET", &format!("/v2/sandboxes?{query}"), None).status, 400, "{query}");
    }
}

#[test]
fn time_is_set_or_made_longer_and_ends_a_sandbox() {
    let rig = Rig::new();
    let sandbox = Sandbox::with(&rig, json!({"timeout": 100}));
    let ends = || get(&rig, &format!("/sandboxes/{}", sandbox.id))["endAt"].as_str().unwrap().to_owned();
    let post =
        |path: &str, body: &Value| control(&rig, &rig.e2b_key, "POST", &format!("/sandboxes/{}/{path}", sandbox.id), Some(body)).status;
    let first = ends();
    assert_eq!((post("connect", &json!({"timeout": 10})), ends()), (200, first.clone()));
    assert_eq!(post("connect", &json!({"timeout": 500})), 200);
    let longer = ends();
    assert!(longer > first);
    assert_eq!((post("refreshes", &json!({"duration": 10})), ends()), (204, longer.clone()));
    assert_eq!(post("timeout", &json!({"timeout": 20})), 204);
    assert!(ends() < first);
    assert_eq!(post("timeout", &json!({"timeout": 90_000})), 400, "longer than the profile allows");
    assert_eq!(post("timeout", &json!({"timeout": -1})), 400);
    assert_eq!(post("timeout", &json!({"timeout": 0})), 204);
    until("it has ended", || control(&rig, &rig.e2b_key, "GET", &format!("/sandboxes/{}", sandbox.id), None).status == 404);
}

#[test]
fn what_cannot_be_had_is_refused_by_its_name() {
    let rig = Rig::new();
    let base = |more: Value| {
        let mut body = json!({"templateID": "base"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        refused(&rig, &body)
    };
    let (status, message) = base(json!({"timeout": 90_000}));
    assert!(status == 400 && message.contains("86400 s that the profile allows (limit `wall`)"), "{message}");
    let (status, message) = refused(&rig, &json!({"templateID": "none"}));
    assert!(status == 404 && message.contains("[templates] in ringfence.toml"), "{message}");
    for (more, word) in [
        (json!({"mcp": {"server": {}}}), "Failed to start MCP gateway"),
        (json!({"iam": {"tokens": {"a": {}}}}), "iam"),
        (json!({"volumeMounts": [{"name": "v", "path": "/v"}]}), "volumeMounts"),
        (json!({"envVars": {"A=B": "x"}}), "envVars"),
        (json!({"envVars": {"A": "x\u{0}"}}), "envVars"),
        (json!({"timeout": "long"}), "expected u64"),
    ] {
        let (status, message) = base(more);
        assert!(status == 400 && message.contains(word), "{word}: {status} {message}");
    }
    for (method, path) in [
        ("POST", "/v3/templates"),
        ("GET", "/templates/x/builds/y/status"),
        ("GET", "/volumes"),
        ("POST", "/volumes"),
        ("GET", "/secrets"),
        ("POST", "/secrets"),
    ] {
        let answered = control(&rig, &rig.e2b_key, method, path, None);
        assert_eq!(
            (answered.status, answered.json()["code"].as_u64(), answered.header("should-retry")),
            (501, Some(501), Some("false")),
            "{path}"
        );
    }
    let wrong = control(&rig, &format!("e2b_{}", "0".repeat(64)), "GET", "/v2/sandboxes", None);
    assert_eq!((wrong.status, wrong.json()["code"].as_u64()), (401, Some(401)));
}

#[test]
fn a_creation_that_is_asked_for_again_is_done_once() {
    let rig = Rig::new();
    let create = |key: &str, body: &Value| {
        let fields = format!("X-API-KEY: {}\r\nIdempotency-Key: {key}\r\nContent-Type: application/json\r\n", rig.e2b_key);
        ask(&rig, "POST", "/v2/sandboxes", &fields, body.to_string().as_bytes())
    };
    let body = json!({"templateID": "base", "timeout": 60});
    let first = create("one", &body);
    assert_eq!((first.status, create("one", &body).json()), (201, first.json()));
    assert_eq!(create("one", &json!({"templateID": "base", "timeout": 61})).status, 400, "another request");
    let other = create("two", &body).json()["sandboxID"].as_str().unwrap().to_owned();
    let id = first.json()["sandboxID"].as_str().unwrap().to_owned();
    assert_eq!(ids(&get(&rig, "/v2/sandboxes")), [other, id.clone()]);
    assert_eq!(create("three", &json!({"templateID": "none"})).status, 404);
    assert_eq!(create("three", &body).status, 201, "what came to nothing leaves its key free");
    control(&rig, &rig.e2b_key, "DELETE", &format!("/sandboxes/{id}"), None);
    assert_ne!(create("one", &body).json()["sandboxID"], id, "a sandbox that is gone is not told of again");
}

#[test]
fn templates_are_the_operators() {
    let folder = tempfile::tempdir().unwrap();
    let home = ringfence_store::Home::open(&folder.path().join("home")).unwrap();
    drop(open(&home));
    let settings = std::fs::read_to_string(home.settings()).unwrap();
    std::fs::write(home.settings(), settings + "\n[templates]\nmine = \"data-analysis\"\n").unwrap();
    let rig = Rig::over(folder, options());
    let sandbox = Sandbox::with(&rig, json!({"templateID": "mine", "timeout": 10}));
    assert_eq!(get(&rig, &format!("/sandboxes/{}", sandbox.id))["templateID"], "mine");
    assert_eq!(ids(&get(&rig, "/v2/sandboxes?template=mine")), std::slice::from_ref(&sandbox.id));
    let record = std::fs::read_to_string(rig.home().runs().join(&sandbox.id).join("events.jsonl")).unwrap();
    assert!(record.contains("\"profile\":\"data-analysis\""), "{record}");
}

#[test]
fn the_log_tells_the_commands_of_the_record() {
    let rig = Rig::new();
    let sandbox = Sandbox::new(&rig);
    sandbox.bash("echo told; exit 3").heard();
    sandbox.write("f", "x");
    let logs = get(&rig, &format!("/v2/sandboxes/{}/logs", sandbox.id))["logs"].clone();
    let messages: Vec<&str> = logs.as_array().unwrap().iter().map(|entry| entry["message"].as_str().unwrap()).collect();
    assert_eq!(
        messages,
        [
            "command 0 starts in /home/user: /bin/bash -c echo told; exit 3",
            "command 0 has ended: exit status 3",
            "file written from outside: /home/user/f, 1 bytes"
        ]
    );
    assert_eq!((&logs[0]["level"], &logs[1]["level"]), (&json!("info"), &json!("warn")));
    let old = get(&rig, &format!("/sandboxes/{}/logs?limit=1", sandbox.id));
    assert_eq!((old["logs"].as_array().unwrap().len(), old["logs"][0]["line"].as_str()), (1, Some(messages[0])));
    let last = get(&rig, &format!("/v2/sandboxes/{}/logs?direction=backward&limit=1", sandbox.id));
    assert_eq!(last["logs"][0]["message"], messages[2]);
    assert_eq!(control(&rig, &rig.e2b_key, "GET", &format!("/v2/sandboxes/{}/logs?limit=x", sandbox.id), None).status, 400);
}

#[test]
fn metrics_are_of_the_time_that_is_asked_for() {
    let rig = Rig::new();
    let sandbox = Sandbox::new(&rig);
    let metrics = |query: &str| get(&rig, &format!("/sandboxes/{}/metrics{query}", sandbox.id));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let point = metrics("")[0].clone();
    assert_eq!((point["memTotal"].as_u64(), point["diskTotal"].as_u64()), (Some(2 << 30), Some(4 << 30)), "{point}");
    assert!(point["timestampUnix"].as_u64().unwrap() >= now && point["cpuCount"].as_u64().unwrap() > 0);
    assert_eq!(metrics(&format!("?start={}&end={}", now - 60, now + 60)).as_array().unwrap().len(), 1);
    assert_eq!((metrics(&format!("?end={}", now - 60)), metrics(&format!("?start={}", now + 60))), (json!([]), json!([])));
    for query in ["?start=x", "?start=2&end=1"] {
        assert_eq!(control(&rig, &rig.e2b_key, "GET", &format!("/sandboxes/{}/metrics{query}", sandbox.id), None).status, 400, "{query}");
    }
    let inside = sandbox.envd("GET", "/metrics", "", b"").json();
    assert_eq!(inside["mem_total"], point["memTotal"]);
}

#[test]
fn what_a_sandbox_did_is_sealed_when_it_is_killed() {
    let rig = Rig::new();
    let sandbox = Sandbox::with(&rig, json!({"metadata": {"mark": "x"}}));
    sandbox.bash("true").heard();
    assert_eq!(sandbox.delete().status, 204);
    let view = rig.get(&format!("/v1/runs/{}", sandbox.id)).json();
    assert_eq!(view["end"], json!({"kind": "closed", "by": "request"}), "{view}");
    let bundle = rig.get(&format!("/v1/runs/{}/evidence", sandbox.id)).json();
    assert_eq!(bundle["verification"]["is_intact"], true);
    assert_eq!(ask(&rig, "GET", "/health", &sandbox.route(49983), b"").status, 502);
}
