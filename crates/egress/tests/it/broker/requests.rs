//! Requests to the proxy, each decided by itself.

use std::io::{Read, Write};

use ringfence_egress::{EgressEvent, Seen, Way};

use super::rig::{Server, opened, read_request, refused, reply, rules};

#[test]
fn an_allowed_request_arrives_and_is_told_of_with_rule_address_and_bytes() {
    let server = Server::web(reply("hello"));
    let rule = format!("http://good.example.com:{}", server.port);
    let rig = rules(std::slice::from_ref(&rule));
    rig.here("good.example.com");
    let answer = rig.get(&format!("{rule}/a/b?secret=1"));
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("hello"), "{answer}");
    assert!(server.heard()[0].starts_with("GET /a/b?secret=1 HTTP/1.1\r\n"), "{:?}", server.heard());
    let events = rig.events();
    let [EgressEvent::Opened(opened), EgressEvent::Closed(closed)] = events.as_slice() else { panic!("{events:?}") };
    let request = opened.request.as_ref().map(|line| (line.method.as_str(), line.path.as_str()));
    assert_eq!((opened.way, &opened.rule, request), (Way::Http, &rule, Some(("GET", "/a/b"))));
    assert_eq!((opened.host.as_str(), opened.address.to_string()), ("good.example.com", format!("127.0.0.1:{}", server.port)));
    assert_eq!(
        (opened.seen, closed.exchange, closed.status, closed.down_bytes),
        (Seen::Requests, opened.exchange, Some(200), reply("hello").len() as u64 - 2)
    );
}

/// SBX-110, and the same again after a refusal.
#[test]
fn each_request_on_a_connection_is_decided_anew() {
    let (good, other) = (Server::web(reply("first")), Server::web(reply("second")));
    let rig = rules(&[format!("http://127.0.0.1:{}", good.port)]);
    let request = |port: u16, last: &str| format!("GET http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{last}\r\n");
    let pipelined = [request(good.port, ""), request(other.port, ""), request(good.port, "Connection: close\r\n")].concat();
    let answer = rig.say(pipelined.as_bytes());
    let statuses: Vec<&str> = answer.match_indices("HTTP/1.1 ").map(|(at, _)| &answer[at + 9..at + 12]).collect();
    assert_eq!(statuses, ["200", "403", "200"], "{answer}");
    assert_eq!((good.heard().len(), other.connections()), (2, 0));
    let events = rig.events();
    assert_eq!((opened(&events).len(), refused(&events).len()), (2, 1));
}

/// SBX-105, 107, 111, 113, 114, 119, 123, and more spellings: nothing is looked up, nothing is dialled.
#[test]
fn no_spelling_leads_past_the_rules() {
    let bait = Server::web(reply("bait"));
    let port = bait.port;
    let rig = rules(&["http://good.example.com:80".into(), "https://good.example.com:443".into(), "tcp://*.api.example.com:5432".into()]);
    rig.leads("good.example.com", &[&["127.0.0.1"]]);
    let hosts = [
        "evil-good.example.com".to_owned(),
        "good.example.com.evil.test".into(),
        "good.example.com@evil.test".into(),
        format!("good.example.com@127.0.0.1:{port}"),
        format!("127.0.0.1:{port}"),
        format!("2130706433:{port}"),
        format!("0x7f000001:{port}"),
        format!("0177.0.0.1:{port}"),
        format!("127.1:{port}"),
        format!("[::ffff:127.0.0.1]:{port}"),
        format!("[::ffff:7f00:1]:{port}"),
        format!("[::127.0.0.1]:{port}"),
        format!("[64:ff9b::7f00:1]:{port}"),
        format!("[::1]:{port}"),
        "[fd00::1%25eth0]".into(),
        "169.254.169.254".into(),
        "metadata.internal".into(),
        format!("good.example.com:{port}"),
        "api.example.com:5432".into(),
        "xapi.example.com:5432".into(),
        "good.example.com%00.evil.test".into(),
        "good.example.com:80:80".into(),
        "xn--gd-bcaa.example.com".into(),
    ];
    for host in &hosts {
        let answer = rig.get(&format!("http://{host}/"));
        assert!(answer.starts_with("HTTP/1.1 403 ") || answer.starts_with("HTTP/1.1 400 "), "{host}: {answer}");
        if let Ok(_stream) = rig.tunnel(host) {
            panic!("a tunnel to {host}");
        }
    }
    assert_eq!((bait.connections(), rig.zone.look_ups.load(std::sync::atomic::Ordering::SeqCst)), (0, 0));
    let events = rig.events();
    assert!(opened(&events).is_empty() && refused(&events).len() > hosts.len(), "{events:?}");
}

