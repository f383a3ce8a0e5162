//! A connection to somebody who may be hostile, of which little is read before a reply begins.
//!
//! Interim replies (`100 Continue` and its kin) may be as many as a server likes, and a client that passes over them is kept busy for as long as they
//! come: they, and the head of the reply, share one bound.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that may come before a reply has begun, and what is read along with its head.
const MOST: usize = 512 << 10;
/// Nothing is counted.
const LIFTED: usize = usize::MAX;

/// How much may still be read of a connection before its reply begins.
#[derive(Debug, Clone)]
pub struct ReplyHead(Arc<AtomicUsize>);

impl ReplyHead {
    /// A connection, and what is to be told when a reply is waited for and when it has begun.
    pub fn bound<S>(inner: S) -> (ReplyBounded<S>, Self) {
        let head = Self(Arc::new(AtomicUsize::new(MOST)));
        (ReplyBounded { inner, head: head.clone() }, head)
    }

    /// A reply is waited for: what comes from here on is counted.
    pub fn awaited(&self) {
        self.0.store(MOST, Ordering::Release);
    }

    /// It has begun: its body has limits of its own, or none.
    pub fn begun(&self) {
        self.0.store(LIFTED, Ordering::Release);
    }

    /// Counts; a reply that began meanwhile is left as it is.
    fn count(&self, left: usize, read: usize) {
        if left != LIFTED {
            self.0.compare_exchange(left, left.saturating_sub(read), Ordering::AcqRel, Ordering::Acquire).map(drop).unwrap_or_default();
        }
    }
}

/// The connection; reading fails where too much comes before a reply.
#[derive(Debug)]
pub struct ReplyBounded<S> {
    inner: S,
    head: ReplyHead,
}

impl<S: AsyncRead + Unpin> AsyncRead for ReplyBounded<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let left = this.head.0.load(Ordering::Acquire);
        if left == 0 {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, "too much came before a reply")));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.inner).poll_read(context, buffer))?;
        this.head.count(left, buffer.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ReplyBounded<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write(context, bytes)
    }

    fn poll_write_vectored(self: Pin<&mut Self>, context: &mut Context<'_>, parts: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(context)
    }
}
