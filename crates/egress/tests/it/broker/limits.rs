//! Bytes and requests of one run, a record that is full, and clients that ask without end.

use std::io::{Read, Write};

use super::rig::{Parts, Rig, Server, opened, refused, reply, rules};

#[test]
fn after_so_many_requests_everything_is_refused() {
    let server = Server::web(reply("hello"));
    let url = format!("http://127.0.0.1:{}", server.port);
    let rig = Rig::new(Parts { rules: vec![url.clone()], requests: Some(3), ..Parts::default() });
    let statuses: Vec<String> = (0..5).map(|_| rig.get(&url).chars().skip(9).take(3).collect()).collect();
    assert_eq!(statuses, ["200", "200", "200", "403", "403"]);
    assert!(rig.tunnel("evil.test:443").is_err());
    let (events, totals) = rig.close();
    assert!(totals.is_out_of_requests && !totals.is_out_of_bytes);
    assert!(refused(&events).iter().all(|refused| refused.reason == "limit `network-requests` is reached"), "{events:?}");
}

#[test]
fn after_so_many_bytes_nothing_passes() {
    let server = Server::web(reply(&"x".repeat(100_000)));
    let url = format!("http://127.0.0.1:{}", server.port);
    let rig = Rig::new(Parts { rules: vec![url.clone()], bytes: Some(150_000), ..Parts::default() });
    assert!(rig.get(&url).len() > 100_000);
    assert!(rig.get(&url).len() < 60_000);
    let (events, totals) = rig.close();
    assert!(totals.is_out_of_bytes);
    let ringfence_egress::EgressEvent::Closed(closed) = &events[3] else { panic!("{events:?}") };
    assert!(closed.down_bytes <= 50_000 && closed.cause.as_deref() == Some("limit `network-bytes` is reached"), "{closed:?}");
}

#[test]
fn a_tunnel_ends_at_the_limit_of_bytes_too() {
    let server = Server::new(|mut stream, _| while stream.write_all(&[7; 64 << 10]).is_ok() {});
    let place = format!("127.0.0.1:{}", server.port);
    let rig = Rig::new(Parts { rules: vec![format!("tcp://{place}")], bytes: Some(10_000_000), ..Parts::default() });
    let mut stream = rig.tunnel(&place).unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).map(drop).unwrap_or_default();
    assert!(all.len() <= 10_000_000 && all.len() > 1_000_000, "{}", all.len());
    assert!(rig.close().1.is_out_of_bytes);
}

/// What cannot be written down does not happen.
#[test]
fn nothing_is_dialled_once_the_record_is_full() {
    let server = Server::web(reply("hello"));
    let url = format!("http://127.0.0.1:{}", server.port);
    let rig = rules(&[url.clone(), format!("tcp://127.0.0.1:{}", server.port)]);
    rig.fill_the_record();
    assert!(rig.get(&url).starts_with("HTTP/1.1 403 "));
    assert!(rig.tunnel(&format!("127.0.0.1:{}", server.port)).is_err());
    assert_eq!(server.connections(), 0);
    assert!(rig.close().1.is_unrecorded);
}

#[test]
fn refusals_without_end_are_counted() {
    let rig = rules(&["http://good.example.com:80".into()]);
    let request = "GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n";
    for _ in 0..13 {
        let mut stream = rig.connect();
        stream.write_all(request.repeat(100).as_bytes()).unwrap();
        let mut buffer = vec![0; 4096];
        let mut answers = String::new();
        while answers.matches("HTTP/1.1 403").count() < 100 {
            let read = stream.read(&mut buffer).unwrap();
            answers.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
        }
    }
    let (events, totals) = rig.close();
    assert_eq!((opened(&events).len(), refused(&events).len(), totals.untold_refusals), (0, 1000, 300));
}

/// More than there are places: all are served in the end.
#[test]
fn a_crowd_waits_for_its_turn() {
    let server = Server::web(reply("hello"));
    let url = format!("http://127.0.0.1:{}", server.port);
    let rig = rules(std::slice::from_ref(&url));
    let waiting: Vec<_> = (0..300).map(|_| rig.connect()).collect();
    for mut stream in waiting {
        stream
            .write_all(format!("GET {url}/ HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\n\r\n", server.port).as_bytes())
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("hello"), "{answer}");
    }
}
