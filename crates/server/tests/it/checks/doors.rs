//! Who is let in.

use std::io::{BufRead, BufReader, Write};
use std::sync::Mutex;

use ringfence_server::{Limits, ServeOptions};
use ringfence_store::Clients;

use super::{Things, e2b_paths};
use crate::e2b::wire::{CODE, ENVD, Sandbox, ask, control};
use crate::gate::every_path;
use crate::rig::{Rig, options};

const WRONG: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

#[test]
fn sv_01_every_path_of_e2b_needs_a_key_or_the_token_of_a_sandbox() {
    let rig = Rig::new();
    for path in e2b_paths() {
        for method in ["GET", "POST", "PUT", "DELETE", "PATCH"] {
            for fields in ["", &format!("X-API-KEY: e2b_{WRONG}\r\n"), "Authorization: Bearer x\r\n"] {
                let answer = ask(&rig, method, &path, fields, b"{}");
                assert!([401, 429].contains(&answer.status), "{method} {path}: {answer:?}");
            }
        }
    }
    let sandbox = Sandbox::new(&rig);
    assert!(sandbox.token.is_some());
    let daemon = ["/files?path=/etc/passwd", "/envs", "/metrics", "/process.Process/List", "/filesystem.Filesystem/ListDir", "/init"];
    let code = ["/contexts", "/execute", "/health"];
    let inside = daemon.map(|path| (ENVD, path)).into_iter().chain(code.map(|path| (CODE, path)));
    for (port, path) in inside {
        for method in ["GET", "POST"] {
            for token in ["", &format!("X-Access-Token: {WRONG}\r\n"), &format!("X-API-KEY: {}\r\n", rig.e2b_key)] {
                let answer = ask(&rig, method, path, &(sandbox.route(port) + token), b"{}");
                assert!([401, 403].contains(&answer.status), "{method} {path} at {port}: {answer:?}");
            }
        }
    }
    assert_eq!(ask(&rig, "GET", "/files?path=/etc/passwd", "", b"").status, 401);
}

#[test]
fn sv_04_a_page_of_another_origin_changes_nothing() {
    let rig = Rig::new();
    let things = Things::of(&rig);
    let standing = |rig: &Rig| (rig.get("/v1/runs").json(), rig.get("/v1/sessions").json(), rig.get("/v1/states").json());
    let before = standing(&rig);
    let own = every_path().into_iter().filter(|(method, _)| method != "GET");
    let theirs = e2b_paths().into_iter().map(|path| ("POST".to_owned(), path));
    for (method, path) in own.chain(theirs).chain([("POST".to_owned(), "/v1/sessions".to_owned())]) {
        for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/json"] {
            let page = format!("Origin: https://evil.example\r\nContent-Type: {kind}\r\n");
            for key in ["", &format!("X-API-Key: {}\r\n", rig.key), &format!("X-API-Key: {}\r\n", rig.e2b_key)] {
                let answer = ask(&rig, &method, &path, &format!("{page}{key}"), b"{\"command\":[\"true\"]}");
                assert_eq!(answer.status, 403, "{method} {path}: {answer:?}");
            }
            // A form is sent without an origin by some, and never with a key.
            let answer = ask(&rig, &method, &path, &format!("Content-Type: {kind}\r\n"), b"{\"command\":[\"true\"]}");
            assert_eq!(answer.status, 401, "{method} {path}: {answer:?}");
        }
        let preflight =
            "Origin: https://evil.example\r\nAccess-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: x-api-key\r\n";
        let answer = ask(&rig, "OPTIONS", &path, preflight, b"");
        assert!(answer.status == 403 && !answer.head.contains("access-control-"), "{path}: {answer:?}");
    }
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"] {
        let fields = format!("X-API-Key: {}\r\nContent-Type: {kind}\r\n", rig.key);
        assert_eq!(ask(&rig, "POST", "/v1/runs", &fields, b"{\"command\":[\"true\"]}").status, 415, "{kind}");
    }
    assert_eq!(standing(&rig), before);
    drop(things);
}

#[test]
fn sv_05_a_name_of_somebody_elses_reaches_no_path() {
    let rig = Rig::new();
    let sandbox = Sandbox::new(&rig);
    let port = rig.address.port();
    let own = every_path().into_iter().map(|(method, path)| (method, path, String::new()));
    let theirs = e2b_paths().into_iter().map(|path| ("GET".to_owned(), path, String::new()));
    let inside = [("GET".to_owned(), "/files?path=/etc/passwd".to_owned(), sandbox.route(ENVD))];
    for (method, path, route) in own.chain(theirs).chain(inside) {
        for host in ["evil.example".to_owned(), format!("evil.example:{port}"), format!("127.0.0.1.evil.example:{port}")] {
            let fields = format!("Host: {host}\r\nX-API-Key: {}\r\n{route}", rig.key);
            let answer = ask(&rig, &method, &path, &fields, b"");
            assert_eq!(answer.status, 421, "{method} {path} at {host}: {answer:?}");
        }
    }
    for host in [format!("{ENVD}-{}.evil.example:{port}", sandbox.id), format!("3000-{}.evil.example", sandbox.id)] {
        let answer = ask(&rig, "GET", "/health", &format!("Host: {host}\r\n"), b"");
        assert_eq!(answer.status, 421, "{host}: {answer:?}");
    }
}

