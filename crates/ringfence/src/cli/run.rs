//! `ringfence run`: from arguments to a request, and from the report to what is printed and copied.

mod copy_out;
mod elsewhere;
mod request;

pub(super) use elsewhere::text;
pub(super) use request::{environment, input, known_secrets, limits, variable};

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;

use clap::Args;
use ringfence_control::{Attachments, NetworkReport, OutputTo, PackageRefusalReport, RunReport};
use ringfence_evidence::{Digest, RunEnd};
use ringfence_isolation::stop_requested_descriptor;
use ringfence_store::Artifacts;

use super::out::{self, Failure, complain};
use super::{Context, explain, progress};

/// Arguments of `run`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  ringfence run --stdin --input data.csv --export 'report.*' -- python3 - < analyse.py\n  ringfence run --project . --export changes.patch -- sh -c 'make test'\n  ringfence run --state notes -- sh -c 'date >> log; cat log'\n\nExit status: the program's own; 123 a named artifact is missing or was refused, or a state not kept; 124 wall or CPU limit; 137 memory\nlimit; 125 refused or could not be set up; 126 and 127 as a shell; 128+n a signal."
)]
pub(crate) struct RunArguments {
    /// Class of work: the name of a profile, or a file
    #[arg(long, value_name = "NAME or FILE", default_value = "data-analysis")]
    pub(crate) profile: String,
    /// Registered agent that the run belongs to [default: me; with --server, the first of the key's tenant]
    #[arg(long, value_name = "ID")]
    pub(crate) agent: Option<String>,
    /// File or folder to see, read-only, at /inputs/NAME; repeatable
    #[arg(long, value_name = "PATH[=NAME]")]
    pub(crate) input: Vec<OsString>,
    /// Folder to see, copy-on-write, as the workspace; it is never written
    #[arg(long, value_name = "DIR")]
    pub(crate) project: Option<PathBuf>,
    /// Hidden file of the project to show after all; the profile must allow it
    #[arg(long, value_name = "PATH")]
    pub(crate) reveal: Vec<String>,
    /// Variable to set; nothing else of your environment goes in
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) env: Vec<OsString>,
    /// Destination to reach; must be inside the bound
    #[arg(long, value_name = "[SCHEME://]HOST:PORT")]
    pub(crate) allow: Vec<String>,
    /// Lower a limit: wall cpu cpus memory processes output disk files open-files artifacts artifact-bytes
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) limit: Vec<String>,
    /// Artifact to collect, relative to the workspace; repeatable (`changes.patch` with --project)
    #[arg(long, value_name = "GLOB")]
    pub(crate) export: Vec<OsString>,
    /// Folder to copy the artifacts to as well
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// With --out: overwrite files that are there
    #[arg(long, requires = "out")]
    pub(crate) force: bool,
    /// Pass your standard input to the command; it is empty otherwise
    #[arg(long)]
    pub(crate) stdin: bool,
    /// Where to keep what the run writes: memory (it counts as memory) or disk; the profile must allow it [default: memory]
    #[arg(long, value_name = "memory or disk")]
    pub(crate) storage: Option<String>,
    /// State to begin with and to keep what is written in: the workspace and /tmp, for the next run that names it; the profile must allow it
    #[arg(long, value_name = "NAME", conflicts_with = "project")]
    pub(crate) state: Option<String>,
    /// How sensitive the work is, at least: public, internal, confidential or restricted; the operator may ask for a stronger tier by it
    #[arg(long, value_name = "LEVEL")]
    pub(crate) sensitivity: Option<String>,
    /// At least this tier: process, gvisor or microvm
    #[arg(long, value_name = "TIER")]
    pub(crate) tier: Option<String>,
    /// Print the report as JSON, the command's output inside it
    #[arg(long)]
    pub(crate) json: bool,
    /// Print what would be granted and how the sandbox would be made; run nothing
    #[arg(long)]
    pub(crate) explain: bool,
    /// The command
    #[arg(last = true, required_unless_present = "explain", value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// Runs, prints, copies.
