//! The protocol of E2B's clients: a control plane for sandboxes, and a data plane for what is inside one, told apart by headers and host names.
//!
//! A sandbox is a session. What a client asks for is an ask like any other: what policy forbids is a 400 with the rule, and nothing is ignored.

mod code;
mod control;
mod envd;
mod error;
mod plane;
mod ports;
mod sandboxes;

use std::sync::Arc;

use axum::Router;

pub(crate) use code::tell_cell;
pub(crate) use error::E2bError;
pub(crate) use plane::data_plane;
pub(crate) use sandboxes::{Sandbox, Sandboxes, new_token};

use crate::serving::Serving;

/// The version of E2B's daemon whose protocol is spoken: the newest of which all is served.
pub(crate) const ENVD_VERSION: &str = "0.6.7";
/// The port of the daemon, and of the code interpreter.
pub(crate) const ENVD_PORT: u16 = 49983;
pub(crate) const CODE_PORT: u16 = 49999;

/// The paths of the control plane.
pub(crate) fn routes() -> Router<Arc<Serving>> {
    control::routes()
}

/// Whether a path is one of the control plane, whose errors have a form of their own.
pub(crate) fn is_control_path(path: &str) -> bool {
    let path = ["/v3", "/v2"].iter().find_map(|version| path.strip_prefix(version)).unwrap_or(path);
    let first = path.split('/').nth(1).unwrap_or_default();
    ["sandboxes", "snapshots", "templates", "volumes", "secrets", "teams", "files", "volumecontent"].contains(&first)
}
