//! What persons are shown: exactly what will happen. Made from what was prepared and never from a stranger's own words, and harmless for a terminal.

use ringfence_isolation::OsText;
use ringfence_patch::{Edit, render};

use super::checks::CheckReport;
use super::document::{Asked, Content};
use super::scan::Scan;
use crate::words::command_in_words;

/// The preview as text.
pub(super) fn preview(asked: &Asked, base: &Content, result: &Content, scan: &Scan, checks: &[CheckReport], edits: &[Edit]) -> String {
    let what = &asked.what;
    let mut lines = vec![
        match &asked.undoes {
            Some(undone) => format!("takes back promotion {undone} on target {}", asked.target.name),
            None => format!("promotes {} to target {}", harmless(&what.path), asked.target.name),
        },
        format!("  promotion  {}", asked.promotion),
        format!("  artifact   {} ({}, {} bytes)", what.artifact, what.kind, what.bytes),
        format!(
            "  made by    run {} of agent {}, owned by {}, profile {}; it ended: {}",
            what.run, what.agent, what.owner, what.profile, what.end
        ),
        format!("  command    {}", harmless(&command_in_words(&what.command))),
        format!("  asked by   {} at {}", asked.requested_by, asked.requested_at),
        format!("  message    {}", harmless(&asked.message)),
        format!("  target     {}", place(asked)),
        format!("  from       {}", base.in_words()),
        format!("  to         {}", result.in_words()),
    ];
    match checks {
        [] => lines.push("  checks     none: the target names none".to_owned()),
        checks => lines.extend(checks.iter().map(check)),
    }
    if scan.changes_tests {
        lines.push("  tests      tests that are there are changed; the checks ran with those of the base".to_owned());
    }
    if !scan.new_tests.is_empty() {
        lines.push(format!("  new tests  the checks ran without them, with the tests of the base: {}", scan.new_tests.join(", ")));
    }
    if !scan.unseen.is_empty() {
        lines.push(format!("  unseen     no check saw these, whose names are those of secrets: {}", scan.unseen.join(", ")));
    }
    if !scan.protected.is_empty() {
        lines.push(format!("  protected  needs an approval of its own: {}", scan.protected.join(", ")));
    }
    format!("{}\n\n{}", lines.join("\n"), render(edits))
}

fn check(check: &CheckReport) -> String {
    let verdict = if check.has_passed { "passed" } else { "FAILED" };
    format!("  check      {verdict}: {} (run {})", harmless(&check.command), check.run)
}

fn place(asked: &Asked) -> String {
    match &asked.target.place {
        ringfence_policy::Place::Git { repository, branch } => format!("branch {branch} of {}", harmless(repository)),
        ringfence_policy::Place::Directory { folder } => format!("folder {}", harmless(folder)),
    }
}

fn harmless(text: &str) -> String {
    OsText::from(text).to_string()
}
