//! Connections that are kept between two requests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use ringfence_server::{Limits, ServeOptions};

use crate::rig::{Rig, options};

/// A connection that is used more than once.
struct Kept(BufReader<TcpStream>);

impl Kept {
    fn new(rig: &Rig) -> Self {
        let mut kept = Self(BufReader::new(rig.connect()));
        assert_eq!(kept.ask(), 200);
        kept
    }

    fn write(&mut self, text: &str) {
        self.0.get_mut().write_all(text.as_bytes()).unwrap();
    }

    fn ask(&mut self) -> u16 {
        self.write("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
        self.answer()
    }

    /// The status of the next answer, which is read to its end.
    fn answer(&mut self) -> u16 {
        let mut head = String::new();
        while self.0.read_line(&mut head).unwrap() > 2 {}
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        self.0.read_exact(&mut vec![0; length.parse().unwrap()]).unwrap();
        head[9..12].parse().unwrap()
    }

    /// Waits until the server ends it, without a word.
    fn assert_ended(mut self) {
        let read = self.0.read(&mut [0]);
        let is_reset = |error: std::io::Error| error.kind() == std::io::ErrorKind::ConnectionReset;
        assert!(matches!(read, Ok(0)) || read.is_err_and(is_reset), "it goes on");
    }
}

fn with(limits: Limits) -> Rig {
    Rig::with(ServeOptions { limits, ..options() })
}

#[test]
fn a_connection_rests_longer_than_a_head_may_take() {
    assert!(Limits::default().idle_time > Duration::from_secs(300), "the pools of clients keep theirs for 300 s");
    let rig = with(Limits { head_time: Duration::from_millis(300), ..Limits::default() });
    let mut kept = Kept::new(&rig);
    for _ in 0..2 {
        std::thread::sleep(Duration::from_millis(900));
        assert_eq!(kept.ask(), 200);
    }
    // From the first byte on the next head has no more time than any other, and whoever says nothing at first has not either.
    kept.write("G");
    kept.assert_ended();
    Kept(BufReader::new(rig.connect())).assert_ended();
}

#[test]
fn one_head_that_was_read_gives_the_next_its_own_time() {
    let rig = with(Limits { head_time: Duration::from_millis(1500), ..Limits::default() });
    let mut kept = Kept::new(&rig);
    let (first, rest) = ("GET /healthz HT", "TP/1.1\r\nHost: localhost\r\n\r\n");
    kept.write(first);
    for _ in 0..4 {
        std::thread::sleep(Duration::from_millis(600));
        kept.write(&format!("{rest}{first}"));
        assert_eq!(kept.answer(), 200);
    }
    kept.assert_ended();
}

#[test]
fn a_connection_does_not_rest_for_ever() {
    let rig = with(Limits { head_time: Duration::from_millis(200), idle_time: Duration::from_millis(300), ..Limits::default() });
    Kept::new(&rig).assert_ended();
}

#[test]
fn the_one_that_has_rested_longest_makes_room() {
    let rig = with(Limits { connections_of_one_peer: 3, ..Limits::default() });
    let (mut first, second, third) = (Kept::new(&rig), Kept::new(&rig), Kept::new(&rig));
    assert_eq!(first.ask(), 200);
    let mut fourth = Kept::new(&rig);
    second.assert_ended();
    let mut fifth = Kept::new(&rig);
    third.assert_ended();
    for kept in [&mut first, &mut fourth, &mut fifth] {
        assert_eq!(kept.ask(), 200);
    }
}

#[test]
fn who_is_being_answered_makes_no_room() {
    let rig = with(Limits { connections_of_one_peer: 2, ..Limits::default() });
    let begin = || {
        let mut kept = Kept::new(&rig);
        let (key, fields) = (&rig.key, "Content-Type: application/json\r\nContent-Length: 20");
        kept.write(&format!(
            "POST /v1/runs?wait=true HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n{fields}\r\nExpect: 100-continue\r\n\r\n"
        ));
        let mut line = String::new();
        kept.0.read_line(&mut line).unwrap();
        assert_eq!(line, "HTTP/1.1 100 Continue\r\n");
        kept.0.read_line(&mut line).unwrap();
        kept
    };
    let mut both = [begin(), begin()];
    let third = rig.say(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(third, "");
    for kept in &mut both {
        kept.write("{\"command\":[\"true\"]}");
        assert_eq!(kept.answer(), 201);
    }
    assert_eq!(Kept::new(&rig).ask(), 200);
}
