//! What a command writes: counted and hashed in full, kept up to the limit (the head, and a tail once the limit is passed), and on the way
//! passed on to the caller as it comes.

use std::collections::VecDeque;
use std::io::{self, Write};

use sha2::{Digest, Sha256};

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

/// One stream of a command.
pub struct Capture<'a> {
    head: Vec<u8>,
    keeps_head: bool,
    tail: VecDeque<u8>,
    total: u64,
    dropped: u64,
    digest: Sha256,
    passed_on: Option<&'a mut dyn Write>,
}

impl std::fmt::Debug for Capture<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Capture").field("total", &self.total).field("dropped", &self.dropped).finish_non_exhaustive()
    }
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
        Self::new(true, None)
    }

    /// Passes on what comes, and keeps nothing but the tail.
    pub fn passing_on(to: &'a mut dyn Write) -> Self {
        Self::new(false, Some(to))
    }

    fn new(keeps_head: bool, passed_on: Option<&'a mut dyn Write>) -> Self {
        Self { head: Vec::new(), keeps_head, tail: VecDeque::new(), total: 0, dropped: 0, digest: Sha256::new(), passed_on }
    }

    /// Takes bytes from the command. An error means that whoever they are passed on to is gone.
    pub fn take(&mut self, bytes: &[u8], budget: &mut Budget) -> io::Result<()> {
        self.total += bytes.len() as u64;
        self.digest.update(bytes);
        let for_head = if self.tail.is_empty() { (bytes.len() as u64).min(budget.head_left) as usize } else { 0 };
        let (head, rest) = bytes.split_at(for_head);
        budget.head_left -= head.len() as u64;
        self.take_tail(rest, budget.tail);
        if self.keeps_head {
            self.head.extend_from_slice(head);
        }
        match &mut self.passed_on {
            Some(to) => to.write_all(head).and_then(|()| to.flush()),
            None => Ok(()),
        }
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

    /// The end of the stream: the tail follows, after a line that says what was cut.
    pub fn finish(mut self) -> Captured {
        let mut end = Vec::new();
        if self.dropped > 0 {
            end.extend(format!("\n[ringfence: {} bytes cut here]\n", self.dropped).into_bytes());
        }
        end.extend(self.tail.iter());
        match &mut self.passed_on {
            // Whoever is gone by now misses the tail; the record has its digest.
            Some(to) => to.write_all(&end).and_then(|()| to.flush()).unwrap_or_default(),
            None => self.head.extend(end),
        }
        Captured { kept: self.head, bytes: self.total, sha256: self.digest.finalize().into(), cut: self.dropped }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(limit: u64, chunks: &[&[u8]]) -> Captured {
        let (mut budget, mut capture) = (Budget::of(limit), Capture::keeping());
        chunks.iter().for_each(|chunk| capture.take(chunk, &mut budget).unwrap());
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
    fn passing_on_loses_nothing_below_the_limit() {
        let mut out = Vec::new();
        let (mut budget, mut capture) = (Budget::of(64), Capture::passing_on(&mut out));
        capture.take(&[b'x'; 60], &mut budget).unwrap();
        capture.finish();
        assert_eq!(out.len(), 60);
    }
}
