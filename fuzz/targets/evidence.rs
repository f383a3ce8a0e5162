//! Events, a statement and a key, with a NUL byte between them: nothing but the untouched record verifies, and what can be sealed verifies as what
//! it says.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ringfence_evidence::{Chain, Event, Line, PublicKey, RunStatement, SigningKey, read_chain, verify};

/// A real record, whose key is not here: nobody can make another one that verifies.
const EVENTS: &[u8] = include_bytes!("../../crates/ringfence/tests/records/format-1/events.jsonl");
const STATEMENT: &[u8] = include_bytes!("../../crates/ringfence/tests/records/format-1/statement.dsse.json");
const KEY: &str = include_str!("../../crates/ringfence/tests/records/format-1/evidence.pub");

fuzz_target!(|bytes: &[u8]| {
    let mut parts = bytes.splitn(3, |b| *b == 0);
    let mut next = || parts.next().unwrap_or_default();
    let (events, statement, key) = (next(), next(), next());
    let is_untouched = events == EVENTS && statement == STATEMENT;
    assert_eq!(verify(events, statement, &PublicKey::from_pem(KEY).unwrap()).is_ok(), is_untouched);
    if let Ok(lines) = read_chain(events) {
        one_form(events, &lines);
        sealed(events, &lines, statement);
    }
    if let Some(key) = std::str::from_utf8(key).ok().and_then(|text| PublicKey::from_pem(text).ok()) {
        assert_eq!(PublicKey::from_pem(&key.to_pem().unwrap()).as_ref(), Ok(&key));
    }
});

/// A chain that is read is the one that would be written.
fn one_form(events: &[u8], lines: &[Line]) {
    let mut chain = Chain::default();
    let written: Vec<String> = lines.iter().map(|line| chain.link(line.at.clone(), line.elapsed_ms, line.event.clone()).unwrap()).collect();
    assert_eq!(written.concat().as_bytes(), events);
}

/// With a key of our own, any statement can be sealed: what then verifies agrees with the events.
fn sealed(events: &[u8], lines: &[Line], statement: &[u8]) {
    let key = SigningKey::from_seed(&[1; 32]);
    let Ok(statement) = serde_json::from_slice::<RunStatement>(statement) else { return };
    let envelope = statement.sign(&key).unwrap();
    let Ok(verified) = verify(events, &envelope, &key.public()) else { return };
    assert_eq!(verified.lines, lines);
    assert_eq!(verified.statement.predicate.events, lines.len() as u64);
    assert_eq!(verified.statement.subject.len(), 1 + verified.artifacts().len());
    let is_end = |line: &Line| matches!(&line.event, Event::RunEnded { end } if *end == statement.predicate.end);
    assert!(lines.last().is_some_and(is_end), "a record verifies that does not end as it says");
}
