//! The socket to the supervisor, and the memory files in which anything long arrives.

use alloc::vec::Vec;
use core::mem::MaybeUninit;

use ringfence_wire::{Report, decode, encode};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recvmsg,
    sendmsg,
};

/// The most descriptors in one message, as the supervisor keeps to: the kernel's own bound (`SCM_MAX_FD`).
const MOST_DESCRIPTORS: usize = 253;
/// The most bytes of an order.
const MOST_BYTES: usize = 256;

/// Sends a report.
pub(crate) fn send(socket: &OwnedFd, report: &Report, descriptors: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let bytes = encode(report).ok_or(Errno::NOMEM)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Errno::TOOBIG);
    }
    rustix::io::retry_on_intr(|| sendmsg(socket, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL)).map(drop)
}

/// Receives an order with its descriptors; `None` when the supervisor is gone.
pub(crate) fn receive(socket: &OwnedFd, flags: RecvFlags) -> Result<Option<(ringfence_wire::Order, Vec<OwnedFd>)>, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; MOST_BYTES];
    let flags = flags | RecvFlags::CMSG_CLOEXEC;
    let received = rustix::io::retry_on_intr(|| recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags))?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(sent) = message {
            descriptors.extend(sent);
        }
    }
    if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(Errno::MSGSIZE);
    }
    match received.bytes {
        0 => Ok(None),
        length => Ok(Some((decode(&bytes[..length]).ok_or(Errno::BADMSG)?, descriptors))),
    }
}

/// Everything that is in a memory file.
pub(crate) fn read_all(file: impl AsFd) -> Result<Vec<u8>, Errno> {
    let size = rustix::fs::fstat(&file)?.st_size;
    let mut bytes = alloc::vec![0; usize::try_from(size).map_err(|_| Errno::FBIG)?];
    let mut filled = 0;
    while filled < bytes.len() {
        match rustix::io::pread(&file, &mut bytes[filled..], filled as u64) {
            Ok(0) => return Err(Errno::IO),
            Ok(read) => filled += read,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(bytes)
}
