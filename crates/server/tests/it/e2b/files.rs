//! Files: sent, fetched, listed, moved, with words beside them.

use std::io::{Read, Write};

use serde_json::{Value, json};

use super::wire::{Answer, Sandbox};
use crate::rig::Rig;

const RAW: &str = "Content-Type: application/octet-stream\r\n";

fn form(sandbox: &Sandbox<'_>, query: &str, parts: &[(&str, &str, &str)]) -> Answer {
    let mut body = String::new();
    for (name, file, content) in parts {
        body += &format!("--XX\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"{file}\"\r\n\r\n{content}\r\n");
    }
    body += "--XX--\r\n";
    sandbox.envd("POST", &format!("/files{query}"), "Content-Type: multipart/form-data; boundary=XX\r\n", body.as_bytes())
}

fn entry(sandbox: &Sandbox<'_>, path: &str) -> Value {
    sandbox.call("filesystem.Filesystem/Stat", &json!({"path": path})).json()["entry"].clone()
}

#[test]
fn files_come_as_forms() {
    let rig = Rig::new();
    let sandbox = Sandbox::new(&rig);
    let one = form(&sandbox, "?path=a/b.txt", &[("file", "elsewhere.txt", "one")]);
    assert_eq!(one.json(), json!([{"path": "/home/user/a/b.txt", "name": "b.txt", "type": "file"}]), "the query goes before the name");
    let several = form(&sandbox, "", &[("file", "x/1", "one"), ("file", "/tmp/2", "two"), ("other", "3", "three")]);
    assert_eq!((several.json()[0]["path"].as_str(), several.json()[1]["path"].as_str()), (Some("/home/user/x/1"), Some("/tmp/2")));
    assert_eq!((sandbox.read("x/1"), sandbox.read("/tmp/2"), sandbox.read("~/a/b.txt")), ("one".into(), "two".into(), "one".into()));
    for refused in [
        form(&sandbox, "?path=y", &[("file", "1", "one"), ("file", "2", "two")]),
        form(&sandbox, "", &[("other", "1", "one")]),
        form(&sandbox, "", &[("file", "", "one")]),
        sandbox.envd("POST", "/files?path=y", "Content-Type: multipart/form-data; boundary=XX\r\n", b"--XX\r\nbroken"),
        sandbox.envd("POST", "/files?path=y", "Content-Type: text/plain\r\n", b"x"),
        sandbox.envd("POST", "/files", RAW, b"x"),
    ] {
        assert_eq!((refused.status, refused.json()["code"].as_u64()), (400, Some(400)), "{refused:?}");
    }
}

#[test]
fn files_come_as_they_are_or_compressed() {
    let rig = Rig::new();
    let sandbox = Sandbox::new(&rig);
    let bytes: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    assert_eq!(sandbox.envd("POST", "/files?path=f", RAW, &bytes).status, 200);
    let whole = sandbox.envd("GET", "/files?path=f", "", b"");
    assert_eq!((whole.header("content-length"), whole.header("content-encoding")), (Some("300000"), None));
    assert!(whole.body == bytes);
    let packed = sandbox.envd("GET", "/files?path=f", "Accept-Encoding: gzip\r\n", b"");
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(packed.body.as_slice()).read_to_end(&mut unpacked).unwrap();
    assert!(unpacked == bytes);
    assert_eq!(sandbox.envd("GET", "/files?path=f", "Accept-Encoding: br, identity;q=0\r\n", b"").status, 406);
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&bytes).unwrap();
    let sent = encoder.finish().unwrap();
    assert_eq!(sandbox.envd("POST", "/files?path=g", &format!("{RAW}Content-Encoding: gzip\r\n"), &sent).status, 200);
    assert!(sandbox.envd("GET", "/files?path=g", "", b"").body == bytes);
    for (encoding, body) in [("br", &sent[..]), ("gzip", b"no gzip"), ("gzip", &sent[..sent.len() / 2])] {
        assert_eq!(
            sandbox.envd("POST", "/files?path=h", &format!("{RAW}Content-Encoding: {encoding}\r\n"), body).status,
            400,
            "{encoding}"
        );
    }
}

#[test]
fn what_cannot_be_fetched_is_told_by_its_status() {
    let rig = Rig::new();
    let sandbox = Sandbox::new(&rig);
    for (path, status) in [
        ("none", 404),
        (".", 400),
        ("", 400),
        ("/dev/null", 400),
        ("/proc/self/environ", 404),
        ("/proc/version", 400),
        ("/etc/shadow", 404),
    ] {
        let refused = sandbox.envd("GET", &format!("/files?path={path}"), "", b"");
        assert!(refused.status == status || (path == "/etc/shadow" && refused.status == 403), "{path}: {refused:?}");
        assert_eq!(refused.json()["code"].as_u64(), Some(refused.status.into()));
    }
    assert_eq!(sandbox.envd("POST", "/files?path=/etc/passwd", RAW, b"x").status, 403);
    assert_eq!(sandbox.envd("POST", "/files?path=.", RAW, b"x").status, 400);
}

