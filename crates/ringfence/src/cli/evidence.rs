//! `ringfence evidence`: list, show, verify, replay.

mod elsewhere;
mod replay;

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use ringfence_control::{Checkpoint, RECEIPT, verify_checkpoint, verify_promotion};
use ringfence_evidence::{Digest, EVENTS_FILE, PublicKey, STATEMENT_FILE, Verified, read_chain, verify};
use ringfence_store::{Artifacts, Home, Index, RunId, read_public_key};

use super::Context;
use super::out::{self, Failure};

/// Arguments of `evidence`.
#[derive(Debug, Args)]
pub(crate) struct EvidenceArguments {
    #[command(subcommand)]
    command: EvidenceCommand,
}

#[derive(Debug, Subcommand)]
enum EvidenceCommand {
    /// List the newest runs
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// At most so many
        #[arg(long, default_value_t = 50)]
        most: u32,
    },
    /// Print the events of a run
    #[command(after_help = "Example:\n  ringfence evidence show 01kbdz9xk3v8p5r0q2n7m4t6w1")]
    Show {
        /// A run, or a folder that holds a record
        run: String,
        /// Print the events as they are
        #[arg(long)]
        json: bool,
    },
    /// Verify the record of a run or of a promotion, offline: any changed byte is found
    #[command(after_help = "Example:\n  ringfence evidence verify ./record --key evidence.pub")]
    Verify {
        /// A run or a promotion, or a folder that holds the record of one
        #[arg(required_unless_present = "checkpoint", conflicts_with = "checkpoint")]
        run: Option<String>,
        /// Hold all records of this home against a checkpoint that was kept elsewhere
        #[arg(long, value_name = "FILE")]
        checkpoint: Option<PathBuf>,
        /// Public key in PEM form; default: this home's own
        #[arg(long, value_name = "PUB")]
        key: Option<PathBuf>,
    },
    /// Print a signed list of all sealed records, to be kept elsewhere: what is taken away or put back later is found with it
    #[command(
        after_help = "Example:\n  ringfence evidence checkpoint --out /mnt/elsewhere/2026-11-29.json\n  ringfence evidence verify --checkpoint /mnt/elsewhere/2026-11-29.json"
    )]
    Checkpoint {
        /// File to make; never one that is there. Default: standard output
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Run a run again, twice, compare what came of it, and explain what differs
    Replay(replay::ReplayArguments),
}

/// The record does not hold.
const BROKEN: u8 = 1;

pub(crate) fn run(context: &Context, arguments: &EvidenceArguments) -> Result<u8, Failure> {
    if let Some(server) = context.server()? {
        return elsewhere::run(context, &server, &arguments.command);
    }
    match &arguments.command {
        EvidenceCommand::Replay(arguments) => return replay::run(context, arguments),
        EvidenceCommand::Ls { json, most } => list(&context.home()?, *json, *most)?,
        EvidenceCommand::Show { run, json } => show(&read(&folder(context, run)?, EVENTS_FILE)?, *json)?,
        EvidenceCommand::Verify { checkpoint: Some(file), key, .. } => check_checkpoint(context, file, key.as_deref())?,
        EvidenceCommand::Verify { run, key, .. } => {
            let run = run.as_deref().unwrap_or_default();
            match promotion_folder(context, run) {
                Some(folder) => check_promotion(context, &folder, run, key.as_deref())?,
                None => check(context, run, key.as_deref())?,
            }
        }
        EvidenceCommand::Checkpoint { out } => checkpoint(context, out.as_deref())?,
    }
    Ok(0)
}

fn list(home: &Home, is_json: bool, most: u32) -> Result<(), Failure> {
    let mut index = Index::open(home).map_err(|e| Failure::hinted(&e, e.hint()))?;
    let runs = index.runs(most).map_err(|e| Failure::hinted(&e, e.hint()))?;
    if is_json {
        return out::print_json(&runs);
    }
    let rows =
        runs.into_iter().map(|r| vec![r.run, r.started_at, r.agent, r.profile, format!("{} {}", r.end_kind, out::harmless(&r.end_detail))]);
    out::print(&out::table(&["run", "requested", "agent", "profile", "end"], rows.collect()))
}

