//! The tree that a patch is applied to, as whoever has it tells of it; and what a patch may touch of it: files, behind nothing but folders.

use std::collections::{HashMap, HashSet};
use std::io;

use super::error::ApplyFault;
use crate::mode::{Blob, Mode};
use crate::patch::Patch;
use crate::paths::folders;
use crate::quote::plain_or_quoted;

/// A tree, asked path by path. No path leads through a link.
pub trait Base {
    /// What is at a path. What is behind a link or a submodule is not there.
    fn entry(&self, path: &[u8]) -> io::Result<Option<BaseEntry>>;

    /// The names in a folder. They are asked for where a file takes the place of a folder, which must have become empty; who cannot tell
    /// answers `None`, and such a patch is refused.
    fn names(&self, folder: &[u8]) -> io::Result<Option<Vec<Vec<u8>>>> {
        let _ = folder;
        Ok(None)
    }
}

/// What is at a path of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BaseEntry {
    /// A file, with its mode as git records it.
    File {
        /// `0o100644` or `0o100755`; any other is refused when it is touched.
        mode: u32,
        /// The content.
        bytes: Vec<u8>,
    },
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// A submodule.
    Gitlink,
}

/// The base while a patch is applied: each folder is asked about once.
pub(super) struct Ground<'a> {
    base: &'a dyn Base,
    /// Paths at which the patch leaves no file.
    removed: HashSet<&'a [u8]>,
    /// Whether something can stand in a folder.
    folders: HashMap<Vec<u8>, bool>,
}

impl<'a> Ground<'a> {
    pub(super) fn of(base: &'a dyn Base, patch: &'a Patch) -> Self {
        let removed = patch.changes.iter().filter_map(|change| change.removed()).collect();
        Self { base, removed, folders: HashMap::new() }
    }

    /// The file that a change is about.
    pub(super) fn file(&mut self, path: &[u8]) -> Result<Blob, ApplyFault> {
        self.walk(path)?;
        match self.entry(path)? {
            None => Err(ApplyFault::Missing),
            Some(BaseEntry::File { mode, bytes }) => Ok(Blob { mode: Mode::from_bits(mode).ok_or(ApplyFault::OddMode(mode))?, bytes }),
            Some(BaseEntry::Folder) => Err(ApplyFault::Folder),
            Some(BaseEntry::Link) => Err(ApplyFault::Link),
            Some(BaseEntry::Gitlink) => Err(ApplyFault::Gitlink),
        }
    }

    /// Whether a file can be made here.
    pub(super) fn is_free(&mut self, path: &[u8]) -> Result<(), ApplyFault> {
        self.walk(path)?;
        match self.entry(path)? {
            None => Ok(()),
            Some(BaseEntry::File { .. }) => Err(ApplyFault::Exists),
            Some(BaseEntry::Folder) if self.becomes_empty(path)? => Ok(()),
            Some(BaseEntry::Folder) => Err(ApplyFault::Folder),
            Some(BaseEntry::Link) => Err(ApplyFault::Link),
            Some(BaseEntry::Gitlink) => Err(ApplyFault::Gitlink),
        }
    }

    /// Every folder of a path is one, or is not there, or is a file that the patch removes.
    fn walk(&mut self, path: &[u8]) -> Result<(), ApplyFault> {
        for folder in folders(path) {
            let goes_on = match self.folders.get(folder) {
                Some(goes_on) => *goes_on,
                None => {
                    let goes_on = self.is_folder(folder)?;
                    self.folders.insert(folder.to_vec(), goes_on);
                    goes_on
                }
            };
            if !goes_on {
                break; // what is not there has nothing in it
            }
        }
        Ok(())
    }

    fn is_folder(&self, folder: &[u8]) -> Result<bool, ApplyFault> {
        let behind = |what| Err(ApplyFault::Behind { folder: plain_or_quoted(folder), what });
        match self.entry(folder)? {
            None => Ok(false),
            Some(BaseEntry::Folder) => Ok(true),
            Some(BaseEntry::File { .. }) if self.removed.contains(folder) => Ok(false),
            Some(BaseEntry::File { .. }) => behind("file"),
            Some(BaseEntry::Link) => behind("symbolic link"),
            Some(BaseEntry::Gitlink) => behind("submodule"),
        }
    }

    /// Whether the patch removes everything in a folder.
    fn becomes_empty(&self, folder: &[u8]) -> Result<bool, ApplyFault> {
        let mut waiting = vec![folder.to_vec()];
        while let Some(folder) = waiting.pop() {
            let read = self.base.names(&folder).map_err(|source| ApplyFault::Read(plain_or_quoted(&folder), source))?;
            let Some(names) = read else { return Ok(false) };
            for name in names {
                let path = [folder.as_slice(), &name].join(&b'/');
                if self.removed.contains(path.as_slice()) {
                    continue;
                }
                match self.entry(&path)? {
                    Some(BaseEntry::Folder) => waiting.push(path),
                    None => {}
                    Some(BaseEntry::File { .. } | BaseEntry::Link | BaseEntry::Gitlink) => return Ok(false),
                }
            }
        }
        Ok(true)
    }

    fn entry(&self, path: &[u8]) -> Result<Option<BaseEntry>, ApplyFault> {
        self.base.entry(path).map_err(|source| ApplyFault::Read(plain_or_quoted(path), source))
    }
}
