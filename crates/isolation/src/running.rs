//! A command that runs: its pipes, what they carried, and how it ended.

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::output::{Budget, Capture, is_fault};
use crate::sandbox::End;
use crate::stdin::StdinPump;

/// Bytes of one read, and reads of one turn: a megabyte.
const READ: usize = 16 << 10;
const READS: usize = 64;

/// One command of a sandbox.
#[derive(Debug)]
pub(crate) struct Running<'a> {
    pub(crate) id: u32,
    pub(crate) stdin: Option<StdinPump>,
    pub(crate) pipes: [Option<OwnedFd>; 2],
    pub(crate) captures: [Capture<'a>; 2],
    pub(crate) budget: Budget,
    /// Init has said so, or that it could not be. Nothing is read before, so that nobody hears what a command says before that it runs.
    pub(crate) is_started: bool,
    pub(crate) end: Option<End>,
    /// Why output could not be passed on, when that was not the reader's own wish.
    pub(crate) fault: Option<Errno>,
}

impl Running<'_> {
    /// Moves on what can be moved without waiting.
    pub(crate) fn pump(&mut self) {
        if self.stdin.as_mut().is_some_and(|pump| !pump.turn()) {
            self.stdin = None;
        }
        self.read_pipes();
    }

    /// It runs its program.
    pub(crate) fn started(&mut self, pid: i32) {
        self.is_started = true;
        self.captures[0].started(pid);
    }

    /// What must be ready before this command's streams can move on.
    pub(crate) fn waits_for(&self) -> impl Iterator<Item = PollFd<'_>> {
        let pipes = self.awaited().filter(|_| self.is_started).map(|pipe| PollFd::new(pipe, PollFlags::IN));
        pipes.chain(self.captures.iter().filter_map(Capture::waits_for)).chain(self.stdin.as_ref().and_then(StdinPump::waits_for))
    }

    /// The pipes that are read as soon as there is something, because their bytes have somewhere to go. Those of which nobody hears any more are read as
    /// often as limits are looked at.
    fn awaited(&self) -> impl Iterator<Item = &OwnedFd> {
        self.pipes
            .iter()
            .zip(&self.captures)
            .filter(|(_, capture)| capture.has_room() && !capture.is_spent())
            .filter_map(|(pipe, _)| pipe.as_ref())
    }

    /// Reads what is there and moves it on. A stream whose listener is gone is closed, so that the program sees a broken pipe as it would anywhere.
    fn read_pipes(&mut self) {
        if !self.is_started {
            return;
        }
        let mut buffer = [0u8; READ];
        for (pipe, capture) in self.pipes.iter_mut().zip(&mut self.captures) {
            // A bounded number of reads a turn, so that a flood cannot keep the supervisor from its limits.
            for _ in 0..READS {
                let Some(open) = pipe.as_ref().filter(|_| capture.has_room()) else { break };
                match rustix::io::read(open, &mut buffer) {
                    Ok(0) => *pipe = None,
                    Ok(read) => capture.take(&buffer[..read], &mut self.budget),
                    Err(Errno::INTR) => {}
                    Err(Errno::IO) => *pipe = None, // a terminal that nobody has open any more
                    Err(_) => break,
                }
            }
            if let Err(errno) = capture.move_on() {
                *pipe = None;
                self.fault = self.fault.or(fault(errno));
            }
        }
    }

    /// Reads what is there now; true once the listeners have taken all of it.
    pub(crate) fn is_read(&mut self) -> bool {
        self.read_pipes();
        self.captures.iter().all(Capture::has_room)
    }

    /// Reads all that is left in the pipes of a command that has ended, and sees it on its way; only a request to stop cuts that short.
    ///
    /// Beside others that go on, only what is there now is taken: a background process may write for ever.
    pub(crate) fn drain(&mut self, is_alone: bool, cancel: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
        match is_alone {
            true => self.read_to_the_end(cancel)?,
            false => self.read_pipes(),
        }
        self.captures.iter_mut().for_each(Capture::end);
        while self.captures.iter().any(|capture| capture.waits_for().is_some()) && self.wait_for_caller(cancel)? {
            let moved = self.captures.iter_mut().map(Capture::move_on).filter_map(Result::err);
            self.fault = self.fault.or(moved.filter_map(fault).last());
        }
        Ok(())
    }

    fn read_to_the_end(&mut self, cancel: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
        loop {
            let before: Vec<u64> = self.captures.iter().map(Capture::total).collect();
            self.read_pipes();
            let is_read = self.captures.iter().map(Capture::total).eq(before);
            let is_moved_on = self.captures.iter().all(|capture| capture.waits_for().is_none());
            if is_read && (is_moved_on || !self.wait_for_caller(cancel)?) {
                return Ok(());
            }
        }
    }

    /// False when the caller asks to stop instead.
    fn wait_for_caller(&self, cancel: Option<BorrowedFd<'_>>) -> Result<bool, Errno> {
        let mut waiting: Vec<PollFd<'_>> = self.captures.iter().filter_map(Capture::waits_for).collect();
        let outputs = waiting.len();
        waiting.extend(cancel.iter().map(|cancel| PollFd::from_borrowed_fd(*cancel, PollFlags::IN)));
        rustix::io::retry_on_intr(|| poll(&mut waiting, None))?;
        Ok(waiting.get(outputs).is_none_or(|cancel| cancel.revents().is_empty()))
    }
}

/// An error of passing output on, if it is one.
fn fault(errno: Errno) -> Option<Errno> {
    Some(errno).filter(|errno| is_fault(*errno))
}
