//! A command's terminal: made under the agent's own id, so that it is the agent's; its master side goes to the supervisor.

use ringfence_wire::{Report, Window};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::process::ioctl_tiocsctty;
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::links::send;

/// Makes a terminal for this session and takes it as all three streams. The socket to the supervisor, whose number one of them takes, is used for the
/// last time.
pub(crate) fn take(id: u32, window: Window, control: &OwnedFd) -> Result<(), Errno> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags)?;
    unlockpt(&master)?;
    tcsetwinsize(&master, Winsize { ws_row: window.rows, ws_col: window.columns, ws_xpixel: 0, ws_ypixel: 0 })?;
    // Opened without a path: what is mounted at `/dev` decides nothing here.
    let terminal = ioctl_tiocgptpeer(&master, flags)?;
    ioctl_tiocsctty(&terminal)?;
    send(control, &Report::Terminal { id }, &[master.as_fd()])?;
    rustix::stdio::dup2_stdin(&terminal)?;
    rustix::stdio::dup2_stdout(&terminal)?;
    rustix::stdio::dup2_stderr(&terminal)
}
