//! Loop devices: a file as a block device.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::PathBuf;

use rustix::io::Errno;

use crate::step::errno;

/// `LOOP_CTL_GET_FREE` and `LOOP_CONFIGURE` of linux/loop.h.
const GET_FREE: libc::Ioctl = 0x4C82u32 as libc::Ioctl;
const CONFIGURE: libc::Ioctl = 0x4C0Au32 as libc::Ioctl;
/// The device lets go of its file when nobody has it open or mounted any more, however they end.
const AUTOCLEAR: u32 = 4;
/// Pages are not kept twice, where the file's own file system can do without.
const DIRECT_IO: u32 = 16;
/// How often another process may take the device that was free a moment ago.
const TRIES: usize = 64;

/// `struct loop_config`, with the `struct loop_info64` in it.
#[repr(C)]
struct Config {
    file: u32,
    block_bytes: u32,
    ids: [u64; 5],
    number: u32,
    encryption: [u32; 2],
    flags: u32,
    names: [u8; 64 + 64 + 32],
    init: [u64; 2],
    reserved: [u64; 8],
}

/// Where the devices are had from.
pub(crate) const CONTROL: &str = "/dev/loop-control";

/// Attaches a file to a free device, which is let go of with the last descriptor and mount.
pub(crate) fn attach(file: BorrowedFd<'_>) -> Result<(File, PathBuf), Errno> {
    let control = OpenOptions::new().read(true).write(true).open(CONTROL).map_err(errno)?;
    for _ in 0..TRIES {
        // SAFETY: takes no argument, and answers with a number.
        let number = super::checked(unsafe { libc::ioctl(control.as_raw_fd(), GET_FREE) }.into())?;
        let path = PathBuf::from(format!("/dev/loop{number}"));
        let device = OpenOptions::new().read(true).write(true).open(&path).map_err(errno)?;
        match configure(&device, file) {
            Ok(()) => return Ok((device, path)),
            Err(Errno::BUSY) => {} // somebody else was quicker
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::BUSY)
}

fn configure(device: &File, file: BorrowedFd<'_>) -> Result<(), Errno> {
    let config = Config {
        file: file.as_raw_fd() as u32,
        block_bytes: 0,
        ids: [0; 5],
        number: 0,
        encryption: [0; 2],
        flags: AUTOCLEAR | DIRECT_IO,
        names: [0; 160],
        init: [0; 2],
        reserved: [0; 8],
    };
    // SAFETY: `config` has the layout that the request reads, and outlives the call.
    super::checked(unsafe { libc::ioctl(device.as_raw_fd(), CONFIGURE, &raw const config) }.into()).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_the_kernels() {
        assert_eq!(size_of::<Config>(), 304);
        assert_eq!(std::mem::offset_of!(Config, flags), 60);
        assert_eq!(std::mem::offset_of!(Config, names), 64);
        assert_eq!(std::mem::offset_of!(Config, init), 224);
    }
}
