//! A client of E2B's protocol that does little, so that what is measured is the server: one connection, kept open.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

/// One client.
#[derive(Clone)]
pub(crate) struct Client {
    address: String,
    key: String,
}

/// A sandbox, and the connection by which it is asked.
pub(crate) struct Sandbox {
    connection: BufReader<TcpStream>,
    id: String,
    token: String,
    key: String,
    is_gone: bool,
}

impl Client {
    pub(crate) fn new(address: &str, key: &str) -> Self {
        Self { address: address.to_owned(), key: key.to_owned() }
    }

    /// Makes a sandbox.
    pub(crate) fn create(&self) -> Sandbox {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut connection = BufReader::new(stream);
        let head = format!("X-API-KEY: {}\r\nContent-Type: application/json\r\n", self.key);
        let body = br#"{"templateID":"base","timeout":600}"#;
        let (status, answer) = ask(&mut connection, "POST", "/v2/sandboxes", &head, body);
        let text = String::from_utf8(answer).unwrap();
        assert_eq!(status, 201, "{text}");
        let field = |name: &str| {
            let (_, rest) = text.split_once(&format!("\"{name}\":\"")).unwrap();
            rest.split('"').next().unwrap().to_owned()
        };
        Sandbox { id: field("sandboxID"), token: field("envdAccessToken"), key: self.key.clone(), is_gone: false, connection }
    }
}

impl Sandbox {
    /// Runs a command to its end.
    pub(crate) fn exec(&mut self, argv: &[&str]) {
        let args: Vec<String> = argv[1..].iter().map(|argument| format!("{argument:?}")).collect();
        let message = format!(r#"{{"process":{{"cmd":{:?},"args":[{}]}},"stdin":false}}"#, argv[0], args.join(","));
        let mut body = vec![0];
        body.extend((message.len() as u32).to_be_bytes());
        body.extend(message.as_bytes());
        let head = format!("E2b-Sandbox-Id: {}\r\nX-Access-Token: {}\r\nContent-Type: application/connect+json\r\n", self.id, self.token);
        let (status, answer) = ask(&mut self.connection, "POST", "/process.Process/Start", &head, &body);
        let answer = String::from_utf8_lossy(&answer);
        assert!(status == 200 && answer.contains("exit status 0"), "{status} {answer}");
    }

    /// Ends it.
    pub(crate) fn kill(&mut self) {
        self.is_gone = true;
        let head = format!("X-API-KEY: {}\r\n", self.key);
        let (status, _) = ask(&mut self.connection, "DELETE", &format!("/sandboxes/{}", self.id), &head, b"");
        assert_eq!(status, 204);
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        if !self.is_gone {
            self.kill();
        }
    }
}

/// One request and its whole answer.
fn ask(connection: &mut BufReader<TcpStream>, method: &str, path: &str, head: &str, body: &[u8]) -> (u16, Vec<u8>) {
    let mut request = format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{head}Content-Length: {}\r\n\r\n", body.len()).into_bytes();
    request.extend_from_slice(body);
    connection.get_mut().write_all(&request).unwrap();
    let status = line(connection).split(' ').nth(1).unwrap().parse().unwrap();
    let (mut length, mut is_chunked) = (0, false);
    loop {
        let field = line(connection).to_ascii_lowercase();
        match field.split_once(": ") {
            None => break,
            Some(("content-length", value)) => length = value.parse().unwrap(),
            Some(("transfer-encoding", value)) => is_chunked = value == "chunked",
            Some(_) => {}
        }
    }
    let answer = if is_chunked { chunks(connection) } else { exactly(connection, length) };
    (status, answer)
}

fn line(connection: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    connection.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

fn exactly(connection: &mut BufReader<TcpStream>, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    connection.read_exact(&mut bytes).unwrap();
    bytes
}

fn chunks(connection: &mut BufReader<TcpStream>) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let length = usize::from_str_radix(&line(connection), 16).unwrap();
        all.extend(exactly(connection, length));
        line(connection);
        if length == 0 {
            return all;
        }
    }
}
