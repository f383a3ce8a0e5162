//! Saving: both trees into one tar, in the order of their names, so that the same files make the same tar.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::vec::IntoIter;

use rustix::fs::{FileType, Mode, OFlags, Stat, chmod, fstat, readlinkat};
use rustix::io::Errno;

use super::error::{StateError, at, copying, escaped};
use super::header::{self, Entry, Kind, MOST_PATH};
use super::{TMP, Trees};
use crate::files::metadata;
use crate::files::reopen;
use crate::identity::AGENT;
use crate::plan::Identity;
use crate::workspace::{GoOn, beneath};

/// Bytes that are laid down beside one file at most; a file with more is kept without them.
const MOST_WORDS: usize = 64 << 10;
const CHUNK: usize = 128 << 10;

/// What was saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Saved {
    /// Files, folders and links, with the two trees themselves.
    pub entries: u64,
    /// Bytes of the tar.
    pub bytes: u64,
    /// Sockets, pipes and devices, which are not kept.
    pub left_out: u64,
    /// Files that had more words beside them than are kept, and are kept without.
    pub without_words: u64,
    /// Files that somebody changed while they were read: what is kept of each may be neither the old nor the new content.
    pub changed: u64,
}

impl Trees {
    /// Writes the agent's files as a tar of at most `most_bytes` bytes. Hard links become files of their own, holes are filled with zeros, and of the
    /// modes the permissions stay. `go_on` is told the bytes of each part, and can end it.
    ///
    /// # Errors
    /// What is too large or too deep is refused as a whole: what was written until then is of no use.
    pub fn save(&self, to: &mut dyn Write, most_bytes: u64, go_on: &mut GoOn<'_>) -> Result<Saved, StateError> {
        let mut saving = Saving { to, most_bytes, go_on, identity: self.identity, saved: Saved::default() };
        for (name, tree) in self.each() {
            saving.tree(name, tree.as_fd())?;
        }
        saving.put(&header::END, TMP.as_bytes())?;
        let saved = saving.saved;
        to.flush().map_err(copying("write"))?;
        Ok(saved)
    }
}

struct Saving<'a, 'g> {
    to: &'a mut dyn Write,
    most_bytes: u64,
    go_on: &'a mut GoOn<'g>,
    identity: Identity,
    saved: Saved,
}

/// A folder whose entries are on their way.
struct Level {
    /// Beneath the tree.
    folder: Vec<u8>,
    names: IntoIter<(Vec<u8>, FileType)>,
    /// Its mode, where it was opened for as long as this takes.
    closed: Option<Mode>,
}

/// Who may do nothing more than the agent has to give itself the rights that the agent took from itself: to a file for the moment in which it is opened, to
/// a folder for as long as its entries are on their way.
fn open_up(handle: &OwnedFd, mode: Mode, rights: Mode) -> Result<(), Errno> {
    set_mode(handle, mode | rights)
}

fn set_mode(handle: &OwnedFd, mode: Mode) -> Result<(), Errno> {
    chmod(format!("/proc/self/fd/{}", handle.as_raw_fd()), mode)
}

impl Saving<'_, '_> {
    /// One tree, each folder before what is in it. No descriptor stays open on the way, so no tree is too deep for the process.
    fn tree(&mut self, name: &str, tree: BorrowedFd<'_>) -> Result<(), StateError> {
        let mut levels: Vec<Level> = self.entry(name, tree, Vec::new())?.into_iter().collect();
        let walked = self.walk(name, tree, &mut levels);
        let left = levels.iter().rev().map(|level| close(name, tree, level)); // where it broke off
        left.fold(walked, Result::and)
    }

    fn walk(&mut self, name: &str, tree: BorrowedFd<'_>, levels: &mut Vec<Level>) -> Result<(), StateError> {
        while let Some(level) = levels.last_mut() {
            let Some((entry, _)) = level.names.next() else {
                levels.pop().iter().try_for_each(|level| close(name, tree, level))?;
                continue;
            };
            if level.folder.len() + entry.len() >= MOST_PATH {
                return Err(StateError::TooDeep { path: escaped(&named(name, &level.folder)), most: MOST_PATH });
            }
            let path = beneath::join(&level.folder, &entry);
            levels.extend(self.entry(name, tree, path)?);
        }
        Ok(())
    }

