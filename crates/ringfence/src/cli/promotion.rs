//! `ringfence promotion`: list, show, withdraw, undo.

use clap::{Args, Subcommand};
use ringfence_control::PromotionReport;
use serde::Deserialize;

use super::Context;
use super::out::{self, Failure};
use super::promote::{attached, failure, finish, message};
use crate::remote::Server;

/// Arguments of `promotion`.
#[derive(Debug, Args)]
pub(crate) struct PromotionArguments {
    #[command(subcommand)]
    command: PromotionCommand,
}

#[derive(Debug, Subcommand)]
enum PromotionCommand {
    /// List promotions, the newest first
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show how a promotion stands, and its evidence
    #[command(after_help = "Example:\n  ringfence promotion show 01kbdz9xk3v8p5r0q2n7m4t6w1")]
    Show {
        /// The promotion
        promotion: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Withdraw a promotion that has not been started
    #[command(after_help = "Example:\n  ringfence promotion withdraw 01kbdz9xk3v8p5r0q2n7m4t6w1")]
    Withdraw {
        /// The promotion
        promotion: String,
    },
    /// Ask that a promotion is taken back: by one of its own, which is checked and approved like any other
    #[command(after_help = "Example:\n  ringfence promotion undo 01kbdz9xk3v8p5r0q2n7m4t6w1 --message 'Totals were right before'")]
    Undo {
        /// The promotion
        promotion: String,
        /// Why; it becomes the message of the commit
        #[arg(long, short, value_name = "TEXT")]
        message: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(context: &Context, arguments: &PromotionArguments) -> Result<u8, Failure> {
    if let Some(server) = context.server()? {
        return elsewhere(context, &server, &arguments.command).map(|()| 0);
    }
    let runner = context.runner(context.home()?)?;
    runner.settle_promotions().map_err(|e| failure(&e))?;
    match &arguments.command {
        PromotionCommand::Ls { json } => list(&runner.promotions().map_err(|e| failure(&e))?, *json)?,
        PromotionCommand::Show { promotion, json } => show(&runner.promotion(promotion).map_err(|e| failure(&e))?, *json)?,
        PromotionCommand::Withdraw { promotion } => {
            finish(&runner.withdraw(promotion).map_err(|e| failure(&e))?, false)?;
        }
        PromotionCommand::Undo { promotion, message: why, json } => {
            let why = why.as_deref().map(message).transpose()?;
            let report = attached(context, *json, |attachments| runner.undo(promotion, why, attachments))?;
            return finish(&report, *json);
        }
    }
    Ok(0)
}

#[derive(Debug, Deserialize)]
struct PromotionList {
    promotions: Vec<PromotionReport>,
}

/// The promotions of a server, as far as they are the tenant's.
pub(super) fn listed(server: &Server) -> Result<Vec<PromotionReport>, Failure> {
    Ok(server.get::<PromotionList>(&["promotions"])?.promotions)
}

fn elsewhere(context: &Context, server: &Server, command: &PromotionCommand) -> Result<(), Failure> {
    match command {
        PromotionCommand::Ls { json } => list(&listed(server)?, *json),
        PromotionCommand::Show { promotion, json } => show(&server.get(&["promotions", promotion])?, *json),
        PromotionCommand::Withdraw { .. } => context.alone("promotion withdraw"),
        PromotionCommand::Undo { .. } => context.alone("promotion undo"),
    }
}

fn list(reports: &[PromotionReport], is_json: bool) -> Result<(), Failure> {
    if is_json {
        return out::print_json(&reports);
    }
    let row = |report: &PromotionReport| {
        let what = if report.undoes.is_some() { format!("undo of {}", out::harmless(&report.path)) } else { out::harmless(&report.path) };
        vec![report.promotion.clone(), report.asked_at.clone(), what, report.target.clone(), report.state.clone()]
    };
    out::print(&out::table(&["promotion", "asked", "artifact", "target", "state"], reports.iter().map(row).collect()))
}

fn show(report: &PromotionReport, is_json: bool) -> Result<(), Failure> {
    if is_json {
        return out::print_json(report);
    }
    let mut lines = vec![
        format!("promotion {}: {}", report.promotion, report.state),
        format!("  artifact  {} ({})", out::harmless(&report.path), report.artifact),
        format!("  made by   run {}", report.run),
        format!("  target    {}", report.target),
        format!("  asked     {}; last changed {}", report.asked_at, report.changed_at),
    ];
    let optional = [
        ("cause", (!report.cause.is_empty()).then(|| out::harmless(&report.cause))),
        ("from", report.base.as_ref().map(|base| base.in_words())),
        ("to", report.result.as_ref().map(|result| result.in_words())),
        ("undoes", report.undoes.clone()),
        ("undone by", report.undone_by.clone()),
    ];
    lines.extend(optional.into_iter().filter_map(|(name, value)| Some(format!("  {name:<9} {}", value?))));
    for approval in &report.approvals {
        let agreed = if approval.agreed.is_empty() { "nobody yet".to_owned() } else { approval.agreed.join(", ") };
        let paths = if approval.paths.is_empty() { String::new() } else { format!(" for protected paths ({})", approval.paths.join(", ")) };
        lines.push(format!("  approval  {}: {}; needs {}{paths}; agreed: {agreed}", approval.approval, approval.state, approval.needs));
    }
    if report.state == "checking" {
        lines.push("  asking again with `ringfence promote` goes on; `ringfence promotion withdraw` ends it".to_owned());
    }
    lines.push(format!("  evidence  {}", report.evidence));
    if report.state == "applied" && report.undone_by.is_none() {
        lines.push(format!("  take back: ringfence promotion undo {}", report.promotion));
    }
    out::print(&out::harmless_lines(&(lines.join("\n") + "\n")))
}
