//! The chain: each line holds its number, the time, how long the run has taken by a clock that is never set back, and the digest of the line before.

use serde::{Deserialize, Serialize};

use crate::canonical;
use crate::digest::Digest;
use crate::event::Event;

/// One line of `events.jsonl`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Number, from 0.
    pub seq: u64,
    /// Time by the wall clock, RFC 3339 in UTC.
    pub at: String,
    /// Milliseconds since the run was requested, by a clock that is never set.
    pub elapsed_ms: u64,
    /// Digest of the line before, without its line end; zeros at the first.
    pub prev: Digest,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// What is wrong in a chain, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {cause}")]
pub struct ChainError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub cause: String,
}

/// A chain that is being written.
#[derive(Debug, Clone)]
pub struct Chain {
    next: u64,
    prev: Digest,
}

impl Default for Chain {
    fn default() -> Self {
        Self { next: 0, prev: Digest::zero() }
    }
}

impl Chain {
    /// Goes on after what was read.
    pub fn after(lines: &[Line], text: &str) -> Self {
        let last = text.trim_end_matches('\n').rsplit('\n').next().unwrap_or_default();
        match lines.last() {
            Some(line) => Self { next: line.seq + 1, prev: Digest::of(last.as_bytes()) },
            None => Self::default(),
        }
    }

    /// Lines so far.
    pub fn length(&self) -> u64 {
        self.next
    }

    /// The next line, with its line end.
    pub fn link(&mut self, at: String, elapsed_ms: u64, event: Event) -> Result<String, serde_json::Error> {
        let line = Line { seq: self.next, at, elapsed_ms, prev: self.prev, event };
        let mut text = canonical(&line)?;
        self.prev = Digest::of(text.as_bytes());
        self.next += 1;
        text.push('\n');
        Ok(text)
    }
}

/// Reads a chain, refusing any line that is not in canonical form, not the next, or not linked to the one before.
pub fn read_chain(bytes: &[u8]) -> Result<Vec<Line>, ChainError> {
    let mut lines: Vec<Line> = Vec::new();
    let mut prev = Digest::zero();
    for (number, raw) in bytes.split_inclusive(|b| *b == b'\n').enumerate() {
        let wrong = |cause: &str| ChainError { line: number + 1, cause: cause.to_owned() };
        let text = raw.strip_suffix(b"\n").ok_or_else(|| wrong("has no end: the file is cut"))?;
        let line: Line = serde_json::from_slice(text).map_err(|e| wrong(&format!("is not an event: {e}")))?;
        if canonical(&line).ok().as_deref().map(str::as_bytes) != Some(text) {
            return Err(wrong("is not in canonical form"));
        }
        if line.seq != lines.len() as u64 {
            return Err(wrong(&format!("has number {} where {} is due", line.seq, lines.len())));
        }
        if line.prev != prev {
            return Err(wrong("does not hold the digest of the line before it"));
        }
        prev = Digest::of(text);
        lines.push(line);
    }
    Ok(lines)
}
