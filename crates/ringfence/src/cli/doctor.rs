//! `ringfence doctor`: what this host can enforce, what is missing, how to get it.

use std::collections::BTreeMap;
use std::path::Path;

use clap::Args;
use ringfence_egress::packages::{Operator, Upstreams};
use ringfence_isolation::{Finding, Host, examine};
use ringfence_policy::{Ecosystem, REFUSED_RANGES};

use super::Context;
use super::out::{self, Failure};

/// Arguments of `doctor`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  ringfence doctor --json\n\nExit status: 0 if runs work here, 1 if something that every run needs is missing."
)]
pub(crate) struct DoctorArguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(context: &Context, arguments: &DoctorArguments) -> Result<u8, Failure> {
    let host = Host::look();
    let mut findings = examine(&host);
    findings.push(home(context));
    findings.push(settings(context));
    findings.push(indexes(context));
    findings.push(git(context));
    let is_good = findings.iter().all(|f| f.is_good);
    if arguments.json {
        out::print_json(&findings)?;
    } else {
        let row = |f: &Finding| {
            vec![if f.is_good { "ok" } else { "MISSING" }.to_owned(), f.what.clone(), f.found.clone(), f.hint.clone().unwrap_or_default()]
        };
        out::print(&out::table(&["", "what", "found", "how to get it"], findings.iter().map(row).collect()))?;
        out::print(&addresses())?;
    }
    Ok(u8::from(!is_good))
}

fn home(context: &Context) -> Finding {
    let opened = context.home();
    Finding {
        what: "record".into(),
        is_good: opened.is_ok(),
        found: match &opened {
            Ok(home) => format!("kept in {}", home.root().display()),
            Err(_) => format!("cannot be kept in {}", context.config.home.display()),
        },
        hint: opened.err().map(|_| "set RINGFENCE_HOME to a folder that you can write to".into()),
    }
}

/// Where packages would come from: what the operator's own clients say. A run without packages needs none.
fn indexes(context: &Context) -> Finding {
    let operator = Operator { environment: &context.config.environment, root: Path::new("/") };
    let upstreams = Upstreams::read(&operator);
    let word = |ecosystem: Ecosystem| format!("{ecosystem} {}", if upstreams.of(ecosystem).is_ok() { "named" } else { "not named" });
    let hints: Vec<&str> = Ecosystem::ALL.iter().filter_map(|ecosystem| Some(upstreams.of(*ecosystem).err()?.hint())).collect();
    Finding {
        what: "package indexes".into(),
        is_good: true,
        found: Ecosystem::ALL.map(word).join(", "),
        hint: (!hints.is_empty()).then(|| hints.join("; ")),
    }
}

/// What a promotion to a branch needs. Without targets of that kind nobody misses it.
fn git(context: &Context) -> Finding {
    let path = context.config.environment.get("PATH").map(String::as_str).unwrap_or_default();
    let is_there = path.split(':').filter(|folder| !folder.is_empty()).any(|folder| Path::new(folder).join("git").is_file());
    Finding {
        what: "git".into(),
        is_good: true,
        found: if is_there { "found" } else { "not found: nothing can be promoted to a branch" }.into(),
        hint: (!is_there).then(|| "install git; it must be in PATH".into()),
    }
}

/// The list of addresses, a line for each reason.
fn addresses() -> String {
    let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (range, why) in REFUSED_RANGES {
        by_reason.entry(why).or_default().push(range);
    }
    let lines: String = by_reason.iter().map(|(why, ranges)| format!("  {} ({why})\n", ranges.join(", "))).collect();
    format!("\nNo name leads a run to these addresses, unless `private` under [ceiling.network] excepts them:\n{lines}")
}

fn settings(context: &Context) -> Finding {
    let read = context.home().and_then(|home| context.settings(&home));
    let is_good = read.is_ok();
    let found = if is_good { "read" } else { "cannot be read: see `ringfence run --explain -- true`" };
    Finding {
        what: "settings".into(),
        is_good,
        found: found.into(),
        hint: (!is_good).then(|| "correct ringfence.toml, or what --config names".into()),
    }
}