#[test]
fn words_beside_a_file_are_kept_until_it_is_sent_again() {
    let rig = Rig::new();
    let sandbox = Sandbox::new(&rig);
    let sent = sandbox.envd("POST", "/files?path=f", &format!("{RAW}X-Metadata-Author: Mish\r\nx-metadata-purpose: a b\r\n"), b"x");
    let words = json!({"author": "Mish", "purpose": "a b"});
    assert_eq!((&sent.json()[0]["metadata"], &entry(&sandbox, "f")["metadata"]), (&words, &words));
    let moved = sandbox.call("filesystem.Filesystem/Move", &json!({"source": "f", "destination": "d/g"})).json();
    assert_eq!((&moved["entry"]["metadata"], &moved["entry"]["path"]), (&words, &json!("/home/user/d/g")));
    let listed = sandbox.call("filesystem.Filesystem/ListDir", &json!({"path": "d"})).json();
    assert_eq!(listed["entries"][0]["metadata"], words);
    sandbox.write("d/g", "again");
    assert!(entry(&sandbox, "d/g")["metadata"].is_null());
    let long = format!("X-Metadata-{}: x\r\n", "n".repeat(247));
    let much: String = (0..5).map(|at| format!("X-Metadata-{at}: {}\r\n", "v".repeat(1000))).collect();
    for fields in ["X-Metadata-: x\r\n", "X-Metadata-a: \u{e4}\r\n", long.as_str(), much.as_str()] {
        let refused = sandbox.envd("POST", "/files?path=never", &format!("{RAW}{fields}"), b"x");
        assert_eq!(refused.status, 400, "{fields:?}: {refused:?}");
    }
    assert_eq!(sandbox.envd("GET", "/files?path=never", "", b"").status, 404, "what is refused is not written");
}

#[test]
fn entries_are_told_as_clients_know_them() {
    let rig = Rig::new();
    let sandbox = Sandbox::new(&rig);
    sandbox.write("d/one/f.txt", "Hello");
    sandbox.bash("ln -s one/f.txt d/link; ln -s nowhere d/dangling; chmod 640 d/one/f.txt").heard();
    let mut file = entry(&sandbox, "d/one/f.txt");
    assert!(file["modifiedTime"].as_str().unwrap().ends_with('Z'));
    file.as_object_mut().unwrap().remove("modifiedTime");
    let expected = json!({
        "name": "f.txt", "type": "FILE_TYPE_FILE", "path": "/home/user/d/one/f.txt", "size": "5", "mode": 0o640,
        "permissions": "-rw-r-----", "owner": "user", "group": "user"
    });
    assert_eq!(file, expected);
    let (link, dangling) = (entry(&sandbox, "d/link"), entry(&sandbox, "d/dangling"));
    assert_eq!((&link["type"], &link["symlinkTarget"]), (&json!("FILE_TYPE_FILE"), &json!("/home/user/d/one/f.txt")));
    assert_eq!(dangling["type"], "FILE_TYPE_SYMLINK");
    let names = |depth: u32| -> Vec<String> {
        let listed = sandbox.call("filesystem.Filesystem/ListDir", &json!({"path": "d", "depth": depth})).json();
        listed["entries"].as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!((names(0), names(1)), (names(1), vec!["dangling".into(), "link".into(), "one".into()]));
    assert_eq!(names(2), ["dangling", "link", "one", "f.txt"]);
}

#[test]
fn faults_of_single_calls_have_their_code_and_status() {
    let rig = Rig::new();
    let sandbox = Sandbox::new(&rig);
    sandbox.write("d/f", "x");
    for (procedure, body, status, code) in [
        ("Stat", json!({"path": "none"}), 404, "not_found"),
        ("ListDir", json!({"path": "none"}), 404, "not_found"),
        ("ListDir", json!({"path": "d/f"}), 400, "invalid_argument"),
        ("MakeDir", json!({"path": "d"}), 409, "already_exists"),
        ("MakeDir", json!({"path": "d/f"}), 400, "invalid_argument"),
        ("MakeDir", json!({"path": "/etc/x"}), 403, "permission_denied"),
        ("Move", json!({"source": "none", "destination": "x"}), 404, "not_found"),
        ("Stat", json!({"path": "a\u{0}b"}), 400, "invalid_argument"),
        ("Chown", json!({"path": "d"}), 501, "unimplemented"),
        ("GetWatcherEvents", json!({"watcherId": "none"}), 404, "not_found"),
    ] {
        let refused = sandbox.call(&format!("filesystem.Filesystem/{procedure}"), &body);
        assert_eq!((refused.status, refused.json()["code"].as_str()), (status, Some(code)), "{procedure} {body}: {refused:?}");
    }
    assert_eq!(sandbox.call("filesystem.Filesystem/Remove", &json!({"path": "none"})).json(), json!({}));
    assert_eq!(sandbox.call("filesystem.Filesystem/Remove", &json!({"path": "d"})).json(), json!({}));
    assert_eq!(sandbox.call("filesystem.Filesystem/Stat", &json!({"path": "d"})).status, 404);
}
