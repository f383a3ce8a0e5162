//! What a sandbox uses, held against its limits. Decides which limit was met; the supervisor acts on it.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use ringfence_policy::{Grade, LimitKey, Limits};
use rustix::fs::fstatfs;
use rustix::process::Pid;

use crate::cgroup::{Group, GroupUsage};
use crate::disk::{Disk, DiskForm, Tally};
use crate::sandbox::Usage;
use crate::watch::Watch;

/// How long the supervisor sleeps at most between two looks at the limits.
const TICK: Duration = Duration::from_millis(25);
/// The same where the supervisor itself holds the memory limit.
const WATCHFUL_TICK: Duration = Duration::from_millis(10);

/// The same two where no command runs.
const QUIET_TICK: Duration = Duration::from_secs(1);
const QUIET_WATCHFUL_TICK: Duration = Duration::from_millis(100);

/// Bytes that may be left of a file system on disk that is full: they are kept for its own tables.
const FULL: u64 = 64 << 10;

/// Where what the run writes is kept, as it has to be looked at.
#[derive(Debug)]
enum Storage {
    /// It counts as memory.
    Memory,
    /// The kernel holds its size.
    FileSystem,
    /// It is summed here.
    Folder(Tally),
}

impl Storage {
    fn of(disk: Option<&Disk>) -> Self {
        match disk.map(|disk| (disk, disk.form)) {
            None => Self::Memory,
            Some((_, DiskForm::FileSystem)) => Self::FileSystem,
            Some((disk, DiskForm::Folder)) => Self::Folder(Tally::of(disk)),
        }
    }
}

/// The usage of one sandbox so far.
#[derive(Debug)]
pub(crate) struct Meter {
    limits: Limits,
    is_memory_watched: bool,
    watch: Watch,
    storage: Storage,
    started_at: Instant,
    next_look: Instant,
    used: Usage,
    reached: Vec<LimitKey>,
}

impl Meter {
    pub(crate) fn start(started_at: Instant, init: Pid, limits: &Limits, memory_grade: Grade, disk: Option<&Disk>) -> Self {
        Self {
            limits: limits.clone(),
            is_memory_watched: memory_grade != Grade::Kernel,
            watch: Watch::over(init),
            storage: Storage::of(disk),
            started_at,
            // The first look can find nothing yet but what building used.
            next_look: Instant::now() + WATCHFUL_TICK,
            used: Usage::default(),
            reached: Vec::new(),
        }
    }

    /// How long until the next look is due.
    pub(crate) fn patience(&self) -> Duration {
        self.next_look.saturating_duration_since(Instant::now()).min(self.left_of_wall())
    }

    fn tick(&self, is_quiet: bool) -> Duration {
        let tick = match (is_quiet, self.is_memory_watched) {
            (true, true) => QUIET_WATCHFUL_TICK,
            (true, false) => QUIET_TICK,
            (false, true) => WATCHFUL_TICK,
            (false, false) => TICK,
        };
        tick.min(self.left_of_wall())
    }

    /// A command begins: the next look is due as soon as it would be beside others.
    pub(crate) fn rouse(&mut self) {
        self.next_look = self.next_look.min(Instant::now() + self.tick(false));
    }

    /// What was used so far is not counted, as far as it was counted here, and time begins anew.
    pub(crate) fn begin_anew(&mut self) {
        self.started_at = Instant::now();
        self.used = Usage::default();
        self.rouse();
    }

    /// The next look is due by then.
    pub(crate) fn look_by(&mut self, moment: Instant) {
        self.next_look = self.next_look.min(moment);
    }

    /// The wall limit is met so long from now.
    pub(crate) fn set_wall(&mut self, from_now: Duration) {
        let most = self.started_at.elapsed().saturating_add(from_now);
        self.limits.set(LimitKey::Wall, u64::try_from(most.as_millis()).unwrap_or(u64::MAX));
        self.next_look = self.next_look.min(Instant::now() + self.left_of_wall());
    }

    /// What is used so far, as it was last counted.
    pub(crate) fn used(&self) -> Usage {
        self.used
    }

    /// Looks at everything, if it is time to; answers with an ending limit that was met. `scratch` is the file system that holds all that the run
    /// can write; `is_quiet` says that no command runs, so that what is left running by itself is looked at less often.
    pub(crate) fn look(&mut self, group: Option<&Group>, scratch: Option<&OwnedFd>, is_quiet: bool) -> Option<LimitKey> {
        if Instant::now() < self.next_look {
            return None;
        }
        let memory = self.count(group.map(Group::usage), scratch);
        let watch = &self.watch;
        let disk = if let Storage::Folder(tally) = &mut self.storage { tally.look(|| watch.members()) } else { None };
        self.next_look = Instant::now() + self.tick(is_quiet);
        let cpu = self.is_over(LimitKey::Cpu, self.used.cpu).then_some(LimitKey::Cpu);
        let wall = self.left_of_wall().is_zero().then_some(LimitKey::Wall);
        memory.or(disk).or(cpu).or(wall)
    }

