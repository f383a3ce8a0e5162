//! The client, and the hosts behind the proxies: plain threads and blocking sockets, the same for everyone.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long one measure goes on.
const SPAN: Duration = Duration::from_millis(1000);
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: bench\r\n\r\n";
const REPLY: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 64\r\n\r\n0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// A web server that says the same to everyone.
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
}

/// A server that sends without end.
pub(crate) struct Bulk {
    pub(crate) address: SocketAddr,
}

fn serve(each: impl Fn(TcpStream) + Send + Sync + Copy + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            stream.set_nodelay(true).unwrap();
            std::thread::spawn(move || each(stream));
        }
    });
    address
}

impl Upstream {
    pub(crate) fn start() -> Self {
        let address = serve(|mut stream| {
            let mut buffer = [0; 4096];
            while let Ok(1..) = stream.read(&mut buffer) {
                if stream.write_all(REPLY).is_err() {
                    return;
                }
            }
        });
        Self { address }
    }
}

impl Bulk {
    pub(crate) fn start() -> Self {
        let address = serve(|mut stream| {
            let block = vec![7; 256 << 10];
            while stream.write_all(&block).is_ok() {}
        });
        Self { address }
    }
}

/// A connection to the host, through the proxy if there is one.
fn connect(proxy: Option<SocketAddr>, host: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(proxy.unwrap_or(host)).unwrap();
    stream.set_nodelay(true).unwrap();
    if proxy.is_some() {
        stream.write_all(format!("CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()).unwrap();
        let mut head = Vec::new();
        let mut seen = [0; 512];
        while !head.ends_with(b"\r\n\r\n") {
            // What follows the head may be there already, and is left there.
            let there = stream.peek(&mut seen).unwrap();
            assert!(there > 0, "the proxy hung up: {}", String::from_utf8_lossy(&head));
            let end = seen[..there].windows(4).position(|window| window == b"\r\n\r\n").map_or(there, |at| at + 4);
            stream.read_exact(&mut seen[..end]).unwrap();
            head.extend(&seen[..end]);
        }
        assert!(head.starts_with(b"HTTP/1.1 200") || head.starts_with(b"HTTP/1.0 200"), "{}", String::from_utf8_lossy(&head));
    }
    stream
}

fn ask(stream: &mut TcpStream) {
    stream.write_all(REQUEST).unwrap();
    let mut reply = [0; REPLY.len()];
    stream.read_exact(&mut reply).unwrap();
}

/// What `clients` threads do together in a span, as a rate a second.
fn rate(clients: usize, work: impl Fn(Instant) -> u64 + Sync) -> f64 {
    let done = AtomicU64::new(0);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..clients {
            scope.spawn(|| done.fetch_add(work(begun + SPAN), Ordering::Relaxed));
        }
    });
    done.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64()
}

/// New tunnels a second, with one request in each.
pub(crate) fn tunnels(proxy: Option<SocketAddr>, host: SocketAddr, clients: usize) -> f64 {
    rate(clients, |until| {
        let mut count = 0;
        while Instant::now() < until {
            ask(&mut connect(proxy, host));
            count += 1;
        }
        count
    })
}

/// Requests a second in tunnels that are kept.
pub(crate) fn requests(proxy: Option<SocketAddr>, host: SocketAddr, clients: usize) -> f64 {
    rate(clients, |until| {
        let mut stream = connect(proxy, host);
        let mut count = 0;
        while Instant::now() < until {
            ask(&mut stream);
            count += 1;
        }
        count
    })
}

/// Megabytes a second.
pub(crate) fn bytes(proxy: Option<SocketAddr>, host: SocketAddr, clients: usize) -> f64 {
    let rate = rate(clients, |until| {
        let mut stream = connect(proxy, host);
        let mut buffer = vec![0; 256 << 10];
        let mut count = 0;
        while Instant::now() < until {
            let read = stream.read(&mut buffer).unwrap();
            assert!(read > 0, "the host hung up");
            count += read as u64;
        }
        count
    });
    rate / 1e6
}

/// Median of a connection, a tunnel and a request, microseconds.
pub(crate) fn latency(proxy: Option<SocketAddr>, host: SocketAddr) -> f64 {
    let mut times: Vec<f64> = (0..300)
        .map(|_| {
            let begun = Instant::now();
            ask(&mut connect(proxy, host));
            begun.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
