//! `ringfence artifact`: list, show, get, diff. What is in an artifact is a stranger's, and is shown so that it cannot steer a terminal.

mod elsewhere;

pub(super) use elsewhere::find as find_elsewhere;

use std::fs::OpenOptions;
use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use ringfence_control::command_in_words;
use ringfence_evidence::Digest;
use ringfence_policy::{ArtifactKind, TargetName};
use ringfence_store::{ArtifactRow, Artifacts, Home, Index, RunId};

use super::out::{self, Failure};
use super::{Context, promote};

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
    /// Show where an artifact is from and how it begins, made harmless for a terminal
    #[command(after_help = "Example:\n  ringfence artifact show sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")]
    Show {
        /// Its digest, or RUN/PATH
        digest: String,
        /// Where it is from and nothing of it, as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what differs between an artifact and another one, or what it would change in a target
    #[command(
        after_help = "Examples:\n  ringfence artifact diff RUN/report.md OTHER-RUN/report.md\n  ringfence artifact diff RUN/changes.patch --to main"
    )]
    Diff {
        /// Its digest, or RUN/PATH
        digest: String,
        /// The other, which is taken as the newer one
        #[arg(required_unless_present = "to", conflicts_with = "to")]
        other: Option<String>,
        /// Target, as `ringfence.toml` names it
        #[arg(long, value_name = "TARGET")]
        to: Option<String>,
    },
    /// Fetch the bytes of an artifact
    #[command(
        after_help = "Example:\n  ringfence artifact get sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 --out report.md"
    )]
    Get {
        /// Its digest, or RUN/PATH
        digest: String,
        /// File to make; never one that is there. Default: standard output
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
}

/// How much `show` shows.
const SHOWN: u64 = 64 << 10;

pub(crate) fn run(context: &Context, arguments: &ArtifactArguments) -> Result<u8, Failure> {
    if let Some(server) = context.server()? {
        return elsewhere::run(context, &server, &arguments.command);
    }
    match &arguments.command {
        ArtifactCommand::Ls { run, json } => print_list(list(context, run.as_deref())?, *json)?,
        ArtifactCommand::Show { digest, json } => show(context, digest, *json)?,
        ArtifactCommand::Diff { digest, other, to } => diff(context, digest, other.as_deref(), to.as_deref())?,
        ArtifactCommand::Get { digest, out } => get(context, digest, out.as_ref())?,
    }
    Ok(0)
}

fn list(context: &Context, run: Option<&str>) -> Result<Vec<ArtifactRow>, Failure> {
    let home = context.home()?;
    let run: Option<RunId> = run.map(str::parse).transpose().map_err(|e| Failure::new(e, "see `ringfence evidence ls`"))?;
    if let Some(run) = run.as_ref().filter(|run| !home.runs().join(run.as_str()).exists()) {
        return Err(Failure::new(format!("there is no run `{run}` here"), "see `ringfence evidence ls`"));
    }
    let rows = Index::open(&home).and_then(|mut index| index.artifacts(run.as_ref().map(RunId::as_str)));
    rows.map_err(|e| Failure::hinted(&e, e.hint()))
}

fn print_list(rows: Vec<ArtifactRow>, is_json: bool) -> Result<(), Failure> {
    if is_json {
        let value = |a: &ArtifactRow| {
            let kind = ArtifactKind::of(&a.path).word();
            serde_json::json!({ "run": a.run, "path": a.path, "kind": kind, "bytes": a.bytes, "sha256": a.sha256 })
        };
        return out::print_json(&rows.iter().map(value).collect::<Vec<_>>());
    }
    let rows = rows
        .into_iter()
        .map(|a| vec![a.run, out::harmless(&a.path), ArtifactKind::of(&a.path).to_string(), out::bytes(a.bytes), a.sha256])
        .collect();
    out::print(&out::table(&["run", "path", "kind", "size", "digest"], rows))
}

/// An artifact by its digest, or by RUN/PATH.
fn find(home: &Home, name: &str) -> Result<Digest, Failure> {
    if !name.contains('/') {
        return out::parsed(name, "see `ringfence artifact ls`");
    }
    promote::artifact(&mut Index::open(home).map_err(|e| Failure::hinted(&e, e.hint()))?, name).map(|(digest, _)| digest)
}

