//! Verification, offline: two files and a public key. Any changed byte is found, since each file must be equal to its one canonical form.

use crate::chain::{Line, read_chain};
use crate::digest::Digest;
use crate::event::{ArtifactRecord, Event};
use crate::key::PublicKey;
use crate::statement::{PREDICATE_TYPE, RunStatement};
use crate::{EVENTS_FILE, STATEMENT_FILE};

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
    pub statement: RunStatement,
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
    let sealed = RunStatement::open(statement, key, PREDICATE_TYPE).map_err(|cause| VerifyError { file: STATEMENT_FILE.into(), cause })?;
    let lines = read_chain(events).map_err(|e| VerifyError { file: EVENTS_FILE.into(), cause: e.to_string() })?;
    compare(events, &lines, &sealed)?;
    Ok(Verified { lines, statement: sealed, digest: Digest::of(statement) })
}

fn compare(events: &[u8], lines: &[Line], statement: &RunStatement) -> Result<(), VerifyError> {
    let wrong = |cause: &str| Err(VerifyError { file: EVENTS_FILE.into(), cause: cause.into() });
    let Some((first, rest)) = statement.subject.split_first() else { return wrong("is not named by the statement") };
    if !first.is(EVENTS_FILE, &Digest::of(events)) {
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
    if artifacts.len() != rest.len() || !artifacts.iter().zip(rest).all(|(a, subject)| subject.is(&a.path, &a.sha256)) {
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
