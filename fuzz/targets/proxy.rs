//! What a program inside sends to the broker's sockets: to the proxy, or, after a first byte of 0, as a question for a name. `PORT` in it is that of a
//! server that a rule allows, `BAIT` that of one that none does: nothing reaches the second, only requests that a rule holds reach the first, and the
//! broker serves the next client.
#![no_main]

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use ringfence_egress::{Broker, DoorRole, EgressEvent, Interception, Layout, Resolver, Resolving, Rules, Terms, Unrecorded, Witness};
use ringfence_policy::{Destination, HostName, Set};
use tokio::runtime::Runtime;

/// Less than what the fuzzer calls a hang, and less than anything that the broker itself waits for.
const PATIENCE: Duration = Duration::from_secs(8);

fuzz_target!(|bytes: &[u8]| {
    static ROOM: OnceLock<Room> = OnceLock::new();
    let room = ROOM.get_or_init(Room::new);
    match bytes.split_first() {
        Some((0, question)) => room.ask(question),
        Some((_, said)) => drop(room.say(&room.with_ports(said))),
        None => return,
    }
    let place = format!("good.example.com:{}", room.good);
    let answer = room.say(format!("GET http://{place}/v1 HTTP/1.1\r\nHost: {place}\r\nConnection: close\r\n\r\n").as_bytes());
    assert!(answer.ends_with(b"hello"), "{}", String::from_utf8_lossy(&answer));
    assert!(!BAIT.load(Ordering::SeqCst), "the bait was reached");
    assert!(!STRAY.load(Ordering::SeqCst), "a request arrived that no rule holds");
});

static BAIT: AtomicBool = AtomicBool::new(false);
static STRAY: AtomicBool = AtomicBool::new(false);

struct Room {
    _runtime: Runtime,
    _broker: Broker,
    proxy: SocketAddr,
    names: SocketAddr,
    good: u16,
    bait: u16,
}

/// Every name leads here, so that what is refused is refused by a rule.
#[derive(Debug)]
struct Here;

impl Resolver for Here {
    fn resolve<'a>(&'a self, _: &'a HostName) -> Resolving<'a> {
        Box::pin(async { Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]) })
    }
}

/// A record whose texts are fit to be read.
#[derive(Debug)]
struct Reader;

impl Witness for Reader {
    fn tell(&self, event: EgressEvent) -> Result<(), Unrecorded> {
        let texts = match event {
            EgressEvent::Opened(opened) => vec![opened.host, opened.request.map(|line| line.method + &line.path).unwrap_or_default()],
            EgressEvent::Closed(closed) => vec![closed.cause.unwrap_or_default()],
            EgressEvent::Refused(refused) => {
                vec![refused.host, refused.reason, refused.request.map(|line| line.method + &line.path).unwrap_or_default()]
            }
        };
        let is_fit = |text: &String| text.chars().count() <= 512 && !text.chars().any(char::is_control);
        if !texts.iter().all(is_fit) {
            eprintln!("not fit for a record: {texts:?}");
            std::process::abort(); // a panic would end in the broker's own task
        }
        Ok(())
    }
}

/// A server whose connections are served one after another, each on a thread.
fn server(serve: fn(TcpStream)) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || listener.incoming().flatten().for_each(|stream| drop(std::thread::spawn(move || serve(stream)))));
    port
}

/// Answers requests of the rule's kind; anything else that arrives is noted.
fn answer(mut stream: TcpStream) {
    while let Some(head) = line_to(&mut stream, b"\r\n\r\n") {
        let text = String::from_utf8_lossy(&head);
        let path = text.strip_prefix("GET /v1").and_then(|rest| rest.split([' ', '?']).next());
        STRAY.fetch_or(!path.is_some_and(|path| !path.contains("/..")), Ordering::SeqCst);
        let fields = text.to_lowercase();
        let length = fields.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        if length.is_some_and(|length| skip(&mut stream, length).is_none()) {
            return;
        }
        while fields.contains("\r\ntransfer-encoding: chunked\r\n") {
            let size = line_to(&mut stream, b"\r\n").and_then(|line| usize::from_str_radix(String::from_utf8_lossy(&line).trim(), 16).ok());
            let Some(size) = size.filter(|size| skip(&mut stream, size + 2).is_some()) else { return };
            if size == 0 {
                break;
            }
        }
        if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").is_err() {
            return;
        }
    }
}

