//! What the supervisor and init say to each other, over a socket pair that no command ever sees. Anything long travels in a memory file.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

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

/// From init to the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// A step failed; init ends.
    Failed {
        /// What was tried.
        step: String,
        /// The error number, 0 where it is not one of the kernel's.
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
    match sockets::receive(socket, flags)? {
        None => Ok(None),
        Some((bytes, descriptors)) => {
            let message = serde_json::from_slice(&bytes).map_err(|_| Errno::BADMSG)?;
            Ok(Some((message, descriptors)))
        }
    }
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
    serde_json::from_slice(&bytes).map_err(|_| Errno::BADMSG)
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
