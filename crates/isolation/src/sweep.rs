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
}

impl Traces {
    /// The traces of a sandbox whose init is `pid`.
    pub fn of(pid: Pid, cgroups: &[PathBuf]) -> Self {
        let pid = pid.as_raw_nonzero().get();
        Self { pid, started_ticks: started_ticks(pid).unwrap_or(0), boot: boot(), cgroups: cgroups.to_vec() }
    }

    /// Kills init if it is still the one on record, and removes the cgroups. An error means that something is still there.
    pub fn remove(&self) -> io::Result<()> {
        if self.boot == boot() {
            self.kill_init()?;
        }
        let give_up_at = Instant::now() + Duration::from_secs(5);
        self.cgroups.iter().try_for_each(|folder| remove_group(folder, give_up_at))
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

/// Kills what is left in a group (a process may have been put in before init was on record), and removes it.
fn remove_group(folder: &Path, give_up_at: Instant) -> io::Result<()> {
    let is_ours = folder.parent().and_then(Path::file_name).is_some_and(|name| name == "ringfence");
    if !is_ours || !folder.exists() {
        return Ok(());
    }
    for pid in fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default().lines().filter_map(|l| Pid::from_raw(l.parse().ok()?)) {
        rustix::process::kill_process(pid, Signal::KILL).or_else(|errno| if errno == Errno::SRCH { Ok(()) } else { Err(errno) })?;
    }
    crate::cgroup::remove_folder(folder, give_up_at)
}

fn started_ticks(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}
