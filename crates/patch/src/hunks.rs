//! Where two texts differ: runs of changed lines with the unchanged ones around them, as a unified diff shows them.

use std::ops::Range;

use crate::line_diff::{Change, changes};

/// Unchanged lines around a change.
const CONTEXT: u32 = 3;

/// What a line of a hunk says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sign {
    Same,
    Removed,
    Added,
}

impl Sign {
    pub(crate) fn byte(self) -> u8 {
        match self {
            Self::Same => b' ',
            Self::Removed => b'-',
            Self::Added => b'+',
        }
    }
}

/// A run of changes that are near enough to share their context.
#[derive(Debug)]
pub(crate) struct Hunk {
    before: Range<u32>,
    after: Range<u32>,
    changes: Vec<Change>,
}

impl Hunk {
    /// `@@ -line,count +line,count @@`
    pub(crate) fn header(&self) -> String {
        format!("@@ -{} +{} @@\n", span(&self.before), span(&self.after))
    }

    /// The number of the first line in the new text, from 1.
    pub(crate) fn first_new_line(&self) -> usize {
        self.after.start as usize + 1
    }

    /// Tells each line with its sign.
    pub(crate) fn each<'a>(&self, old: &[&'a [u8]], new: &[&'a [u8]], mut tell: impl FnMut(Sign, &'a [u8])) {
        let mut all = |sign, lines: &[&'a [u8]], range: Range<u32>| {
            lines[range.start as usize..range.end as usize].iter().for_each(|line| tell(sign, line));
        };
        let mut at = self.before.start;
        for change in &self.changes {
            all(Sign::Same, old, at..change.before.start);
            all(Sign::Removed, old, change.before.clone());
            all(Sign::Added, new, change.after.clone());
            at = change.before.end;
        }
        all(Sign::Same, old, at..self.before.end);
    }
}

/// The lines, each with its end.
pub(crate) fn lines(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.split_inclusive(|b| *b == b'\n').collect()
}

/// The hunks that lead from one text to the other.
pub(crate) fn hunks(before: &[u8], after: &[u8]) -> Vec<Hunk> {
    let (old, new) = (lines(before).len() as u32, lines(after).len() as u32);
    if before.is_empty() || after.is_empty() {
        let whole = Change { before: 0..old, after: 0..new };
        return if before == after { Vec::new() } else { vec![Hunk { before: 0..old, after: 0..new, changes: vec![whole] }] };
    }
    group(changes(before, after), old)
}

fn group(changes: Vec<Change>, old: u32) -> Vec<Hunk> {
    let mut hunks: Vec<Hunk> = Vec::new();
    for change in changes {
        let (start, end) = (change.before.start.saturating_sub(CONTEXT), (change.before.end + CONTEXT).min(old));
        let after_end = change.after.end + (end - change.before.end);
        match hunks.last_mut() {
            Some(last) if start <= last.before.end => {
                last.before.end = end;
                last.after.end = after_end;
                last.changes.push(change);
            }
            // What leads to the first change of a hunk is the same on both sides, and so as long; that of a later one need not be.
            Some(_) | None => {
                let after_start = change.after.start - (change.before.start - start);
                hunks.push(Hunk { before: start..end, after: after_start..after_end, changes: vec![change] });
            }
        }
    }
    hunks
}

/// `line,count`; an empty range names the line before it.
fn span(range: &Range<u32>) -> String {
    match range.len() {
        0 => format!("{},0", range.start),
        1 => format!("{}", range.start + 1),
        count => format!("{},{count}", range.start + 1),
    }
}
