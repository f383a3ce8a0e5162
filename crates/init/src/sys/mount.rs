//! Attributes of a mount that is not attached anywhere yet.

use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io::Errno;

use super::raw::syscall;

/// Sets attributes (`libc::MOUNT_ATTR_*`) on a detached mount, and makes it private.
pub(crate) fn set_attributes(mount: BorrowedFd<'_>, attributes: u64) -> Result<(), Errno> {
    let request = libc::mount_attr { attr_set: attributes, attr_clr: 0, propagation: libc::MS_PRIVATE, userns_fd: 0 };
    let (path, size) = (c"".as_ptr() as usize, size_of::<libc::mount_attr>());
    // SAFETY: an empty path with AT_EMPTY_PATH means the descriptor itself; `request` outlives the call and its size is passed.
    unsafe {
        syscall(
            libc::SYS_mount_setattr,
            [mount.as_raw_fd() as usize, path, libc::AT_EMPTY_PATH as usize, &raw const request as usize, size, 0],
        )
    }
    .map(drop)
}
