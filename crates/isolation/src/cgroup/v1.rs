//! Version 1: one hierarchy a controller. Groups are made below the caller's own group of each, in a folder `ringfence`.
//! Reference: Documentation/admin-guide/cgroup-v1.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Cgroups, Group, GroupUsage, Kind, folder_of, mounted, number, set};
use crate::plan::GroupLimits;

/// One period of processor sharing, in microseconds.
const PERIOD_US: u64 = 100_000;

pub(super) fn discover(mountinfo: &str, own: &str) -> Option<Cgroups> {
    let find = |controller: &str| writable(&own_folder(mountinfo, own, controller)?);
    Some(Cgroups::V1 { memory: find("memory")?, pids: find("pids")?, cpuacct: Some(find("cpuacct")?), cpu: find("cpu") })
}

/// The caller's own group in the hierarchy of a controller.
fn own_folder(mountinfo: &str, own: &str, controller: &str) -> Option<PathBuf> {
    let has = |list: &str| list.split(',').any(|word| word == controller);
    let mount = mounted(mountinfo).find(|m| m.kind == "cgroup" && has(m.options))?;
    let path = own.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        has(controllers).then_some(path)
    })?;
    Some(folder_of(&mount, path))
}

fn writable(own: &Path) -> Option<PathBuf> {
    let base = own.join("ringfence");
    let is_ours = || rustix::fs::access(&base, rustix::fs::Access::WRITE_OK).is_ok();
    (is_ours() || (fs::create_dir_all(&base).is_ok() && is_ours())).then_some(base)
}

pub(super) fn create(
    needed: [&PathBuf; 2],
    cpuacct: Option<&Path>,
    cpu: Option<&Path>,
    run: &str,
    limits: &GroupLimits,
) -> io::Result<Group> {
    let cpu = cpu.filter(|_| limits.cpus_milli.is_some());
    let folders: Vec<PathBuf> = needed.into_iter().map(PathBuf::as_path).chain(cpuacct).chain(cpu).map(|base| base.join(run)).collect();
    for folder in &folders {
        fs::create_dir_all(folder).map_err(|e| io::Error::new(e.kind(), format!("make the cgroup {}: {e}", folder.display())))?;
    }
    let (memory, pids) = (&folders[0], &folders[1]);
    if let Some(bytes) = limits.memory_bytes {
        set(&memory.join("memory.limit_in_bytes"), &bytes.to_string())?;
        let with_swap = memory.join("memory.memsw.limit_in_bytes");
        if with_swap.exists() {
            set(&with_swap, &bytes.to_string())?;
        }
    }
    if let Some(most) = limits.processes {
        set(&pids.join("pids.max"), &most.to_string())?;
    }
    if let (Some(milli), Some(folder)) = (limits.cpus_milli, folders.last()) {
        set(&folder.join("cpu.cfs_period_us"), &PERIOD_US.to_string())?;
        set(&folder.join("cpu.cfs_quota_us"), &(PERIOD_US.saturating_mul(milli) / 1000).max(1000).to_string())?;
    }
    Ok(Group { kind: Kind::V1, folders })
}

pub(super) fn usage(folders: &[PathBuf]) -> GroupUsage {
    let cpu = folders.get(2).and_then(|folder| number(&folder.join("cpuacct.usage"), None));
    GroupUsage {
        cpu: Duration::from_nanos(cpu.unwrap_or(0)),
        memory_peak_bytes: number(&folders[0].join("memory.max_usage_in_bytes"), None).unwrap_or(0),
        processes_peak: number(&folders[1].join("pids.peak"), None),
        memory_kills: number(&folders[0].join("memory.oom_control"), Some("oom_kill")).unwrap_or(0),
        process_refusals: number(&folders[1].join("pids.events"), Some("max")).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_group_is_found_in_a_hybrid_tree() {
        let mounts = "30 25 0:26 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
                      31 25 0:27 /docker/x /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n";
        let own = "4:memory:/a/b\n2:cpu,cpuacct:/docker/x/y\n0::/\n";
        assert_eq!(own_folder(mounts, own, "memory"), Some("/sys/fs/cgroup/memory/a/b".into()));
        assert_eq!(own_folder(mounts, own, "cpuacct"), Some("/sys/fs/cgroup/cpu,cpuacct/y".into()));
        assert_eq!(own_folder(mounts, own, "pids"), None);
    }
}
