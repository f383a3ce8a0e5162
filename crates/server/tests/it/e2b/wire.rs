//! A client that writes bytes: sandboxes made and asked, envelopes read as they come.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::rig::Rig;

pub(crate) const ENVD: u16 = 49983;
pub(crate) const CODE: u16 = 49999;

/// An answer, whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let line = self.head.lines().find(|line| line.to_ascii_lowercase().starts_with(&format!("{name}:")));
        line.map(|line| line[name.len() + 1..].trim())
    }

    pub(crate) fn message(&self) -> String {
        self.json()["message"].as_str().unwrap().to_owned()
    }
}

/// A request, and its answer to the end.
pub(crate) fn ask(rig: &Rig, method: &str, path: &str, fields: &str, body: &[u8]) -> Answer {
    let mut reader = send(rig, method, path, fields, body);
    let (status, head) = read_head(&mut reader);
    let mut bytes = Vec::new();
    if head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        while let Some(chunk) = read_chunk(&mut reader) {
            bytes.extend(chunk);
        }
    } else {
        reader.read_to_end(&mut bytes).unwrap_or_default();
    }
    Answer { status, head, body: bytes }
}

fn send(rig: &Rig, method: &str, path: &str, fields: &str, body: &[u8]) -> BufReader<TcpStream> {
    let mut stream = rig.connect();
    let host = if fields.contains("Host: ") { String::new() } else { format!("Host: {}\r\n", rig.address) };
    let length = if fields.contains("Transfer-Encoding") { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    let head = format!("{method} {path} HTTP/1.1\r\n{host}Connection: close\r\n{length}{fields}\r\n");
    stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
    BufReader::new(stream)
}

fn read_head(reader: &mut BufReader<TcpStream>) -> (u16, String) {
    let mut head = String::new();
    while reader.read_line(&mut head).unwrap() > 2 {}
    (head[9..12].parse().unwrap(), head)
}

/// The next chunk; none at the end, and where the connection breaks off.
fn read_chunk(reader: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let length = usize::from_str_radix(line.trim(), 16).ok().filter(|length| *length > 0)?;
    let mut chunk = vec![0; length + 2];
    reader.read_exact(&mut chunk).ok()?;
    chunk.truncate(length);
    Some(chunk)
}

/// The control plane, as a tenant.
pub(crate) fn control(rig: &Rig, key: &str, method: &str, path: &str, body: Option<&Value>) -> Answer {
    let (kind, body) = body.map_or(("", String::new()), |body| ("Content-Type: application/json\r\n", body.to_string()));
    ask(rig, method, path, &format!("X-API-KEY: {key}\r\n{kind}"), body.as_bytes())
}

/// A sandbox that is gone at the end.
pub(crate) struct Sandbox<'r> {
    pub(crate) rig: &'r Rig,
    pub(crate) id: String,
    pub(crate) token: Option<String>,
    pub(crate) traffic: String,
}

impl<'r> Sandbox<'r> {
    pub(crate) fn new(rig: &'r Rig) -> Self {
        Self::with(rig, json!({}))
    }

    pub(crate) fn with(rig: &'r Rig, asked: Value) -> Self {
        let mut body = json!({"templateID": "base", "timeout": 60});
        body.as_object_mut().unwrap().extend(asked.as_object().unwrap().clone());
        Self::at(rig, "/v2/sandboxes", &body)
    }

    pub(crate) fn at(rig: &'r Rig, path: &str, body: &Value) -> Self {
        let made = control(rig, &rig.e2b_key, "POST", path, Some(body));
        assert_eq!(made.status, 201, "{made:?}");
        let text = |name: &str| made.json()[name].as_str().map(str::to_owned);
        Self { rig, id: text("sandboxID").unwrap(), token: text("envdAccessToken"), traffic: text("trafficAccessToken").unwrap() }
    }

    pub(crate) fn route(&self, port: u16) -> String {
        format!("E2b-Sandbox-Id: {}\r\nE2b-Sandbox-Port: {port}\r\n", self.id)
    }

    fn fields(&self) -> String {
        let token = self.token.as_ref().map(|token| format!("X-Access-Token: {token}\r\n")).unwrap_or_default();
        self.route(ENVD) + &token
    }

    /// The daemon, with the token.
    pub(crate) fn envd(&self, method: &str, path: &str, fields: &str, body: &[u8]) -> Answer {
        ask(self.rig, method, path, &(self.fields() + fields), body)
    }

    /// A single call.
    pub(crate) fn call(&self, procedure: &str, body: &Value) -> Answer {
        self.call_with(procedure, "", body)
    }

    pub(crate) fn call_with(&self, procedure: &str, fields: &str, body: &Value) -> Answer {
        let fields = format!("Content-Type: application/json\r\nConnect-Protocol-Version: 1\r\n{fields}");
        self.envd("POST", &format!("/{procedure}"), &fields, body.to_string().as_bytes())
    }

