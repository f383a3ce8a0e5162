//! Two tenants of one home.

use ringfence_control::{Attachments, OutputTo, Progress, RunRequest, find_profile};
use ringfence_policy::AgentId;
use ringfence_store::Clients;
use serde_json::{Value, json};

use crate::rig::{Rig, open};

fn names(list: &Value) -> Vec<String> {
    list["runs"].as_array().unwrap().iter().map(|run| run["run"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn each_sees_its_own_and_the_other_is_not_there() {
    let rig = Rig::new();
    let (one, two) = (rig.tenant("one"), rig.tenant("two"));
    let body = json!({"command": ["sh", "-c", "echo secret-of-one > r.txt"], "exports": ["r.txt"]}).to_string();
    let report = rig.ask_as(&one, "POST", "/v1/runs?wait=true", "", Some(&body)).json();
    let (run, artifact) = (report["run"].as_str().unwrap(), report["artifacts"][0]["sha256"].as_str().unwrap());
    let unknown = "01kbdz9xk3v8p5r0q2n7m4t6w1";
    for path in ["", "/events", "/evidence", "/artifacts"] {
        assert_eq!(rig.ask_as(&one, "GET", &format!("/v1/runs/{run}{path}"), "", None).status, 200, "{path}");
        for key in [&two, &rig.key] {
            let other = rig.ask_as(key, "GET", &format!("/v1/runs/{run}{path}"), "", None);
            let none = rig.ask_as(key, "GET", &format!("/v1/runs/{unknown}{path}"), "", None);
            assert_eq!((other.status, other.body.replace(run, unknown)), (404, none.body), "{path}");
        }
    }
    assert_eq!(rig.ask_as(&two, "POST", &format!("/v1/runs/{run}/cancel"), "", None).status, 404);
    assert_eq!(rig.ask_as(&one, "POST", &format!("/v1/runs/{run}/cancel"), "", None).code(), "conflict");
    assert_eq!(rig.ask_as(&one, "GET", &format!("/v1/artifacts/{artifact}"), "", None).body, "secret-of-one\n");
    assert_eq!(rig.ask_as(&two, "GET", &format!("/v1/artifacts/{artifact}"), "", None).code(), "not_found");
    let input = json!({"command": ["true"], "inputs": [{"name": "x", "artifact": artifact}]}).to_string();
    assert_eq!(rig.ask_as(&two, "POST", "/v1/runs", "", Some(&input)).status, 422);
    let input = json!({"command": ["cat", "/inputs/x"], "inputs": [{"name": "x", "artifact": artifact}]}).to_string();
    assert_eq!(rig.ask_as(&one, "POST", "/v1/runs?wait=true", "", Some(&input)).json()["stdout"], "secret-of-one\n");
    let promotion = json!({"artifact": artifact, "target": "main"}).to_string();
    let (theirs, ours) = (
        rig.ask_as(&two, "POST", "/v1/promotions", "", Some(&promotion)),
        rig.ask_as(&one, "POST", "/v1/promotions", "", Some(&promotion)),
    );
    assert!(theirs.status == 422 && theirs.body.contains("no run here made"), "{theirs:?}");
    assert!(ours.status == 422 && ours.body.contains("no target"), "{ours:?}");
    assert_eq!(names(&rig.ask_as(&two, "GET", "/v1/runs", "", None).json()), Vec::<String>::new());
    assert_eq!(names(&rig.ask_as(&one, "GET", "/v1/runs", "", None).json()).len(), 2);
}

#[test]
fn a_run_under_way_is_its_tenants_alone() {
    let rig = Rig::new();
    let (one, two) = (rig.tenant("one"), rig.tenant("two"));
    let body = json!({"command": ["sleep", "60"]}).to_string();
    let begun = rig.ask_as(&one, "POST", "/v1/runs", "", Some(&body));
    assert_eq!(begun.status, 202, "{begun:?}");
    let run = begun.json()["run"].as_str().unwrap().to_owned();
    assert_eq!(begun.header("location"), Some(format!("/v1/runs/{run}").as_str()));
    for (key, status) in [(&one, 200), (&two, 404), (&rig.key, 404)] {
        for path in ["", "/events", "/artifacts"] {
            assert_eq!(rig.ask_as(key, "GET", &format!("/v1/runs/{run}{path}"), "", None).status, status, "{path}");
        }
    }
    assert_eq!(names(&rig.ask_as(&one, "GET", "/v1/runs?state=running", "", None).json()), std::slice::from_ref(&run));
    assert!(names(&rig.ask_as(&two, "GET", "/v1/runs", "", None).json()).is_empty());
    assert_eq!(rig.ask_as(&two, "POST", &format!("/v1/runs/{run}/cancel"), "", None).status, 404);
    assert_eq!(rig.ask_as(&one, "POST", &format!("/v1/runs/{run}/cancel"), "", None).status, 202);
}

struct Silent;

impl Progress for Silent {
    fn tell(&mut self, _: &str, _: u64) {}

    fn warn(&mut self, _: &str) {}
}

#[test]
fn what_the_command_line_ran_is_seen_by_the_first_tenant() {
    let rig = Rig::new();
    let other = rig.tenant("other");
    let runner = open(&rig.home());
    let request = RunRequest::bare(find_profile(&rig.home(), "data-analysis").unwrap(), AgentId::local(), vec!["true".into()]);
    let report = runner.run(&request, Attachments { output: OutputTo::Report, progress: &mut Silent, cancel: None }).unwrap();
    assert_eq!(names(&rig.get("/v1/runs").json()), std::slice::from_ref(&report.run));
    assert_eq!(rig.get(&format!("/v1/runs/{}", report.run)).json()["end"], json!({"kind": "exited", "code": 0}));
    assert!(names(&rig.ask_as(&other, "GET", "/v1/runs", "", None).json()).is_empty());
    let events = std::fs::read_to_string(rig.home().runs().join(&report.run).join("events.jsonl")).unwrap();
    assert!(!events.contains("tenant"), "a record of the command line is what it was before there were tenants: {events}");
}

#[test]
fn a_tenant_uses_its_own_agents() {
    let rig = Rig::new();
    let mut clients = Clients::open(&rig.home()).unwrap();
    clients.add_tenant("acme", &["report-writer".into()]).unwrap();
    let key = clients.add_key("acme", ringfence_store::KeyKind::Api).unwrap().unwrap();
    let ask = |body: Value| rig.ask_as(key.expose(), "POST", "/v1/runs", "", Some(&body.to_string()));
    assert_eq!(ask(json!({"command": ["true"], "agent": "me"})).code(), "agent_not_allowed");
    assert_eq!(ask(json!({"command": ["true"]})).code(), "agent_refused");
    assert_eq!(rig.ask_as(key.expose(), "GET", "/v1/agents", "", None).json()["agents"], json!([]));
    assert_eq!(rig.ask_as(key.expose(), "GET", "/v1/agents/me", "", None).status, 404);
}
