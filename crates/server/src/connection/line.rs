//! What an answer can do to the connection on which it is given: break it off, or go on in another protocol.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// One connection, for whoever answers on it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Line(Arc<Marks>);

#[derive(Debug, Default)]
struct Marks {
    is_broken_off: AtomicBool,
    is_opaque: AtomicBool,
}

impl Line {
    /// The connection will end with a reset: clients tell that from an answer that a server did not finish.
    pub(crate) fn break_off(&self) {
        self.0.is_broken_off.store(true, Ordering::Release);
    }

    /// What comes from here on is no HTTP any more.
    pub(crate) fn go_opaque(&self) {
        self.0.is_opaque.store(true, Ordering::Release);
    }

    pub(super) fn is_broken_off(&self) -> bool {
        self.0.is_broken_off.load(Ordering::Acquire)
    }

    pub(super) fn is_opaque(&self) -> bool {
        self.0.is_opaque.load(Ordering::Acquire)
    }
}

/// A stream that can be ended with a reset.
pub(super) trait Resetting {
    /// Closing it is a reset from here on. Where that cannot be set it is closed as usual.
    fn reset_when_closed(&self);
}

impl Resetting for TcpStream {
    fn reset_when_closed(&self) {
        self.set_zero_linger().unwrap_or_default();
    }
}

impl Resetting for TlsStream<TcpStream> {
    fn reset_when_closed(&self) {
        self.get_ref().0.reset_when_closed();
    }
}
