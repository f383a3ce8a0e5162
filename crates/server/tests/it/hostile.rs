//! Bytes that two readers could read differently, names that lead elsewhere, words that a database or a header would obey.

use std::io::{Read, Write};

use serde_json::json;

use crate::rig::{Rig, document, parse};

/// The statuses of what is answered over one connection.
fn statuses(answer: &str) -> Vec<&str> {
    answer.match_indices("HTTP/1.1 ").map(|(at, _)| &answer[at + 9..at + 12]).collect()
}

#[test]
fn a_message_that_has_two_readings_is_refused_and_ends_the_connection() {
    let rig = Rig::new();
    let head =
        format!("POST /v1/audit HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n", rig.key);
    let smuggled = format!("GET /v1/runs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\r\n", rig.key);
    let chunks = "2\r\n{}\r\n0\r\n\r\n";
    for rest in [
        format!("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}"),
        format!("Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n{chunks}"),
        "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}".into(),
        "Content-Length: 2\r\nContent-Length: 40\r\n\r\n{}".into(),
        "Content-Length: 2, 2\r\n\r\n{}".into(),
        format!("Transfer-Encoding: xchunked\r\n\r\n{chunks}"),
        format!("Transfer-Encoding: gzip, chunked\r\n\r\n{chunks}"),
        format!("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n{chunks}"),
        format!("X: a\r\n Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{{}}{chunks}"),
        "X: a\nContent-Length: 2\r\n\r\n{}".into(),
        "Content-Length: 2\n\n{}".into(),
        "Content-Length : 2\r\n\r\n{}".into(),
        "Content-Length: 2\r\nX\0: a\r\n\r\n{}".into(),
        format!("Transfer-Encoding: chunked\r\n\r\n2;{}\r\n{{}}\r\n0\r\n\r\n", "x".repeat(1 << 20)),
        "Transfer-Encoding: chunked\r\n\r\n2\n{}\r\n0\r\n\r\n".into(),
        "Transfer-Encoding: chunked\r\n\r\n2\r\n{}X\r\n0\r\n\r\n".into(),
        "Transfer-Encoding: chunked\r\n\r\n0x2\r\n{}\r\n0\r\n\r\n".into(),
        format!("Transfer-Encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n{}\r\n", "t: 1\r\n".repeat(5000)),
    ] {
        let answer = rig.say(format!("{head}{rest}{smuggled}").as_bytes());
        assert_eq!(statuses(&answer), ["400"], "{:?}: {answer}", &rest[..rest.len().min(200)]);
    }
    let old = head.replace("HTTP/1.1", "HTTP/1.0");
    let answer = rig.say(format!("{old}Transfer-Encoding: chunked\r\n\r\n{chunks}{smuggled}").as_bytes());
    assert_eq!(statuses(&answer), ["400"], "{answer}");
    // What has one reading is answered, also several times over one connection.
    let sound = format!(
        "{head}Transfer-Encoding: chunked\r\n\r\n{chunks}{head}Content-Length: 2\r\n\r\n{{}}{}",
        smuggled.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n")
    );
    assert_eq!(statuses(&rig.say(sound.as_bytes())), ["422", "422", "200"]);
}

#[test]
fn heads_are_bounded() {
    let rig = Rig::new();
    let head = |fields: &str| format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{fields}\r\n");
    assert_eq!(statuses(&rig.say(head(&format!("X: {}\r\n", "a".repeat(8000))).as_bytes())), ["200"]);
    assert_eq!(statuses(&rig.say(head(&format!("X: {}\r\n", "a".repeat(40_000))).as_bytes())), ["431"]);
    assert_eq!(statuses(&rig.say(head(&"X: a\r\n".repeat(100)).as_bytes())), ["431"]);
    let long = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "a".repeat(70_000));
    assert!(["414", "431"].contains(&statuses(&rig.say(long.as_bytes()))[0]));
    for other in [
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "GET / HTTP/3.0\r\n\r\n",
        "\x16\x03\x01\x02\x00",
        "GET\t/healthz HTTP/1.1\r\n\r\n",
        "GET /a b HTTP/1.1\r\n\r\n",
    ] {
        let answer = rig.say(other.as_bytes());
        assert!(!answer.contains(" 200 "), "{other:?}: {answer}");
    }
    assert_eq!(rig.get("/healthz").status, 200);
}

#[test]
fn a_name_in_a_path_leads_nowhere_else() {
    let rig = Rig::new();
    let long = "a".repeat(3000);
    let names = [
        "..",
        ".",
        "%2e%2e",
        "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "..%2f..%2f..%2fetc%2fpasswd",
        "..%5c..%5cetc",
        "%00",
        "a%00b",
        "%0d%0aX-Evil:%201",
        "'",
        "%27%20OR%20%271%27=%271",
        "%22;DROP%20TABLE%20runs;--",
        "%F0%9F%92%A9",
        "%ff%fe",
        "%",
        "%zz",
        "*",
        "~",
        "$HOME",
        "01KBDZ9XK3V8P5R0Q2N7M4T6W1",
        "keys",
        "sha256:..",
        "sha256:%2e%2e%2f",
        &long,
    ];
    for (path, methods) in document()["paths"].as_object().unwrap() {
        let Some(at) = path.find('{') else { continue };
        let after = path[at..].find('}').map_or("", |end| &path[at + end + 1..]);
        for method in methods.as_object().unwrap().keys() {
            for name in names {
                let asked = format!("{}{name}{after}", &path[..at]);
                let reply = rig.ask_as(&rig.key, &method.to_ascii_uppercase(), &asked, "", (method == "post").then_some("{}"));
                assert!((400..500).contains(&reply.status), "{method} {asked}: {reply:?}");
                assert!(!reply.body.contains("root:") && reply.header("x-evil").is_none(), "{method} {asked}: {reply:?}");
            }
        }
    }
}

