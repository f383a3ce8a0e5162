//! The code interpreter: contexts, and lines that are told as cells run.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::wire::{Answer, CODE, ENVD, Sandbox, ask, until};
use crate::rig::Rig;

fn call(sandbox: &Sandbox<'_>, method: &str, path: &str, body: &Value) -> Answer {
    let token = format!("X-Access-Token: {}\r\n", sandbox.token.as_deref().unwrap());
    let fields = format!("{}{token}Content-Type: application/json\r\n", sandbox.route(CODE));
    ask(sandbox.rig, method, path, &fields, if body.is_null() { Vec::new() } else { body.to_string().into_bytes() }.as_slice())
}

fn lines(answer: &Answer) -> Vec<Value> {
    answer.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn execute(sandbox: &Sandbox<'_>, body: &Value) -> Vec<Value> {
    let answered = call(sandbox, "POST", "/execute", body);
    assert_eq!(answered.status, 200, "{answered:?}");
    lines(&answered)
}

fn of(lines: &[Value], kind: &str) -> Vec<Value> {
    lines.iter().filter(|line| line["type"] == kind).cloned().collect()
}

#[test]
fn a_cell_is_told_line_by_line() {
    let rig = Rig::new();
    let sandbox = Sandbox::new(&rig);
    let code = "import sys\nprint('out')\nprint('err', file=sys.stderr)\n'text'";
    let told = execute(&sandbox, &json!({"code": code, "context_id": null, "language": null, "env_vars": null}));
    let kinds: Vec<&str> = told.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["number_of_executions", "stdout", "stderr", "result", "end_of_execution"], "{told:?}");
    assert_eq!((&told[0]["execution_count"], &told[1]["text"], &told[2]["text"]), (&json!(1), &json!("out\n"), &json!("err\n")));
    assert!(told[1]["timestamp"].is_string());
    assert_eq!((&told[3]["text"], &told[3]["is_main_result"]), (&json!("text"), &json!(true)), "without the quotes of a text");
    let failed = of(&execute(&sandbox, &json!({"code": "1/0"})), "error");
    assert_eq!((&failed[0]["name"], &failed[0]["value"]), (&json!("ZeroDivisionError"), &json!("division by zero")));
    let set = of(&execute(&sandbox, &json!({"code": "import os; os.getenv('A')", "env_vars": {"A": "set"}})), "result");
    assert_eq!(set[0]["text"], "set");
    assert!(of(&execute(&sandbox, &json!({"code": "os.getenv('A')"})), "result").is_empty(), "and taken away again");
    assert_eq!(of(&execute(&sandbox, &json!({"code": "2 * 3", "language": "js"})), "result")[0]["text"], "6");
}

#[test]
fn contexts_are_made_listed_restarted_and_removed() {
    let rig = Rig::new();
    let sandbox = Sandbox::new(&rig);
    let list = || call(&sandbox, "GET", "/contexts", &Value::Null).json();
    let usual = |language: &str| json!({"id": format!("default-{language}"), "language": language, "cwd": "/home/user"});
    assert_eq!(list(), json!([usual("python"), usual("javascript")]), "those are there from the beginning");
    let made = call(&sandbox, "POST", "/contexts", &json!({"cwd": "/home/user/new/folder", "language": "python"})).json();
    assert_eq!((&made["cwd"], &made["language"], &list()[2]), (&json!("/home/user/new/folder"), &json!("python"), &made));
    let id = made["id"].as_str().unwrap();
    let value = |code: &str| of(&execute(&sandbox, &json!({"code": code, "context_id": id})), "result");
    assert_eq!(value("x = 1; x")[0]["text"], "1");
    assert_eq!(of(&execute(&sandbox, &json!({"code": "x", "context_id": "default-python"})), "error")[0]["name"], "NameError");
    assert_eq!(call(&sandbox, "POST", &format!("/contexts/{id}/restart"), &Value::Null).status, 200);
    assert!(value("x").is_empty());
    assert_eq!(call(&sandbox, "DELETE", &format!("/contexts/{id}"), &Value::Null).status, 200);
    assert_eq!(list().as_array().unwrap().len(), 2);
    for (method, path) in
        [("POST", format!("/contexts/{id}/restart")), ("DELETE", format!("/contexts/{id}")), ("DELETE", "/contexts/none".into())]
    {
        let missing = call(&sandbox, method, &path, &Value::Null);
        assert_eq!(missing.status, 404);
        assert!(missing.text().starts_with("Context "), "as text: {missing:?}");
    }
    let refused = |body: Value| call(&sandbox, "POST", "/execute", &body);
    assert_eq!(refused(json!({"code": "1", "context_id": id})).status, 404);
    let both = refused(json!({"code": "1", "context_id": "default-python", "language": "python"}));
    assert_eq!((both.status, both.text().as_str()), (400, "Only one of context_id or language can be provided"));
    assert_eq!((refused(json!({"code": "1", "language": "r"})).status, refused(json!({})).status), (400, 400));
    assert_eq!(call(&sandbox, "POST", "/contexts", &json!({"language": "cobol"})).status, 400);
    assert_eq!(call(&sandbox, "POST", "/contexts", &json!({"cwd": "/etc/new"})).status, 403, "not a place to make a folder in");
    assert_eq!(call(&sandbox, "GET", "/health", &Value::Null).status, 200);
}

