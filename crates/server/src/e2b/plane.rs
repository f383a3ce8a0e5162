//! Which requests are for the inside of a sandbox: by header where they come to an address or to `localhost`, by host name `PORT-ID.DOMAIN` else, and links
//! that are signed by neither.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use http::header::HOST;

use super::error::E2bError;
use super::sandboxes::{Operation, Sandbox, Signed, is_same};
use super::{CODE_PORT, ENVD_PORT, control, envd, ports};
use crate::serving::Serving;

const SANDBOX_ID: &str = "e2b-sandbox-id";
const SANDBOX_PORT: &str = "e2b-sandbox-port";
const ACCESS_TOKEN: &str = "x-access-token";
const TRAFFIC_TOKEN: &str = "e2b-traffic-access-token";

/// What a request is for.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    id: String,
    port: u16,
}

/// Answers what is for the inside of a sandbox; passes on everything else.
pub(crate) async fn data_plane(State(serving): State<Arc<Serving>>, request: Request, next: Next) -> Response {
    match target(&request) {
        Some(Ok(target)) => match answer(&serving, target, request).await {
            Ok(response) => response,
            Err(error) => error.into_response(),
        },
        Some(Err(error)) => error.into_response(),
        None if request.uri().path() == "/files" => signed(&serving, request).await.unwrap_or_else(IntoResponse::into_response),
        None => next.run(request).await,
    }
}

/// Headers are for clients that cannot choose a host name.
fn target(request: &Request) -> Option<Result<Target, E2bError>> {
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if let Some(target) = by_host(host) {
        return Some(Ok(target));
    }
    let id = text(request.headers(), SANDBOX_ID)?.to_owned();
    let port = text(request.headers(), SANDBOX_PORT).map_or(Some(ENVD_PORT), |port| port.parse().ok().filter(|port| *port > 0));
    Some(port.map(|port| Target { id, port }).ok_or_else(|| E2bError::bad("the header `E2b-Sandbox-Port` is no port: 1 to 65535")))
}

