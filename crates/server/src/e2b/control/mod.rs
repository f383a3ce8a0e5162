//! The control plane: sandboxes made, told of, given time and ended. Old paths and those of version 2 are the same.

mod begin;
mod body;
mod create;
mod end;
mod keep;
mod look;
mod network;
mod time;

use std::sync::Arc;

use axum::Router;
use axum::routing::{any, delete, get, post, put};

use super::error::E2bError;
use super::sandboxes::Sandbox;
use crate::serving::Serving;

pub(crate) use begin::Asked;
pub(super) use body::Body;
pub(super) use create::variables;
pub(super) use keep::resume_by_itself;
pub(super) use look::measure;

pub(super) fn routes() -> Router<Arc<Serving>> {
    let router = Router::new()
        .route("/sandboxes", post(create::create_old).get(look::list))
        .route("/v2/sandboxes", post(create::create).get(look::list))
        .route("/sandboxes/{id}", get(look::detail).delete(end::kill))
        .route("/sandboxes/{id}/timeout", post(time::set))
        .route("/sandboxes/{id}/refreshes", post(time::refresh))
        .route("/sandboxes/{id}/connect", post(time::connect))
        .route("/v2/sandboxes/{id}/connect", post(time::connect))
        .route("/sandboxes/{id}/resume", post(time::connect))
        .route("/sandboxes/{id}/pause", post(keep::pause))
        .route("/sandboxes/{id}/snapshots", post(keep::snapshot))
        .route("/sandboxes/{id}/fork", post(keep::fork))
        .route("/snapshots", get(keep::list))
        .route("/templates/{id}", delete(keep::remove))
        .route("/sandboxes/{id}/metrics", get(look::metrics))
        .route("/sandboxes/{id}/logs", get(look::logs))
        .route("/v2/sandboxes/{id}/logs", get(look::logs))
        .route("/sandboxes/{id}/network", put(network::change));
    let unsupported = [
        ("/templates", "template builds"),
        ("/templates/{id}/{*rest}", "template builds"),
        ("/v2/templates", "template builds"),
        ("/v2/templates/{*rest}", "template builds"),
        ("/v3/templates", "template builds"),
        ("/v3/templates/{*rest}", "template builds"),
        ("/volumes", "volumes"),
        ("/volumes/{*rest}", "volumes"),
        ("/volumecontent/{*rest}", "volumes"),
        ("/secrets", "stored secrets"),
        ("/secrets/{*rest}", "stored secrets"),
    ];
    unsupported.into_iter().fold(router, |router, (path, what)| router.route(path, any(move || async move { E2bError::unsupported(what) })))
}

/// A sandbox of this caller's: that of another tenant is not there.
fn owned(serving: &Serving, caller: &ringfence_store::Caller, id: &str) -> Result<Arc<Sandbox>, E2bError> {
    let found = serving.sandboxes.find(id).filter(|sandbox| sandbox.session.about.tenant == caller.tenant);
    found.ok_or_else(|| E2bError::no_sandbox(id))
}
