//! Builds, confines, then one loop over orders, ended children and the clock.

use alloc::vec::Vec;

use ringfence_wire::{Blueprint, Order, Report, decode};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::process::{Pid, WaitOptions, wait};

use crate::command::Program;
use crate::failure::{At, Failure};
use crate::links::{read_all, receive, send};
use crate::{confine, sys, view};

/// The whole life of init.
pub(crate) fn run(control: &OwnedFd) -> Result<(), Failure> {
    let Some((blueprint, sources)) = next_build(control)? else { return Ok(()) };
    let clock = Clock::start(blueprint.wall_ms);
    let handles = view::perform(&blueprint, sources)?;
    let program = Program::prepare(&blueprint)?;
    confine::confine(&blueprint)?;
    send(control, &Report::Standing, &handles.iter().map(AsFd::as_fd).collect::<Vec<_>>()).at("report")?;
    drop((blueprint, handles));
    Server { control, program, clock, running: Vec::new(), last: None, ended: None }.serve()
}

fn next_build(control: &OwnedFd) -> Result<Option<(Blueprint, Vec<OwnedFd>)>, Failure> {
    match receive(control, RecvFlags::empty()).at("wait for the plan")? {
        Some((Order::Build, mut descriptors)) if !descriptors.is_empty() => {
            let bytes = read_all(descriptors.remove(0)).at("read the plan")?;
            let blueprint = decode(&bytes).ok_or(Errno::BADMSG).at("read the plan")?;
            Ok(Some((blueprint, descriptors)))
        }
        Some(_) => Err(Errno::PROTO).at("wait for the plan"),
        None => Ok(None),
    }
}

struct Server<'a> {
    control: &'a OwnedFd,
    program: Program,
    clock: Clock,
    /// Commands that run: their process and their name.
    running: Vec<(Pid, u32)>,
    /// The command with which the sandbox ends.
    last: Option<u32>,
    /// Its name and its end; everything else was killed then.
    ended: Option<(u32, i32)>,
}

impl Server<'_> {
    fn serve(&mut self) -> Result<(), Failure> {
        let child_ended = sys::signals::child_ended_descriptor().at("watch children")?;
        loop {
            let mut waiting = [PollFd::new(self.control, PollFlags::IN), PollFd::new(&child_ended, PollFlags::IN)];
            match poll(&mut waiting, Some(&self.clock.remaining())) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno).at("wait"),
            }
            let (has_order, has_child) = (!waiting[0].revents().is_empty(), !waiting[1].revents().is_empty());
            if self.clock.is_up() {
                return self.report(&Report::TimeUp);
            }
            if has_child {
                drain(&child_ended);
                if let Some((id, status)) = self.reap()? {
                    return self.leave(id, status);
                }
            }
            if has_order && !self.obey()? {
                return Ok(());
            }
        }
    }

    fn report(&self, report: &Report) -> Result<(), Failure> {
        send(self.control, report, &[]).at("report")
    }

    /// False when the supervisor is gone.
    fn obey(&mut self) -> Result<bool, Failure> {
        let (id, is_last, mut descriptors) = match receive(self.control, RecvFlags::DONTWAIT) {
            Ok(Some((Order::Execute { id, is_last }, descriptors))) if descriptors.len() >= 3 => (id, is_last, descriptors),
            Ok(Some(_)) => return Err(Errno::PROTO).at("take an order"),
            Ok(None) | Err(Errno::CONNRESET) => return Ok(false),
            Err(Errno::AGAIN) => return Ok(true),
            Err(errno) => return Err(errno).at("take an order"),
        };
        let execution = descriptors.remove(0);
        match self.program.start(&execution, &descriptors, &|heard| self.clock.wait_for(heard, self.control)) {
            Ok(pid) => {
                self.running.push((pid, id));
                self.last = self.last.or(is_last.then_some(id));
            }
            Err(failed) => self.report(&Report::NotStarted { id, failed })?,
        }
        Ok(true)
    }

    /// Waits for every ended child, ours and orphans, and reports the commands among them. Once the last command has ended all others are killed;
    /// its end is handed out when init is alone after that.
    fn reap(&mut self) -> Result<Option<(u32, i32)>, Failure> {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => self.note_end(pid, status.as_raw())?,
                Ok(None) => return Ok(None),
                Err(Errno::CHILD) => return Ok(self.ended),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno).at("wait for a child"),
            }
        }
    }

    fn note_end(&mut self, pid: Pid, status: i32) -> Result<(), Failure> {
        let Some(at) = self.running.iter().position(|(running, _)| *running == pid) else { return Ok(()) };
        let (_, id) = self.running.swap_remove(at);
        if self.last != Some(id) {
            return self.report(&Report::Ended { id, status });
        }
        self.ended = Some((id, status));
        match sys::process::kill_all_others() {
            Ok(()) | Err(Errno::SRCH) => Ok(()), // it was the only one
            Err(errno) => Err(errno).at("end the sandbox"),
        }
    }

    /// The last words: how the last command ended, and that nothing else is left.
    fn leave(&self, id: u32, status: i32) -> Result<(), Failure> {
        let (cpu_us, memory_peak_bytes) = sys::process::used_by_children().at("count what was used")?;
        self.report(&Report::Ended { id, status })?;
        self.report(&Report::Empty { cpu_us, memory_peak_bytes })
    }
}

fn drain(descriptor: &OwnedFd) {
    let mut buffer = [0u8; 1024];
    while rustix::io::read(descriptor, &mut buffer).is_ok_and(|read| read > 0) {}
}

/// The wall-clock limit as init holds it.
struct Clock {
    /// Milliseconds of the monotonic clock.
    ends_at: u64,
}

impl Clock {
    fn start(wall_ms: u64) -> Self {
        Self { ends_at: sys::process::now_ms().saturating_add(wall_ms) }
    }

    fn remaining(&self) -> Timespec {
        let left = self.ends_at.saturating_sub(sys::process::now_ms());
        Timespec { tv_sec: (left / 1000) as i64, tv_nsec: (left % 1000 * 1_000_000) as i64 }
    }

    /// Waits until `heard` has something, but not past the end of the time or of the supervisor.
    fn wait_for(&self, heard: &OwnedFd, control: &OwnedFd) -> Result<(), Errno> {
        let mut waiting = [PollFd::new(heard, PollFlags::IN), PollFd::new(control, PollFlags::empty())];
        rustix::io::retry_on_intr(|| poll(&mut waiting, Some(&self.remaining())))?;
        if waiting[0].revents().is_empty() { Err(Errno::TIMEDOUT) } else { Ok(()) }
    }

    fn is_up(&self) -> bool {
        sys::process::now_ms() >= self.ends_at
    }
}
