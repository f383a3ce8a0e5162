//! Calls that reach what the whole kernel shares: segments, keyrings, the clock.

use rustix::io::Errno;

use super::raw::syscall;

/// Makes a System V segment of shared memory, and leaves it.
pub(crate) fn make_segment(key: i32, bytes: usize) -> Result<(), Errno> {
    // SAFETY: plain integers; the segment is attached to nothing.
    unsafe { syscall(libc::SYS_shmget, [key as usize, bytes, (libc::IPC_CREAT | 0o600) as usize, 0, 0, 0]) }.map(drop)
}

/// The number of the session's keyring.
pub(crate) fn session_keyring() -> Result<u64, Errno> {
    const KEYCTL_GET_KEYRING_ID: usize = 0;
    const KEY_SPEC_SESSION_KEYRING: usize = -3isize as usize;
    // SAFETY: plain integers; nothing is made where there is none.
    unsafe { syscall(libc::SYS_keyctl, [KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0, 0, 0, 0]) }.map(|number| number as u64)
}

/// Milliseconds of the clock that nobody sets.
pub(crate) fn now_ms() -> u64 {
    let mut now = [0i64; 2];
    // SAFETY: the kernel writes one `timespec`, two numbers, which outlive the call.
    let read = unsafe { syscall(libc::SYS_clock_gettime, [libc::CLOCK_MONOTONIC as usize, now.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    read.map_or(u64::MAX, |_| now[0] as u64 * 1000 + now[1] as u64 / 1_000_000)
}