/// A run's folder in the home, or a folder by its path.
fn folder(context: &Context, run: &str) -> Result<PathBuf, Failure> {
    if Path::new(run).join(EVENTS_FILE).exists() {
        return Ok(run.into());
    }
    let id: RunId =
        run.parse().map_err(|e| Failure::new(e, "name a run, or a folder with an events.jsonl; see `ringfence evidence ls`"))?;
    let folder = context.home()?.runs().join(id.as_str());
    match folder.exists() {
        true => Ok(folder),
        false => Err(Failure::new(format!("there is no run `{id}` here"), "see `ringfence evidence ls`")),
    }
}

fn read(folder: &Path, name: &str) -> Result<Vec<u8>, Failure> {
    let path = folder.join(name);
    let hint = if name == STATEMENT_FILE { "the run is not sealed, or the file was removed" } else { "name a folder that holds a record" };
    fs::read(&path).map_err(|e| Failure::new(format!("reading `{}`: {e}", path.display()), hint).with_status(BROKEN))
}

fn show(bytes: &[u8], is_json: bool) -> Result<(), Failure> {
    if is_json {
        return out::print(&String::from_utf8_lossy(bytes));
    }
    let lines = read_chain(bytes).map_err(|e| Failure::new(format!("{EVENTS_FILE}: {e}"), "the record was changed").with_status(BROKEN))?;
    let mut text = String::new();
    for line in &lines {
        let value = serde_json::to_value(&line.event).unwrap_or_default();
        text.push_str(&format!("{:>3}  {}  +{} ms  {}\n", line.seq, line.at, line.elapsed_ms, value["event"].as_str().unwrap_or_default()));
        for (name, field) in value.as_object().into_iter().flatten().filter(|(name, _)| *name != "event") {
            text.push_str(&format!("       {name}: {}\n", out::harmless(&plain(field))));
        }
    }
    out::print(&out::harmless_lines(&text))
}

