//! When a connection rests: from the end of one answer to the next request.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Frame, SizeHint};

use super::peers::Place;

/// A request that is being answered, until this is dropped.
#[derive(Debug)]
pub(super) struct Answering(Arc<Place>);

impl Answering {
    pub(super) fn on(place: &Arc<Place>) -> Self {
        place.work();
        Self(place.clone())
    }

    /// The body of the answer, with which it is over.
    pub(super) fn until_told(self, body: Body) -> Body {
        Body::new(Telling { body, _answering: self })
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.rest();
    }
}

/// The body of an answer.
#[derive(Debug)]
struct Telling {
    body: Body,
    _answering: Answering,
}

impl http_body::Body for Telling {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