fn open(context: &Context, name: &str) -> Result<(Digest, std::fs::File), Failure> {
    let home = context.home()?;
    let digest = find(&home, name)?;
    let file = Artifacts::of(&home).open(&digest).map_err(|e| Failure::hinted(&e, e.hint()))?;
    Ok((digest, file))
}

fn show(context: &Context, name: &str, is_json: bool) -> Result<(), Failure> {
    let (digest, file) = open(context, name)?;
    let length = file.metadata().map(|m| m.len()).unwrap_or_default();
    let made = context.runner(context.home()?)?.provenance(digest);
    if is_json {
        return out::print_json(&made.map_err(|e| Failure::hinted(&e, e.hint()))?);
    }
    if let (Ok(made), false) = (made, context.is_quiet) {
        let facts = format!("{} ({}, {}), made by run {} of agent {}", made.path, made.kind, out::bytes(length), made.run, made.agent);
        let more = format!(
            "owned by {}, profile {}, which ended: {}; command: {}",
            made.owner,
            made.profile,
            made.end,
            command_in_words(&made.command)
        );
        out::complain(&out::harmless(&format!("{facts}, {more}")));
    }
    let mut bytes = Vec::new();
    file.take(SHOWN).read_to_end(&mut bytes).map_err(|e| Failure::new(format!("reading the artifact: {e}"), ""))?;
    out::print(&shown(&bytes))?;
    match length > SHOWN {
        true => out::print(&format!("[{} of {} shown; `ringfence artifact get` has all]\n", out::bytes(SHOWN), out::bytes(length))),
        false => Ok(()),
    }
}

/// Text line by line, in which nothing steers a terminal; anything else as the numbers of its first bytes.
fn shown(bytes: &[u8]) -> String {
    const NUMBERS: usize = 256;
    if !bytes.contains(&0) {
        return String::from_utf8_lossy(bytes).split('\n').map(|line| out::harmless(line) + "\n").collect();
    }
    let row = |row: &[u8]| row.iter().map(|byte| format!("{byte:02x} ")).collect::<String>().trim_end().to_owned() + "\n";
    bytes[..bytes.len().min(NUMBERS)].chunks(16).map(row).collect()
}

fn diff(context: &Context, name: &str, other: Option<&str>, to: Option<&str>) -> Result<(), Failure> {
    let home = context.home()?;
    let digest = find(&home, name)?;
    let runner = context.runner(home.clone())?;
    let changed = match (other, to) {
        (Some(other), _) => runner.difference(digest, find(&home, other)?),
        (None, to) => {
            let target: TargetName = out::parsed(to.unwrap_or_default(), "targets are named in ringfence.toml, such as [targets.main]")?;
            runner.difference_to(digest, &target)
        }
    };
    out::print(&changed.map_err(|e| Failure::hinted(&e, e.hint()))?)
}

fn get(context: &Context, digest: &str, out: Option<&PathBuf>) -> Result<(), Failure> {
    let (_, mut file) = open(context, digest)?;
    let hint = "add --out FILE, or use `ringfence artifact show`";
    save(out.map(PathBuf::as_path), hint, |to| io::copy(&mut file, to).map(drop).map_err(unwritten))
}

/// Lets a stranger's bytes be written to a file that is made for them, or to standard output, unless that is a terminal. A file that could not be
/// written to its end is taken away.
pub(super) fn save(out: Option<&Path>, hint: &str, write: impl FnOnce(&mut dyn Write) -> Result<(), Failure>) -> Result<(), Failure> {
    let Some(path) = out else {
        return match io::stdout().is_terminal() {
            true => Err(Failure::new("an artifact's bytes could steer this terminal", hint)),
            false => write(&mut Pipe(io::stdout().lock())),
        };
    };
    let mut file = OpenOptions::new().write(true).create_new(true).open(path).map_err(unwritten)?;
    write(&mut file).inspect_err(|_| {
        // It is ours; when it cannot be removed the error says what happened all the same.
        std::fs::remove_file(path).unwrap_or_default();
    })
}

fn unwritten(error: io::Error) -> Failure {
    Failure::new(format!("writing the artifact: {error}"), "name a file that is not there yet")
}

/// Standard output whose reader may go away before the end.
struct Pipe<'a>(io::StdoutLock<'a>);

impl Write for Pipe<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(bytes.len()),
            written => written,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.0.flush() {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            flushed => flushed,
        }
    }
}
