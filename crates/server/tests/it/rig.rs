//! A server with a home of its own, and a client that writes bytes and holds every answer against the description.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;
use std::thread::JoinHandle;
use std::time::Duration;

use ringfence_control::{Runner, Settings};
use ringfence_server::{ServeError, ServeOptions, Server};
use ringfence_store::{Clients, Home, KeyKind};
use rustix::event::{EventfdFlags, eventfd};
use serde_json::Value;
use tempfile::TempDir;

pub(crate) struct Rig {
    pub(crate) folder: TempDir,
    pub(crate) address: SocketAddr,
    pub(crate) key: String,
    pub(crate) e2b_key: String,
    stop: OwnedFd,
    running: Option<JoinHandle<Result<(), ServeError>>>,
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let line = self.head.lines().find(|line| line.to_ascii_lowercase().starts_with(&format!("{name}:")));
        line.map(|line| line[name.len() + 1..].trim())
    }
}

pub(crate) fn options() -> ServeOptions {
    ServeOptions::on("127.0.0.1:0".parse().unwrap(), |_| ())
}

pub(crate) fn open(home: &Home) -> Runner {
    Runner::open(home.clone(), Settings::load(&home.settings(), true).unwrap()).unwrap()
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::with(options())
    }

    pub(crate) fn with(options: ServeOptions) -> Self {
        Self::over(tempfile::tempdir().unwrap(), options)
    }

    pub(crate) fn over(folder: TempDir, options: ServeOptions) -> Self {
        let home = Home::open(&folder.path().join("home")).unwrap();
        let server = Server::bind(open(&home), &options).unwrap();
        let mut keys = server.first_keys().iter().map(|key| key.expose().to_owned());
        let (key, e2b_key) = (keys.next().unwrap_or_default(), keys.next().unwrap_or_default());
        let address = server.address().unwrap();
        let stop = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        let theirs = stop.as_fd().try_clone_to_owned().unwrap();
        let running = Some(std::thread::spawn(move || server.run(theirs)));
        Self { folder, address, key, e2b_key, stop, running }
    }

    pub(crate) fn home(&self) -> Home {
        Home::open(&self.folder.path().join("home")).unwrap()
    }

    /// A key of a new tenant.
    pub(crate) fn tenant(&self, name: &str) -> String {
        let mut clients = Clients::open(&self.home()).unwrap();
        clients.add_tenant(name, &["me".into()]).unwrap();
        clients.add_key(name, KeyKind::Api).unwrap().unwrap().expose().to_owned()
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    /// What is answered to some bytes until the connection ends.
    pub(crate) fn say(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        // A server that has heard enough hangs up in the middle.
        stream.write_all(bytes).unwrap_or_default();
        until_end(&mut stream)
    }

    /// A request with a key, and further header fields.
    pub(crate) fn ask_as(&self, key: &str, method: &str, path: &str, fields: &str, body: Option<&str>) -> Reply {
        let key = if key.is_empty() { String::new() } else { format!("Authorization: Bearer {key}\r\n") };
        let content = body.map(|body| format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len())).unwrap_or_default();
        let head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{key}{content}{fields}\r\n", self.address);
        let reply = parse(&self.say(&[head.as_bytes(), body.unwrap_or_default().as_bytes()].concat()));
        self.check(method, path, &reply);
        reply
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.ask_as(&self.key, "GET", path, "", None)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Reply {
        self.ask_as(&self.key, "POST", path, "", Some(&body.to_string()))
    }

    /// Runs a command to its end, and answers with its report.
    pub(crate) fn run(&self, body: &Value) -> Value {
        let reply = self.post("/v1/runs?wait=true", body);
        assert_eq!(reply.status, 201, "{reply:?}");
        reply.json()
    }

    /// No answer holds a path of the host or words of a database, and each is one that the description has.
    fn check(&self, method: &str, path: &str, reply: &Reply) {
        let root = self.folder.path().join("home").to_string_lossy().into_owned();
        assert!(!reply.body.contains(&root), "{method} {path}: {reply:?}");
        assert!(!reply.head.to_ascii_lowercase().contains("set-cookie"), "there are no cookies: {reply:?}");
        if reply.status >= 400 && !reply.body.is_empty() {
            for word in ["sqlite", "SQL", "panicked", ".rs:", "/home/", "/root/"] {
                let told = reply.body.replace("/home/user", ""); // the sandbox's own
                assert!(!told.contains(word), "{method} {path} tells of `{word}`: {reply:?}");
            }
            assert_eq!(reply.header("content-type"), Some("application/problem+json"), "{reply:?}");
        }
        assert!(reply.head.contains("x-content-type-options: nosniff") || reply.body.is_empty(), "{reply:?}");
        described(method, path, reply);
    }

    /// Asks the server to stop, and waits until it has.
    pub(crate) fn stop(&mut self) -> Result<(), ServeError> {
        rustix::io::write(&self.stop, &1u64.to_ne_bytes()).unwrap();
        self.running.take().unwrap().join().unwrap()
    }

    /// Stops, and hands out the folder with the home.
    pub(crate) fn into_folder(mut self) -> TempDir {
        self.stop().unwrap();
        std::mem::replace(&mut self.folder, tempfile::tempdir().unwrap())
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if self.running.is_some() {
            self.stop().unwrap();
        }
    }
}

