//! Version 2: one tree. Groups are made in the nearest group above the caller's that hands `memory` and `pids` down and may be written to:
//! as root at the top of the tree, as an ordinary user in a delegated group.
//! Reference: Documentation/admin-guide/cgroup-v2.rst.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Group, GroupUsage, Kind, folder_of, mounted, number, set};
use crate::plan::GroupLimits;

/// What every run needs, and what it uses where it is there.
const NEEDED: [&str; 2] = ["memory", "pids"];
const PERIOD_US: u64 = 100_000;

/// The folder in which groups are made, or why there is none.
pub(super) fn discover(mountinfo: &str, own: &str) -> Result<PathBuf, String> {
    let mount = mounted(mountinfo).find(|m| m.kind == "cgroup2").ok_or("no cgroup tree is mounted")?;
    let top = PathBuf::from(mount.at);
    if !has_all(&top.join("cgroup.controllers")) {
        return Err("the cgroup tree has no memory and pids controllers".into());
    }
    let path = own.lines().find_map(|line| line.strip_prefix("0::")).ok_or("this process is in no cgroup")?;
    let own = folder_of(&mount, path);
    candidates(&own, &top)
        .find_map(|parent| base_in(&parent))
        .ok_or_else(|| format!("no cgroup above {} can be written to and hands memory and pids down", own.display()))
}

/// The top as root (where services keep their own), then the caller's own group and those above it.
fn candidates(own: &Path, top: &Path) -> impl Iterator<Item = PathBuf> {
    let first = rustix::process::geteuid().is_root().then(|| top.to_owned());
    let above: Vec<PathBuf> = own.ancestors().take_while(|p| p.starts_with(top)).map(Path::to_owned).collect();
    first.into_iter().chain(above)
}

/// Makes `ringfence` in `parent` with the controllers handed down, if all of that is possible.
fn base_in(parent: &Path) -> Option<PathBuf> {
    let control = parent.join("cgroup.subtree_control");
    if !has_all(&control) {
        hand_down(parent).ok()?;
    }
    let base = parent.join("ringfence");
    fs::create_dir_all(&base).ok()?;
    if !has_all(&base.join("cgroup.subtree_control")) {
        hand_down(&base).ok()?;
    }
    // A process can only be born in a group if the nearest common group is ours too.
    rustix::fs::access(parent.join("cgroup.procs"), rustix::fs::Access::WRITE_OK).ok()?;
    Some(base)
}

fn hand_down(folder: &Path) -> io::Result<()> {
    let control = folder.join("cgroup.subtree_control");
    NEEDED.iter().try_for_each(|controller| set(&control, &format!("+{controller}")))?;
    // Sharing of processors is wanted, not needed.
    set(&control, "+cpu").or(Ok(()))
}

fn has_all(file: &Path) -> bool {
    let text = fs::read_to_string(file).unwrap_or_default();
    NEEDED.iter().all(|controller| text.split_whitespace().any(|word| word == *controller))
}

pub(super) fn create(base: &Path, run: &str, limits: &GroupLimits) -> io::Result<Group> {
    let folder = base.join(run);
    fs::create_dir_all(&folder).map_err(|e| io::Error::new(e.kind(), format!("make the cgroup {}: {e}", folder.display())))?;
    if let Some(bytes) = limits.memory_bytes {
        set(&folder.join("memory.max"), &bytes.to_string())?;
        set(&folder.join("memory.oom.group"), "1")?;
        let swap = folder.join("memory.swap.max");
        if swap.exists() {
            set(&swap, "0")?;
        }
    }
    if let Some(most) = limits.processes {
        set(&folder.join("pids.max"), &most.to_string())?;
    }
    if let Some(milli) = limits.cpus_milli {
        set(&folder.join("cpu.max"), &format!("{} {PERIOD_US}", (PERIOD_US.saturating_mul(milli) / 1000).max(1000)))?;
    }
    Ok(Group { kind: Kind::V2, folders: vec![folder] })
}

pub(super) fn usage(folder: &Path) -> GroupUsage {
    let read = |file: &str, key: Option<&str>| number(&folder.join(file), key);
    GroupUsage {
        cpu: Duration::from_micros(read("cpu.stat", Some("usage_usec")).unwrap_or(0)),
        memory_peak_bytes: read("memory.peak", None).or_else(|| read("memory.current", None)).unwrap_or(0),
        processes_peak: read("pids.peak", None),
        memory_kills: read("memory.events", Some("oom_kill")).unwrap_or(0),
        process_refusals: read("pids.events", Some("max")).unwrap_or(0),
    }
}
