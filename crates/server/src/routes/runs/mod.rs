//! Runs: asked for, found, followed, stopped.

mod create;
mod events;
mod evidence;
mod follow;
mod hand_over;
mod look;
mod request;

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use ringfence_evidence::ClosedBy;
use ringfence_store::{Caller, RunId};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Routes;
use crate::asked::{Asked, By, Name, Nothing, named};
use crate::idempotency::once;
use crate::problem::{Code, Problem};
use crate::reply::json;
use crate::serving::{Serving, viewer};

pub(crate) use create::{Begun, Untold};
pub(crate) use events::EventList;
pub(crate) use events::last_seen;
pub(crate) use evidence::EvidenceBundle;
pub(crate) use hand_over::clear_handed_over;
pub(crate) use look::{ArtifactList, RunList, RunView, STATES};
pub(crate) use request::{RunBody, bytes, environment, profile, words};

pub(super) fn routes() -> Routes {
    OpenApiRouter::new()
        .routes(routes!(look::list, create::create))
        .routes(routes!(look::show))
        .routes(routes!(cancel))
        .routes(routes!(events::events))
        .routes(routes!(evidence::evidence))
        .routes(routes!(look::artifacts))
}

/// Ask a run to stop
///
/// It ends, recorded as stopped, with what it has done by then. A run that is over stays as it is.
#[utoipa::path(post, path = "/v1/runs/{run}/cancel", operation_id = "cancel_run", tag = "runs",
    params(("run" = String, Path, description = "The run")),
    responses((status = 202, description = "It is asked to stop", content_type = "application/json", body = ref("#/components/schemas/Begun"))))]
async fn cancel(State(serving): State<Arc<Serving>>, By(caller): By, Name(run): Name, asked: Asked<Nothing>) -> Result<Response, Problem> {
    let (server, who, Nothing {}) = (serving.clone(), caller.clone(), asked.body);
    once(&serving, &caller, asked.again, async move {
        let run = server.blocking(move |serving| seen(serving, &who, &run)).await?;
        if let Some(session) = server.sessions.find(run.as_str()) {
            session.begin_close(ClosedBy::Request);
            return json(&server, StatusCode::ACCEPTED, &Begun::of(&run));
        }
        match server.work.stop_run(run.as_str()) {
            true => json(&server, StatusCode::ACCEPTED, &Begun::of(&run)),
            false => Err(Problem::new(Code::Conflict, format!("run `{run}` is over"), format!("GET /v1/runs/{run} says how it ended"))),
        }
    })
    .await
}

/// A run by its name, if this caller sees it; otherwise there is none.
fn seen(serving: &Serving, caller: &Caller, name: &str) -> Result<RunId, Problem> {
    let run: RunId = named("run", name)?;
    let is_seen = match serving.under_way(run.as_str()) {
        Some(under_way) => viewer(caller).sees(Some(&under_way.tenant)),
        None => look::sealed(serving, caller, &run)?.is_some(),
    };
    match is_seen {
        true => Ok(run),
        false => Err(Problem::not_found("run", name)),
    }
}