    /// Counts what is used at the end; answers with a limit that was met unseen: of memory, or of storage that is summed here.
    pub(crate) fn take_stock(&mut self, counted: Option<GroupUsage>, scratch: Option<&OwnedFd>) -> Option<LimitKey> {
        let memory = self.count(counted, scratch);
        let disk = if let Storage::Folder(tally) = &self.storage { tally.look_now(&self.watch.members()) } else { None };
        memory.or(disk)
    }

    /// Counts what is used now; answers with `memory` if that limit was met. `counted` is what a cgroup says, where there is one.
    fn count(&mut self, counted: Option<GroupUsage>, scratch: Option<&OwnedFd>) -> Option<LimitKey> {
        self.used.wall = self.started_at.elapsed();
        let in_memory = self.look_at_scratch(scratch);
        match counted {
            Some(usage) => self.note(usage),
            None => self.look_at_tree(in_memory),
        }
    }

    /// Whether the file system of all that the run can write is full; answers with its bytes that are memory.
    fn look_at_scratch(&mut self, scratch: Option<&OwnedFd>) -> u64 {
        let left = match self.storage {
            Storage::Memory => 0,
            Storage::FileSystem => FULL,
            Storage::Folder(_) => return 0,
        };
        let Some(fs) = scratch.and_then(|scratch| fstatfs(scratch).ok()) else { return 0 };
        if fs.f_bavail * fs.f_bsize as u64 <= left {
            self.reach(LimitKey::Disk);
        }
        if fs.f_ffree == 0 {
            self.reach(LimitKey::Files);
        }
        match self.storage {
            Storage::Memory => (fs.f_blocks - fs.f_bfree) * fs.f_bsize as u64,
            Storage::FileSystem | Storage::Folder(_) => 0,
        }
    }

    /// Takes what init says at the end: lives that were too short for a look would be missed. Its number for memory also counts pages of files, so it
    /// stands only where there is no other.
    pub(crate) fn hear(&mut self, cpu: Duration, memory_peak_bytes: u64) {
        self.used.cpu = self.used.cpu.max(cpu);
        if self.is_memory_watched && self.used.memory_peak_bytes == 0 {
            self.used.memory_peak_bytes = memory_peak_bytes;
        }
    }

    /// Takes what the kernel counted; answers with `memory` if it had to kill for want of it.
    fn note(&mut self, usage: GroupUsage) -> Option<LimitKey> {
        self.used.cpu = self.used.cpu.max(usage.cpu);
        self.used.memory_peak_bytes = self.used.memory_peak_bytes.max(usage.memory_peak_bytes);
        // One of them is init.
        self.used.processes_peak = self.used.processes_peak.max(usage.processes_peak.unwrap_or(0).saturating_sub(1));
        if usage.process_refusals > 0 {
            self.reach(LimitKey::Processes);
        }
        (usage.memory_kills > 0).then_some(LimitKey::Memory)
    }

    /// Without a cgroup the tree is summed, and memory-backed files are added.
    fn look_at_tree(&mut self, files_bytes: u64) -> Option<LimitKey> {
        let tree = self.watch.look();
        self.used.cpu = self.used.cpu.max(tree.cpu);
        self.used.processes_peak = self.used.processes_peak.max(tree.processes.saturating_sub(1));
        if self.limits.get(LimitKey::Processes).is_some_and(|most| tree.processes > most) {
            self.reach(LimitKey::Processes);
        }
        let most = self.limits.get(LimitKey::Memory).unwrap_or(u64::MAX);
        let memory = match tree.memory_bytes + files_bytes {
            sum if sum > most => self.watch.proportional_bytes() + files_bytes,
            sum => sum,
        };
        self.used.memory_peak_bytes = self.used.memory_peak_bytes.max(memory);
        (self.is_memory_watched && memory > most).then_some(LimitKey::Memory)
    }

    /// Notes that a bounding limit was met.
    pub(crate) fn reach(&mut self, limit: LimitKey) {
        if !self.reached.contains(&limit) {
            self.reached.push(limit);
        }
    }

    /// What was used, and the bounding limits that were met.
    pub(crate) fn reading(&self) -> (Usage, Vec<LimitKey>) {
        let mut reached = self.reached.clone();
        reached.sort_unstable();
        (Usage { wall: self.started_at.elapsed(), ..self.used }, reached)
    }

    pub(crate) fn is_cpu_met(&self) -> bool {
        self.is_over(LimitKey::Cpu, self.used.cpu)
    }

    fn is_over(&self, key: LimitKey, used: Duration) -> bool {
        self.limits.get(key).is_some_and(|most| used >= Duration::from_millis(most))
    }

    fn left_of_wall(&self) -> Duration {
        let most = self.limits.get(LimitKey::Wall).map_or(Duration::MAX, Duration::from_millis);
        most.saturating_sub(self.started_at.elapsed())
    }
}
