//! Words that a header, a log or a database would obey.

use serde_json::{Value, json};

use super::{Things, escaped, operations};
use crate::e2b::wire::{ask, control};
use crate::rig::{Rig, document};

const BROKEN: &str = "x\r\nX-Evil: 1\r\n\r\nHTTP/1.1 200 OK\r\nX-Evil: 2";

/// No line of the head is the client's, and the connection holds one answer.
fn assert_one_answer(what: &str, head: &str, body: &str) {
    let lines: Vec<&str> = head.lines().filter(|line| line.to_ascii_lowercase().starts_with("x-evil")).collect();
    assert!(lines.is_empty() && !head.contains("Evil"), "{what}: {head}");
    assert!(!body.contains("\r\nX-Evil"), "{what}: {body}");
}

/// The fields of a body that hold text, and lists or tables of text.
fn bodies(operation: &'static Value) -> Vec<Value> {
    let place = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].as_str();
    let Some(schema) = place.and_then(|place| document().pointer(place.trim_start_matches('#'))) else { return Vec::new() };
    let command = schema["properties"].get("command").map(|_| json!(["true"]));
    let names = schema["properties"].as_object().into_iter().flat_map(|properties| properties.keys());
    let forms = |name: &String| [json!({name: BROKEN}), json!({name: [BROKEN]}), json!({name: {BROKEN: BROKEN}})];
    let whole = |mut body: Value| {
        if let (None, Some(command)) = (body.get("command"), &command) {
            body["command"] = command.clone();
        }
        body
    };
    names.flat_map(forms).map(whole).collect()
}

#[test]
fn sv_15_no_word_of_a_client_ends_a_line_of_an_answer() {
    let rig = Rig::new();
    let things = Things::of(&rig);
    let name = escaped(BROKEN);
    let key = format!("Authorization: Bearer {}\r\n", rig.key);
    let mut asked = 0;
    for (method, path, operation) in operations() {
        let named = things.named(path);
        for place in [named.replace("{", "{x").replace(&things.run, &name), format!("{named}?{name}={name}&path={name}&agent={name}")] {
            let place = place.split('/').map(|part| if part.starts_with('{') { name.as_str() } else { part }).collect::<Vec<_>>().join("/");
            let answer = ask(&rig, &method, &place, &key, b"");
            assert_one_answer(&place, &answer.head, &answer.text());
        }
        for body in bodies(operation) {
            let fields = format!("{key}Content-Type: application/json\r\nIdempotency-Key: {asked}\r\n");
            let first = ask(&rig, &method, &named, &fields, body.to_string().as_bytes());
            let again = ask(&rig, &method, &named, &fields, body.to_string().as_bytes());
            assert_one_answer(&format!("{method} {named} {body}"), &first.head, &first.text());
            assert_one_answer(&format!("{method} {named} {body} again"), &again.head, &again.text());
            assert!(first.status < 500, "{method} {named} {body}: {first:?}");
            asked += 1;
        }
    }
    assert!(asked > 60, "{asked} bodies");
    let metadata = json!({"templateID": "base", "timeout": 60, "metadata": {BROKEN: BROKEN}, "envVars": {"A": BROKEN}});
    let made = control(&rig, &rig.e2b_key, "POST", "/v2/sandboxes", Some(&metadata));
    assert_one_answer("metadata", &made.head, &made.text());
    let listed = control(&rig, &rig.e2b_key, "GET", &format!("/v2/sandboxes?metadata={name}%3D{name}&nextToken={name}"), None);
    assert_one_answer("list", &listed.head, &listed.text());
}

#[test]
fn sv_15_a_name_that_a_program_gave_ends_no_line_either() {
    let rig = Rig::new();
    let make = "import os\nname = 'r\\r\\nX-Evil: 1\\r\\n\\r\\n.txt'\nopen(name, 'w').write('x')";
    let report = rig.run(&json!({"command": ["python3", "-c", make], "exports": ["r*"]}));
    let run = report["run"].as_str().unwrap();
    for path in ["", "/artifacts", "/events"] {
        let reply = rig.get(&format!("/v1/runs/{run}{path}"));
        assert_one_answer(path, &reply.head, &reply.body);
    }
    assert_eq!(report["artifacts"].as_array().unwrap().len(), 1, "{report}");
    let things = Things::of(&rig);
    let session = &things.sandbox.id;
    let done = rig.post(&format!("/v1/sessions/{session}/commands?wait=true"), &json!({"command": ["python3", "-c", make]}));
    assert_eq!(done.json()["exit_status"], 0, "{done:?}");
    let name = escaped("r\r\nX-Evil: 1\r\n\r\n.txt");
    for path in [format!("files?path={name}"), format!("files/stat?path={name}"), "files/list".to_owned()] {
        let reply = rig.get(&format!("/v1/sessions/{session}/{path}"));
        assert_eq!(reply.status, 200, "{reply:?}");
        assert_one_answer(&path, &reply.head, &reply.body);
    }
    let answer = things.sandbox.envd("GET", &format!("/files?path={name}"), "", b"");
    assert_eq!((answer.status, answer.text().as_str()), (200, "x"), "{answer:?}");
    assert_one_answer("files", &answer.head, &answer.text());
}

