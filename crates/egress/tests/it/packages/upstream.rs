//! An upstream on loopback that says what a test gives it to say, slowly, endlessly or wrongly if wanted, and remembers what it was asked.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What is said at one path.
#[derive(Clone)]
pub(super) enum Reply {
    /// A page or file.
    Page(&'static str, Vec<u8>),
    /// A status without more.
    Status(u16),
    /// The first byte, and then one every 50 ms.
    Slow,
    /// A body that does not end.
    Endless,
    /// Somewhere else.
    Redirect(String),
}

/// One request as it came.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) path: String,
    pub(super) authorization: Option<String>,
}

#[derive(Default)]
struct State {
    replies: BTreeMap<String, Reply>,
    asked: Vec<Asked>,
    is_down: bool,
}

/// The upstream. Its thread ends with the test's process.
#[derive(Clone)]
pub(super) struct Upstream {
    pub(super) address: String,
    state: Arc<Mutex<State>>,
}

impl Upstream {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let upstream = Self { address, state: Arc::default() };
        let serving = upstream.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let one = serving.clone();
                // A client that is gone early is what some tests are about.
                std::thread::spawn(move || drop(one.answer(stream)));
            }
        });
        upstream
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(super) fn say(&self, path: &str, reply: Reply) {
        self.state.lock().unwrap().replies.insert(path.to_owned(), reply);
    }

    pub(super) fn asked(&self) -> Vec<Asked> {
        self.state.lock().unwrap().asked.clone()
    }

    pub(super) fn was_asked_about(&self, part: &str) -> bool {
        self.asked().iter().any(|asked| asked.path.contains(part))
    }

    /// From now on it closes every connection without a word.
    pub(super) fn set_down(&self, is_down: bool) {
        self.state.lock().unwrap().is_down = is_down;
    }

    fn answer(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut lines = BufReader::new(stream.try_clone()?).lines();
        let request = lines.next().transpose()?.unwrap_or_default();
        let mut authorization = None;
        while let Some(line) = lines.next().transpose()?.filter(|line| !line.is_empty()) {
            if let Some((_, value)) = line.split_once(": ").filter(|(key, _)| key.eq_ignore_ascii_case("authorization")) {
                authorization = Some(value.to_owned());
            }
        }
        let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
        let reply = {
            let mut state = self.state.lock().unwrap();
            state.asked.push(Asked { path: path.clone(), authorization });
            if state.is_down {
                return Ok(());
            }
            state.replies.get(&path).cloned().unwrap_or(Reply::Status(404))
        };
        say(&mut stream, reply)
    }
}

fn say(stream: &mut TcpStream, reply: Reply) -> std::io::Result<()> {
    match reply {
        Reply::Page(kind, body) => {
            write!(stream, "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len())?;
            stream.write_all(&body)
        }
        Reply::Status(status) => write!(stream, "HTTP/1.1 {status} No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"),
        Reply::Redirect(to) => {
            write!(stream, "HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        }
        Reply::Slow => {
            write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")?;
            loop {
                stream.write_all(b"x")?;
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        Reply::Endless => {
            write!(stream, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")?;
            let chunk = [b"10000\r\n".as_slice(), &[b'x'; 0x10000], b"\r\n"].concat();
            loop {
                stream.write_all(&chunk)?;
            }
        }
    }
}