fn plain(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn check(context: &Context, run: &str, key: Option<&Path>) -> Result<(), Failure> {
    let folder = folder(context, run)?;
    let key = public_key(context, key)?;
    let (events, statement) = (read(&folder, EVENTS_FILE)?, read(&folder, STATEMENT_FILE)?);
    let verified = hold(run, &events, &statement, &key)?;
    let kept = check_artifacts(context, &verified)?;
    tell_intact(&verified, kept, &key)
}

/// Holds a record against its key, and against the name by which it was asked for.
fn hold(run: &str, events: &[u8], statement: &[u8], key: &PublicKey) -> Result<Verified, Failure> {
    let broken = |e: &dyn std::error::Error| Failure::new(e, "the record was changed, or belongs to another key").with_status(BROKEN);
    let verified = verify(events, statement, key).map_err(|e| broken(&e))?;
    if run.parse::<RunId>().is_ok_and(|asked| asked.as_str() != verified.statement.predicate.run) {
        let what = format!("this is the record of run {}", verified.statement.predicate.run);
        return Err(Failure::new(what, "the folder of another run was put in its place").with_status(BROKEN));
    }
    Ok(verified)
}

fn tell_intact(verified: &Verified, kept: usize, key: &PublicKey) -> Result<(), Failure> {
    out::print(&format!(
        "run {}: the record is intact: {} events; {} artifacts exported, {kept} checked here; evidence {}; key {}\n",
        verified.statement.predicate.run,
        verified.lines.len(),
        verified.artifacts().len(),
        verified.digest,
        key.id(),
    ))
}

/// A promotion's folder in the home, or a folder by its path.
fn promotion_folder(context: &Context, name: &str) -> Option<PathBuf> {
    if Path::new(name).join(RECEIPT).exists() {
        return Some(name.into());
    }
    let id: RunId = name.parse().ok()?;
    context.home().ok().map(|home| home.promotions().join(id.as_str())).filter(|folder| folder.exists())
}

fn check_promotion(context: &Context, folder: &Path, name: &str, key: Option<&Path>) -> Result<(), Failure> {
    if !folder.join(RECEIPT).exists() {
        let hint = format!("`ringfence promotion show {name}` says where it stands");
        return Err(Failure::new(format!("promotion {name} has no receipt: it is not over"), hint).with_status(BROKEN));
    }
    let key = public_key(context, key)?;
    let broken = |cause: String| Failure::new(cause, "the record was changed, or belongs to another key").with_status(BROKEN);
    let statement = verify_promotion(folder, &key).map_err(broken)?;
    let receipt = &statement.predicate;
    if name.parse::<RunId>().is_ok_and(|asked| asked.as_str() != receipt.promotion) {
        let what = format!("this is the record of promotion {}", receipt.promotion);
        return Err(Failure::new(what, "the folder of another promotion was put in its place").with_status(BROKEN));
    }
    out::print(&format!(
        "promotion {}: the record is intact: {}; {} files of evidence, {} decisions; key {}\n",
        receipt.promotion,
        receipt.state,
        receipt.evidence.len(),
        receipt.decisions.len(),
        key.id(),
    ))
}

fn checkpoint(context: &Context, out: Option<&Path>) -> Result<(), Failure> {
    let bytes = context.runner(context.home()?)?.checkpoint().map_err(|e| Failure::hinted(&e, e.hint()))?;
    let Some(path) = out else { return out::print(&String::from_utf8_lossy(&bytes)) };
    let made = fs::OpenOptions::new().write(true).create_new(true).open(path).and_then(|mut file| {
        std::io::Write::write_all(&mut file, &bytes)?;
        file.sync_all()
    });
    made.map_err(|e| Failure::new(format!("writing `{}`: {e}", path.display()), "name a file that is not there yet, in a folder that is"))?;
    out::print(&format!("the checkpoint is in `{}`; keep it where nobody who can write to this home can\n", path.display()))
}

fn check_checkpoint(context: &Context, file: &Path, key: Option<&Path>) -> Result<(), Failure> {
    let bytes = fs::read(file).map_err(|e| Failure::new(format!("reading `{}`: {e}", file.display()), "name a checkpoint"))?;
    let (home, key) = (context.home()?, public_key(context, key)?);
    let broken = |cause: String| {
        let hint = match cause.starts_with("the checkpoint") {
            true => "name a file that `ringfence evidence checkpoint` made, and its key",
            false => "records were taken away, changed, or put back to what they were",
        };
        Failure::new(cause, hint).with_status(BROKEN)
    };
    let checkpoint = verify_checkpoint(&home, &bytes, &key).map_err(broken)?;
    let Checkpoint { at, runs, promotions, .. } = checkpoint;
    out::print(&format!("all {runs} runs and {promotions} promotions that were sealed at {at} are here as they were; key {}\n", key.id()))
}

/// The key that was named, or this home's own, which is not made for the purpose.
fn public_key(context: &Context, path: Option<&Path>) -> Result<PublicKey, Failure> {
    let own = context.config.home.join("keys/evidence.pub");
    let path = match path {
        Some(path) => path,
        None if own.exists() => &own,
        None => return Err(Failure::new("no key is given, and there is none here", "name the public key: --key evidence.pub")),
    };
    read_public_key(path).map_err(|e| Failure::hinted(&e, e.hint()))
}

/// Artifacts that are in the store are compared with their digests; a record alone may be verified without them.
fn check_artifacts(context: &Context, verified: &Verified) -> Result<usize, Failure> {
    let Ok(home) = context.home() else { return Ok(0) };
    let store = Artifacts::of(&home);
    let mut kept = 0;
    for artifact in verified.artifacts() {
        let path = store.path(&artifact.sha256);
        let Ok(bytes) = fs::read(&path) else { continue };
        if Digest::of(&bytes) != artifact.sha256 {
            let what = format!("artifact `{}` at `{}` is not what was exported", out::harmless(&artifact.path), path.display());
            return Err(Failure::new(what, "the store was changed").with_status(BROKEN));
        }
        kept += 1;
    }
    Ok(kept)
}
