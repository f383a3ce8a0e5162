//! Clients that are slow, many, or never done, while others are answered.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use ringfence_server::{Limits, ServeOptions};

use crate::rig::{Rig, options, parse, until_end};

fn hasty() -> Limits {
    Limits {
        head_time: Duration::from_millis(400),
        body_pause: Duration::from_millis(400),
        body_time: Duration::from_millis(1500),
        write_pause: Duration::from_millis(400),
        ..Limits::default()
    }
}

fn is_answered_at_once(rig: &Rig) {
    let begun = Instant::now();
    assert_eq!(rig.get("/v1/agents").status, 200);
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}

#[test]
fn slow_heads_and_bodies_are_given_up_and_hold_up_nobody() {
    let rig = Rig::with(ServeOptions { limits: hasty(), ..options() });
    let post = format!(
        "POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n",
        rig.key
    );
    let begin = |text: &str| {
        let mut stream = rig.connect();
        stream.write_all(text.as_bytes()).unwrap();
        stream
    };
    let silent: Vec<TcpStream> = (0..20).map(|_| begin("")).collect();
    let heads: Vec<TcpStream> = (0..20).map(|_| begin("GET /healthz HTTP/1.1\r\nHost: loc")).collect();
    let bodies: Vec<TcpStream> = (0..20).map(|_| begin(&format!("{post}{{"))).collect();
    is_answered_at_once(&rig);
    let begun = Instant::now();
    for mut stream in silent.into_iter().chain(heads) {
        let answer = until_end(&mut stream);
        assert!(answer.is_empty() || parse(&answer).status == 408, "{answer}");
    }
    for mut stream in bodies {
        let reply = parse(&until_end(&mut stream));
        assert_eq!((reply.status, reply.code().as_str()), (408, "body_too_slow"));
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

/// A connection over which nothing was said yet, and which has not ended.
fn is_open(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let seen = stream.peek(&mut [0]);
    stream.set_nonblocking(false).unwrap();
    seen.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
}

#[test]
fn sv_10_two_hundred_clients_of_a_byte_a_second_hold_up_nobody_and_are_given_up() {
    let limits = Limits { body_time: Duration::from_secs(10), ..Limits::default() };
    let rig = Rig::with(ServeOptions { limits, ..options() });
    let post = format!(
        "POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n",
        rig.key
    );
    let begin = |number| {
        let mut stream = rig.connect();
        stream.write_all(if number % 2 == 0 { "GET /healthz HTTP/1.1\r\nX: " } else { &post }.as_bytes()).unwrap();
        stream
    };
    let mut slow: Vec<TcpStream> = (0..200).map(begin).collect();
    for _ in 0..3 {
        slow.iter_mut().for_each(|stream| stream.write_all(b" ").unwrap());
        assert_eq!(rig.get("/v1/agents").status, 200);
        assert!(slow.iter().all(is_open), "it was answered while all of the slow ones were being read");
        std::thread::sleep(Duration::from_secs(1));
    }
    let dripping = (0..30).take_while(|_| {
        let mut open: Vec<&mut TcpStream> = slow.iter_mut().filter(|stream| is_open(stream)).collect();
        open.iter_mut().for_each(|stream| stream.write_all(b" ").unwrap_or_default());
        std::thread::sleep(Duration::from_secs(1));
        !open.is_empty()
    });
    assert!(dripping.count() < 30, "one that sends a byte a second is read for ever");
    for (number, stream) in slow.iter_mut().enumerate() {
        let answer = until_end(stream);
        let is_given_up = parse(&answer).status == 408 || (number % 2 == 0 && answer.is_empty());
        assert!(is_given_up, "{number}: {answer}");
    }
}

#[test]
fn a_body_that_comes_byte_by_byte_has_its_time_as_well() {
    let rig = Rig::with(ServeOptions { limits: hasty(), ..options() });
    let mut stream = rig.connect();
    let post = format!(
        "POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n",
        rig.key
    );
    stream.write_all(post.as_bytes()).unwrap();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(1700) && stream.write_all(b" ").is_ok() {
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(parse(&until_end(&mut stream)).status, 408);
}

#[test]
fn a_client_that_reads_nothing_is_left() {
    let rig = Rig::with(ServeOptions { limits: hasty(), ..options() });
    let request = "GET /v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(400);
    let mut stream = rig.connect();
    stream.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
    let begun = Instant::now();
    // The answers fill every buffer on the way; then the server hangs up, and writing fails.
    let is_left = (0..1000).any(|_| stream.write_all(request.as_bytes()).is_err());
    assert!(is_left && begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    is_answered_at_once(&rig);
}

#[test]
fn connections_are_counted() {
    let limits = Limits { connections_of_one_peer: 4, head_time: Duration::from_secs(3), ..Limits::default() };
    let rig = Rig::with(ServeOptions { limits, ..options() });
    let mut held: Vec<TcpStream> = (0..4).map(|_| rig.connect()).collect();
    let probe = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let mut answers = (0..50).map(|_| {
        std::thread::sleep(Duration::from_millis(10));
        rig.say(probe)
    });
    assert!(answers.any(|answer| answer.is_empty()));
    held.clear();
    let mut answers = (0..100).map(|_| {
        std::thread::sleep(Duration::from_millis(10));
        rig.say(probe)
    });
    assert!(answers.any(|answer| answer.contains(" 200 ")));
}
