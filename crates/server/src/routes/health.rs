//! Whether the server serves, what it counts, and what it answers to.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use schemars::JsonSchema;
use serde::Serialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Routes;
use crate::asked::{Filter, NoFilter};
use crate::openapi;
use crate::problem::Problem;
use crate::reply::{json, json_text};
use crate::serving::Serving;
use crate::work::stopping;

pub(super) fn routes() -> Routes {
    OpenApiRouter::new().routes(routes!(health)).routes(routes!(description)).routes(routes!(metrics))
}

/// That the server serves.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Health {
    /// `ok`.
    status: &'static str,
}

/// Whether the server serves
#[utoipa::path(get, path = "/healthz", operation_id = "health", tag = "server", security(()),
    responses((status = 200, description = "It does", content_type = "application/json", body = ref("#/components/schemas/Health"))))]
async fn health(State(serving): State<Arc<Serving>>) -> Result<Response, Problem> {
    match serving.work.is_closed() {
        true => Err(stopping()),
        false => json(&serving, StatusCode::OK, &Health { status: "ok" }),
    }
}

/// This description
#[utoipa::path(get, path = "/v1/openapi.json", operation_id = "describe", tag = "server", security(()),
    responses((status = 200, description = "OpenAPI 3.1", content_type = "application/json", body = ref("#/components/schemas/Description"))))]
async fn description() -> Response {
    json_text(StatusCode::OK, openapi::openapi())
}

/// What is counted, in the text format of Prometheus
#[utoipa::path(get, path = "/metrics", operation_id = "metrics", tag = "server",
    responses((status = 200, description = "Counters and gauges", content_type = "text/plain", body = String)))]
async fn metrics(State(serving): State<Arc<Serving>>, Filter(NoFilter {}): Filter<NoFilter>) -> Response {
    let mut response = serving.metrics.text(serving.work.count()).into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8"));
    response
}