    /// Writes one entry; answers with what is in it if it is a folder. What has gone since its folder was listed is left out.
    fn entry(&mut self, name: &str, tree: BorrowedFd<'_>, path: Vec<u8>) -> Result<Option<Level>, StateError> {
        let stands = named(name, &path);
        let handle = match beneath::open(tree, &path, OFlags::PATH) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            opened => at(opened, &stands)?,
        };
        let status = at(fstat(&handle), &stands)?;
        match FileType::from_raw_mode(status.st_mode) {
            FileType::RegularFile => self.file(&handle, self.described(stands, Kind::File, &status), mode_of(&status)).map(|()| None),
            FileType::Directory => self.folder(&handle, self.described(stands, Kind::Folder, &status), mode_of(&status), path),
            FileType::Symlink => self.link(&handle, self.described(stands, Kind::Link, &status)).map(|()| None),
            _ => {
                self.saved.left_out += 1;
                Ok(None)
            }
        }
    }

    fn described(&self, path: Vec<u8>, kind: Kind, status: &Stat) -> Entry {
        let agent = match self.identity {
            Identity::Range { first } => first + AGENT,
            Identity::Single { uid, .. } => uid,
        };
        let kept = match (kind, path == TMP.as_bytes()) {
            (Kind::Link, _) => 0o777,
            (_, true) => status.st_mode & 0o1777,
            (_, false) => status.st_mode & 0o777,
        };
        Entry {
            kind,
            mode: kept,
            is_agents: status.st_uid == agent,
            modified: (status.st_mtime, u32::try_from(status.st_mtime_nsec).unwrap_or(0)),
            bytes: 0,
            target: Vec::new(),
            words: Default::default(),
            path,
        }
    }

    fn folder(&mut self, handle: &OwnedFd, entry: Entry, mode: Mode, path: Vec<u8>) -> Result<Option<Level>, StateError> {
        let is_closed = self.is_ours() && !mode.contains(Mode::RUSR | Mode::XUSR);
        if is_closed {
            at(open_up(handle, mode, Mode::RUSR | Mode::XUSR), &entry.path)?;
        }
        let listed = beneath::open(handle.as_fd(), b"", OFlags::RDONLY | OFlags::DIRECTORY).and_then(|open| beneath::list(&open));
        let listed = at(listed, &entry.path).and_then(|names| self.begin(&entry).map(|()| names));
        match listed {
            Ok(names) => Ok(Some(Level { folder: path, names: names.into_iter(), closed: is_closed.then_some(mode) })),
            Err(error) => {
                if is_closed {
                    set_mode(handle, mode).unwrap_or_default(); // the save has failed, and says by what
                }
                Err(error)
            }
        }
    }

    /// Whether the agent's files are our own, and its modes hold for us as well.
    fn is_ours(&self) -> bool {
        matches!(self.identity, Identity::Single { .. })
    }

    fn link(&mut self, handle: &OwnedFd, entry: Entry) -> Result<(), StateError> {
        let target = at(readlinkat(handle, c"", Vec::new()), &entry.path)?.into_bytes();
        self.begin(&Entry { target, ..entry })
    }

    /// A file that was looked at is what is opened, whatever stands at its path by now.
    fn file(&mut self, handle: &OwnedFd, entry: Entry, mode: Mode) -> Result<(), StateError> {
        let is_closed = self.is_ours() && !mode.contains(Mode::RUSR);
        if is_closed {
            at(open_up(handle, mode, Mode::RUSR), &entry.path)?;
        }
        let (open, words) = (reopen(handle, OFlags::RDONLY), self.words(handle));
        if is_closed {
            at(set_mode(handle, mode), &entry.path)?;
        }
        let open = at(open, &entry.path)?;
        let bytes = at(fstat(&open), &entry.path)?.st_size as u64;
        if bytes > self.most_bytes - self.saved.bytes {
            return Err(self.too_large(&entry.path));
        }
        let entry = Entry { bytes, words, ..entry };
        self.begin(&entry)?;
        self.content(&mut File::from(open), &entry)
    }

    fn words(&mut self, handle: &OwnedFd) -> std::collections::BTreeMap<String, String> {
        let words = metadata::of(handle);
        if words.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>() <= MOST_WORDS {
            return words;
        }
        self.saved.without_words += 1;
        Default::default()
    }

    /// Exactly as many bytes as the header says, whatever becomes of the file meanwhile.
    fn content(&mut self, file: &mut File, entry: &Entry) -> Result<(), StateError> {
        let (mut left, mut buffer, mut is_short) = (entry.bytes, vec![0; CHUNK.min(entry.bytes as usize)], false);
        while left > 0 {
            let wanted = buffer.len().min(left as usize);
            let read = match is_short {
                true => 0,
                false => at(file.read(&mut buffer[..wanted]).map_err(crate::step::errno), &entry.path)?,
            };
            is_short |= read == 0;
            if is_short {
                buffer.fill(0);
            }
            let filled = if is_short { wanted } else { read };
            self.put(&buffer[..filled], &entry.path)?;
            left -= filled as u64;
        }
        let is_longer = at(fstat(&*file), &entry.path)?.st_size as u64 != entry.bytes;
        self.saved.changed += u64::from(is_short || is_longer);
        self.put(&[0; header::BLOCK][..header::padding_of(entry.bytes)], &entry.path)
    }

    fn begin(&mut self, entry: &Entry) -> Result<(), StateError> {
        self.saved.entries += 1;
        self.put(&header::write(entry), &entry.path)
    }

    fn put(&mut self, bytes: &[u8], path: &[u8]) -> Result<(), StateError> {
        if bytes.len() as u64 > self.most_bytes - self.saved.bytes {
            return Err(self.too_large(path));
        }
        (self.go_on)(bytes.len() as u64).and_then(|()| self.to.write_all(bytes)).map_err(copying("write"))?;
        self.saved.bytes += bytes.len() as u64;
        Ok(())
    }

    fn too_large(&self, path: &[u8]) -> StateError {
        StateError::TooLarge { path: escaped(path), most_bytes: self.most_bytes }
    }
}

/// Takes the rights to a folder away again. Where it has gone meanwhile there is nothing to close.
fn close(name: &str, tree: BorrowedFd<'_>, level: &Level) -> Result<(), StateError> {
    let Some(mode) = level.closed else { return Ok(()) };
    match beneath::open(tree, &level.folder, OFlags::PATH | OFlags::DIRECTORY) {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(()),
        opened => at(opened.and_then(|handle| set_mode(&handle, mode)), &named(name, &level.folder)),
    }
}

fn mode_of(status: &Stat) -> Mode {
    Mode::from_raw_mode(status.st_mode & 0o7777)
}

/// A path as it stands in the tar.
fn named(tree: &str, path: &[u8]) -> Vec<u8> {
    if path.is_empty() { tree.as_bytes().to_vec() } else { [tree.as_bytes(), path].join(&b'/') }
}
