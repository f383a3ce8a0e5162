//! Private copies: input files (hashed in the same pass, so the bytes that are seen are the bytes on record), and folders that cannot be a view.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Gid, Timespec, Timestamps, Uid, chownat, utimensat};
use sha2::{Digest, Sha256};

use crate::compile::Veil;
use crate::image::hex;
use crate::plan::Identity;

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

/// Copies one file to `to`, readable by the agent. `progress` is told the bytes of each chunk.
pub fn copy_file(from: &Path, to: &Path, identity: Identity, progress: &mut dyn FnMut(u64)) -> Result<Copied, SnapshotError> {
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
        progress(read as u64);
    }
    give(to, identity).map_err(at)?;
    Ok(Copied { bytes, sha256: hex(&digest.finalize()) })
}

/// Copies what a scan shows of a folder, owned by the agent.
pub fn copy_tree(from: &Path, to: &Path, veil: &Veil, identity: Identity) -> Result<(), SnapshotError> {
    let (mut folders, mut made) = (vec![PathBuf::new()], Vec::new());
    let at = |path: &Path, source| SnapshotError::Io { path: path.to_owned(), source };
    fs::create_dir_all(to).and_then(|()| give(to, identity)).map_err(|e| at(to, e))?;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(from.join(&folder)).map_err(|e| at(&folder, e))? {
            let path = folder.join(entry.map_err(|e| at(&folder, e))?.file_name());
            if veil.hidden.iter().any(|hidden| hidden.as_os_str() == path.as_os_str()) {
                continue;
            }
            let meta = copy_one(&from.join(&path), &to.join(&path), identity).map_err(|e| at(&path, e))?;
            if meta.is_dir() {
                folders.push(path.clone());
                made.push((path, meta));
            }
        }
    }
    // Inner ones first, each after all that is in it: nobody but root writes below a folder that is closed for writing.
    made.iter().rev().try_for_each(|(path, meta)| finish(&to.join(path), meta).map_err(|e| at(path, e)))
}

/// Copies all but what is in a folder, and the folder's mode.
fn copy_one(from: &Path, to: &Path, identity: Identity) -> std::io::Result<fs::Metadata> {
    let meta = fs::symlink_metadata(from)?;
    if meta.is_symlink() {
        symlink(fs::read_link(from)?, to)?;
    } else if meta.is_dir() {
        fs::create_dir(to)?;
    } else {
        fs::copy(from, to)?;
    }
    give(to, identity)?;
    if !meta.is_dir() {
        finish(to, &meta)?;
    }
    Ok(meta)
}

/// Mode and time of change as they were. (Every bit beyond 0777 is dropped.)
fn finish(to: &Path, meta: &fs::Metadata) -> std::io::Result<()> {
    if !meta.is_symlink() {
        fs::set_permissions(to, fs::Permissions::from_mode(meta.mode() & 0o777 | 0o400))?;
    }
    let modified = Timespec { tv_sec: meta.mtime(), tv_nsec: meta.mtime_nsec() };
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
