//! The files of a standing sandbox, as its agent sees them: looked at, read, written, moved, removed and watched from outside.
//!
//! A path is resolved inside the sandbox's own root, links included, and never leaves it; magic links of `/proc` lead nowhere. What is found is looked at
//! before it is opened: regular files and folders of the image and of what the run can write, nothing of the kernel's. As root, each call has the file
//! rights of the agent and none of root's.

mod change;
mod entry;
pub(crate) mod error;
pub(crate) mod metadata;
mod read;
mod watch;

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags, ResolveFlags, fstatfs, openat2};
use rustix::io::Errno;

pub use entry::{FileEntry, FileKind};
pub use error::FileError;
pub use watch::{FileChange, FileEvent, Watch};

use crate::identity::AGENT;
use crate::plan::Identity;
use crate::sandbox::Sandbox;
use crate::sys::rights::FileRights;
use crate::text::OsText;
use error::AtPath;

/// Times that a look-up is tried again when something inside was renamed meanwhile.
const TRIES: usize = 16;

/// Kinds of file systems that hold files of a sandbox: memory, unions, ext4.
const HOLDING: [i128; 3] = [0x0102_1994, 0x794c_7630, 0xef53];

/// A way to the files of one sandbox, for any thread. It is of no use once the sandbox is gone.
#[derive(Debug)]
pub struct Files {
    root: OwnedFd,
    identity: Identity,
    folder: String,
}

impl Sandbox<'_> {
    /// A way to its files.
    pub fn files(&self) -> Result<Files, Errno> {
        let root = self.launched.handles.get(2).ok_or(Errno::BADF)?;
        Ok(Files { root: root.try_clone().map_err(crate::step::errno)?, identity: self.identity, folder: self.folder.clone() })
    }
}

impl Files {
    /// The rights with which everything here is done.
    fn rights(&self) -> Result<Option<FileRights>, FileError> {
        match self.identity {
            Identity::Range { first } => FileRights::of(first + AGENT, first + AGENT).map(Some).at(&OsText::from("/")),
            Identity::Single { .. } => Ok(None),
        }
    }

    /// Bytes of what was written, as the file system of the workspace counts them.
    pub fn used_bytes(&self) -> Result<u64, FileError> {
        let path = self.absolute(&OsText::from("."))?;
        let fs = fstatfs(self.handle(&path, Last::Followed).at(&path)?).at(&path)?;
        Ok(fs.f_blocks.saturating_sub(fs.f_bfree).saturating_mul(fs.f_bsize as u64))
    }

    /// A path as it stands in the sandbox: one that does not begin with `/` begins in the workspace.
    fn absolute(&self, path: &OsText) -> Result<OsText, FileError> {
        let bytes = path.as_bytes();
        if bytes.contains(&0) || bytes.len() > 4095 {
            return Err(FileError::Path { path: path.escaped() });
        }
        let from = if bytes.starts_with(b"/") { &b""[..] } else { self.folder.as_bytes() };
        let mut parts: Vec<&[u8]> = Vec::new();
        for part in from.split(|b| *b == b'/').chain(bytes.split(|b| *b == b'/')).filter(|part| !part.is_empty() && *part != b".") {
            parts.push(part);
        }
        Ok(OsText::from([&b"/"[..], &parts.join(&b'/')].concat().as_slice()))
    }

    /// A handle on what is at an absolute path, without opening it.
    fn handle(&self, path: &OsText, last: Last) -> Result<OwnedFd, Errno> {
        let follow = if last == Last::AsItIs { OFlags::NOFOLLOW } else { OFlags::empty() };
        self.resolve(path.as_bytes(), OFlags::PATH | follow)
    }

    fn resolve(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let mut tries = (0..TRIES).map(|_| openat2(&self.root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve));
        tries.find(|tried| !matches!(tried, Err(Errno::AGAIN))).unwrap_or(Err(Errno::AGAIN))
    }
}

/// What to do with a link at the end of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    Followed,
    AsItIs,
}

/// Opens what a handle is on; it was looked at before.
pub(crate) fn reopen(handle: &OwnedFd, flags: OFlags) -> Result<OwnedFd, Errno> {
    use std::os::fd::AsRawFd;
    let path = format!("/proc/self/fd/{}", handle.as_raw_fd());
    rustix::fs::open(path, flags | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK, Mode::empty())
}

/// Whether a handle is on something of the sandbox's own files, and not of the kernel's.
fn is_kept(handle: impl AsFd) -> bool {
    fstatfs(handle).is_ok_and(|fs| HOLDING.contains(&i128::from(fs.f_type)))
}
