//! A record that a client, or a host, would like to fill, to garble or to have without an end.

use std::io::{Read, Write};
use std::net::TcpStream;

use ringfence_egress::{EgressEvent, Way};

use crate::broker::rig::{Server, opened, read_request, refused, reply, rules};

/// A path may be long and hold bytes that a terminal obeys: the reason quotes it.
#[test]
fn a_reason_is_short_and_legible_whatever_it_quotes() {
    let server = Server::web(reply("bait"));
    let rig = rules(&[format!("http://127.0.0.1:{} methods=GET paths=/v1", server.port)]);
    let place = format!("127.0.0.1:{}", server.port);
    for path in [format!("/{}", "a".repeat(50_000)), "/\u{9b}31m\u{7f}\u{202e}".to_owned()] {
        rig.say(format!("GET http://{place}{path} HTTP/1.1\r\nHost: {place}\r\nConnection: close\r\n\r\n").as_bytes());
    }
    rig.say(format!("{} http://{place}/v1 HTTP/1.1\r\nHost: {place}\r\nConnection: close\r\n\r\n", "M".repeat(40_000)).as_bytes());
    rig.get(&format!("http://{}/", "h".repeat(40_000)));
    let events = rig.events();
    assert_eq!(refused(&events).len(), 4, "{events:?}");
    for refused in refused(&events) {
        let line = refused.request.as_ref().map(|line| format!("{}{}", line.method, line.path)).unwrap_or_default();
        let text = format!("{}{}{line}", refused.host, refused.reason);
        assert!(text.len() < 1600 && !text.chars().any(|c| c.is_control() || c == '\u{202e}'), "{refused:?}");
    }
}

/// A body that is on its way when the run ends: its end is told before the broker is closed.
#[test]
fn an_exchange_that_is_cut_short_has_an_end() {
    for _ in 0..20 {
        let server = Server::new(|mut stream, heard| {
            let mut byte = [0];
            let mut head = Vec::new();
            while !head.ends_with(b"first") && stream.read(&mut byte).is_ok_and(|read| read == 1) {
                head.push(byte[0]);
            }
            heard.lock().unwrap().push("the head".into());
            stream.read_to_end(&mut head).map(drop).unwrap_or_default();
        });
        let place = format!("127.0.0.1:{}", server.port);
        let rig = rules(&[format!("http://{place}")]);
        let mut stream = rig.connect();
        stream.write_all(format!("POST http://{place}/ HTTP/1.1\r\nHost: {place}\r\nContent-Length: 100\r\n\r\nfirst").as_bytes()).unwrap();
        while server.heard().is_empty() {
            std::thread::yield_now();
        }
        let events = rig.events();
        assert!(matches!(events.as_slice(), [EgressEvent::Opened(_), EgressEvent::Closed(closed)] if closed.up_bytes > 5), "{events:?}");
    }
}

/// Whatever else is asked of SOCKS is refused, and that is told.
#[test]
fn what_socks_does_not_serve_is_told() {
    let rig = rules(&["tcp://db.example.com:5432".into()]);
    let says = |bytes: &[u8]| {
        let mut stream = rig.connect();
        stream.write_all(bytes).unwrap();
        stream.read_to_end(&mut Vec::new()).map(drop).unwrap_or_default();
    };
    says(&[5, 1, 2]);
    says(&[5, 1, 0, 5, 2, 0, 1, 127, 0, 0, 1, 0, 80]);
    says(&[5, 1, 0, 5, 3, 0, 1, 127, 0, 0, 1, 0, 80]);
    says(&[5, 1, 0, 5, 1, 0, 9, 127, 0, 0, 1, 0, 80]);
    let told = refused(&rig.events());
    assert!(told.len() == 4 && told.iter().all(|refused| refused.way == Way::Socks), "{told:?}");
}

/// What ends an exchange may be the host's own words.
#[test]
fn a_cause_is_short_whatever_a_host_says() {
    let server = Server::new(|mut stream: TcpStream, _| {
        read_request(&mut stream);
        stream.write_all(format!("HTTP/1.1 200 OK\r\n{}\r\n\r\n", "\u{9b}".repeat(300_000)).as_bytes()).unwrap_or_default();
    });
    let url = format!("http://127.0.0.1:{}", server.port);
    let rig = rules(std::slice::from_ref(&url));
    assert!(rig.get(&url).starts_with("HTTP/1.1 502 "));
    let events = rig.events();
    assert_eq!(opened(&events).len(), 1);
    let EgressEvent::Closed(closed) = &events[1] else { panic!("{events:?}") };
    assert!(closed.cause.as_ref().is_some_and(|cause| cause.len() < 600), "{closed:?}");
}