fn line_to(stream: &mut TcpStream, end: &[u8]) -> Option<Vec<u8>> {
    let (mut line, mut byte) = (Vec::new(), [0]);
    while !line.ends_with(end) {
        stream.read_exact(&mut byte).ok()?;
        line.push(byte[0]);
    }
    Some(line)
}

fn skip(stream: &mut TcpStream, length: usize) -> Option<()> {
    stream.read_exact(&mut vec![0; length.min(1 << 16)]).ok()
}

impl Room {
    fn new() -> Self {
        let (good, bait) = (server(answer), server(|_| BAIT.store(true, Ordering::SeqCst)));
        let rules =
            [format!("http://good.example.com:{good} methods=GET paths=/v1"), format!("https://api.example.com:{good} methods=GET")];
        let destinations: Vec<Destination> = rules.iter().map(|rule| rule.parse().unwrap()).collect();
        let layout = Layout::of(&destinations, false);
        let (mut proxy, mut names, mut sockets) = (None, None, Vec::<OwnedFd>::new());
        for socket in &layout.sockets {
            if socket.role == DoorRole::Names {
                let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
                names = socket.local_addr().ok();
                sockets.push(socket.into());
            } else {
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                proxy = proxy.or(listener.local_addr().ok());
                sockets.push(listener.into());
            }
        }
        let terms = Terms {
            rules: Rules { destinations, private: Set::only(["127.0.0.0/8".parse().unwrap()]) },
            credentials: Vec::new(),
            bytes: u64::MAX,
            requests: u64::MAX,
            witness: Arc::new(Reader),
            resolver: Arc::new(Here),
            interception: Some(Interception::new().unwrap()),
        };
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let broker = Broker::open(runtime.handle(), layout, sockets, terms, None).unwrap();
        Self { _runtime: runtime, _broker: broker, proxy: proxy.unwrap(), names: names.unwrap(), good, bait }
    }

    /// The bytes with `PORT` and `BAIT` in place of ports.
    fn with_ports(&self, bytes: &[u8]) -> Vec<u8> {
        let (mut said, mut rest) = (Vec::new(), bytes);
        while let Some(byte) = rest.first() {
            let port = if rest.starts_with(b"PORT") { Some(self.good) } else { rest.starts_with(b"BAIT").then_some(self.bait) };
            match port {
                Some(port) => said.extend(port.to_string().into_bytes()),
                None => said.push(*byte),
            }
            rest = &rest[if port.is_some() { 4 } else { 1 }..];
        }
        said
    }

    /// Everything that is answered to some bytes. Nobody waits for ever.
    fn say(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(self.proxy).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // A side that is refused may hang up before it has read everything.
        let _ = (stream.write_all(bytes), stream.shutdown(Shutdown::Write));
        let mut answer = Vec::new();
        if let Err(error) = stream.read_to_end(&mut answer) {
            assert_ne!(error.kind(), ErrorKind::WouldBlock, "a client that said everything is kept waiting");
        }
        answer
    }

    /// A question, and one that is answered.
    fn ask(&self, question: &[u8]) {
        let known = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x04good\x07example\x03com\0\0\x01\0\x01";
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let _ = socket.send_to(question, self.names); // it may be too long for a datagram
        socket.send_to(known, self.names).unwrap();
        let mut answer = vec![0; 4096];
        loop {
            let length = match socket.recv(&mut answer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue, // by the fuzzer's own clock
                received => received.unwrap(),
            };
            if answer[..length].ends_with(&[198, 18, 0, 2]) || answer[..length].ends_with(&[198, 18, 0, 3]) {
                return;
            }
        }
    }
}
