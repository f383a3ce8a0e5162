//! What a command writes: counted and hashed in full, kept up to the limit (the head, and a tail once the limit is passed), and on the way
//! passed on to the caller as it comes.
//!
//! A caller that does not read must not stop the supervisor, which holds limits meanwhile: bytes wait in a bounded buffer, and while it is full the
//! command's pipe is not read, so that the command waits as it would at any full pipe.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

/// Bytes that wait for a slow caller before the command has to wait.
const WAITING: usize = 256 << 10;
/// The most that a pipe which is ready takes without making the writer wait (PIPE_BUF of pipe(7)).
const AT_ONCE: usize = 4096;

/// The bytes that all streams of a command may keep together.
#[derive(Debug)]
pub struct Budget {
    head_left: u64,
    tail: usize,
}

impl Budget {
    /// A budget of `limit` bytes over two streams; a sixteenth each, at most 64 KiB, is kept for the tails.
    pub fn of(limit: u64) -> Self {
        let tail = (limit / 16).min(64 << 10);
        Self { head_left: limit - 2 * tail, tail: tail as usize }
    }
}

/// Who takes what a command writes, as it comes, on the supervisor's own thread.
pub trait Listener: std::fmt::Debug + Send {
    /// The command runs its program, whose process has this id inside. Said before anything is taken, to the listener of standard output alone.
    fn started(&mut self, pid: i32);

    /// Takes bytes; it must not wait.
    fn take(&mut self, bytes: &[u8]);

    /// Whether more can be taken now. While it cannot, the command waits as it would at any full pipe; whoever makes room wakes the supervisor.
    fn has_room(&self) -> bool;
}

/// One stream of a command.
#[derive(Debug)]
pub struct Capture<'a> {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
    dropped: u64,
    digest: Sha256,
    passed_on: Option<PassedOn<'a>>,
    listener: Option<Box<dyn Listener + 'a>>,
}

/// Bytes on their way to the caller.
#[derive(Debug)]
struct PassedOn<'a> {
    to: BorrowedFd<'a>,
    waiting: VecDeque<u8>,
}

/// What is known of a stream at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captured {
    /// The bytes kept: all, or head, a line that says what was cut, and tail. Empty if they were passed on.
    pub kept: Vec<u8>,
    /// Bytes written by the command.
    pub bytes: u64,
    /// SHA-256 of all of them.
    pub sha256: [u8; 32],
    /// Bytes that were cut.
    pub cut: u64,
}

impl<'a> Capture<'a> {
    /// Keeps what comes.
    pub fn keeping() -> Self {
        Self::new(None, None)
    }

    /// Hands over what comes, and keeps nothing but the tail.
    pub fn handing_over(listener: Box<dyn Listener + 'a>) -> Self {
        Self::new(None, Some(listener))
    }

    /// Passes on what comes, and keeps nothing but the tail.
    pub fn passing_on(to: BorrowedFd<'a>) -> Self {
        Self::new(Some(PassedOn { to, waiting: VecDeque::new() }), None)
    }

    fn new(passed_on: Option<PassedOn<'a>>, listener: Option<Box<dyn Listener + 'a>>) -> Self {
        Self { head: Vec::new(), tail: VecDeque::new(), total: 0, dropped: 0, digest: Sha256::new(), passed_on, listener }
    }

    /// Takes bytes from the command.
    pub fn take(&mut self, bytes: &[u8], budget: &mut Budget) {
        self.total += bytes.len() as u64;
        self.digest.update(bytes);
        let for_head = if self.tail.is_empty() { (bytes.len() as u64).min(budget.head_left) as usize } else { 0 };
        let (head, rest) = bytes.split_at(for_head);
        budget.head_left -= head.len() as u64;
        self.take_tail(rest, budget.tail);
        self.keep(head);
    }

