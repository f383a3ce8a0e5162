//! Tunnels: by CONNECT and by SOCKS 5, opaque, for a name, or read.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use ringfence_egress::{EgressEvent, Seen, Way};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::rig::{PATIENCE, Rig, Server, opened, refused, reply, rules};

/// What a client of TLS says first.
pub(crate) fn client_hello(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    client(name, RootCertStore::empty()).write_tls(&mut bytes).unwrap();
    bytes
}

pub(crate) fn client(name: &str, roots: RootCertStore) -> ClientConnection {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    ClientConnection::new(Arc::new(config), ServerName::try_from(name.to_owned()).unwrap()).unwrap()
}

pub(crate) fn over_tls(stream: TcpStream, name: &str, roots: RootCertStore) -> StreamOwned<ClientConnection, TcpStream> {
    StreamOwned::new(client(name, roots), stream)
}

/// Says what it heard first, and then sends back all that comes.
fn echo() -> Server {
    Server::new(|mut stream, _| {
        let mut buffer = [0; 64 << 10];
        while let Ok(read @ 1..) = stream.read(&mut buffer) {
            if stream.write_all(&buffer[..read]).is_err() {
                return;
            }
        }
    })
}

fn heard_back(mut stream: TcpStream, bytes: &[u8]) -> Vec<u8> {
    stream.write_all(bytes).unwrap();
    // A connection that is refused may be over by now.
    stream.shutdown(std::net::Shutdown::Write).unwrap_or_default();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap_or_default();
    answer
}

#[test]
fn a_tcp_rule_passes_any_bytes_and_the_record_says_that_nobody_looks() {
    let server = echo();
    let place = format!("db.example.com:{}", server.port);
    let rig = rules(&[format!("tcp://{place}")]);
    rig.here("db.example.com");
    assert_eq!(heard_back(rig.tunnel(&place).unwrap(), b"\0\x01 any bytes"), b"\0\x01 any bytes");
    let events = rig.events();
    let [EgressEvent::Opened(opened), EgressEvent::Closed(closed)] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((opened.way, opened.seen, &opened.request), (Way::Connect, Seen::Nothing, &None));
    assert_eq!((closed.up_bytes, closed.down_bytes, &closed.cause), (12, 12, &None));
}

