//! What a request says, read within limits: its body, its query, its Idempotency-Key.

use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use bytes::BytesMut;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use http_body_util::BodyExt;
use ringfence_evidence::Digest;
use ringfence_store::Caller;
use serde::de::DeserializeOwned;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout_at};

use crate::problem::{Code, Problem, shortened};
use crate::serving::Serving;

/// A body of a form of ours.
pub(crate) trait Wanted: DeserializeOwned + Send {
    /// Bytes at most.
    const MOST_BYTES: usize;
    /// Whether it can be left out.
    const IS_OPTIONAL: bool = false;
}

/// A request with a body: what it says, and as what it is known if it comes again.
#[derive(Debug)]
pub(crate) struct Asked<T> {
    pub(crate) body: T,
    pub(crate) again: Again,
}

/// As what a request is known if it comes again.
#[derive(Debug, Clone)]
pub(crate) struct Again {
    /// The client's word for it.
    pub(crate) key: Option<String>,
    /// SHA-256 of its method, path, query and body.
    pub(crate) request: String,
}

impl<T: Wanted> FromRequest<Arc<Serving>> for Asked<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, serving: &Arc<Serving>) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let key = idempotency_key(&parts.headers)?;
        check_headers(&parts.headers, T::MOST_BYTES)?;
        let body = read(serving, body, T::MOST_BYTES).await?;
        if !body.bytes.is_empty() || !T::IS_OPTIONAL {
            check_type(&parts.headers)?;
        }
        let named = format!("{} {}\n", parts.method, parts.uri);
        let digest = Digest::of(&[named.as_bytes(), &body.bytes].concat()).to_string();
        let text: &[u8] = if body.bytes.is_empty() && T::IS_OPTIONAL { b"{}" } else { &body.bytes };
        Ok(Self { body: parse(text)?, again: Again { key, request: digest } })
    }
}

fn parse<T: DeserializeOwned>(text: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(text).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => {
            Problem::new(Code::InvalidRequest, shortened(&error.to_string()), "see /v1/openapi.json for the form that is wanted")
        }
        _ => Problem::new(Code::BadJson, shortened(&error.to_string()), "send one JSON object, not nested deeper than 100 levels"),
    })
}

/// A body, and the room that it takes among all bodies.
struct Body {
    bytes: BytesMut,
    _room: Option<OwnedSemaphorePermit>,
}

/// Reads a body, no more of it than is wanted, and not for ever.
async fn read(serving: &Arc<Serving>, mut body: axum::body::Body, most: usize) -> Result<Body, Problem> {
    let limits = &serving.limits;
    let last = Instant::now() + limits.body_time;
    let mut taken = Body { bytes: BytesMut::new(), _room: None };
    loop {
        let until = last.min(Instant::now() + limits.body_pause);
        let frame = timeout_at(until, body.frame()).await.map_err(|_| too_slow())?;
        let Some(frame) = frame else { return Ok(taken) };
        let frame = frame
            .map_err(|_| Problem::new(Code::BadRequest, "the body breaks off, or cannot be told from what follows it", "send it whole"))?;
        let Ok(bytes) = frame.into_data() else { continue };
        if taken.bytes.len() + bytes.len() > most {
            return Err(too_large(most));
        }
        taken.make_room(serving, bytes.len())?;
        taken.bytes.extend_from_slice(&bytes);
    }
}

impl Body {
    fn make_room(&mut self, serving: &Serving, more: usize) -> Result<(), Problem> {
        let permits = u32::try_from(more).map_err(|_| Problem::internal())?;
        let room = serving.body_bytes.clone().try_acquire_many_owned(permits).map_err(|_| {
            Problem::new(Code::Overloaded, "the bodies of other requests take all the room", "ask again in a while").retry_after(1)
        })?;
        match &mut self._room {
            Some(taken) => taken.merge(room),
            None => self._room = Some(room),
        }
        Ok(())
    }
}

fn too_slow() -> Problem {
    Problem::new(Code::BodyTooSlow, "the body did not come in time", "send it without pauses, or a smaller one")
}

