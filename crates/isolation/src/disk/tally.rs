//! How much a folder holds that a hostile program writes to: bytes and files, summed by a bounded walk, and by what its processes hold open after
//! its name was taken away.
//!
//! A walk costs what the tree is large; between two of them lies a multiple of what the last one took, unless the host's file system has lost as much
//! since as was left of the limit. Not seen are removed files that are only mapped, or on their way through a socket; each of them is no larger than
//! the limit.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use ringfence_policy::LimitKey;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RawMode, Stat, chmod, open, openat, statat, statfs};
use rustix::io::Errno;

use super::Disk;

/// How many times as long as a walk took is waited before the next one.
const REST: u32 = 20;
/// Folders in folders, of which each is held open while what is in it is looked at.
const DEEPEST: usize = 100;
/// How often a program may close a folder again while it is looked at.
const TRIES: usize = 8;

/// Watches one folder.
#[derive(Debug)]
pub(crate) struct Tally {
    folder: PathBuf,
    most_bytes: u64,
    most_files: u64,
    /// When the next walk is due, and when it may be.
    due: Instant,
    may: Instant,
    /// What the host's file system may lose before a walk is due.
    least_left: (u64, u64),
}

/// Why a walk stops early.
enum Stop {
    /// A limit is passed.
    Over(LimitKey),
    /// A folder was closed while it was looked at.
    Closed,
}

/// What is gone meanwhile is not there to be summed; what cannot be looked at for another reason is not within the limit.
fn unless_gone<T>(looked: Result<T, Errno>) -> Result<Option<T>, Stop> {
    match looked {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::STALE) => Ok(None),
        Err(Errno::ACCESS) => Err(Stop::Closed),
        Err(_) => Err(Stop::Over(LimitKey::Files)),
    }
}

impl Tally {
    pub(crate) fn of(disk: &Disk) -> Self {
        Self {
            folder: disk.shown(),
            most_bytes: disk.bytes.saturating_add(disk.own * 4096),
            most_files: disk.files.saturating_add(disk.own),
            due: Instant::now(),
            may: Instant::now(),
            least_left: (0, 0),
        }
    }

    /// Looks, if it is time to; answers with a limit that is passed. `members` are the processes of the run.
    pub(crate) fn look(&mut self, members: impl FnOnce() -> Vec<i32>) -> Option<LimitKey> {
        let begun = Instant::now();
        let (bytes_left, files_left) = self.left_on_host();
        let is_urgent = bytes_left < self.least_left.0 || files_left < self.least_left.1;
        if begun < self.may || begun < self.due && !is_urgent {
            return None;
        }
        match self.sum(&members()) {
            Err(over) => Some(over),
            Ok((bytes, files)) => {
                let took = begun.elapsed();
                self.may = Instant::now() + took;
                self.due = self.may + took * REST + Duration::from_millis(5);
                self.least_left = (
                    bytes_left.saturating_sub(self.most_bytes.saturating_sub(bytes)),
                    files_left.saturating_sub(self.most_files.saturating_sub(files)),
                );
                None
            }
        }
    }

    /// The same at once.
    pub(crate) fn look_now(&self, members: &[i32]) -> Option<LimitKey> {
        self.sum(members).err()
    }

    /// Bytes and files that are used, or the limit that is passed.
    fn sum(&self, members: &[i32]) -> Result<(u64, u64), LimitKey> {
        for _ in 0..TRIES {
            let mut walk = Walk { tally: self, bytes: 0, files: 0, linked: BTreeSet::new() };
            match walk.all(members) {
                Ok(()) => return Ok((walk.bytes, walk.files)),
                Err(Stop::Over(limit)) => return Err(limit),
                Err(Stop::Closed) => {}
            }
        }
        Err(LimitKey::Files)
    }

    fn left_on_host(&self) -> (u64, u64) {
        statfs(&self.folder).map_or((u64::MAX, u64::MAX), |fs| (fs.f_bfree.saturating_mul(fs.f_bsize as u64), fs.f_ffree))
    }
}

const READ: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

struct Walk<'a> {
    tally: &'a Tally,
    bytes: u64,
    files: u64,
    /// Files of several names, each counted once.
    linked: BTreeSet<(u64, u64)>,
}

