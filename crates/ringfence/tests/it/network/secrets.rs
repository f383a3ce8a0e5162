//! A planted credential reaches the host that it is for, and is found nowhere else.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{Net, lines};
use crate::support::{Place, binary, outcome};

const SECRET: &str = "RFSECRET_5up3r-s3cr3t-v4lu3";
const BINDING: &str =
    "[credentials]\nallow = [\"api: https://api.example.com:443 methods=GET paths=/echo header=Authorization variable=API_TOKEN\"]";

fn store(place: &Place, secret: &str) {
    let mut command = place.command(binary());
    command.args(["credential", "set", "api"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(format!("{secret}\n").as_bytes()).unwrap();
    let outcome = outcome(child.wait_with_output().unwrap());
    assert_eq!((outcome.status, outcome.stdout.as_str(), outcome.stderr.as_str()), (0, "", ""));
}

/// Files below a folder that hold the secret in any form in which it could stand there.
fn holders(folder: &Path) -> Vec<String> {
    let forms =
        [SECRET.to_owned(), STANDARD.encode(SECRET).trim_end_matches('=').to_owned(), SECRET.bytes().map(|b| format!("{b:02x}")).collect()];
    let mut found = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(path) = waiting.pop() {
        match fs::symlink_metadata(&path).map(|meta| meta.file_type()) {
            Ok(kind) if kind.is_dir() => waiting.extend(fs::read_dir(&path).unwrap().flatten().map(|entry| entry.path())),
            Ok(kind) if kind.is_file() => {
                let bytes = fs::read(&path).unwrap();
                let holds = |form: &String| bytes.windows(form.len()).any(|window| window == form.as_bytes());
                found.extend(forms.iter().any(holds).then(|| path.display().to_string()));
            }
            Ok(_) | Err(_) => {}
        }
    }
    found
}

#[test]
fn a_planted_credential_reaches_its_host_and_is_found_nowhere_else() {
    for net in Net::each(&["https://api.example.com:443", "https://good.example.com:443", "http://api.example.com:80"], BINDING) {
        store(&net.place, SECRET);
        let script = "curl -sS -H \"Authorization: Bearer $API_TOKEN\" https://api.example.com/echo/1 > kept; grep -c Bearer kept; \
             curl -sS -u \"me:$API_TOKEN\" https://api.example.com/echo/2 >> kept; \
             curl -s -o /dev/null -w '%{http_code}\\n' -H \"Authorization: Bearer $API_TOKEN\" https://api.example.com/other; \
             curl -sk -H \"Authorization: Bearer $API_TOKEN\" https://good.example.com/echo/3 >> kept; \
             curl -s -H \"Authorization: Bearer $API_TOKEN\" http://api.example.com/echo/4 >> kept; \
             env >> kept; cat /proc/*/environ /proc/*/cmdline >> kept 2>/dev/null; cat /etc/hosts /etc/ssl/certs/ca-certificates.crt >> kept; \
             cat kept";
        let report = net.run(&["--export", "kept"], script);
        let out = lines(&report);
        assert_eq!(out[..2], ["1", "403"], "{}", report["network"]);
        assert!(out.iter().any(|line| line.contains("Bearer ringfence-placeholder-")));
        assert!(!report.to_string().contains(SECRET));
        // Who writes it into an argument shows it to the program, and to no record.
        assert_eq!(lines(&net.run(&[], &format!("echo {SECRET} | wc -c"))), [(SECRET.len() + 1).to_string()]);
        // It arrived, once as it is and once encoded, at its host and for its requests alone.
        let heard = fs::read_to_string(net.place.path("internet/heard.jsonl")).unwrap();
        let with: Vec<&str> = heard.lines().filter(|line| line.contains(SECRET)).collect();
        assert!(with.len() == 1 && with[0].contains("GET /echo/1 "), "{heard}");
        let encoded = STANDARD.encode(format!("me:{SECRET}"));
        assert!(heard.lines().any(|line| line.contains("GET /echo/2 ") && line.contains(&encoded)), "{heard}");
        assert!(heard.lines().any(|line| line.contains("GET /echo/3 ") && line.contains("ringfence-placeholder-")), "{heard}");
        assert!(!heard.contains("/other"), "{heard}");
        // Nothing that is kept holds it: records, artifacts, the sealed credential itself.
        assert_eq!(holders(&net.place.home()), Vec::<String>::new());
        let credentials: Vec<&str> = report["network"].as_array().unwrap().iter().filter_map(|one| one["credential"].as_str()).collect();
        assert_eq!(credentials, ["api", "api"], "{report}");
        let shown = net.place.ringfence(&["evidence", "show", report["run"].as_str().unwrap()]);
        assert!(shown.status == 0 && !shown.stdout.contains(SECRET), "{shown:?}");
        assert_eq!(net.place.ringfence(&["evidence", "verify", report["run"].as_str().unwrap()]).status, 0);
    }
}

/// The process that holds the value leaves no core file.
#[test]
fn no_core_file_holds_a_credential() {
    for net in Net::each(&["https://api.example.com:443"], BINDING) {
        store(&net.place, SECRET);
        net.place.folder("cores");
        let program = binary().display().to_string();
        let script = format!(
            "ulimit -c unlimited; cd cores; cp ../internet/ca.pem .; \
             {program} run --profile ../net.toml -- bash -c 'echo ready; sleep 20' > out & \
             for i in $(seq 200); do grep -q ready out 2>/dev/null && break; sleep 0.05; done; kill -ABRT $!; wait $!; echo $?"
        );
        let outcome = net.amid(&["/bin/bash", "-c", &script]);
        assert!(outcome.stdout.trim_end().ends_with("134"), "{outcome:?}");
        assert_eq!(holders(&net.place.path("cores")), Vec::<String>::new());
        let cores: Vec<_> = fs::read_dir(net.place.path("cores")).unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert!(!cores.iter().any(|name| name.to_string_lossy().contains("core")), "{cores:?}");
    }
}

#[test]
fn a_credential_that_is_not_stored_or_does_not_open_refuses_the_run() {
    for net in Net::each(&["https://api.example.com:443"], BINDING) {
        let report = net.run(&[], "true");
        assert_eq!(report["end"]["rule"], "credential `api` is not stored", "{report}");
        assert!(report["end"]["hint"].as_str().unwrap().contains("ringfence credential set api"), "{report}");
        store(&net.place, SECRET);
        assert_eq!(net.run(&[], "true")["end"]["code"], 0);
        let key = net.place.home().join("keys/credentials.key");
        fs::write(&key, "0".repeat(64)).unwrap();
        let report = net.run(&[], "true");
        assert!(report["end"]["rule"].as_str().unwrap().contains("another key"), "{report}");
    }
}

#[test]
fn a_value_is_read_from_standard_input_or_a_file_and_never_from_the_command_line() {
    for place in Place::each() {
        for (value, why) in
            [("short", "at least 8"), ("with a blank in it", "visible ASCII"), ("two\nlines-of-it", "visible ASCII"), ("", "at least 8")]
        {
            let file = place.write("value", value);
            let outcome = place.ringfence(&["credential", "set", "api", "--from", file.to_str().unwrap()]);
            assert!(outcome.status == 125 && outcome.stderr.contains(why) && outcome.stderr.contains("hint: "), "{outcome:?}");
        }
        assert_eq!(place.ringfence(&["credential", "set", "api", SECRET]).status, 125);
        assert_eq!(place.ringfence(&["credential", "set", "Not A Name"]).status, 125);
        let file = place.write("value", format!("{SECRET}\r\n"));
        assert_eq!(place.ringfence(&["credential", "set", "api", "--from", file.to_str().unwrap()]).status, 0);
        let listed = place.ringfence(&["credential", "ls", "--json"]);
        assert!(listed.stdout.contains("\"name\": \"api\"") && !listed.stdout.contains(SECRET), "{listed:?}");
        assert_eq!(place.ringfence(&["credential", "rm", "api"]).status, 0);
        assert_eq!(place.ringfence(&["credential", "rm", "api"]).status, 125);
        assert_eq!(holders(&place.home()), Vec::<String>::new());
    }
}
