//! Which paths may have changed: read off the upper layer of the union, or every path of both trees where the view is a copy.

use std::collections::BTreeSet;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{FileType, OFlags, fgetxattr};
use rustix::io::Errno;

use super::super::beneath;
use super::PatchRequest;

/// Every path that may differ, in order.
pub(super) fn changed_paths(request: &PatchRequest<'_>, base: BorrowedFd<'_>) -> Result<BTreeSet<Vec<u8>>, Errno> {
    let mut paths = BTreeSet::new();
    match request.changes {
        Some(changes) => collect_layer(changes, base, &[], &mut paths)?,
        None => {
            collect_tree(base, &[], &mut paths)?;
            collect_tree(request.workspace, &[], &mut paths)?;
        }
    }
    let is_hidden = |path: &[u8]| request.hidden.iter().any(|hidden| is_within(path, hidden.as_bytes()));
    // A hidden path that is still hidden has not changed; one that was written over is seen in the workspace.
    paths.retain(|path| !is_hidden(path) || beneath::stat(request.workspace, path).is_ok());
    Ok(paths)
}

/// True if `path` is `outer` or below it.
pub(super) fn is_within(path: &[u8], outer: &[u8]) -> bool {
    path.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// The upper layer holds what was written, a character device 0:0 for what was removed, and a mark on folders that replace the base's.
/// Reference: Documentation/filesystems/overlayfs.rst.
fn collect_layer(layer: BorrowedFd<'_>, base: BorrowedFd<'_>, folder: &[u8], paths: &mut BTreeSet<Vec<u8>>) -> Result<(), Errno> {
    let open = beneath::open(layer, folder, OFlags::RDONLY | OFlags::DIRECTORY)?;
    if is_opaque(&open) {
        collect_tree(base, folder, paths)?;
    }
    for (name, kind) in beneath::list(&open)? {
        let path = beneath::join(folder, &name);
        match kind {
            FileType::Directory => {
                // A file of the base may stand where the folder is now.
                paths.insert(path.clone());
                collect_layer(layer, base, &path, paths)?;
            }
            _ => {
                collect_tree(base, &path, paths)?;
                paths.insert(path);
            }
        }
    }
    Ok(())
}

fn is_opaque(folder: &OwnedFd) -> bool {
    let mut value = [0u8; 8];
    fgetxattr(folder, "user.overlay.opaque", &mut value).is_ok_and(|length| value.get(..length) == Some(b"y"))
}

/// Every path of a tree at and below `folder`, if that is a folder.
fn collect_tree(root: BorrowedFd<'_>, folder: &[u8], paths: &mut BTreeSet<Vec<u8>>) -> Result<(), Errno> {
    let open = match beneath::open(root, folder, OFlags::RDONLY | OFlags::DIRECTORY) {
        Ok(open) => open,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
        Err(errno) => return Err(errno),
    };
    for (name, kind) in beneath::list(&open)? {
        let path = beneath::join(folder, &name);
        if kind == FileType::Directory {
            collect_tree(root, &path, paths)?;
        }
        paths.insert(path);
    }
    Ok(())
}
