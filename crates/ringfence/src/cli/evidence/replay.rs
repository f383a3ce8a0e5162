//! `ringfence evidence replay`: runs a run again and explains what differs.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::PathBuf;

use clap::Args;
use ringfence_control::{Attachments, OutputTo, Replay, ReplayError, ReplayRequest, find_profile};
use ringfence_isolation::stop_requested_descriptor;
use ringfence_store::RunId;

use crate::cli::out::{self, Failure};
use crate::cli::run::{input, known_secrets, variable};
use crate::cli::{Context, progress};

/// Arguments of `evidence replay`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  ringfence evidence replay 01kbdz9xk3v8p5r0q2n7m4t6w1 --input flights.csv.gz --input analyse.py\n\nA record holds no content: inputs, the project and values of variables are given again. Exit status: 0 all as it was;\n1 something differs, and why is said; 125 it cannot be repeated."
)]
pub(super) struct ReplayArguments {
    /// The run
    run: String,
    /// File or folder, under the name that it had; repeatable
    #[arg(long, value_name = "PATH[=NAME]")]
    input: Vec<OsString>,
    /// The project
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,
    /// Variable; repeatable
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<OsString>,
    /// The profile, where it is in a file of its own
    #[arg(long, value_name = "FILE")]
    profile: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Something differs.
const DIFFERENT: u8 = 1;

pub(super) fn run(context: &Context, arguments: &ReplayArguments) -> Result<u8, Failure> {
    let run: RunId = out::parsed(&arguments.run, "see `ringfence evidence ls`")?;
    let home = context.home()?;
    if !home.runs().join(run.as_str()).exists() {
        return Err(Failure::new(format!("there is no run `{run}` here"), "see `ringfence evidence ls`"));
    }
    let environment = arguments.env.iter().map(|text| variable(text)).collect::<Result<Vec<_>, _>>()?;
    let profile = arguments.profile.as_deref().map(|name| find_profile(&home, name).map_err(|e| Failure::hinted(&e, e.hint())));
    let request = ReplayRequest {
        inputs: arguments.input.iter().map(|text| input(text)).collect::<Result<_, _>>()?,
        project: arguments.project.clone(),
        known_secrets: known_secrets(context, &environment),
        environment,
        profile: profile.transpose()?,
        homes: context.config.homes(),
    };
    let runner = context.runner(home)?;
    let cancel = stop_requested_descriptor().map_err(|e| Failure::new(format!("signals: {e}"), ""))?;
    let mut line = progress::Line::new(context.is_quiet);
    let attachments = Attachments { output: OutputTo::Report, progress: &mut line, cancel: Some(cancel.as_fd()) };
    let replay = runner.replay(&run, &request, attachments).map_err(|e: ReplayError| Failure::hinted(&e, e.hint()))?;
    drop(line);
    if arguments.json {
        out::print_json(&replay)?;
    } else {
        out::print(&in_words(&replay))?;
    }
    Ok(if replay.is_same { 0 } else { DIFFERENT })
}

fn in_words(replay: &Replay) -> String {
    let verdict = if replay.is_same { "everything that was observed is as it was" } else { "not everything is as it was" };
    let mut lines = vec![format!("run {}, repeated as {}: {verdict}", replay.run, replay.runs.join(" and "))];
    for changed in &replay.surroundings {
        lines.push(format!("  around it: {}: {} then, {} now", out::harmless(&changed.what), changed.then, changed.now));
    }
    for difference in &replay.differences {
        let what = out::harmless(&difference.what);
        lines.push(format!("  {what}: {}: {}", difference.cause.word(), out::harmless(&difference.because)));
        lines.push(format!("    then {}\n    now  {}", out::harmless(&difference.then), out::harmless(&difference.now)));
    }
    lines.join("\n") + "\n"
}
