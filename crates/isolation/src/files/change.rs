//! Writing, making, moving and removing.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fchmod, mkdirat, openat, renameat, statat, unlinkat};
use rustix::io::Errno;

use super::error::AtPath;
use super::read::{check_regular, join};
use super::{FileEntry, FileError, Files, Last, is_kept, metadata, reopen};
use crate::text::OsText;

/// Folders within folders that are removed; no path of Linux is that deep.
const DEEPEST: u32 = 2048;

impl Files {
    /// Opens a file to be written from its beginning: what is there is emptied, what is missing is made, folders on the way too. `words` replace what
    /// stands beside it; `None` leaves that alone.
    pub fn write(&self, path: &OsText, words: Option<&BTreeMap<String, String>>) -> Result<(File, OsText), FileError> {
        let _rights = self.rights()?;
        let path = self.absolute(path)?;
        let file = match self.handle(&path, Last::Followed) {
            Ok(handle) => {
                check_regular(&handle, &path)?;
                reopen(&handle, OFlags::WRONLY | OFlags::TRUNC).at(&path)?
            }
            Err(Errno::NOENT) => self.create(&path)?,
            Err(errno) => return Err(errno).at(&path),
        };
        if let Some(words) = words {
            metadata::set(&file, words).at(&path)?;
        }
        Ok((File::from(file), path))
    }

    fn create(&self, path: &OsText) -> Result<OwnedFd, FileError> {
        let (folder, name) = self.make_parents(path)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&folder, name.as_slice(), flags, Mode::from_raw_mode(0o644)).at(path)?;
        fchmod(&file, Mode::from_raw_mode(0o644)).at(path)?; // whatever the mask of this process
        Ok(file)
    }

    /// Makes a folder, and those on the way to it.
    pub fn make_folder(&self, path: &OsText) -> Result<FileEntry, FileError> {
        let _rights = self.rights()?;
        let path = self.absolute(path)?;
        if let Ok(there) = self.handle(&path, Last::Followed) {
            let is_folder = self.tell(path.clone(), &there).at(&path)?.kind == super::FileKind::Folder;
            return Err(FileError::Exists { path: path.escaped(), is_folder });
        }
        let (folder, name) = self.make_parents(&path)?;
        mkdirat(&folder, name.as_slice(), Mode::from_raw_mode(0o755)).at(&path)?;
        let made = self.handle(&path, Last::AsItIs).at(&path)?;
        self.tell(path.clone(), &made).at(&path)
    }

    /// Moves what is at a path, replacing a file that is at the new one; folders on the way are made.
    pub fn rename(&self, from: &OsText, to: &OsText) -> Result<FileEntry, FileError> {
        let _rights = self.rights()?;
        let (from, to) = (self.absolute(from)?, self.absolute(to)?);
        let (old_folder, old_name) = self.parent(&from)?;
        statat(&old_folder, old_name.as_slice(), AtFlags::SYMLINK_NOFOLLOW).at(&from)?;
        let (new_folder, new_name) = self.make_parents(&to)?;
        renameat(&old_folder, old_name.as_slice(), &new_folder, new_name.as_slice()).at(&to)?;
        let moved = self.handle(&to, Last::AsItIs).at(&to)?;
        self.tell(to.clone(), &moved).at(&to)
    }

    /// Removes what is at a path, with all that is below it; a link is removed and not what it leads to. What is not there is no error.
    pub fn remove(&self, path: &OsText) -> Result<(), FileError> {
        let _rights = self.rights()?;
        let path = self.absolute(path)?;
        let parent = match self.parent(&path) {
            Err(FileError::Missing { .. }) => return Ok(()),
            found => found?,
        };
        match remove_below(&parent.0, &parent.1, 0) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno).at(&path),
        }
    }

    /// The folder of a path, and the name in it. The root itself has none.
    fn parent(&self, path: &OsText) -> Result<(OwnedFd, Vec<u8>), FileError> {
        let (folder, name) = split(path)?;
        let handle = self.handle(&folder, Last::Followed).at(path)?;
        check_own(&handle, &folder)?;
        Ok((handle, name))
    }

    /// The same, where folders that are missing are made.
    fn make_parents(&self, path: &OsText) -> Result<(OwnedFd, Vec<u8>), FileError> {
        let (folder, name) = split(path)?;
        let mut at = OsText::from("/");
        for part in folder.as_bytes().split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
            let inside = join(&at, part);
            if matches!(self.handle(&inside, Last::Followed), Err(Errno::NOENT)) {
                let parent = self.handle(&at, Last::Followed).at(&at)?;
                check_own(&parent, &at)?;
                match mkdirat(&parent, part, Mode::from_raw_mode(0o755)) {
                    Ok(()) | Err(Errno::EXIST) => {} // another thread was quicker
                    Err(errno) => return Err(errno).at(&inside),
                }
            }
            at = inside;
        }
        self.parent(path).map(|(folder, _)| (folder, name))
    }
}

fn split(path: &OsText) -> Result<(OsText, Vec<u8>), FileError> {
    let bytes = path.as_bytes();
    let at = bytes.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    match &bytes[(at + 1).min(bytes.len())..] {
        b"" | b".." => Err(FileError::Denied { path: path.escaped(), cause: "it names no entry of a directory".into() }),
        name => Ok((OsText::from(if at == 0 { &b"/"[..] } else { &bytes[..at] }), name.to_vec())),
    }
}

fn check_own(handle: &OwnedFd, path: &OsText) -> Result<(), FileError> {
    match FileType::from_raw_mode(rustix::fs::fstat(handle).at(path)?.st_mode) {
        FileType::Directory if is_kept(handle) => Ok(()),
        FileType::Directory => Err(FileError::Special { path: path.escaped() }),
        _ => Err(FileError::NotFolder { path: path.escaped() }),
    }
}

/// Removes an entry of a folder and, if it is one itself, all that is in it. Every step is from a descriptor by a single name.
fn remove_below(folder: &OwnedFd, name: &[u8], depth: u32) -> Result<(), Errno> {
    match unlinkat(folder, name, AtFlags::empty()) {
        Err(Errno::ISDIR) if depth < DEEPEST => {}
        done => return done,
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let inside = openat(folder, name, flags, Mode::empty())?;
    for (entry, _) in crate::workspace::list(&inside)? {
        remove_below(&inside, &entry, depth + 1)?;
    }
    unlinkat(folder, name, AtFlags::REMOVEDIR)
}
