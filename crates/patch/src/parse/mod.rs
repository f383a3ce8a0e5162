//! Reads git's patch format, and refuses every line that is not plainly of it. Reference: git-diff(1), "generating patch text with -p";
//! git's apply.c where that is silent.
//!
//! `git apply` is lenient: it skips what it does not know, guesses names and finds places. What two readers may read differently is refused
//! here, because one of them is the approver.

mod binary;
mod error;
mod header;
mod hunk;
mod lines;
mod modes;
mod names;
mod whole;

pub use error::{Fault, ModeFault, PatchError};

use crate::limits::{Budget, LimitFault, Limits};
use crate::patch::{Action, Change, Content, Patch};
use crate::quote::plain_or_quoted;
use crate::visible::shown;
use header::Header;
use lines::Lines;
use names::Sides;

const SECTION: &[u8] = b"diff --git ";

impl Patch {
    /// Reads a patch. What stands before the first `diff --git` line is no part of it.
    pub fn parse(text: &[u8], limits: &Limits) -> Result<Self, PatchError> {
        if text.len() > limits.patch_bytes {
            return Err(PatchError { line: 1, fault: LimitFault::Patch(text.len(), limits.patch_bytes).into() });
        }
        let mut lines = Lines::of(text);
        let mut budget = Budget::new(*limits);
        skip_preamble(&mut lines)?;
        is_whole(text)?;
        let mut changes = Vec::new();
        while let Some(names) = lines.next_after(SECTION) {
            if changes.len() == limits.files {
                return Err(lines.fault_before(LimitFault::Files(limits.files)));
            }
            changes.push(section(names, &mut lines, &mut budget)?);
        }
        skip_signature(&mut lines)?;
        whole::check(&changes)?;
        Ok(Self { changes, limits: *limits })
    }
}

/// A summary line, the head of a mail. A diff in another format is not taken for one.
fn skip_preamble(lines: &mut Lines<'_>) -> Result<(), PatchError> {
    while let Some(line) = lines.peek() {
        if line.starts_with(SECTION) {
            return Ok(());
        }
        if [b"diff --cc ".as_slice(), b"diff --combined "].iter().any(|start| line.starts_with(start)) {
            return Err(lines.fault(Fault::Merge(shown(line))));
        }
        if [b"--- ".as_slice(), b"+++ ", b"@@ "].iter().any(|start| line.starts_with(start)) {
            return Err(lines.fault(Fault::NotGit(shown(line))));
        }
        lines.next();
    }
    Err(PatchError { line: 1, fault: Fault::NoChange })
}

fn is_whole(text: &[u8]) -> Result<(), PatchError> {
    match text.ends_with(b"\n") {
        true => Ok(()),
        false => Err(PatchError { line: memchr::memchr_iter(b'\n', text).count() + 1, fault: Fault::Cut }),
    }
}

/// What a mail ends with: `-- `, and the version of git.
fn skip_signature(lines: &mut Lines<'_>) -> Result<(), PatchError> {
    if lines.peek() == Some(b"-- ") {
        lines.next();
        let is_version = |line: &&[u8]| line.len() < 100 && line.first().is_some_and(u8::is_ascii_digit);
        if lines.peek().as_ref().is_some_and(is_version) {
            lines.next();
        }
    }
    match lines.peek() {
        Some(line) if line.starts_with(b"diff --c") => Err(lines.fault(Fault::Merge(shown(line)))),
        Some(_) if !lines.is_rest_empty() => Err(lines.unknown()),
        Some(_) | None => Ok(()),
    }
}

/// Everything about one file.
fn section(names: &[u8], lines: &mut Lines<'_>, budget: &mut Budget) -> Result<Change, PatchError> {
    let line = lines.number() - 1;
    let at_start = |fault| PatchError { line, fault };
    let header = Header::parse(lines)?;
    let sides = Sides::of(names, header.moved()).map_err(at_start)?;
    let action = header.action().map_err(at_start)?;
    let content = content(&header, &sides, &action, lines, budget)?;
    let (old_mode, new_mode) = header.modes();
    let says_nothing = content == Content::Same && action == Action::Modify && old_mode == new_mode;
    if says_nothing {
        return Err(at_start(Fault::Nothing(plain_or_quoted(&sides.new))));
    }
    Ok(Change { line, path: sides.new, action, old_mode, new_mode, ids: header.into_ids(), content })
}

fn content(header: &Header, sides: &Sides, action: &Action, lines: &mut Lines<'_>, budget: &mut Budget) -> Result<Content, PatchError> {
    match lines.peek() {
        Some(line) if line.starts_with(b"--- ") => {
            names::both(sides, action, lines)?;
            Ok(Content::Text(hunk::all(action, lines)?))
        }
        Some(b"GIT binary patch") => binary::both(header, lines, budget),
        Some(line) if line.starts_with(b"Binary files ") => Err(lines.fault(Fault::BinaryDiffers(shown(line)))),
        Some(_) | None => Ok(Content::Same),
    }
}