    /// The command runs its program.
    pub(crate) fn started(&mut self, pid: i32) {
        if let Some(listener) = &mut self.listener {
            listener.started(pid);
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        match (&mut self.passed_on, &mut self.listener) {
            (Some(passed_on), _) => passed_on.waiting.extend(bytes),
            (None, Some(listener)) if !bytes.is_empty() => listener.take(bytes),
            (None, Some(_)) => {}
            (None, None) => self.head.extend_from_slice(bytes),
        }
    }

    /// Whether more can be taken now.
    pub(crate) fn has_room(&self) -> bool {
        self.passed_on.as_ref().is_none_or(|passed_on| passed_on.waiting.len() < WAITING)
            && self.listener.as_ref().is_none_or(|listener| listener.has_room())
    }

    /// Whether a listener hears nothing more of it until its end.
    pub(crate) fn is_spent(&self) -> bool {
        self.listener.is_some() && self.dropped > 0
    }

    /// What must be ready before waiting bytes can move on.
    pub(crate) fn waits_for(&self) -> Option<PollFd<'_>> {
        let passed_on = self.passed_on.as_ref().filter(|p| !p.waiting.is_empty())?;
        Some(PollFd::from_borrowed_fd(passed_on.to, PollFlags::OUT))
    }

    /// Moves waiting bytes on as far as that goes without waiting. An error means that whoever they are for is gone, or has no room.
    pub(crate) fn move_on(&mut self) -> Result<(), Errno> {
        let Some(passed_on) = &mut self.passed_on else { return Ok(()) };
        while !passed_on.waiting.is_empty() && is_ready(passed_on.to)? {
            let (first, _) = passed_on.waiting.as_slices();
            match rustix::io::write(passed_on.to, &first[..first.len().min(AT_ONCE)]) {
                Ok(written) => drop(passed_on.waiting.drain(..written)),
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(errno) => {
                    passed_on.waiting.clear();
                    return Err(errno);
                }
            }
        }
        Ok(())
    }

    /// The stream has ended: the tail follows, after a line that says what was cut.
    pub(crate) fn end(&mut self) {
        let mut end = Vec::new();
        if self.dropped > 0 {
            end.extend(format!("\n[ringfence: {} bytes cut here]\n", self.dropped).into_bytes());
        }
        end.extend(self.tail.drain(..));
        self.keep(&end);
    }

    /// What is known, once the stream has ended.
    pub(crate) fn finish(self) -> Captured {
        Captured { kept: self.head, bytes: self.total, sha256: self.digest.finalize().into(), cut: self.dropped }
    }

    /// Bytes taken so far.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    fn take_tail(&mut self, bytes: &[u8], most: usize) {
        let last = &bytes[bytes.len().saturating_sub(most)..];
        self.dropped += (bytes.len() - last.len()) as u64;
        let over = (self.tail.len() + last.len()).saturating_sub(most);
        self.tail.drain(..over);
        self.dropped += over as u64;
        self.tail.extend(last);
    }
}

fn is_ready(to: BorrowedFd<'_>) -> Result<bool, Errno> {
    let mut waiting = [PollFd::from_borrowed_fd(to, PollFlags::OUT)];
    match poll(&mut waiting, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// A caller that is gone is no fault of the run; one that has no room is.
pub(crate) fn is_fault(errno: Errno) -> bool {
    errno != Errno::PIPE
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    fn captured(limit: u64, chunks: &[&[u8]]) -> Captured {
        let (mut budget, mut capture) = (Budget::of(limit), Capture::keeping());
        chunks.iter().for_each(|chunk| capture.take(chunk, &mut budget));
        capture.end();
        capture.finish()
    }

    #[test]
    fn everything_is_kept_up_to_the_limit() {
        let all = captured(64, &[&[b'a'; 40], &[b'b'; 20]]);
        assert_eq!((all.kept.len(), all.bytes, all.cut), (60, 60, 0));
    }

    #[test]
    fn head_and_tail_are_kept_beyond_it() {
        let cut = captured(64, &[&[b'a'; 50], &[b'b'; 1000], b"END!"]);
        let text = String::from_utf8(cut.kept).unwrap();
        assert!(text.starts_with(&"a".repeat(50)) && text.ends_with("END!"), "{text}");
        assert!(text.contains("[ringfence: 994 bytes cut here]"), "{text}");
        assert_eq!((cut.bytes, cut.cut), (1054, 994));
    }

    #[test]
    fn a_caller_that_does_not_read_is_not_waited_for() {
        let (read, write) = rustix::pipe::pipe().unwrap();
        let (mut budget, mut capture) = (Budget::of(10 << 20), Capture::passing_on(write.as_fd()));
        while capture.has_room() {
            capture.take(&[b'x'; 32 << 10], &mut budget);
            capture.move_on().unwrap();
        }
        assert!(capture.waits_for().is_some());
        drop(read);
        assert_eq!(capture.move_on(), Err(Errno::PIPE));
        assert!(capture.waits_for().is_none());
    }
}
