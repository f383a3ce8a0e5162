//! How other threads tell the one that keeps a session that there is something to see to.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};

/// A counter of the kernel's: readable from the first word on until it is taken.
#[derive(Debug, Clone)]
pub(crate) struct Wake(Arc<OwnedFd>);

impl Wake {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    /// Wakes the keeper. A counter that is full wakes it too.
    pub(crate) fn call(&self) {
        rustix::io::write(&self.0, &1u64.to_ne_bytes()).map(drop).unwrap_or_default();
    }

    /// Takes what was said so far.
    pub(crate) fn take(&self) {
        rustix::io::read(&self.0, &mut [0u8; 8]).map(drop).unwrap_or_default();
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