pub(crate) fn until_end(stream: &mut impl Read) -> String {
    let mut bytes = Vec::new();
    let mut piece = [0; 16384];
    // A connection that is reset has said what it had to say.
    while let Ok(read @ 1..) = stream.read(&mut piece) {
        bytes.extend_from_slice(&piece[..read]);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

pub(crate) fn parse(text: &str) -> Reply {
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
    let status = head.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0);
    let body = if head.to_ascii_lowercase().contains("transfer-encoding: chunked") { unchunked(body) } else { body.to_owned() };
    Reply { status, head: head.to_owned(), body }
}

/// A body without the lengths of its chunks.
fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((length, rest)) = body.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap_or(0);
        let Some(chunk) = rest.get(..length) else { break };
        whole.push_str(chunk);
        body = rest.get(length + 2..).unwrap_or_default();
    }
    whole
}

/// The description, read once.
pub(crate) fn document() -> &'static Value {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    DOCUMENT.get_or_init(|| serde_json::from_str(&ringfence_server::openapi()).unwrap())
}

/// The operation of a request, if the description has one.
pub(crate) fn operation(method: &str, path: &str) -> Option<&'static Value> {
    let path: Vec<&str> = path.split('?').next()?.split('/').collect();
    let fits = |template: &str| {
        let parts: Vec<&str> = template.split('/').collect();
        parts.len() == path.len()
            && parts.iter().zip(&path).all(|(part, given)| part == given || (part.starts_with('{') && !given.is_empty()))
    };
    let (_, methods) = document()["paths"].as_object()?.iter().find(|(template, _)| fits(template))?;
    methods.get(method.to_ascii_lowercase())
}

/// The status is one of those that are told of, and the body has the form that is.
fn described(method: &str, path: &str, reply: &Reply) {
    let Some(operation) = operation(method, path) else { return };
    let mut response = &operation["responses"][reply.status.to_string()];
    assert!(!response.is_null(), "{method} {path} does not tell of {}: {reply:?}", reply.status);
    if let Some(place) = response["$ref"].as_str() {
        response = document().pointer(place.trim_start_matches('#')).unwrap();
    }
    if response["content"].is_null() {
        return assert!(reply.body.is_empty(), "{method} {path} has no body by its description: {reply:?}");
    }
    let kind = reply.header("content-type").unwrap_or_default().split(';').next().unwrap_or_default();
    let content = &response["content"][kind];
    assert!(!content.is_null(), "{method} {path} does not tell of `{kind}`: {reply:?}");
    if kind.ends_with("json") && kind != "application/x-ndjson" {
        let mut schema = content["schema"].clone();
        schema["components"] = document()["components"].clone();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let found: Vec<String> = validator.iter_errors(&reply.json()).map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert!(found.is_empty(), "{method} {path}: {found:?}: {reply:?}");
    }
}
