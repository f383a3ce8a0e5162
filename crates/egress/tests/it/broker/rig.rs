//! A broker on loopback with sockets of this process, servers behind it, and everything that is told.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ringfence_egress::{
    Broker, Credential, DoorRole, EgressEvent, Interception, Layout, Opened, Refused, Resolver, Resolving, Rules, Terms, Totals,
    Unrecorded, Witness,
};
use ringfence_policy::{HostName, Set};
use tokio::runtime::Runtime;

/// Longer than anything here takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Keeps what it is told.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    events: Mutex<Vec<EgressEvent>>,
    is_full: AtomicBool,
}

impl Witness for Ledger {
    fn tell(&self, event: EgressEvent) -> Result<(), Unrecorded> {
        if self.is_full.load(Ordering::SeqCst) {
            return Err(Unrecorded("no room".into()));
        }
        self.events.lock().unwrap().push(event);
        Ok(())
    }
}

/// Answers from a list: each look-up of a name takes the next entry, the last one stays.
#[derive(Debug, Default)]
pub(crate) struct Zone {
    pub(crate) answers: Mutex<HashMap<String, Vec<Vec<IpAddr>>>>,
    pub(crate) look_ups: AtomicUsize,
}

impl Resolver for Zone {
    fn resolve<'a>(&'a self, host: &'a HostName) -> Resolving<'a> {
        Box::pin(async move {
            self.look_ups.fetch_add(1, Ordering::SeqCst);
            let mut answers = self.answers.lock().unwrap();
            let list = answers.get_mut(host.as_str()).ok_or_else(|| io::Error::other("no such name"))?;
            Ok(if list.len() > 1 { list.remove(0) } else { list[0].clone() })
        })
    }
}

/// What a rig is made of.
#[derive(Default)]
pub(crate) struct Parts {
    pub(crate) rules: Vec<String>,
    pub(crate) credentials: Vec<Credential>,
    pub(crate) interception: Option<Interception>,
    pub(crate) bytes: Option<u64>,
    pub(crate) requests: Option<u64>,
    /// Ranges that names may lead to; the loopback range if none is said.
    pub(crate) private: Option<Vec<&'static str>>,
}

pub(crate) struct Rig {
    runtime: Runtime,
    broker: Option<Broker>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) zone: Arc<Zone>,
    pub(crate) proxy: SocketAddr,
    pub(crate) names: SocketAddr,
}

pub(crate) fn rules(listed: &[String]) -> Rig {
    Rig::new(Parts { rules: listed.to_vec(), ..Parts::default() })
}

impl Rig {
    pub(crate) fn new(parts: Parts) -> Self {
        let destinations: Vec<_> = parts.rules.iter().map(|text| text.parse().unwrap()).collect();
        let layout = Layout::of(&destinations, false);
        let (mut proxy, mut names) = (None, None);
        let mut sockets = Vec::new();
        for socket in &layout.sockets {
            sockets.push(match socket.role {
                DoorRole::Names => {
                    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
                    names = Some(socket.local_addr().unwrap());
                    OwnedFd::from(socket)
                }
                DoorRole::Proxy | DoorRole::Index | DoorRole::Direct => {
                    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                    if socket.role == DoorRole::Proxy {
                        proxy = Some(listener.local_addr().unwrap());
                    }
                    OwnedFd::from(listener)
                }
            });
        }
        let private = parts.private.unwrap_or_else(|| vec!["127.0.0.0/8"]);
        let (ledger, zone) = (Arc::new(Ledger::default()), Arc::new(Zone::default()));
        let terms = Terms {
            rules: Rules { destinations, private: Set::only(private.iter().map(|range| range.parse().unwrap())) },
            credentials: parts.credentials,
            bytes: parts.bytes.unwrap_or(u64::MAX),
            requests: parts.requests.unwrap_or(u64::MAX),
            witness: ledger.clone(),
            resolver: zone.clone(),
            interception: parts.interception,
        };
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let broker = Broker::open(runtime.handle(), layout, sockets, terms, None).unwrap();
        Self { broker: Some(broker), runtime, ledger, zone, proxy: proxy.unwrap(), names: names.unwrap() }
    }

