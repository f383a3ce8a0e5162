//! Making processes in new namespaces.

use rustix::io::Errno;
use rustix::process::Pid;

/// Forks into new namespaces. `None` in the child, which goes on in a copy of this memory with one thread: it may make system calls, no more.
pub(crate) fn fork_into(namespaces: libc::c_int) -> Result<Option<Pid>, Errno> {
    // SAFETY: an all-zero `clone_args` is valid: it asks for nothing.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = namespaces as u64;
    args.exit_signal = libc::SIGCHLD as u64;
    // SAFETY: `args` outlives the call; without CLONE_VM the child has its own copy of all memory, and stack 0 means the same stack.
    let pid = super::checked(unsafe { libc::syscall(libc::SYS_clone3, &raw mut args, size_of::<libc::clone_args>()) })?;
    Ok(Pid::from_raw(pid as i32))
}

/// Ends this process at once, running no destructors: the way out of a forked child.
pub(crate) fn exit_now(status: i32) -> ! {
    // SAFETY: `_exit` is always sound; it does not return.
    unsafe { libc::_exit(status) }
}
