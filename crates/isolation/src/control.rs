//! The supervisor's end of the socket pair to init. Anything long travels in a memory file.

use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ringfence_wire::{Failed, Order, Report, decode, encode};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::net::RecvFlags;

use crate::plan::Plan;
use crate::step::StepError;
use crate::sys::sockets;

/// The name by which init is known in lists of processes.
pub const INIT_NAME: &str = "ringfence-init";

/// Sends an order.
pub(crate) fn send(socket: BorrowedFd<'_>, order: &Order, descriptors: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    sockets::send(socket, &encode(order).ok_or(Errno::NOMEM)?, descriptors)
}

/// Receives a report; `None` when init is gone.
pub(crate) fn receive(socket: BorrowedFd<'_>, flags: RecvFlags) -> Result<Option<(Report, Vec<OwnedFd>)>, Errno> {
    // A side that ends without having read all it was sent is told of first, and what it said last only then.
    let received = match sockets::receive(socket, flags) {
        Err(Errno::CONNRESET) => sockets::receive(socket, flags),
        received => received,
    };
    match received? {
        None => Ok(None),
        Some((bytes, descriptors)) => Ok(Some((decode(&bytes).ok_or(Errno::BADMSG)?, descriptors))),
    }
}

/// Puts a value into a memory file.
pub(crate) fn to_memory_file(value: &impl serde::Serialize) -> Result<File, Errno> {
    let mut file = File::from(memfd_create(c"ringfence", MemfdFlags::CLOEXEC)?);
    let bytes = encode(value).ok_or(Errno::NOMEM)?;
    file.write_all(&bytes).and_then(|()| file.rewind()).map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
    Ok(file)
}

/// What init says failed, in the words of the plan.
pub(crate) fn in_words(failed: Failed, plan: &Plan) -> StepError {
    let item = failed.item.map_or(usize::MAX, |item| item as usize);
    let named = match &*failed.act {
        "step" => plan.steps.get(item).map(ToString::to_string),
        "open source" => {
            let disk = || plan.disk().map(crate::disk::Disk::shown);
            plan.sources.get(item).map(|source| source.path.clone()).or_else(disk).map(|path| format!("open {}", path.display()))
        }
        "setting" => plan.sysctls.get(item).map(|sysctl| format!("set {} to {}", sysctl.name, sysctl.value)),
        "path rule" => plan.path_rules.get(item).map(|rule| format!("allow {}", rule.path)),
        "limit" => plan.process_limits.get(item).map(|(limit, _)| format!("set the {limit:?} limit")),
        _ => None,
    };
    StepError { step: named.unwrap_or_else(|| failed.act.into_owned()), errno: Errno::from_raw_os_error(failed.errno) }
}

/// A pair of connected sockets that keep messages apart.
pub(crate) fn socket_pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

/// The descriptors of a list, borrowed.
pub(crate) fn borrow_all(descriptors: &[OwnedFd]) -> Vec<BorrowedFd<'_>> {
    descriptors.iter().map(AsFd::as_fd).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_of_a_side_that_left_orders_unread_are_heard() {
        let (supervisor, init) = socket_pair().unwrap();
        send(supervisor.as_fd(), &Order::Build, &[]).unwrap();
        let words = Report::Failed(Failed { act: "take ids".into(), item: None, errno: 1 });
        sockets::send(init.as_fd(), &encode(&words).unwrap(), &[]).unwrap();
        drop(init);
        let hear = || receive(supervisor.as_fd(), RecvFlags::empty()).unwrap().map(|(report, _)| report);
        assert_eq!(hear(), Some(words));
        assert_eq!(hear(), None);
    }
}
