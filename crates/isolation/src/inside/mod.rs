//! What runs inside the sandbox before and beside the program: it builds the view, becomes PID 1, and starts commands.
//!
//! This is our own binary, executed again with an empty environment and one descriptor, so that nothing of the launcher's memory is here.

mod build;
mod command;
mod confine;
mod copy;
mod init;

use std::os::fd::AsFd;

use rustix::io::Errno;

use crate::control::{CONTROL_FD, INIT_NAME, Report, send};

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

/// Becomes init if this process was started to be one, and then never returns. The first thing that `main` calls.
pub fn become_init_if_asked() {
    if std::env::args_os().next().is_some_and(|name| name == INIT_NAME) {
        let control = crate::sys::sockets::inherited(CONTROL_FD);
        if let Err(error) = init::run(&control) {
            let report = Report::Failed { step: error.step, errno: error.errno.raw_os_error(), detail: String::new() };
            // The supervisor may be gone: then nobody is left to hear it.
            send(control.as_fd(), &report, &[]).unwrap_or_default();
        }
        crate::sys::clone::exit_now(1);
    }
}
