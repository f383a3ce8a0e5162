//! What a client may ask of a sandbox's network: less than the profile allows, and never more.

use serde_json::{Value, json};

use super::wire::{Answer, Sandbox, ask, control, until};
use crate::rig::{Rig, open, options};

const PROFILE: &str = "
name = \"netted\"
summary = \"one host\"
user = \"user\"
execution = \"commands\"
tier = \"process\"

[files]
inputs = \"named\"
exports = [\"**\"]

[environment]
allow = [\"*\"]

[network]
allow = [\"https://api.example.com:443\", \"http://api.example.com:80\"]

[process]
spawn = \"any\"
kernel = \"default\"

[limits]
wall = \"10min\"
cpu = \"5min\"
memory = \"1GiB\"
processes = 128
output = \"4MiB\"
disk = \"1GiB\"
files = 50_000
open-files = 1024
artifacts = 1000
artifact-bytes = \"256MiB\"
network-bytes = \"1MiB\"
network-requests = 100
";

fn netted() -> Rig {
    let folder = tempfile::tempdir().unwrap();
    let home = ringfence_store::Home::open(&folder.path().join("home")).unwrap();
    drop(open(&home));
    std::fs::create_dir_all(home.root().join("profiles")).unwrap();
    std::fs::write(home.root().join("profiles/netted.toml"), PROFILE).unwrap();
    let settings = std::fs::read_to_string(home.settings()).unwrap();
    std::fs::write(home.settings(), settings + "\n[templates]\nnetted = \"netted\"\n").unwrap();
    Rig::over(folder, options())
}

fn create(rig: &Rig, template: &str, more: &Value) -> Answer {
    let mut body = json!({"templateID": template, "timeout": 30});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    control(rig, &rig.e2b_key, "POST", "/v2/sandboxes", Some(&body))
}

fn granted(rig: &Rig, more: &Value) -> Value {
    let mut asked = json!({"templateID": "netted", "timeout": 30});
    asked.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let sandbox = Sandbox::with(rig, asked);
    let detail = control(rig, &rig.e2b_key, "GET", &format!("/sandboxes/{}", sandbox.id), None).json();
    json!([detail["allowInternetAccess"], detail["network"]["allowPublicTraffic"]])
}

#[test]
fn less_can_be_asked_for() {
    let rig = netted();
    let everything = json!(["0.0.0.0/0"]);
    for (asked, has_network) in [
        (json!({}), true),
        (json!({"allowInternetAccess": true}), true),
        (json!({"allowInternetAccess": false}), false),
        (json!({"network": {"denyOut": everything}}), false),
        (json!({"network": {"allowOut": ["api.example.com"], "denyOut": everything}}), true),
        (json!({"network": {"dnsServers": [], "rules": {}, "maskRequestHost": null}}), true),
    ] {
        assert_eq!(granted(&rig, &asked), json!([has_network, true]), "{asked}");
    }
    assert_eq!(granted(&rig, &json!({"network": {"allowPublicTraffic": false}})), json!([true, false]));
}

#[test]
fn more_is_refused_with_the_rule() {
    let rig = netted();
    let beyond = create(&rig, "netted", &json!({"network": {"allowOut": ["other.example.com"], "denyOut": ["0.0.0.0/0"]}}));
    assert!(beyond.status == 400 && beyond.message().contains("other.example.com"), "{beyond:?}");
    let none = create(&rig, "base", &json!({"network": {"allowOut": ["api.example.com"], "denyOut": ["0.0.0.0/0"]}}));
    assert!(none.status == 400 && none.message().contains("api.example.com"), "{none:?}");
    for (network, name) in [
        (json!({"denyOut": ["10.0.0.0/8"]}), "denyOut"),
        (json!({"allowOut": ["0.0.0.0/0"]}), "allowOut"),
        (json!({"allowOut": ["1.1.1.1"]}), "allowOut"),
        (json!({"dnsServers": ["8.8.8.8"]}), "dnsServers"),
        (json!({"maskRequestHost": "a b"}), "maskRequestHost"),
        (json!({"httpsPorts": [8443]}), "httpsPorts"),
        (json!({"egressProxy": {"address": "x:1"}}), "egressProxy"),
        (json!({"rules": {"api.example.com": [{"transform": {"headers": {"A": "b"}}}]}}), "rules"),
        (json!({"somethingNew": true}), "somethingNew"),
    ] {
        let refused = create(&rig, "netted", &json!({"network": network}));
        assert!(refused.status == 400 && refused.message().contains(&format!("network.{name}")), "{network}: {refused:?}");
    }
}

#[test]
fn what_stands_keeps_its_network() {
    let rig = netted();
    let sandbox = Sandbox::with(&rig, json!({"templateID": "netted", "timeout": 30}));
    let change = |body: Value| control(&rig, &rig.e2b_key, "PUT", &format!("/sandboxes/{}/network", sandbox.id), Some(&body)).status;
    assert_eq!(change(json!({})), 204, "nothing is asked for");
    assert_eq!(change(json!({"denyOut": ["0.0.0.0/0"]})), 400);
    assert_eq!(change(json!({"allowOut": ["api.example.com"], "denyOut": ["0.0.0.0/0"]})), 400);
    assert_eq!(change(json!({"allow_internet_access": false})), 400);
    assert_eq!(change(json!({"maskRequestHost": "a.example"})), 400);
}

#[test]
fn programs_inside_see_the_host_that_a_client_names() {
    let rig = Rig::new();
    let sandbox = Sandbox::with(&rig, json!({"network": {"maskRequestHost": "front.example:${PORT}"}}));
    let detail = || control(&rig, &rig.e2b_key, "GET", &format!("/sandboxes/{}", sandbox.id), None).json()["network"].clone();
    assert_eq!(detail()["maskRequestHost"], "front.example:${PORT}");
    assert_eq!(seen(&sandbox), "front.example:8000");
    let post =
        |path: &str, body: &Value| control(&rig, &rig.e2b_key, "POST", &format!("/sandboxes/{}/{path}", sandbox.id), Some(body)).status;
    assert_eq!((post("pause", &json!({})), post("connect", &json!({"timeout": 60}))), (204, 201));
    assert_eq!(seen(&sandbox), "front.example:8000", "also when it goes on");
    let change = |host: &str| {
        let body = json!({ "maskRequestHost": host });
        control(&rig, &rig.e2b_key, "PUT", &format!("/sandboxes/{}/network", sandbox.id), Some(&body)).status
    };
    assert_eq!((change("front.example:${PORT}"), change("other.example")), (204, 400));
    let plain = Sandbox::new(&rig);
    assert_eq!(seen(&plain), "localhost:8000");
}

/// The host that a program inside is told, whatever the request said.
fn seen(sandbox: &Sandbox<'_>) -> String {
    let program = "import http.server
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(','.join(self.headers.get_all('Host')).encode())
http.server.HTTPServer(('', 8000), Page).serve_forever()";
    let mut server =
        sandbox.stream("process.Process/Start", "", &json!({"process": {"cmd": "python3", "args": ["-c", program]}, "stdin": false}));
    server.pid();
    let page = || ask(sandbox.rig, "GET", "/", &sandbox.route(8000), b"");
    until("the page", || page().status == 200);
    page().text()
}
