//! What this host can give: asked before a run, and printed by `ringfence doctor`.

use std::path::Path;

use ringfence_policy::Grade;
use rustix::io::Errno;
use rustix::process::{WaitOptions, geteuid, waitpid};
use serde::Serialize;

use crate::cgroup::Cgroups;
use crate::identity::{IdLine, write_maps};
use crate::plan::{Identity, Owner};
use crate::sys::clone::{exit_now, fork_into};
use crate::sys::landlock;

/// The oldest Landlock that is accepted: with it folders can be renamed and linked across (Linux 5.19).
pub const LEAST_LANDLOCK: u32 = 2;

/// What a run needs to know of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Whether this process is root, with ids to give to each sandbox.
    pub is_root: bool,
    /// Where groups can be made.
    pub cgroups: Cgroups,
    /// Version of Landlock, 0 where there is none.
    pub landlock: u32,
    /// Release of the kernel.
    pub kernel: String,
}

/// Why the host cannot run anything.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{missing}")]
pub struct HostError {
    /// What is missing.
    pub missing: String,
    /// What would help.
    pub hint: String,
}

impl Host {
    /// Looks, and makes the folder in which the groups of runs will be, where one can be had.
    pub fn look() -> Self {
        Self {
            is_root: crate::identity::has_ranges().unwrap_or(false),
            cgroups: Cgroups::discover(),
            landlock: landlock::version(),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        }
    }

    /// Who holds the memory of the tree.
    pub fn memory_grade(&self) -> Grade {
        if self.cgroups.holds_memory() { Grade::Kernel } else { Grade::Watched }
    }

    /// Who holds processor time: it is counted by the kernel or summed, and always ended by the supervisor.
    pub fn cpu_grade(&self) -> Grade {
        Grade::Watched
    }

    /// Whether a memory file system can be the upper layer of a union here: it must keep the union's marks (`user.*` attributes, Linux 6.6).
    pub fn has_writable_union(&self) -> bool {
        let mut numbers = self.kernel.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (6, 6)
    }

    /// What every run needs.
    pub fn check(&self) -> Result<(), HostError> {
        if !Path::new("/proc/self/ns/user").exists() {
            return Err(HostError {
                missing: "/proc is not mounted, or the kernel has no user namespaces".into(),
                hint: "mount -t proc proc /proc".into(),
            });
        }
        if !self.cgroups.holds_memory() && !Path::new("/proc/thread-self/children").exists() {
            return Err(HostError {
                missing: "without a cgroup the tree of processes must be watched, and this kernel does not tell of children".into(),
                hint: "use a kernel with CONFIG_PROC_CHILDREN, or let this process see a cgroup tree".into(),
            });
        }
        if self.landlock < LEAST_LANDLOCK {
            return Err(HostError {
                missing: format!("Landlock version {LEAST_LANDLOCK} is needed, this kernel has {}", self.landlock),
                hint: "use Linux 5.19 or newer with `landlock` in the kernel's `lsm=` list".into(),
            });
        }
        Ok(())
    }
}

/// One line of `doctor`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at.
    pub what: String,
    /// Whether runs work with it.
    pub is_good: bool,
    /// What was found.
    pub found: String,
    /// How to get what is missing.
    pub hint: Option<String>,
}

/// Everything that `doctor` looks at in this crate.
pub fn examine(host: &Host) -> Vec<Finding> {
    let finding = |what: &str, is_good, found: String, hint: Option<String>| Finding { what: what.into(), is_good, found, hint };
    let host_check = host.check().err();
    vec![
        finding(
            "user",
            true,
            if host.is_root { "root: each sandbox has user ids of its own" } else { "ordinary user: the sandbox's one id is yours" }.into(),
            None,
        ),
        finding("kernel", true, host.kernel.clone(), None),
        namespaces(host.is_root),
        finding("landlock", host.landlock >= LEAST_LANDLOCK, format!("version {}", host.landlock), host_check.map(|e| e.hint)),
        seccomp(),
        overlay(),
        cgroups(&host.cgroups),
        finding("memory limit", true, format!("grade {}", host.memory_grade()), None),
        finding("cpu limit", true, format!("grade {}", host.cpu_grade()), None),
        cpus(&host.cgroups),
        crate::disk::examine(host),
        finding("tiers", true, "process; gvisor and microvm are not available in this version".into(), None),
    ]
}

fn namespaces(is_root: bool) -> Finding {
    let made = try_user_namespace(is_root);
    Finding {
        what: "user namespaces".into(),
        is_good: made.is_ok(),
        found: made.map_or_else(|errno| format!("cannot be made: {}", std::io::Error::from(errno)), |()| "can be made".into()),
        hint: made
            .err()
            .map(|_| "sysctl kernel.unprivileged_userns_clone=1 user.max_user_namespaces=15000, or allow the program in AppArmor".into()),
    }
}

fn try_user_namespace(is_root: bool) -> Result<(), Errno> {
    let Some(pid) = fork_into(libc::CLONE_NEWUSER)? else {
        std::thread::sleep(std::time::Duration::from_millis(20));
        exit_now(0)
    };
    let (id, gid) = (if is_root { 0 } else { geteuid().as_raw() }, rustix::process::getegid().as_raw());
    let line = |outside| [IdLine { inside: 0, outside, count: 1 }];
    let mapped = write_maps(pid, &line(id), &line(gid), false);
    waitpid(Some(pid), WaitOptions::empty())?;
    mapped
}

fn seccomp() -> Finding {
    let actions = std::fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail").unwrap_or_default();
    let is_good = actions.contains("kill_process") && actions.contains("errno");
    let found = if is_good { "filters can be loaded".into() } else { "no filters".into() };
    Finding {
        what: "system call filter".into(),
        is_good,
        found,
        hint: (!is_good).then(|| "use a kernel with CONFIG_SECCOMP_FILTER".into()),
    }
}

fn overlay() -> Finding {
    let is_good = std::fs::read_to_string("/proc/filesystems")
        .is_ok_and(|text| text.lines().any(|line| line.trim_start_matches("nodev").trim() == "overlay"));
    let found = if is_good { "overlayfs" } else { "not loaded" }.to_owned();
    Finding { what: "union file system".into(), is_good, found, hint: (!is_good).then(|| "modprobe overlay".into()) }
}

fn cgroups(cgroups: &Cgroups) -> Finding {
    let (found, hint) = match cgroups {
        Cgroups::V2 { base } => (format!("version 2, in {}", base.display()), None),
        Cgroups::V1 { memory, .. } => (format!("version 1, in {} and its like", memory.display()), None),
        Cgroups::None { reason, hint } => (format!("none: {reason}; memory is watched, not held by the kernel"), Some(hint.clone())),
    };
    Finding { what: "cgroups".into(), is_good: true, found, hint }
}

fn cpus(cgroups: &Cgroups) -> Finding {
    let found = if cgroups.holds_cpus() { "can be held by the kernel" } else { "cannot be held here: asking for it is refused" };
    Finding { what: "share of processors".into(), is_good: true, found: found.into(), hint: None }
}

/// True if files below `path` can be shown under other ids.
pub fn can_map_ids(path: &Path, owner: &Owner, identity: Identity) -> bool {
    match identity {
        Identity::Range { first } => crate::source::can_map(path, owner, first),
        Identity::Single { .. } => false,
    }
}
