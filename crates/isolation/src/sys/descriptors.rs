//! Descriptors of this process.

use rustix::io::Errno;

/// Closes every descriptor from `first` on.
pub(crate) fn close_from(first: u32) -> Result<(), Errno> {
    // SAFETY: closing by number, in a forked child that owns nothing at or above `first` that it uses again.
    super::checked(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) }).map(drop)
}