#[test]
fn a_restart_ends_the_cell_that_runs() {
    let rig = Rig::new();
    let sandbox = Sandbox::new(&rig);
    let id = call(&sandbox, "POST", "/contexts", &json!({})).json()["id"].as_str().unwrap().to_owned();
    std::thread::scope(|scope| {
        let running =
            scope.spawn(|| execute(&sandbox, &json!({"code": "open('begun', 'w'); import time; time.sleep(60)", "context_id": id})));
        until("the cell runs", || sandbox.envd("GET", "/files?path=begun", "", b"").status == 200);
        assert_eq!(call(&sandbox, "POST", &format!("/contexts/{id}/restart"), &Value::Null).status, 200);
        let told = running.join().unwrap();
        assert_eq!(of(&told, "error")[0]["name"], "ContextRestarting", "{told:?}");
        assert_eq!(told.last().unwrap()["type"], "end_of_execution");
    });
    assert_eq!(of(&execute(&sandbox, &json!({"code": "1 + 1", "context_id": id})), "result")[0]["text"], "2");
}

/// Gives a cell, whose answer is read as it comes.
fn begin(sandbox: &Sandbox<'_>, code: &str) -> TcpStream {
    let body = json!({ "code": code }).to_string();
    let head = format!(
        "POST /execute HTTP/1.1\r\nHost: localhost\r\n{}X-Access-Token: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        sandbox.route(CODE),
        sandbox.token.as_deref().unwrap(),
        body.len()
    );
    let mut stream = sandbox.rig.connect();
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

fn hear(stream: &mut TcpStream, text: &str) {
    let mut seen = String::new();
    while !seen.contains(text) {
        let mut piece = [0; 1024];
        let read = stream.read(&mut piece).unwrap();
        assert!(read > 0, "{seen}");
        seen += &String::from_utf8_lossy(&piece[..read]);
    }
}

#[test]
fn a_client_that_goes_away_interrupts_its_cell_and_a_silent_one_is_kept_alive() {
    let rig = Rig::new();
    let sandbox = Sandbox::new(&rig);
    execute(&sandbox, &json!({"code": "x = 5"}));
    let begun = Instant::now();
    let mut stream = begin(&sandbox, "import time; time.sleep(60)");
    hear(&mut stream, "{\"type\":\"keepalive\"}");
    assert!(begun.elapsed() < Duration::from_secs(10));
    drop(stream);
    let begun = Instant::now();
    assert_eq!(of(&execute(&sandbox, &json!({"code": "x"})), "result")[0]["text"], "5", "its state is kept");
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[test]
fn the_answer_of_a_cell_breaks_off_when_its_sandbox_is_killed() {
    let rig = Rig::new();
    let sandbox = Sandbox::new(&rig);
    let mut stream = begin(&sandbox, "print('begun'); import time; time.sleep(60)");
    hear(&mut stream, "begun");
    assert_eq!(sandbox.delete().status, 204);
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).map(drop).unwrap_or_default();
    let rest = String::from_utf8_lossy(&rest);
    assert!(
        !rest.contains("error") && !rest.contains("end_of_execution") && !rest.ends_with("0\r\n\r\n"),
        "not the cell's own end: {rest}"
    );
    assert_eq!(ask(&rig, "GET", "/health", &sandbox.route(ENVD), b"").status, 502);
}
