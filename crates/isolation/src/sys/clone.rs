//! Making processes: into new namespaces, or a plain fork.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::Pid;

/// Namespaces of a sandbox. The cgroup namespace is left out: it is made by `unshare` once the process is in its group.
pub(crate) const SANDBOX_NAMESPACES: libc::c_int =
    libc::CLONE_NEWUSER | libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWNET | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;

/// clone(2): put the child into the cgroup of `clone_args.cgroup`. (The libc crate's constant overflows.)
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Which side of a fork this is.
pub(crate) enum Forked {
    /// The new process.
    Child,
    /// The process that asked, with the new one's id and descriptor.
    Parent {
        /// Its id in the caller's namespace.
        pid: Pid,
        /// A descriptor that refers to it and never to another.
        pidfd: OwnedFd,
    },
}

/// Forks into new namespaces, and into a cgroup (v2) when one is given.
///
/// The caller's process must have one thread: the child goes on in a copy of this memory.
pub(crate) fn fork_into(namespaces: libc::c_int, cgroup: Option<BorrowedFd<'_>>) -> Result<Forked, Errno> {
    let mut pidfd: libc::c_int = -1;
    // SAFETY: an all-zero `clone_args` is valid: it asks for nothing.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = (namespaces | libc::CLONE_PIDFD) as u64;
    args.exit_signal = libc::SIGCHLD as u64;
    args.pidfd = &raw mut pidfd as u64;
    if let Some(cgroup) = cgroup {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = cgroup.as_raw_fd() as u64;
    }
    // SAFETY: `args` and `pidfd` outlive the call; without CLONE_VM the child has its own copy of all memory, and stack 0 means the same stack.
    let pid = super::checked(unsafe { libc::syscall(libc::SYS_clone3, &raw mut args, size_of::<libc::clone_args>()) })?;
    match Pid::from_raw(pid as i32) {
        None => Ok(Forked::Child),
        // SAFETY: the kernel has just put a new descriptor, ours alone, into `pidfd`.
        Some(pid) => Ok(Forked::Parent { pid, pidfd: unsafe { OwnedFd::from_raw_fd(pidfd) } }),
    }
}

/// Forks, without a descriptor for the child. `None` in the child.
pub(crate) fn fork() -> Result<Option<Pid>, Errno> {
    // SAFETY: a plain fork; init has one thread, so no lock can be held by another one.
    let pid = super::checked(unsafe { libc::fork() }.into())?;
    Ok(Pid::from_raw(pid as i32))
}

/// Ends this process at once, running no destructors: the way out of a forked child.
pub(crate) fn exit_now(status: i32) -> ! {
    // SAFETY: `_exit` is always sound; it does not return.
    unsafe { libc::_exit(status) }
}

/// Moves this process into a cgroup namespace of its own, rooted at the group it is in.
pub(crate) fn unshare_cgroup() -> Result<(), Errno> {
    // SAFETY: a cgroup namespace holds no memory and no descriptor of this process.
    super::checked(unsafe { libc::unshare(libc::CLONE_NEWCGROUP) }.into()).map(drop)
}
