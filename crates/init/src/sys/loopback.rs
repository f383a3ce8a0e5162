//! The loopback interface of a new network namespace, which starts down.

use rustix::fd::AsRawFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::raw::syscall;

/// Brings `lo` up.
pub(crate) fn bring_up() -> Result<(), Errno> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: an all-zero `ifreq` is valid.
    let mut request: libc::ifreq = unsafe { core::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    let request = &raw const request as usize;
    // SAFETY: SIOCSIFFLAGS reads one `ifreq`, which outlives the call.
    unsafe { syscall(libc::SYS_ioctl, [socket.as_raw_fd() as usize, libc::SIOCSIFFLAGS as usize, request, 0, 0, 0]) }.map(drop)
}
