//! A connection as the server reads and writes it: framed strictly, and given up when a head takes too long from its first byte, when nothing was ever asked,
//! and when a client takes nothing of what is sent to it for too long.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::framing::Framing;
use super::line::{Line, Resetting};
use crate::limits::Limits;

/// Stands where a request has no single meaning: no reader takes it for part of one.
const NO_REQUEST: u8 = 0;

/// A connection that is read strictly and written with a limit.
#[derive(Debug)]
pub(super) struct Paced<S: Resetting> {
    inner: S,
    line: Line,
    framing: Framing,
    pause: Duration,
    waiting: Option<Pin<Box<Sleep>>>,
    head_time: Duration,
    /// The head that is awaited, by its number, and until when.
    head: Option<(u64, Pin<Box<Sleep>>)>,
}

impl<S: Resetting> Drop for Paced<S> {
    fn drop(&mut self) {
        if self.line.is_broken_off() {
            self.inner.reset_when_closed();
        }
    }
}

impl<S: Resetting> Paced<S> {
    pub(super) fn new(inner: S, line: Line, limits: &Limits) -> Self {
        let framing = Framing::new(2 * limits.head_bytes);
        Self { inner, line, framing, pause: limits.write_pause, waiting: None, head_time: limits.head_time, head: None }
    }

    /// Whether the head that is being read, or the first one, has had its time. Between two requests there is no such time.
    fn is_late(&mut self, context: &mut Context<'_>) -> bool {
        let (number, time) = (self.framing.heads(), self.head_time);
        if self.head.as_ref().is_some_and(|(awaited, _)| *awaited != number) {
            self.head = None;
        }
        let is_awaited = number == 0 || self.framing.is_in_head();
        is_awaited && self.head.get_or_insert_with(|| (number, Box::pin(sleep(time)))).1.as_mut().poll_deadline(context)
    }

    /// Whatever was written starts the wait anew; where nothing is, it goes on.
    fn paced<T>(&mut self, context: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.waiting = None;
            return polled;
        }
        let pause = self.pause;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(pause)));
        match waiting.as_mut().poll_deadline(context) {
            true => Poll::Ready(Err(io::Error::from(io::ErrorKind::TimedOut))),
            false => Poll::Pending,
        }
    }
}

/// Whether the time has come.
trait Deadline {
    fn poll_deadline(self, context: &mut Context<'_>) -> bool;
}

impl Deadline for Pin<&mut Sleep> {
    fn poll_deadline(self, context: &mut Context<'_>) -> bool {
        self.deadline() <= Instant::now() || std::future::Future::poll(self, context).is_ready()
    }
}

impl<S: AsyncRead + Resetting + Unpin> AsyncRead for Paced<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.line.is_opaque() {
            return Pin::new(&mut self.inner).poll_read(context, buffer);
        }
        if self.framing.is_broken() {
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(context, buffer);
        if read.is_pending() && self.is_late(context) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        ready!(read)?;
        let followed = self.framing.follow(&buffer.filled()[before..]);
        if let Err(ambiguous) = followed {
            buffer.set_filled(before + ambiguous.sound);
            buffer.put_slice(&[NO_REQUEST]);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Resetting + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.paced(context, polled)
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write_vectored(context, bytes);
        self.paced(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.inner).poll_flush(context);
        self.paced(context, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.inner).poll_shutdown(context);
        self.paced(context, polled)
    }
}
