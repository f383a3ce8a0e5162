//! User ids: which range of the host a sandbox has, and how maps are written.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

use ringfence_wire::Maps;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, getegid, geteuid, waitpid};

use crate::plan::{Identity, RANGE};
use crate::sys::clone::{exit_now, fork_into};
use crate::sys::descriptors::close_from;

/// The agent's user and group id inside.
pub(crate) const AGENT: u32 = 1000;
/// Ids inside from which groups of other files are numbered; nobody has them.
pub(crate) const STRANGERS: u32 = 2000;
/// The first host id of the first range. Below are users, subordinate ids (100000 to 165535) and the ranges of container managers.
const FIRST: u32 = 0x7000_0000;
/// How many sandboxes can have a range at once.
const SLOTS: u32 = 4096;
/// Where ranges are locked, by root.
const LOCKS: &str = "/run/ringfence/ids";

/// A sandbox's identity, kept to itself for as long as this value lives.
#[derive(Debug)]
pub struct IdentityLease {
    /// What the plan says.
    pub identity: Identity,
    _lock: Option<File>,
}

/// Takes a free range as root, or the caller's own ids.
pub fn lease_identity() -> std::io::Result<IdentityLease> {
    if !has_ranges()? {
        let identity = Identity::Single { uid: geteuid().as_raw(), gid: getegid().as_raw() };
        return Ok(IdentityLease { identity, _lock: None });
    }
    // Nobody else may take these locks.
    fs::DirBuilder::new().recursive(true).mode(0o700).create(LOCKS)?;
    fs::set_permissions(LOCKS, fs::Permissions::from_mode(0o700))?;
    for slot in 0..SLOTS {
        let lock = File::options().create(true).truncate(false).write(true).open(Path::new(LOCKS).join(slot.to_string()))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let identity = Identity::Range { first: FIRST + slot * RANGE };
            return Ok(IdentityLease { identity, _lock: Some(lock) });
        }
    }
    Err(std::io::Error::other(format!("all {SLOTS} ranges of user ids are in use")))
}

/// Whether this process may give each sandbox ids of its own: root, and not the root of a namespace in which those ids do not exist.
pub(crate) fn has_ranges() -> std::io::Result<bool> {
    let map = fs::read_to_string("/proc/self/uid_map")?;
    let covers = |line: &str| {
        let mut fields = line.split_ascii_whitespace().filter_map(|field| field.parse::<u64>().ok());
        let (inside, count) = (fields.next().unwrap_or(u64::MAX), fields.nth(1).unwrap_or(0));
        inside <= u64::from(FIRST) && inside.saturating_add(count) >= u64::from(FIRST) + u64::from(SLOTS) * u64::from(RANGE)
    };
    Ok(geteuid().is_root() && map.lines().any(covers))
}

/// One line of an id map.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IdLine {
    pub(crate) inside: u32,
    pub(crate) outside: u32,
    pub(crate) count: u32,
}

/// Writes the maps of a process in a new user namespace.
pub(crate) fn write_maps(pid: Pid, users: &[IdLine], groups: &[IdLine], may_set_groups: bool) -> Result<(), Errno> {
    let folder = format!("/proc/{}", pid.as_raw_nonzero());
    if !may_set_groups {
        write(&format!("{folder}/setgroups"), "deny")?;
    }
    write(&format!("{folder}/uid_map"), &lines(users))?;
    write(&format!("{folder}/gid_map"), &lines(groups))
}

/// The maps that an identity asks for, as init writes them. As root init is user 0 of its namespace; as an ordinary user it is the agent.
pub(crate) fn maps(identity: Identity) -> Maps {
    let line = |inside, outside, count| lines(&[IdLine { inside, outside, count }]);
    match identity {
        Identity::Range { first } => {
            Maps { users: line(0, first, RANGE), groups: line(0, first, RANGE), may_set_groups: true, ids: Some((0, 0)) }
        }
        Identity::Single { uid, gid } => Maps { users: line(AGENT, uid, 1), groups: line(AGENT, gid, 1), may_set_groups: false, ids: None },
    }
}

/// A user namespace with the given maps, held open by its descriptor alone.
pub(crate) fn user_namespace(users: &[IdLine], groups: &[IdLine]) -> Result<OwnedFd, Errno> {
    let (waits, held) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let Some(pid) = fork_into(libc::CLONE_NEWUSER)? else {
        // Lives until the parent lets go of the pipe, also by dying. It has copies of what other threads hold, such as the pipe of another
        // one like it: were they kept, the two would wait for each other.
        if rustix::stdio::dup2_stdin(&waits).and_then(|()| close_from(1)).is_ok() {
            rustix::io::read(rustix::stdio::stdin(), &mut [0u8; 1]).unwrap_or(0);
        }
        exit_now(0)
    };
    let opened = write_maps(pid, users, groups, true)
        .and_then(|()| File::open(format!("/proc/{}/ns/user", pid.as_raw_nonzero())).map_err(crate::step::errno));
    drop(held);
    match waitpid(Some(pid), rustix::process::WaitOptions::empty()) {
        Ok(_) | Err(Errno::CHILD) => {} // a caller that ignores SIGCHLD leaves no child to wait for
        Err(errno) => return Err(errno),
    }
    opened.map(OwnedFd::from)
}

fn lines(map: &[IdLine]) -> String {
    map.iter().map(|line| format!("{} {} {}\n", line.inside, line.outside, line.count)).collect()
}

/// A map is taken by the kernel in one write only.
fn write(path: &str, text: &str) -> Result<(), Errno> {
    let written = File::options().write(true).open(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))
}
