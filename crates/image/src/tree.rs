//! Writes a tree by descriptors beneath its root. No link in it is ever followed, whatever stands there: a path is opened by the kernel with
//! `RESOLVE_BENEATH` and `RESOLVE_NO_SYMLINKS`, and a file is only ever made, never opened to be written again.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Timespec, Timestamps, fchmod, ftruncate, futimens, linkat, mkdirat, openat,
    openat2, statat, symlinkat, unlinkat,
};
use rustix::io::{Errno, pwrite};

use crate::archive::{EntryPath, joined};
use crate::error::{At, ImageError};

/// Everyone may read what an image holds: it is seen by the id of whichever sandbox shows it.
const FOLDER_MODE: Mode = Mode::from_raw_mode(0o755);
/// Blocks of zeros are holes: a file takes the room that its content needs.
const HOLE: usize = 4096;

/// A tree that is being written.
#[derive(Debug)]
pub(crate) struct Tree {
    root: OwnedFd,
    path: PathBuf,
}

impl Tree {
    /// Opens the folder that is the root.
    pub(crate) fn open(path: &Path) -> Result<Self, ImageError> {
        let root = openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
        Ok(Self { root: root.at("open", path)?, path: path.to_owned() })
    }

    /// The folder at a path; `None` if there is nothing.
    pub(crate) fn folder(&self, parts: &[Vec<u8>]) -> Result<Option<OwnedFd>, ImageError> {
        match self.open_beneath(&self.root, &joined(parts), OFlags::PATH | OFlags::DIRECTORY, Mode::empty()) {
            Ok(folder) => Ok(Some(folder)),
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::LOOP | Errno::NOTDIR) => {
                Err(ImageError::entry(&joined(parts), "is a link or a file, and not a folder that something could stand in"))
            }
            Err(errno) => Err(errno).at("open", &self.shown(parts)),
        }
    }

    /// The folder at a path; what is missing of it is made and told to `made`.
    pub(crate) fn make_folder(&self, parts: &[Vec<u8>], mut made: impl FnMut() -> Result<(), ImageError>) -> Result<OwnedFd, ImageError> {
        if let Some(folder) = self.folder(parts)? {
            return Ok(folder);
        }
        for length in 1..=parts.len() {
            let Some((name, above)) = parts[..length].split_last() else { continue };
            let above = self.folder(above)?.ok_or(Errno::NOENT).at("open", &self.shown(&parts[..length]))?;
            match mkdirat(&above, name.as_slice(), FOLDER_MODE) {
                Ok(()) => {
                    made()?;
                    self.open_to_all(&above, name)?;
                }
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno).at("make", &self.shown(&parts[..length])),
            }
        }
        self.folder(parts)?.ok_or(Errno::NOENT).at("open", &self.shown(parts))
    }

    /// What is at a name; links are not followed.
    pub(crate) fn kind(&self, folder: &OwnedFd, name: &[u8]) -> Result<Option<FileType>, ImageError> {
        match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(status) => Ok(Some(FileType::from_raw_mode(status.st_mode))),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno).at("look at", &self.named(name)),
        }
    }

    /// Makes a folder in the place of whatever is no folder; answers whether it is new.
    pub(crate) fn place_folder(&self, folder: &OwnedFd, name: &[u8]) -> Result<bool, ImageError> {
        if self.kind(folder, name)? == Some(FileType::Directory) {
            return Ok(false);
        }
        self.remove(folder, name)?;
        mkdirat(folder, name, FOLDER_MODE).at("make", &self.named(name))?;
        self.open_to_all(folder, name)?;
        Ok(true)
    }

    /// Makes a file in the place of whatever is there.
    pub(crate) fn place_file(&self, folder: &OwnedFd, name: &[u8]) -> Result<NewFile, ImageError> {
        self.remove(folder, name)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let file = self.open_beneath(folder, name, flags, Mode::RUSR | Mode::WUSR).at("make", &self.named(name))?;
        Ok(NewFile { file, path: self.named(name) })
    }

    /// Makes a symbolic link in the place of whatever is there.
    pub(crate) fn place_link(&self, folder: &OwnedFd, name: &[u8], target: &[u8]) -> Result<(), ImageError> {
        self.remove(folder, name)?;
        symlinkat(target, folder, name).at("link", &self.named(name))
    }

    /// Gives a file of this tree another name, in the place of whatever is there.
    pub(crate) fn place_name(&self, folder: &OwnedFd, name: &[u8], target: &EntryPath) -> Result<(), ImageError> {
        let refused = |cause: &str| Err(ImageError::entry(&target.bytes(), cause));
        let Some((target_folder, target_name)) = target.split() else { return refused("is no file that could have another name") };
        let Some(target_folder) = self.folder(target_folder)? else {
            return refused("is no file of the image so far, and cannot be linked to");
        };
        if self.kind(&target_folder, target_name)? != Some(FileType::RegularFile) {
            return refused("is no file of the image so far, and cannot be linked to");
        }
        self.remove(folder, name)?;
        linkat(&target_folder, target_name, folder, name, AtFlags::empty()).at("link", &self.named(name))
    }

    /// Reads a file that is there, up to so many bytes; `None` if it is missing or anything else.
    pub(crate) fn read(&self, folder: &OwnedFd, name: &[u8], most: u64) -> Option<Vec<u8>> {
        let file = self.open_beneath(folder, name, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).ok()?;
        let file = std::fs::File::from(file);
        let mut bytes = Vec::new();
        let is_whole = file.metadata().is_ok_and(|meta| meta.is_file() && meta.len() <= most);
        (is_whole && std::io::Read::read_to_end(&mut &file, &mut bytes).is_ok()).then_some(bytes)
    }

    /// Removes whatever is at a name, with all that is in it.
    pub(crate) fn remove(&self, folder: &OwnedFd, name: &[u8]) -> Result<(), ImageError> {
        match unlinkat(folder, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(Errno::ISDIR | Errno::PERM) => {
                let inner =
                    self.open_beneath(folder, name, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).at("open", &self.named(name))?;
                for child in self.names(&inner)? {
                    self.remove(&inner, &child)?;
                }
                unlinkat(folder, name, AtFlags::REMOVEDIR).at("remove", &self.named(name))
            }
            Err(errno) => Err(errno).at("remove", &self.named(name)),
        }
    }

    /// The names in a folder.
    pub(crate) fn names(&self, folder: &OwnedFd) -> Result<Vec<Vec<u8>>, ImageError> {
        let listed = || -> Result<Vec<Vec<u8>>, Errno> {
            let readable = openat(folder, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
            let names = Dir::new(readable)?.map(|entry| entry.map(|entry| entry.file_name().to_bytes().to_vec()));
            names.filter(|name| !matches!(name.as_deref(), Ok(b"." | b".."))).collect()
        };
        listed().at("list", &self.path)
    }

    fn open_beneath(&self, folder: impl AsFd, path: &[u8], flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        openat2(folder, path, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, mode, resolve)
    }

    /// Whatever the umask took away.
    fn open_to_all(&self, folder: &OwnedFd, name: &[u8]) -> Result<(), ImageError> {
        let opened = self.open_beneath(folder, name, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty());
        opened.and_then(|made| fchmod(made, FOLDER_MODE)).at("open to all", &self.named(name))
    }

    fn shown(&self, parts: &[Vec<u8>]) -> PathBuf {
        self.named(&joined(parts))
    }

    fn named(&self, name: &[u8]) -> PathBuf {
        self.path.join(std::ffi::OsStr::from_bytes(name))
    }
}

