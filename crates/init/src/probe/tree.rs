//! A walk through all that is seen: folders that can be written, and sockets that answer.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, statat};

use crate::files::{folder, names};
use crate::{Found, network};

/// Folders that are not walked through: the image's programs, which are many, and the kernel's own.
const LEFT_OUT: [&[u8]; 8] = [b"/usr", b"/bin", b"/sbin", b"/lib", b"/lib64", b"/lib32", b"/proc", b"/sys"];

/// The most folders that are looked into.
const MOST: usize = 5000;

/// Looks below a folder: `writable PATH` for each folder in which a file can be made, `socket ERRNO PATH` for each socket and what a connection
/// to it answers. A line `more` says that there was more than it looked at.
pub(crate) fn walk(root: &[u8]) -> Found {
    let (mut waiting, mut lines, mut looked) = (VecDeque::from([root.to_vec()]), Vec::new(), 0);
    while let Some(path) = waiting.pop_front() {
        looked += 1;
        if looked > MOST {
            lines.push(b"more".to_vec());
            break;
        }
        if crate::files::write(&path).is_ok() {
            lines.push([b"writable ", path.as_slice()].concat());
        }
        let Ok(opened) = folder(&path) else { continue };
        for name in names(&opened).unwrap_or_default() {
            look(&opened, &joined(&path, &name), &name, &mut waiting, &mut lines);
        }
    }
    Ok(lines.join(&b'\n'))
}

fn look(folder: &OwnedFd, path: &[u8], name: &[u8], waiting: &mut VecDeque<Vec<u8>>, lines: &mut Vec<Vec<u8>>) {
    let Ok(stat) = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) else { return };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory if !LEFT_OUT.contains(&path) => waiting.push_back(path.to_vec()),
        FileType::Socket => {
            let errno = network::unix(path).err().map_or(0, |errno| errno.raw_os_error() as u64);
            lines.push([b"socket ", crate::digits(errno).as_slice(), b" ", path].concat());
        }
        _ => {}
    }
}

fn joined(folder: &[u8], name: &[u8]) -> Vec<u8> {
    if folder == b"/" { [b"/", name].concat() } else { [folder, name].join(&b'/') }
}
