//! What the host sees once a run is over: whatever the probe left behind must be gone.

use std::fs;
use std::path::{Path, PathBuf};

use super::attempts::LEFT_IN;
use super::bait::Bait;
use crate::run::Runner;

/// What is left of a run on the host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Aftermath {
    /// Processes that bear the mark.
    pub(crate) processes: Vec<String>,
    /// Folders of its cgroup.
    pub(crate) cgroups: Vec<String>,
    /// Mounts that name the run or the mark.
    pub(crate) mounts: Vec<String>,
    /// Its folders and marks in the home.
    pub(crate) folders: Vec<String>,
    /// Files of the mark in the host's own temporary folders.
    pub(crate) files: Vec<String>,
    /// System V segments of the key.
    pub(crate) segments: Vec<String>,
    /// Paths of the project that are not as they were.
    pub(crate) project: Vec<String>,
}

impl Aftermath {
    pub(crate) fn look(runner: &Runner, run: &str, bait: &Bait) -> Self {
        let there = |paths: Vec<PathBuf>| paths.into_iter().filter(|path| path.exists()).map(|path| path.display().to_string()).collect();
        Self {
            processes: processes(&bait.names.mark),
            cgroups: there(runner.host.cgroups.folders(run)),
            mounts: mounts(&[run, &bait.names.mark]),
            folders: there(vec![runner.home.work().join(run), runner.home.live().join(run)]),
            files: there(LEFT_IN.iter().map(|folder| Path::new(folder).join(&bait.names.mark)).collect()),
            segments: segments(&fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default(), bait.names.key()),
            project: bait.changed(),
        }
    }
}

fn processes(mark: &str) -> Vec<String> {
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let bears = |pid: &String| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        pid.parse::<u32>().is_ok_and(|pid| pid != std::process::id()) && String::from_utf8_lossy(&line).contains(mark)
    };
    pids.filter(bears).map(|pid| format!("process {pid}")).collect()
}

fn mounts(names: &[&str]) -> Vec<String> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let point = |line: &str| line.split(' ').nth(4).unwrap_or_default().to_owned();
    table.lines().filter(|line| names.iter().any(|name| line.contains(name))).map(point).collect()
}

/// Segments with a key, in the table of the kernel's (sysvipc(5)): the first column is the key.
pub(crate) fn segments(table: &str, key: u64) -> Vec<String> {
    let has_key = |line: &&str| line.split_whitespace().next() == Some(key.to_string().as_str());
    table.lines().filter(has_key).map(|_| format!("segment {key}")).collect()
}
