//! A sandbox is ended.

use std::sync::Arc;

use axum::extract::{Path, State};
use http::StatusCode;
use ringfence_evidence::ClosedBy;

use super::{keep, owned};
use crate::asked::By;
use crate::e2b::error::E2bError;
use crate::serving::Serving;

/// Answers once nothing of it runs and its record is sealed; of one that is paused nothing is kept any more.
pub(super) async fn kill(State(serving): State<Arc<Serving>>, By(caller): By, Path(id): Path<String>) -> Result<StatusCode, E2bError> {
    let Ok(sandbox) = owned(&serving, &caller, &id) else {
        let (state, _) = keep::paused(&serving, &caller.tenant, &id).await?.ok_or_else(|| E2bError::no_sandbox(&id))?;
        keep::forget(&serving, state).await?;
        return Ok(StatusCode::NO_CONTENT);
    };
    sandbox.session.close(ClosedBy::Request).await;
    Ok(StatusCode::NO_CONTENT)
}
