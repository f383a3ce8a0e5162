//! Looking and reading.

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::OwnedFd;

use rustix::fs::{FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;

use super::error::AtPath;
use super::{FileEntry, FileError, Files, Last, is_kept, reopen};
use crate::text::OsText;

/// Entries that one listing tells of at most.
const MOST_ENTRIES: usize = 100_000;

impl Files {
    /// What is at a path. A link at its end is told of as itself, with the kind of what it leads to.
    pub fn stat(&self, path: &OsText) -> Result<FileEntry, FileError> {
        let _rights = self.rights()?;
        let path = self.absolute(path)?;
        let handle = self.handle(&path, Last::AsItIs).at(&path)?;
        self.tell(path.clone(), &handle).at(&path)
    }

    /// Opens a regular file for reading; links are followed.
    pub fn read(&self, path: &OsText) -> Result<(File, FileEntry), FileError> {
        let _rights = self.rights()?;
        let path = self.absolute(path)?;
        let handle = self.handle(&path, Last::Followed).at(&path)?;
        check_regular(&handle, &path)?;
        let file = reopen(&handle, OFlags::RDONLY).at(&path)?;
        Ok((File::from(file), self.tell(path.clone(), &handle).at(&path)?))
    }

    /// What is in a folder, and `depth - 1` levels below it, in the order of paths. A link is followed only if it is the folder itself.
    pub fn list(&self, path: &OsText, depth: u32) -> Result<Vec<FileEntry>, FileError> {
        let _rights = self.rights()?;
        let path = self.absolute(path)?;
        let handle = self.handle(&path, Last::Followed).at(&path)?;
        let root = open_folder(&handle, &path)?;
        let mut entries = Vec::new();
        let mut waiting = VecDeque::from([(path.clone(), root, depth.max(1))]);
        while let Some((at, folder, left)) = waiting.pop_front() {
            for (name, kind) in crate::workspace::list(&folder).at(&at)? {
                let inside = join(&at, &name);
                let Ok(entry) = self.entry(&folder, &name, &inside) else { continue }; // it has gone meanwhile
                entries.push(entry);
                if entries.len() > MOST_ENTRIES {
                    return Err(FileError::TooMany { path: path.escaped(), most: MOST_ENTRIES });
                }
                if left > 1
                    && kind == FileType::Directory
                    && let Ok(below) = openat(&folder, name.as_slice(), FOLDER | OFlags::NOFOLLOW, Mode::empty())
                    && is_kept(&below)
                {
                    waiting.push_back((inside, below, left - 1));
                }
            }
        }
        entries.sort_by(|a, b| a.path.as_bytes().cmp(b.path.as_bytes()));
        Ok(entries)
    }

    fn entry(&self, folder: &OwnedFd, name: &[u8], path: &OsText) -> Result<FileEntry, Errno> {
        let handle = openat(folder, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        self.tell(path.clone(), &handle)
    }
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// A folder of the sandbox's own, opened to be listed.
pub(super) fn open_folder(handle: &OwnedFd, path: &OsText) -> Result<OwnedFd, FileError> {
    match FileType::from_raw_mode(fstat(handle).at(path)?.st_mode) {
        FileType::Directory if is_kept(handle) => reopen(handle, FOLDER).at(path),
        FileType::Directory => Err(FileError::Special { path: path.escaped() }),
        _ => Err(FileError::NotFolder { path: path.escaped() }),
    }
}

/// A regular file of the sandbox's own, and nothing that does something when it is opened.
pub(super) fn check_regular(handle: &OwnedFd, path: &OsText) -> Result<(), FileError> {
    match FileType::from_raw_mode(fstat(handle).at(path)?.st_mode) {
        FileType::RegularFile if is_kept(handle) => Ok(()),
        FileType::Directory => Err(FileError::IsFolder { path: path.escaped() }),
        _ => Err(FileError::Special { path: path.escaped() }),
    }
}

pub(super) fn join(folder: &OsText, name: &[u8]) -> OsText {
    match folder.as_bytes() {
        b"/" => OsText::from([b"/", name].concat().as_slice()),
        folder => OsText::from([folder, name].join(&b'/').as_slice()),
    }
}
