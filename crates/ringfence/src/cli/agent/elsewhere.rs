//! `agent --server`: the agents that the key's tenant may use, as far as a tenant may know them. What becomes of an agent is decided on the server's host.

use serde::Deserialize;

use super::{AgentCommand, Row, print_list};
use crate::cli::Context;
use crate::cli::out::Failure;
use crate::remote::Server;

#[derive(Deserialize)]
struct AgentList {
    agents: Vec<Row>,
}

pub(super) fn run(context: &Context, server: &Server, command: &AgentCommand) -> Result<(), Failure> {
    match command {
        AgentCommand::Ls { json } => print_list(server.get::<AgentList>(&["agents"])?.agents, *json),
        AgentCommand::Show { id, json } => print_list(vec![server.get(&["agents", id])?], *json),
        AgentCommand::Add { .. } => context.alone("agent add"),
        AgentCommand::Submit { .. } => context.alone("agent submit"),
        AgentCommand::Suspend { .. } => context.alone("agent suspend"),
        AgentCommand::Resume { .. } => context.alone("agent resume"),
        AgentCommand::Retire { .. } => context.alone("agent retire"),
    }
}
