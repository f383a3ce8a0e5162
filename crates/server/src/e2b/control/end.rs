//! A sandbox is ended.

use std::sync::Arc;

use axum::extract::{Path, State};
use http::StatusCode;
use ringfence_evidence::ClosedBy;

use super::owned;
use crate::asked::By;
use crate::e2b::error::E2bError;
use crate::serving::Serving;

/// Answers once nothing of it runs and its record is sealed.
pub(super) async fn kill(State(serving): State<Arc<Serving>>, By(caller): By, Path(id): Path<String>) -> Result<StatusCode, E2bError> {
    let sandbox = owned(&serving, &caller, &id)?;
    sandbox.session.close(ClosedBy::Request).await;
    Ok(StatusCode::NO_CONTENT)
}
