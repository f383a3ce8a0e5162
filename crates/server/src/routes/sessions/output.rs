//! What a command says, as it says it: server-sent events, to which a client comes back where it stopped.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};
use ringfence_control::{CommandEvent, ListenFrom, Subscription};
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::commands::found;
use super::standing;
use crate::asked::{By, Filter, NoFilter, Two};
use crate::problem::{Code, Problem};
use crate::reply::Parts;
use crate::routes::runs::last_seen;
use crate::serving::Serving;

/// How often a stream says something, so that nobody on the way takes it for dead.
const BREATHE_EVERY: Duration = Duration::from_secs(15);

/// A place among the streams of the server.
pub(super) fn place(serving: &Serving) -> Result<OwnedSemaphorePermit, Problem> {
    serving
        .streams
        .clone()
        .try_acquire_owned()
        .map_err(|_| Problem::new(Code::Overloaded, "too many streams are open", "close one, or ask again in a while").retry_after(5))
}

/// A response that is a stream of events.
pub(super) fn stream() -> (mpsc::Sender<std::io::Result<Bytes>>, Response) {
    let (parts, body) = Parts::channel();
    let mut response = body.into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    (parts, response)
}

/// Listen to a command
///
/// Events `started`, `stdout`, `stderr` and `ended`; what was written is in base 64. `id` is the number of an event: a client that comes back with
/// `Last-Event-ID` hears what came after it, as far as it is kept (the last 256 KiB).
#[utoipa::path(get, path = "/v1/sessions/{session}/commands/{command}/output", operation_id = "follow_command", tag = "commands",
    params(("session" = String, Path, description = "The session"), ("command" = String, Path, description = "Its number"),
        ("Last-Event-ID" = Option<String>, Header, description = "The number of the last event that was heard", pattern = "^[0-9]{1,19}$")),
    responses((status = 200, description = "What it says, until it ends", content_type = "text/event-stream", body = String)))]
pub(super) async fn follow(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Two(session, command): Two,
    Filter(NoFilter {}): Filter<NoFilter>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let session = standing(&serving, &caller, &session)?;
    let command = found(&serving, &session, &command)?;
    let from = last_seen(&headers)?.map_or(ListenFrom::Number(0), |last| ListenFrom::Number(last.saturating_add(1)));
    let (place, (parts, response)) = (place(&serving)?, stream());
    tokio::spawn(async move {
        let _place = place;
        tell(command.listen(from), &parts).await;
    });
    Ok(response)
}

async fn tell(mut listening: Subscription, parts: &mpsc::Sender<std::io::Result<Bytes>>) {
    loop {
        let heard = tokio::select! {
            heard = tokio::time::timeout(BREATHE_EVERY, listening.next()) => heard,
            () = parts.closed() => return,
        };
        let (text, is_last) = match heard {
            Err(_) => (":\n\n".to_owned(), false),
            Ok(None) => return,
            Ok(Some((number, event))) => (written(number, &event), matches!(event, CommandEvent::Ended(_))),
        };
        if parts.send(Ok(Bytes::from(text))).await.is_err() || is_last {
            return;
        }
    }
}

fn written(number: u64, event: &CommandEvent) -> String {
    let (name, data) = match event {
        CommandEvent::Started { pid } => ("started", json!({ "pid": pid })),
        CommandEvent::Stdout(bytes) => ("stdout", json!({ "base64": STANDARD.encode(bytes) })),
        CommandEvent::Stderr(bytes) => ("stderr", json!({ "base64": STANDARD.encode(bytes) })),
        CommandEvent::Ended(end) => ("ended", json!({ "end": end.end, "exit_status": end.status, "is_out_of_time": end.is_out_of_time })),
    };
    format!("id: {number}\nevent: {name}\ndata: {data}\n\n")
}
