//! Processes: started, heard, fed, signalled, ended.

use serde_json::{Value, json};

use super::wire::{ENVD, Sandbox, ask, encoded, envelope, until};
use crate::rig::Rig;

fn selected(pid: i64, more: &Value) -> Value {
    let mut body = json!({"process": {"pid": pid}});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

#[test]
fn a_stream_tells_the_start_then_output_then_the_end() {
    let rig = Rig::new();
    let sandbox = Sandbox::with(&rig, json!({"envVars": {"MODE": "box"}}));
    let mut stream = sandbox.bash("echo $MODE; echo err >&2");
    assert!(stream.pid() > 0);
    let heard = stream.heard();
    assert_eq!((heard.stdout.as_str(), heard.stderr.as_str(), &heard.last), ("box\n", "err\n", &json!({})));
    assert_eq!(heard.end, json!({"exited": true, "status": "exit status 0"}));
    let failed = sandbox.bash("exit 3").heard().end;
    assert_eq!(failed, json!({"exitCode": 3, "exited": true, "status": "exit status 3", "error": "exit status 3"}));
    let own = sandbox.stream(
        "process.Process/Start",
        "",
        &json!({"process": {"cmd": "/bin/sh", "args": ["-c", "echo $MODE; pwd"], "envs": {"MODE": "own"}, "cwd": "/tmp"}, "stdin": false}),
    );
    assert_eq!({ own }.heard().stdout, "own\n/tmp\n");
    assert_eq!(sandbox.envd("GET", "/envs", "", b"").json(), json!({"MODE": "box"}));
}

#[test]
fn folders_are_looked_at_first_and_may_be_relative() {
    let rig = Rig::new();
    let sandbox = Sandbox::new(&rig);
    sandbox.write("d/f", "x");
    let at = |cwd: &str| sandbox.stream("process.Process/Start", "", &json!({"process": {"cmd": "/bin/pwd", "cwd": cwd}}));
    assert_eq!(at("d").heard().stdout, "/home/user/d\n");
    assert_eq!(at("~/d").heard().stdout, "/home/user/d\n");
    for (cwd, message) in [("/none", "cwd '/none' does not exist"), ("d/f", "cwd 'd/f' is not a directory")] {
        let last = at(cwd).heard().last;
        assert_eq!(last["error"], json!({"code": "invalid_argument", "message": message}));
    }
}

#[test]
fn there_is_one_user() {
    let rig = Rig::new();
    let sandbox = Sandbox::new(&rig);
    let user = |name: &str| format!("Authorization: Basic {}\r\n", encoded(&format!("{name}:")));
    assert_eq!(sandbox.bash_with("id -un", &user("user"), &json!({})).heard().stdout, "user\n");
    for name in ["root", "nobody"] {
        let last = sandbox.bash_with("id -un", &user(name), &json!({})).heard().last;
        assert_eq!(last["error"]["code"], "unauthenticated", "{last}");
        assert!(last["error"]["message"].as_str().unwrap().contains(name), "{last}");
        assert_eq!(sandbox.call_with("filesystem.Filesystem/Stat", &user(name), &json!({"path": "."})).status, 401);
        assert_eq!(sandbox.envd("GET", &format!("/files?path=.&username={name}"), "", b"").status, 401);
    }
}

#[test]
fn a_deadline_kills_the_command_and_nothing_else() {
    let rig = Rig::new();
    let sandbox = Sandbox::new(&rig);
    let mut stream = sandbox.bash_with("sleep 30 & wait", "Connect-Timeout-Ms: 300\r\n", &json!({}));
    assert_eq!(stream.error(), "deadline_exceeded");
    until("nothing runs", || sandbox.call("process.Process/List", &json!({})).json() == json!({"processes": []}));
    assert_eq!(sandbox.bash("echo on").heard().stdout, "on\n");
    assert_eq!(sandbox.bash_with("echo on", "Connect-Timeout-Ms: 0\r\n", &json!({})).heard().stdout, "on\n", "zero is no limit");
}

#[test]
fn a_stream_is_kept_alive_and_a_client_that_goes_away_ends_nothing() {
    let rig = Rig::new();
    let sandbox = Sandbox::new(&rig);
    let mut stream = sandbox.bash_with("sleep 1.6; echo done > f; sleep 30", "Keepalive-Ping-Interval: 1\r\n", &json!({}));
    let pid = stream.pid();
    assert_eq!(stream.event(), json!({"keepalive": {}}));
    drop(stream);
    until("the command goes on", || sandbox.read("f") == "done\n");
    assert_eq!(sandbox.call("process.Process/List", &json!({})).json()["processes"][0]["pid"], pid);
}

#[test]
fn a_process_is_found_again_by_its_number_and_by_its_tag() {
    let rig = Rig::new();
    let sandbox = Sandbox::new(&rig);
    let mut stream = sandbox.bash_with("echo first; read go; echo second; exit 4", "", &json!({"tag": "mine", "stdin": true}));
    let pid = stream.pid();
    stream.until("first");
    let connect = |selector: Value| sandbox.stream("process.Process/Connect", "", &json!({"process": selector}));
    let (mut by_pid, mut by_tag) = (connect(json!({"pid": pid})), connect(json!({"tag": "mine"})));
    assert_eq!((by_pid.pid(), by_tag.pid()), (pid, pid));
    assert_eq!(sandbox.call("process.Process/List", &json!({})).json()["processes"][0]["tag"], "mine");
    let sent = sandbox.call("process.Process/SendInput", &selected(pid, &json!({"input": {"stdin": encoded("go\n")}})));
    assert_eq!((sent.status, sent.json()), (200, json!({})));
    for heard in [by_pid.heard(), by_tag.heard(), stream.heard()] {
        assert_eq!((heard.stdout.as_str(), &heard.end["exitCode"]), ("second\n", &json!(4)), "{heard:?}");
    }
    let mut late = connect(json!({"tag": "mine"}));
    assert_eq!((late.pid(), late.heard().end["exitCode"].clone()), (pid, json!(4)), "who comes late is told how it ended");
    assert_eq!(connect(json!({"pid": 999_999})).error(), "not_found");
    assert_eq!(connect(json!({})).error(), "invalid_argument");
}

#[test]
fn input_comes_at_once_or_bit_by_bit_and_ends() {
    let rig = Rig::new();
    let sandbox = Sandbox::new(&rig);
    let mut stream = sandbox.bash_with("cat", "", &json!({"stdin": true}));
    let pid = stream.pid();
    let part = |text: &str| envelope(&json!({"data": {"input": {"stdin": encoded(text)}}}));
    let start = envelope(&json!({"start": {"process": {"pid": pid}}}));
    let body = [start, part("one "), envelope(&json!({"keepalive": {}})), part("two ")].concat();
    let kind = "Content-Type: application/connect+json\r\n";
    let fed = sandbox.envd("POST", "/process.Process/StreamInput", kind, &body);
    assert_eq!(fed.body, [envelope(&json!({})), [&[2, 0, 0, 0, 2][..], b"{}"].concat()].concat(), "{fed:?}");
    assert_eq!(sandbox.call("process.Process/SendInput", &selected(pid, &json!({"input": {"stdin": encoded("three")}}))).status, 200);
    assert_eq!(sandbox.call("process.Process/CloseStdin", &selected(pid, &json!({}))).status, 200);
    assert_eq!(stream.heard().stdout, "one two three");
    let early = sandbox.envd("POST", "/process.Process/StreamInput", kind, &part("x"));
    assert!(early.text().contains("invalid_argument"), "{early:?}");
    assert_eq!(sandbox.call("process.Process/SendInput", &selected(pid, &json!({"input": {"stdin": "?"}}))).status, 404);
    let mut empty = sandbox.bash("cat; echo over");
    assert_eq!(empty.heard().stdout, "over\n", "without standard input there is none");
}

#[test]
fn signals_reach_what_runs() {
    let rig = Rig::new();
    let sandbox = Sandbox::new(&rig);
    let signal = |pid: i64, name: &str| sandbox.call("process.Process/SendSignal", &selected(pid, &json!({"signal": name})));
    let mut killed = sandbox.bash("sleep 30");
    let pid = killed.pid();
    assert_eq!(signal(pid, "SIGNAL_SIGKILL").json(), json!({}));
    assert_eq!(killed.heard().end, json!({"exitCode": -1, "status": "signal: killed", "error": "signal: killed"}));
    let mut asked = sandbox.bash("trap 'echo asked; exit 5' TERM; echo ready; while :; do sleep 0.05; done");
    let pid = asked.pid();
    asked.until("ready");
    assert_eq!(signal(pid, "SIGNAL_SIGTERM").status, 200);
    let heard = asked.heard();
    assert_eq!((heard.stdout.as_str(), &heard.end["exitCode"]), ("asked\n", &json!(5)));
    assert_eq!((signal(pid, "SIGNAL_SIGKILL").status, signal(999_999, "SIGNAL_SIGKILL").status), (404, 404));
    assert_eq!(signal(pid, "SIGNAL_SIGSTOP").status, 400);
}

#[test]
fn what_is_killed_is_gone_when_the_answer_comes() {
    let rig = Rig::new();
    let sandbox = Sandbox::new(&rig);
    for line in ["exec sleep 30", "trap '' TERM INT HUP; while :; do :; done", "sleep 30 & wait"] {
        for _ in 0..20 {
            let mut killed = sandbox.bash(line);
            let pid = killed.pid();
            let kill = selected(pid, &json!({"signal": "SIGNAL_SIGKILL"}));
            assert_eq!(sandbox.call("process.Process/SendSignal", &kill).status, 200);
            let look = sandbox.bash(&format!("kill -0 {pid}")).heard();
            assert_eq!(look.end["exitCode"], 1, "{line}: {look:?}");
        }
    }
}

#[test]
fn a_terminal_has_a_size_that_changes() {
    let rig = Rig::new();
    let sandbox = Sandbox::new(&rig);
    let body = json!({
        "process": {"cmd": "/bin/sh", "args": ["-c", "stty size; read go; stty size"]},
        "pty": {"size": {"cols": 81, "rows": 25}}
    });
    let mut terminal = sandbox.stream("process.Process/Start", "", &body);
    let pid = terminal.pid();
    terminal.until("25 81\r\n");
    let size = selected(pid, &json!({"pty": {"size": {"cols": 100, "rows": 30}}}));
    assert_eq!(sandbox.call("process.Process/Update", &size).status, 200);
    sandbox.call("process.Process/SendInput", &selected(pid, &json!({"input": {"pty": encoded("go\n")}})));
    let heard = terminal.heard();
    assert!(heard.stdout.contains("30 100\r\n") && heard.end["exited"] == true, "{heard:?}");
    let mut plain = sandbox.bash("sleep 30");
    let pid = plain.pid();
    assert_eq!(sandbox.call("process.Process/Update", &selected(pid, &json!({"pty": {"size": {"cols": 1, "rows": 1}}}))).status, 400);
}

#[test]
fn a_sandbox_that_is_killed_resets_its_streams_and_is_gone() {
    let rig = Rig::new();
    let sandbox = Sandbox::new(&rig);
    let mut stream = sandbox.bash("echo on; sleep 60");
    stream.until("on");
    let mut watch = sandbox.stream("filesystem.Filesystem/WatchDir", "", &json!({"path": "."}));
    assert_eq!(sandbox.delete().status, 204);
    assert!(stream.is_reset() && watch.is_reset());
    let health = ask(&rig, "GET", "/health", &sandbox.route(ENVD), b"");
    assert_eq!((health.status, health.message().as_str()), (502, "The sandbox was not found"));
    assert_eq!(sandbox.delete().status, 404);
}

#[test]
fn what_is_no_message_is_refused() {
    let rig = Rig::new();
    let sandbox = Sandbox::new(&rig);
    assert_eq!(sandbox.call("process.Process/Restart", &json!({})).status, 501);
    let unary = |body: &[u8]| sandbox.envd("POST", "/process.Process/SendSignal", "Content-Type: application/json\r\n", body);
    for body in [&b"{"[..], b"[]", b"{\"process\":{\"pid\":\"x\"},\"signal\":\"SIGNAL_SIGKILL\"}", b"\xff"] {
        let refused = unary(body);
        assert_eq!((refused.status, refused.json()["code"].as_str()), (400, Some("invalid_argument")), "{refused:?}");
    }
    let stream = |body: &[u8]| sandbox.envd("POST", "/process.Process/Start", "Content-Type: application/connect+json\r\n", body).text();
    assert!(stream(&[0, 0xff, 0xff, 0xff, 0xff]).contains("resource_exhausted"));
    assert!(stream(&[1, 0, 0, 0, 2, b'{', b'}']).contains("unimplemented"));
    assert!(stream(&[0, 0, 0, 0, 9, b'{']).contains("invalid_argument"));
    assert!(stream(b"").contains("invalid_argument"));
    for process in [json!({"cmd": ""}), json!({"cmd": "a\u{0}b"}), json!({"cmd": "/no/such/program"})] {
        assert_eq!(sandbox.stream("process.Process/Start", "", &json!({"process": process})).error(), "invalid_argument", "{process}");
    }
}
