//! A checkpoint: which sealed records there are, signed, to be kept somewhere else. A record proves itself, but not that none is missing: with a
//! checkpoint, records that were taken away or put back to what they were are found.

use std::fs;
use std::path::Path;

use ringfence_evidence::{Digest, EVENTS_FILE, PublicKey, STATEMENT_FILE, Statement, Subject, verify};
use ringfence_store::{Home, now};
use serde::{Deserialize, Serialize};

use crate::error::RunError;
use crate::promotion::{RECEIPT, verify_promotion};
use crate::run::Runner;

/// `predicateType` of a checkpoint.
pub const CHECKPOINT_TYPE: &str = "urn:ringfence:checkpoint:v1";

/// What a checkpoint says beside its subjects, each of which is a sealed record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// When it was made, RFC 3339 in UTC.
    pub at: String,
    /// Sealed runs.
    pub runs: u64,
    /// Promotions that are over.
    pub promotions: u64,
    /// Version of ringfence.
    pub version: String,
}

impl Runner {
    /// Every sealed record of this home by its digest, signed: the bytes of a file to be kept elsewhere.
    pub fn checkpoint(&self) -> Result<Vec<u8>, RunError> {
        let (runs, promotions) =
            (sealed(&self.home.runs(), STATEMENT_FILE, "run")?, sealed(&self.home.promotions(), RECEIPT, "promotion")?);
        let checkpoint =
            Checkpoint { at: now(), runs: runs.len() as u64, promotions: promotions.len() as u64, version: crate::VERSION.to_owned() };
        let statement = Statement::new([runs, promotions].concat(), CHECKPOINT_TYPE, checkpoint);
        let broken = |source: serde_json::Error| RunError::File { act: "sign", path: self.home.root().to_owned(), source: source.into() };
        statement.sign(&self.key).map_err(broken)
    }
}

/// The seals of one kind of record, by name.
fn sealed(folder: &Path, file: &str, kind: &str) -> Result<Vec<Subject>, RunError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| RunError::File { act: "read", path, source }
    };
    let mut subjects = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed(folder))?.flatten() {
        let seal = entry.path().join(file);
        match (entry.file_name().into_string(), fs::read(&seal)) {
            (Ok(name), Ok(bytes)) => subjects.push(Subject::new(&format!("{kind} {name}"), Digest::of(&bytes))),
            (_, Err(error)) if error.kind() == std::io::ErrorKind::NotFound => {}
            (_, Err(error)) => return Err(failed(&seal)(error)),
            (Err(_), Ok(_)) => {}
        }
    }
    subjects.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(subjects)
}

/// Holds a home against a checkpoint that `key` signed: every record that it names must be there as it was, and hold. Answers with it, or says what is wrong.
pub fn verify_checkpoint(home: &Home, checkpoint: &[u8], key: &PublicKey) -> Result<Checkpoint, String> {
    let statement: Statement<Checkpoint> =
        Statement::open(checkpoint, key, CHECKPOINT_TYPE).map_err(|cause| format!("the checkpoint {cause}"))?;
    for subject in &statement.subject {
        let place = match subject.name.split_once(' ') {
            Some(("run", name)) if is_name(name) => home.runs().join(name).join(STATEMENT_FILE),
            Some(("promotion", name)) if is_name(name) => home.promotions().join(name).join(RECEIPT),
            _ => return Err(format!("the checkpoint names `{}`, which is no record", subject.name.escape_debug())),
        };
        is_whole(&place, key).map_err(|cause| format!("{}: {cause}", subject.name))?;
        match fs::read(&place) {
            Ok(bytes) if subject.is(&subject.name, &Digest::of(&bytes)) => {}
            Ok(_) => return Err(format!("{} is sealed otherwise than when the checkpoint was made", subject.name)),
            Err(_) => return Err(format!("{}, which was sealed when the checkpoint was made, is not here", subject.name)),
        }
    }
    Ok(statement.predicate)
}

/// The record behind a seal holds, where the seal is there.
fn is_whole(seal: &Path, key: &PublicKey) -> Result<(), String> {
    let Some(folder) = seal.parent().filter(|_| seal.exists()) else { return Ok(()) };
    if seal.ends_with(RECEIPT) {
        return verify_promotion(folder, key).map(drop);
    }
    let read = |name: &str| fs::read(folder.join(name)).map_err(|e| format!("{name}: {e}"));
    verify(&read(EVENTS_FILE)?, &read(STATEMENT_FILE)?, key).map(drop).map_err(|e| e.to_string())
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
}
