//! A session whose files are kept: while it goes on, or as it ends.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;

use super::{refused, standing};
use crate::asked::{Asked, By, Name, Nothing};
use crate::idempotency::once;
use crate::problem::Problem;
use crate::reply::{json, located};
use crate::routes::states::StateView;
use crate::serving::Serving;

/// Pause a session
///
/// Its processes end and its files are kept, until they are removed: the report says under which id, and a session begins with it (`from`).
#[utoipa::path(post, path = "/v1/sessions/{session}/pause", operation_id = "pause_session", tag = "sessions",
    params(("session" = String, Path, description = "The session")),
    responses((status = 200, description = "How it went", content_type = "application/json", body = ref("#/components/schemas/RunReport"))))]
pub(super) async fn pause(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Name(session): Name,
    asked: Asked<Nothing>,
) -> Result<Response, Problem> {
    let Nothing {} = asked.body;
    let session = standing(&serving, &caller, &session)?;
    let server = serving.clone();
    once(&serving, &caller, asked.again, async move {
        let paused = server.sessions.pause(&session, serde_json::Value::Null).await.map_err(|error| refused(&server, error))?;
        let report = paused.ok_or_else(|| server.failed(&format!("the record of session {} could not be sealed", session.run)))?;
        json(&server, StatusCode::OK, &*report)
    })
    .await
}

/// Keep the files of a session as they are
///
/// It goes on meanwhile. Any number of sessions can begin with what was kept (`from`).
#[utoipa::path(post, path = "/v1/sessions/{session}/snapshots", operation_id = "snapshot_session", tag = "sessions",
    params(("session" = String, Path, description = "The session")),
    responses((status = 201, description = "What is kept", content_type = "application/json", body = ref("#/components/schemas/StateView"))))]
pub(super) async fn snapshot(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Name(session): Name,
    asked: Asked<Nothing>,
) -> Result<Response, Problem> {
    let Nothing {} = asked.body;
    let session = standing(&serving, &caller, &session)?;
    let server = serving.clone();
    once(&serving, &caller, asked.again, async move {
        let kept = server.sessions.snapshot(&session, serde_json::Value::Null).await.map_err(|error| refused(&server, error))?;
        let place = format!("/v1/states/{}", kept.id);
        Ok(located(json(&server, StatusCode::CREATED, &StateView::of(kept))?, &place))
    })
    .await
}