impl Walk<'_> {
    fn all(&mut self, members: &[i32]) -> Result<(), Stop> {
        if let Some(folder) = unless_gone(open(&self.tally.folder, READ, Mode::empty()))? {
            self.folder(folder, 0)?;
        }
        self.removed(members)
    }

    fn folder(&mut self, folder: OwnedFd, depth: usize) -> Result<(), Stop> {
        if depth > DEEPEST {
            // What cannot be summed is not within the limit.
            return Err(Stop::Over(LimitKey::Files));
        }
        for entry in unless_gone(Dir::read_from(&folder))?.into_iter().flatten() {
            let Some(entry) = unless_gone(entry)? else { break };
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let Some(status) = unless_gone(statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW))? else { continue };
            self.count(&status)?;
            if FileType::from_raw_mode(status.st_mode) == FileType::Directory {
                self.below(folder.as_fd(), name, status.st_mode, depth)?;
            }
        }
        Ok(())
    }

    /// A folder that its owner has closed is opened for the moment of the look.
    fn below(&mut self, parent: BorrowedFd<'_>, name: &std::ffi::CStr, mode: RawMode, depth: usize) -> Result<(), Stop> {
        const OPEN: RawMode = 0o500;
        let (mode, is_closed) = (mode & 0o7777, mode & OPEN != OPEN);
        if !is_closed {
            let folder = unless_gone(openat(parent, name, READ | OFlags::NOFOLLOW, Mode::empty()))?;
            return folder.map_or(Ok(()), |folder| self.folder(folder, depth + 1));
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Some(handle) = unless_gone(openat(parent, name, flags, Mode::empty()))? else { return Ok(()) };
        let path = format!("/proc/self/fd/{}", handle.as_raw_fd());
        unless_gone(chmod(path.as_str(), Mode::from_raw_mode(mode | OPEN)))?;
        let opened = unless_gone(open(path.as_str(), READ, Mode::empty()));
        let looked = opened.and_then(|folder| folder.map_or(Ok(()), |folder| self.folder(folder, depth + 1)));
        looked.and(unless_gone(chmod(path.as_str(), Mode::from_raw_mode(mode))).map(drop))
    }

    fn count(&mut self, status: &Stat) -> Result<(), Stop> {
        let is_folder = FileType::from_raw_mode(status.st_mode) == FileType::Directory;
        if is_folder || status.st_nlink <= 1 || self.linked.insert((status.st_dev, status.st_ino)) {
            self.bytes = self.bytes.saturating_add(status.st_blocks as u64 * 512);
        }
        self.files += 1;
        self.judge()
    }

    fn judge(&self) -> Result<(), Stop> {
        if self.bytes > self.tally.most_bytes {
            return Err(Stop::Over(LimitKey::Disk));
        }
        if self.files > self.tally.most_files {
            return Err(Stop::Over(LimitKey::Files));
        }
        Ok(())
    }

    /// Files that have no name any more and that a process still holds open. (Those in memory are counted as memory.)
    fn removed(&mut self, members: &[i32]) -> Result<(), Stop> {
        let folders = members.iter().filter_map(|pid| fs::read_dir(format!("/proc/{pid}/fd")).ok());
        for descriptor in folders.flatten().flatten().map(|entry| entry.path()) {
            let Ok(target) = fs::read_link(&descriptor) else { continue };
            let target = target.as_os_str().as_encoded_bytes();
            if !target.ends_with(b" (deleted)") || target.starts_with(b"/memfd:") {
                continue;
            }
            let Ok(status) = fs::metadata(&descriptor) else { continue };
            if status.is_file() && status.nlink() == 0 && self.linked.insert((status.dev(), status.ino())) {
                self.bytes = self.bytes.saturating_add(status.blocks() * 512);
                self.files += 1;
                self.judge()?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::disk::DiskForm;

    fn over(folder: &std::path::Path, bytes: u64, files: u64) -> Option<LimitKey> {
        let disk = Disk { folder: folder.to_owned(), form: DiskForm::Folder, bytes, files, own: 0, executable: true };
        Tally::of(&disk).look_now(&[std::process::id() as i32])
    }

    #[test]
    fn bytes_files_and_what_is_closed_or_removed_are_counted() {
        let place = tempfile::tempdir().unwrap();
        let shown = place.path().join("storage");
        fs::create_dir_all(shown.join("a/b")).unwrap();
        fs::write(shown.join("a/b/c"), vec![1; 1 << 20]).unwrap();
        fs::hard_link(shown.join("a/b/c"), shown.join("again")).unwrap();
        fs::set_permissions(shown.join("a"), fs::Permissions::from_mode(0o000)).unwrap();
        assert_eq!(over(place.path(), 2 << 20, 4), None);
        assert_eq!(over(place.path(), 1 << 20, 4), Some(LimitKey::Disk));
        assert_eq!(over(place.path(), 2 << 20, 3), Some(LimitKey::Files));
        assert_eq!(fs::metadata(shown.join("a")).unwrap().permissions().mode() & 0o777, 0);
        let held = shown.join("held");
        let mut file = fs::File::create_new(&held).unwrap();
        std::io::Write::write_all(&mut file, &vec![1; 4 << 20]).unwrap();
        fs::remove_file(&held).unwrap();
        assert_eq!(over(place.path(), 2 << 20, 100), Some(LimitKey::Disk));
    }

    #[test]
    fn what_is_too_deep_to_be_summed_is_over() {
        let place = tempfile::tempdir().unwrap();
        let deep: PathBuf = std::iter::once("storage").chain(std::iter::repeat_n("d", DEEPEST + 2)).collect();
        fs::create_dir_all(place.path().join(deep)).unwrap();
        assert_eq!(over(place.path(), 1 << 40, 1 << 40), Some(LimitKey::Files));
    }
}