static SAID_OF_KEYS: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[test]
fn sv_13_of_a_thousand_wrong_keys_all_are_counted_and_none_is_written_down() {
    let limits = Limits { wrong_key_of_one_peer_every: std::time::Duration::from_secs(3600), ..Limits::default() };
    let log = |line: &str| SAID_OF_KEYS.lock().unwrap().push(line.to_owned());
    let rig = Rig::with(ServeOptions { limits, log, ..options() });
    let mut stream = rig.connect();
    let (mut refused, mut slowed) = (0, 0);
    for number in 0..1000 {
        let kind = if number % 2 == 0 { "rf_" } else { "e2b_" };
        let request =
            format!("GET /v1/runs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {kind}{}{number:04}\r\n\r\n", &WRONG[..60]);
        stream.write_all(request.as_bytes()).unwrap();
        match head(&mut BufReader::with_capacity(1, &stream)) {
            (401, _) => refused += 1,
            (429, fields) if fields.contains("retry-after: ") => slowed += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((refused, slowed), (10, 990));
    let metrics = rig.get("/metrics").body;
    assert!(metrics.contains("ringfence_wrong_keys_total 1000\n"), "{metrics}");
    let said = SAID_OF_KEYS.lock().unwrap().join("\n");
    assert_eq!(said.matches("a key that opens nothing, from 127.0.0.1").count(), 10, "{said}");
    assert!(![&said, &metrics].iter().any(|text| text.contains(&WRONG[..8])), "{said}");
    let folder = rig.into_folder();
    for entry in std::fs::read_dir(folder.path().join("home")).unwrap().flatten().filter(|entry| entry.path().is_file()) {
        let bytes = std::fs::read(entry.path()).unwrap();
        assert!(!bytes.windows(60).any(|window| window == &WRONG.as_bytes()[..60]), "{:?}", entry.path());
    }
}

/// The head of the next answer, whose body is read as well.
fn head(reader: &mut impl BufRead) -> (u16, String) {
    let mut head = String::new();
    while reader.read_line(&mut head).unwrap() > 2 {}
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(0, |length| length.parse().unwrap());
    reader.read_exact(&mut vec![0; length]).unwrap();
    (head[9..12].parse().unwrap(), head)
}

#[test]
fn sv_14_a_key_that_was_withdrawn_opens_nothing_on_a_connection_that_it_opened() {
    let rig = Rig::new();
    for (key, path) in [(rig.tenant("acme"), "/v1/runs"), (rig.e2b_key.clone(), "/sandboxes"), (rig.key.clone(), "/v1/sessions")] {
        let stream = rig.connect();
        let mut reader = BufReader::new(&stream);
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {key}\r\n\r\n");
        let mut status = || {
            (&stream).write_all(request.as_bytes()).unwrap();
            head(&mut reader).0
        };
        assert_eq!((status(), status()), (200, 200));
        let mut clients = Clients::open(&rig.home()).unwrap();
        let id = clients.caller(&key).unwrap().unwrap().key;
        assert!(clients.revoke_key(&id).unwrap());
        assert_eq!((status(), status()), (401, 401), "{path}");
    }
}

#[test]
fn sv_14_the_token_of_a_sandbox_that_is_over_opens_nothing() {
    let rig = Rig::new();
    let (sandbox, other) = (Sandbox::new(&rig), Sandbox::new(&rig));
    let listed = |at: &Sandbox<'_>, token: &str| {
        let fields = format!("{}X-Access-Token: {token}\r\nContent-Type: application/json\r\n", at.route(ENVD));
        ask(&rig, "POST", "/filesystem.Filesystem/ListDir", &fields, b"{\"path\":\"/tmp\"}").status
    };
    let token = sandbox.token.clone().unwrap();
    assert_eq!((listed(&sandbox, &token), listed(&other, &token)), (200, 401));
    assert_eq!(control(&rig, &rig.e2b_key, "DELETE", &format!("/sandboxes/{}", sandbox.id), None).status, 204);
    assert_eq!((listed(&sandbox, &token), listed(&other, &token)), (502, 401));
}
