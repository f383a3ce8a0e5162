//! Before there is an init: joins the cgroups, makes the namespaces and init in them.

use ringfence_wire::{Maps, Order, Report};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::path::DecInt;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{DumpableBehavior, set_dumpable_behavior, setsid};

use crate::confine::set;
use crate::failure::{At, Failure};
use crate::links::{receive, send};
use crate::sys;
use crate::sys::process::Close;
use crate::view::write_all;

/// How readily the kernel's memory killer takes the sandbox before anything else of the host (the highest is 1000). Inherited by all inside.
const OOM_SCORE: &[u8] = b"800";

/// True in init, false in the process that made it or when the supervisor is gone.
pub(crate) fn run(control: &OwnedFd) -> Result<bool, Failure> {
    prepare()?;
    let Some((Order::Begin { is_born_in_group, maps }, groups)) = receive(control, RecvFlags::empty()).at("wait for the begin")? else {
        return Ok(false);
    };
    let born_in = if is_born_in_group {
        groups.first()
    } else {
        join(&groups)?;
        None
    };
    let (go, going) = pipe_with(PipeFlags::CLOEXEC).at("make a pipe")?;
    match sys::process::fork_into_namespaces(born_in.map(AsFd::as_fd)).at("make namespaces")? {
        Some((pid, descriptor)) => {
            let pid = pid.as_raw_nonzero().get();
            write_maps(pid, &maps).at("write the id maps")?;
            // Before init can say anything itself.
            send(control, &Report::Born { pid }, &[descriptor.as_fd()]).at("report")?;
            write_all(&going, b"!").at("start init")?;
            Ok(false)
        }
        None => {
            drop((groups, going));
            take_ids(&go, maps.ids)
        }
    }
}

/// Now, while the files are still ours: what follows makes this process one that cannot be looked into.
fn prepare() -> Result<(), Failure> {
    sys::process::close_from(3, Close::Now).at("close descriptors")?;
    sys::signals::reset_all().at("reset signals")?;
    sys::process::be_plain_linux().at("reset the personality")?;
    match set("/proc/self/oom_score_adj", OOM_SCORE) {
        Ok(()) | Err(Errno::ACCESS) => {} // it is higher already, and may not be lowered
        Err(errno) => return Err(errno).at("set the memory killer's score"),
    }
    // Where the host hands crashes to a program of its own, no limit holds: what it gets then has no memory in it.
    match set("/proc/self/coredump_filter", b"0") {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno).at("keep memory out of core files"),
    }
}

/// A thread that moves itself needs no lock of the kernel's over all of them, which would be a wait of milliseconds (Linux 5.18 or newer).
fn join(groups: &[OwnedFd]) -> Result<(), Failure> {
    groups.iter().try_for_each(|tasks| rustix::io::write(tasks, b"0").map(drop)).at("put the sandbox into its cgroup")
}

fn write_maps(pid: i32, maps: &Maps) -> Result<(), Errno> {
    let pid = DecInt::new(pid);
    let write = |name: &str, value: &str| set([b"/proc/", pid.as_bytes(), b"/", name.as_bytes()].concat().as_slice(), value.as_bytes());
    if !maps.may_set_groups {
        write("setgroups", "deny")?;
    }
    write("uid_map", &maps.users)?;
    write("gid_map", &maps.groups)
}

/// Once the maps are written this process is somebody, and nobody can look into it any more. False if they never are.
fn take_ids(go: &OwnedFd, ids: Option<(u32, u32)>) -> Result<bool, Failure> {
    if rustix::io::retry_on_intr(|| rustix::io::read(go, &mut [0u8; 1])).at("wait for the id maps")? == 0 {
        return Ok(false);
    }
    // What is said to the caller's session or group is not for the sandbox.
    setsid().at("start a session")?;
    if let Some((uid, gid)) = ids {
        sys::process::take_ids(uid, gid).at("take ids")?;
    }
    set_dumpable_behavior(DumpableBehavior::NotDumpable).at("hide init's memory")?;
    sys::process::join_new_keyring().at("join a new keyring")?;
    Ok(true)
}
