//! Takes away a folder that a hostile program has filled, however deep: what is in a folder's folder is moved up before it is entered, so that two
//! descriptors and no path are enough. Every process of the run is dead by then.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, chmod, openat, renameat, statat, unlinkat};
use rustix::io::Errno;

use super::SHOWN;

/// Removes the storage of a run from its private folder, if it has one there.
pub fn clear_disk(folder: &Path) -> io::Result<()> {
    let storage = folder.join(SHOWN);
    let root = match openat(CWD, &storage, FLAGS, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(()),
        opened => opened?,
    };
    let mut moved = 0;
    loop {
        if let Some(name) = empty(&root, &root, &mut moved)? {
            take_down(&root, &name, &mut moved)?;
            continue;
        }
        match rustix::fs::rmdir(&storage) {
            Err(Errno::NOTEMPTY | Errno::EXIST) => {} // a listing may miss what is there while others go
            removed => return Ok(removed?),
        }
    }
}

/// Removes a folder of `root`; folders in it that are not empty are in `root` afterwards.
fn take_down(root: &OwnedFd, name: &CString, moved: &mut u64) -> io::Result<()> {
    open_to_owner(root.as_fd(), name)?;
    let folder = openat(root, name, FLAGS, Mode::empty())?;
    loop {
        empty(&folder, root, moved)?;
        match unlinkat(root, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY | Errno::EXIST) => {} // as above
            removed => return Ok(removed?),
        }
    }
}

const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Removes what is in a folder but for folders that are not empty. In `root` the first of those is answered with; from elsewhere they are moved to
/// `root` under a new name.
fn empty(folder: &OwnedFd, root: &OwnedFd, moved: &mut u64) -> io::Result<Option<CString>> {
    let is_root = std::ptr::eq(folder, root);
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        if FileType::from_raw_mode(statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode) != FileType::Directory {
            unlinkat(folder, name, AtFlags::empty())?;
            continue;
        }
        match unlinkat(folder, name, AtFlags::REMOVEDIR) {
            Ok(()) => {}
            Err(Errno::NOTEMPTY | Errno::EXIST | Errno::ACCESS) if is_root => return Ok(Some(name.to_owned())),
            Err(Errno::NOTEMPTY | Errno::EXIST | Errno::ACCESS) => lift(folder, name, root, moved)?,
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(None)
}

/// A folder can only be moved elsewhere by who may write to it.
fn lift(folder: &OwnedFd, name: &std::ffi::CStr, root: &OwnedFd, moved: &mut u64) -> io::Result<()> {
    open_to_owner(folder.as_fd(), name)?;
    loop {
        *moved += 1;
        let to = format!(".moved-{moved}");
        match statat(root, to.as_str(), AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(renameat(folder, name, root, to.as_str())?),
            Ok(_) => {} // a name of the program's
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// By a descriptor, so that nothing is followed: after a crash the last process of a run may still be dying.
fn open_to_owner(parent: BorrowedFd<'_>, name: &std::ffi::CStr) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = openat(parent, name, flags, Mode::empty())?;
    Ok(chmod(format!("/proc/self/fd/{}", handle.as_raw_fd()), Mode::from_raw_mode(0o700))?)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// Deeper than descriptors, the stack or a path would go.
    #[test]
    fn a_tree_of_any_depth_and_mode_is_removed_and_nothing_is_followed() {
        let place = tempfile::tempdir().unwrap();
        let outside = place.path().join("outside");
        fs::write(&outside, "stays").unwrap();
        let storage = place.path().join(SHOWN);
        fs::create_dir(&storage).unwrap();
        std::os::unix::fs::symlink(place.path(), storage.join("link")).unwrap();
        let mut folder = openat(CWD, &storage, FLAGS, Mode::empty()).unwrap();
        for level in 0..5_000 {
            rustix::fs::mkdirat(&folder, "d", Mode::from_raw_mode(0o700)).unwrap();
            rustix::fs::symlinkat("/", &folder, "l").unwrap();
            let next = openat(&folder, "d", FLAGS, Mode::empty()).unwrap();
            if level % 7 == 0 {
                rustix::fs::fchmod(&folder, Mode::from_raw_mode(0o300)).unwrap();
            }
            folder = next;
        }
        fs::create_dir(storage.join("closed")).unwrap_or_default();
        fs::write(storage.join("closed/file"), "x").unwrap_or_default();
        fs::set_permissions(storage.join("closed"), fs::Permissions::from_mode(0o000)).unwrap_or_default();
        fs::set_permissions(&storage, fs::Permissions::from_mode(0o700)).unwrap();
        clear_disk(place.path()).unwrap();
        assert!(!storage.exists() && outside.exists());
        clear_disk(place.path()).unwrap();
    }
}
