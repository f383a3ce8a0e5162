//! Replacing this process by a program.

use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

/// A NULL-terminated array of pointers to strings that live as long as `self`.
pub(crate) struct StringArray<'a> {
    pointers: Vec<*const libc::c_char>,
    _strings: &'a [CString],
}

impl<'a> StringArray<'a> {
    pub(crate) fn of(strings: &'a [CString]) -> Self {
        let pointers = strings.iter().map(|s| s.as_ptr()).chain(std::iter::once(std::ptr::null())).collect();
        Self { pointers, _strings: strings }
    }
}

/// Runs the program at `path`; returns only if that failed.
pub(crate) fn execve(path: &CStr, argv: &StringArray<'_>, environment: &StringArray<'_>) -> Errno {
    // SAFETY: `path` and both arrays are valid, NUL- and NULL-terminated for the whole call (StringArray borrows its strings).
    let returned = unsafe { libc::execve(path.as_ptr(), argv.pointers.as_ptr(), environment.pointers.as_ptr()) };
    super::checked(returned.into()).err().unwrap_or(Errno::IO)
}

/// Runs the program behind a descriptor; returns only if that failed.
pub(crate) fn execveat(program: BorrowedFd<'_>, argv: &StringArray<'_>, environment: &StringArray<'_>) -> Errno {
    // SAFETY: as in `execve`; an empty path with AT_EMPTY_PATH means the descriptor itself.
    let returned = unsafe {
        libc::syscall(
            libc::SYS_execveat,
            program.as_raw_fd(),
            c"".as_ptr(),
            argv.pointers.as_ptr(),
            environment.pointers.as_ptr(),
            libc::AT_EMPTY_PATH,
        )
    };
    super::checked(returned).err().unwrap_or(Errno::IO)
}

/// Marks every descriptor from `first` on as closed at the next exec, or closes it at once.
pub(crate) fn close_from(first: u32, at_exec: bool) -> Result<(), Errno> {
    let flags = if at_exec { libc::CLOSE_RANGE_CLOEXEC } else { 0 };
    // SAFETY: closing by number; the callers are about to exec or own nothing at or above `first`.
    super::checked(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, flags) }).map(drop)
}

/// Makes `descriptor` known under `number` too, replacing what was there.
pub(crate) fn place(descriptor: BorrowedFd<'_>, number: i32) -> Result<(), Errno> {
    // SAFETY: in a forked child about to exec, in which nothing owns `number` but descriptors that are never used again.
    super::checked(unsafe { libc::dup3(descriptor.as_raw_fd(), number, libc::O_CLOEXEC) }.into()).map(drop)
}

/// Lets the descriptor `number` stay open over exec; every other one above 2 was marked to be closed.
pub(crate) fn keep_only(number: i32) -> Result<(), Errno> {
    // SAFETY: clears the close-on-exec flag of one descriptor.
    super::checked(unsafe { libc::fcntl(number, libc::F_SETFD, 0) }.into()).map(drop)
}
