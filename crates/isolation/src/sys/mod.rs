//! The system calls that no kept crate wraps safely, one small function each. With the same
//! folder of `init`, the only `unsafe` code of the project.

pub(crate) mod clone;
pub(crate) mod descriptors;
pub(crate) mod landlock;
pub(crate) mod loop_device;
pub(crate) mod mount;
pub(crate) mod rights;
pub(crate) mod signals;
pub(crate) mod sockets;

use rustix::io::Errno;

/// The result of a raw system call as `Result`.
fn checked(returned: libc::c_long) -> Result<libc::c_long, Errno> {
    match returned {
        -1 => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
        value => Ok(value),
    }
}
