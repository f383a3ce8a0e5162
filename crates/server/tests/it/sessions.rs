//! Sessions by our own API: commands, files, code contexts, ports, and what is refused.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::rig::{Reply, Rig, parse};

/// A session, and what can be asked of it.
struct Standing<'r> {
    rig: &'r Rig,
    view: Value,
}

impl<'r> Standing<'r> {
    fn new(rig: &'r Rig, body: &Value) -> Self {
        let made = rig.post("/v1/sessions", body);
        assert_eq!(made.status, 201, "{made:?}");
        Self { rig, view: made.json() }
    }

    fn id(&self) -> &str {
        self.view["session"].as_str().unwrap()
    }

    fn path(&self, rest: &str) -> String {
        format!("/v1/sessions/{}{rest}", self.id())
    }

    fn post(&self, rest: &str, body: &Value) -> Reply {
        self.rig.post(&self.path(rest), body)
    }

    fn get(&self, rest: &str) -> Reply {
        self.rig.get(&self.path(rest))
    }

    fn delete(&self, rest: &str) -> Reply {
        self.rig.ask_as(&self.rig.key, "DELETE", &self.path(rest), "", None)
    }

    /// Sends a file as it is.
    fn put(&self, path: &str, content: &str) -> Reply {
        let path = self.path(&format!("/files?path={path}"));
        let (key, length) = (&self.rig.key, content.len());
        let head = format!(
            "PUT {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAuthorization: Bearer {key}\r\nContent-Type: application/octet-stream\r\nContent-Length: {length}\r\n\r\n{content}",
            self.rig.address
        );
        parse(&self.rig.say(head.as_bytes()))
    }

    /// Runs a command to its end.
    fn run(&self, script: &str) -> Value {
        let done = self.post("/commands?wait=true", &json!({"command": ["bash", "-c", script]}));
        assert_eq!(done.status, 201, "{done:?}");
        done.json()
    }
}

#[test]
fn a_session_has_commands_files_and_an_end() {
    let rig = Rig::new();
    let session = Standing::new(&rig, &json!({"env": {"MODE": "fast"}, "metadata": {"who": "me"}, "exports": ["out.*"]}));
    assert_eq!(
        (&session.view["user"], &session.view["home"], &session.view["profile"]),
        (&json!("user"), &json!("/home/user"), &json!("base"))
    );
    let done = session.run("echo $MODE; pwd; echo oh >&2; exit 3");
    assert_eq!(
        (&done["stdout"], &done["stderr"], &done["exit_status"]),
        (&json!("fast\n/home/user\n"), &json!("oh\n"), &json!(3)),
        "{done}"
    );
    assert_eq!(session.put("sub/in.txt", "hello").json()["bytes"], 5);
    assert_eq!(session.run("cat sub/in.txt; echo made > out.txt")["stdout"], "hello");
    assert_eq!(session.get("/files?path=sub/in.txt").body, "hello");
    assert_eq!(session.get("/files/stat?path=sub").json()["kind"], "directory");
    let listed = session.get("/files/list?depth=2").json();
    let names: Vec<&str> = listed["files"].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap()).collect();
    assert_eq!(names, ["/home/user/out.txt", "/home/user/sub", "/home/user/sub/in.txt"]);
    assert_eq!(session.post("/files/folder", &json!({"path": "new/er"})).status, 201);
    assert_eq!(session.post("/files/folder", &json!({"path": "new/er"})).code(), "conflict");
    assert_eq!(session.post("/files/move", &json!({"from": "sub/in.txt", "to": "new/er/a"})).json()["path"], "/home/user/new/er/a");
    assert_eq!((session.delete("/files?path=new").status, session.get("/files/stat?path=new").code()), (204, "not_found".into()));
    assert_eq!(session.put("/usr/bin/x", "y").code(), "file_denied");
    // Root sees a file that is none of the sandbox's, an ordinary user none at all.
    assert!(["invalid_value", "not_found"].contains(&session.get("/files?path=/proc/1/environ").code().as_str()));
    let shown = session.get("").json();
    assert_eq!((&shown["metadata"]["who"], &shown["commands_running"]), (&json!("me"), &json!(0)));
    let run = format!("/v1/runs/{}", session.id());
    assert_eq!(rig.get(&run).json()["state"], "running", "a session is a run");
    let report = session.delete("").json();
    assert_eq!(
        (&report["end"], &report["artifacts"][0]["path"]),
        (&json!({"kind": "closed", "by": "request"}), &json!("out.txt")),
        "{report}"
    );
    assert_eq!((session.get("").code(), &rig.get(&run).json()["state"]), ("not_found".into(), &json!("closed")));
    let events = rig.get(&format!("{run}/events")).body;
    for event in ["command_starting", "command_ended", "file_received", "file_sent", "file_changed", "artifact_exported"] {
        assert!(events.contains(&format!("\"event\":\"{event}\"")), "{event}: {events}");
    }
}

