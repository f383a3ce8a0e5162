//! Steps that fail: what was tried, and the kernel's answer.

use rustix::io::Errno;

/// A step that failed.
#[derive(Debug)]
pub(crate) struct StepError {
    pub(crate) step: String,
    pub(crate) errno: Errno,
}

/// Names the step of an errno.
pub(crate) trait AtStep<T> {
    fn at(self, step: impl FnOnce() -> String) -> Result<T, StepError>;
}

impl<T> AtStep<T> for Result<T, Errno> {
    fn at(self, step: impl FnOnce() -> String) -> Result<T, StepError> {
        self.map_err(|errno| StepError { step: step(), errno })
    }
}

impl<T> AtStep<T> for std::io::Result<T> {
    fn at(self, step: impl FnOnce() -> String) -> Result<T, StepError> {
        self.map_err(|e| StepError { step: step(), errno: Errno::from_io_error(&e).unwrap_or(Errno::IO) })
    }
}

/// The number behind an I/O error.
pub(crate) fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}
