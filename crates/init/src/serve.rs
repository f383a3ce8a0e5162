//! Builds, confines, then one loop over orders, ended children and the clock.

use alloc::vec::Vec;

use ringfence_wire::{Blueprint, Order, Report, decode};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, socket_with};
use rustix::process::{Pid, WaitOptions, wait};

use crate::command::{Given, Program};
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

/// How long a child may take from its start to its program. One of the same user can stop it, and must not stop init with it.
const START: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

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
        match receive(self.control, RecvFlags::DONTWAIT) {
            Ok(Some((Order::Execute { id, is_last }, descriptors))) => self.execute(id, is_last, &descriptors)?,
            Ok(Some((Order::Signal { id, signal }, _))) => self.signal(id, signal),
            Ok(Some((Order::Clock { wall_ms }, _))) => self.clock = Clock::start(wall_ms),
            Ok(Some((Order::Socket, _))) => self.hand_out_socket()?,
            Ok(Some((Order::Begin { .. } | Order::Build, _))) => return Err(Errno::PROTO).at("take an order"),
            Ok(None) | Err(Errno::CONNRESET) => return Ok(false),
            Err(Errno::AGAIN) => {}
            Err(errno) => return Err(errno).at("take an order"),
        }
        Ok(true)
    }

    fn execute(&mut self, id: u32, is_last: bool, descriptors: &[OwnedFd]) -> Result<(), Failure> {
        let (execution, streams) = descriptors.split_first().ok_or(Errno::PROTO).at("take an order")?;
        let given = Given { id, execution, streams, control: self.control };
        match self.program.start(&given, &|heard| self.clock.wait_for(heard, self.control)) {
            Ok(pid) => {
                self.running.push((pid, id));
                self.last = self.last.or(is_last.then_some(id));
                match is_last {
                    true => Ok(()),
                    false => self.report(&Report::Started { id, pid: pid.as_raw_nonzero().get() }),
                }
            }
            Err(failed) => self.report(&Report::NotStarted { id, failed }),
        }
    }

    /// A command that is not there has ended meanwhile, which is reported.
    fn signal(&self, id: u32, signal: i32) {
        if let Some((pid, _)) = self.running.iter().find(|(_, running)| *running == id) {
            sys::process::kill_group(*pid, signal).unwrap_or_default();
        }
    }

    fn hand_out_socket(&self) -> Result<(), Failure> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).ok();
        let descriptors: Vec<_> = socket.iter().map(AsFd::as_fd).collect();
        send(self.control, &Report::Socket, &descriptors).at("report")
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

    /// Waits until `heard` has something, but not past the end of the time, of our patience or of the supervisor.
    fn wait_for(&self, heard: &OwnedFd, control: &OwnedFd) -> Result<(), Errno> {
        let mut waiting = [PollFd::new(heard, PollFlags::IN), PollFd::new(control, PollFlags::empty())];
        let left = self.remaining();
        let patience = if left.tv_sec < START.tv_sec { left } else { START };
        rustix::io::retry_on_intr(|| poll(&mut waiting, Some(&patience)))?;
        if waiting[0].revents().is_empty() { Err(Errno::TIMEDOUT) } else { Ok(()) }
    }

    fn is_up(&self) -> bool {
        sys::process::now_ms() >= self.ends_at
    }
}
