//! Files by name: what can be read, listed, written and removed.

use alloc::vec::Vec;
use core::mem::MaybeUninit;

use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, RawDir, open, readlinkat_raw, unlink};
use rustix::io::Errno;

use crate::Found;

/// The most of a text that is told.
const LONGEST: usize = 256 << 10;

/// The file that is made and removed again to see whether a folder can be written.
const TRIAL: &[u8] = b".ringfence-probe";

/// The beginning of a file.
pub(crate) fn text(path: &[u8]) -> Found {
    let (file, mut text, mut buffer) = (opened(path)?, Vec::new(), [0; 4096]);
    while text.len() < LONGEST {
        match rustix::io::retry_on_intr(|| rustix::io::read(&file, &mut buffer))? {
            0 => break,
            read => text.extend_from_slice(&buffer[..read]),
        }
    }
    Ok(text)
}

/// Whether a file can be opened for reading; its content is not told.
pub(crate) fn read(path: &[u8]) -> Found {
    opened(path).map(|_| Vec::new())
}

fn opened(path: &[u8]) -> Result<OwnedFd, Errno> {
    open(path, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty())
}

/// Opens a folder.
pub(crate) fn folder(path: &[u8]) -> Result<OwnedFd, Errno> {
    open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// The names in a folder.
pub(crate) fn names(folder: &OwnedFd) -> Result<Vec<Vec<u8>>, Errno> {
    let (mut names, mut buffer) = (Vec::new(), [MaybeUninit::uninit(); 4096]);
    let mut entries = RawDir::new(folder, &mut buffer);
    while let Some(entry) = entries.next() {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(name);
        }
    }
    Ok(names)
}

/// The names in a folder, one a line.
pub(crate) fn list(path: &[u8]) -> Found {
    Ok(names(&folder(path)?)?.join(&b'\n'))
}

/// The links of a folder, `NAME TARGET` a line; without the one that stands for the folder itself while it is read.
pub(crate) fn links(path: &[u8]) -> Found {
    let folder = folder(path)?;
    let own = crate::digits(folder.as_raw_fd() as u64);
    let line = |name: Vec<u8>| {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let target = readlinkat_raw(&folder, name.as_slice(), &mut buffer[..]).map_or(b"?".to_vec(), |(target, _)| target.to_vec());
        [name, target].join(&b' ')
    };
    Ok(names(&folder)?.into_iter().filter(|name| *name != own).map(line).collect::<Vec<_>>().join(&b'\n'))
}

/// Makes a file in a folder, writes to it, and removes it.
pub(crate) fn write(path: &[u8]) -> Found {
    let trial = [path, TRIAL].join(&b'/');
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let written = open(trial.as_slice(), flags, Mode::from_raw_mode(0o600)).and_then(|file| write_all(file, b"x"));
    match written {
        Ok(()) => unlink(trial.as_slice()).map(|()| Vec::new()),
        Err(errno) => Err(errno),
    }
}

/// Adds a line to a file, which is made if it is not there.
pub(crate) fn append(path: &[u8]) -> Found {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::CLOEXEC;
    write_all(open(path, flags, Mode::from_raw_mode(0o666))?, b"changed by the probe\n").map(|()| Vec::new())
}

/// Removes a file.
pub(crate) fn remove(path: &[u8]) -> Found {
    rustix::fs::unlinkat(CWD, path, rustix::fs::AtFlags::empty()).map(|()| Vec::new())
}

/// Writes all of it.
pub(crate) fn write_all(file: impl AsFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::write(&file, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
