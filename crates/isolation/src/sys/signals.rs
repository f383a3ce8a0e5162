//! Signals that ask this process to stop.

use rustix::io::Errno;

/// Blocks the signals and makes a descriptor to read them from.
fn descriptor_for(signals: &[libc::c_int]) -> Result<std::os::fd::OwnedFd, Errno> {
    use std::os::fd::FromRawFd;
    // SAFETY: the set is made empty before its use and outlives the calls; the descriptor that comes back is new and ours alone.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in signals {
            libc::sigaddset(&raw mut set, *signal);
        }
        super::checked(libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()).into())?;
        let descriptor = super::checked(libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK).into())?;
        Ok(std::os::fd::OwnedFd::from_raw_fd(descriptor as i32))
    }
}

/// A descriptor that becomes readable when this process is asked to stop (SIGINT, SIGTERM, SIGHUP, SIGQUIT), which then no longer ends it by itself.
/// A signal that the caller has chosen to ignore (`nohup`) stays ignored.
pub fn stop_requested_descriptor() -> Result<std::os::fd::OwnedFd, Errno> {
    let heeded: Vec<libc::c_int> =
        [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT].into_iter().filter(|signal| !is_ignored(*signal)).collect();
    descriptor_for(&heeded)
}

fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: a NULL new action only asks; the old one is written into a zeroed structure that outlives the call.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0 && action.sa_sigaction == libc::SIG_IGN
    }
}

/// The signal by which this process was asked to stop, taken out of such a descriptor; `None` if none has come. Any other descriptor from which the
/// number can be read serves as well, such as an eventfd that holds it.
pub fn stop_signal(descriptor: std::os::fd::BorrowedFd<'_>) -> Option<i32> {
    let mut buffer = [0u8; size_of::<libc::signalfd_siginfo>()];
    let read = rustix::io::read(descriptor, &mut buffer).ok()?;
    (read >= size_of::<i32>()).then(|| i32::from_ne_bytes([buffer[0], buffer[1], buffer[2], buffer[3]]))
}
