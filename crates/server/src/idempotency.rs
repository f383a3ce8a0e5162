//! Requests that are done once, however often they are asked with the same Idempotency-Key.
//!
//! The work goes on although its client goes away: whoever asks again is told how it went.

use std::future::Future;
use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CONTENT_TYPE, LOCATION};
use http_body_util::BodyExt;
use ringfence_store::{Answer, AnswerBegun, AnswerKey, Caller};

use crate::asked::Again;
use crate::problem::{Code, Problem};
use crate::reply::{json_text, located};
use crate::serving::Serving;

/// Does the work, unless it was done before.
pub(crate) async fn once<W>(serving: &Arc<Serving>, caller: &Caller, again: Again, work: W) -> Result<Response, Problem>
where
    W: Future<Output = Result<Response, Problem>> + Send + 'static,
{
    let Some(key) = again.key else { return detached(serving, work).await };
    let key = AnswerKey { tenant: caller.tenant.clone(), key, request: again.request, server: serving.start.clone() };
    let asked = key.clone();
    match serving.blocking(move |serving| serving.clients(|clients| clients.begin_answer(&asked))).await? {
        AnswerBegun::New => {
            let keeping = serving.clone();
            detached(serving, async move { kept(&keeping, key, work.await).await }).await
        }
        AnswerBegun::Answered(answer) => Ok(once_more(answer)),
        AnswerBegun::Other => Err(Problem::new(
            Code::IdempotencyMismatch,
            "the Idempotency-Key was sent with another request before",
            "make a new key for each request",
        )),
        AnswerBegun::UnderWay => {
            Err(Problem::new(Code::IdempotencyInFlight, "the same request is being answered", "ask again in a while").retry_after(1))
        }
        AnswerBegun::Lost => Err(Problem::new(
            Code::IdempotencyLost,
            "a server stopped before it answered the same request, and nobody knows what it did",
            "look whether it took effect, such as with GET /v1/runs; ask with a new key if not",
        )),
    }
}

/// Work that goes on although nobody waits for it.
async fn detached<W>(serving: &Arc<Serving>, work: W) -> Result<Response, Problem>
where
    W: Future<Output = Result<Response, Problem>> + Send + 'static,
{
    tokio::spawn(work).await.map_err(|panic| serving.failed(&panic))?
}

/// Keeps an answer, unless it says that the same may go better another time.
async fn kept(serving: &Arc<Serving>, key: AnswerKey, answered: Result<Response, Problem>) -> Result<Response, Problem> {
    let (parts, body) = answered.unwrap_or_else(IntoResponse::into_response).into_parts();
    let bytes = body.collect().await.map_err(|error| serving.failed(&error))?.to_bytes();
    let is_final = !parts.status.is_server_error() && ![StatusCode::CONFLICT, StatusCode::TOO_MANY_REQUESTS].contains(&parts.status);
    let location = parts.headers.get(LOCATION).and_then(|place| place.to_str().ok()).map(str::to_owned);
    let answer = Answer { status: parts.status.as_u16(), location, body: bytes.to_vec() };
    serving
        .blocking(move |serving| {
            serving.clients(|clients| if is_final { clients.keep_answer(&key, &answer) } else { clients.forget_answer(&key) })
        })
        .await?;
    Ok(Response::from_parts(parts, Body::from(bytes)))
}

fn once_more(answer: Answer) -> Response {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json_text(status, answer.body);
    if status.is_client_error() {
        response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("application/problem+json"));
    }
    match answer.location {
        Some(place) => located(response, &place),
        None => response,
    }
}
