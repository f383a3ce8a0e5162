//! Control groups: limits that the kernel holds for the whole tree. Version 2 where its controllers are, else version 1, else none, and then
//! the reason is told.

mod v1;
mod v2;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::plan::GroupLimits;

/// Where groups can be made on this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "version", rename_all = "snake_case")]
pub enum Cgroups {
    /// Version 2: below this folder.
    V2 {
        /// The folder, with `memory` and `pids` handed down.
        base: PathBuf,
    },
    /// Version 1: below one folder a controller.
    V1 {
        /// Holds memory.
        memory: PathBuf,
        /// Holds processes.
        pids: PathBuf,
        /// Counts processor time.
        cpuacct: Option<PathBuf>,
        /// Shares processors.
        cpu: Option<PathBuf>,
    },
    /// None can be made.
    None {
        /// Why.
        reason: String,
        /// What would help.
        hint: String,
    },
}

impl Cgroups {
    /// Looks at the host: reads two files, and tries to make the folder in which groups will be.
    pub fn discover() -> Self {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        match v2::discover(&mounts, &own) {
            Ok(base) => Self::V2 { base },
            Err(v2_reason) => v1::discover(&mounts, &own).unwrap_or_else(|| none(&v2_reason)),
        }
    }

    /// True if a cgroup holds the memory of the whole tree.
    pub fn holds_memory(&self) -> bool {
        !matches!(self, Self::None { .. })
    }

    /// True if shares of processors can be held.
    pub fn holds_cpus(&self) -> bool {
        match self {
            Self::V2 { base } => {
                fs::read_to_string(base.join("cgroup.subtree_control")).is_ok_and(|c| c.split_whitespace().any(|w| w == "cpu"))
            }
            Self::V1 { cpu, .. } => cpu.is_some(),
            Self::None { .. } => false,
        }
    }

    /// The folders that the group of a run may have, known before it is made.
    pub fn folders(&self, run: &str) -> Vec<PathBuf> {
        match self {
            Self::V2 { base } => vec![base.join(run)],
            Self::V1 { memory, pids, cpuacct, cpu } => {
                [Some(memory), Some(pids), cpuacct.as_ref(), cpu.as_ref()].into_iter().flatten().map(|base| base.join(run)).collect()
            }
            Self::None { .. } => Vec::new(),
        }
    }

    /// Makes the group of one run.
    pub fn create(&self, run: &str, limits: &GroupLimits) -> io::Result<Option<Group>> {
        let created = match self {
            Self::V2 { base } => v2::create(base, run, limits).map(Some),
            Self::V1 { memory, pids, cpuacct, cpu } => {
                v1::create([memory, pids], cpuacct.as_deref(), cpu.as_deref(), run, limits).map(Some)
            }
            Self::None { .. } => Ok(None),
        };
        if created.is_err() {
            // What was made of it goes again; what is not there cannot be removed.
            self.folders(run).iter().for_each(|folder| fs::remove_dir(folder).unwrap_or_default());
        }
        created
    }
}

fn none(reason: &str) -> Cgroups {
    let hint = match rustix::process::geteuid().is_root() {
        true => "let this process see a cgroup tree with the memory and pids controllers",
        false => "run under `systemd-run --user --scope -p Delegate=yes`, or as root",
    };
    Cgroups::None { reason: reason.to_owned(), hint: hint.to_owned() }
}

/// What a group has used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroupUsage {
    /// Processor time of all its processes, ended ones too.
    pub cpu: Duration,
    /// Most memory at once, bytes.
    pub memory_peak_bytes: u64,
    /// Most processes at once, where the kernel counts it.
    pub processes_peak: Option<u64>,
    /// Processes killed for want of memory.
    pub memory_kills: u64,
    /// Times that a new process was refused.
    pub process_refusals: u64,
}

/// The group of one run.
#[derive(Debug)]
pub struct Group {
    kind: Kind,
    /// Every folder, to be removed at the end.
    pub folders: Vec<PathBuf>,
}

#[derive(Debug)]
enum Kind {
    V1,
    V2,
}

/// How a new process gets into a group.
#[derive(Debug, Default)]
pub(crate) struct Entry {
    /// The kernel puts it there, given the folder (version 2). Otherwise it writes `0` into each file, which moves itself (version 1).
    pub(crate) is_born_in: bool,
    /// The folder, or the files.
    pub(crate) files: Vec<fs::File>,
}

impl Group {
    /// The way in, opened.
    pub(crate) fn entry(&self) -> io::Result<Entry> {
        let (is_born_in, files) = match self.kind {
            Kind::V1 => {
                let tasks = |folder: &PathBuf| fs::File::options().write(true).open(folder.join("tasks"));
                (false, self.folders.iter().map(tasks).collect::<io::Result<_>>()?)
            }
            Kind::V2 => (true, vec![fs::File::open(&self.folders[0])?]),
        };
        Ok(Entry { is_born_in, files })
    }

    /// What was used so far.
    pub fn usage(&self) -> GroupUsage {
        match self.kind {
            Kind::V1 => v1::usage(&self.folders),
            Kind::V2 => v2::usage(&self.folders[0]),
        }
    }

    /// Removes the group; its processes must be dead. The kernel may need a moment to see that.
    pub fn remove(&self) -> io::Result<()> {
        let give_up_at = Instant::now() + Duration::from_secs(2);
        self.folders.iter().try_for_each(|folder| remove_folder(folder, give_up_at))
    }
}

/// Removes one group's folder, waiting for the kernel to forget the processes.
pub(crate) fn remove_folder(folder: &Path, give_up_at: Instant) -> io::Result<()> {
    loop {
        match fs::remove_dir(folder) {
            Ok(()) => return Ok(()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(e) if Instant::now() >= give_up_at => return Err(e),
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// One number out of a file of `key value` lines, or of a lone number.
fn number(path: &Path, key: Option<&str>) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    match key {
        None => text.trim().parse().ok(),
        Some(key) => text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok()),
    }
}

/// Where hierarchies are mounted: mount point, root of the mount, file system type, options.
struct Mounted<'a> {
    root: &'a str,
    at: &'a str,
    kind: &'a str,
    options: &'a str,
}

/// Parses `/proc/self/mountinfo`, as proc_pid_mountinfo(5) describes it.
fn mounted(mountinfo: &str) -> impl Iterator<Item = Mounted<'_>> {
    mountinfo.lines().filter_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let (root, at) = (before.next()?, before.next()?);
        let mut after = after.split(' ');
        let (kind, _source, options) = (after.next()?, after.next()?, after.next()?);
        Some(Mounted { root, at, kind, options })
    })
}

/// The folder of group `own` in a hierarchy whose mount shows `root`.
fn folder_of(mount: &Mounted<'_>, own: &str) -> PathBuf {
    let below = own.strip_prefix(mount.root.trim_end_matches('/')).unwrap_or("");
    Path::new(mount.at).join(below.trim_start_matches('/'))
}

/// Writes a control file, naming it in the error.
fn set(path: &Path, value: &str) -> io::Result<()> {
    fs::write(path, value).map_err(|e| io::Error::new(e.kind(), format!("write `{value}` to {}: {e}", path.display())))
}
