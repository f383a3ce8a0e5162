//! This process and its children.

use core::ffi::CStr;
use core::ptr::null;

use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io::Errno;
use rustix::process::Pid;

use super::raw::syscall;

/// Forks. `None` in the child.
pub(crate) fn fork() -> Result<Option<Pid>, Errno> {
    // SAFETY: a plain fork: without CLONE_VM the child has its own copy of all memory, and stack 0 means the same stack.
    let pid = unsafe { syscall(libc::SYS_clone, [libc::SIGCHLD as usize, 0, 0, 0, 0, 0]) }?;
    Ok(Pid::from_raw(pid as i32))
}

/// Standard output, with which the program was started.
pub(crate) fn stdout() -> BorrowedFd<'static> {
    // SAFETY: who executes the probe gives it three streams, and nothing here closes them but the process that is left behind, which writes nothing.
    unsafe { BorrowedFd::borrow_raw(1) }
}

/// Ends this process at once.
pub(crate) fn exit_now(status: i32) -> ! {
    loop {
        // SAFETY: ends the process; it does not return.
        unsafe { syscall(libc::SYS_exit_group, [status as usize, 0, 0, 0, 0, 0]) }.unwrap_or_default();
    }
}

/// Runs the program that a descriptor stands for, with an empty environment; returns only if that failed.
pub(crate) fn execute(program: BorrowedFd<'_>, [name, argument]: [&CStr; 2]) -> Errno {
    let (argv, environment) = ([name.as_ptr(), argument.as_ptr(), null()], [null::<u8>()]);
    let (path, flags) = (c"".as_ptr() as usize, libc::AT_EMPTY_PATH as usize);
    // SAFETY: an empty path with AT_EMPTY_PATH means the descriptor itself; the strings of both NULL-terminated arrays outlive the call.
    let done = unsafe {
        syscall(libc::SYS_execveat, [program.as_raw_fd() as usize, path, argv.as_ptr() as usize, environment.as_ptr() as usize, flags, 0])
    };
    done.err().unwrap_or(Errno::IO)
}

/// Closes every descriptor, the streams too.
pub(crate) fn close_all() {
    // SAFETY: closing by number; the caller uses none from here on.
    unsafe { syscall(libc::SYS_close_range, [0, u32::MAX as usize, 0, 0, 0, 0]) }.unwrap_or_default();
}

/// Ignores every signal that can be ignored.
pub(crate) fn ignore_signals() {
    let action: [usize; 4] = [libc::SIG_IGN, 0, 0, 0];
    for signal in (1..=64).filter(|signal| *signal != libc::SIGCHLD) {
        // SAFETY: the kernel reads one `sigaction`, which outlives the call; it refuses the two signals that cannot be ignored.
        unsafe { syscall(libc::SYS_rt_sigaction, [signal as usize, action.as_ptr() as usize, 0, 8, 0, 0]) }.unwrap_or_default();
    }
}
