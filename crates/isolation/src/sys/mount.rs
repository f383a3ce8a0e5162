//! Attributes of a mount that is not attached anywhere yet.

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

/// Sets attributes (`libc::MOUNT_ATTR_*`) on a detached mount; `user_namespace` gives the id map for `MOUNT_ATTR_IDMAP`.
pub(crate) fn set_attributes(mount: BorrowedFd<'_>, attributes: u64, user_namespace: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
    let mut request = libc::mount_attr {
        attr_set: attributes | if user_namespace.is_some() { libc::MOUNT_ATTR_IDMAP } else { 0 },
        attr_clr: 0,
        propagation: libc::MS_PRIVATE,
        userns_fd: user_namespace.map_or(0, |fd| fd.as_raw_fd() as u64),
    };
    // SAFETY: an empty path with AT_EMPTY_PATH means the descriptor itself; `request` outlives the call and its size is passed.
    super::checked(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            &raw mut request,
            size_of::<libc::mount_attr>(),
        )
    })
    .map(drop)
}
