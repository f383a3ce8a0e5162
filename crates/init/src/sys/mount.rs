//! Attributes of a mount.

use alloc::ffi::CString;

use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io::Errno;

use super::raw::syscall;

/// A mount.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Mounted<'a> {
    /// Attached at a path.
    At(&'a [u8]),
    /// Not attached yet.
    Nowhere(BorrowedFd<'a>),
}

/// Sets attributes (`libc::MOUNT_ATTR_*`) beside those that it has, and makes it private.
pub(crate) fn set_attributes(mount: Mounted<'_>, attributes: u64) -> Result<(), Errno> {
    let (folder, path, flags) = match mount {
        Mounted::At(path) => (libc::AT_FDCWD, CString::new(path).map_err(|_| Errno::INVAL)?, 0),
        // An empty path means the descriptor itself.
        Mounted::Nowhere(descriptor) => (descriptor.as_raw_fd(), CString::default(), libc::AT_EMPTY_PATH),
    };
    let request = libc::mount_attr { attr_set: attributes, attr_clr: 0, propagation: libc::MS_PRIVATE, userns_fd: 0 };
    let (request, size) = (&raw const request as usize, size_of::<libc::mount_attr>());
    // SAFETY: the path is NUL-terminated; it and `request`, whose size is passed, outlive the call.
    unsafe { syscall(libc::SYS_mount_setattr, [folder as usize, path.as_ptr() as usize, flags as usize, request, size, 0]) }.map(drop)
}
