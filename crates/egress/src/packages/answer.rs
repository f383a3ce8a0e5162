//! What is said inside: a page, a file, or why not. The rule stands in the status line, in the body and, for npm, in its `error` field, since
//! each client shows its person another part.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::{Either, Full};
use hyper::body::{Body, Frame, SizeHint};
use hyper::ext::ReasonPhrase;
use tokio::io::{AsyncRead as _, ReadBuf};

use super::cache::Verified;
use super::rules::Refusal;

/// A page or a file.
pub(crate) type Answer = Response<Either<Full<Bytes>, FileBody>>;

/// Why something is not had, for whoever asks from inside. What an upstream said is not repeated.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum Denied {
    #[error("{0}")]
    Refused(#[from] Refusal),
    #[error("ringfence: the index has no {0}")]
    Absent(String),
    #[error("ringfence: only GET is answered")]
    Method,
    #[error("ringfence: the index of {ecosystem} packages cannot be used: {why}")]
    Upstream { ecosystem: ringfence_policy::Ecosystem, why: String },
    #[error("ringfence: limit `{0}` is reached")]
    Limit(&'static str),
    #[error("ringfence: this cannot be recorded, so it is not served")]
    Unrecorded,
    #[error("ringfence: packages cannot be kept on this host")]
    Storage,
}

impl Denied {
    fn status(&self) -> StatusCode {
        match self {
            Self::Refused(_) | Self::Limit(_) => StatusCode::FORBIDDEN,
            Self::Absent(_) => StatusCode::NOT_FOUND,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Upstream { .. } => StatusCode::BAD_GATEWAY,
            Self::Unrecorded | Self::Storage => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// The answer as text.
    pub(crate) fn answer(&self) -> Answer {
        self.with_body("text/plain; charset=utf-8", format!("{self}\n"))
    }

    /// The answer as npm reads it.
    pub(crate) fn answer_json(&self) -> Answer {
        self.with_body("application/json", serde_json::json!({ "error": self.to_string() }).to_string())
    }

    /// The answer for a client that asks again on some statuses before it shows anything.
    pub(crate) fn answer_once(&self) -> Answer {
        let mut answer = self.answer();
        if answer.status() == StatusCode::BAD_GATEWAY {
            *answer.status_mut() = StatusCode::GATEWAY_TIMEOUT;
        }
        answer
    }

    fn with_body(&self, content_type: &'static str, body: String) -> Answer {
        let mut answer = page(content_type, body);
        *answer.status_mut() = self.status();
        let is_plain = |c: &char| c.is_ascii_graphic() || *c == ' ';
        let reason: String = self.to_string().chars().filter(is_plain).take(200).collect();
        if let Ok(reason) = ReasonPhrase::try_from(reason.into_bytes()) {
            answer.extensions_mut().insert(reason);
        }
        answer
    }
}

/// A page.
pub(crate) fn page(content_type: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Either::Left(Full::new(body.into())));
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    // Which packages there are changes with the grant and the clock.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

/// A file whose bytes were checked.
pub(crate) fn file(verified: Verified) -> Answer {
    let left = verified.digests.bytes();
    let mut answer = Response::new(Either::Right(FileBody { file: tokio::fs::File::from_std(verified.file), left }));
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    answer.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(left));
    answer
}

/// The bytes of a file, in pieces.
#[derive(Debug)]
pub(crate) struct FileBody {
    file: tokio::fs::File,
    left: u64,
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let mut piece = vec![0; usize::try_from(self.left).unwrap_or(usize::MAX).min(128 << 10)];
        let mut buffer = ReadBuf::new(&mut piece);
        ready!(Pin::new(&mut self.file).poll_read(context, &mut buffer))?;
        let read = buffer.filled().len();
        if read == 0 {
            return Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into())));
        }
        self.left -= read as u64;
        piece.truncate(read);
        Poll::Ready(Some(Ok(Frame::data(piece.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
