//! `ringfence serve`, `key` and `tenant`, by the real binary.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::support::{Place, binary};

pub(crate) struct Serving {
    child: Child,
    pub(crate) address: String,
    pub(crate) key: String,
    pub(crate) e2b_key: String,
}

impl Serving {
    /// Starts a server, and reads what it says first.
    pub(crate) fn start(place: &Place, options: &[&str]) -> Self {
        let mut command = place.command(binary());
        command.args(["serve", "--listen", "127.0.0.1:0"]).args(options);
        Self::of(command)
    }

    /// The same by a command of one's own.
    pub(crate) fn of(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let (mut key, mut e2b_key) = (String::new(), String::new());
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        let address = loop {
            let line = lines.next().unwrap();
            if let Some(at) = line.find("rf_") {
                key = line[at..].to_owned();
            }
            if let Some(at) = line.find("e2b_") {
                e2b_key = line[at..].to_owned();
            }
            if let Some(at) = line.find("://") {
                break line[at + 3..].to_owned();
            }
        };
        // Whatever it says later does not fill a pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address, key, e2b_key }
    }

    /// The number of its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn ask(&self, key: &str, method: &str, path: &str, body: &str) -> (u16, Value) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head[9..12].parse().unwrap(), serde_json::from_str(body).unwrap_or_default())
    }

    pub(crate) fn signal(mut self, signal: rustix::process::Signal) -> Option<i32> {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Serving {
    /// A test that fails leaves no server behind.
    fn drop(&mut self) {
        self.child.kill().unwrap_or_default();
        self.child.wait().map(drop).unwrap_or_default();
    }
}

#[test]
fn a_server_runs_and_is_stopped_by_a_signal() {
    for (place, signal) in Place::each().into_iter().zip([rustix::process::Signal::TERM, rustix::process::Signal::INT]) {
        let serving = Serving::start(&place, &["--drain", "300ms"]);
        let (status, report) = serving.ask(&serving.key, "POST", "/v1/runs?wait=true", &json!({"command": ["echo", "hello"]}).to_string());
        assert_eq!((status, &report["stdout"]), (201, &json!("hello\n")), "{report}");
        let (status, begun) = serving.ask(&serving.key, "POST", "/v1/runs", &json!({"command": ["sleep", "60"]}).to_string());
        assert_eq!(status, 202, "{begun}");
        let second = place.ringfence(&["serve", "--listen", "127.0.0.1:0"]);
        assert!(second.status == 125 && second.stderr.contains("another server has this home"), "{second:?}");
        assert_eq!(serving.signal(signal), Some(0));
        let shown = place.ringfence(&["evidence", "verify", begun["run"].as_str().unwrap()]);
        assert_eq!(shown.status, 0, "{shown:?}");
        place.assert_clean();
    }
}

#[test]
fn a_server_that_is_killed_leaves_nothing_that_the_next_one_does_not_take_away() {
    for place in Place::each() {
        let serving = Serving::start(&place, &[]);
        let body = json!({"command": ["sleep", "60"], "inputs": [{"name": "x", "content": "y"}]}).to_string();
        let (status, begun) = serving.ask(&serving.key, "POST", "/v1/runs", &body);
        assert_eq!(status, 202, "{begun}");
        let key = serving.key.clone();
        assert_eq!(serving.signal(rustix::process::Signal::KILL), None);
        let next = Serving::start(&place, &[]);
        assert!(next.key.is_empty(), "keys are shown once");
        let (status, view) = next.ask(&key, "GET", &format!("/v1/runs/{}", begun["run"].as_str().unwrap()), "");
        assert_eq!((status, &view["end"]["step"]), (200, &json!("interrupted")), "{view}");
        assert_eq!(next.signal(rustix::process::Signal::TERM), Some(0));
        place.assert_clean();
    }
}

#[test]
fn keys_and_tenants_are_made_listed_and_revoked() {
    for place in Place::each() {
        let added = place.ringfence(&["tenant", "add", "acme", "--agent", "me"]);
        assert_eq!(added.status, 0, "{added:?}");
        assert_eq!(place.ringfence(&["tenant", "add", "acme", "--agent", "me"]).status, 125);
        for (arguments, word) in [
            (["tenant", "add", "other", "--agent", "nobody"], "nobody"),
            (["tenant", "add", "../x", "--agent", "me"], "is not the name of a tenant"),
            (["key", "add", "--tenant", "nobody", "--kind=api"], "there is no tenant"),
            (["key", "add", "--tenant", "acme", "--kind=root"], "kind"),
        ] {
            let refused = place.ringfence(&arguments);
            assert!(refused.status == 125 && refused.stderr.contains(word) && refused.stderr.contains("hint: "), "{refused:?}");
        }
        let key = place.ringfence(&["key", "add", "--tenant", "acme"]).stdout;
        let key = key.trim();
        assert!(key.starts_with("rf_") && key.len() == 67, "{key}");
        let listed = place.ringfence(&["key", "ls", "--json"]).stdout;
        assert!(!listed.contains(key) && !listed.contains(&key[3..]), "{listed}");
        let listed: Value = serde_json::from_str(&listed).unwrap();
        let serving = Serving::start(&place, &[]);
        assert_eq!(serving.ask(key, "GET", "/v1/runs", "").0, 200);
        let revoked = place.ringfence(&["key", "revoke", listed[0]["id"].as_str().unwrap()]);
        assert_eq!(revoked.status, 0, "{revoked:?}");
        assert_eq!(serving.ask(key, "GET", "/v1/runs", "").0, 401);
        assert_eq!(place.ringfence(&["key", "revoke", listed[0]["id"].as_str().unwrap()]).status, 125);
        let tenants: Value = serde_json::from_str(&place.ringfence(&["tenant", "ls", "--json"]).stdout).unwrap();
        assert_eq!((&tenants[0]["name"], &tenants[1]["name"]), (&json!("acme"), &json!("default")));
        assert_eq!(serving.signal(rustix::process::Signal::TERM), Some(0));
    }
}

#[test]
fn a_server_that_strangers_could_listen_to_does_not_start() {
    for place in Place::each() {
        let refused = place.ringfence(&["serve", "--listen", "0.0.0.0:0"]);
        assert!(refused.status == 125 && refused.stderr.contains("hint: give a certificate"), "{refused:?}");
        let refused = place.ringfence(&["serve", "--listen", "127.0.0.1:0", "--drain", "soon"]);
        assert!(refused.status == 125 && refused.stderr.contains("--drain"), "{refused:?}");
    }
}

/// What a session left that was killed with its server: whether any process still bears its mark.
fn sleepers(mark: &str) -> usize {
    let lines = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| line.starts_with(b"sleep\0") && line.windows(mark.len()).any(|window| window == mark.as_bytes())).count()
}

