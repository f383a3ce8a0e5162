//! Everything that a client can make more of: it is bounded, or it counts.

use std::io::{Read, Write};
use std::net::{Shutdown, UdpSocket};

use crate::broker::names::question;
use crate::broker::rig::{PATIENCE, Parts, Rig, Server, refused, reply, rules};
use crate::broker::tunnels::client_hello;

/// What stands in heads is content as much as what stands in bodies.
#[test]
fn fields_and_targets_count_as_bytes() {
    let server = Server::web(reply("hello"));
    let url = format!("http://127.0.0.1:{}", server.port);
    for (target, fields) in [(format!("{url}/?{}", "q".repeat(4000)), String::new()), (format!("{url}/"), "x".repeat(4000))] {
        let rig = Rig::new(Parts { rules: vec![url.clone()], bytes: Some(10_000), ..Parts::default() });
        let request = format!("GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nX: {fields}\r\nConnection: close\r\n\r\n", server.port);
        let statuses: Vec<String> = (0..4).map(|_| rig.say(request.as_bytes()).chars().skip(9).take(3).collect()).collect();
        assert_eq!(statuses, ["200", "200", "403", "403"]);
        assert!(rig.close().1.is_out_of_bytes);
    }
}

#[test]
fn the_fields_of_replies_count_too() {
    let server = Server::web(format!("HTTP/1.1 200 OK\r\nX: {}\r\nContent-Length: 0\r\n\r\n", "x".repeat(4000)));
    let url = format!("http://127.0.0.1:{}", server.port);
    let rig = Rig::new(Parts { rules: vec![url.clone()], bytes: Some(10_000), ..Parts::default() });
    let statuses: Vec<String> = (0..3).map(|_| rig.get(&url).chars().skip(9).take(3).collect()).collect();
    assert_eq!(statuses, ["200", "200", "403"]);
    assert!(rig.close().1.is_out_of_bytes);
}

/// A tunnel whose requests are read is no request yet; one that is misused is.
#[test]
fn tunnels_that_lead_nowhere_count_as_requests() {
    let rig = Rig::new(Parts { rules: vec!["http://a.example.com:80".into()], requests: Some(3), ..Parts::default() });
    for said in [&client_hello("a.example.com")[..], b"G", b"GET / HTTP/1.1\r\n"] {
        let mut stream = rig.tunnel("a.example.com:80").unwrap();
        stream.write_all(said).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        stream.read_to_end(&mut Vec::new()).map(drop).unwrap_or_default();
    }
    assert!(rig.tunnel("a.example.com:80").is_err());
    assert!(rig.close().1.is_out_of_requests);
}

#[test]
fn connections_that_ask_for_nothing_count_as_requests() {
    let rig = Rig::new(Parts { rules: vec!["http://a.example.com:80".into()], requests: Some(5), ..Parts::default() });
    for said in [&b""[..], b"G", b"\x05", b"\x05\x01\x00\x05\x01", b"\0"] {
        let mut stream = rig.connect();
        stream.write_all(said).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        stream.read_to_end(&mut Vec::new()).map(drop).unwrap_or_default();
    }
    assert!(rig.tunnel("a.example.com:80").is_err());
    assert!(rig.close().1.is_out_of_requests);
}

/// Below a wildcard there are more names than addresses are given for.
#[test]
fn a_name_costs_memory_only_so_often() {
    let rig = rules(&["https://*.wild.example.com:443".into()]);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let ask = |name: &str| {
        socket.send_to(&question(name, 1), rig.names).unwrap();
        let mut answer = [0; 512];
        let length = socket.recv(&mut answer).unwrap();
        (answer[3] & 15, answer[length - 4..length].to_vec())
    };
    let first = ask("n0.wild.example.com");
    let codes: Vec<u8> = (1..9000).map(|number| ask(&format!("n{number}.wild.example.com")).0).collect();
    assert_eq!((codes.iter().filter(|code| **code == 0).count(), codes.last()), (8191, Some(&2)));
    assert_eq!(ask("n0.wild.example.com"), first);
}

/// Byte by byte, for as long as nobody can tell what it is to become.
#[test]
fn a_first_message_without_end_ends() {
    let server = Server::web(reply("bait"));
    let place = format!("a.example.com:{}", server.port);
    let rig = rules(&[format!("https://{place}")]);
    rig.here("a.example.com");
    let mut stream = rig.tunnel(&place).unwrap();
    let record = [&[22, 3, 1, 0, 1][..], &[1]].concat();
    let whole = [&[22, 3, 1, 0, 4, 1, 0xff, 0xff, 0xff][..], &record.repeat(20_000)].concat();
    stream.write_all(&whole).unwrap_or_default();
    stream.read_to_end(&mut Vec::new()).map(drop).unwrap_or_default();
    assert!(server.heard().is_empty());
    assert_eq!(refused(&rig.events())[0].reason, "the first bytes are neither TLS nor HTTP");
}
