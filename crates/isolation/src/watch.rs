//! What a tree of processes uses, summed from `/proc`: how limits are held where no cgroup can be had (grade `watched`), and how much
//! a run has used.
//!
//! Every process of a sandbox is below its init. Memory is summed as resident pages and page tables first; only if that is over the limit are
//! shared pages counted once (proportional set size), which costs more. Shared memory without a name is counted by the size of its mapping, since
//! its pages stay when they are no longer resident. Not counted are the kernel's buffers for sockets and pipes.
//!
//! Processor time is kept for each process as it was last seen, since the time of children that nobody waits for is in no total of the kernel's.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use rustix::process::Pid;

/// Looks between two looks at the mappings, which cost more.
const MAPPINGS_EVERY: u32 = 8;

/// What a tree uses now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TreeUsage {
    pub(crate) processes: u64,
    pub(crate) memory_bytes: u64,
    /// Of the living and of the dead, as far as they were seen or waited for.
    pub(crate) cpu: Duration,
}

/// A watch over one tree.
#[derive(Debug)]
pub(crate) struct Watch {
    root: Pid,
    /// Processor ticks of living processes, by id and start.
    living: BTreeMap<(i32, u64), u64>,
    gone_ticks: u64,
    looks: u32,
    nameless_bytes: u64,
}

impl Watch {
    pub(crate) fn over(root: Pid) -> Self {
        Self { root, living: BTreeMap::new(), gone_ticks: 0, looks: 0, nameless_bytes: 0 }
    }

    /// Every process of the tree.
    pub(crate) fn members(&self) -> Vec<i32> {
        members(self.root)
    }

    /// Looks at every process of the tree.
    pub(crate) fn look(&mut self) -> TreeUsage {
        let members = members(self.root);
        if self.looks.is_multiple_of(MAPPINGS_EVERY) {
            self.nameless_bytes = nameless_shared_bytes(&members);
        }
        self.looks = self.looks.wrapping_add(1);
        let memory_bytes = members.iter().map(|pid| resident(*pid)).sum::<u64>() + self.nameless_bytes;
        TreeUsage { processes: members.len() as u64, memory_bytes, cpu: self.cpu(&members) }
    }

    /// The larger of two sums, each of which misses something: own time of all ever seen, and what parents have waited for.
    fn cpu(&mut self, members: &[i32]) -> Duration {
        let stats: Vec<(i32, Stat)> = members.iter().filter_map(|pid| Some((*pid, stat(*pid)?))).collect();
        let living: BTreeMap<(i32, u64), u64> = stats.iter().map(|(pid, s)| ((*pid, s.started), s.own_ticks)).collect();
        let gone = self.living.iter().filter(|(process, _)| !living.contains_key(process));
        self.gone_ticks += gone.map(|(_, ticks)| ticks).sum::<u64>();
        let seen = self.gone_ticks + living.values().sum::<u64>();
        let waited: u64 = stats.iter().map(|(_, s)| s.own_ticks + s.waited_ticks).sum();
        self.living = living;
        Duration::from_millis(seen.max(waited) * 1000 / rustix::param::clock_ticks_per_second().max(1))
    }

    /// Memory with shared pages counted once.
    pub(crate) fn proportional_bytes(&self) -> u64 {
        let of = |pid: i32| proportional(pid).unwrap_or_else(|| resident(pid));
        members(self.root).into_iter().map(of).sum::<u64>() + self.nameless_bytes
    }
}

/// Sizes of `MAP_SHARED | MAP_ANONYMOUS` mappings, each counted once however many processes share it: proc_pid_maps(5) shows them as a removed
/// `/dev/zero` with a number of its own.
fn nameless_shared_bytes(members: &[i32]) -> u64 {
    let mut found = BTreeSet::new();
    for pid in members {
        for line in
            fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default().lines().filter(|l| l.ends_with("/dev/zero (deleted)"))
        {
            let mut fields = line.split_ascii_whitespace();
            let range = fields.next().and_then(|range| range.split_once('-'));
            let ends = range.and_then(|(a, b)| Some((u64::from_str_radix(a, 16).ok()?, u64::from_str_radix(b, 16).ok()?)));
            let offset = fields.nth(1).map(str::to_owned);
            if let (Some((start, end)), Some(offset), Some(inode)) = (ends, offset, fields.nth(1)) {
                found.insert((inode.to_owned(), offset, end - start));
            }
        }
    }
    found.iter().map(|(_, _, bytes)| bytes).sum()
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

/// Anonymous pages and page tables. Pages of files are the page cache's, or are counted where the files are: in the scratch file system.
fn resident(pid: i32) -> u64 {
    let of_memory = |folder: String| {
        let status = fs::read_to_string(format!("{folder}/status")).ok()?;
        Some(kilobytes(&status, "RssAnon:")? + kilobytes(&status, "VmPTE:").unwrap_or(0))
    };
    // A process whose first thread has ended tells of its memory only through another one.
    let threads = || fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let found = of_memory(format!("/proc/{pid}")).or_else(|| threads().find_map(|thread| of_memory(thread.path().display().to_string())));
    found.unwrap_or(0) * 1024
}

fn proportional(pid: i32) -> Option<u64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    Some(kilobytes(&rollup, "Pss_Anon:")? * 1024)
}

fn kilobytes(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.trim().strip_suffix(" kB")?.trim().parse().ok())
}

struct Stat {
    own_ticks: u64,
    waited_ticks: u64,
    started: u64,
}

/// Fields 14 to 17 and 22 of proc_pid_stat(5), counted after the name, which may hold anything.
fn stat(pid: i32) -> Option<Stat> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<u64> = stat.rsplit_once(')')?.1.split_whitespace().skip(1).map(|field| field.parse().unwrap_or(0)).collect();
    let field = |number: usize| fields.get(number - 4).copied();
    Some(Stat { own_ticks: field(14)? + field(15)?, waited_ticks: field(16)? + field(17)?, started: field(22)? })
}