/// `PORT-ID.DOMAIN`, with or without a port of our own behind it.
fn by_host(host: &str) -> Option<Target> {
    let (first, _) = host.split_once('.')?;
    let (port, id) = first.split_once('-')?;
    let port = port.parse().ok().filter(|port| *port > 0)?;
    id.parse::<ringfence_store::RunId>().ok().map(|id| Target { id: id.to_string(), port })
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

async fn answer(serving: &Arc<Serving>, target: Target, request: Request) -> Result<Response, E2bError> {
    serving.hosts.check_host(request.uri(), request.headers())?;
    let sandbox = match serving.sandboxes.find(&target.id) {
        Some(sandbox) => sandbox,
        None if request.uri().path() == "/health" => return Err(E2bError::gone(&target.id)), // asking whether it runs is no reason to run
        None => control::resume_by_itself(serving, &target.id).await?.ok_or_else(|| E2bError::gone(&target.id))?,
    };
    match target.port {
        ENVD_PORT => {
            check_token(&sandbox, &request)?;
            Ok(envd::answer(serving.clone(), sandbox, request).await)
        }
        CODE_PORT => {
            check_code(&sandbox, request.headers())?;
            Ok(super::code::answer(serving.clone(), sandbox, request).await)
        }
        port => {
            check_traffic(&sandbox, request.headers())?;
            ports::forward(&sandbox, port, request, serving.limits.write_pause).await
        }
    }
}

/// The daemon is reached with the sandbox's token; that it lives is told to everyone who knows its name, and files may be reached by signed links.
fn check_token(sandbox: &Sandbox, request: &Request) -> Result<(), E2bError> {
    let path = request.uri().path();
    let is_open = sandbox.token.is_none() || path == "/health";
    let given = text(request.headers(), ACCESS_TOKEN);
    if is_open || given.is_some_and(|given| sandbox.is_token(given)) {
        return Ok(());
    }
    let link = link(request).filter(|link| given.is_none() && path == "/files" && sandbox.signed(&link.signed()));
    link.ok_or_else(unauthorized)?.check_time()
}

fn unauthorized() -> E2bError {
    E2bError::new(
        http::StatusCode::UNAUTHORIZED,
        "unauthorized access: the token of the sandbox is needed, as `X-Access-Token` or in a signed link",
    )
}

/// Its client shows the first token with some calls, and the second with the others.
fn check_code(sandbox: &Sandbox, headers: &HeaderMap) -> Result<(), E2bError> {
    let by_token = text(headers, ACCESS_TOKEN).is_some_and(|given| sandbox.is_token(given));
    if by_token || sandbox.token.is_none() { Ok(()) } else { check_traffic_token(sandbox, headers) }
}

fn check_traffic(sandbox: &Sandbox, headers: &HeaderMap) -> Result<(), E2bError> {
    if sandbox.is_public { Ok(()) } else { check_traffic_token(sandbox, headers) }
}

fn check_traffic_token(sandbox: &Sandbox, headers: &HeaderMap) -> Result<(), E2bError> {
    match text(headers, TRAFFIC_TOKEN).is_some_and(|given| is_same(&sandbox.traffic_token, given)) {
        true => Ok(()),
        false => {
            let message = "the ports of this sandbox are reached with its traffic token, as `E2B-Traffic-Access-Token`";
            Err(E2bError::new(http::StatusCode::FORBIDDEN, message).with("sandboxId", sandbox.id()))
        }
    }
}

/// A link to a file that says nothing of a sandbox: the one whose token signed it.
async fn signed(serving: &Arc<Serving>, request: Request) -> Result<Response, E2bError> {
    serving.hosts.check_host(request.uri(), request.headers())?;
    let link = link(&request).ok_or_else(unauthorized)?;
    let sandbox = serving.sandboxes.of_signature(&link.signed()).ok_or_else(unauthorized)?;
    link.check_time()?;
    Ok(envd::answer(serving.clone(), sandbox, request).await)
}

/// What a link to a file says.
struct Link {
    path: String,
    user: String,
    operation: Operation,
    signature: String,
    expiry: Option<String>,
}

fn link(request: &Request) -> Option<Link> {
    let query = envd::query(request.uri());
    let operation = if request.method() == http::Method::POST { Operation::Write } else { Operation::Read };
    Some(Link {
        path: query.get("path").cloned().unwrap_or_default(),
        user: query.get("username").cloned().unwrap_or_default(),
        operation,
        signature: query.get("signature")?.clone(),
        expiry: query.get("signature_expiration").cloned(),
    })
}

impl Link {
    fn signed(&self) -> Signed<'_> {
        let Self { path, user, operation, signature, expiry } = self;
        Signed { path, operation: *operation, user, expiry: expiry.as_deref(), signature }
    }

    /// Only a link that was truly signed is told that its time is over, in the words that clients know.
    fn check_time(&self) -> Result<(), E2bError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(u64::MAX, |since| since.as_secs());
        let is_over = |expiry: &String| expiry.parse::<u64>().map_or(true, |expiry| expiry < now);
        match self.expiry.as_ref().is_some_and(is_over) {
            true => Err(E2bError::new(http::StatusCode::UNAUTHORIZED, "signature is already expired")),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_names_a_port_of_a_sandbox_or_none() {
        let id = "01kbdz9xk3v8p5r0q2n7m4t6w1";
        let target = |port| Some(Target { id: id.into(), port });
        assert_eq!(by_host(&format!("3000-{id}.localhost:7300")), target(3000));
        assert_eq!(by_host(&format!("49983-{id}.ring.example")), target(49983));
        for other in [
            "localhost:7300",
            "127.0.0.1:7300",
            "3000-x.localhost",
            &format!("0-{id}.localhost"),
            &format!("99999-{id}.a"),
            &format!("-{id}.a"),
            id,
        ] {
            assert_eq!(by_host(other), None, "{other}");
        }
    }
}
