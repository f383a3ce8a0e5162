//! What a tree of processes uses, summed from `/proc`: how limits are held where no cgroup can be had (grade `watched`), and how much
//! a run has used.
//!
//! Every process of a sandbox is below its init. Memory is summed as resident pages first; only if that is over the limit are shared pages
//! counted once (proportional set size), which costs more.

use std::fs;
use std::time::Duration;

use rustix::process::Pid;

/// What a tree uses now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TreeUsage {
    pub(crate) processes: u64,
    pub(crate) resident_bytes: u64,
    /// Of the living, and of the dead whom their parents have waited for.
    pub(crate) cpu: Duration,
}

/// Sums the tree below and including `root`.
pub(crate) fn tree(root: Pid) -> TreeUsage {
    let mut sum = TreeUsage::default();
    for pid in members(root) {
        sum.processes += 1;
        sum.resident_bytes += resident(pid);
        sum.cpu += cpu(pid);
    }
    sum
}

/// Memory of the tree with shared pages counted once.
pub(crate) fn proportional_bytes(root: Pid) -> u64 {
    members(root).into_iter().map(|pid| proportional(pid).unwrap_or_else(|| resident(pid))).sum()
}

fn members(root: Pid) -> Vec<i32> {
    let mut found = vec![root.as_raw_nonzero().get()];
    let mut next = 0;
    while let Some(pid) = found.get(next).copied() {
        next += 1;
        let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        for thread in threads {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            found.extend(children.split_whitespace().filter_map(|c| c.parse::<i32>().ok()));
        }
    }
    found
}

/// Anonymous and shared-memory pages; file pages are the page cache's.
fn resident(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let of = |key: &str| status.lines().find_map(|l| l.strip_prefix(key)?.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    (of("RssAnon:").unwrap_or(0) + of("RssShmem:").unwrap_or(0)) * 1024
}

fn proportional(pid: i32) -> Option<u64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let of = |key: &str| rollup.lines().find_map(|l| l.strip_prefix(key)?.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    Some((of("Pss_Anon:")? + of("Pss_Shmem:")?) * 1024)
}

/// Fields 14 to 17 of proc_pid_stat(5), counted after the name, which may hold anything.
fn cpu(pid: i32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: u64 = after.split_whitespace().skip(11).take(4).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second().max(1))
}
