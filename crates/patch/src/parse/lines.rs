//! The lines of a patch, each with its number. Every line has an end: a patch without one is refused before.

use memchr::memchr;

use super::error::{Fault, PatchError};
use crate::visible::shown;

/// Reads a text line by line.
#[derive(Debug)]
pub(super) struct Lines<'a> {
    rest: &'a [u8],
    number: usize,
}

impl<'a> Lines<'a> {
    pub(super) fn of(text: &'a [u8]) -> Self {
        Self { rest: text, number: 1 }
    }

    /// The number of the next line.
    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// The next line without its end.
    pub(super) fn peek(&self) -> Option<&'a [u8]> {
        memchr(b'\n', self.rest).map(|end| &self.rest[..end])
    }

    /// Goes on to the line after.
    pub(super) fn next(&mut self) -> Option<&'a [u8]> {
        let line = self.peek()?;
        self.rest = &self.rest[line.len() + 1..];
        self.number += 1;
        Some(line)
    }

    /// What follows `start` in the next line, if it begins so; then that line is behind.
    pub(super) fn next_after(&mut self, start: &[u8]) -> Option<&'a [u8]> {
        let rest = self.peek()?.strip_prefix(start)?;
        self.next();
        Some(rest)
    }

    /// True if only empty lines are left.
    pub(super) fn is_rest_empty(&self) -> bool {
        self.rest.iter().all(|byte| *byte == b'\n')
    }

    /// Something wrong with the line that is next.
    pub(super) fn fault(&self, fault: impl Into<Fault>) -> PatchError {
        PatchError { line: self.number, fault: fault.into() }
    }

    /// Something wrong with the line that was last.
    pub(super) fn fault_before(&self, fault: impl Into<Fault>) -> PatchError {
        PatchError { line: self.number.saturating_sub(1).max(1), fault: fault.into() }
    }

    /// The next line is none that may be here.
    pub(super) fn unknown(&self) -> PatchError {
        self.fault(Fault::Unknown(self.peek().map(shown).unwrap_or_default()))
    }
}
