//! The code interpreter of a sandbox.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::{IntoResponse, Response};

use super::error::E2bError;
use super::sandboxes::Sandbox;
use crate::serving::Serving;

pub(super) async fn answer(_serving: Arc<Serving>, _sandbox: Arc<Sandbox>, _request: Request) -> Response {
    E2bError::unsupported("code contexts").into_response()
}