pub(crate) fn run(context: &Context, arguments: RunArguments) -> Result<u8, Failure> {
    if let Some(server) = context.server()? {
        return finish(context, &elsewhere::run(context, &server, &arguments)?, arguments.json);
    }
    let home = context.home()?;
    let request = request::build(context, &home, &arguments)?;
    if let Some(folder) = &arguments.out {
        copy_out::check(folder, &request.exports, arguments.force)?;
    }
    let runner = context.runner(home.clone())?;
    runner.warnings().iter().for_each(|warning| complain(&format!("ringfence: {warning}")));
    if arguments.explain {
        return explain::run(&runner, &request, arguments.json);
    }
    let cancel = stop_requested_descriptor().map_err(|e| Failure::new(format!("watching signals: {e}"), ""))?;
    let (stdout, stderr) = (io::stdout(), io::stderr());
    let output = match arguments.json {
        true => OutputTo::Report,
        false => OutputTo::Streams { stdout: stdout.as_fd(), stderr: stderr.as_fd() },
    };
    let mut line = if arguments.json { progress::Line::beside_a_report(context.is_quiet) } else { progress::Line::new(context.is_quiet) };
    let attachments = Attachments { output, progress: &mut line, cancel: Some(cancel.as_fd()) };
    let mut report = runner.run(&request, attachments).map_err(|e| Failure::hinted(&e, e.hint()))?;
    drop(line);
    if let Some(folder) = &arguments.out {
        let artifacts = Artifacts::of(&home);
        let fetch = |digest: &Digest, to: &mut File| {
            let mut content = artifacts.open(digest).map_err(io::Error::other)?;
            io::copy(&mut content, to).map(drop)
        };
        copy_out::copy(&fetch, folder, arguments.force, &mut report)?;
    }
    finish(context, &report, arguments.json)
}

/// Prints a report: as JSON, or what a person should know of it.
pub(super) fn finish(context: &Context, report: &RunReport, is_json: bool) -> Result<u8, Failure> {
    if is_json {
        out::print_json(report)?;
    } else if let RunEnd::Refused { rule, layer, hint } = &report.end {
        complain(&out::harmless_lines(&format!("ringfence: {rule} (set by the {layer})\nhint: {hint}")));
    }
    if !is_json {
        tell_not_executed(&report.end);
    }
    if !context.is_quiet && !is_json {
        for refusal in &report.refusals {
            complain(&format!("ringfence: not exported: {}: {}", out::harmless(&refusal.path), out::harmless(&refusal.reason)));
        }
        for lock in &report.locks {
            if let Some(problem) = &lock.problem {
                complain(&format!("ringfence: no lock: {}", out::harmless(problem)));
            }
        }
        for refused in refused_packages(report) {
            complain(&format!("ringfence: package refused: {refused}"));
        }
        for refused in refused_on_the_network(report) {
            complain(&format!("ringfence: refused on the network: {refused}"));
        }
        complain(&out::harmless_lines(&closing_line(report)));
    }
    Ok(u8::try_from(report.exit_status).unwrap_or(out::REFUSED))
}

/// Says why a command could not be executed inside, if that is how it ended.
pub(super) fn tell_not_executed(end: &RunEnd) {
    if let RunEnd::Failed { step, cause } = end
        && step == "exec"
    {
        let cause = out::harmless(cause.as_deref().unwrap_or("no reason is known"));
        complain(&format!("ringfence: the command cannot be executed inside: {cause}"));
        complain(
            "hint: the sandbox sees its image (the host's /usr, if the profile names no other), /inputs and its workspace; name a program that is there",
        );
    }
}

