//! This process and its children.

use alloc::ffi::CString;
use alloc::vec::Vec;
use core::ffi::CStr;
use core::ptr::null;

use rustix::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::process::Pid;

use super::raw::syscall;

/// Takes a descriptor that the process was started with. Called once a number, before anything else opens descriptors.
pub(crate) fn inherited(number: i32) -> OwnedFd {
    // SAFETY: the launcher put the descriptor at this number before it executed this program, and nothing else here owns it.
    unsafe { OwnedFd::from_raw_fd(number) }
}

/// Namespaces of a sandbox. The cgroup namespace is left out: it is made once the process is in its group.
const SANDBOX: libc::c_int =
    libc::CLONE_NEWUSER | libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWNET | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;

/// clone(2): put the child into the cgroup of `clone_args.cgroup`. (The libc crate's constant overflows.)
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Forks into new namespaces, and into a cgroup (v2) when one is given; the child is our parent's. `None` in the child.
pub(crate) fn fork_into_namespaces(cgroup: Option<BorrowedFd<'_>>) -> Result<Option<(Pid, OwnedFd)>, Errno> {
    let mut pidfd: libc::c_int = -1;
    // SAFETY: an all-zero `clone_args` is valid: it asks for nothing.
    let mut args: libc::clone_args = unsafe { core::mem::zeroed() };
    args.flags = (SANDBOX | libc::CLONE_PIDFD | libc::CLONE_PARENT) as u64;
    args.pidfd = &raw mut pidfd as u64;
    if let Some(cgroup) = cgroup {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = cgroup.as_raw_fd() as u64;
    }
    // SAFETY: `args` and `pidfd` outlive the call; without CLONE_VM the child has its own copy of all memory, and stack 0 means the same stack.
    let pid = unsafe { syscall(libc::SYS_clone3, [&raw mut args as usize, size_of::<libc::clone_args>(), 0, 0, 0, 0]) }?;
    // SAFETY: the kernel has just put a new descriptor, ours alone, into `pidfd`.
    Ok(Pid::from_raw(pid as i32).map(|pid| (pid, unsafe { OwnedFd::from_raw_fd(pidfd) })))
}

/// Forks. `None` in the child.
pub(crate) fn fork() -> Result<Option<Pid>, Errno> {
    // SAFETY: a plain fork: without CLONE_VM the child has its own copy of all memory, and stack 0 means the same stack.
    let pid = unsafe { syscall(libc::SYS_clone, [libc::SIGCHLD as usize, 0, 0, 0, 0, 0]) }?;
    Ok(Pid::from_raw(pid as i32))
}

/// Ends this process at once.
pub(crate) fn exit_now(status: i32) -> ! {
    loop {
        // SAFETY: ends the process; it does not return.
        unsafe { syscall(libc::SYS_exit_group, [status as usize, 0, 0, 0, 0, 0]) }.unwrap_or_default();
    }
}

/// A NULL-terminated array, valid for as long as `strings`.
fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|s| s.as_ptr()).chain([null()]).collect()
}

/// Runs the program at `path`; returns only if that failed.
pub(crate) fn execve(path: &CStr, argv: &[CString], environment: &[CString]) -> Errno {
    let (argv, environment) = (pointers(argv), pointers(environment));
    // SAFETY: `path`, and the strings of both NULL-terminated arrays, are NUL-terminated and outlive the call.
    let done =
        unsafe { syscall(libc::SYS_execve, [path.as_ptr() as usize, argv.as_ptr() as usize, environment.as_ptr() as usize, 0, 0, 0]) };
    done.err().unwrap_or(Errno::IO)
}

/// Runs the program that a descriptor stands for; returns only if that failed.
pub(crate) fn execute_file(program: BorrowedFd<'_>, argv: &[CString], environment: &[CString]) -> Errno {
    let (argv, environment, path) = (pointers(argv), pointers(environment), c"".as_ptr() as usize);
    let flags = libc::AT_EMPTY_PATH as usize;
    // SAFETY: an empty path with AT_EMPTY_PATH means the descriptor itself; the strings of both NULL-terminated arrays outlive the call.
    let done = unsafe {
        syscall(libc::SYS_execveat, [program.as_raw_fd() as usize, path, argv.as_ptr() as usize, environment.as_ptr() as usize, flags, 0])
    };
    done.err().unwrap_or(Errno::IO)
}

/// Closes every descriptor from `first` on: at once, or when a program is executed.
pub(crate) fn close_from(first: u32, when: Close) -> Result<(), Errno> {
    let flags = match when {
        Close::Now => 0,
        Close::AtExec => libc::CLOSE_RANGE_CLOEXEC as usize,
    };
    // SAFETY: closing by number; the callers own nothing at or above `first` that they use after it is closed.
    unsafe { syscall(libc::SYS_close_range, [first as usize, u32::MAX as usize, flags, 0, 0, 0]) }.map(drop)
}