/// A file that is being written.
#[derive(Debug)]
pub(crate) struct NewFile {
    file: OwnedFd,
    path: PathBuf,
}

impl NewFile {
    /// Writes bytes at a place, but for blocks that hold nothing but zeros.
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), ImageError> {
        let mut at = offset;
        for block in bytes.chunks(HOLE) {
            if block.iter().any(|byte| *byte != 0) {
                self.write_all(at, block)?;
            }
            at += block.len() as u64;
        }
        Ok(())
    }

    fn write_all(&self, mut at: u64, mut bytes: &[u8]) -> Result<(), ImageError> {
        while !bytes.is_empty() {
            let written = pwrite(&self.file, bytes, at).at("write", &self.path)?;
            if written == 0 {
                return Err(Errno::IO).at("write", &self.path);
            }
            at += written as u64;
            bytes = &bytes[written..];
        }
        Ok(())
    }

    /// Gives the file its size, its mode and its time. Bits that would give rights to whoever executes it are not among its modes.
    pub(crate) fn finish(self, bytes: u64, is_executable: bool, modified_at: u64) -> Result<(), ImageError> {
        ftruncate(&self.file, bytes).at("write", &self.path)?;
        let mode = if is_executable { Mode::from_raw_mode(0o755) } else { Mode::from_raw_mode(0o644) };
        fchmod(&self.file, mode).at("open to all", &self.path)?;
        let time = Timespec { tv_sec: i64::try_from(modified_at).unwrap_or(0).min(LAST_SECOND), tv_nsec: 0 };
        futimens(&self.file, &Timestamps { last_access: time, last_modification: time }).at("set the time of", &self.path)
    }
}

/// The last second that every file system can keep.
const LAST_SECOND: i64 = i32::MAX as i64;