/// Lines, each once, and not more than a screen can hold.
fn some_of(lines: impl Iterator<Item = String>, run: &str) -> Vec<String> {
    const NAMED: usize = 16;
    let mut named: Vec<String> = Vec::new();
    for line in lines {
        if !named.contains(&line) {
            named.push(line);
        }
    }
    if named.len() > NAMED {
        let more = named.len() - NAMED;
        named.truncate(NAMED);
        named.push(format!("{more} more; `ringfence evidence show {run}` names them"));
    }
    named
}

fn refused_packages(report: &RunReport) -> Vec<String> {
    let mut groups: BTreeMap<(&str, &str, &str), Vec<&PackageRefusalReport>> = BTreeMap::new();
    for refused in &report.refused_packages {
        groups.entry((&refused.ecosystem, &refused.name, &refused.rule)).or_default().push(refused);
    }
    let line = |((ecosystem, name, rule), refused): ((&str, &str, &str), Vec<&PackageRefusalReport>)| {
        let what = match refused.as_slice() {
            [one] if !one.file.is_empty() => format!(" ({})", one.file),
            [one] if !one.version.is_empty() => format!(" {}", one.version),
            [_] => String::new(),
            many => format!(" in {} versions or files", many.len()),
        };
        out::harmless(&format!("{ecosystem} {name}{what}: rule {rule}"))
    };
    some_of(groups.into_iter().map(line), &report.run)
}

fn refused_on_the_network(report: &RunReport) -> Vec<String> {
    let place = |decision: &NetworkReport| match decision.port {
        Some(port) => format!("{}:{port}", decision.host),
        None => decision.host.clone(),
    };
    let refused = report.network.iter().filter(|decision| !decision.allowed);
    // What was no request names no host.
    let line = |decision: &NetworkReport| match decision.host.is_empty() {
        true => decision.rule.clone(),
        false => format!("{}: {}", place(decision), decision.rule),
    };
    some_of(refused.map(|decision| out::harmless(&line(decision))), &report.run)
}

/// One line: the run, its end, artifacts and evidence.
fn closing_line(report: &RunReport) -> String {
    let mut parts = vec![format!("{} in {:.1} s", end_in_words(&report.end), report.usage.wall_ms as f64 / 1000.0)];
    if !report.limits_reached.is_empty() {
        parts.push(format!("limits reached: {}", report.limits_reached.join(", ")));
    }
    if report.output_truncated {
        parts.push("output was cut".into());
    }
    if !report.hidden.is_empty() {
        parts.push(format!("{} hidden", report.hidden.len()));
    }
    if !report.network.is_empty() {
        let allowed = report.network.iter().filter(|decision| decision.allowed).count();
        parts.push(format!("network: {allowed} allowed, {} refused", report.network.len() - allowed));
    }
    if !report.packages.is_empty() {
        parts.push(format!("{} package files", report.packages.len()));
    }
    if !report.artifacts.is_empty() {
        let named = report.artifacts.iter().take(8).map(|a| format!("{} ({})", out::harmless(&a.path), out::bytes(a.bytes)));
        let mut named: Vec<String> = named.collect();
        if report.artifacts.len() > named.len() {
            named.push(format!("{} more", report.artifacts.len() - named.len()));
        }
        parts.push(format!("artifacts: {}", named.join(", ")));
    }
    format!("ringfence: run {}: {}; evidence {}", report.run, parts.join("; "), report.evidence)
}

fn end_in_words(end: &RunEnd) -> String {
    match end {
        RunEnd::Exited { code } => format!("exited {code}"),
        RunEnd::Signaled { signal } => format!("ended by {signal}"),
        RunEnd::Limit { limit } => format!("ended by the {limit} limit"),
        RunEnd::Refused { .. } => "refused".into(),
        RunEnd::Closed { by } => format!("closed by {}", by.word()),
        RunEnd::Failed { step, cause: Some(cause) } => format!("failed at `{step}`: {cause}"),
        RunEnd::Failed { step, cause: None } => format!("failed at `{step}`"),
    }
}