#[test]
fn words_for_a_database_or_a_header_are_words() {
    let rig = Rig::new();
    rig.run(&json!({"command": ["true"]}));
    for word in ["'", "' OR '1'='1", "me' --", "\"; DROP TABLE runs; --", "%", "_", "me\0", "\r\nX-Evil: 1", "*", "\u{202e}"] {
        let escaped: String = word.bytes().map(|byte| format!("%{byte:02x}")).collect();
        for filter in ["agent", "profile", "state", "before", "limit", "nothing"] {
            let reply = rig.get(&format!("/v1/runs?{filter}={escaped}"));
            assert_eq!((reply.status, reply.code().as_str()), (400, "bad_query"), "{filter}={word}");
            assert!(reply.header("x-evil").is_none() && !reply.body.contains('\0'));
        }
        let key = format!("Idempotency-Key: {}\r\n", word.replace(['\r', '\n', '\0', '\u{202e}'], ""));
        let body = json!({"command": ["true"], "agent": word, "profile": word, "exports": [word]}).to_string();
        let reply = rig.ask_as(&rig.key, "POST", "/v1/runs", &key, Some(&body));
        assert!([400, 403, 422].contains(&reply.status), "{word}: {reply:?}");
    }
    assert_eq!(rig.get("/v1/runs").json()["runs"].as_array().unwrap().len(), 1);
    for fields in ["Last-Event-ID: x\r\nAccept: text/event-stream\r\n", "Last-Event-ID: -1\r\nAccept: text/event-stream\r\n"] {
        let run = rig.get("/v1/runs").json()["runs"][0]["run"].as_str().unwrap().to_owned();
        assert_eq!(rig.ask_as(&rig.key, "GET", &format!("/v1/runs/{run}/events"), fields, None).status, 400);
    }
}

#[test]
fn no_file_of_the_host_can_be_named() {
    let rig = Rig::new();
    for body in [
        json!({"command": ["true"], "project": "/etc"}),
        json!({"command": ["true"], "inputs": ["/etc/passwd"]}),
        json!({"command": ["true"], "inputs": [{"name": "x", "path": "/etc/passwd"}]}),
        json!({"command": ["true"], "profile": "/etc/passwd"}),
        json!({"command": ["true"], "profile": "../x.toml"}),
        json!({"command": ["true"], "reveal": ["x"]}),
        json!({"command": ["true"], "tenant": "other"}),
        json!({"command": ["true"], "inputs": [{"name": "../x", "content": ""}]}),
        json!({"command": ["true"], "inputs": [{"name": "..", "content": ""}]}),
        json!({"command": ["true"], "inputs": [{"name": "", "content": ""}]}),
        json!({"command": ["true"], "inputs": [{"name": "a/b", "content": ""}]}),
        json!({"command": ["true"], "inputs": [{"name": "a", "content": ""}, {"name": "a", "content": ""}]}),
        json!({"command": ["true"], "inputs": [{"name": "a", "content": "", "content_base64": ""}]}),
        json!({"command": ["true"], "inputs": [{"name": "a", "artifact": format!("sha256:{}", "0".repeat(64))}]}),
        json!({"command": ["true"], "inputs": [{"name": "a", "artifact": format!("sha256:..{}", "/".repeat(62))}]}),
        json!({"command": ["true"], "exports": ["../../etc/passwd"]}),
        json!({"command": ["true"], "exports": ["/etc/passwd"]}),
        json!({"command": []}),
        json!({"command": [""]}),
        json!({"command": ["a\0b"]}),
        json!({"command": ["true"], "env": {"A=B": "x"}}),
        json!({"command": ["true"], "env": {"A": "x\0y"}}),
        json!({"command": ["true"], "limits": {"memory": "lots"}}),
        json!({"command": ["true"], "limits": {"memory=1GiB,cpu": "1s"}}),
        json!({"command": ["true"], "stdin_base64": "!"}),
    ] {
        let reply = rig.post("/v1/runs", &body);
        assert_eq!(reply.status, 422, "{body}: {reply:?}");
    }
    assert_eq!(rig.get("/v1/runs").json()["runs"], json!([]));
    assert_eq!(std::fs::read_dir(rig.home().work()).unwrap().count(), 0);
}

#[test]
fn a_client_that_asks_to_go_on_is_let_to_and_one_that_hangs_up_is_forgotten() {
    let rig = Rig::new();
    let mut stream = rig.connect();
    let head = format!(
        "POST /v1/runs?wait=true HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nConnection: close\r\nContent-Length: 20\r\n\r\n",
        rig.key
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut first = [0; 25];
    stream.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"{\"command\":[\"true\"]}").unwrap();
    assert_eq!(parse(&crate::rig::until_end(&mut stream)).status, 201);
    for _ in 0..60 {
        let mut stream = rig.connect();
        stream.write_all(head.as_bytes()).unwrap();
    }
    assert_eq!(rig.get("/healthz").status, 200);
}
