//! Ways out: connections, and the kinds of sockets that can be made.

use alloc::vec::Vec;
use core::net::SocketAddr;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::netlink;
use rustix::net::{AddressFamily, Protocol, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with, sockopt::socket_error};

use crate::Found;

/// How long a connection may take.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 300_000_000 };

/// Connects to `ADDRESS:PORT`.
pub(crate) fn tcp(operand: &[u8]) -> Found {
    stream(address(operand)?).map(|_| Vec::new())
}

/// Reads `ADDRESS:PORT`.
pub(crate) fn address(text: &[u8]) -> Result<SocketAddr, Errno> {
    core::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or(Errno::INVAL)
}

/// A connection, which does not block.
pub(crate) fn stream(address: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    match connect(&socket, &address) {
        Err(Errno::INPROGRESS) => {}
        connected => return connected.map(|()| socket),
    }
    match poll(&mut [PollFd::new(&socket, PollFlags::OUT)], Some(&PATIENCE))? {
        0 => Err(Errno::TIMEDOUT),
        _ => socket_error(&socket)?.map(|()| socket),
    }
}

/// Connects to a socket of the file system.
pub(crate) fn unix(path: &[u8]) -> Found {
    connected(&SocketAddrUnix::new(path)?)
}

/// Connects to a socket that has a name and no file.
pub(crate) fn abstract_name(name: &[u8]) -> Found {
    connected(&SocketAddrUnix::new_abstract_name(name)?)
}

fn connected(address: &SocketAddrUnix) -> Found {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    connect(socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?, address).map(|()| Vec::new())
}

/// Makes a socket of a kind.
pub(crate) fn socket(kind: &[u8]) -> Found {
    let (family, kind, protocol) = match kind {
        b"raw" => (AddressFamily::INET, SocketType::RAW, Some(rustix::net::ipproto::ICMP)),
        b"packet" => (AddressFamily::PACKET, SocketType::RAW, None),
        b"vsock" => (AddressFamily::VSOCK, SocketType::STREAM, None),
        b"netlink-audit" => (AddressFamily::NETLINK, SocketType::RAW, Some(netlink::AUDIT)),
        b"netlink-netfilter" => (AddressFamily::NETLINK, SocketType::RAW, Some(netlink::NETFILTER)),
        _ => return Err(Errno::INVAL),
    };
    made(family, kind, protocol)
}

fn made(family: AddressFamily, kind: SocketType, protocol: Option<Protocol>) -> Found {
    socket_with(family, kind, SocketFlags::CLOEXEC, protocol).map(|_| Vec::new())
}
