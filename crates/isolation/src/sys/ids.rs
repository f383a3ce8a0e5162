//! User and group ids of this process. Raw calls: glibc's wrappers act on all threads, and these processes have one.

use rustix::io::Errno;

/// Sets the real, effective and saved user id.
pub(crate) fn set_user(uid: u32) -> Result<(), Errno> {
    // SAFETY: three plain integers.
    super::checked(unsafe { libc::syscall(libc::SYS_setresuid, uid, uid, uid) }).map(drop)
}

/// Sets the real, effective and saved group id.
pub(crate) fn set_group(gid: u32) -> Result<(), Errno> {
    // SAFETY: three plain integers.
    super::checked(unsafe { libc::syscall(libc::SYS_setresgid, gid, gid, gid) }).map(drop)
}

/// Drops every supplementary group.
pub(crate) fn drop_groups() -> Result<(), Errno> {
    // SAFETY: a count of zero reads no memory.
    super::checked(unsafe { libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>()) }).map(drop)
}
