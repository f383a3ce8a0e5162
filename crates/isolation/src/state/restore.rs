//! Restoring: a tar into the trees of a sandbox that stands and has run nothing yet.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags, Timespec, Timestamps, fchmod, futimens, mkdirat, openat, symlinkat, utimensat};
use rustix::io::Errno;

use super::error::{StateError, at, copying};
use super::header::{self, Entry, Kind};
use super::{TMP, Trees};
use crate::files::metadata;
use crate::identity::AGENT;
use crate::plan::Identity;
use crate::sys::rights::FileRights;
use crate::workspace::{GoOn, beneath};

const CHUNK: usize = 128 << 10;

/// What was restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Restored {
    /// Files, folders and links, with the two trees themselves.
    pub entries: u64,
    /// Bytes in the files.
    pub bytes: u64,
}

impl Trees {
    /// Lays out a tar that [`save`](Self::save) wrote, up to its end. All of it becomes the agent's. `go_on` is told the bytes of each part, and can end it.
    ///
    /// # Errors
    /// What does not fit, is there already or does not read ends it; the sandbox is of no use then. A project is never restored into.
    pub fn restore(&self, from: &mut dyn Read, go_on: &mut GoOn<'_>) -> Result<Restored, StateError> {
        if self.is_view {
            return Err(StateError::Project);
        }
        let _rights = match self.identity {
            Identity::Range { first } => Some(at(FileRights::of(first + AGENT, first + AGENT), b"workspace")?),
            Identity::Single { .. } => None,
        };
        let mut restoring = Restoring { trees: self, from, go_on, open: Vec::new(), restored: Restored::default() };
        while let Some(entry) = header::read(restoring.from)? {
            restoring.leave_all_but_those_above(&entry.path)?;
            restoring.restored.entries += 1;
            restoring.make(entry)?;
        }
        restoring.leave_all_but_those_above(b"")?;
        match restoring.from.read(&mut [0]).map_err(copying("read"))? {
            0 => Ok(restoring.restored),
            _ => Err(StateError::damaged("something stands after its end")),
        }
    }
}

struct Restoring<'a, 'g> {
    trees: &'a Trees,
    from: &'a mut dyn Read,
    go_on: &'a mut GoOn<'g>,
    /// Folders that more may come into, each in the one before it: mode and time come last.
    open: Vec<Entry>,
    restored: Restored,
}

impl Restoring<'_, '_> {
    /// Folders in which a path is not are complete.
    fn leave_all_but_those_above(&mut self, path: &[u8]) -> Result<(), StateError> {
        let is_above = |folder: &Entry| path.strip_prefix(folder.path.as_slice()).is_some_and(|rest| rest.starts_with(b"/"));
        while let Some(folder) = self.open.pop_if(|folder| !is_above(folder)) {
            self.finish_folder(&folder)?;
        }
        Ok(())
    }

    fn make(&mut self, entry: Entry) -> Result<(), StateError> {
        match (self.place(&entry)?, entry.kind) {
            (None, Kind::Folder) => self.open.push(entry),
            (None, Kind::File | Kind::Link) => return Err(StateError::damaged("a tree is not a folder")),
            (Some((folder, name)), Kind::Folder) => {
                at(mkdirat(&folder, name, Mode::from_raw_mode(0o700)), &entry.path)?;
                self.open.push(entry);
            }
            (Some((folder, name)), Kind::Link) => at(make_link(folder.as_fd(), name, &entry), &entry.path)?,
            (Some((folder, name)), Kind::File) => self.file(folder.as_fd(), name, &entry)?,
        }
        Ok(())
    }

    /// The folder in which an entry belongs, and its name there; `None` for a tree itself. That folder must have come before.
    fn place<'e>(&self, entry: &'e Entry) -> Result<Option<(OwnedFd, &'e [u8])>, StateError> {
        let Some(slash) = entry.path.iter().rposition(|byte| *byte == b'/') else { return Ok(None) };
        let (folder, name) = (&entry.path[..slash], &entry.path[slash + 1..]);
        if self.open.last().is_none_or(|open| open.path != folder) {
            return Err(StateError::damaged(format!("`{}` comes before its folder", super::error::escaped(&entry.path))));
        }
        Ok(Some((self.open_folder(folder, OFlags::PATH)?, name)))
    }

    fn open_folder(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, StateError> {
        let (name, below) = match path.iter().position(|byte| *byte == b'/') {
            Some(slash) => (&path[..slash], &path[slash + 1..]),
            None => (path, &b""[..]),
        };
        let tree = if name == TMP.as_bytes() { &self.trees.tmp } else { &self.trees.workspace };
        at(beneath::open(tree.as_fd(), below, flags | OFlags::DIRECTORY), path)
    }

    fn file(&mut self, folder: BorrowedFd<'_>, name: &[u8], entry: &Entry) -> Result<(), StateError> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(at(openat(folder, name, flags, Mode::from_raw_mode(0o600)), &entry.path)?);
        self.content(&mut file, entry)?;
        header::skip_padding(self.from, entry.bytes)?;
        let file = OwnedFd::from(file);
        let finished = metadata::set(&file, &entry.words).and_then(|()| finish(&file, entry, 0o777));
        at(finished, &entry.path)
    }

    fn content(&mut self, file: &mut File, entry: &Entry) -> Result<(), StateError> {
        let mut buffer = vec![0; CHUNK.min(usize::try_from(entry.bytes).unwrap_or(CHUNK))];
        let mut left = entry.bytes;
        while left > 0 {
            let length = buffer.len().min(usize::try_from(left).unwrap_or(CHUNK));
            let part = &mut buffer[..length];
            header::read_exactly(self.from, part)?;
            (self.go_on)(length as u64).map_err(copying("read"))?;
            at(file.write_all(part).map_err(crate::step::errno), &entry.path)?;
            left -= length as u64;
        }
        self.restored.bytes += entry.bytes;
        Ok(())
    }

    fn finish_folder(&self, entry: &Entry) -> Result<(), StateError> {
        let folder = self.open_folder(&entry.path, OFlags::RDONLY)?;
        let most = if entry.path == TMP.as_bytes() { 0o1777 } else { 0o777 };
        at(finish(&folder, entry, most), &entry.path)
    }
}

/// Mode and time, once nothing else changes them.
fn finish(file: &OwnedFd, entry: &Entry, most: u32) -> Result<(), Errno> {
    fchmod(file, Mode::from_raw_mode(entry.mode & most))?;
    futimens(file, &times(entry))
}

fn make_link(folder: BorrowedFd<'_>, name: &[u8], entry: &Entry) -> Result<(), Errno> {
    symlinkat(entry.target.as_slice(), folder, name)?;
    utimensat(folder, name, &times(entry), AtFlags::SYMLINK_NOFOLLOW)
}

fn times(entry: &Entry) -> Timestamps {
    let modified = Timespec { tv_sec: entry.modified.0, tv_nsec: entry.modified.1.into() };
    Timestamps { last_access: modified, last_modification: modified }
}
