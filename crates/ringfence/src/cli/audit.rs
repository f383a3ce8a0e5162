//! `ringfence audit`: eight questions about a profile, answered by measuring from inside.

use std::os::fd::AsFd;

use clap::{Args, ValueEnum};
use ringfence_control::{Answer, Audit, AuditError, AuditRequest, Item, find_profile};
use ringfence_isolation::stop_requested_descriptor;
use ringfence_policy::{Profile, shipped};

use super::out::{self, Failure, complain};
use super::{Context, matrix};
use crate::remote::Server;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Md,
    Json,
}

/// Arguments of `audit`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  ringfence audit --profile data-analysis --format md > audit.md\n\nExit status: 0 if everything measured is as declared; 1 if something is not, each named on standard error; 125 if the\nprofile cannot run here, or nothing could be measured."
)]
pub(crate) struct AuditArguments {
    /// Class of work: the name of a profile, or a file
    #[arg(long, value_name = "NAME or FILE", default_value = "data-analysis")]
    profile: String,
    /// How to print it
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

pub(crate) fn run(context: &Context, arguments: &AuditArguments) -> Result<u8, Failure> {
    let audit = match context.server()? {
        Some(server) => elsewhere(&server, &arguments.profile)?,
        None => own(context, arguments)?,
    };
    match arguments.format {
        Format::Table => out::print(&out::harmless_lines(&table(&audit)))?,
        Format::Md => out::print(&out::harmless_lines(&markdown(&audit)))?,
        Format::Json => out::print_json(&audit)?,
    }
    differences(&audit).iter().for_each(|line| complain(&out::harmless_lines(line)));
    if !context.is_quiet {
        complain(&out::harmless_lines(&closing_line(&audit)));
    }
    Ok(u8::from(audit.differences > 0))
}

/// An audit of a server's sandboxes, which the server makes.
fn elsewhere(server: &Server, profile: &str) -> Result<Audit, Failure> {
    Ok(server.post(&["audit"], &serde_json::json!({ "profile": profile }))?)
}

fn own(context: &Context, arguments: &AuditArguments) -> Result<Audit, Failure> {
    let home = context.home()?;
    let profile = find_profile(&home, &arguments.profile).map_err(|e| Failure::hinted(&e, e.hint()))?;
    let runner = context.runner(home)?;
    runner.warnings().iter().for_each(|warning| complain(&format!("ringfence: {warning}")));
    let cancel = stop_requested_descriptor().map_err(|e| Failure::new(format!("watching signals: {e}"), ""))?;
    let (known_secrets, homes) = (context.config.known_secrets.clone(), context.config.homes());
    let request = AuditRequest { profile, known_secrets, homes, tenant: None };
    runner.audit(&request, Some(cancel.as_fd())).map_err(failure)
}

/// Where a profile cannot run there is nothing to measure: which ones can is said.
fn failure(error: AuditError) -> Failure {
    let hint = match &error {
        AuditError::Refused { hint, .. } => format!("{hint}; of the shipped profiles these run here: {}", able().join(", ")),
        AuditError::Run(_) | AuditError::Promotion(_) | AuditError::Bait { .. } | AuditError::Blind(_) | AuditError::Silent { .. } => {
            error.hint()
        }
    };
    Failure::new(error, hint)
}

fn able() -> Vec<&'static str> {
    let runs = |text: &str| Profile::parse("shipped", text).is_ok_and(|profile| matrix::missing(&profile).is_none());
    shipped().iter().filter(|shipped| runs(shipped.text)).map(|shipped| shipped.name).collect()
}

/// One line for each thing that is not as declared.
fn differences(audit: &Audit) -> Vec<String> {
    let line = |answer: &Answer, item: &Item| {
        format!("ringfence: {}. {}: declared {}, measured {}", answer.number, item.capability, item.declared, out::harmless(&item.measured))
    };
    let of = |answer: &Answer| answer.items.iter().filter(|item| !item.is_as_declared).map(|item| line(answer, item)).collect::<Vec<_>>();
    audit.answers.iter().flat_map(of).collect()
}

fn closing_line(audit: &Audit) -> String {
    let found = match audit.differences {
        0 => "everything measured is as declared".to_owned(),
        1 => "1 difference".to_owned(),
        count => format!("{count} differences"),
    };
    let unmeasured = match audit.answers.iter().flat_map(|answer| &answer.items).filter(|item| !item.is_measured).count() {
        0 => String::new(),
        count => format!(", {count} not measured"),
    };
    let runs = audit.runs.len();
    let image = if audit.image.starts_with("host,") { String::new() } else { format!(" in image {}", audit.image) };
    format!(
        "ringfence: audit of {}{image}: {found}{unmeasured}; {runs} runs of the probe on record, the first {}",
        audit.profile,
        audit.runs.first().map_or("none", String::as_str)
    )
}

fn mark(item: &Item) -> &'static str {
    match (item.is_as_declared, item.is_measured) {
        (false, _) => "DIFFERS",
        (true, true) => "ok",
        (true, false) => "not measured",
    }
}

fn table(audit: &Audit) -> String {
    let block = |answer: &Answer| {
        let row = |item: &Item| vec![mark(item).to_owned(), item.capability.clone(), item.declared.clone(), out::harmless(&item.measured)];
        let rows = answer.items.iter().map(row).collect();
        format!("{}. {}\n{}", answer.number, answer.question, out::table(&["", "what", "declared", "measured"], rows))
    };
    audit.answers.iter().map(block).collect::<Vec<_>>().join("\n")
}

fn markdown(audit: &Audit) -> String {
    let cell = |text: &str| out::harmless(text).replace('|', "\\|");
    let line =
        |item: &Item| format!("| {} | {} | {} | {} |\n", mark(item), cell(&item.capability), cell(&item.declared), cell(&item.measured));
    let block = |answer: &Answer| {
        let lines: String = answer.items.iter().map(line).collect();
        format!("\n## {}. {}\n\n|  | what | declared | measured |\n| --- | --- | --- | --- |\n{lines}", answer.number, answer.question)
    };
    let blocks: String = audit.answers.iter().map(block).collect();
    format!(
        "# Audit of profile {}\n\nTier {}, image {}, Linux {}, as {} user; {} differences.\n{blocks}",
        audit.profile, audit.tier, audit.image, audit.kernel, audit.user, audit.differences
    )
}
