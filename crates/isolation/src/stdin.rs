//! Carries standard input to a command through a pipe or a terminal, so that the command never holds a descriptor of the caller's.

use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

/// Where a command's standard input comes from.
#[derive(Debug)]
pub enum Stdin {
    /// Nowhere: it is empty.
    Empty,
    /// From this descriptor, to its end.
    From(OwnedFd),
    /// From [`Sandbox::feed`](crate::Sandbox::feed), until that says that it is all.
    Fed,
}

/// Bytes that may wait for a command that does not read.
const WAITING: usize = 1 << 20;

/// What is on its way.
#[derive(Debug)]
pub(crate) struct StdinPump {
    from: Option<OwnedFd>,
    to: OwnedFd,
    held: Vec<u8>,
    /// What is held is all.
    is_complete: bool,
}

impl StdinPump {
    /// A pump for a command, and the descriptor that the command gets; `None` if its input is empty.
    pub(crate) fn of(stdin: Stdin) -> Result<Option<(Self, OwnedFd)>, Errno> {
        let from = match stdin {
            Stdin::Empty => return Ok(None),
            Stdin::From(from) => Some(from),
            Stdin::Fed => None,
        };
        let (read, to) = pipe_with(PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&to, true)?;
        Ok(Some((Self { from, ..Self::into(to) }, read)))
    }

    /// A pump into a descriptor that does not block, to be fed.
    pub(crate) fn into(to: OwnedFd) -> Self {
        Self { from: None, to, held: Vec::new(), is_complete: false }
    }

    /// Takes bytes; false if there is no room for them now.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> bool {
        let has_room = self.held.is_empty() || self.held.len() + bytes.len() <= WAITING;
        if has_room {
            self.held.extend_from_slice(bytes);
        }
        has_room
    }

    /// Nothing more will be fed.
    pub(crate) fn complete(&mut self) {
        self.is_complete = true;
    }

    /// What must be ready before the next turn: room in the pipe while something is held, else more input.
    pub(crate) fn waits_for(&self) -> Option<PollFd<'_>> {
        match self.held.is_empty() {
            true => self.from.as_ref().map(|from| PollFd::new(from, PollFlags::IN)),
            false => Some(PollFd::new(&self.to, PollFlags::OUT)),
        }
    }

    /// Moves on what can be moved without waiting; false at the end of the input or when the command no longer listens.
    pub(crate) fn turn(&mut self) -> bool {
        if self.held.is_empty() && !self.fetch() {
            return false;
        }
        if self.held.is_empty() {
            return true;
        }
        match rustix::io::write(&self.to, &self.held) {
            Ok(written) => {
                self.held.drain(..written);
                !(self.held.is_empty() && self.is_complete)
            }
            Err(Errno::AGAIN | Errno::INTR) => true,
            Err(_) => false,
        }
    }

    /// Takes what there is to read; false at the end of it.
    fn fetch(&mut self) -> bool {
        let Some(from) = &self.from else { return !self.is_complete };
        if !is_readable(from) {
            return true;
        }
        let mut buffer = vec![0; 64 << 10];
        match rustix::io::read(from, &mut buffer) {
            Ok(0) => false,
            Ok(read) => {
                buffer.truncate(read);
                self.held = buffer;
                true
            }
            Err(Errno::INTR | Errno::AGAIN) => true,
            Err(_) => false,
        }
    }
}

fn is_readable(from: &OwnedFd) -> bool {
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut waiting = [PollFd::new(from, PollFlags::IN)];
    rustix::event::poll(&mut waiting, Some(&now)).is_ok_and(|ready| ready > 0)
}