/// What two readers could read differently is read by nobody.
#[test]
fn requests_that_say_two_things_are_refused() {
    let server = Server::web(reply("hello"));
    let port = server.port;
    let rig = rules(&[format!("http://good.example.com:{port}")]);
    rig.here("good.example.com");
    let url = format!("http://good.example.com:{port}/");
    let own = format!("Host: good.example.com:{port}\r\n");
    for request in [
        format!("GET {url} HTTP/1.1\r\nHost: evil.test\r\n\r\n"),
        format!("GET {url} HTTP/1.1\r\n{own}{own}\r\n"),
        format!("GET {url} HTTP/1.1\r\n{own}Host: evil.test\r\n\r\n"),
        format!("POST {url} HTTP/1.1\r\n{own}Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"),
        format!("GET / HTTP/1.1\r\n{own}\r\n"),
        format!("GET https://good.example.com:{port}/ HTTP/1.1\r\n{own}\r\n"),
        format!("GET ftp://good.example.com:{port}/ HTTP/1.1\r\n{own}\r\n"),
        format!("GET {url}\0 HTTP/1.1\r\n{own}\r\n"),
        format!("GET {url} HTTP/1.1\r\n{own}X: a\0b\r\n\r\n"),
        format!("GET {url} HTTP/1.1\r\n{own}X : a\r\n\r\n"),
        format!("CONNECT good.example.com:{port} HTTP/1.1\r\nHost: evil.test:{port}\r\n\r\n"),
        "CONNECT good.example.com HTTP/1.1\r\n\r\n".into(),
        "CONNECT :99999 HTTP/1.1\r\n\r\n".into(),
        format!("GET {url} HTTP/1.1\r\n{own}X: {}\r\n\r\n", "a".repeat(10 << 20)),
        "\0\0\0\0\r\n\r\n".into(),
        "GET http://[::1 HTTP/1.1\r\n\r\n".into(),
        "\u{5}\u{ff}".into(),
    ] {
        let shown: String = request.chars().take(120).collect();
        let mut stream = rig.connect();
        stream.write_all(request.as_bytes()).unwrap_or_default();
        stream.shutdown(std::net::Shutdown::Write).unwrap_or_default();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).map(drop).unwrap_or_default();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let is_refused = answer.is_empty() || ["HTTP/1.1 4", "\u{5}"].iter().any(|start| answer.starts_with(start));
        assert!(is_refused, "{shown:?}: {answer}");
    }
    assert_eq!(server.heard(), Vec::<String>::new());
    // Of two ways to say where a request ends, one goes on.
    let both = format!("POST {url} HTTP/1.1\r\n{own}Content-Length: 3\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n");
    assert!(rig.say(both.as_bytes()).starts_with("HTTP/1.1 200 "));
    let heard = server.heard()[0].to_lowercase();
    assert!(heard.contains("transfer-encoding: chunked") && !heard.contains("content-length"), "{heard}");
    // SBX-125: it still serves others.
    assert!(rig.get(&url).ends_with("hello"));
}

