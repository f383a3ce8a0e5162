//! Watching a folder for changes, by inotify(7).

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init, remove_watch};
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

use super::error::AtPath;
use super::read::open_folder;
use super::{FileError, Files, Last, is_kept};
use crate::text::OsText;
use crate::workspace::beneath;

/// Folders that one watch covers at most.
const MOST_FOLDERS: usize = 8192;

/// What happened to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileChange {
    /// It is there.
    Create,
    /// It was written to.
    Write,
    /// It is gone.
    Remove,
    /// It has gone elsewhere.
    Rename,
    /// Its mode, owner or times are others.
    Chmod,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEvent {
    /// Where, relative to the folder that is watched.
    pub name: OsText,
    /// What.
    pub change: FileChange,
}

/// A folder that is watched, with all that is below it if that was asked for.
#[derive(Debug)]
pub struct Watch {
    inotify: OwnedFd,
    /// The folder itself. Those in it are opened from here when they are looked at, for descriptors are few.
    root: OwnedFd,
    /// The relative paths of the folders, by the kernel's number of each.
    folders: BTreeMap<i32, OsText>,
    is_recursive: bool,
    path: OsText,
}

impl AsFd for Watch {
    /// Becomes readable when something has changed.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

impl Files {
    /// Watches a folder.
    pub fn watch(&self, path: &OsText, is_recursive: bool) -> Result<Watch, FileError> {
        let _rights = self.rights()?;
        let path = self.absolute(path)?;
        let root = open_folder(&self.handle(&path, Last::Followed).at(&path)?, &path)?;
        let inotify = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).at(&path)?;
        let mut watch = Watch { inotify, root, folders: BTreeMap::new(), is_recursive, path };
        watch.add(OsText::from(""))?;
        Ok(watch)
    }

    /// What has changed since the last call, in order. What is made below a recursive watch is watched from here on.
    pub fn changes(&self, watch: &mut Watch) -> Result<Vec<FileEvent>, FileError> {
        let _rights = self.rights()?;
        let mut events = Vec::new();
        for seen in watch.read()? {
            let Some(change) = seen.change else {
                watch.folders.remove(&seen.folder);
                continue;
            };
            let Some(at) = watch.folders.get(&seen.folder) else { continue };
            let name = below(at, &seen.name);
            let is_new = watch.is_recursive && seen.is_folder && change == FileChange::Create;
            events.push(FileEvent { name: name.clone(), change });
            if seen.is_folder && matches!(change, FileChange::Remove | FileChange::Rename) {
                watch.forget(&name)?;
            }
            if is_new {
                // What came into it before it was watched is told as if it had been.
                let found = watch.add(name)?;
                events.extend(found.into_iter().flat_map(Found::events));
            }
        }
        Ok(events)
    }
}

/// One word of the kernel's; without a change it is that the folder is watched no more, because it is gone.
struct Seen {
    folder: i32,
    name: Vec<u8>,
    change: Option<FileChange>,
    is_folder: bool,
}

/// Something in a folder that was not watched before.
struct Found {
    name: OsText,
    is_file: bool,
}

impl Found {
    fn events(self) -> impl Iterator<Item = FileEvent> {
        let written = self.is_file.then(|| FileEvent { name: self.name.clone(), change: FileChange::Write });
        std::iter::once(FileEvent { name: self.name, change: FileChange::Create }).chain(written)
    }
}

impl Watch {
    /// Adds a folder and, in a recursive watch, those in it. Each is watched before it is looked into, so that nothing is missed between the two; answers
    /// with what a recursive watch found. One that has gone by then, or that leads elsewhere, is passed over.
    fn add(&mut self, relative: OsText) -> Result<Vec<Found>, FileError> {
        let mut found = Vec::new();
        let mut waiting = vec![relative];
        while let Some(at) = waiting.pop() {
            let Some(folder) = self.open(&at)? else { continue };
            if self.folders.len() >= MOST_FOLDERS {
                return Err(FileError::TooMany { path: self.path.escaped(), most: MOST_FOLDERS });
            }
            let flags = WatchFlags::CREATE | WatchFlags::MODIFY | WatchFlags::DELETE | WatchFlags::MOVE | WatchFlags::ATTRIB;
            let number = add_watch(&self.inotify, format!("/proc/self/fd/{}", folder.as_raw_fd()), flags).at(&self.path)?;
            if self.is_recursive {
                for (name, kind) in crate::workspace::list(&folder).at(&self.path)? {
                    found.push(Found { name: below(&at, &name), is_file: kind == FileType::RegularFile });
                    if kind == FileType::Directory {
                        waiting.push(below(&at, &name));
                    }
                }
            }
            self.folders.insert(number, at);
        }
        Ok(found)
    }

    fn open(&self, at: &OsText) -> Result<Option<OwnedFd>, FileError> {
        match beneath::open(self.root.as_fd(), at.as_bytes(), OFlags::RDONLY | OFlags::DIRECTORY) {
            Ok(folder) => Ok(Some(folder).filter(|folder| at.as_bytes().is_empty() || is_kept(folder))),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS | Errno::XDEV) => Ok(None),
            Err(errno) => Err(errno).at(&self.path),
        }
    }

    /// A folder that has gone, and those that were in it, are watched no more.
    fn forget(&mut self, name: &OsText) -> Result<(), FileError> {
        let inside = [name.as_bytes(), b"/"].concat();
        let is_gone = |at: &OsText| at == name || at.as_bytes().starts_with(&inside);
        let gone: Vec<i32> = self.folders.iter().filter(|(_, at)| is_gone(at)).map(|(number, _)| *number).collect();
        for number in gone {
            self.folders.remove(&number);
            match remove_watch(&self.inotify, number) {
                Ok(()) | Err(Errno::INVAL) => {} // the kernel was first
                Err(errno) => return Err(errno).at(&self.path),
            }
        }
        Ok(())
    }

    fn read(&self) -> Result<Vec<Seen>, FileError> {
        let mut buffer = [MaybeUninit::uninit(); 16 << 10];
        let mut reader = Reader::new(&self.inotify, &mut buffer);
        let mut seen = Vec::new();
        loop {
            match reader.next() {
                Ok(event) => {
                    let name = event.file_name().map(|name| name.to_bytes().to_vec()).unwrap_or_default();
                    let flags = event.events();
                    if flags.contains(ReadFlags::IGNORED) {
                        seen.push(Seen { folder: event.wd(), name, change: None, is_folder: false });
                    } else if let (change @ Some(_), false) = (change_of(flags), name.is_empty()) {
                        seen.push(Seen { folder: event.wd(), name, change, is_folder: flags.contains(ReadFlags::ISDIR) });
                    }
                }
                Err(Errno::AGAIN) => return Ok(seen),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno).at(&self.path),
            }
        }
    }
}

/// A file that moves here is new here.
fn change_of(flags: ReadFlags) -> Option<FileChange> {
    let changes = [
        (ReadFlags::CREATE | ReadFlags::MOVED_TO, FileChange::Create),
        (ReadFlags::MODIFY, FileChange::Write),
        (ReadFlags::DELETE, FileChange::Remove),
        (ReadFlags::MOVED_FROM, FileChange::Rename),
        (ReadFlags::ATTRIB, FileChange::Chmod),
    ];
    changes.into_iter().find(|(bits, _)| flags.intersects(*bits)).map(|(_, change)| change)
}

fn below(folder: &OsText, name: &[u8]) -> OsText {
    match folder.as_bytes() {
        b"" => OsText::from(name),
        folder => OsText::from([folder, name].join(&b'/').as_slice()),
    }
}
