//! PID 1: builds, confines, then waits for orders, ended children and its own clock. It never carries the bytes of a command.
//!
//! When the supervisor is gone, or the time is up, init ends; the kernel then kills every process of the namespace.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::process::{DumpableBehavior, Pid, WaitOptions, set_dumpable_behavior, wait};

use super::command::Program;
use super::{build, confine};
use crate::control::{Execution, Order, Report, borrow_all, from_memory_file, receive, send};
use crate::plan::Plan;
use crate::step::{AtStep, StepError};
use crate::sys::{keyring, signals};

/// The whole life of init.
pub(super) fn run(control: &OwnedFd) -> Result<(), StepError> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable).at(|| "hide init's memory".into())?;
    let Some((plan, sources)) = next_build(control)? else { return Ok(()) };
    let clock = Clock::start(plan.wall_ms);
    keyring::join_new_session().at(|| "join a new keyring".into())?;
    let handles = build::perform(&plan, sources)?;
    send(control.as_fd(), &Report::Built, &borrow_all(&handles)).at(|| "report".into())?;
    drop(handles);
    let program = confine::prepare(&plan)?;
    let Some((Order::Confine, _)) = receive(control.as_fd(), RecvFlags::empty()).at(|| "wait for an order".into())? else {
        return Ok(());
    };
    confine::confine(&plan)?;
    send(control.as_fd(), &Report::Confined, &[]).at(|| "report".into())?;
    serve(control, &program, &clock)
}

fn next_build(control: &OwnedFd) -> Result<Option<(Plan, Vec<OwnedFd>)>, StepError> {
    match receive(control.as_fd(), RecvFlags::empty()).at(|| "wait for the plan".into())? {
        Some((Order::Build, mut descriptors)) if !descriptors.is_empty() => {
            let plan = from_memory_file(descriptors.remove(0)).at(|| "read the plan".into())?;
            Ok(Some((plan, descriptors)))
        }
        Some((Order::Build | Order::Confine | Order::Execute { .. }, _)) => Err(Errno::PROTO).at(|| "wait for the plan".into()),
        None => Ok(None),
    }
}

/// Orders, children, clock.
fn serve(control: &OwnedFd, program: &Program, clock: &Clock) -> Result<(), StepError> {
    let child_ended = signals::child_ended_descriptor().at(|| "watch children".into())?;
    let mut running: Vec<(Pid, u32)> = Vec::new();
    loop {
        let mut waiting = [PollFd::new(control, PollFlags::IN), PollFd::new(&child_ended, PollFlags::IN)];
        match poll(&mut waiting, Some(&clock.remaining())) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno).at(|| "wait".into()),
        }
        let (has_order, has_child) = (!waiting[0].revents().is_empty(), !waiting[1].revents().is_empty());
        if clock.is_up() {
            return send(control.as_fd(), &Report::TimeUp, &[]).at(|| "report".into());
        }
        if has_child {
            drain(&child_ended);
            reap(control, &mut running)?;
        }
        if has_order && !obey(control, program, clock, &mut running)? {
            return Ok(());
        }
    }
}

/// False when the supervisor is gone.
fn obey(control: &OwnedFd, program: &Program, clock: &Clock, running: &mut Vec<(Pid, u32)>) -> Result<bool, StepError> {
    let (id, mut descriptors) = match receive(control.as_fd(), RecvFlags::DONTWAIT) {
        Ok(Some((Order::Execute { id }, descriptors))) if descriptors.len() >= 3 => (id, descriptors),
        Ok(Some((Order::Build | Order::Confine | Order::Execute { .. }, _))) => return Err(Errno::PROTO).at(|| "take an order".into()),
        Ok(None) | Err(Errno::CONNRESET) => return Ok(false),
        Err(Errno::AGAIN) => return Ok(true),
        Err(errno) => return Err(errno).at(|| "take an order".into()),
    };
    let execution: Execution = from_memory_file(descriptors.remove(0)).at(|| "read a command".into())?;
    let report = match program.start(&execution, &descriptors, &|heard| clock.wait_for(heard, control)) {
        Ok(pid) => {
            running.push((pid, id));
            Report::Started { id }
        }
        Err(error) => Report::NotStarted { id, step: error.step, errno: error.errno.raw_os_error() },
    };
    send(control.as_fd(), &report, &[]).at(|| "report".into())?;
    Ok(true)
}

/// Waits for every ended child, ours and orphans, and reports the commands among them.
fn reap(control: &OwnedFd, running: &mut Vec<(Pid, u32)>) -> Result<(), StepError> {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => {
                if let Some(at) = running.iter().position(|(running, _)| *running == pid) {
                    let (_, id) = running.swap_remove(at);
                    send(control.as_fd(), &Report::Ended { id, status: status.as_raw() }, &[]).at(|| "report".into())?;
                }
            }
            Ok(None) | Err(Errno::CHILD) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno).at(|| "wait for a child".into()),
        }
    }
}

fn drain(descriptor: &OwnedFd) {
    let mut buffer = [0u8; 1024];
    while rustix::io::read(descriptor, &mut buffer).is_ok_and(|read| read > 0) {}
}

/// The wall-clock limit as init holds it.
struct Clock {
    ends_at: Instant,
}

impl Clock {
    fn start(wall_ms: u64) -> Self {
        Self { ends_at: Instant::now() + Duration::from_millis(wall_ms) }
    }

    fn remaining(&self) -> Timespec {
        let left = self.ends_at.saturating_duration_since(Instant::now());
        Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() }
    }

    /// Waits until `heard` has something, but not past the end of the time or of the supervisor.
    fn wait_for(&self, heard: &OwnedFd, control: &OwnedFd) -> Result<(), Errno> {
        let mut waiting = [PollFd::new(heard, PollFlags::IN), PollFd::new(control, PollFlags::empty())];
        rustix::io::retry_on_intr(|| poll(&mut waiting, Some(&self.remaining())))?;
        if waiting[0].revents().is_empty() { Err(Errno::TIMEDOUT) } else { Ok(()) }
    }

    fn is_up(&self) -> bool {
        Instant::now() >= self.ends_at
    }
}
