//! Private copies: input files (hashed in the same pass, so the bytes that are seen are the bytes on record), and folders that cannot be a view.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, Timespec, Timestamps, Uid, chownat, open, utimensat};
use sha2::{Digest, Sha256};

use super::GoOn;
use super::beneath::{self, Entry};

use crate::compile::Veil;
use crate::image::hex;
use crate::plan::Identity;
use crate::text::OsText;

/// Why a copy failed.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// Not a file.
    #[error("`{0}` is neither a regular file nor a folder")]
    Kind(PathBuf),
    /// Reading or writing failed.
    #[error("copying `{path}`: {source}")]
    Io {
        /// What was being copied.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: std::io::Error,
    },
}

/// What was copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// Bytes.
    pub bytes: u64,
    /// SHA-256 in hexadecimal.
    pub sha256: String,
}

/// Copies one file to `to`, readable by the agent. `go_on` is told the bytes of each chunk, and can end the copy.
pub fn copy_file(from: &Path, to: &Path, identity: Identity, go_on: &mut GoOn<'_>) -> Result<Copied, SnapshotError> {
    let at = |source| SnapshotError::Io { path: from.to_owned(), source };
    // NONBLOCK: opening a pipe must not wait for a writer.
    let mut source = File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(from).map_err(at)?;
    if !source.metadata().map_err(at)?.is_file() {
        return Err(SnapshotError::Kind(from.to_owned()));
    }
    let mut target = File::options().write(true).create_new(true).mode(0o444).open(to).map_err(at)?;
    let (mut digest, mut bytes, mut buffer) = (Sha256::new(), 0, vec![0; 256 << 10]);
    loop {
        let read = source.read(&mut buffer).map_err(at)?;
        if read == 0 {
            break;
        }
        target.write_all(&buffer[..read]).map_err(at)?;
        digest.update(&buffer[..read]);
        bytes += read as u64;
        go_on(read as u64).map_err(at)?;
    }
    give(to, identity).map_err(at)?;
    Ok(Copied { bytes, sha256: hex(&digest.finalize()) })
}

/// Copies what a scan shows of a folder, owned by the agent. Whoever owns the folder may change it meanwhile, so every path is opened beneath it and
/// no link is followed. `go_on` is told the number of paths now and then.
pub fn copy_tree(from: &Path, to: &Path, veil: &Veil, identity: Identity, go_on: &mut GoOn<'_>) -> Result<(), SnapshotError> {
    let at = |path: &[u8], source: io::Error| SnapshotError::Io { path: OsText::from(path).as_os_str().into(), source };
    fs::create_dir_all(to).and_then(|()| give(to, identity)).map_err(|source| SnapshotError::Io { path: to.to_owned(), source })?;
    let root = open(from, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).map_err(|e| at(b"", e.into()))?;
    let hidden: BTreeSet<&[u8]> = veil.hidden.iter().map(OsText::as_bytes).collect();
    let (mut folders, mut made, mut copied) = (vec![Vec::new()], Vec::new(), 0);
    while let Some(folder) = folders.pop() {
        let open = beneath::open(root.as_fd(), &folder, OFlags::RDONLY | OFlags::DIRECTORY).map_err(|e| at(&folder, e.into()))?;
        for (name, _) in beneath::list(&open).map_err(|e| at(&folder, e.into()))? {
            let path = beneath::join(&folder, &name);
            if hidden.contains(path.as_slice()) {
                continue;
            }
            copied += 1;
            let target = to.join(OsText::from(path.as_slice()).as_os_str());
            let status = go_on(copied).and_then(|()| copy_one(root.as_fd(), &path, &target, identity)).map_err(|e| at(&path, e))?;
            if FileType::from_raw_mode(status.st_mode) == FileType::Directory {
                folders.push(path);
                made.push((target, status));
            }
        }
    }
    // Inner ones first, each after all that is in it: nobody but root writes below a folder that is closed for writing.
    made.iter().rev().try_for_each(|(target, status)| finish(target, status)).map_err(|e| at(b"", e))
}

/// Copies all but what is in a folder, and the folder's mode.
fn copy_one(root: BorrowedFd<'_>, path: &[u8], to: &Path, identity: Identity) -> io::Result<Stat> {
    let status = beneath::stat(root, path)?;
    match FileType::from_raw_mode(status.st_mode) {
        FileType::Symlink => match beneath::read(root, path, 0)? {
            Entry::Link { target } => symlink(OsText::from(target.as_slice()).as_os_str(), to)?,
            Entry::Missing | Entry::File { .. } | Entry::Folder | Entry::Special => return Err(io::ErrorKind::NotFound.into()),
        },
        FileType::Directory => fs::create_dir(to)?,
        FileType::RegularFile => {
            let mut file = File::from(beneath::open(root, path, OFlags::RDONLY)?);
            if !file.metadata()?.is_file() {
                return Err(io::ErrorKind::NotFound.into());
            }
            io::copy(&mut file, &mut File::options().write(true).create_new(true).mode(0o600).open(to)?)?;
        }
        _ => return Err(io::Error::other("is neither a file, a folder nor a link")),
    }
    give(to, identity)?;
    if FileType::from_raw_mode(status.st_mode) != FileType::Directory {
        finish(to, &status)?;
    }
    Ok(status)
}

/// Mode and time of change as they were. (Every bit beyond 0777 is dropped.)
fn finish(to: &Path, status: &Stat) -> io::Result<()> {
    if FileType::from_raw_mode(status.st_mode) != FileType::Symlink {
        fs::set_permissions(to, fs::Permissions::from_mode(status.st_mode & 0o777 | 0o400))?;
    }
    let modified = Timespec { tv_sec: status.st_mtime, tv_nsec: status.st_mtime_nsec as _ };
    Ok(utimensat(CWD, to, &Timestamps { last_access: modified, last_modification: modified }, AtFlags::SYMLINK_NOFOLLOW)?)
}

/// As root, the copy belongs to the agent's id of this sandbox; otherwise it is the caller's own already.
fn give(path: &Path, identity: Identity) -> std::io::Result<()> {
    match identity {
        Identity::Range { first } => {
            let id = first + crate::identity::AGENT;
            Ok(chownat(CWD, path, Some(Uid::from_raw(id)), Some(Gid::from_raw(id)), AtFlags::SYMLINK_NOFOLLOW)?)
        }
        Identity::Single { .. } => Ok(()),
    }
}
