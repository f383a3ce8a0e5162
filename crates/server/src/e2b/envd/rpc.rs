//! Connect, the protocol of the daemon's calls, with its JSON codec: single messages, and streams of messages in envelopes of five bytes and JSON.
//! Source: the Connect protocol reference (connectrpc.com/docs/protocol).

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body_util::BodyExt;
use ringfence_control::SessionError;
use ringfence_isolation::FileError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::sync::mpsc;

use crate::connection::Line;
use crate::e2b::error::E2bError;
use crate::reply::Parts;
use crate::serving::Serving;

/// Bytes of one message at most.
const MOST_BYTES: usize = 16 << 20;
/// The flag of an envelope that ends a stream, and of one that is compressed.
const END: u8 = 0b10;
const COMPRESSED: u8 = 0b1;
/// How often a stream says something, where the client does not say.
const KEEPALIVE: Duration = Duration::from_secs(90);

/// How long the end of a request may come after its only message.
const END_OF_REQUEST: Duration = Duration::from_millis(200);

/// The codes of errors that are used here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    InvalidArgument,
    DeadlineExceeded,
    NotFound,
    AlreadyExists,
    PermissionDenied,
    ResourceExhausted,
    FailedPrecondition,
    Unimplemented,
    Internal,
    Unavailable,
    Unauthenticated,
}

impl Status {
    fn word(self) -> &'static str {
        match self {
            Self::InvalidArgument => "invalid_argument",
            Self::DeadlineExceeded => "deadline_exceeded",
            Self::NotFound => "not_found",
            Self::AlreadyExists => "already_exists",
            Self::PermissionDenied => "permission_denied",
            Self::ResourceExhausted => "resource_exhausted",
            Self::FailedPrecondition => "failed_precondition",
            Self::Unimplemented => "unimplemented",
            Self::Internal => "internal",
            Self::Unavailable => "unavailable",
            Self::Unauthenticated => "unauthenticated",
        }
    }

    fn http(self) -> StatusCode {
        match self {
            Self::InvalidArgument | Self::FailedPrecondition => StatusCode::BAD_REQUEST,
            Self::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::AlreadyExists => StatusCode::CONFLICT,
            Self::PermissionDenied => StatusCode::FORBIDDEN,
            Self::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
            Self::Unimplemented => StatusCode::NOT_IMPLEMENTED,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
        }
    }
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) status: Status,
    pub(super) message: String,
}

impl Fault {
    pub(super) fn new(status: Status, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Status::InvalidArgument, message)
    }

    fn body(&self) -> serde_json::Value {
        json!({ "code": self.status.word(), "message": self.message })
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        (self.status.http(), axum::Json(self.body())).into_response()
    }
}

impl From<FileError> for Fault {
    fn from(error: FileError) -> Self {
        let status = match &error {
            FileError::Missing { .. } => Status::NotFound,
            FileError::Exists { is_folder: true, .. } => Status::AlreadyExists,
            FileError::Denied { .. } => Status::PermissionDenied,
            FileError::Full { .. } | FileError::TooMany { .. } => Status::ResourceExhausted,
            FileError::Failed { .. } => Status::Internal,
            FileError::Exists { is_folder: false, .. }
            | FileError::Path { .. }
            | FileError::IsFolder { .. }
            | FileError::NotFolder { .. }
            | FileError::Special { .. }
            | FileError::Unfit { .. } => Status::InvalidArgument,
        };
        Self::new(status, error.to_string())
    }
}

impl From<SessionError> for Fault {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::File(error) => error.into(),
            SessionError::NoCommand { .. } => Self::new(Status::NotFound, error.to_string()),
            SessionError::Refused(refusal) => Self::new(Status::PermissionDenied, format!("{}; {}", refusal.rule, refusal.hint)),
            SessionError::Commands { .. } | SessionError::InputFull | SessionError::Busy { .. } => {
                Self::new(Status::ResourceExhausted, error.to_string())
            }
            SessionError::Cell(error) => Self::invalid(error.to_string()),
            SessionError::Gone => Self::new(Status::Unavailable, "the sandbox has ended"),
            SessionError::NotBegun { .. } | SessionError::Run(_) | SessionError::Failed { .. } => {
                Self::new(Status::Internal, "something failed on the server's side; its log says what")
            }
        }
    }
}

impl From<E2bError> for Fault {
    fn from(error: E2bError) -> Self {
        Self::invalid(error.message)
    }
}

