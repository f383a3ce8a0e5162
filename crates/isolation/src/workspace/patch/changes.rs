//! Which paths may have changed: read off the upper layer of the union, or every path of both trees where the view is a copy.

use std::collections::BTreeMap;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{FileType, OFlags, fgetxattr};
use rustix::io::Errno;

use super::super::beneath;
use super::PatchRequest;

/// Paths in order, each with whether it could be looked into, if it is a folder.
type Paths = BTreeMap<Vec<u8>, Result<(), Errno>>;

/// Every path that may differ.
pub(super) fn changed_paths(request: &PatchRequest<'_>, base: BorrowedFd<'_>) -> Result<Paths, Errno> {
    let mut paths = Paths::new();
    match request.changes {
        Some(changes) => collect_layer(changes, base, &[], &mut paths)?,
        None => {
            collect_tree(base, &[], &mut paths)?;
            collect_tree(request.workspace, &[], &mut paths)?;
        }
    }
    let is_hidden = |path: &[u8]| request.hidden.iter().any(|hidden| is_within(path, hidden.as_bytes()));
    // A hidden path that is still hidden has not changed; one that was written over is seen in the workspace.
    paths.retain(|path, _| !is_hidden(path) || beneath::stat(request.workspace, path).is_ok());
    Ok(paths)
}

/// True if `path` is `outer` or below it.
pub(super) fn is_within(path: &[u8], outer: &[u8]) -> bool {
    path.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// The upper layer holds what was written, a character device 0:0 for what was removed, and a mark on folders that replace the base's.
/// Reference: Documentation/filesystems/overlayfs.rst.
fn collect_layer(layer: BorrowedFd<'_>, base: BorrowedFd<'_>, folder: &[u8], paths: &mut Paths) -> Result<(), Errno> {
    let open = beneath::open(layer, folder, OFlags::RDONLY | OFlags::DIRECTORY)?;
    let (is_opaque, entries) = (is_opaque(&open), beneath::list(&open)?);
    drop(open); // a tree may be deeper than there are descriptors
    if is_opaque {
        collect_tree(base, folder, paths)?;
    }
    for (name, kind) in entries {
        let path = beneath::join(folder, &name);
        let looked_into = match kind {
            // A file of the base may stand where the folder is now.
            FileType::Directory => collect_layer(layer, base, &path, paths),
            _ => collect_tree(base, &path, paths),
        };
        note(paths, path, looked_into);
    }
    Ok(())
}

fn is_opaque(folder: &OwnedFd) -> bool {
    let mut value = [0u8; 8];
    fgetxattr(folder, "user.overlay.opaque", &mut value).is_ok_and(|length| value.get(..length) == Some(b"y"))
}

/// Every path of a tree at and below `folder`, if that is a folder.
fn collect_tree(root: BorrowedFd<'_>, folder: &[u8], paths: &mut Paths) -> Result<(), Errno> {
    let entries = match beneath::open(root, folder, OFlags::RDONLY | OFlags::DIRECTORY) {
        Ok(open) => beneath::list(&open)?,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => return Ok(()),
        Err(errno) => return Err(errno),
    };
    for (name, kind) in entries {
        let path = beneath::join(folder, &name);
        let looked_into = match kind {
            FileType::Directory => collect_tree(root, &path, paths),
            _ => Ok(()),
        };
        note(paths, path, looked_into);
    }
    Ok(())
}

/// A folder counts as looked into if it could be in each tree in which it stands.
fn note(paths: &mut Paths, path: Vec<u8>, looked_into: Result<(), Errno>) {
    let known = paths.entry(path).or_insert(Ok(()));
    *known = known.and(looked_into);
}
