//! `ringfence artifact`: list, show, get. What is in an artifact is a stranger's, and is shown so that it cannot steer a terminal.

use std::fs::OpenOptions;
use std::io::{self, IsTerminal, Read};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use ringfence_evidence::Digest;
use ringfence_store::{Artifacts, Index, RunId};

use super::Context;
use super::out::{self, Failure};

/// Arguments of `artifact`.
#[derive(Debug, Args)]
pub(crate) struct ArtifactArguments {
    #[command(subcommand)]
    command: ArtifactCommand,
}

#[derive(Debug, Subcommand)]
enum ArtifactCommand {
    /// List what left a run, or the newest runs
    Ls {
        /// The run
        run: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the beginning of an artifact, made harmless for a terminal
    #[command(after_help = "Example:\n  ringfence artifact show sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")]
    Show {
        /// Its digest
        digest: String,
    },
    /// Fetch the bytes of an artifact
    #[command(
        after_help = "Example:\n  ringfence artifact get sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 --out report.md"
    )]
    Get {
        /// Its digest
        digest: String,
        /// File to make; never one that is there. Default: standard output
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
}

/// How much `show` shows.
const SHOWN: u64 = 64 << 10;

pub(crate) fn run(context: &Context, arguments: &ArtifactArguments) -> Result<u8, Failure> {
    match &arguments.command {
        ArtifactCommand::Ls { run, json } => list(context, run.as_deref(), *json)?,
        ArtifactCommand::Show { digest } => show(context, digest)?,
        ArtifactCommand::Get { digest, out } => get(context, digest, out.as_ref())?,
    }
    Ok(0)
}

fn list(context: &Context, run: Option<&str>, is_json: bool) -> Result<(), Failure> {
    let home = context.home()?;
    let run: Option<RunId> = run.map(str::parse).transpose().map_err(|e| Failure::new(e, "see `ringfence evidence ls`"))?;
    if let Some(run) = run.as_ref().filter(|run| !home.runs().join(run.as_str()).exists()) {
        return Err(Failure::new(format!("there is no run `{run}` here"), "see `ringfence evidence ls`"));
    }
    let rows = Index::open(&home).and_then(|mut index| index.artifacts(run.as_ref().map(RunId::as_str)));
    let rows = rows.map_err(|e| Failure::hinted(&e, e.hint()))?;
    if is_json {
        return out::print_json(&rows);
    }
    let rows = rows.into_iter().map(|a| vec![a.run, out::harmless(&a.path), out::bytes(a.bytes), a.sha256]).collect();
    out::print(&out::table(&["run", "path", "size", "digest"], rows))
}

fn open(context: &Context, digest: &str) -> Result<std::fs::File, Failure> {
    let digest: Digest = digest.parse().map_err(|e| Failure::new(e, "see `ringfence artifact ls`"))?;
    let home = context.home()?;
    Artifacts::of(&home).open(&digest).map_err(|e| Failure::hinted(&e, e.hint()))
}

fn show(context: &Context, digest: &str) -> Result<(), Failure> {
    let mut bytes = Vec::new();
    let file = open(context, digest)?;
    let length = file.metadata().map(|m| m.len()).unwrap_or_default();
    file.take(SHOWN).read_to_end(&mut bytes).map_err(|e| Failure::new(format!("reading the artifact: {e}"), ""))?;
    let text = String::from_utf8_lossy(&bytes);
    let shown: String = text.split('\n').map(|line| out::harmless(line) + "\n").collect();
    out::print(&shown)?;
    match length > SHOWN {
        true => out::print(&format!("[{} of {} shown; `ringfence artifact get` has all]\n", out::bytes(SHOWN), out::bytes(length))),
        false => Ok(()),
    }
}

fn get(context: &Context, digest: &str, out: Option<&PathBuf>) -> Result<(), Failure> {
    let mut file = open(context, digest)?;
    let copied = match out {
        Some(path) => OpenOptions::new().write(true).create_new(true).open(path).and_then(|mut to| io::copy(&mut file, &mut to)),
        None if io::stdout().is_terminal() => {
            return Err(Failure::new("an artifact's bytes could steer this terminal", "add --out FILE, or use `ringfence artifact show`"));
        }
        None => io::copy(&mut file, &mut io::stdout().lock()),
    };
    match copied {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(e) => Err(Failure::new(format!("writing the artifact: {e}"), "name a file that is not there yet")),
        Ok(_) => Ok(()),
    }
}
