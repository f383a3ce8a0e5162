//! Whether a request was read to its end before it was answered.
//!
//! Where it was not, what is left of it stands before the next request, and the connection is closed. A client that is not told so may have sent the next
//! one already, and does not know what became of it.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use axum::body::Body;
use bytes::Bytes;
use http::header::CONNECTION;
use http::{HeaderValue, Response, StatusCode};
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;

/// The body of a request, which says when it was read to its end.
#[derive(Debug)]
pub(super) struct Watched {
    body: Incoming,
    reading: Reading,
}

/// How far the body of one request was read.
#[derive(Debug, Clone)]
pub(super) struct Reading(Arc<AtomicBool>);

impl Watched {
    pub(super) fn new(body: Incoming) -> (Self, Reading) {
        let reading = Reading(Arc::new(AtomicBool::new(body.is_end_stream())));
        (Self { body, reading: reading.clone() }, reading)
    }
}

impl Reading {
    /// Tells the client that the connection ends with this answer, if it does.
    pub(super) fn mark(&self, response: &mut Response<Body>) {
        if !self.0.load(Ordering::Acquire) && response.status() != StatusCode::SWITCHING_PROTOCOLS {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }
}

impl http_body::Body for Watched {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if frame.is_none() || self.body.is_end_stream() {
            self.reading.0.store(true, Ordering::Release);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
