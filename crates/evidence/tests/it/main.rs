//! Evidence as a stranger with the public key sees it: untouched it verifies, and any change is found.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "a test may stop, and starts what it tests")]

use proptest::prelude::*;
use ringfence_evidence::{Chain, Digest, Event, PublicKey, RunEnd, RunStatement, Seal, SigningKey, read_chain, verify};

fn key() -> SigningKey {
    SigningKey::from_seed(&[7; 32])
}

/// A small sealed record: events and statement.
fn sealed() -> (Vec<u8>, Vec<u8>) {
    let mut chain = Chain::default();
    let mut text = String::new();
    let end = RunEnd::Exited { code: 0 };
    let artifact =
        ringfence_evidence::ArtifactRecord { path: "out/ü%25.md".into(), bytes: 3, sha256: Digest::of(b"abc"), is_executable: false };
    let events = [
        Event::RunRequested {
            run: "01kbdz9xk3v8p5r0q2n7m4t6w1".into(),
            version: "0.1.0".into(),
            agent: "me".into(),
            agent_version: None,
            owner: "o\"w\nner".into(),
            tenant: None,
            profile: "p".into(),
            profile_digest: Digest::zero(),
            ceiling_digest: Digest::zero(),
            ask: Box::default(),
            commands: vec![vec!["true".into()]],
        },
        Event::SandboxCreated {},
        Event::Exporting { globs: vec!["out/*".into()] },
        Event::ArtifactExported { artifact: artifact.clone() },
        Event::RunEnded { end: end.clone() },
    ];
    for (number, event) in events.into_iter().enumerate() {
        text.push_str(&chain.link(format!("2026-01-02T03:04:05.00{number}Z"), number as u64, event).unwrap());
    }
    let seal = Seal { run: "01kbdz9xk3v8p5r0q2n7m4t6w1".into(), events: 5, end, version: "0.1.0".into() };
    let statement = RunStatement::of(text.as_bytes(), &[artifact], seal).sign(&key()).unwrap();
    (text.into_bytes(), statement)
}

#[test]
fn an_untouched_record_verifies() {
    let (events, statement) = sealed();
    let verified = verify(&events, &statement, &key().public()).unwrap();
    assert_eq!((verified.lines.len(), verified.artifacts().len()), (5, 1));
    let pem = key().public().to_pem().unwrap();
    assert_eq!(PublicKey::from_pem(&pem).unwrap(), key().public());
}

#[test]
fn every_changed_byte_of_either_file_is_found() {
    let (events, statement) = sealed();
    let key = key().public();
    for (file, bytes) in [(0, &events), (1, &statement)] {
        for at in 0..bytes.len() {
            for flip in [1u8, 0x20, 0x80] {
                let mut changed = bytes.clone();
                changed[at] ^= flip;
                let found = if file == 0 { verify(&changed, &statement, &key) } else { verify(&events, &changed, &key) };
                assert!(found.is_err(), "file {file} byte {at} flip {flip}");
            }
        }
    }
}

#[test]
fn cuts_swaps_and_repeats_are_found() {
    let (events, statement) = sealed();
    let key = key().public();
    let lines: Vec<&[u8]> = events.split_inclusive(|b| *b == b'\n').collect();
    let tampered = [
        lines[..4].concat(),
        events[..events.len() - 1].to_vec(),
        lines[1..].concat(),
        [lines[0], lines[2], lines[1], lines[3], lines[4]].concat(),
        [lines[0], lines[1], lines[1], lines[2], lines[3], lines[4]].concat(),
        [events.as_slice(), b"\n"].concat(),
        Vec::new(),
    ];
    for (number, events) in tampered.iter().enumerate() {
        assert!(verify(events, &statement, &key).is_err(), "tampering {number}");
    }
    assert!(verify(&events, &[statement.as_slice(), b"\n"].concat(), &key).is_err());
    assert!(verify(&events, b"", &key).is_err());
}

#[test]
fn a_chain_built_anew_without_the_key_is_found() {
    let (events, statement) = sealed();
    let other = SigningKey::from_seed(&[8; 32]);
    assert!(verify(&events, &statement, &other.public()).is_err());
    let seal = Seal { run: "x".into(), events: 5, end: RunEnd::Exited { code: 0 }, version: "0".into() };
    let forged = RunStatement::of(&events, &[], seal).sign(&other).unwrap();
    assert!(verify(&events, &forged, &key().public()).is_err());
}

/// Check EV-11: numbers and the clock that is never set give the order; the time of day is written as it was shown.
#[test]
fn a_clock_that_was_set_back_changes_no_order() {
    let (mut chain, mut text) = (Chain::default(), String::new());
    for (at, elapsed_ms) in [("2026-01-02T03:00:00.000Z", 0), ("2026-01-02T02:00:01.000Z", 1000), ("2026-01-02T02:00:02.000Z", 2000)] {
        text.push_str(&chain.link(at.into(), elapsed_ms, Event::SandboxCreated {}).unwrap());
    }
    let lines = read_chain(text.as_bytes()).unwrap();
    let order: Vec<(u64, &str, u64)> = lines.iter().map(|line| (line.seq, &line.at[11..13], line.elapsed_ms)).collect();
    assert_eq!(order, [(0, "03", 0), (1, "02", 1000), (2, "02", 2000)]);
}

proptest! {
    #[test]
    fn any_other_bytes_are_refused_without_a_crash(events in proptest::collection::vec(any::<u8>(), 0..400), statement in proptest::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(verify(&events, &statement, &key().public()).is_err());
    }
}
