//! Messages whose end, place or meaning two readers could see differently.

use std::io::{Read, Write};

use crate::broker::rig::{Rig, Server, read_request, refused, reply, rules};

fn statuses(answer: &str) -> Vec<&str> {
    answer.match_indices("HTTP/1.1 ").map(|(at, _)| &answer[at + 9..at + 12]).collect()
}

/// A server that says one thing, and a client that asks it twice over one connection.
fn asked_twice(said: String) -> (String, Server, Rig) {
    let server = Server::web(said);
    let place = format!("127.0.0.1:{}", server.port);
    let rig = rules(&[format!("http://{place}")]);
    let request = |last: &str| format!("GET http://{place}/ HTTP/1.1\r\nHost: {place}\r\n{last}\r\n");
    let answer = rig.say([request(""), request("Connection: close\r\n")].concat().as_bytes());
    (answer, server, rig)
}

/// What a host says beyond its reply is the reply to nothing.
#[test]
fn a_second_reply_to_one_request_goes_nowhere() {
    let (answer, _server, _rig) = asked_twice(format!("{}{}", reply("mine"), reply("smuggled")));
    assert!(!answer.contains("smuggled") && answer.matches("mine").count() >= 1, "{answer}");
    let (answer, _server, _rig) = asked_twice(format!("HTTP/1.1 204 No Content\r\nContent-Length: 8\r\n\r\n{}", reply("smuggled")));
    assert!(!answer.contains("smuggled") && statuses(&answer)[0] == "204", "{answer}");
}

/// Interim replies are passed over, but not for as long as a host likes.
#[test]
fn interim_replies_without_end_are_given_up() {
    const INTERIM: &str = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
    let (answer, _server, _rig) = asked_twice(format!("{}{}", INTERIM.repeat(100), reply("mine")));
    assert!(answer.contains("mine") && statuses(&answer)[0] == "200", "{answer}");
    let endless = Server::new(|mut stream, _| {
        read_request(&mut stream);
        while stream.write_all(INTERIM.repeat(1000).as_bytes()).is_ok() {}
    });
    let place = format!("127.0.0.1:{}", endless.port);
    let rig = rules(&[format!("http://{place}")]);
    assert!(rig.get(&format!("http://{place}/")).starts_with("HTTP/1.1 502 "));
}

#[test]
fn a_reply_with_two_lengths_has_one_end() {
    let (answer, _server, _rig) =
        asked_twice("HTTP/1.1 200 OK\r\nContent-Length: 99\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n".into());
    assert!(!answer.contains("content-length: 99") || !answer.contains("chunked"), "{answer}");
    assert!(statuses(&answer)[0] == "200" || statuses(&answer)[0] == "502", "{answer}");
    let (answer, _server, _rig) = asked_twice("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 9\r\n\r\nok".into());
    assert_eq!(statuses(&answer)[0], "502", "{answer}");
}

