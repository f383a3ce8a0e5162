//! Names and paths that would lead out of the store or of a sandbox.

use std::sync::Mutex;

use ringfence_server::ServeOptions;
use serde_json::json;

use super::canary::Canary;
use super::{Things, e2b_paths, escaped, operations};
use crate::e2b::wire::ask;
use crate::rig::{Rig, options};

/// Each spelling as a path or a query can carry it: escaped once, escaped twice, with its slashes as they are, and with dots that are none.
fn carried(spelling: &str) -> Vec<String> {
    let slashes = spelling.bytes().map(|byte| if byte == b'/' { "/".to_owned() } else { format!("%{byte:02x}") }).collect();
    let overlong = escaped(spelling).replace("%2e", "%c0%ae");
    vec![escaped(spelling), escaped(&escaped(spelling)), slashes, overlong, format!("{}%00", escaped(spelling))]
}

/// Each place of a parameter in a path, one at a time; the others name what there is.
fn with_each_parameter(path: &str, things: &Things<'_>, name: &str) -> Vec<String> {
    let parts: Vec<&str> = path.split('/').collect();
    let places = (0..parts.len()).filter(|place| parts[*place].starts_with('{'));
    places
        .map(|place| {
            let part = |(number, part): (usize, &&str)| if number == place { name.to_owned() } else { things.named(part) };
            parts.iter().enumerate().map(part).collect::<Vec<_>>().join("/")
        })
        .collect()
}

#[test]
fn sv_07_no_parameter_of_a_path_opens_anything_outside_the_store() {
    let rig = Rig::new();
    let things = Things::of(&rig);
    let canary = Canary::lay(rig.folder.path());
    let names: Vec<String> = canary.spellings().iter().flat_map(|spelling| carried(spelling)).chain(["a".repeat(10_000)]).collect();
    for name in &names {
        for (method, path, _) in operations() {
            for asked in with_each_parameter(path, &things, name) {
                let fields = format!("Authorization: Bearer {}\r\nContent-Type: application/json\r\n", rig.key);
                let answer = ask(&rig, &method, &asked, &fields, b"{}");
                assert!((400..500).contains(&answer.status) && !answer.text().contains("root:"), "{method} {asked}: {answer:?}");
            }
        }
    }
    let id = "01kbdz9xk3v8p5r0q2n7m4t6w1";
    for path in e2b_paths().iter().filter(|path| path.contains(id)) {
        for name in &names {
            for method in ["GET", "POST", "DELETE", "PUT"] {
                let asked = path.replace(id, name);
                let answer = ask(&rig, method, &asked, &format!("X-API-Key: {}\r\nContent-Type: application/json\r\n", rig.e2b_key), b"{}");
                let is_refused = (400..500).contains(&answer.status) || answer.status == 501;
                assert!(is_refused && !answer.text().contains("root:"), "{method} {asked}: {answer:?}");
            }
        }
    }
    canary.assert_unopened();
}

#[test]
fn sv_07_a_path_in_a_query_leads_into_the_sandbox_and_never_out() {
    let rig = Rig::new();
    let things = Things::of(&rig);
    let canary = Canary::lay(rig.folder.path());
    let session = &things.sandbox.id;
    for name in canary.spellings().iter().flat_map(|spelling| carried(spelling)) {
        for path in ["files?path=", "files/stat?path=", "files/list?path="] {
            let reply = rig.get(&format!("/v1/sessions/{session}/{path}{name}"));
            assert!(reply.status < 500 && !reply.body.contains("CANARY"), "{path}{name}: {reply:?}");
            assert!(!reply.body.contains("root:") || !name.contains("shadow"), "{path}{name}: {reply:?}");
        }
        let moved = rig.post(&format!("/v1/sessions/{session}/files/move"), &json!({"from": name, "to": "/tmp/x"}));
        assert!((400..500).contains(&moved.status), "{name}: {moved:?}");
        for (method, path) in [("GET", "/files?path="), ("POST", "/files?path=")] {
            let answer = things.sandbox.envd(method, &format!("{path}{name}"), "Content-Type: application/octet-stream\r\n", b"x");
            assert!(answer.status < 500 && !answer.text().contains("CANARY"), "{method} {path}{name}: {answer:?}");
        }
        for procedure in ["ListDir", "Stat", "MakeDir", "Remove"] {
            let answer = things.sandbox.call(&format!("filesystem.Filesystem/{procedure}"), &json!({"path": name}));
            assert!(answer.status < 500, "{procedure} {name}: {answer:?}");
        }
    }
    let beside: Vec<_> = std::fs::read_dir(rig.folder.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(beside.len(), 2, "something was written beside the store: {beside:?}");
    canary.assert_unopened();
}

static SAID_OF_EXPORTS: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[test]
fn xa_16_a_path_that_leads_out_of_the_workspace_is_refused_told_of_and_not_read() {
    let log = |line: &str| SAID_OF_EXPORTS.lock().unwrap().push(line.to_owned());
    let rig = Rig::with(ServeOptions { log, ..options() });
    let canary = Canary::lay(rig.folder.path());
    let absolute = rig.folder.path().join("canary.txt").to_str().unwrap().to_owned();
    let leading_out = ["../../etc/shadow", "/etc/shadow", "..", "a/../../b", "a\0b", "../canary.txt", "//etc/shadow", &absolute];
    for path in leading_out {
        SAID_OF_EXPORTS.lock().unwrap().clear();
        for (place, body) in
            [("/v1/runs", json!({"command": ["true"], "exports": ["ok", path]})), ("/v1/sessions", json!({"exports": [path]}))]
        {
            let reply = rig.post(place, &body);
            assert_eq!((reply.status, reply.code().as_str()), (422, "invalid_value"), "{path:?}: {reply:?}");
        }
        let said = SAID_OF_EXPORTS.lock().unwrap().clone();
        assert_eq!(said.len(), 2, "{path:?}: {said:?}");
        assert!(said.iter().all(|line| line.contains("tenant `default`") && line.contains("exports") && !line.contains('\0')), "{said:?}");
    }
    assert_eq!(rig.get("/v1/runs").json()["runs"], json!([]));
    // Nothing is decoded, and a backslash is no slash: these are names of files that the run did not make.
    for path in ["%2e%2e/%2e%2e/etc/shadow", "..\\..\\etc\\shadow", "%2fetc%2fshadow"] {
        let reply = rig.post("/v1/runs?wait=true", &json!({"command": ["true"], "exports": [path]}));
        let is_plain = reply.status == 422 || (reply.status == 201 && reply.json()["artifacts"] == json!([]));
        assert!(is_plain && !reply.body.contains("root:"), "{path}: {reply:?}");
    }
    canary.assert_unopened();
}
