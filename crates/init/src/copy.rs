//! A plain copy of a tree: the view of a project where the kernel gives no writable union. By descriptors, so that nothing is followed out of it.

use alloc::vec::Vec;
use core::mem::MaybeUninit;

use ringfence_wire::Copy;
use rustix::fd::OwnedFd;
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, RawDir, Stat, Timespec, Timestamps, Uid, chmodat, chownat, fstat, mkdirat, openat,
    readlinkat, statat, symlinkat, utimensat,
};
use rustix::io::Errno;

use crate::view::{make_folders, write_all};

/// Bytes that are read at once.
const CHUNK: usize = 64 << 10;

/// Copies files, folders and links. Sockets, pipes and devices are not part of a project.
pub(crate) fn perform(copy: &Copy) -> Result<(), Errno> {
    make_folders(&copy.to)?;
    let (from, to) = (open_folder(CWD, &copy.from)?, open_folder(CWD, &copy.to)?);
    Copying { copy, buffer: alloc::vec![0; CHUNK] }.folder(&from, &to, b"")?;
    finish(CWD, &copy.to, &fstat(&from)?, copy.owner)
}

struct Copying<'a> {
    copy: &'a Copy,
    buffer: Vec<u8>,
}

impl Copying<'_> {
    fn folder(&mut self, from: &OwnedFd, to: &OwnedFd, path: &[u8]) -> Result<(), Errno> {
        for name in names(from)? {
            let inside = if path.is_empty() { name.clone() } else { [path, &name].join(&b'/') };
            if !self.copy.hidden.contains(&inside) {
                self.entry(from, to, &name, &inside)?;
            }
        }
        Ok(())
    }

    fn entry(&mut self, from: &OwnedFd, to: &OwnedFd, name: &[u8], inside: &[u8]) -> Result<(), Errno> {
        let status = statat(from, name, AtFlags::SYMLINK_NOFOLLOW)?;
        match FileType::from_raw_mode(status.st_mode) {
            FileType::Symlink => symlinkat(readlinkat(from, name, Vec::new())?.as_c_str(), to, name)?,
            FileType::Directory => {
                mkdirat(to, name, Mode::from_raw_mode(0o700))?;
                self.folder(&open_folder(from, name)?, &open_folder(to, name)?, inside)?;
            }
            FileType::RegularFile => self.file(from, to, name, inside)?,
            _ => return Ok(()),
        }
        finish(to, name, &status, self.copy.owner)
    }

    fn file(&mut self, from: &OwnedFd, to: &OwnedFd, name: &[u8], inside: &[u8]) -> Result<(), Errno> {
        let new = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let target = openat(to, name, new, Mode::from_raw_mode(0o600))?;
        if let Some((_, text)) = self.copy.replaced.iter().find(|(path, _)| path == inside) {
            return write_all(&target, text);
        }
        // NONBLOCK: what has become a pipe meanwhile must not be waited for.
        let source = openat(from, name, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
        loop {
            match rustix::io::retry_on_intr(|| rustix::io::read(&source, &mut self.buffer[..]))? {
                0 => return Ok(()),
                read => write_all(&target, &self.buffer[..read])?,
            }
        }
    }
}

fn open_folder(at: impl rustix::fd::AsFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    openat(at, name, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

fn names(folder: &OwnedFd) -> Result<Vec<Vec<u8>>, Errno> {
    let mut space = [MaybeUninit::uninit(); 8 << 10];
    let mut entries = RawDir::new(folder, &mut space);
    let mut names = Vec::new();
    while let Some(entry) = entries.next() {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(name);
        }
    }
    Ok(names)
}

/// Owner, mode and time of change; every bit of the mode beyond 0777 is dropped.
fn finish(at: impl rustix::fd::AsFd, name: &[u8], status: &Stat, (uid, gid): (u32, u32)) -> Result<(), Errno> {
    chownat(&at, name, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)), AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(status.st_mode) != FileType::Symlink {
        chmodat(&at, name, Mode::from_raw_mode(status.st_mode & 0o777), AtFlags::empty())?;
    }
    let modified = Timespec { tv_sec: status.st_mtime as _, tv_nsec: status.st_mtime_nsec as _ };
    utimensat(&at, name, &Timestamps { last_access: modified, last_modification: modified }, AtFlags::SYMLINK_NOFOLLOW)
}
