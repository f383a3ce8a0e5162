//! What E2B's daemon answers inside a sandbox, answered from outside: processes, files, health.

mod entry;
mod files;
mod filesystem;
mod process;
mod rpc;
mod upload;
mod user;
mod watch;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::{Method, StatusCode, Uri};
use serde_json::json;

use super::control::measure;
use super::error::E2bError;
use super::sandboxes::Sandbox;
use crate::serving::Serving;

pub(crate) use watch::Watchers;

/// What a handler is given.
pub(super) struct Call {
    pub(super) serving: Arc<Serving>,
    pub(super) sandbox: Arc<Sandbox>,
    pub(super) request: Request,
}

/// Answers one request.
pub(super) async fn answer(serving: Arc<Serving>, sandbox: Arc<Sandbox>, request: Request) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let call = Call { serving, sandbox, request };
    if let Some(procedure) = path.strip_prefix("/process.Process/") {
        return process::answer(procedure, call).await;
    }
    if let Some(procedure) = path.strip_prefix("/filesystem.Filesystem/") {
        return filesystem::answer(procedure, call).await;
    }
    match (method, path.as_str()) {
        (Method::GET, "/health") => StatusCode::NO_CONTENT.into_response(),
        (Method::GET, "/metrics") => metrics(&call.sandbox),
        (Method::GET, "/envs") => environment(&call.sandbox),
        (Method::GET, "/files") => files::download(call).await.unwrap_or_else(IntoResponse::into_response),
        (Method::POST, "/files") => upload::receive(call).await.unwrap_or_else(IntoResponse::into_response),
        _ => E2bError::new(StatusCode::NOT_FOUND, "there is no such path in a sandbox").into_response(),
    }
}

fn metrics(sandbox: &Sandbox) -> Response {
    let measured = measure(sandbox);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    axum::Json(json!({
        "ts": now,
        "cpu_count": std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        "cpu_used_pct": measured.cpu_percent,
        "mem_total": measured.memory_total,
        "mem_used": measured.memory,
        "disk_used": measured.disk,
        "disk_total": measured.disk_total,
    }))
    .into_response()
}

/// Variables that the client gave to the whole sandbox.
fn environment(sandbox: &Sandbox) -> Response {
    axum::Json(sandbox.session.environment().into_iter().collect::<BTreeMap<String, String>>()).into_response()
}

/// The parameters of a query; of one that comes twice the last.
pub(crate) fn query(uri: &Uri) -> BTreeMap<String, String> {
    pairs(uri.query().unwrap_or_default())
}

/// `a=b&c=d`, as forms write it.
pub(crate) fn pairs(text: &str) -> BTreeMap<String, String> {
    let decoded = |text: &str| percent_encoding::percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decoded(name), decoded(value))
    };
    text.split('&').filter(|part| !part.is_empty()).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_reads_as_a_form() {
        let read = pairs("a=1&b=x%2Fy+z&c&a=2&=");
        assert_eq!(read.get("a").map(String::as_str), Some("2"));
        assert_eq!(read.get("b").map(String::as_str), Some("x/y z"));
        assert_eq!(read.get("c").map(String::as_str), Some(""));
    }
}
