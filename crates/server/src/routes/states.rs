//! What outlives sessions and runs by their leave: named state, snapshots, and what was paused.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use ringfence_store::{Caller, StateId, StateKind, StateRow};
use schemars::JsonSchema;
use serde::Serialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Routes;
use crate::asked::{By, Filter, Name, NoFilter, named};
use crate::problem::Problem;
use crate::reply::json;
use crate::serving::{Serving, viewer};

pub(super) fn routes() -> Routes {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(show, remove))
}

/// Files that were kept.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StateView {
    /// Its id, by which a session begins with it (`from`).
    state: String,
    /// `named`, `snapshot` or `paused`.
    kind: &'static str,
    /// Its name, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// The agent whose run made it.
    agent: String,
    /// The profile of that run.
    profile: String,
    /// That run.
    run: String,
    /// When it was kept, RFC 3339.
    created_at: String,
    /// When a run last began with it, RFC 3339.
    used_at: String,
    /// Bytes.
    bytes: u64,
    /// Digest of them.
    sha256: String,
    /// Words of the client's own.
    metadata: BTreeMap<String, String>,
}

impl StateView {
    pub(super) fn of(state: StateRow) -> Self {
        let kind = match state.said.kind {
            StateKind::Named => "named",
            StateKind::Snapshot => "snapshot",
            StateKind::Paused => "paused",
        };
        Self {
            state: state.id.to_string(),
            kind,
            name: state.said.name,
            agent: state.said.agent,
            profile: state.said.profile,
            run: state.said.run,
            created_at: state.created_at,
            used_at: state.used_at,
            bytes: state.bytes,
            sha256: state.sha256.to_string(),
            metadata: state.said.metadata,
        }
    }
}

/// What is kept.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StateList {
    /// The oldest first.
    states: Vec<StateView>,
}

/// List what is kept, the oldest first
#[utoipa::path(get, path = "/v1/states", operation_id = "list_states", tag = "states",
    responses((status = 200, description = "The states", content_type = "application/json", body = ref("#/components/schemas/StateList"))))]
async fn list(State(serving): State<Arc<Serving>>, By(caller): By, Filter(NoFilter {}): Filter<NoFilter>) -> Result<Response, Problem> {
    let kept = serving.blocking(move |serving| serving.runner.states().list(&viewer(&caller)).map_err(|error| serving.failed(&error)));
    let states = kept.await?.into_iter().map(StateView::of).collect();
    json(&serving, StatusCode::OK, &StateList { states })
}

/// Show what is kept
#[utoipa::path(get, path = "/v1/states/{state}", operation_id = "show_state", tag = "states",
    params(("state" = String, Path, description = "Its id")),
    responses((status = 200, description = "The state", content_type = "application/json", body = ref("#/components/schemas/StateView"))))]
async fn show(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Name(state): Name,
    Filter(NoFilter {}): Filter<NoFilter>,
) -> Result<Response, Problem> {
    let state = serving.blocking(move |serving| found(serving, &caller, &state)).await?;
    json(&serving, StatusCode::OK, &StateView::of(state))
}

/// Remove what is kept
///
/// Whoever began with it goes on.
#[utoipa::path(delete, path = "/v1/states/{state}", operation_id = "remove_state", tag = "states",
    params(("state" = String, Path, description = "Its id")),
    responses((status = 204, description = "It is gone")))]
async fn remove(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Name(state): Name,
    Filter(NoFilter {}): Filter<NoFilter>,
) -> Result<StatusCode, Problem> {
    let removed = serving.blocking(move |serving| {
        let state = found(serving, &caller, &state)?;
        serving.runner.states().remove(&state).map_err(|error| serving.failed(&error))
    });
    removed.await.map(|()| StatusCode::NO_CONTENT)
}

/// What is kept under an id, if this caller sees it. Only for threads that may wait.
pub(super) fn found(serving: &Serving, caller: &Caller, name: &str) -> Result<StateRow, Problem> {
    let id: StateId = named("state", name)?;
    let state = serving.runner.states().get(&id, &viewer(caller)).map_err(|error| serving.failed(&error))?;
    state.ok_or_else(|| Problem::not_found("state", name))
}
