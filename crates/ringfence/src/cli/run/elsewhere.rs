//! `run --server`: the same request, written as the API has it, and its report. The run goes on although nobody waits for it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ringfence_control::{InputRequest, RunReport};
use ringfence_evidence::Digest;
use ringfence_isolation::{OsText, stop_requested_descriptor};
use ringfence_policy::ProfileName;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

use super::request::{Options, bad};
use super::{RunArguments, copy_out};
use crate::cli::Context;
use crate::cli::out::{self, Failure, complain};
use crate::remote::Server;

/// The most of an input or of standard input that is sent: what is larger, no server takes.
const MOST_SENT: u64 = 8 << 20;
/// How long the first look at a run waits, and at most each later one.
const LOOK_FIRST: Duration = Duration::from_millis(20);
const LOOK_LAST: Duration = Duration::from_millis(500);

/// The body of `POST /v1/runs`.
#[derive(Debug, Serialize)]
struct RunBody {
    command: Vec<String>,
    profile: ProfileName,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
    env: BTreeMap<String, String>,
    limits: BTreeMap<String, String>,
    allow: Vec<String>,
    exports: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tier: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    storage: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sensitivity: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stdin_base64: Option<String>,
    inputs: Vec<InputBody>,
}

#[derive(Debug, Serialize)]
struct InputBody {
    name: String,
    content_base64: String,
}

#[derive(Debug, Deserialize)]
struct Begun {
    run: String,
}

/// As much of `GET /v1/runs/{run}` as says whether it is over, and how it went.
#[derive(Debug, Deserialize)]
struct RunView {
    state: String,
    report: Option<Box<RawValue>>,
}

/// Asks, waits, fetches what left, and passes on what was printed.
pub(super) fn run(context: &Context, server: &Server, arguments: &RunArguments) -> Result<RunReport, Failure> {
    refuse_what_is_here(arguments)?;
    let options = Options::parse(arguments)?;
    if let Some(folder) = &arguments.out {
        copy_out::check(folder, &options.exports, arguments.force)?;
    }
    let body = body(arguments, options)?;
    let cancel = stop_requested_descriptor().map_err(|e| Failure::new(format!("watching signals: {e}"), ""))?;
    let begun: Begun = server.post(&["runs"], &body)?;
    let mut report = wait(server, &begun.run, cancel.as_fd())?;
    if let Some(folder) = &arguments.out {
        let fetch = |digest: &Digest, to: &mut File| server.artifact(digest, to).map_err(io::Error::other);
        copy_out::copy(&fetch, folder, arguments.force, &mut report)?;
    }
    if !arguments.json {
        pass_on(context, &report)?;
    }
    Ok(report)
}

/// What only this host has cannot be part of a run elsewhere.
fn refuse_what_is_here(arguments: &RunArguments) -> Result<(), Failure> {
    let is_here = [
        (arguments.explain, "--explain", "ask without --server, on the server's host, or see `ringfence matrix --server`"),
        (arguments.project.is_some(), "--project", "send files with --input, or make a session and fill it: `ringfence session put`"),
        (!arguments.reveal.is_empty(), "--reveal", "it is about a project; send the file with --input"),
    ];
    match is_here.into_iter().find(|(is_named, _, _)| *is_named) {
        Some((_, option, hint)) => Err(bad(option, &"a server cannot see folders of this host", hint)),
        None => Ok(()),
    }
}

fn body(arguments: &RunArguments, options: Options) -> Result<RunBody, Failure> {
    let profile =
        arguments.profile.parse().map_err(|e| bad("--profile", &e, "a server knows profiles by name: `ringfence profile ls --server`"))?;
    Ok(RunBody {
        command: options.command.iter().map(|word| text("COMMAND", word)).collect::<Result<_, _>>()?,
        profile,
        agent: options.agent.map(|agent| agent.to_string()),
        env: options
            .environment
            .iter()
            .map(|(name, value)| Ok((name.to_string(), text("--env", value)?)))
            .collect::<Result<_, Failure>>()?,
        limits: options.limits.iter().map(|(key, value)| (key.name().to_owned(), key.show(value))).collect(),
        allow: options.destinations.iter().map(ToString::to_string).collect(),
        exports: options.exports.iter().map(|glob| glob.as_str().to_owned()).collect(),
        tier: options.tier.map(|tier| tier.to_string()),
        storage: options.storage.map(|storage| storage.to_string()),
        sensitivity: options.sensitivity.map(|sensitivity| sensitivity.to_string()),
        state: options.state.map(|state| state.to_string()),
        stdin_base64: arguments.stdin.then(|| read("--stdin", &mut io::stdin().lock())).transpose()?,
        inputs: options.inputs.into_iter().map(input).collect::<Result<_, _>>()?,
    })
}

