//! The loopback interface of a new network namespace, which starts down.

use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::raw::syscall;

/// Brings `lo` up.
pub(crate) fn bring_up() -> Result<(), Errno> {
    let mut request = request(b"lo");
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    order(&socket()?, libc::SIOCSIFFLAGS as usize, &request)
}

/// Gives `lo` an address more, under a name of its own as netdevice(7) has it: `lo:1` and so on. Every address of its range is then this host's.
pub(crate) fn add_address(number: u32, address: [u8; 4], bits: u8) -> Result<(), Errno> {
    let mut name = *b"lo:0000000000";
    let mut rest = number;
    for digit in name[3..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let socket = socket()?;
    let mut request = request(&name);
    request.ifr_ifru.ifru_addr = socket_address(address);
    order(&socket, libc::SIOCSIFADDR as usize, &request)?;
    let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
    request.ifr_ifru.ifru_netmask = socket_address(mask.to_be_bytes());
    order(&socket, libc::SIOCSIFNETMASK as usize, &request)
}

fn socket() -> Result<OwnedFd, Errno> {
    socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
}

/// A request about the interface of that name, which is shorter than the kernel's 16 bytes.
fn request(name: &[u8]) -> libc::ifreq {
    // SAFETY: an all-zero `ifreq` is valid.
    let mut request: libc::ifreq = unsafe { core::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name) {
        *to = *from as libc::c_char;
    }
    request
}

/// An IPv4 address as `struct sockaddr_in` has it: family, port, address.
fn socket_address(address: [u8; 4]) -> libc::sockaddr {
    let mut data = [0; 14];
    for (to, from) in data[2..6].iter_mut().zip(address) {
        *to = from as libc::c_char;
    }
    libc::sockaddr { sa_family: libc::AF_INET as libc::sa_family_t, sa_data: data }
}

fn order(socket: &OwnedFd, order: usize, request: &libc::ifreq) -> Result<(), Errno> {
    let request = core::ptr::from_ref(request) as usize;
    // SAFETY: these orders read one `ifreq`, which outlives the call.
    unsafe { syscall(libc::SYS_ioctl, [socket.as_raw_fd() as usize, order, request, 0, 0, 0]) }.map(drop)
}
