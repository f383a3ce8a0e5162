//! Asks whoever listens inside: a proxy or an index in HTTP, a proxy in SOCKS 5, a name server. What the answers mean is judged outside.

use alloc::vec::Vec;
use core::net::SocketAddr;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};

use crate::files::write_all;
use crate::{Found, digits, network};

/// Where names are asked for, and the proxy.
const NAMES: SocketAddr = SocketAddr::new(core::net::IpAddr::V4(core::net::Ipv4Addr::LOCALHOST), 53);
const PROXY: SocketAddr = SocketAddr::new(core::net::IpAddr::V4(core::net::Ipv4Addr::LOCALHOST), 3128);
/// How long an answer may be silent. A refusal comes at once; what is being dialled outside takes longer, and is known by that.
const PATIENCE: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };
/// The most of an answer that is told.
const LONGEST: usize = 2048;

/// `ADDRESS:PORT REQUEST`: sends the first line of a request, without its version, and tells the beginning of the answer.
pub(crate) fn http(operand: &[u8]) -> Found {
    let (address, line) = split(operand, operand.iter().position(|byte| *byte == b' '))?;
    let socket = network::stream(network::address(address)?)?;
    write_all(&socket, &[line, b" HTTP/1.1\r\nconnection: close\r\n\r\n"].concat())?;
    let mut answer = Vec::new();
    // After a good answer to CONNECT nothing more comes by itself.
    while answer.len() < LONGEST && !answer.starts_with(b"HTTP/1.1 2") {
        match heard(&socket) {
            Ok(more) if more.is_empty() => break,
            Ok(more) => answer.extend_from_slice(&more),
            Err(errno) if answer.is_empty() => return Err(errno),
            Err(_) => break,
        }
    }
    Ok(answer)
}

/// `HOST:PORT`: asks the proxy for a tunnel in SOCKS 5, and tells the number of its reply.
pub(crate) fn socks(operand: &[u8]) -> Found {
    let (host, port) = split(operand, operand.iter().rposition(|byte| *byte == b':'))?;
    let port = u16::try_from(crate::number(port)?).map_err(|_| Errno::INVAL)?.to_be_bytes();
    let length = u8::try_from(host.len()).map_err(|_| Errno::INVAL)?;
    let socket = network::stream(PROXY)?;
    write_all(&socket, &[5, 1, 0])?;
    heard(&socket)?;
    write_all(&socket, &[&[5, 1, 0, 3, length], host, &port].concat())?;
    heard(&socket)?.get(1).map(|reply| digits((*reply).into())).ok_or(Errno::PROTO)
}

/// Asks for the address of a name: tells the reply's code, and the address if there is one.
pub(crate) fn name(name: &[u8]) -> Found {
    let mut question = Vec::from(b"\x52\x46\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00");
    for label in name.split(|byte| *byte == b'.') {
        question.push(u8::try_from(label.len()).map_err(|_| Errno::INVAL)?);
        question.extend_from_slice(label);
    }
    question.extend_from_slice(b"\x00\x00\x01\x00\x01");
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?;
    connect(&socket, &NAMES)?;
    write_all(&socket, &question)?;
    let reply = heard(&socket)?;
    let (Some(code), Some(answers)) = (reply.get(3), reply.get(7)) else { return Err(Errno::PROTO) };
    let mut told = digits(u64::from(code & 15));
    // Of one answer, the address stands at the end.
    if *answers > 0 {
        let address = reply[reply.len() - 4..].iter().map(|byte| digits((*byte).into())).collect::<Vec<_>>().join(&b'.');
        told = [told, address].join(&b' ');
    }
    Ok(told)
}

/// What comes next; nothing at the end.
fn heard(socket: &OwnedFd) -> Found {
    match poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&PATIENCE))? {
        0 => Err(Errno::TIMEDOUT),
        _ => {
            let mut buffer = [0; LONGEST];
            let length = rustix::io::retry_on_intr(|| rustix::io::read(socket, &mut buffer))?;
            Ok(buffer[..length].to_vec())
        }
    }
}

fn split(operand: &[u8], at: Option<usize>) -> Result<(&[u8], &[u8]), Errno> {
    let at = at.ok_or(Errno::INVAL)?;
    Ok((&operand[..at], &operand[at + 1..]))
}