/// The one message of a call.
pub(super) async fn unary<T: DeserializeOwned>(serving: &Serving, request: Request) -> Result<T, Fault> {
    let mut body = request.into_body();
    let mut bytes = BytesMut::new();
    while let Some(more) = next_bytes(serving, &mut body).await? {
        bytes.extend_from_slice(&more);
        if bytes.len() > MOST_BYTES {
            return Err(too_large());
        }
    }
    parse(if bytes.is_empty() { b"{}" } else { &bytes })
}

/// The message with which a stream is asked for.
pub(super) async fn first<T: DeserializeOwned>(serving: &Serving, request: Request) -> Result<T, Fault> {
    let mut messages = Messages::of(request);
    let first = messages.next(serving).await?.ok_or_else(|| Fault::invalid("the request holds no message"))?;
    messages.rest().await;
    Ok(first)
}

fn too_large() -> Fault {
    Fault::new(Status::ResourceExhausted, format!("a message has more than {MOST_BYTES} bytes"))
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Fault> {
    serde_json::from_slice(bytes).map_err(|error| Fault::invalid(format!("the message cannot be read: {error}")))
}

async fn next_bytes(serving: &Serving, body: &mut Body) -> Result<Option<Bytes>, Fault> {
    loop {
        let frame = tokio::time::timeout(serving.limits.body_time, body.frame()).await;
        let frame = frame.map_err(|_| Fault::new(Status::DeadlineExceeded, "the request did not come in time"))?;
        match frame {
            None => return Ok(None),
            Some(Err(_)) => return Err(Fault::invalid("the request breaks off")),
            Some(Ok(frame)) => {
                if let Ok(bytes) = frame.into_data() {
                    return Ok(Some(bytes));
                }
            }
        }
    }
}

/// The messages of a request that comes as a stream.
pub(super) struct Messages {
    body: Body,
    held: BytesMut,
}

impl Messages {
    pub(super) fn of(request: Request) -> Self {
        Self { body: request.into_body(), held: BytesMut::new() }
    }

    /// The next message; `None` at the end of the request.
    pub(super) async fn next<T: DeserializeOwned>(&mut self, serving: &Serving) -> Result<Option<T>, Fault> {
        loop {
            if let Some(message) = self.take()? {
                return parse(&message).map(Some);
            }
            match next_bytes(serving, &mut self.body).await? {
                Some(bytes) => self.held.extend_from_slice(&bytes),
                None if self.held.is_empty() => return Ok(None),
                None => return Err(Fault::invalid("the request ends within a message")),
            }
        }
    }

    /// Reads the end of a request that has said all: its connection can be used again. One that does not end by then is closed after the answer.
    async fn rest(&mut self) {
        let end = async { while let Some(Ok(_)) = self.body.frame().await {} };
        tokio::time::timeout(END_OF_REQUEST, end).await.unwrap_or_default();
    }

    /// A whole message, if it is there.
    fn take(&mut self) -> Result<Option<Bytes>, Fault> {
        let Some(mut head) = self.held.get(..5) else { return Ok(None) };
        let (flags, length) = (head.get_u8(), head.get_u32() as usize);
        if flags & COMPRESSED != 0 {
            return Err(Fault::new(Status::Unimplemented, "messages are not compressed here"));
        }
        if length > MOST_BYTES {
            return Err(too_large());
        }
        if self.held.len() < 5 + length {
            return Ok(None);
        }
        self.held.advance(5);
        Ok(Some(self.held.split_to(length).freeze()))
    }
}

/// A message in its envelope.
fn envelope(flags: u8, message: &impl Serialize) -> Bytes {
    let json = serde_json::to_vec(message).unwrap_or_default();
    let mut bytes = BytesMut::with_capacity(5 + json.len());
    bytes.put_u8(flags);
    bytes.put_u32(u32::try_from(json.len()).unwrap_or(u32::MAX));
    bytes.put_slice(&json);
    bytes.freeze()
}

/// A stream of messages on its way to a client.
pub(super) struct Outgoing {
    parts: mpsc::Sender<std::io::Result<Bytes>>,
    line: Line,
}

/// Messages that go together.
#[derive(Default)]
pub(super) struct Batch(BytesMut);

/// Bytes that do not wait for more to go with them.
const LARGE: usize = 64 << 10;

impl Batch {
    pub(super) fn add(&mut self, message: &impl Serialize) {
        self.0.extend_from_slice(&envelope(0, message));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn is_large(&self) -> bool {
        self.0.len() >= LARGE
    }
}

impl Outgoing {
    /// The stream, and the response that carries it on this connection.
    pub(super) fn new(line: Line) -> (Self, Response) {
        let (parts, body) = Parts::channel();
        let mut response = body.into_response();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/connect+json"));
        (Self { parts, line }, response)
    }

    /// Sends a message; false if the client is gone.
    pub(super) async fn send(&self, message: &impl Serialize) -> bool {
        self.parts.send(Ok(envelope(0, message))).await.is_ok()
    }

    /// Sends what waits; false if the client is gone.
    pub(super) async fn send_batch(&self, batch: &mut Batch) -> bool {
        batch.is_empty() || self.parts.send(Ok(std::mem::take(&mut batch.0).freeze())).await.is_ok()
    }

    /// Ends the stream after what waits, well or with a fault.
    pub(super) async fn end(self, mut waiting: Batch, fault: Option<&Fault>) {
        let last = fault.map_or_else(|| json!({}), |fault| json!({ "error": fault.body() }));
        waiting.0.extend_from_slice(&envelope(END, &last));
        self.send_batch(&mut waiting).await; // a client that is gone needs no end
    }

    /// Breaks the connection off, as one does whose sandbox is gone.
    pub(super) async fn break_off(self) {
        let broken = std::io::Error::from(std::io::ErrorKind::ConnectionAborted);
        self.line.break_off();
        self.parts.send(Err(broken)).await.unwrap_or_default();
    }

    /// Waits until the client is gone.
    pub(super) async fn gone(&self) {
        self.parts.closed().await;
    }
}

/// A stream that fails before its first message, in the form in which streams fail.
pub(super) fn failed_stream(fault: &Fault) -> Response {
    let last = envelope(END, &json!({ "error": fault.body() }));
    let mut response = last.into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/connect+json"));
    response
}

/// A stream that is over already, with its last message.
pub(super) fn whole(mut waiting: Batch, last: &impl Serialize) -> Response {
    waiting.add(last);
    waiting.0.extend_from_slice(&envelope(END, &json!({})));
    let mut response = waiting.0.freeze().into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/connect+json"));
    response
}

/// The one message with which a stream of requests is answered.
pub(super) fn single(message: &impl Serialize) -> Response {
    let body = [envelope(0, message), envelope(END, &json!({}))].concat();
    let mut response = body.into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/connect+json"));
    response
}

/// The connection on which a call came.
pub(super) fn line(request: &Request) -> Line {
    request.extensions().get::<Line>().cloned().unwrap_or_default()
}

/// How long what a call starts may take, as the client says it: milliseconds, of which zero is no limit.
pub(super) fn deadline(headers: &HeaderMap) -> Option<Duration> {
    number(headers, "connect-timeout-ms").filter(|ms| *ms > 0).map(Duration::from_millis)
}

/// How often a client wants to hear something.
pub(super) fn keepalive(headers: &HeaderMap) -> Duration {
    number(headers, "keepalive-ping-interval").filter(|seconds| *seconds > 0).map_or(KEEPALIVE, Duration::from_secs)
}

fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.parse().ok()
}

/// Work on files, on a thread that may wait.
pub(super) async fn blocking<T: Send + 'static>(
    serving: &Arc<Serving>,
    work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|panic| {
        serving.log(&format!("failed: {panic}"));
        Fault::new(Status::Internal, "the server could not do this")
    })?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(bytes: &[u8]) -> Messages {
        Messages { body: Body::empty(), held: BytesMut::from(bytes) }
    }

    #[test]
    fn messages_come_whole_or_not_yet() {
        let bytes = [envelope(0, &json!({"a": 1})), envelope(0, &json!({"b": 2}))].concat();
        for cut in 0..bytes.len() {
            let mut some = messages(&bytes[..cut]);
            let mut whole = 0;
            while some.take().unwrap().is_some() {
                whole += 1;
            }
            assert_eq!(whole, usize::from(cut >= 12) + usize::from(cut >= 24), "{cut}");
        }
    }

    #[test]
    fn what_is_too_long_or_compressed_is_refused_before_it_is_read() {
        assert!(messages(&[0, 0xff, 0xff, 0xff, 0xff]).take().is_err());
        assert!(messages(&[1, 0, 0, 0, 1, b'{']).take().is_err());
    }
}
