//! What every request passes before anybody looks at what it asks for: a place, the right host, no foreign page, a key.

mod hosts;
mod keys;
mod throttle;

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS};
use http::{HeaderMap, HeaderName, HeaderValue};

pub(crate) use hosts::Hosts;
pub(crate) use throttle::Throttle;

use crate::connection::Peer;
use crate::e2b::{self, E2bError};
use crate::problem::{Code, Problem, Told};
use crate::serving::Serving;

/// Paths that are answered without a key: they tell nothing about the home.
const OPEN: &[&str] = &["/healthz", "/v1/openapi.json"];

/// Lets a request pass, or answers why not; whatever is answered is dressed and counted.
pub(crate) async fn gate(State(serving): State<Arc<Serving>>, mut request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let is_head = request.method() == http::Method::HEAD;
    let place = serving.requests.clone().try_acquire_owned();
    let answered = match place {
        Err(_) => Err(Problem::new(Code::Overloaded, "too many requests are being answered", "ask again in a while").retry_after(1)),
        Ok(_) => admit(&serving, &mut request).await,
    };
    let mut response = match answered {
        Ok(()) => next.run(request).await,
        Err(problem) if e2b::is_control_path(&path) => E2bError::from(problem).into_response(),
        Err(problem) => problem.into_response(),
    };
    dress(response.headers_mut());
    let status = response.status();
    serving.metrics.count("requests", status.as_str());
    if let Some(Told(code)) = response.extensions().get::<Told>() {
        serving.metrics.count("problems", code.word());
    }
    if is_head {
        *response.body_mut() = axum::body::Body::empty();
    }
    drop(place);
    response
}

async fn admit(serving: &Arc<Serving>, request: &mut Request) -> Result<(), Problem> {
    serving.hosts.check(request.uri(), request.headers())?;
    if OPEN.contains(&request.uri().path()) {
        return Ok(());
    }
    let peer = request.extensions().get::<Peer>().copied().ok_or_else(Problem::internal)?;
    let caller = keys::caller(serving, peer, request.headers()).await?;
    keys::check_kind(&caller, request.uri().path())?;
    request.extensions_mut().insert(caller);
    Ok(())
}

/// Nothing that is answered is for a browser to show, guess at, keep or frame.
fn dress(headers: &mut HeaderMap) {
    const ALWAYS: &[(HeaderName, &str)] = &[
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (CACHE_CONTROL, "no-store"),
        (CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
    ];
    for (name, value) in ALWAYS {
        headers.insert(name, HeaderValue::from_static(value));
    }
}
