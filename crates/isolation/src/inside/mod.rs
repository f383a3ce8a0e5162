//! What runs inside the sandbox before and beside the program: it builds the view, becomes PID 1, and starts commands.
//!
//! This is our own binary, executed again with an empty environment and one descriptor, so that nothing of the launcher's memory is here.

mod build;
mod command;
mod confine;
mod copy;
mod init;

use std::os::fd::AsFd;

use crate::control::{CONTROL_FD, INIT_NAME, Report, send};

/// Becomes init if this process was started to be one, and then never returns. The first thing that `main` calls.
pub fn become_init_if_asked() {
    if std::env::args_os().next().is_some_and(|name| name == INIT_NAME) {
        let control = crate::sys::sockets::inherited(CONTROL_FD);
        if let Err(error) = init::run(&control) {
            let report = Report::Failed { step: error.step, errno: error.errno.raw_os_error() };
            // The supervisor may be gone: then nobody is left to hear it.
            send(control.as_fd(), &report, &[]).unwrap_or_default();
        }
        crate::sys::clone::exit_now(1);
    }
}
