//! Standing grants on the command line.

use clap::Args;
use ringfence_control::{Approvals, NewGrant, moment_in_words};
use ringfence_policy::{ArtifactKind, TargetName};
use ringfence_store::Home;

use super::{Who, failure};
use crate::cli::Context;
use crate::cli::out::{self, Failure, parsed};

/// Arguments of `approval grant`.
#[derive(Debug, Args)]
pub(super) struct GrantArguments {
    /// Target
    #[arg(long, value_name = "TARGET")]
    to: String,
    /// Agent
    #[arg(long, value_name = "ID")]
    agent: String,
    /// Kind of artifact
    #[arg(long, value_name = "KIND")]
    kind: String,
    /// How often it can be used, at most 100
    #[arg(long, value_name = "N", default_value_t = 1)]
    uses: u32,
    /// How long it lives, such as `12h` or `7d`, at most 90 days
    #[arg(long = "for", value_name = "TIME")]
    life: String,
    /// The longest artifact, such as `100KiB`
    #[arg(long, value_name = "SIZE", default_value = "1MiB")]
    max_bytes: String,
    #[command(flatten)]
    who: Who,
}

pub(super) fn give(context: &Context, home: &Home, approvals: &mut Approvals, arguments: &GrantArguments) -> Result<(), Failure> {
    let name: TargetName = parsed(&arguments.to, "targets are named in ringfence.toml")?;
    let settings = context.settings(home)?;
    let target = settings.targets.get(&name);
    let target = target.ok_or_else(|| Failure::new(format!("there is no target `{name}`"), "see [targets] in ringfence.toml"))?;
    let agent = ringfence_control::active_version(home, &arguments.agent).map_err(|e| Failure::hinted(&e, e.hint()))?;
    let kind: ArtifactKind = parsed(&arguments.kind, "such as --kind report")?;
    let new = NewGrant {
        agent: arguments.agent.clone(),
        agent_version: agent,
        kind,
        most_bytes: bytes(&arguments.max_bytes)?,
        uses: arguments.uses,
        life_ms: time(&arguments.life)?,
    };
    let (person, key) = arguments.who.read(context, home)?;
    let id = approvals.give(&new, target, settings.digest, &person, &key).map_err(|e| failure(&e))?;
    out::print(&format!(
        "standing grant {id}: {} agrees ahead, {} times; withdraw it with `ringfence approval withdraw {id}`\n",
        person.name, new.uses
    ))
}

fn time(text: &str) -> Result<i64, Failure> {
    let millis = ringfence_policy::LimitKey::Wall.parse_value(text).ok();
    let days = text.strip_suffix('d').and_then(|days| days.parse::<u64>().ok()).and_then(|days| days.checked_mul(24 * 3_600_000));
    let millis = days.or(millis).and_then(|millis| i64::try_from(millis).ok());
    millis.ok_or_else(|| Failure::new(format!("--for: `{}` is not a time", text.escape_debug()), "such as --for 12h or --for 7d"))
}

fn bytes(text: &str) -> Result<u64, Failure> {
    let read = ringfence_policy::LimitKey::ArtifactBytes.parse_value(text);
    read.map_err(|_| Failure::new(format!("--max-bytes: `{}` is not a size", text.escape_debug()), "such as --max-bytes 100KiB"))
}

pub(super) fn list(approvals: &mut Approvals, is_json: bool) -> Result<(), Failure> {
    let rows = approvals.standing().map_err(|e| failure(&e))?;
    if is_json {
        let value = |row: &ringfence_store::StandingRow| {
            let covers: serde_json::Value = serde_json::from_str(&row.covers).unwrap_or_default();
            serde_json::json!({ "grant": row.id, "person": row.person, "covers": covers, "uses_left": row.uses, "is_usable": row.is_usable })
        };
        return out::print_json(&rows.iter().map(value).collect::<Vec<_>>());
    }
    let row = |row: ringfence_store::StandingRow| {
        let covers: serde_json::Value = serde_json::from_str(&row.covers).unwrap_or_default();
        let word = |name: &str| covers[name].as_str().unwrap_or_default().to_owned();
        let state = if row.is_usable { "usable" } else { "over" };
        let what = format!("{} of {} to {}", word("kind"), word("agent"), word("target"));
        vec![row.id, row.person, what, row.uses.to_string(), moment_in_words(row.until), state.to_owned()]
    };
    out::print(&out::table(&["grant", "person", "covers", "uses left", "until", "state"], rows.into_iter().map(row).collect()))
}