const SQL: &[&str] = &[
    "'",
    "\"",
    "`",
    "' OR '1'='1",
    "me' OR 'a'='a' --",
    "' UNION SELECT sha256 FROM keys --",
    "x' UNION SELECT name,1,2,3,4,5,6,7 FROM sqlite_master --",
    "'; DROP TABLE runs; --",
    "1; ATTACH DATABASE '/tmp/x' AS x; --",
    "%' ESCAPE '\\",
    "_%",
    "me\\",
    "me\0' --",
    "1 OR 1=1",
    "-1",
    "rowid DESC",
];

#[test]
fn sv_17_every_filter_takes_words_of_sql_as_words() {
    let rig = Rig::new();
    let things = Things::of(&rig);
    let kept = |rig: &Rig| {
        [rig.get("/v1/runs").json(), rig.get("/v1/agents").json(), rig.get("/v1/states").json(), rig.get("/v1/promotions").json()]
    };
    let before = kept(&rig);
    let mut filters = 0;
    for (method, path, operation) in operations() {
        let parameters = operation["parameters"].as_array().into_iter().flatten().filter(|parameter| parameter["in"] == "query");
        // Paths are the sandbox's: SV-07 is about them.
        let names: Vec<&str> = parameters.map(|parameter| parameter["name"].as_str().unwrap()).filter(|name| *name != "path").collect();
        assert!(!names.iter().any(|name| name.contains("sort") || name.contains("order")), "{path} sorts: what by is to be tried here");
        for name in names {
            filters += 1;
            for word in SQL {
                let asked = format!("{}?{name}={}", things.named(path), escaped(word));
                let key = format!("Authorization: Bearer {}\r\n", rig.key);
                let answer = ask(&rig, &method, &asked, &key, b"");
                assert!(answer.status < 500, "{method} {asked}: {answer:?}");
                // The same as of a word without any meaning to a database: it is refused, or nothing has it.
                let plain = ask(&rig, &method, &asked.replace(&escaped(word), "%7e%7e%7e"), &key, b"");
                assert_eq!(answer.status, plain.status, "{method} {asked}: {answer:?}, {plain:?}");
                assert!(answer.status >= 400 || answer.body == plain.body, "{method} {asked}: {answer:?}, {plain:?}");
            }
        }
    }
    assert!(filters > 10, "{filters}");
    assert_eq!(kept(&rig), before);
}

#[test]
fn sv_17_so_does_every_filter_of_e2b_and_every_other_word_that_is_looked_up() {
    let rig = Rig::new();
    let things = Things::of(&rig);
    let list = |query: &str| control(&rig, &rig.e2b_key, "GET", &format!("/v2/sandboxes{query}"), None);
    for word in SQL {
        let word = escaped(word);
        for query in ["metadata=who%3D", "metadata=", "state=", "nextToken=", "limit=", "order=", "templateID="] {
            let (answer, plain) = (list(&format!("?{query}{word}")), list(&format!("?{query}%7e%7e%7e")));
            assert!(answer.status < 500 && answer.status == plain.status, "{query}{word}: {answer:?}, {plain:?}");
            if query.starts_with("metadata=who") {
                assert_eq!(answer.json(), json!([]), "{answer:?}");
            }
        }
        for path in ["/snapshots?sandboxID=", "/snapshots?nextToken=", "/sandboxes/", "/templates/"] {
            let answer = control(&rig, &rig.e2b_key, if path == "/templates/" { "DELETE" } else { "GET" }, &format!("{path}{word}"), None);
            assert!(answer.status < 500, "{path}{word}: {answer:?}");
        }
    }
    for word in SQL.iter().filter(|word| !word.contains('\0')) {
        let fields = format!("Idempotency-Key: {word}\r\n");
        let body = json!({"command": ["true"]}).to_string();
        let ask = || rig.ask_as(&rig.key, "POST", "/v1/runs?wait=true", &fields, Some(&body));
        let (first, again) = (ask(), ask());
        assert_eq!((first.status, first.json()["run"].clone()), (201, again.json()["run"].clone()), "{word}");
        for key in [format!("rf_{word}"), format!("{}' --", rig.key), format!("rf_{}", "'".repeat(64))] {
            assert!([401, 429].contains(&rig.ask_as(&key, "GET", "/v1/runs", "", None).status), "{key}");
        }
    }
    assert_eq!(list("").json().as_array().unwrap().len(), 1);
    drop(things);
}
