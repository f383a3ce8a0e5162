//! Takes away what a crashed run left: the init of its sandbox (and with it every process) and its cgroups.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// What is on record of a standing sandbox, so that exactly it, and nothing else that has its numbers by now, can be taken away.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Traces {
    /// Process id of init.
    pub pid: i32,
    /// When init started, in ticks since boot: field 22 of proc_pid_stat(5).
    pub started_ticks: u64,
    /// Which boot the number belongs to.
    pub boot: String,
    /// Folders of the run's cgroups.
    pub cgroups: Vec<PathBuf>,
    /// By what name they were made, if not by the run's: its sandbox was made ahead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl Traces {
    /// The traces of a sandbox whose init is `pid`.
    pub fn of(pid: Pid, cgroups: &[PathBuf]) -> Self {
        let pid = pid.as_raw_nonzero().get();
        Self { pid, started_ticks: started_ticks(pid).unwrap_or(0), boot: boot(), cgroups: cgroups.to_vec(), name: None }
    }

    /// Kills init if it is still the one on record, and removes the cgroups. An error means that something is still there.
    pub fn remove(&self, run: &str) -> io::Result<()> {
        if self.boot == boot() {
            self.kill_init()?;
        }
        let give_up_at = Instant::now() + Duration::from_secs(5);
        let name = self.name.as_deref().unwrap_or(run);
        self.cgroups.iter().try_for_each(|folder| remove_group(folder, name, give_up_at))
    }

    fn kill_init(&self) -> io::Result<()> {
        let Some(pid) = Pid::from_raw(self.pid).filter(|_| self.pid > 1) else { return Ok(()) };
        let descriptor = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(descriptor) => descriptor,
            Err(Errno::SRCH | Errno::INVAL) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        };
        // Looked at after the descriptor was taken: from here on the number cannot pass to another process unseen.
        if started_ticks(self.pid) != Some(self.started_ticks) {
            return Ok(());
        }
        match pidfd_send_signal(&descriptor, Signal::KILL) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// Kills what is left in a group (a process may have been put in before init was on record), and removes it. Only ever a group that this run's
/// name stands for.
fn remove_group(folder: &Path, run: &str, give_up_at: Instant) -> io::Result<()> {
    let is_ours = folder.file_name().is_some_and(|name| name == run)
        && folder.parent().and_then(Path::file_name).is_some_and(|name| name == "ringfence");
    if !is_ours || folder.components().any(|part| part == std::path::Component::ParentDir) || !folder.exists() {
        return Ok(());
    }
    while Instant::now() < give_up_at {
        let pids = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
        if pids.is_empty() {
            break;
        }
        pids.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)).try_for_each(|pid| kill_member(pid, run))?;
        std::thread::sleep(Duration::from_millis(1));
    }
    crate::cgroup::remove_folder(folder, give_up_at)
}

/// Kills a process if, once it is held by a descriptor, it still is in the run's group.
fn kill_member(pid: Pid, run: &str) -> io::Result<()> {
    let held = match pidfd_open(pid, PidfdFlags::empty()) {
        Err(Errno::SRCH) => return Ok(()),
        held => held?,
    };
    let groups = fs::read_to_string(format!("/proc/{}/cgroup", pid.as_raw_nonzero())).unwrap_or_default();
    match groups.contains(run) {
        true => pidfd_send_signal(&held, Signal::KILL).or_else(|errno| if errno == Errno::SRCH { Ok(()) } else { Err(errno.into()) }),
        false => Ok(()),
    }
}

fn started_ticks(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}
