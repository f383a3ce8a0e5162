//! Bodies on their way: counted, and scrubbed where a credential was put in.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;

use crate::exchange::Exchange;
use crate::request::scrub::Scrubber;

/// What can go wrong on the way.
pub(crate) type BodyError = Box<dyn std::error::Error + Send + Sync>;
/// The body of a reply.
pub(crate) type ReplyBody = http_body_util::combinators::UnsyncBoxBody<Bytes, BodyError>;

/// A short text.
pub(crate) fn text(text: String) -> ReplyBody {
    Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync()
}

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Toward {
    Host,
    Client,
}

/// A body of which every byte is counted before it is passed on. It keeps the exchange open.
pub(crate) struct Counted {
    inner: Incoming,
    exchange: Arc<Exchange>,
    toward: Toward,
    scrubber: Option<Scrubber>,
    is_over: bool,
}

impl fmt::Debug for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counted").field("toward", &self.toward).finish_non_exhaustive()
    }
}

impl Counted {
    pub(crate) fn new(inner: Incoming, exchange: Arc<Exchange>, toward: Toward, scrubber: Option<Scrubber>) -> Self {
        Self { inner, exchange, toward, scrubber, is_over: false }
    }

    fn count(&self, bytes: usize) -> Result<(), BodyError> {
        match self.toward {
            Toward::Host => self.exchange.up(bytes)?,
            Toward::Client => self.exchange.down(bytes)?,
        }
        Ok(())
    }

    /// The bytes that may go on of those that came; trailers stay behind.
    fn pass(&mut self, frame: Frame<Bytes>) -> Result<Bytes, BodyError> {
        let bytes = frame.into_data().unwrap_or_default();
        self.count(bytes.len())?;
        Ok(self.scrubber.as_mut().map_or(bytes.clone(), |scrubber| Bytes::from(scrubber.pass(&bytes))))
    }

    fn finish(&mut self) -> Option<Bytes> {
        let left = self.scrubber.as_mut().map(Scrubber::finish).unwrap_or_default();
        (!left.is_empty()).then(|| Bytes::from(left))
    }
}

impl Body for Counted {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        while !this.is_over {
            match ready!(Pin::new(&mut this.inner).poll_frame(context)) {
                Some(Ok(frame)) => match this.pass(frame) {
                    Ok(bytes) if bytes.is_empty() => {}
                    passed => return Poll::Ready(Some(passed.map(Frame::data))),
                },
                Some(Err(error)) => {
                    this.exchange.ended_by(&error.to_string());
                    return Poll::Ready(Some(Err(error.into())));
                }
                None => {
                    this.is_over = true;
                    return Poll::Ready(this.finish().map(|left| Ok(Frame::data(left))));
                }
            }
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        self.is_over || (self.scrubber.is_none() && self.inner.is_end_stream())
    }

    /// What is scrubbed may change its length.
    fn size_hint(&self) -> SizeHint {
        if self.scrubber.is_some() { SizeHint::default() } else { self.inner.size_hint() }
    }
}
