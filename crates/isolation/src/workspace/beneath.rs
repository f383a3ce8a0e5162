//! Reading a tree that a hostile program may have shaped: every path is opened beneath a folder's descriptor, no link is followed
//! and no other file system is entered.

use std::fs::File;
use std::io::Read;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat2, readlinkat, statat};
use rustix::io::Errno;

/// What a path is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Entry {
    Missing,
    File { is_executable: bool, bytes: Vec<u8> },
    Link { target: Vec<u8> },
    Folder,
    Special,
}

/// Opens a path beneath `root`; `flags` are added to the safe ones.
pub(crate) fn open(root: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
    let path = if path.is_empty() { b"." } else { path };
    // A pipe must not make us wait, a terminal not become ours; for a mere handle the kernel refuses to be told so.
    let patience = if flags.contains(OFlags::PATH) { OFlags::empty() } else { OFlags::NONBLOCK | OFlags::NOCTTY };
    openat2(root, path, flags | patience | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty(), resolve)
}

/// The status of a path whose last part may be a link; its folders may not.
pub(super) fn stat(root: BorrowedFd<'_>, path: &[u8]) -> Result<Stat, Errno> {
    let (folder, name) = split(path);
    let folder = open(root, folder, OFlags::PATH | OFlags::DIRECTORY)?;
    statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)
}

/// Reads what is at a path; a file over `most` bytes is an error (EFBIG).
pub(super) fn read(root: BorrowedFd<'_>, path: &[u8], most: u64) -> Result<Entry, Errno> {
    let status = match stat(root, path) {
        Ok(status) => status,
        // ELOOP: a folder of the path is a link here, so the path itself is not here.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => return Ok(Entry::Missing),
        Err(errno) => return Err(errno),
    };
    match FileType::from_raw_mode(status.st_mode) {
        FileType::Directory => Ok(Entry::Folder),
        FileType::Symlink => {
            let (folder, name) = split(path);
            let folder = open(root, folder, OFlags::PATH | OFlags::DIRECTORY)?;
            Ok(Entry::Link { target: readlinkat(&folder, name, Vec::new())?.into_bytes() })
        }
        FileType::RegularFile if status.st_size as u64 > most => Err(Errno::FBIG),
        FileType::RegularFile => {
            let mut bytes = Vec::new();
            let file = File::from(open(root, path, OFlags::RDONLY)?);
            file.take(most + 1).read_to_end(&mut bytes).map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
            Ok(Entry::File { is_executable: is_executable(&status), bytes })
        }
        _ => Ok(Entry::Special),
    }
}

/// Executable is what its owner may execute, as in git.
fn is_executable(status: &Stat) -> bool {
    status.st_mode & 0o100 != 0
}

/// Whether a path is the same regular file in two trees, without holding it in memory.
pub(super) fn are_same(left: BorrowedFd<'_>, right: BorrowedFd<'_>, path: &[u8]) -> Result<bool, Errno> {
    let (left, right) = (File::from(open(left, path, OFlags::RDONLY)?), File::from(open(right, path, OFlags::RDONLY)?));
    let known = |file: &File| fstat(file).map(|s| (FileType::from_raw_mode(s.st_mode), s.st_size, is_executable(&s)));
    let (known_left, known_right) = (known(&left)?, known(&right)?);
    if known_left != known_right || known_left.0 != FileType::RegularFile {
        return Ok(false);
    }
    have_same_bytes(left, right).map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))
}

fn have_same_bytes(mut left: File, mut right: File) -> std::io::Result<bool> {
    let (mut of_left, mut of_right) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    loop {
        let read = left.read(&mut of_left)?;
        right.read_exact(&mut of_right[..read])?;
        if read == 0 || of_left[..read] != of_right[..read] {
            return Ok(read == 0);
        }
    }
}

/// The names in a folder with their types, in order.
pub(crate) fn list(folder: &OwnedFd) -> Result<Vec<(Vec<u8>, FileType)>, Errno> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => FileType::from_raw_mode(statat(folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)?.st_mode),
            known => known,
        };
        names.push((name.to_vec(), kind));
    }
    names.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(names)
}

/// Joins a folder's path and a name.
pub(crate) fn join(folder: &[u8], name: &[u8]) -> Vec<u8> {
    if folder.is_empty() { name.to_vec() } else { [folder, name].join(&b'/') }
}

fn split(path: &[u8]) -> (&[u8], &[u8]) {
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    let folder = path.parent().map_or(&b""[..], |p| p.as_os_str().as_bytes());
    let name = path.file_name().map_or(&b"."[..], OsStrExt::as_bytes);
    (folder, name)
}
