//! `ringfence tenant`: add, ls. A tenant is who asks a server: it has keys and agents, and sees what its own runs did.

use clap::{Args, Subcommand};
use ringfence_control::Agents;
use ringfence_policy::{AgentId, TenantName};
use ringfence_store::{Clients, Home};

use super::Context;
use super::key::failure;
use super::out::{self, Failure, parsed};

/// Arguments of `tenant`.
#[derive(Debug, Args)]
pub(crate) struct TenantArguments {
    #[command(subcommand)]
    command: TenantCommand,
}

#[derive(Debug, Subcommand)]
enum TenantCommand {
    /// Add a tenant, with the agents that it may use
    #[command(after_help = "Example:\n  ringfence tenant add acme --agent report-writer\n  ringfence key add --tenant acme --kind api")]
    Add {
        /// Its name: lower-case letters, digits, `.`, `-` and `_`
        name: String,
        /// Registered agent that it may use; the first one is meant where none is named; repeatable
        #[arg(long, value_name = "ID", required = true)]
        agent: Vec<String>,
    },
    /// List tenants
    #[command(after_help = "Example:\n  ringfence tenant ls --json")]
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(context: &Context, arguments: &TenantArguments) -> Result<u8, Failure> {
    let home = context.home()?;
    let mut clients = Clients::open(&home).map_err(failure)?;
    match &arguments.command {
        TenantCommand::Add { name, agent } => add(&home, &mut clients, name, agent)?,
        TenantCommand::Ls { json } => list(&mut clients, *json)?,
    }
    Ok(0)
}

fn add(home: &Home, clients: &mut Clients, name: &str, agents: &[String]) -> Result<(), Failure> {
    let tenant: TenantName = parsed(name, "such as `acme`")?;
    for agent in agents {
        let id: AgentId = parsed(agent, "see `ringfence agent ls`")?;
        Agents::of(home).find(&id).map_err(|e| Failure::hinted(&e, e.hint()))?;
    }
    match clients.add_tenant(tenant.as_str(), agents).map_err(failure)? {
        true => {
            out::print(&format!("tenant `{tenant}` can use {}; make it a key: ringfence key add --tenant {tenant}\n", agents.join(", ")))
        }
        false => Err(Failure::new(format!("there is a tenant `{tenant}` already"), "see `ringfence tenant ls`")),
    }
}

fn list(clients: &mut Clients, is_json: bool) -> Result<(), Failure> {
    let tenants = clients.tenants().map_err(failure)?;
    if is_json {
        return out::print_json(&tenants);
    }
    let rows = tenants.into_iter().map(|tenant| vec![tenant.name, tenant.agents.join(", ")]);
    out::print(&out::table(&["tenant", "agents"], rows.collect()))
}