fn too_large(most: usize) -> Problem {
    let detail = format!("the body has more than {most} bytes, the most that is taken here");
    Problem::new(Code::BodyTooLarge, detail, "send less; what is large can be made inside, or handed in by parts as artifacts")
}

/// What the head says of the body, before any of it is read. A body is never decompressed.
fn check_headers(headers: &HeaderMap, most: usize) -> Result<(), Problem> {
    if headers.get_all(CONTENT_ENCODING).iter().any(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return Err(media_type("the body is compressed, and is not decompressed here"));
    }
    let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    match length.is_some_and(|length| length > most as u64) {
        true => Err(too_large(most)),
        false => Ok(()),
    }
}

fn check_type(headers: &HeaderMap) -> Result<(), Problem> {
    let text = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut parts = text.split(';').map(str::trim);
    let is_json = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("application/json"));
    let is_utf8 = parts.all(|parameter| parameter.eq_ignore_ascii_case("charset=utf-8") || parameter.is_empty());
    match is_json && is_utf8 {
        true => Ok(()),
        false => Err(media_type("the body is not JSON by its Content-Type")),
    }
}

fn media_type(detail: &str) -> Problem {
    Problem::new(Code::UnsupportedMediaType, detail, "send JSON as it is, with `Content-Type: application/json`")
}

/// The client's word for a request: 1 to 255 printable characters of ASCII, once.
fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut values = headers.get_all("idempotency-key").iter();
    let Some(value) = values.next() else { return Ok(None) };
    let is_printable = |value: &HeaderValue| (1..=255).contains(&value.len()) && value.as_bytes().iter().all(|b| (b' '..=b'~').contains(b));
    match values.next().is_none() && is_printable(value) {
        true => Ok(value.to_str().ok().map(str::to_owned)),
        false => Err(Problem::new(
            Code::BadRequest,
            "the Idempotency-Key must be there once, with 1 to 255 printable characters of ASCII",
            "make one at random for each request, such as a UUID",
        )),
    }
}

/// The query of a request.
#[derive(Debug)]
pub(crate) struct Filter<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<Arc<Serving>> for Filter<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Serving>) -> Result<Self, Problem> {
        let read = Query::try_from_uri(&parts.uri);
        read.map(|Query(filter)| Self(filter)).map_err(|error| {
            Problem::new(Code::BadQuery, shortened(&error.to_string()), "see /v1/openapi.json for the parameters that there are")
        })
    }
}

/// A query that has no parameters.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoFilter {}

/// Whoever asks: there is one wherever the gate has let somebody pass.
#[derive(Debug)]
pub(crate) struct By(pub(crate) Caller);

impl FromRequestParts<Arc<Serving>> for By {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Serving>) -> Result<Self, Problem> {
        parts.extensions.get::<Caller>().cloned().map(Self).ok_or_else(Problem::internal)
    }
}

/// A body that says nothing.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

impl Wanted for Nothing {
    const MOST_BYTES: usize = 16;
    const IS_OPTIONAL: bool = true;
}

/// The one name in a path.
#[derive(Debug)]
pub(crate) struct Name(pub(crate) String);

impl FromRequestParts<Arc<Serving>> for Name {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, serving: &Arc<Serving>) -> Result<Self, Problem> {
        let path = Path::from_request_parts(parts, serving).await;
        path.map(|Path(name)| Self(name)).map_err(|_| Problem::not_found("path", parts.uri.path()))
    }
}

/// The two names in a path.
#[derive(Debug)]
pub(crate) struct Two(pub(crate) String, pub(crate) String);

impl FromRequestParts<Arc<Serving>> for Two {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, serving: &Arc<Serving>) -> Result<Self, Problem> {
        let path = Path::from_request_parts(parts, serving).await;
        path.map(|Path((one, other))| Self(one, other)).map_err(|_| Problem::not_found("path", parts.uri.path()))
    }
}

/// A name in a path, of which anything that is not its form names nothing.
pub(crate) fn named<T: std::str::FromStr>(what: &str, text: &str) -> Result<T, Problem> {
    text.parse().map_err(|_| Problem::not_found(what, text))
}