/// A word as JSON can hold it.
pub(in crate::cli) fn text(option: &str, word: &OsText) -> Result<String, Failure> {
    let hint = "a server takes text alone; pass other bytes as an input or by --stdin";
    word.as_os_str().to_str().map(str::to_owned).ok_or_else(|| bad(option, &format!("`{word}` is not UTF-8"), hint))
}

/// A file by its content. Links are followed, as the caller's own files are the caller's to send.
fn input(input: InputRequest) -> Result<InputBody, Failure> {
    let InputRequest { path, name } = input;
    let fail = |e: io::Error| bad("--input", &format!("`{}`: {e}", path.display()), "name a file that you can read");
    match path.metadata().map_err(fail)? {
        found if found.is_file() => {}
        _ => {
            return Err(bad(
                "--input",
                &format!("`{}` is no file, and a server cannot see this host", path.display()),
                "send each file by itself",
            ));
        }
    }
    let content_base64 = read("--input", &mut File::open(&path).map_err(fail)?)?;
    Ok(InputBody { name, content_base64 })
}

fn read(option: &str, from: &mut dyn Read) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    from.take(MOST_SENT + 1).read_to_end(&mut bytes).map_err(|e| bad(option, &e, "name something that can be read"))?;
    match bytes.len() as u64 <= MOST_SENT {
        true => Ok(STANDARD.encode(bytes)),
        false => {
            let hint = "make a session, and put the file into it: `ringfence session put`";
            Err(bad(option, &format!("it is larger than {}, which is the most that a server takes", out::bytes(MOST_SENT)), hint))
        }
    }
}

/// Waits until a run is over. Whoever asks this process to stop asks the run to stop; asked again, it waits no more.
fn wait(server: &Server, run: &str, cancel: BorrowedFd<'_>) -> Result<RunReport, Failure> {
    let (mut pause, mut is_asked) = (LOOK_FIRST, false);
    loop {
        if is_stopped(cancel, pause)? {
            if is_asked {
                let what = format!("run {run} was asked to stop, and nobody waits for its end any more");
                return Err(Failure::new(what, format!("`ringfence evidence show {run}` says how it ended, once it has")));
            }
            is_asked = true;
            server.tell(&["runs", run, "cancel"], &json!({}))?;
        }
        let view: RunView = server.get(&["runs", run])?;
        if view.state != "running" {
            let report = view.report.ok_or_else(|| {
                Failure::new(
                    format!("run {run} is over, and the server has no report of it"),
                    format!("see `ringfence evidence show {run}`"),
                )
            })?;
            return Ok(RunReport::from_json(report.get()).map_err(|e| server.not_understood(e))?);
        }
        pause = (pause * 2).min(LOOK_LAST);
    }
}

/// Waits so long, or until this process is asked to stop: whether it is.
fn is_stopped(cancel: BorrowedFd<'_>, pause: Duration) -> Result<bool, Failure> {
    let time = Timespec { tv_sec: 0, tv_nsec: i64::from(pause.subsec_nanos()) };
    match poll(&mut [PollFd::new(&cancel, PollFlags::IN)], Some(&time)) {
        Ok(ready) => Ok(ready > 0 && ringfence_isolation::stop_signal(cancel).is_some()),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(errno) => Err(Failure::new(format!("watching signals: {errno}"), "")),
    }
}

/// What the run has printed, and what a person should know.
fn pass_on(context: &Context, report: &RunReport) -> Result<(), Failure> {
    let bytes = |text: &Option<String>, encoded: &Option<String>| match (text, encoded) {
        (Some(text), _) => Ok(text.clone().into_bytes()),
        (None, Some(encoded)) => STANDARD.decode(encoded).map_err(|e| Failure::new(format!("the server's base 64 does not read: {e}"), "")),
        (None, None) => Ok(Vec::new()),
    };
    let (stdout, stderr) = (bytes(&report.stdout, &report.stdout_base64)?, bytes(&report.stderr, &report.stderr_base64)?);
    out::print_bytes(&stdout)?;
    // Whoever has closed standard error does not want to read it.
    io::stderr().lock().write_all(&stderr).unwrap_or_default();
    if !context.is_quiet {
        report.warnings.iter().for_each(|warning| complain(&format!("ringfence: {}", out::harmless(warning))));
    }
    Ok(())
}