/// Through copies, then through a pipe of the kernel's.
#[test]
fn very_many_bytes_arrive_as_they_are_and_are_counted_to_the_byte() {
    let server = echo();
    let place = format!("127.0.0.1:{}", server.port);
    let rig = rules(&[format!("tcp://{place}")]);
    let bytes: Vec<u8> = (0..40_000_000u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut stream = rig.tunnel(&place).unwrap();
    let (mut sending, wanted) = (stream.try_clone().unwrap(), bytes.clone());
    let sender = std::thread::spawn(move || {
        sending.write_all(&bytes).unwrap();
        sending.shutdown(std::net::Shutdown::Write).unwrap();
    });
    let mut back = Vec::new();
    stream.read_to_end(&mut back).unwrap();
    sender.join().unwrap();
    assert!(back == wanted, "{} of {} bytes", back.len(), wanted.len());
    let events = rig.events();
    assert!(
        matches!(&events[1], EgressEvent::Closed(closed) if (closed.up_bytes, closed.down_bytes) == (40_000_000, 40_000_000)),
        "{events:?}"
    );
}

/// SBX-122, without interception: what is inside is not seen, and the record says so.
#[test]
fn an_https_rule_passes_tls_for_its_name_and_nothing_else() {
    let server = echo();
    let place = format!("cdn.test:{}", server.port);
    let rig = rules(&[format!("https://{place}")]);
    rig.here("cdn.test");
    let hello = client_hello("cdn.test");
    assert_eq!(heard_back(rig.tunnel(&place).unwrap(), &hello), hello);
    let alert = heard_back(rig.tunnel(&place).unwrap(), &client_hello("hidden.test"));
    assert_eq!(alert, [21, 3, 3, 0, 2, 2, 112]);
    assert_eq!(heard_back(rig.tunnel(&place).unwrap(), &client_hello("192.0.2.1")), alert);
    let plain = heard_back(rig.tunnel(&place).unwrap(), b"GET / HTTP/1.1\r\nHost: cdn.test\r\n\r\n");
    assert!(plain.starts_with(b"HTTP/1.1 403 "), "{}", String::from_utf8_lossy(&plain));
    assert!(heard_back(rig.tunnel(&place).unwrap(), b"SSH-2.0-x\r\n").starts_with(b"HTTP/1.1 403 "));
    assert!(heard_back(rig.tunnel(&place).unwrap(), &[0; 100]).is_empty());
    let events = rig.events();
    assert!(opened(&events).iter().all(|opened| opened.seen == Seen::Name && opened.request.is_none()));
    let reasons: Vec<String> = refused(&events).into_iter().map(|refused| refused.reason).collect();
    assert!(reasons.len() == 5 && reasons[0] == "TLS is for `hidden.test`, the tunnel for `cdn.test`", "{reasons:?}");
}

/// A client hello that comes byte by byte is waited for.
#[test]
fn a_first_message_in_pieces_is_put_together() {
    let server = echo();
    let place = format!("cdn.test:{}", server.port);
    let rig = rules(&[format!("https://{place}")]);
    rig.here("cdn.test");
    let (mut stream, hello) = (rig.tunnel(&place).unwrap(), client_hello("cdn.test"));
    stream.set_nodelay(true).unwrap();
    for piece in hello.chunks(100) {
        stream.write_all(piece).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let mut back = vec![0; hello.len()];
    stream.read_exact(&mut back).unwrap();
    assert_eq!(back, hello);
}

/// An http rule is held by requests also inside a tunnel.
#[test]
fn requests_in_a_tunnel_are_decided_one_by_one() {
    let server = Server::web(reply("hello"));
    let place = format!("good.example.com:{}", server.port);
    let rig = rules(&[format!("http://{place} methods=GET paths=/v1")]);
    rig.here("good.example.com");
    let request = |line: &str, host: &str| format!("{line} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let said = [
        request("GET /v1/a", &place),
        request("POST /v1/a", &place),
        request("GET /v2", &place),
        request("GET /v1/../v2", &place),
        request("GET /v1/b", "hidden.test"),
        request(&format!("GET http://{place}/v1/c"), &place),
        request("GET http://hidden.test/v1/c", "hidden.test"),
        request("CONNECT hidden.test:443", "hidden.test:443"),
    ];
    let answer = String::from_utf8(heard_back(rig.tunnel(&place).unwrap(), said.concat().as_bytes())).unwrap();
    let statuses: Vec<&str> = answer.match_indices("HTTP/1.1 ").map(|(at, _)| &answer[at + 9..at + 12]).collect();
    assert_eq!(statuses, ["200", "403", "403", "403", "403", "200", "403", "403"], "{answer}");
    let paths: Vec<String> = server.heard().iter().map(|request| request.split(' ').nth(1).unwrap().to_owned()).collect();
    assert_eq!(paths, ["/v1/a", "/v1/c"]);
}

fn socks(rig: &Rig, request: &[u8]) -> (TcpStream, Vec<u8>) {
    let mut stream = rig.connect();
    stream.write_all(&[5, 1, 0]).unwrap();
    let mut method = [0; 2];
    stream.read_exact(&mut method).unwrap();
    assert_eq!(method, [5, 0]);
    stream.write_all(request).unwrap();
    let mut answer = vec![0; 10];
    stream.read_exact(&mut answer).unwrap();
    (stream, answer)
}

fn by_name(name: &[u8], port: u16) -> Vec<u8> {
    [&[5, 1, 0, 3, u8::try_from(name.len()).unwrap()], name, &port.to_be_bytes()].concat()
}

/// SBX-108 among them.
#[test]
fn socks_is_held_by_the_same_rules() {
    let server = echo();
    let port = server.port;
    let rig = rules(&[format!("tcp://db.example.com:{port}"), format!("tcp://*.good.example.com:{port}")]);
    rig.here("db.example.com");
    let (stream, answer) = socks(&rig, &by_name(b"db.example.com", port));
    assert_eq!((answer[1], heard_back(stream, b"bytes")), (0, b"bytes".to_vec()));
    let loopback = [&[5, 1, 0, 1, 127, 0, 0, 1], &port.to_be_bytes()[..]].concat();
    let mapped = [&[5, 1, 0, 4], &[0; 10][..], &[0xff, 0xff, 127, 0, 0, 1], &port.to_be_bytes()].concat();
    for request in [
        by_name(b"127.0.0.1\0.good.example.com", port),
        by_name(b"evil.test", port),
        by_name(b"db.example.com", port.wrapping_add(1)),
        by_name(b"\xff\xfe", port),
        by_name(b"", port),
        loopback,
        mapped,
    ] {
        assert_eq!(socks(&rig, &request).1[1], 2, "{request:?}");
    }
    let udp = [&[5, 3, 0, 1, 127, 0, 0, 1], &port.to_be_bytes()[..]].concat();
    assert_eq!(socks(&rig, &udp).1[1], 7);
    assert_eq!(server.connections(), 1);
    let events = rig.events();
    assert!(
        opened(&events).len() == 1 && refused(&events).len() == 8 && refused(&events).iter().all(|r| r.way == Way::Socks),
        "{events:?}"
    );
}

#[test]
fn a_host_that_cannot_be_reached_fails_at_once_and_is_told() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let rig = rules(&[format!("tcp://127.0.0.1:{closed}")]);
    let head = rig.tunnel(&format!("127.0.0.1:{closed}")).unwrap_err();
    assert!(head.starts_with("HTTP/1.1 502 "), "{head}");
    let (_, answer) = socks(&rig, &[&[5, 1, 0, 1, 127, 0, 0, 1], &closed.to_be_bytes()[..]].concat());
    assert_eq!(answer[1], 1);
}

/// What is open when the run ends, ends with it, and is told.
#[test]
fn closing_ends_what_is_open() {
    let server = echo();
    let place = format!("127.0.0.1:{}", server.port);
    let rig = rules(&[format!("tcp://{place}")]);
    let mut stream = rig.tunnel(&place).unwrap();
    stream.write_all(b"x").unwrap();
    let mut back = [0];
    stream.read_exact(&mut back).unwrap();
    let events = rig.events();
    assert!(matches!(events.as_slice(), [EgressEvent::Opened(_), EgressEvent::Closed(closed)] if closed.up_bytes == 1), "{events:?}");
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    assert!(matches!(stream.read(&mut back), Ok(0) | Err(_)));
}