/// Fifty sessions live, with a command each, when the server dies: nothing runs on, and each run has its end.
#[test]
fn fifty_sessions_of_a_killed_server_are_all_found_with_their_end() {
    for (number, place) in Place::each().into_iter().enumerate() {
        // As an ordinary user each has a watcher that sums its tree: fewer are enough to see the same.
        let (sessions, mark) = (if number == 0 { 50 } else { 10 }, format!("83.{}{number}", std::process::id()));
        let serving = Serving::start(&place, &[]);
        let key = serving.key.clone();
        let made: Vec<String> = (0..sessions)
            .map(|_| {
                let (status, view) = serving.ask(&key, "POST", "/v1/sessions", "{}");
                assert_eq!(status, 201, "{view}");
                view["session"].as_str().unwrap().to_owned()
            })
            .collect();
        for session in &made {
            let body = json!({"command": ["sleep", mark]}).to_string();
            let (status, begun) = serving.ask(&key, "POST", &format!("/v1/sessions/{session}/commands"), &body);
            assert_eq!(status, 202, "{begun}");
        }
        assert_eq!(sleepers(&mark), sessions);
        assert_eq!(serving.signal(rustix::process::Signal::KILL), None);
        let begun = std::time::Instant::now();
        while sleepers(&mark) > 0 {
            assert!(begun.elapsed() < std::time::Duration::from_secs(10), "{} run on", sleepers(&mark));
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let next = Serving::start(&place, &[]);
        for session in &made {
            let (status, view) = next.ask(&key, "GET", &format!("/v1/runs/{session}"), "");
            assert_eq!((status, &view["state"], &view["end"]["step"]), (200, &json!("failed"), &json!("interrupted")), "{view}");
        }
        let last = made.last().unwrap();
        assert_eq!(place.ringfence(&["evidence", "verify", last]).status, 0);
        assert_eq!(next.ask(&key, "GET", "/v1/sessions", "").1, json!({"sessions": []}));
        assert_eq!(next.signal(rustix::process::Signal::TERM), Some(0));
        place.assert_clean();
    }
}
