//! A plain copy of a tree: the view of a project where the kernel gives no writable union.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Gid, Timespec, Timestamps, Uid, chownat, utimensat};
use rustix::io::Errno;

use crate::plan::Account;
use crate::step::errno;
use crate::text::OsText;

/// Copies files, folders and links; leaves out `hidden`, and writes `replaced` in place of what is there.
pub(super) fn tree(from: &Path, to: &Path, hidden: &[OsText], replaced: &[(OsText, String)], account: &Account) -> Result<(), Errno> {
    let mut folders: Vec<PathBuf> = vec![PathBuf::new()];
    fs::create_dir_all(to).map_err(errno)?;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(from.join(&folder)).map_err(errno)? {
            let entry = entry.map_err(errno)?;
            let path = folder.join(entry.file_name());
            if hidden.iter().any(|h| h.as_os_str() == path.as_os_str()) {
                continue;
            }
            let replacement = replaced.iter().find(|(p, _)| p.as_os_str() == path.as_os_str());
            copy_one(&from.join(&path), &to.join(&path), replacement.map(|(_, text)| text.as_str()))?;
            if entry.file_type().map_err(errno)?.is_dir() {
                folders.push(path.clone());
            }
            give(&to.join(&path), account)?;
        }
    }
    give(to, account)
}

fn copy_one(from: &Path, to: &Path, replacement: Option<&str>) -> Result<(), Errno> {
    let meta = fs::symlink_metadata(from).map_err(errno)?;
    if let Some(text) = replacement {
        return fs::write(to, text).map_err(errno);
    }
    if meta.is_symlink() {
        return symlink(fs::read_link(from).map_err(errno)?, to).map_err(errno);
    }
    if meta.is_dir() {
        fs::create_dir(to).map_err(errno)?;
    } else if meta.is_file() {
        fs::copy(from, to).map_err(errno)?;
    } else {
        return Ok(()); // sockets, pipes and devices are not part of a project
    }
    fs::set_permissions(to, fs::Permissions::from_mode(meta.mode() & 0o777)).map_err(errno)?;
    let modified = Timespec { tv_sec: meta.mtime(), tv_nsec: meta.mtime_nsec() };
    utimensat(CWD, to, &Timestamps { last_access: modified, last_modification: modified }, AtFlags::SYMLINK_NOFOLLOW)
}

fn give(at: &Path, account: &Account) -> Result<(), Errno> {
    match chownat(CWD, at, Some(Uid::from_raw(account.uid)), Some(Gid::from_raw(account.gid)), AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(()), // a socket or pipe that was not copied
        other => other,
    }
}