    /// A call that is answered by a stream.
    pub(crate) fn stream(&self, procedure: &str, fields: &str, body: &Value) -> Stream {
        let kind = "Content-Type: application/connect+json\r\nConnect-Protocol-Version: 1\r\n";
        let fields = format!("{}{kind}{fields}", self.fields());
        let mut reader = send(self.rig, "POST", &format!("/{procedure}"), &fields, &envelope(body));
        let (status, head) = read_head(&mut reader);
        assert_eq!(status, 200, "{head}");
        let is_chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
        Stream { reader, is_chunked, held: Vec::new() }
    }

    /// Starts a line of bash.
    pub(crate) fn bash(&self, line: &str) -> Stream {
        self.bash_with(line, "", &json!({}))
    }

    pub(crate) fn bash_with(&self, line: &str, fields: &str, more: &Value) -> Stream {
        let mut body = json!({"process": {"cmd": "/bin/bash", "args": ["-c", line]}, "stdin": false});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.stream("process.Process/Start", fields, &body)
    }

    pub(crate) fn delete(&self) -> Answer {
        control(self.rig, &self.rig.e2b_key, "DELETE", &format!("/sandboxes/{}", self.id), None)
    }

    pub(crate) fn write(&self, path: &str, content: &str) {
        let fields = "Content-Type: application/octet-stream\r\n";
        let written = self.envd("POST", &format!("/files?path={path}"), fields, content.as_bytes());
        assert_eq!(written.status, 200, "{written:?}");
    }

    pub(crate) fn read(&self, path: &str) -> String {
        self.envd("GET", &format!("/files?path={path}"), "", b"").text()
    }
}

impl Drop for Sandbox<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.delete();
        }
    }
}

pub(crate) fn envelope(message: &Value) -> Vec<u8> {
    let json = message.to_string();
    [&[0][..], &u32::try_from(json.len()).unwrap().to_be_bytes(), json.as_bytes()].concat()
}

/// A stream of envelopes.
pub(crate) struct Stream {
    reader: BufReader<TcpStream>,
    is_chunked: bool,
    held: Vec<u8>,
}

/// What a stream came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Heard {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) end: Value,
    /// The last envelope; null where the stream broke off.
    pub(crate) last: Value,
}

impl Stream {
    /// The next message and whether it is the last; none where the stream broke off.
    pub(crate) fn next(&mut self) -> Option<(bool, Value)> {
        while self.held.len() < 5 || self.held.len() < 5 + self.length() {
            let more = if self.is_chunked { read_chunk(&mut self.reader)? } else { self.rest()? };
            self.held.extend(more);
        }
        let end = 5 + self.length();
        let message: Vec<u8> = self.held.drain(..end).collect();
        Some((message[0] == 2, serde_json::from_slice(&message[5..]).unwrap()))
    }

    fn length(&self) -> usize {
        u32::from_be_bytes(self.held[1..5].try_into().unwrap()) as usize
    }

    fn rest(&mut self) -> Option<Vec<u8>> {
        let mut rest = vec![0; 65536];
        let read = self.reader.read(&mut rest).ok().filter(|read| *read > 0)?;
        rest.truncate(read);
        Some(rest)
    }

    /// The next event of a process.
    pub(crate) fn event(&mut self) -> Value {
        self.next().unwrap().1["event"].clone()
    }

    /// The process id, which comes before all else.
    pub(crate) fn pid(&mut self) -> i64 {
        let event = self.event();
        event["start"]["pid"].as_i64().unwrap_or_else(|| panic!("no start: {event}"))
    }

    /// The rest, to its end.
    pub(crate) fn heard(&mut self) -> Heard {
        let mut heard = Heard::default();
        while let Some((is_last, message)) = self.next() {
            if is_last {
                heard.last = message;
                break;
            }
            let event = &message["event"];
            heard.stdout += &decoded(&event["data"]["stdout"]);
            heard.stdout += &decoded(&event["data"]["pty"]);
            heard.stderr += &decoded(&event["data"]["stderr"]);
            if !event["end"].is_null() {
                heard.end = event["end"].clone();
            }
        }
        heard
    }

    /// Hears until some output was seen.
    pub(crate) fn until(&mut self, text: &str) -> String {
        let mut seen = String::new();
        while !seen.contains(text) {
            let data = self.event()["data"].clone();
            seen += &(decoded(&data["stdout"]) + &decoded(&data["pty"]));
        }
        seen
    }

    /// The code of the error with which it ends.
    pub(crate) fn error(&mut self) -> String {
        self.heard().last["error"]["code"].as_str().unwrap_or_default().to_owned()
    }

    /// Whether the connection ends with a reset.
    pub(crate) fn is_reset(&mut self) -> bool {
        let mut rest = Vec::new();
        matches!(self.reader.read_to_end(&mut rest), Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset)
    }
}

fn decoded(value: &Value) -> String {
    value.as_str().map(|text| String::from_utf8(STANDARD.decode(text).unwrap()).unwrap()).unwrap_or_default()
}

pub(crate) fn encoded(text: &str) -> String {
    STANDARD.encode(text)
}

/// Waits until something is so.
pub(crate) fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..250 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("{what}: not in time");
}
