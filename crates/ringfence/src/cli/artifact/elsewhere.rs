//! `artifact --server`: what left a run, and its bytes, which are those of their digest or are not kept.

use ringfence_evidence::Digest;
use ringfence_store::ArtifactRow;
use serde::Deserialize;

use super::{ArtifactCommand, print_list, save};
use crate::cli::Context;
use crate::cli::out::{self, Failure};
use crate::remote::Server;

#[derive(Debug, Deserialize)]
struct ArtifactList {
    artifacts: Vec<ArtifactItem>,
}

#[derive(Debug, Deserialize)]
struct ArtifactItem {
    path: String,
    bytes: u64,
    sha256: String,
}

pub(super) fn run(context: &Context, server: &Server, command: &ArtifactCommand) -> Result<u8, Failure> {
    match command {
        ArtifactCommand::Ls { run: Some(run), json } => print_list(list(server, run)?, *json)?,
        ArtifactCommand::Ls { run: None, .. } => {
            return Err(Failure::new("a server lists what left one run", "name the run: ringfence artifact ls RUN --server URL"));
        }
        ArtifactCommand::Get { digest, out } => {
            let (digest, _) = find(server, digest)?;
            save(out.as_deref(), "add --out FILE", |to| Ok(server.artifact(&digest, to)?))?;
        }
        ArtifactCommand::Show { .. } => context.alone("artifact show")?,
        ArtifactCommand::Diff { .. } => context.alone("artifact diff")?,
    }
    Ok(0)
}

fn list(server: &Server, run: &str) -> Result<Vec<ArtifactRow>, Failure> {
    let list: ArtifactList = server.get(&["runs", run, "artifacts"])?;
    let row = |item: ArtifactItem| ArtifactRow { run: run.to_owned(), path: item.path, bytes: item.bytes, sha256: item.sha256 };
    Ok(list.artifacts.into_iter().map(row).collect())
}

/// An artifact by its digest, or by RUN/PATH, and then with its run and path.
pub(in crate::cli) fn find(server: &Server, name: &str) -> Result<(Digest, Option<(String, String)>), Failure> {
    let hint = "write a digest, or RUN/PATH; see `ringfence artifact ls RUN`";
    let Some((run, path)) = name.split_once('/') else { return Ok((out::parsed(name, hint)?, None)) };
    let found = list(server, run)?.into_iter().find(|row| row.path == path);
    let missing = || Failure::new(format!("run {} has no artifact `{}`", out::harmless(run), out::harmless(path)), hint);
    Ok((out::parsed(&found.ok_or_else(missing)?.sha256, "")?, Some((run.to_owned(), path.to_owned()))))
}
