//! Kernel keyrings.

use rustix::io::Errno;

/// Joins a new, empty session keyring, so that the launcher's keys cannot be found.
pub(crate) fn join_new_session() -> Result<(), Errno> {
    const KEYCTL_JOIN_SESSION_KEYRING: libc::c_int = 1;
    // SAFETY: a NULL name asks for an anonymous keyring.
    match super::checked(unsafe { libc::syscall(libc::SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, std::ptr::null::<libc::c_char>()) }) {
        Ok(_) | Err(Errno::NOSYS) => Ok(()),
        Err(errno) => Err(errno),
    }
}