#[test]
fn transfer_encodings_beside_chunked_go_nowhere() {
    let server = Server::web(reply("hello"));
    let place = format!("127.0.0.1:{}", server.port);
    let rig = rules(&[format!("http://{place}")]);
    for fields in [
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: \"chunked\"",
        "X: a\rContent-Length: 5",
        "X: a\r\n b",
        "X : a",
        " X: a",
        "X\0: a",
        "Content-Length: +2",
        "Content-Length: 2, 3",
        "Content-Length: 0x2",
        "Content-Length: -1",
    ] {
        let answer =
            rig.say(format!("POST http://{place}/ HTTP/1.1\r\nHost: {place}\r\n{fields}\r\nConnection: close\r\n\r\n0\r\n\r\n").as_bytes());
        assert!(statuses(&answer).iter().all(|status| ["400", "403"].contains(status)), "{fields}: {answer}");
    }
    let old = format!("POST http://{place}/ HTTP/1.0\r\nHost: {place}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    assert!(!rig.say(old.as_bytes()).contains(" 200 "));
    assert_eq!(server.heard(), Vec::<String>::new());
}

/// A request for two places over one connection is never answered by the other.
#[test]
fn two_places_are_not_mixed_up_over_one_connection() {
    let servers: Vec<Server> = ["one", "two"].map(|word| Server::web(reply(word))).into();
    let places: Vec<String> = servers.iter().map(|server| format!("127.0.0.1:{}", server.port)).collect();
    let rig = rules(&places.iter().map(|place| format!("http://{place}")).collect::<Vec<_>>());
    let said: String = (0..20)
        .map(|number| {
            let place = &places[number % 3 % 2];
            let last = if number == 19 { "Connection: close\r\n" } else { "" };
            format!("GET http://{place}/{number} HTTP/1.1\r\nHost: {place}\r\n{last}\r\n")
        })
        .collect();
    let answer = rig.say(said.as_bytes());
    let words: Vec<&str> = answer.split("\r\n\r\n").skip(1).map(|rest| &rest[..3]).collect();
    let wanted: Vec<&str> = (0..20).map(|number| ["one", "two"][number % 3 % 2]).collect();
    assert_eq!(words, wanted, "{answer}");
}

/// HTTP/1.0 and a client that waits for `100 Continue` are served.
#[test]
fn old_and_patient_clients_are_served() {
    let server = Server::web(reply("hello"));
    let place = format!("127.0.0.1:{}", server.port);
    let rig = rules(&[format!("http://{place}")]);
    let old =
        rig.say(format!("GET http://{place}/ HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET http://evil.test/ HTTP/1.0\r\n\r\n").as_bytes());
    assert!(old.contains(" 200 ") && old.contains(" 403 "), "{old}");
    let mut stream = rig.connect();
    let head =
        format!("POST http://{place}/ HTTP/1.1\r\nHost: {place}\r\nExpect: 100-continue\r\nConnection: close\r\nContent-Length: 4\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut first = [0; 25];
    stream.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"body").unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert!(rest.starts_with("HTTP/1.1 200 ") && server.heard().last().unwrap().ends_with("body"), "{rest}");
}

/// A reply that comes before the request is whole ends the request too.
#[test]
fn an_early_reply_is_passed_on() {
    let server = Server::new(|mut stream, _| {
        let mut byte = [0];
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1) {
            head.push(byte[0]);
        }
        stream.write_all(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nnow").unwrap();
    });
    let place = format!("127.0.0.1:{}", server.port);
    let rig = rules(&[format!("http://{place}")]);
    let answer = rig
        .say(format!("POST http://{place}/ HTTP/1.1\r\nHost: {place}\r\nContent-Length: 9999999\r\nConnection: close\r\n\r\nx").as_bytes());
    assert!(answer.starts_with("HTTP/1.1 413 ") && answer.ends_with("now"), "{answer}");
}

/// The bytes behind a CONNECT are the tunnel's, whatever its fields say of a body.
#[test]
fn what_follows_a_connect_is_held_by_the_rules_of_the_tunnel() {
    let (server, bait) = (Server::web(reply("hello")), Server::web(reply("bait")));
    let (place, other) = (format!("127.0.0.1:{}", server.port), format!("127.0.0.1:{}", bait.port));
    let rig = rules(&[format!("http://{place} methods=GET")]);
    let inner = format!("GET http://{other}/ HTTP/1.1\r\nHost: {other}\r\nConnection: close\r\n\r\n");
    for fields in ["", "Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n"] {
        let answer = rig.say(format!("CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n{fields}\r\n{inner}").as_bytes());
        assert!(!answer.contains("bait") && !answer.contains("hello"), "{answer}");
    }
    assert_eq!((bait.connections(), server.heard().len()), (0, 0));
    let answer = rig.say(
        format!("CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\nOPTIONS * HTTP/1.1\r\nHost: {place}\r\nConnection: close\r\n\r\n")
            .as_bytes(),
    );
    assert!(statuses(&answer) == ["200", "403"] && server.heard().is_empty(), "{answer}");
}

/// The way to HTTP/2 is no way past rules about requests.
#[test]
fn other_protocols_are_not_begun() {
    let server = Server::new(|mut stream, heard| {
        while let Some(request) = read_request(&mut stream) {
            let is_asked = request.to_lowercase().contains("upgrade");
            heard.lock().unwrap().push(request);
            let said =
                if is_asked { "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n" } else { &reply("hello") };
            stream.write_all(said.as_bytes()).unwrap_or_default();
        }
    });
    let place = format!("127.0.0.1:{}", server.port);
    let rig = rules(&[format!("http://{place}")]);
    for fields in [
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__",
        "Upgrade: TLS/1.0\r\nConnection: Upgrade",
    ] {
        let answer = rig.say(format!("GET http://{place}/ HTTP/1.1\r\nHost: {place}\r\n{fields}\r\nConnection: close\r\n\r\n").as_bytes());
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    assert!(server.heard().iter().all(|heard| !heard.to_lowercase().contains("upgrade")), "{:?}", server.heard());
    let preface = rig.say(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    assert!(preface.is_empty() || preface.starts_with("HTTP/1.1 4"), "{preface}");
    assert_eq!(refused(&rig.events()).len(), 1);
}
