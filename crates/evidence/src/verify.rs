//! Verification, offline: two files and a public key. Any changed byte is found, since each file must be equal to its one canonical form.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::chain::{Line, read_chain};
use crate::digest::Digest;
use crate::event::{ArtifactRecord, Event};
use crate::key::PublicKey;
use crate::statement::{Envelope, PAYLOAD_TYPE, PREDICATE_TYPE, STATEMENT_TYPE, Statement, Subject, pre_authentication_encoding};
use crate::{EVENTS_FILE, STATEMENT_FILE, canonical};

/// What is wrong, and in which file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {cause}")]
pub struct VerifyError {
    /// The file.
    pub file: String,
    /// What is wrong with it.
    pub cause: String,
}

/// Evidence that holds.
#[derive(Debug, Clone)]
pub struct Verified {
    /// The events.
    pub lines: Vec<Line>,
    /// The statement.
    pub statement: Statement,
    /// Digest of the envelope's file: the name of this evidence.
    pub digest: Digest,
}

impl Verified {
    /// The artifacts that crossed.
    pub fn artifacts(&self) -> Vec<ArtifactRecord> {
        artifacts(&self.lines)
    }
}

/// Verifies the two files against a key.
pub fn verify(events: &[u8], statement: &[u8], key: &PublicKey) -> Result<Verified, VerifyError> {
    let sealed = open(statement, key).map_err(|cause| VerifyError { file: STATEMENT_FILE.into(), cause })?;
    let lines = read_chain(events).map_err(|e| VerifyError { file: EVENTS_FILE.into(), cause: e.to_string() })?;
    compare(events, &lines, &sealed)?;
    Ok(Verified { lines, statement: sealed, digest: Digest::of(statement) })
}

/// Opens the envelope: canonical form, key, signature, then what it holds.
fn open(bytes: &[u8], key: &PublicKey) -> Result<Statement, String> {
    let envelope: Envelope = serde_json::from_slice(bytes).map_err(|e| format!("is not a DSSE envelope: {e}"))?;
    let form = canonical(&envelope).map(|text| text + "\n").map_err(|e| e.to_string())?;
    if form.as_bytes() != bytes {
        return Err("is not in canonical form".into());
    }
    let [signature] = envelope.signatures.as_slice() else { return Err("does not have exactly one signature".into()) };
    if signature.keyid != key.id() {
        return Err(format!("is signed by key {}, not by the given key {}", short(&signature.keyid), short(&key.id())));
    }
    if envelope.payload_type != PAYLOAD_TYPE {
        return Err("has a payload of another type".into());
    }
    let payload = STANDARD.decode(&envelope.payload).map_err(|_| "has a payload that is not base 64")?;
    let sig = STANDARD.decode(&signature.sig).map_err(|_| "has a signature that is not base 64")?;
    if !key.verifies(&pre_authentication_encoding(PAYLOAD_TYPE, &payload), &sig) {
        return Err("the signature does not match".into());
    }
    let statement: Statement = serde_json::from_slice(&payload).map_err(|e| format!("is not a statement: {e}"))?;
    let is_ours = statement.statement_type == STATEMENT_TYPE && statement.predicate_type == PREDICATE_TYPE;
    if is_ours { Ok(statement) } else { Err("is a statement of another type".into()) }
}

fn compare(events: &[u8], lines: &[Line], statement: &Statement) -> Result<(), VerifyError> {
    let wrong = |cause: &str| Err(VerifyError { file: EVENTS_FILE.into(), cause: cause.into() });
    let has = |subject: &Subject, name: &str, digest: &Digest| subject.name == name && subject.digest.get("sha256") == Some(&digest.hex());
    let Some((first, rest)) = statement.subject.split_first() else { return wrong("is not named by the statement") };
    if !has(first, EVENTS_FILE, &Digest::of(events)) {
        return wrong("is not the file that was sealed: its digest differs");
    }
    if lines.len() as u64 != statement.predicate.events {
        return wrong("does not have the number of events that was sealed");
    }
    match lines.first().map(|line| &line.event) {
        Some(Event::RunRequested { run, .. }) if *run == statement.predicate.run => {}
        _ => return wrong("does not begin with the request of the run that was sealed"),
    }
    let artifacts = artifacts(lines);
    if artifacts.len() != rest.len() || !artifacts.iter().zip(rest).all(|(a, subject)| has(subject, &a.path, &a.sha256)) {
        return wrong("names other artifacts than the statement");
    }
    match lines.last().map(|line| &line.event) {
        Some(Event::RunEnded { end }) if *end == statement.predicate.end => Ok(()),
        _ => wrong("does not end as the statement says"),
    }
}

fn artifacts(lines: &[Line]) -> Vec<ArtifactRecord> {
    let exported = |line: &Line| match &line.event {
        Event::ArtifactExported { artifact } => Some(artifact.clone()),
        _ => None,
    };
    lines.iter().filter_map(exported).collect()
}

fn short(id: &str) -> String {
    id.chars().take(16).collect()
}