    /// A name that leads to this host.
    pub(crate) fn here(&self, name: &str) {
        self.leads(name, &[&["127.0.0.1"]]);
    }

    /// What each look-up of a name finds.
    pub(crate) fn leads(&self, name: &str, answers: &[&[&str]]) {
        let answers = answers.iter().map(|list| list.iter().map(|address| address.parse().unwrap()).collect()).collect();
        self.zone.answers.lock().unwrap().insert(name.into(), answers);
    }

    /// Sends bytes to the proxy and reads to the end.
    pub(crate) fn say(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        // A side that is refused may hang up before it has read everything.
        stream.write_all(bytes).unwrap_or_default();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).map(drop).unwrap_or_default();
        String::from_utf8_lossy(&answer).into_owned()
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.proxy).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// A request to the proxy that ends the connection.
    pub(crate) fn get(&self, url: &str) -> String {
        let host = url.split('/').nth(2).unwrap_or_default();
        self.say(format!("GET {url} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes())
    }

    /// A tunnel; the answer's head where it is not made.
    pub(crate) fn tunnel(&self, place: &str) -> Result<TcpStream, String> {
        let mut stream = self.connect();
        stream.write_all(format!("CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\n").as_bytes()).unwrap();
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        if head.starts_with("HTTP/1.1 200") { Ok(stream) } else { Err(head) }
    }

    pub(crate) fn fill_the_record(&self) {
        self.ledger.is_full.store(true, Ordering::SeqCst);
    }

    /// Ends it; everything is told by then.
    pub(crate) fn close(mut self) -> (Vec<EgressEvent>, Totals) {
        let totals = self.broker.take().unwrap().close(self.runtime.handle());
        (std::mem::take(&mut *self.ledger.events.lock().unwrap()), totals)
    }

    pub(crate) fn events(self) -> Vec<EgressEvent> {
        self.close().0
    }
}

pub(crate) fn opened(events: &[EgressEvent]) -> Vec<Opened> {
    events.iter().filter_map(|event| if let EgressEvent::Opened(opened) = event { Some(opened.clone()) } else { None }).collect()
}

pub(crate) fn refused(events: &[EgressEvent]) -> Vec<Refused> {
    events.iter().filter_map(|event| if let EgressEvent::Refused(refused) = event { Some(refused.clone()) } else { None }).collect()
}

/// A server on loopback. Each connection is served by a closure on a thread of its own.
pub(crate) struct Server {
    pub(crate) port: u16,
    pub(crate) taken: Arc<AtomicUsize>,
    /// What was heard by those that note it.
    pub(crate) heard: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub(crate) fn new(serve: impl Fn(TcpStream, &Mutex<Vec<String>>) + Send + Sync + 'static) -> Self {
        Self::at(Ipv4Addr::LOCALHOST, serve)
    }

    pub(crate) fn at(address: Ipv4Addr, serve: impl Fn(TcpStream, &Mutex<Vec<String>>) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((address, 0)).unwrap();
        let server = Self { port: listener.local_addr().unwrap().port(), taken: Arc::default(), heard: Arc::default() };
        let (taken, heard, serve) = (server.taken.clone(), server.heard.clone(), Arc::new(serve));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                taken.fetch_add(1, Ordering::SeqCst);
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                let (serve, heard) = (serve.clone(), heard.clone());
                std::thread::spawn(move || serve(stream, &heard));
            }
        });
        server
    }

    /// One that answers every request with the same text, on connections that it keeps.
    pub(crate) fn web(reply: impl Into<String>) -> Self {
        let reply = reply.into();
        Self::new(move |mut stream, heard| {
            while let Some(request) = read_request(&mut stream) {
                heard.lock().unwrap().push(request);
                stream.write_all(reply.as_bytes()).unwrap_or_default();
                if reply.contains("Connection: close") {
                    stream.shutdown(Shutdown::Both).unwrap_or_default();
                }
            }
        })
    }

    pub(crate) fn connections(&self) -> usize {
        self.taken.load(Ordering::SeqCst)
    }

    pub(crate) fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }
}

pub(crate) fn reply(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// A request with its body, as far as its length is said.
pub(crate) fn read_request(stream: &mut impl Read) -> Option<String> {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        bytes.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&bytes).to_lowercase();
    let length: usize = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    bytes.extend(body);
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
