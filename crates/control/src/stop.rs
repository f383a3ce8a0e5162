//! Whether the caller wants a run to stop.

use std::cell::Cell;
use std::io;
use std::os::fd::BorrowedFd;

use ringfence_evidence::RunEnd;
use ringfence_isolation::{End, stop_signal};

use crate::ending;
use crate::report::RunReport;

/// Whether the caller has asked to stop, and by which signal.
pub(crate) struct Stop<'a> {
    cancel: Option<BorrowedFd<'a>>,
    signal: Cell<Option<i32>>,
}

impl<'a> Stop<'a> {
    pub(crate) fn of(cancel: Option<BorrowedFd<'a>>) -> Self {
        Self { cancel, signal: Cell::new(None) }
    }

    pub(crate) fn is_asked(&self) -> bool {
        let asked = self.signal.get().or_else(|| self.cancel.and_then(stop_signal));
        self.signal.set(asked);
        asked.is_some()
    }

    /// True if it was seen to be asked.
    pub(crate) fn was_asked(&self) -> bool {
        self.signal.get().is_some()
    }

    pub(crate) fn go_on(&self) -> io::Result<()> {
        if self.is_asked() { Err(io::Error::other("interrupted")) } else { Ok(()) }
    }

    pub(crate) fn end(&self, report: &mut RunReport) -> RunEnd {
        let end = End::Interrupted { signal: self.signal.get().unwrap_or(0) };
        report.exit_status = ending::exit_status(&end);
        ending::of(&end)
    }
}
