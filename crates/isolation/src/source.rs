//! Opens the host's folders that become layers: each a private, read-only clone of its mount, id-mapped where the plan says so.
//!
//! As root this is done by the supervisor, which can see the folders; as an ordinary user by init, which has the caller's own eyes.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{OpenTreeFlags, open_tree};

use crate::identity::{self, IdLine};
use crate::plan::{Identity, Owner, Plan, Source};
use crate::step::{AtStep, StepError};
use crate::sys;

/// Attributes of every source.
pub(crate) const READ_ONLY: u64 = libc::MOUNT_ATTR_RDONLY | WRITABLE;
/// Attributes of storage on disk.
pub(crate) const WRITABLE: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;

/// Makes the run's storage, if it is on disk, and opens every source, the storage last. As an ordinary user init does the opening.
pub(crate) fn open_all(plan: &Plan) -> Result<Vec<OwnedFd>, StepError> {
    let disk = crate::disk::make(plan)?;
    match plan.identity {
        Identity::Range { .. } => plan.sources.iter().map(|source| open(source, plan.identity)).chain(disk.map(Ok)).collect(),
        Identity::Single { .. } => Ok(Vec::new()),
    }
}

fn open(source: &Source, identity: Identity) -> Result<OwnedFd, StepError> {
    let at = || format!("open {}", source.path.display());
    let tree = open_tree(CWD, &source.path, OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC).at(at)?;
    let map = match (&source.owner, identity) {
        (Some(owner), Identity::Range { first }) => Some(id_map(owner, first).at(|| "make an id map".into())?),
        (Some(_), Identity::Single { .. }) | (None, _) => None,
    };
    sys::mount::set_attributes(tree.as_fd(), READ_ONLY, map.as_ref().map(AsFd::as_fd))
        .at(|| format!("make {} read-only", source.path.display()))?;
    Ok(tree)
}

/// A user namespace whose maps turn the owner's ids into the agent's. Other groups get ids of the range that nobody has.
fn id_map(owner: &Owner, first: u32) -> Result<OwnedFd, Errno> {
    let agent = first + identity::AGENT;
    let users = [IdLine { inside: owner.uid, outside: agent, count: 1 }];
    let groups: Vec<IdLine> = owner
        .gids
        .iter()
        .zip(std::iter::once(agent).chain(first + identity::STRANGERS..))
        .map(|(gid, outside)| IdLine { inside: *gid, outside, count: 1 })
        .collect();
    identity::user_namespace(&users, &groups)
}

/// True if the file system under `path` can be id-mapped.
pub(crate) fn can_map(path: &std::path::Path, owner: &Owner, first: u32) -> bool {
    open(&Source { path: path.to_owned(), owner: Some(owner.clone()) }, Identity::Range { first }).is_ok()
}
