//! Hunks on a file: each at the line that it names, or else at the only other place after the one before where all its lines stand.
//! Nothing is compared loosely, neither spaces nor line ends, and no context is given up.

use memchr::{memchr, memchr_iter, memmem};

use super::ends::{differ_in_ends, other_line};
use super::error::ApplyFault;
use crate::patch::Hunk;

/// So many bytes of files are looked through for hunks that have moved, in all.
const LOOKED_THROUGH: usize = 1 << 30;

/// How much may still be looked through.
#[derive(Debug)]
pub(super) struct Patience(usize);

impl Patience {
    pub(super) fn new() -> Self {
        Self(LOOKED_THROUGH)
    }

    fn spend(&mut self, bytes: usize) -> Result<(), ApplyFault> {
        self.0 = self.0.checked_sub(bytes).ok_or(ApplyFault::Moved)?;
        Ok(())
    }
}

/// What the hunks make of a file. `is_known` says that it is the very file for which they were made. Where one fails, its line is told.
pub(super) fn apply(base: &[u8], hunks: &[Hunk], is_known: bool, patience: &mut Patience) -> Result<Vec<u8>, (usize, ApplyFault)> {
    let mut out = Vec::with_capacity(base.len());
    let mut done = Place { line: 0, byte: 0 };
    for hunk in hunks {
        let at = |fault| (hunk.line, fault);
        if hunk.before.is_empty() && !base.is_empty() && !is_known {
            return Err(at(ApplyFault::Nowhere));
        }
        let place = find(base, hunk, done, patience).map_err(at)?;
        out.extend_from_slice(&base[done.byte..place.byte]);
        out.extend_from_slice(&hunk.after);
        done = Place { line: place.line + hunk.counts.0, byte: place.byte + hunk.before.len() };
        let is_cut = |text: &[u8]| !text.is_empty() && !text.ends_with(b"\n");
        if done.byte < base.len() && (is_cut(&hunk.after) || is_cut(&hunk.before)) {
            return Err(at(ApplyFault::NotAtEnd));
        }
    }
    out.extend_from_slice(&base[done.byte..]);
    Ok(out)
}

/// A line's beginning in a file: how many lines are before it, and how many bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) line: usize,
    pub(super) byte: usize,
}

fn find(base: &[u8], hunk: &Hunk, done: Place, patience: &mut Patience) -> Result<Place, ApplyFault> {
    let said = line_after(base, done, hunk.after_lines);
    if let Some(place) = said.filter(|place| stands_at(base, hunk, place.byte)) {
        return Ok(place);
    }
    patience.spend(base.len() - done.byte)?;
    // A hunk at the beginning of a file does not move, nor does one that is nothing but its change.
    let can_move = hunk.after_lines > 0 && hunk.context != (0, 0);
    let (first, second) = if can_move { two_places(base, hunk, done.byte) } else { (None, None) };
    let line = |byte| done.line + memchr_iter(b'\n', &base[done.byte..byte]).count();
    match (first, second) {
        (Some(byte), None) => Ok(Place { line: line(byte), byte }),
        (Some(first), Some(second)) => {
            Err(ApplyFault::Ambiguous { said: hunk.after_lines + 1, first: line(first) + 1, second: line(second) + 1 })
        }
        (None, _) => Err(differ_in_ends(base, &hunk.before).unwrap_or_else(|| no_place(base, hunk, said))),
    }
}

/// The beginning of the line that `lines` come before, if the file has so many.
fn line_after(base: &[u8], done: Place, lines: usize) -> Option<Place> {
    let mut place = done;
    while place.line < lines {
        place.byte += memchr(b'\n', &base[place.byte..])? + 1;
        place.line += 1;
    }
    (place.line == lines).then_some(place)
}

/// Whether a hunk's lines are here.
fn stands_at(base: &[u8], hunk: &Hunk, byte: usize) -> bool {
    let is_start_of_line = byte == 0 || base.get(byte - 1) == Some(&b'\n');
    let rest = base[byte..].strip_prefix(hunk.before.as_slice());
    is_start_of_line && rest.is_some_and(|rest| rest.is_empty() || !must_end(hunk))
}

/// Without lines after its change a hunk ends where the file ends, if it shows any context; so does one whose last line has no newline.
fn must_end(hunk: &Hunk) -> bool {
    let is_cut = !hunk.before.is_empty() && !hunk.before.ends_with(b"\n");
    is_cut || (hunk.context.1 == 0 && hunk.context.0 > 0)
}

/// Places at and after `from` where a hunk's lines stand: the first, and one more.
fn two_places(base: &[u8], hunk: &Hunk, from: usize) -> (Option<usize>, Option<usize>) {
    if must_end(hunk) {
        let end = base.len().checked_sub(hunk.before.len()).filter(|byte| *byte >= from);
        return (end.filter(|byte| stands_at(base, hunk, *byte)), None);
    }
    // With a line's end before it, the text is found at beginnings of lines only.
    let wanted = [b"\n", hunk.before.as_slice()].concat();
    let next = |from: usize| match from {
        0 if base.starts_with(&hunk.before) => Some(0),
        from => memmem::find(&base[from.max(1) - 1..], &wanted).map(|offset| from.max(1) + offset),
    };
    let first = next(from);
    (first, first.and_then(|first| next(first + 1)))
}

/// The first line that is not as the hunk has it.
fn no_place(base: &[u8], hunk: &Hunk, said: Option<Place>) -> ApplyFault {
    match said {
        Some(place) if stands_without_end(base, hunk, place.byte) => ApplyFault::NotAtEnd,
        Some(place) => other_line(place.line, &base[place.byte..], &hunk.before),
        None => other_line(hunk.after_lines, b"", &hunk.before),
    }
}

fn stands_without_end(base: &[u8], hunk: &Hunk, byte: usize) -> bool {
    base[byte..].starts_with(&hunk.before) && hunk.before.ends_with(b"\n")
}
