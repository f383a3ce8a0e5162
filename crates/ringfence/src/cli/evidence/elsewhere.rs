//! `evidence --server`: the record is fetched, and held against its key here: what the server itself finds about it is not asked.

use std::path::Path;

use ringfence_evidence::{EVENTS_FILE, PublicKey, Verified};
use ringfence_store::read_public_key;
use serde::Deserialize;

use super::{BROKEN, EvidenceCommand, hold, show, tell_intact};
use crate::cli::Context;
use crate::cli::out::{self, Failure, complain};
use crate::remote::{RemoteError, Server};

/// As much of `GET /v1/runs/{run}/evidence` as is believed before it is held against a key.
#[derive(Debug, Deserialize)]
struct Bundle {
    events: String,
    statement: String,
    public_key: String,
}

pub(super) fn run(context: &Context, server: &Server, command: &EvidenceCommand) -> Result<u8, Failure> {
    match command {
        EvidenceCommand::Show { run, json } => show(fetch(server, run)?.events.as_bytes(), *json)?,
        EvidenceCommand::Verify { run: Some(run), checkpoint: None, key } => check(context, server, run, key.as_deref())?,
        EvidenceCommand::Verify { .. } => context.alone("evidence verify --checkpoint")?,
        EvidenceCommand::Ls { .. } => context.alone("evidence ls")?,
        EvidenceCommand::Checkpoint { .. } => context.alone("evidence checkpoint")?,
        EvidenceCommand::Replay(_) => context.alone("evidence replay")?,
    }
    Ok(0)
}

fn fetch(server: &Server, run: &str) -> Result<Bundle, Failure> {
    if Path::new(run).join(EVENTS_FILE).exists() {
        return Err(Failure::new(
            format!("`{}` is a record of this host", out::harmless(run)),
            "leave --server out and unset RINGFENCE_SERVER",
        ));
    }
    let bundle: Bundle = server.get(&["runs", run, "evidence"])?;
    // JSON holds none: whoever put one there means the terminal.
    match bundle.events.chars().any(|c| c.is_control() && c != '\n') {
        true => Err(Failure::new("the record holds control characters", "the record was changed").with_status(BROKEN)),
        false => Ok(bundle),
    }
}

fn check(context: &Context, server: &Server, run: &str, key: Option<&Path>) -> Result<(), Failure> {
    let bundle = fetch(server, run)?;
    let key = match key {
        Some(path) => read_public_key(path).map_err(|e| Failure::hinted(&e, e.hint()))?,
        None => {
            if !context.is_quiet {
                complain("ringfence: the key is the server's own word; to be sure, name one that you have from elsewhere: --key PUB");
            }
            let broken = |e: &dyn std::fmt::Display| Failure::new(format!("the server's public key: {e}"), "name a key: --key PUB");
            PublicKey::from_pem(&bundle.public_key).map_err(|e| broken(&e).with_status(BROKEN))?
        }
    };
    let verified = hold(run, bundle.events.as_bytes(), bundle.statement.as_bytes(), &key)?;
    let kept = check_artifacts(server, &verified)?;
    tell_intact(&verified, kept, &key)
}

/// Artifacts that the server still has are fetched and compared with their digests.
fn check_artifacts(server: &Server, verified: &Verified) -> Result<usize, Failure> {
    let mut kept = 0;
    for artifact in verified.artifacts() {
        match server.artifact(&artifact.sha256, &mut std::io::sink()) {
            Ok(()) => kept += 1,
            Err(error) if error.is_problem("not_found") => {}
            Err(error @ (RemoteError::OtherBytes { .. } | RemoteError::Unreachable { .. })) => {
                let what = format!("artifact `{}` is not what was exported: {error}", out::harmless(&artifact.path));
                return Err(Failure::new(what, "the store was changed, or the server was lost").with_status(BROKEN));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(kept)
}
