//! Signal dispositions and masks, which a program inherits from whoever started it.

use rustix::fd::{FromRawFd, OwnedFd};
use rustix::io::Errno;

use super::raw::syscall;

/// The kernel's `struct sigaction`: handler, flags, restorer (not on every architecture, zero is harmless there), mask.
type Action = [usize; 4];

/// Bytes of the kernel's signal set.
const SET: usize = 8;

/// Gives every signal its default action and unblocks them all.
pub(crate) fn reset_all() -> Result<(), Errno> {
    for signal in (1..=64).filter(|signal| ![libc::SIGKILL, libc::SIGSTOP].contains(signal)) {
        set(signal, libc::SIG_DFL)?;
    }
    unblock_all()
}

/// Ignores a signal in this process and in programs that it starts.
pub(crate) fn ignore(signal: i32) -> Result<(), Errno> {
    set(signal, libc::SIG_IGN)
}

fn set(signal: i32, handler: usize) -> Result<(), Errno> {
    let action: Action = [handler, 0, 0, 0];
    // SAFETY: the kernel reads one `sigaction`, which outlives the call; SIG_DFL and SIG_IGN are valid for every signal but the two left out.
    unsafe { syscall(libc::SYS_rt_sigaction, [signal as usize, action.as_ptr() as usize, 0, SET, 0, 0]) }.map(drop)
}

/// Unblocks every signal.
pub(crate) fn unblock_all() -> Result<(), Errno> {
    mask(libc::SIG_SETMASK, 0)
}

fn mask(how: i32, signals: u64) -> Result<(), Errno> {
    // SAFETY: the kernel reads one signal set, which outlives the call.
    unsafe { syscall(libc::SYS_rt_sigprocmask, [how as usize, &raw const signals as usize, 0, SET, 0, 0]) }.map(drop)
}

/// A descriptor that becomes readable when a child ends.
pub(crate) fn child_ended_descriptor() -> Result<OwnedFd, Errno> {
    let signals = 1u64 << (libc::SIGCHLD - 1);
    mask(libc::SIG_BLOCK, signals)?;
    let flags = (libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) as usize;
    // SAFETY: the kernel reads one signal set, which outlives the call.
    let descriptor = unsafe { syscall(libc::SYS_signalfd4, [usize::MAX, &raw const signals as usize, SET, flags, 0, 0])? };
    // SAFETY: the kernel has just made it, for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as i32) })
}