#[test]
fn commands_are_fed_followed_and_signalled() {
    let rig = Rig::new();
    let session = Standing::new(&rig, &json!({}));
    let begun = session.post("/commands", &json!({"command": ["cat"], "open_stdin": true, "tag": "reader"}));
    assert_eq!(begun.status, 202, "{begun:?}");
    assert!(begun.json()["pid"].as_i64().unwrap() > 1);
    assert_eq!(session.post("/commands/0/stdin", &json!({"text": "one\n"})).status, 200);
    assert_eq!(session.post("/commands/0/stdin", &json!({"base64": "AP8K", "end": true})).status, 200);
    let said = session.get("/commands/0/output").body;
    assert_eq!(data_of(&said), b"one\n\x00\xff\n");
    assert!(said.contains("event: started") && said.ends_with("\n\n") && said.contains("\"exit_status\":0"), "{said}");
    let again = rig.ask_as(&rig.key, "GET", &session.path("/commands/0/output"), "Last-Event-ID: 1\r\n", None).body;
    assert!(!again.contains("id: 1\n") && again.contains("event: ended"), "{again}");
    assert_eq!(session.post("/commands/0/stdin", &json!({"text": "x"})).code(), "conflict");
    session.post("/commands", &json!({"command": ["sleep", "83"]}));
    assert_eq!(session.post("/commands/1/signal", &json!({"signal": "TERM"})).status, 200);
    assert!(session.get("/commands/1/output").body.contains("SIGTERM"));
    let late = session.post("/commands?wait=true", &json!({"command": ["sleep", "83"], "timeout": 1})).json();
    assert_eq!((&late["is_out_of_time"], &late["exit_status"]), (&json!(true), &json!(137)));
    let terminal =
        session.post("/commands", &json!({"command": ["bash", "-c", "read x; stty size"], "terminal": {"rows": 24, "columns": 80}}));
    assert_eq!(terminal.status, 202);
    assert_eq!(session.post("/commands/3/terminal", &json!({"rows": 50, "columns": 100})).status, 200);
    session.post("/commands/3/stdin", &json!({"text": "\n"}));
    let said = session.get("/commands/3/output").body;
    assert!(data_of(&said).ends_with(b"50 100\r\n"), "{said}");
    assert_eq!(session.get("/commands").json()["commands"].as_array().unwrap().len(), 4);
    assert_eq!(session.get("/commands/9").code(), "not_found");
    assert_eq!(session.post("/commands?wait=true", &json!({"command": ["/nothing"]})).json()["end"]["step"], "exec");
}

/// What a command wrote, of the events that tell of it.
fn data_of(events: &str) -> Vec<u8> {
    let data = events.lines().filter_map(|line| line.strip_prefix("data: "));
    let pieces =
        data.filter_map(|data| serde_json::from_str::<Value>(data).unwrap()["base64"].as_str().map(|text| STANDARD.decode(text).unwrap()));
    pieces.collect::<Vec<_>>().concat()
}

#[test]
fn cells_keep_their_state() {
    let rig = Rig::new();
    let session = Standing::new(&rig, &json!({}));
    let context = session.post("/contexts", &json!({"language": "python"})).json()["context"].as_str().unwrap().to_owned();
    let cell = |code: &str| session.post(&format!("/contexts/{context}/execute"), &json!({"code": code})).body;
    assert!(cell("x = 20\nprint('hi')").contains("hi"));
    assert!(cell("x + 1").contains("\"text\":\"21\""));
    assert!(cell("1/0").contains("ZeroDivisionError"));
    assert_eq!(session.post(&format!("/contexts/{context}/restart"), &json!({})).status, 200);
    assert!(cell("x").contains("NameError"));
    assert_eq!(session.get("/contexts").json()["contexts"].as_array().unwrap().len(), 1);
    assert_eq!(session.delete(&format!("/contexts/{context}")).status, 204);
    assert_eq!(session.delete(&format!("/contexts/{context}")).code(), "not_found");
    assert_eq!(session.post("/contexts", &json!({"language": "cobol"})).code(), "invalid_value");
}

#[test]
fn ports_are_reached_with_their_token() {
    let rig = Rig::new();
    let session = Standing::new(&rig, &json!({}));
    let server = "import http.server; http.server.test(http.server.SimpleHTTPRequestHandler, port=8000, bind='127.0.0.1')";
    session.put("page.txt", "from inside");
    session.post("/commands", &json!({"command": ["python3", "-c", server]}));
    let token = session.view["port_token"].as_str().unwrap().to_owned();
    let ask = |fields: &str, port: u16| {
        let host = format!("{port}-{}.localhost", session.id());
        parse(&rig.say(format!("GET /page.txt HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{fields}\r\n").as_bytes()))
    };
    let with = format!("E2B-Traffic-Access-Token: {token}\r\n");
    let answered = (0..100).map(|_| ask(&with, 8000)).find(|reply| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        reply.status == 200
    });
    assert_eq!(answered.unwrap().body, "from inside");
    assert_eq!((ask("", 8000).status, ask(&with, 8001).status), (403, 502));
    assert!(ask(&with, 8001).body.contains("port is not open"));
    let open = Standing::new(&rig, &json!({"public_ports": true}));
    let host = format!("8000-{}.localhost", open.id());
    let reply = parse(&rig.say(format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes()));
    assert_eq!(reply.status, 502, "{reply:?}");
}

