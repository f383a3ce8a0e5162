//! What the supervisor and init say to each other, over a socket pair that no command ever sees. Anything long travels in a memory file.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};

use crate::sys::sockets;
use crate::text::OsText;

/// The descriptor on which init finds its socket.
pub(crate) const CONTROL_FD: i32 = 3;
/// The first argument by which our own program knows that it is to be init.
pub const INIT_NAME: &str = "ringfence-init";

/// From the supervisor to init.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Build the sandbox: the plan in a memory file, then the sources.
    Build,
    /// Give up what building needed; from now on commands may come.
    Confine,
    /// Run a command: its description in a memory file, then stdout, stderr and, where it has one, stdin.
    Execute {
        /// Named by the supervisor.
        id: u32,
    },
}

/// From init to the supervisor, who reads it as what a hostile program may have written.
#[derive(Debug, Serialize, Deserialize)]
pub enum Report {
    /// A step failed; init ends.
    Failed {
        /// What was tried.
        step: String,
        /// The error number.
        #[serde(deserialize_with = "error_number")]
        errno: i32,
    },
    /// The sandbox stands; descriptors of the workspace, of `/tmp`, and of the changes where the plan has them.
    Built,
    /// What building needed is given up.
    Confined,
    /// A command could not be started.
    NotStarted {
        /// Which.
        id: u32,
        /// What was tried.
        step: String,
        /// The error number.
        #[serde(deserialize_with = "error_number")]
        errno: i32,
    },
    /// A command runs.
    Started {
        /// Which.
        id: u32,
    },
    /// A command ended.
    Ended {
        /// Which.
        id: u32,
        /// As wait(2) says it.
        status: i32,
    },
    /// Init's own clock says that the time is up; init ends.
    TimeUp,
}

impl Report {
    /// Reads one message.
    pub fn read(bytes: &[u8]) -> Result<Self, Errno> {
        read(bytes)
    }
}

/// An error number that the kernel can have: any other would stop the supervisor where it becomes one.
fn error_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i32, D::Error> {
    match i32::deserialize(deserializer)? {
        number @ 1..=4095 => Ok(number),
        other => Err(serde::de::Error::custom(format!("{other} is no error number"))),
    }
}

/// A command as init needs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Execution {
    pub(crate) argv: Vec<OsText>,
    pub(crate) environment: Vec<(String, OsText)>,
    pub(crate) folder: String,
}

/// Sends one message.
pub(crate) fn send(socket: BorrowedFd<'_>, message: &impl Serialize, descriptors: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let bytes = serde_json::to_vec(message).map_err(|_| Errno::INVAL)?;
    sockets::send(socket, &bytes, descriptors)
}

/// Receives one message; `None` when the other side is gone.
pub(crate) fn receive<T: DeserializeOwned>(socket: BorrowedFd<'_>, flags: RecvFlags) -> Result<Option<(T, Vec<OwnedFd>)>, Errno> {
    // A side that ends without having read all it was sent is told of first, and what it said last only then.
    let received = match sockets::receive(socket, flags) {
        Err(Errno::CONNRESET) => sockets::receive(socket, flags),
        received => received,
    };
    match received? {
        None => Ok(None),
        Some((bytes, descriptors)) => Ok(Some((read(&bytes)?, descriptors))),
    }
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Errno> {
    serde_json::from_slice(bytes).map_err(|_| Errno::BADMSG)
}

/// Puts a value into a memory file.
pub(crate) fn to_memory_file(value: &impl Serialize) -> Result<File, Errno> {
    let mut file = File::from(memfd_create(c"ringfence", MemfdFlags::CLOEXEC)?);
    let bytes = serde_json::to_vec(value).map_err(|_| Errno::INVAL)?;
    file.write_all(&bytes).and_then(|()| file.rewind()).map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
    Ok(file)
}

/// Reads a value from a memory file.
pub(crate) fn from_memory_file<T: DeserializeOwned>(descriptor: OwnedFd) -> Result<T, Errno> {
    let mut bytes = Vec::new();
    File::from(descriptor).read_to_end(&mut bytes).map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
    read(&bytes)
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
        send(supervisor.as_fd(), &Order::Confine, &[]).unwrap();
        send(init.as_fd(), &Report::Failed { step: "set the user".into(), errno: 1 }, &[]).unwrap();
        drop(init);
        let hear = || receive::<Report>(supervisor.as_fd(), RecvFlags::empty()).unwrap().map(|(report, _)| report);
        assert!(matches!(hear(), Some(Report::Failed { step, errno: 1 }) if step == "set the user"));
        assert!(hear().is_none());
    }

    /// Zero stopped the supervisor: it has no place among the errors.
    #[test]
    fn init_cannot_report_an_error_that_is_none() {
        let said = |errno: i64| Report::read(format!(r#"{{"Failed":{{"step":"x","errno":{errno}}}}}"#).as_bytes()).is_ok();
        assert_eq!([-1, 0, 1, 4095, 4096].map(said), [false, false, true, true, false]);
    }
}