/// When descriptors are closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Close {
    /// Now.
    Now,
    /// When a program is executed.
    AtExec,
}

/// Takes the user and group id for good, with no other groups.
pub(crate) fn take_ids(uid: u32, gid: u32) -> Result<(), Errno> {
    let (uid, gid) = (uid as usize, gid as usize);
    // SAFETY: plain integers; a count of zero reads no memory.
    unsafe {
        syscall(libc::SYS_setgroups, [0, 0, 0, 0, 0, 0])?;
        syscall(libc::SYS_setresgid, [gid, gid, gid, 0, 0, 0])?;
        syscall(libc::SYS_setresuid, [uid, uid, uid, 0, 0, 0]).map(drop)
    }
}

/// Sets a limit (`RLIMIT_*`), soft and hard, to `value` or to the hard limit that is in force, whichever is lower.
pub(crate) fn set_limit(limit: u32, value: u64) -> Result<(), Errno> {
    let mut held = [0u64; 2];
    // SAFETY: the kernel writes one `rlimit64`, two numbers, which outlive the call.
    unsafe { syscall(libc::SYS_prlimit64, [0, limit as usize, 0, held.as_mut_ptr() as usize, 0, 0])? };
    let value = [value.min(held[1]); 2];
    // SAFETY: the kernel reads one `rlimit64`, two numbers, which outlive the call.
    unsafe { syscall(libc::SYS_prlimit64, [0, limit as usize, value.as_ptr() as usize, 0, 0, 0]) }.map(drop)
}

/// Takes back what the caller may have asked of the kernel for its programs, such as addresses without randomness: personality(2).
pub(crate) fn be_plain_linux() -> Result<(), Errno> {
    // SAFETY: a plain integer.
    unsafe { syscall(libc::SYS_personality, [0; 6]) }.map(drop)
}

/// Sends a signal to one process, or with a negative number to a group.
fn signal(target: i32, signal: i32) -> Result<(), Errno> {
    // SAFETY: plain integers.
    unsafe { syscall(libc::SYS_kill, [target as isize as usize, signal as usize, 0, 0, 0, 0]) }.map(drop)
}

/// Sends a signal to a process.
pub(crate) fn kill(pid: Pid, number: i32) -> Result<(), Errno> {
    signal(pid.as_raw_nonzero().get(), number)
}

/// Sends a signal to a process and all of its group.
pub(crate) fn kill_group(leader: Pid, number: i32) -> Result<(), Errno> {
    signal(-leader.as_raw_nonzero().get(), number)
}

/// Kills every other process of this namespace.
pub(crate) fn kill_all_others() -> Result<(), Errno> {
    signal(-1, libc::SIGKILL) // every process that can be signalled, except init
}

/// What all ended and waited-for children, and theirs, have used: processor time in microseconds, and the most resident bytes that one had.
pub(crate) fn used_by_children() -> Result<(u64, u64), Errno> {
    const RUSAGE_CHILDREN: usize = usize::MAX; // -1
    // SAFETY: an all-zero `rusage` is valid.
    let mut usage: libc::rusage = unsafe { core::mem::zeroed() };
    // SAFETY: the kernel writes one `rusage`, which outlives the call.
    unsafe { syscall(libc::SYS_getrusage, [RUSAGE_CHILDREN, &raw mut usage as usize, 0, 0, 0, 0])? };
    let micros = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
    Ok((micros(usage.ru_utime) + micros(usage.ru_stime), usage.ru_maxrss as u64 * 1024))
}

/// Moves this process into a cgroup namespace of its own, rooted at the group it is in.
pub(crate) fn unshare_cgroup() -> Result<(), Errno> {
    // SAFETY: a cgroup namespace holds no memory and no descriptor of this process.
    unsafe { syscall(libc::SYS_unshare, [libc::CLONE_NEWCGROUP as usize, 0, 0, 0, 0, 0]) }.map(drop)
}

/// Joins a new, empty session keyring, so that the launcher's keys cannot be found.
pub(crate) fn join_new_keyring() -> Result<(), Errno> {
    const KEYCTL_JOIN_SESSION_KEYRING: usize = 1;
    // SAFETY: a NULL name asks for an anonymous keyring.
    match unsafe { syscall(libc::SYS_keyctl, [KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0, 0]) } {
        Ok(_) | Err(Errno::NOSYS) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Milliseconds of the clock that nobody sets.
pub(crate) fn now_ms() -> u64 {
    let mut now = [0i64; 2];
    // SAFETY: the kernel writes one `timespec`, two numbers, which outlive the call.
    let read = unsafe { syscall(libc::SYS_clock_gettime, [libc::CLOCK_MONOTONIC as usize, now.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    // A clock that cannot be read is at its end: then nothing runs on.
    read.map_or(u64::MAX, |_| now[0] as u64 * 1000 + now[1] as u64 / 1_000_000)
}
