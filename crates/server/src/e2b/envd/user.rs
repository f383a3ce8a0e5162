//! As whom a client wants to act: there is one user in a sandbox.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::AUTHORIZATION;

use super::rpc::{Fault, Status};
use crate::e2b::sandboxes::Sandbox;

/// Checks the user that a call names in its `Authorization`, if it names one.
pub(super) fn check_header(sandbox: &Sandbox, headers: &HeaderMap) -> Result<(), Fault> {
    let Some(value) = headers.get(AUTHORIZATION) else { return Ok(()) };
    let refused = || Fault::new(Status::Unauthenticated, "the user cannot be read: it stands as `Basic` before a colon");
    let encoded = value.to_str().ok().and_then(|text| text.strip_prefix("Basic ")).ok_or_else(refused)?;
    let text = STANDARD.decode(encoded.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(refused)?;
    check(sandbox, text.split(':').next().unwrap_or_default())
}

/// Checks a user by name; none named is the one there is.
pub(super) fn check(sandbox: &Sandbox, name: &str) -> Result<(), Fault> {
    let user = &sandbox.session.user;
    match name.is_empty() || name == user.as_str() {
        true => Ok(()),
        false => Err(Fault::new(
            Status::Unauthenticated,
            format!(
                "invalid user: there is no user `{}` that could be used here, only `{user}`: nothing in a sandbox runs as another",
                name.escape_debug()
            ),
        )),
    }
}
