//! A standing sandbox with many commands: started, fed, signalled and ended one beside the other, for as long as somebody attends to it.
//!
//! Whoever attends calls [`Sandbox::attend`] again and again from one thread; other threads make its `wake` readable when they want something done.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use ringfence_policy::LimitKey;
use ringfence_wire::Order;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{Winsize, tcsetwinsize};

use crate::output::Capture;
use crate::running::Running;
use crate::sandbox::{Command, CommandOutcome, End, Sandbox, Streams, Usage, Window};

/// Something that happened in a sandbox.
#[derive(Debug)]
pub enum Occurrence {
    /// A command has ended, or could not be started. What it left running goes on.
    Ended {
        /// The number that its start answered with.
        id: u32,
        /// How.
        outcome: CommandOutcome,
    },
    /// A TCP socket in the sandbox's network, as it was asked for; none if it cannot have more.
    Socket {
        /// The socket, not connected.
        socket: Option<OwnedFd>,
    },
}

impl<'a> Sandbox<'a> {
    /// Starts a command that the sandbox outlives; answers with the number by which occurrences name it.
    pub fn begin(&mut self, command: &Command, streams: Streams<'a>) -> Result<u32, Errno> {
        self.start(command, streams, false)
    }

    /// Sees to what is due and tells what happened; waits until there is something to see to, or `wake` is readable.
    pub fn attend(&mut self, wake: BorrowedFd<'_>) -> Result<Vec<Occurrence>, Errno> {
        self.turn(Some(wake))?;
        if self.ended_by.is_some() {
            self.end_everything();
        }
        let (ended, running) = std::mem::take(&mut self.running).into_iter().partition(|running| self.has_ended(running));
        self.running = running;
        for running in ended {
            self.bury(running)?;
        }
        Ok(std::mem::take(&mut self.occurred))
    }

    /// By what the sandbox has ended, if it has.
    pub fn ended_by(&self) -> Option<&End> {
        self.ended_by.as_ref()
    }

    /// Ends it, as [`attend`](Self::attend) then tells of each command.
    pub fn end(&mut self, end: End) {
        self.end_by(end);
    }

    fn has_ended(&self, running: &Running<'a>) -> bool {
        running.end.is_some() || self.ended_by.is_some()
    }

    /// A command that has ended is told of once its listeners have taken what it wrote.
    fn bury(&mut self, mut running: Running<'a>) -> Result<(), Errno> {
        if !running.is_read() && self.ended_by.is_none() {
            self.running.push(running);
            return Ok(());
        }
        self.leftovers.extend(running.pipes.iter_mut().filter_map(Option::take));
        running.captures.iter_mut().for_each(Capture::end);
        let end = running.end.take().or_else(|| self.ended_by.clone()).unwrap_or(End::Failed { step: "wait".into(), errno: 0 });
        let [stdout, stderr] = running.captures.map(Capture::finish);
        if stdout.cut + stderr.cut > 0 {
            self.meter.reach(LimitKey::Output);
        }
        let outcome = CommandOutcome { end: self.settle_one(end), stdout, stderr };
        self.occurred.push(Occurrence::Ended { id: running.id, outcome });
        Ok(())
    }

    /// As [`settle`](Self::settle), but a command that had ended by itself before the sandbox did is left that end.
    fn settle_one(&self, end: End) -> End {
        match end {
            End::Exited { .. } | End::Failed { .. } => end,
            other => self.settle(other),
        }
    }

    /// Bytes for the standard input of a command; false if there is no room for them now. One that has ended or has none takes them all.
    pub fn feed(&mut self, id: u32, bytes: &[u8]) -> bool {
        let pump = self.running.iter_mut().find(|running| running.id == id).and_then(|running| running.stdin.as_mut());
        pump.is_none_or(|pump| pump.feed(bytes))
    }

    /// The standard input of a command is complete.
    pub fn complete_input(&mut self, id: u32) {
        if let Some(running) = self.running.iter_mut().find(|running| running.id == id)
            && let Some(pump) = running.stdin.as_mut()
        {
            pump.complete();
        }
    }

    /// Sends a signal to a command and its group. One that has ended takes none.
    pub fn signal(&self, id: u32, signal: i32) -> Result<(), Errno> {
        self.order(&Order::Signal { id, signal }, &[])
    }

    /// Changes the size of a command's terminal, which tells it so; without one nothing happens.
    pub fn resize(&self, id: u32, window: Window) -> Result<(), Errno> {
        let running = self.running.iter().find(|running| running.id == id);
        match running.and_then(|running| running.pipes[0].as_ref()) {
            Some(terminal) => {
                let size = Winsize { ws_row: window.rows, ws_col: window.columns, ws_xpixel: 0, ws_ypixel: 0 };
                tcsetwinsize(terminal, size).or_else(|errno| if errno == Errno::NOTTY { Ok(()) } else { Err(errno) })
            }
            None => Ok(()),
        }
    }

    /// Whether its init lives.
    pub fn is_alive(&self) -> bool {
        let mut death = [PollFd::new(&self.launched.pidfd, PollFlags::IN)];
        poll(&mut death, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(0)
    }

    /// A sandbox that was made ahead begins its run: its time is counted from now on.
    pub fn begin_anew(&mut self, wall: Duration) -> Result<(), Errno> {
        self.meter.begin_anew();
        self.set_wall(wall)
    }

    /// Attending returns by then at the latest.
    pub fn look_by(&mut self, moment: Instant) {
        self.meter.look_by(moment);
    }

    /// Folder in which commands start.
    pub fn folder(&self) -> &str {
        &self.folder
    }

    /// Asks for a TCP socket in the sandbox's network; [`Occurrence::Socket`] brings it, in the order of asking.
    pub fn ask_for_socket(&self) -> Result<(), Errno> {
        self.order(&Order::Socket, &[])
    }

    /// The sandbox may go on for this long from now, however long it was allowed to before.
    pub fn set_wall(&mut self, from_now: Duration) -> Result<(), Errno> {
        self.meter.set_wall(from_now);
        // Init's clock is the second one: a moment behind the supervisor's, which tells more.
        let wall_ms = u64::try_from(from_now.as_millis()).unwrap_or(u64::MAX).saturating_add(500);
        self.order(&Order::Clock { wall_ms }, &[])
    }

    /// What it has used so far, as it was last counted.
    pub fn used(&self) -> Usage {
        self.meter.used()
    }
}
