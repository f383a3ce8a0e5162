//! Loading a system call filter.

use ringfence_wire::Instruction;
use rustix::io::Errno;

use super::raw::syscall;

const _: () = assert!(size_of::<Instruction>() == size_of::<libc::sock_filter>());

/// Puts the filter in force for this process and all that it starts. `no_new_privs` must be set.
pub(crate) fn load(program: &[Instruction]) -> Result<(), Errno> {
    let length = u16::try_from(program.len()).map_err(|_| Errno::INVAL)?;
    let program = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut().cast() };
    let program = &raw const program as usize;
    // SAFETY: the kernel copies `len` instructions from `filter`, a slice of the same layout that outlives the call, and writes nothing.
    unsafe { syscall(libc::SYS_seccomp, [libc::SECCOMP_SET_MODE_FILTER as usize, 0, program, 0, 0, 0]) }.map(drop)
}
