//! How long a sandbox may go on.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode};
use ringfence_policy::LimitKey;
use serde::Deserialize;

use super::create::{Made, check_time};
use super::{Body, keep, owned};
use crate::asked::{By, Wanted};
use crate::e2b::error::E2bError;
use crate::e2b::sandboxes::Sandbox;
use crate::serving::Serving;

#[derive(Debug, Deserialize)]
pub(super) struct TimeoutBody {
    timeout: u64,
}

impl Wanted for TimeoutBody {
    const MOST_BYTES: usize = 4 << 10;
}

/// From now on, whether that is longer or shorter than before.
pub(super) async fn set(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Path(id): Path<String>,
    body: Body<TimeoutBody>,
) -> Result<StatusCode, E2bError> {
    let sandbox = owned(&serving, &caller, &id)?;
    sandbox.session.set_left(checked(&sandbox, body.0.body.timeout)?)?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Debug, Deserialize)]
pub(super) struct RefreshBody {
    duration: Option<u64>,
}

impl Wanted for RefreshBody {
    const MOST_BYTES: usize = 4 << 10;
    const IS_OPTIONAL: bool = true;
}

/// Longer, never shorter.
pub(super) async fn refresh(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Path(id): Path<String>,
    body: Body<RefreshBody>,
) -> Result<StatusCode, E2bError> {
    let sandbox = owned(&serving, &caller, &id)?;
    extend(&sandbox, body.0.body.duration.unwrap_or(60))?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Debug, Deserialize)]
pub(super) struct ConnectBody {
    timeout: Option<u64>,
}

impl Wanted for ConnectBody {
    const MOST_BYTES: usize = 4 << 10;
    const IS_OPTIONAL: bool = true;
}

/// A client finds a sandbox again: its time is made longer, never shorter. One that is paused goes on.
pub(super) async fn connect(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body<ConnectBody>,
) -> Result<Response, E2bError> {
    let Ok(sandbox) = owned(&serving, &caller, &id) else {
        let resumed = keep::resume(&serving, &caller.tenant, &id, body.0.body.timeout).await?;
        let sandbox = resumed.ok_or_else(|| E2bError::no_sandbox(&id))?;
        return Ok((StatusCode::CREATED, axum::Json(Made::of(&sandbox, &headers))).into_response());
    };
    if let Some(seconds) = body.0.body.timeout {
        extend(&sandbox, seconds)?;
    }
    Ok((StatusCode::OK, axum::Json(Made::of(&sandbox, &headers))).into_response())
}

fn extend(sandbox: &Sandbox, seconds: u64) -> Result<(), E2bError> {
    let left = checked(sandbox, seconds)?;
    let until = SystemTime::now().checked_add(left);
    if until.is_none_or(|until| until > sandbox.session.ends_at()) {
        sandbox.session.set_left(left)?;
    }
    Ok(())
}

fn checked(sandbox: &Sandbox, seconds: u64) -> Result<Duration, E2bError> {
    check_time(seconds, sandbox.session.allowed.limits.get(LimitKey::Wall).map(|ms| ms / 1000))
}
