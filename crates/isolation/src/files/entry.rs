//! What is told of a file.

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{FileType, Stat, fstat, readlink};
use rustix::io::Errno;

use super::{Files, Last, metadata};
use crate::identity::AGENT;
use crate::plan::Identity;
use crate::text::OsText;

/// What a file is; of a link, what it leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A link that leads nowhere.
    Link,
    /// Something else: a device, a socket, a pipe.
    Special,
}

/// A file or folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEntry {
    /// Where it is in the sandbox.
    pub path: OsText,
    /// What it is.
    pub kind: FileKind,
    /// Bytes.
    pub bytes: u64,
    /// Type and permission bits, as stat(2) has them; a link's own.
    pub mode: u32,
    /// Its owner, by the sandbox's numbers.
    pub uid: u32,
    /// Its group, by the sandbox's numbers.
    pub gid: u32,
    /// When its content was last changed: seconds and nanoseconds since 1970.
    pub modified: (i64, u32),
    /// Where it leads, resolved, if it is a link that leads somewhere; else what it says.
    pub target: Option<OsText>,
    /// What was laid down beside it by whoever wrote it from outside.
    pub metadata: BTreeMap<String, String>,
}

/// Ids that stand for nobody of the sandbox's.
const NOBODY: u32 = 65_534;

impl Files {
    /// Tells of what a handle is on, which was found at `path` without following a link at its end.
    pub(super) fn tell(&self, path: OsText, handle: &OwnedFd) -> Result<FileEntry, Errno> {
        let status = fstat(handle)?;
        let (kind, target) = match FileType::from_raw_mode(status.st_mode) {
            FileType::Symlink => self.follow(&path, handle)?,
            other => (kind_of(other), None),
        };
        Ok(FileEntry {
            kind,
            bytes: u64::try_from(status.st_size).unwrap_or(0),
            mode: status.st_mode,
            uid: self.inside(status.st_uid),
            gid: self.inside(status.st_gid),
            modified: modified(&status),
            metadata: if kind == FileKind::File { metadata::of(handle) } else { BTreeMap::new() },
            path,
            target,
        })
    }

    /// What a link leads to, and where that is.
    fn follow(&self, path: &OsText, link: &OwnedFd) -> Result<(FileKind, Option<OsText>), Errno> {
        match self.handle(path, Last::Followed) {
            Ok(target) => {
                let at = readlink(format!("/proc/self/fd/{}", target.as_raw_fd()), Vec::new())?;
                Ok((kind_of(FileType::from_raw_mode(fstat(&target)?.st_mode)), Some(OsText::from(at.as_bytes()))))
            }
            Err(_) => {
                let says = rustix::fs::readlinkat(link, c"", Vec::new())?;
                Ok((FileKind::Link, Some(OsText::from(says.as_bytes()))))
            }
        }
    }

    /// An id of the host by the sandbox's numbers.
    fn inside(&self, id: u32) -> u32 {
        match self.identity {
            Identity::Range { first } => id.checked_sub(first).filter(|id| *id < crate::plan::RANGE).unwrap_or(NOBODY),
            Identity::Single { uid, gid } if id == uid || id == gid => AGENT,
            Identity::Single { .. } => NOBODY,
        }
    }
}

fn kind_of(kind: FileType) -> FileKind {
    match kind {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Folder,
        FileType::Symlink => FileKind::Link,
        _ => FileKind::Special,
    }
}

fn modified(status: &Stat) -> (i64, u32) {
    (status.st_mtime, u32::try_from(status.st_mtime_nsec).unwrap_or(0))
}
