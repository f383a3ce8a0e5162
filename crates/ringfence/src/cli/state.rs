//! `ringfence state`: ls, rm, sweep. A state is what runs of one name find and leave: their workspace and `/tmp`.

use std::time::Duration;

use clap::{Args, Subcommand};
use ringfence_policy::{MinimumAge, StateName, TenantName};
use ringfence_store::{StateId, StateKind, StateRow, States, StoreError, Viewer};

use serde::{Deserialize, Serialize};

use super::Context;
use super::out::{self, Failure, parsed};
use crate::remote::Server;

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
    if let Some(server) = context.server()? {
        return elsewhere(context, &server, &arguments.command).map(|()| 0);
    }
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
    print_list(rows.into_iter().map(Listed::of).collect())
}

/// A state in a list, as a server has it too.
#[derive(Debug, Serialize, Deserialize)]
struct Listed {
    state: String,
    kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    agent: String,
    profile: String,
    run: String,
    created_at: String,
    used_at: String,
    bytes: u64,
    sha256: String,
}

#[derive(Debug, Deserialize)]
struct StateList {
    states: Vec<Listed>,
}

impl Listed {
    fn of(row: StateRow) -> Self {
        Self {
            state: row.id.to_string(),
            kind: kind_word(row.said.kind).to_owned(),
            name: row.said.name,
            tenant: row.said.tenant,
            agent: row.said.agent,
            profile: row.said.profile,
            run: row.said.run,
            created_at: row.created_at,
            used_at: row.used_at,
            bytes: row.bytes,
            sha256: row.sha256.to_string(),
        }
    }
}

fn print_list(states: Vec<Listed>) -> Result<(), Failure> {
    let cells = |row: Listed| {
        let (name, tenant) = (row.name.unwrap_or_default(), row.tenant.unwrap_or_default());
        let mut cells: Vec<String> = [row.state, row.kind, name, tenant, row.agent].iter().map(|text| out::harmless(text)).collect();
        cells.extend([out::bytes(row.bytes), out::harmless(&row.created_at), out::harmless(&row.used_at)]);
        cells
    };
    let header = ["state", "kind", "name", "tenant", "agent", "size", "saved", "used"];
    out::print(&out::table(&header, states.into_iter().map(cells).collect()))
}

/// The states of a server are those of the key's tenant.
fn elsewhere(context: &Context, server: &Server, command: &StateCommand) -> Result<(), Failure> {
    match command {
        StateCommand::Ls { tenant: Some(_), .. } | StateCommand::Rm { tenant: Some(_), .. } => {
            Err(Failure::new("--tenant: of a server the tenant is the one whose key is used", "leave --tenant out"))
        }
        StateCommand::Ls { json, .. } => {
            let list: StateList = server.get(&["states"])?;
            if *json { out::print_json(&list.states) } else { print_list(list.states) }
        }
        StateCommand::Rm { name, .. } => {
            let list: StateList = server.get(&["states"])?;
            let named = list.states.iter().rev().find(|state| state.name.as_ref() == Some(name));
            let found = named.or_else(|| list.states.iter().find(|state| state.state == *name)).ok_or_else(|| no_state(name))?;
            server.remove(&["states", &found.state])?;
            tell_gone(name, found.bytes, &found.run)
        }
        StateCommand::Sweep { .. } => context.alone("state sweep"),
    }
}

fn no_state(name: &str) -> Failure {
    Failure::new(format!("there is no state `{}` here", out::harmless(name)), "see `ringfence state ls`")
}

fn tell_gone(name: &str, bytes: u64, run: &str) -> Result<(), Failure> {
    let (name, run) = (out::harmless(name), out::harmless(run));
    out::print(&format!("state `{name}` is gone: {} that run {run} left\n", out::bytes(bytes)))
}

fn remove(states: &States, name: &str, tenant: Option<&str>) -> Result<(), Failure> {
    let viewer = viewer(tenant)?;
    let plain: StateName = parsed(name, "see `ringfence state ls`")?;
    let named = states.named(tenant, plain.as_str()).map_err(failure)?;
    let found = match (named, name.parse::<StateId>()) {
        (None, Ok(id)) => states.get(&id, &viewer).map_err(failure)?,
        (named, _) => named,
    };
    let state = found.ok_or_else(|| no_state(plain.as_str()))?;
    match states.remove_unless_used(&state).map_err(failure)? {
        true => tell_gone(plain.as_str(), state.bytes, &state.said.run),
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