#[test]
fn files_are_kept_by_snapshot_by_pause_and_by_name() {
    let rig = Rig::new();
    let session = Standing::new(&rig, &json!({}));
    session.run("echo one > a; mkdir -p /tmp/x; echo two > /tmp/x/b");
    let kept = session.post("/snapshots", &json!({})).json();
    session.run("echo changed > a");
    let other = Standing::new(&rig, &json!({"from": kept["state"]}));
    assert_eq!(other.run("cat a /tmp/x/b")["stdout"], "one\ntwo\n");
    let report = session.post("/pause", &json!({})).json();
    assert_eq!(report["end"], json!({"kind": "closed", "by": "pause"}), "{report}");
    let states = rig.get("/v1/states").json();
    let kinds: Vec<&str> = states["states"].as_array().unwrap().iter().map(|state| state["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["snapshot", "paused"]);
    let again = Standing::new(&rig, &json!({"from": states["states"][1]["state"]}));
    assert_eq!(again.run("cat a")["stdout"], "changed\n");
    let place = format!("/v1/states/{}", kept["state"].as_str().unwrap());
    assert_eq!(rig.ask_as(&rig.tenant("other"), "GET", &place, "", None).code(), "not_found");
    assert_eq!(rig.ask_as(&rig.key, "DELETE", &place, "", None).status, 204);
    assert_eq!(
        (rig.get(&place).code(), rig.post("/v1/sessions", &json!({"from": kept["state"]})).code()),
        ("not_found".into(), "invalid_value".into())
    );
    let named = Standing::new(&rig, &json!({"state": "book"}));
    named.run("echo kept > n");
    assert_eq!(rig.post("/v1/sessions", &json!({"state": "book"})).code(), "policy_refused", "one at a time");
    assert_eq!(named.delete("").status, 200);
    let report = rig.run(&json!({"command": ["cat", "n"], "state": "book", "profile": "base"}));
    assert_eq!(report["stdout"], "kept\n", "{report}");
}

#[test]
fn what_cannot_be_had_is_a_problem_with_its_rule() {
    let rig = Rig::new();
    let refused = |body: Value| {
        let reply = rig.post("/v1/sessions", &body);
        (reply.code(), reply.json()["detail"].as_str().unwrap_or_default().to_owned())
    };
    let (code, detail) = refused(json!({"allow": ["example.com:443"]}));
    assert!(code == "policy_refused" && detail.contains("rule of the"), "{detail}");
    assert_eq!(refused(json!({"profile": "no-code"})).0, "policy_refused");
    assert_eq!(refused(json!({"profile": "nothing"})).0, "invalid_value");
    assert_eq!(refused(json!({"tier": "gvisor"})).0, "policy_refused");
    assert_eq!(refused(json!({"surprise": 1})).0, "invalid_request");
    let other = rig.tenant("other");
    let session = Standing::new(&rig, &json!({}));
    for (method, rest) in [("GET", ""), ("DELETE", ""), ("GET", "/commands"), ("GET", "/files/list"), ("GET", "/contexts")] {
        assert_eq!(rig.ask_as(&other, method, &session.path(rest), "", None).code(), "not_found", "{method} {rest}");
    }
    assert_eq!(rig.ask_as(&other, "GET", "/v1/sessions", "", None).json()["sessions"], json!([]));
    assert_eq!(session.post("/timeout", &json!({"timeout": 1000})).status, 200);
    assert_eq!(session.post("/timeout", &json!({"timeout": 1})).status, 200);
    std::thread::sleep(std::time::Duration::from_millis(1600));
    assert_eq!(session.get("").code(), "not_found");
    let view = rig.get(&format!("/v1/runs/{}", session.id())).json();
    assert_eq!(view["end"], json!({"kind": "closed", "by": "timeout"}));
}

#[test]
fn a_server_that_stops_seals_its_sessions() {
    let mut rig = Rig::new();
    let session = Standing::new(&rig, &json!({}));
    session.post("/commands", &json!({"command": ["sleep", "83"]}));
    let id = session.id().to_owned();
    rig.stop().unwrap();
    let home = rig.home();
    let text = std::fs::read_to_string(home.runs().join(&id).join("events.jsonl")).unwrap();
    assert!(text.trim_end().lines().last().unwrap().contains("\"by\":\"shutdown\""), "{text}");
    assert!(home.runs().join(&id).join("statement.dsse.json").exists());
    assert_eq!(std::fs::read_dir(home.live()).unwrap().count(), 0);
}
