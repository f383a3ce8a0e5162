//! `ringfence promote`: asks that an artifact takes effect, and goes on as far as it can.

use std::os::fd::AsFd;

use clap::Args;
use ringfence_control::{Attachments, OutputTo, PromotionError, PromotionReport, PromotionRequest, Runner};
use ringfence_evidence::Digest;
use ringfence_isolation::stop_requested_descriptor;
use ringfence_policy::TargetName;
use ringfence_store::{Index, RunId, now};

use serde::Serialize;

use super::out::{self, Failure, parsed};
use super::{Context, progress, promotion};
use crate::remote::Server;

/// Arguments of `promote`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  ringfence promote 01kbdz9xk3v8p5r0q2n7m4t6w1/changes.patch --to main --message 'Fix the rounding of totals'\n\nExit status: 0 it took effect, or waits for approval; 1 it ended otherwise (refused, failed, denied, expired, stale);\n125 it could not be begun. Asked again it goes on where it stands; nothing is done twice."
)]
pub(crate) struct PromoteArguments {
    /// The artifact: its digest, or RUN/PATH
    #[arg(value_name = "DIGEST")]
    artifact: String,
    /// Target, as `ringfence.toml` names it
    #[arg(long, value_name = "TARGET")]
    to: String,
    /// Why; it becomes the message of the commit
    #[arg(long, short, value_name = "TEXT")]
    message: Option<String>,
    /// Ask anew although the same took effect before
    #[arg(long)]
    again: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// It ended, and not by taking effect.
pub(super) const OTHERWISE: u8 = 1;

pub(crate) fn run(context: &Context, arguments: &PromoteArguments) -> Result<u8, Failure> {
    if let Some(server) = context.server()? {
        return elsewhere(&server, arguments);
    }
    let home = context.home()?;
    let (artifact, made) = artifact(&mut Index::open(&home).map_err(|e| Failure::hinted(&e, e.hint()))?, &arguments.artifact)?;
    let target: TargetName = parsed(&arguments.to, "targets are named in ringfence.toml, such as [targets.main]")?;
    let message = arguments.message.as_deref().map(message).transpose()?;
    let runner = context.runner(home)?;
    runner.settle_promotions().map_err(|e| failure(&e))?;
    let request = PromotionRequest { artifact, made, target, message, is_again: arguments.again };
    let begun = now();
    let report = attached(context, arguments.json, |attachments| runner.promote(&request, attachments))?;
    tell_applied_before(&report, report.changed_at < begun, arguments.json)?;
    finish(&report, arguments.json)
}

/// Asks a server. What took effect before is known by having been there, as its clock may be another one.
fn elsewhere(server: &Server, arguments: &PromoteArguments) -> Result<u8, Failure> {
    let (artifact, made) = super::artifact::find_elsewhere(server, &arguments.artifact)?;
    let target: TargetName = parsed(&arguments.to, "as the operator of the server names it; see `ringfence matrix --server`")?;
    let message = arguments.message.as_deref().map(message).transpose()?;
    let (run, path) = made.unzip();
    let body = PromotionBody { artifact, run, path, target, message, again: arguments.again };
    let before = promotion::listed(server)?;
    let report: PromotionReport = server.post(&["promotions"], &body)?;
    let was_applied = before.iter().any(|earlier| earlier.promotion == report.promotion && earlier.state == "applied");
    tell_applied_before(&report, was_applied, arguments.json)?;
    finish(&report, arguments.json)
}

/// The body of `POST /v1/promotions`.
#[derive(Debug, Serialize)]
struct PromotionBody {
    artifact: Digest,
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    target: TargetName,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    again: bool,
}

fn tell_applied_before(report: &PromotionReport, is_before: bool, is_json: bool) -> Result<(), Failure> {
    if report.state != "applied" || !is_before || is_json {
        return Ok(());
    }
    let when = out::harmless(&report.changed_at);
    out::print(&format!("it took effect before, at {when}, and nothing was done now; `--again` asks anew\n"))
}

/// The words of a person, which become those of a commit.
pub(super) fn message(text: &str) -> Result<String, Failure> {
    let is_plain = |c: char| !c.is_control() || c == '\n' || c == '\t';
    match text.trim().is_empty() || text.len() > 8192 || !text.chars().all(is_plain) {
        true => {
            Err(Failure::new("--message: must be text of at most 8192 bytes, without control characters", "such as -m 'Fix the totals'"))
        }
        false => Ok(text.to_owned()),
    }
}

/// `sha256:…`, or `RUN/PATH`.
pub(super) fn artifact(index: &mut Index, text: &str) -> Result<(Digest, Option<(RunId, String)>), Failure> {
    let Some((run, path)) = text.split_once('/') else {
        return Ok((parsed(text, "write a digest, or RUN/PATH; see `ringfence artifact ls`")?, None));
    };
    let run: RunId = parsed(run, "write a digest, or RUN/PATH; see `ringfence artifact ls`")?;
    let made = index.artifacts(Some(run.as_str())).map_err(|e| Failure::hinted(&e, e.hint()))?;
    let found = made.into_iter().find(|made| made.path == path);
    let missing =
        || Failure::new(format!("run {run} has no artifact `{}`", out::harmless(path)), format!("see `ringfence artifact ls {run}`"));
    let digest = parsed(&found.ok_or_else(missing)?.sha256, "")?;
    Ok((digest, Some((run, path.to_owned()))))
}

/// With checks shown as they run, and an end when the person asks for one.
pub(super) fn attached(
    context: &Context,
    is_json: bool,
    act: impl FnOnce(Attachments<'_>) -> Result<PromotionReport, PromotionError>,
) -> Result<PromotionReport, Failure> {
    let cancel = stop_requested_descriptor().map_err(|e| Failure::new(format!("signals: {e}"), ""))?;
    let mut line = if is_json { progress::Line::beside_a_report(context.is_quiet) } else { progress::Line::new(context.is_quiet) };
    let attachments = Attachments { output: OutputTo::Report, progress: &mut line, cancel: Some(cancel.as_fd()) };
    act(attachments).map_err(|e| failure(&e))
}

pub(super) fn failure(error: &PromotionError) -> Failure {
    Failure::hinted(error, error.hint())
}

/// Moves a promotion on after a decision, and says how it stands then.
pub(super) fn go_on(runner: &Runner, id: &str, is_json: bool) -> Result<u8, Failure> {
    let report = runner.resume(id).map_err(|e| failure(&e))?;
    finish(&report, is_json)
}

/// Says how it stands, and what would move it on.
pub(super) fn finish(report: &PromotionReport, is_json: bool) -> Result<u8, Failure> {
    if is_json {
        out::print_json(report)?;
    } else {
        out::print(&out::harmless_lines(&in_words(report)))?;
    }
    Ok(match report.state.as_str() {
        "applied" | "checking" | "waiting" | "applying" => 0,
        _ => OTHERWISE,
    })
}

fn in_words(report: &PromotionReport) -> String {
    let PromotionReport { promotion, state, cause, target, .. } = report;
    let what = if report.undoes.is_some() { "undo of " } else { "" };
    let mut text = format!("promotion {promotion}, {what}{} to {target}: {state}", out::harmless(&report.path));
    if !cause.is_empty() {
        text.push_str(&format!(": {}", out::harmless(cause)));
    }
    text.push('\n');
    if let (true, Some(result)) = (state == "applied", &report.result) {
        text.push_str(&format!("  the target was given {}\n", result.in_words()));
    }
    for approval in report.approvals.iter().filter(|approval| approval.state == "pending" && state == "waiting") {
        let agreed = if approval.agreed.is_empty() { String::new() } else { format!("; agreed: {}", approval.agreed.join(", ")) };
        let paths = if approval.paths.is_empty() { String::new() } else { format!(" for protected paths ({})", approval.paths.join(", ")) };
        let able = if approval.able == 0 { "; nobody who is registered can decide: see `ringfence person`" } else { "" };
        text.push_str(&format!("  needs {}{paths} until {}{agreed}{able}\n", approval.needs, approval.decide_by));
        text.push_str(&format!(
            "  see it:  ringfence approval show {0}\n  decide:  ringfence approval approve {0} --as PERSON\n",
            approval.approval
        ));
    }
    text.push_str(&format!("  evidence: {}\n", report.evidence));
    text
}
