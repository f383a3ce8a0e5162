//! Carries the caller's standard input to a command through a pipe, so that the command never holds a descriptor of the caller's.

use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

/// What is on its way.
#[derive(Debug)]
pub(crate) struct StdinPump {
    from: OwnedFd,
    to: OwnedFd,
    held: Vec<u8>,
}

impl StdinPump {
    /// A pump from `from`, and the descriptor for the command.
    pub(crate) fn from(from: OwnedFd) -> Result<(Self, OwnedFd), Errno> {
        let (read, to) = pipe_with(PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&to, true)?;
        Ok((Self { from, to, held: Vec::new() }, read))
    }

    /// What must be ready before the next turn: room in the pipe while something is held, else more input.
    pub(crate) fn waits_for(&self) -> PollFd<'_> {
        match self.held.is_empty() {
            true => PollFd::new(&self.from, PollFlags::IN),
            false => PollFd::new(&self.to, PollFlags::OUT),
        }
    }

    /// Moves on what can be moved without waiting; false at the end of the input or when the command no longer listens.
    pub(crate) fn turn(&mut self) -> bool {
        if self.held.is_empty() {
            if !self.is_readable() {
                return true;
            }
            let mut buffer = vec![0; 64 << 10];
            match rustix::io::read(&self.from, &mut buffer) {
                Ok(0) => return false,
                Ok(read) => buffer.truncate(read),
                Err(Errno::INTR | Errno::AGAIN) => return true,
                Err(_) => return false,
            }
            self.held = buffer;
        }
        match rustix::io::write(&self.to, &self.held) {
            Ok(written) => {
                self.held.drain(..written);
                true
            }
            Err(Errno::AGAIN | Errno::INTR) => true,
            Err(_) => false,
        }
    }

    fn is_readable(&self) -> bool {
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut waiting = [PollFd::new(&self.from, PollFlags::IN)];
        rustix::event::poll(&mut waiting, Some(&now)).is_ok_and(|ready| ready > 0)
    }
}