/// What belongs to one connection stays there.
#[test]
fn hop_by_hop_fields_stay_behind() {
    let server = Server::web("HTTP/1.1 200 OK\r\nConnection: X-Own\r\nX-Own: 1\r\nKeep-Alive: timeout=9\r\nContent-Length: 0\r\n\r\n");
    let port = server.port;
    let rig = rules(&[format!("http://good.example.com:{port}")]);
    rig.here("good.example.com");
    let answer = rig.say(
        format!(
            "GET http://GOOD.example.com.:{port}/ HTTP/1.1\r\nHost: good.example.com:{port}\r\nProxy-Authorization: Basic eDp5\r\n\
             Connection: close, X-Mine\r\nX-Mine: 1\r\nX-Kept: 1\r\nUpgrade: h2c\r\nTE: trailers\r\n\r\n"
        )
        .as_bytes(),
    );
    let heard = server.heard()[0].to_lowercase();
    assert!(heard.contains("x-kept: 1") && heard.contains(&format!("host: good.example.com:{port}\r\n")), "{heard}");
    for field in ["x-mine", "proxy-authorization", "upgrade", "connection", "te:"] {
        assert!(!heard.contains(field), "{field} in {heard}");
    }
    assert!(!answer.to_lowercase().contains("x-own") && !answer.to_lowercase().contains("keep-alive"), "{answer}");
}

/// SBX-117.
#[test]
fn a_redirect_is_followed_by_the_client_and_decided_like_any_request() {
    let hidden = Server::web(reply("hidden"));
    let location = format!("http://127.0.0.1:{}/", hidden.port);
    let server = Server::web(format!("HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"));
    let rig = rules(&[format!("http://127.0.0.1:{}", server.port)]);
    assert!(rig.get(&format!("http://127.0.0.1:{}/", server.port)).contains(&location));
    assert!(rig.get(&location).starts_with("HTTP/1.1 403 "));
    assert_eq!(hidden.connections(), 0);
}

#[test]
fn hosts_that_fail_are_told_as_they_fail() {
    let half = Server::new(|mut stream, _| {
        read_request(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf").unwrap();
    });
    let mute = Server::new(|mut stream, _| drop(read_request(&mut stream)));
    let garbage = Server::web("this is not HTTP\r\n\r\n");
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let ports = [half.port, mute.port, garbage.port, closed];
    let rig = rules(&ports.map(|port| format!("http://127.0.0.1:{port}")));
    let answers = ports.map(|port| rig.get(&format!("http://127.0.0.1:{port}/")));
    assert!(answers[0].starts_with("HTTP/1.1 200 ") && answers[0].ends_with("half"), "{}", answers[0]);
    for answer in &answers[1..] {
        assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains("ringfence: "), "{answer}");
    }
    let events = rig.events();
    let causes = events.iter().filter(|event| matches!(event, EgressEvent::Closed(closed) if closed.cause.is_some())).count();
    assert_eq!((opened(&events).len(), causes), (4, 4), "{events:?}");
}

/// RFC 6455: after the switch bytes are passed on both ways.
#[test]
fn a_web_socket_is_passed_on() {
    let server = Server::new(|mut stream, _| {
        let request = read_request(&mut stream).unwrap().to_lowercase();
        assert!(request.contains("upgrade: websocket"), "{request}");
        stream.write_all(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n").unwrap();
        let mut said = [0; 4];
        stream.read_exact(&mut said).unwrap();
        stream.write_all(&[said, *b"back"].concat()).unwrap();
    });
    let url = format!("http://127.0.0.1:{}", server.port);
    let rig = rules(std::slice::from_ref(&url));
    let mut stream = rig.connect();
    let head = format!("GET {url}/chat HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", server.port);
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(b"ping").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 101 ") && answer.ends_with("pingback"), "{answer}");
    let events = rig.events();
    assert!(matches!(&events[1], EgressEvent::Closed(closed) if closed.up_bytes > 4 && closed.down_bytes > 8), "{events:?}");
}
