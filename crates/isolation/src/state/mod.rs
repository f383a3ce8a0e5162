//! State: the files of a sandbox that outlive it, as one tar. Written from a standing sandbox or from what remains of one, and laid out in another one
//! before its first command.
//!
//! Saving opens everything by descriptors beneath the folders that init handed out, follows no link and enters no other file system. Restoring has, as
//! root, the file rights of the agent and none of root's, so that the limits of the sandbox's file system hold and a damaged tar reaches nothing else.

mod error;
mod header;
mod restore;
mod save;

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};

pub use error::StateError;
pub use restore::Restored;
pub use save::Saved;

use crate::plan::Identity;
use crate::sandbox::{Remains, Sandbox};
use crate::step::errno;
use crate::workspace::beneath;

/// Names of the two trees in a tar.
const WORKSPACE: &str = "workspace";
const TMP: &str = "tmp";

/// The agent's files of a sandbox: its workspace and `/tmp`. Any thread may use it, and it keeps the files alive for as long as it lives.
#[derive(Debug)]
pub struct Trees {
    workspace: OwnedFd,
    tmp: OwnedFd,
    identity: Identity,
    /// The workspace is the view of a project.
    is_view: bool,
}

impl Sandbox<'_> {
    /// The agent's files. What is saved while commands run is what each file held when it was read.
    pub fn trees(&self) -> Result<Trees, Errno> {
        let handle = |at: usize| self.launched.handles.get(at).ok_or(Errno::BADF);
        Trees::of(handle(0)?, handle(1)?, self.identity, handle(3).is_ok())
    }
}

impl Remains {
    /// The agent's files, which nobody changes any more.
    pub fn trees(&self) -> Result<Trees, Errno> {
        Trees::of(&self.workspace, &self.scratch, self.identity(), self.changes.is_some())
    }
}

impl Trees {
    /// Two folders of the caller's own in place of those of a sandbox: what is laid out there is the caller's.
    pub fn in_folders(workspace: OwnedFd, tmp: OwnedFd) -> Self {
        let identity = Identity::Single { uid: geteuid().as_raw(), gid: getegid().as_raw() };
        Self { workspace, tmp, identity, is_view: false }
    }

    fn of(workspace: &OwnedFd, scratch: &OwnedFd, identity: Identity, is_view: bool) -> Result<Self, Errno> {
        Ok(Self {
            workspace: workspace.try_clone().map_err(errno)?,
            tmp: beneath::open(scratch.as_fd(), TMP.as_bytes(), OFlags::PATH | OFlags::DIRECTORY)?,
            identity,
            is_view,
        })
    }

    /// Both, with the names that they have in a tar, in the order in which they stand there.
    fn each(&self) -> [(&'static str, &OwnedFd); 2] {
        [(WORKSPACE, &self.workspace), (TMP, &self.tmp)]
    }
}
