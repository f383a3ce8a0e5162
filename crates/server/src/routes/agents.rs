//! The agents that a tenant may use. What becomes of an agent is decided by persons, at the command line.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use ringfence_control::{AgentState, Agents, RegisteredAgent, RegistryError, RevisionState};
use ringfence_policy::AgentId;
use ringfence_store::Caller;
use schemars::JsonSchema;
use serde::Serialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Routes;
use crate::asked::{By, Filter, Name, NoFilter, named};
use crate::problem::Problem;
use crate::reply::json;
use crate::serving::Serving;

pub(super) fn routes() -> Routes {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(show))
}

/// Agents.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AgentList {
    /// The agents that the tenant may use; the first one is meant where none is named.
    agents: Vec<AgentView>,
}

/// An agent.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AgentView {
    /// Its name.
    agent: String,
    /// What people call it.
    name: String,
    /// What it is for.
    purpose: String,
    /// Where it is in its life: it runs if it is `active`.
    state: String,
    /// Who answers for it.
    owner: String,
    /// The team that it belongs to.
    team: String,
    /// The profiles that it may run; `*` is any.
    profiles: Vec<String>,
    /// The last day on which it runs without being approved again.
    #[serde(skip_serializing_if = "Option::is_none")]
    review_by: Option<String>,
    /// The number of the revision that serves, or else of the newest one.
    revision: u32,
    /// Digest of that revision.
    version: String,
    /// Whether a revision waits for approval.
    is_waiting: bool,
}

/// List the agents that can be used
#[utoipa::path(get, path = "/v1/agents", operation_id = "list_agents", tag = "agents",
    responses((status = 200, description = "The agents", content_type = "application/json", body = ref("#/components/schemas/AgentList"))))]
async fn list(State(serving): State<Arc<Serving>>, By(caller): By, Filter(NoFilter {}): Filter<NoFilter>) -> Result<Response, Problem> {
    let agents = serving.blocking(move |serving| {
        // One that is not registered any more cannot be used.
        let views = caller.agents.iter().map(|name| find(serving, &caller, name));
        let known = views.filter(|view| !matches!(view, Err(problem) if problem.code() == crate::problem::Code::NotFound));
        known.collect::<Result<Vec<_>, _>>()
    });
    json(&serving, StatusCode::OK, &AgentList { agents: agents.await? })
}

/// Show an agent
#[utoipa::path(get, path = "/v1/agents/{agent}", operation_id = "show_agent", tag = "agents",
    params(("agent" = String, Path, description = "Its name")),
    responses((status = 200, description = "The agent", content_type = "application/json", body = ref("#/components/schemas/AgentView"))))]
async fn show(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Name(name): Name,
    Filter(NoFilter {}): Filter<NoFilter>,
) -> Result<Response, Problem> {
    let view = serving.blocking(move |serving| find(serving, &caller, &name)).await?;
    json(&serving, StatusCode::OK, &view)
}

fn find(serving: &Serving, caller: &Caller, name: &str) -> Result<AgentView, Problem> {
    let id: AgentId = named("agent", name)?;
    if !caller.agents.iter().any(|allowed| allowed == name) {
        return Err(Problem::not_found("agent", name));
    }
    let agents = Agents::of(serving.home());
    let agent = match agents.find(&id) {
        Err(RegistryError::Unknown(_)) => return Err(Problem::not_found("agent", name)),
        found => found.map_err(|error| serving.failed(&error))?,
    };
    view(serving, &agents, &agent)
}

fn view(serving: &Serving, agents: &Agents, agent: &RegisteredAgent) -> Result<AgentView, Problem> {
    let revision = agent.current().ok_or_else(|| Problem::not_found("agent", agent.id.as_str()))?;
    let record = agents.record(agent, revision).map_err(|error| serving.failed(&error))?;
    let named: Vec<String> = record.profiles.named().map(ToString::to_string).collect();
    let state: AgentState = agent.state;
    Ok(AgentView {
        agent: agent.id.to_string(),
        state: state.to_string(),
        profiles: if named.is_empty() { vec!["*".to_owned()] } else { named },
        review_by: record.review_by.map(|date| date.to_string()),
        revision: revision.number,
        version: revision.version.to_string(),
        is_waiting: state != AgentState::Retired && agent.revision(RevisionState::Pending).is_some(),
        name: record.name,
        purpose: record.purpose,
        owner: record.owner.to_string(),
        team: record.team.to_string(),
    })
}
