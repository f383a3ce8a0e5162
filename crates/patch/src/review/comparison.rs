//! Two versions of a file side by side: whether they are text that a person can read, and which lines differ.

use crate::apply::Edit;
use crate::hunks::{Hunk, Sign, hunks, lines};
use crate::mode::Blob;

/// One edit, looked at.
#[derive(Debug)]
pub(super) struct Comparison<'a> {
    pub(super) edit: &'a Edit,
    /// The lines, unless the new content (or the removed one) is not text. Old content that is no text has no lines.
    pub(super) text: Option<Text<'a>>,
}

/// The lines of an edit.
#[derive(Debug)]
pub(super) struct Text<'a> {
    pub(super) old: Vec<&'a [u8]>,
    pub(super) new: Vec<&'a [u8]>,
    pub(super) hunks: Vec<Hunk>,
    pub(super) added: usize,
    pub(super) removed: usize,
}

impl<'a> Comparison<'a> {
    pub(super) fn of(edit: &'a Edit) -> Self {
        let (old, new) = (bytes(&edit.old), bytes(&edit.new));
        let is_shown = !is_binary(if edit.new.is_some() { new } else { old });
        let old = if is_binary(old) { b"" } else { old };
        Self { edit, text: is_shown.then(|| Text::of(old, new)) }
    }
}

impl<'a> Text<'a> {
    fn of(before: &'a [u8], after: &'a [u8]) -> Self {
        let (old, new, hunks) = (lines(before), lines(after), hunks(before, after));
        let mut text = Self { old, new, hunks, added: 0, removed: 0 };
        let (mut added, mut removed) = (0, 0);
        text.each(|sign, _, _| match sign {
            Sign::Same => {}
            Sign::Added => added += 1,
            Sign::Removed => removed += 1,
        });
        (text.added, text.removed) = (added, removed);
        text
    }

    /// Tells every line of every hunk, with its number in the new file.
    pub(super) fn each(&self, mut tell: impl FnMut(Sign, usize, &'a [u8])) {
        for hunk in &self.hunks {
            let mut number = hunk.first_new_line();
            hunk.each(&self.old, &self.new, |sign, line| {
                tell(sign, number, line);
                number += usize::from(sign != Sign::Removed);
            });
        }
    }

    /// The lines that are new, with their numbers.
    pub(super) fn added_lines(&self) -> Vec<(usize, &'a [u8])> {
        let mut added = Vec::with_capacity(self.added);
        self.each(|sign, number, line| {
            if sign == Sign::Added {
                added.push((number, line));
            }
        });
        added
    }
}

/// The content of a side; nothing where there is no file.
pub(crate) fn bytes(side: &Option<Blob>) -> &[u8] {
    side.as_ref().map_or(b"", |blob| &blob.bytes)
}

/// One byte in ten that no text has makes content binary. A single one does not: a program with one NUL byte in it would be hidden from its
/// reader, and still run.
pub(crate) fn is_binary(content: &[u8]) -> bool {
    let is_odd = |byte: &u8| matches!(byte, 0..=8 | 11 | 14..=26 | 28..=31 | 127);
    let odd: usize = content.utf8_chunks().map(|chunk| chunk.valid().bytes().filter(is_odd).count() + chunk.invalid().len()).sum();
    odd * 10 > content.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_one_odd_byte_is_text() {
        assert!(!is_binary(b"") && !is_binary("#!/bin/sh\n# \0\nrm -rf é\n".as_bytes()) && !is_binary(b"\x1b[1mbold\x1b[0m\n"));
        assert!(!is_binary(b"caf\xe9 au lait\n"));
        assert!(is_binary(b"\x7fELF\x02\x01\x01\0\0\0") && is_binary(b"a\0b\0c\0") && is_binary(&[0xff; 9]));
    }
}
