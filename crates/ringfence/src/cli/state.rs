//! `ringfence state`: ls, rm, sweep. A state is what runs of one name find and leave: their workspace and `/tmp`.

use std::time::Duration;

use clap::{Args, Subcommand};
use ringfence_policy::{MinimumAge, StateName, TenantName};
use ringfence_store::{StateId, StateKind, StateRow, States, StoreError, Viewer};

use super::Context;
use super::out::{self, Failure, parsed};

/// Arguments of `state`.
#[derive(Debug, Args)]
pub(crate) struct StateArguments {
    #[command(subcommand)]
    command: StateCommand,
}

#[derive(Debug, Subcommand)]
enum StateCommand {
    /// List states: named ones, snapshots and paused sessions
    #[command(after_help = "Example:\n  ringfence state ls --json")]
    Ls {
        /// Those of this tenant of a server, and not of the command line
        #[arg(long, value_name = "NAME")]
        tenant: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove a state; the next run of its name begins empty
    #[command(after_help = "Example:\n  ringfence state rm notes")]
    Rm {
        /// Its name, or the id of one that has none
        name: String,
        /// It is this tenant's
        #[arg(long, value_name = "NAME")]
        tenant: Option<String>,
    },
    /// Remove states that no run has begun with for long
    #[command(after_help = "Example:\n  ringfence state sweep --older-than 30d")]
    Sweep {
        /// How long, such as 30d or 12h
        #[arg(long, value_name = "TIME")]
        older_than: String,
        /// Those of this tenant of a server, and not of the command line
        #[arg(long, value_name = "NAME")]
        tenant: Option<String>,
    },
}

pub(crate) fn run(context: &Context, arguments: &StateArguments) -> Result<u8, Failure> {
    let states = States::of(&context.home()?);
    match &arguments.command {
        StateCommand::Ls { tenant, json } => list(&states, &viewer(tenant.as_deref())?, *json)?,
        StateCommand::Rm { name, tenant } => remove(&states, name, tenant.as_deref())?,
        StateCommand::Sweep { older_than, tenant } => sweep(&states, older_than, &viewer(tenant.as_deref())?)?,
    }
    Ok(0)
}

/// The command line sees what is no tenant's, and what the first tenant has.
fn viewer(tenant: Option<&str>) -> Result<Viewer, Failure> {
    let first = TenantName::first();
    let tenant = tenant.map_or(Ok(first.clone()), |name| parsed(name, "see `ringfence tenant ls`"))?;
    Ok(Viewer { tenant: tenant.to_string(), sees_the_command_line: tenant.is_first() })
}

fn list(states: &States, viewer: &Viewer, is_json: bool) -> Result<(), Failure> {
    let rows = states.list(viewer).map_err(failure)?;
    if is_json {
        return out::print_json(&rows);
    }
    let cells = |row: StateRow| {
        let name = row.said.name.unwrap_or_default();
        let kind = kind_word(row.said.kind).to_owned();
        let tenant = row.said.tenant.unwrap_or_default();
        vec![row.id.to_string(), kind, name, tenant, row.said.agent, out::bytes(row.bytes), row.created_at, row.used_at]
    };
    let header = ["state", "kind", "name", "tenant", "agent", "size", "saved", "used"];
    out::print(&out::table(&header, rows.into_iter().map(cells).collect()))
}

fn remove(states: &States, name: &str, tenant: Option<&str>) -> Result<(), Failure> {
    let viewer = viewer(tenant)?;
    let plain: StateName = parsed(name, "see `ringfence state ls`")?;
    let named = states.named(tenant, plain.as_str()).map_err(failure)?;
    let found = match (named, name.parse::<StateId>()) {
        (None, Ok(id)) => states.get(&id, &viewer).map_err(failure)?,
        (named, _) => named,
    };
    let state = found.ok_or_else(|| Failure::new(format!("there is no state `{plain}` here"), "see `ringfence state ls`"))?;
    match states.remove_unless_used(&state).map_err(failure)? {
        true => out::print(&format!("state `{plain}` is gone: {} that run {} left\n", out::bytes(state.bytes), state.said.run)),
        false => Err(Failure::new(format!("state `{plain}` is in use by a run"), "wait until that run has ended, or end it")),
    }
}

fn sweep(states: &States, older_than: &str, viewer: &Viewer) -> Result<(), Failure> {
    let age: MinimumAge = older_than
        .parse()
        .map_err(|_| Failure::new(format!("--older-than: `{}` is no time", older_than.escape_debug()), "such as --older-than 30d"))?;
    let removed = states.remove_unused(viewer, Duration::from_millis(age.as_millis())).map_err(failure)?;
    let bytes = removed.iter().map(|state| state.bytes).sum();
    let names = removed.iter().map(|state| state.said.name.clone().unwrap_or_else(|| state.id.to_string()));
    let listed = names.map(|name| format!("  {name}\n")).collect::<String>();
    out::print(&format!("{} states removed, {}\n{listed}", removed.len(), out::bytes(bytes)))
}

fn kind_word(kind: StateKind) -> &'static str {
    match kind {
        StateKind::Named => "named",
        StateKind::Snapshot => "snapshot",
        StateKind::Paused => "paused",
    }
}

fn failure(error: StoreError) -> Failure {
    Failure::hinted(&error, error.hint())
}
