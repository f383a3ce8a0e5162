//! Loading a system call filter.

use rustix::io::Errno;

/// Puts the filter in force for this process and all that it starts. `no_new_privs` must be set.
pub(crate) fn load(program: &[libc::sock_filter]) -> Result<(), Errno> {
    let length = u16::try_from(program.len()).map_err(|_| Errno::INVAL)?;
    let program = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut() };
    // SAFETY: the kernel copies `len` instructions from `filter`, a slice that outlives the call, and writes nothing.
    super::checked(unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program) }).map(drop)
}
