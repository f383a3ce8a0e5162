//! What an approver reads about a patch: made from the edits, which are the truth, and never from the patch's own text.

mod comparison;
mod flags;
mod hazard;
mod lost_tests;
mod programs;
mod render;
mod seen;

pub(crate) use comparison::{bytes, is_binary};
pub use hazard::{Flag, Hazard};
pub use programs::starts_programs;
pub use render::render;

use crate::apply::Edit;
use comparison::Comparison;

/// Edits, summed up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Review {
    /// What a reviewer could miss, by kind.
    pub flags: Vec<Flag>,
    /// Each file, in the order of the edits.
    pub files: Vec<FileStat>,
}

/// One file, in numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileStat {
    /// The path.
    pub path: Vec<u8>,
    /// What happens to it.
    pub change: FileChange,
    /// Lines that are added; none of what is no text.
    pub added: usize,
    /// Lines that are removed.
    pub removed: usize,
    /// Length afterwards; of a file that goes, before.
    pub bytes: usize,
    /// Whether its content is no text, and so not shown.
    pub is_binary: bool,
}

/// What happens to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileChange {
    /// It was not there.
    Added,
    /// It is not there any more.
    Removed,
    /// Its content changes.
    Changed,
    /// Only its mode does.
    ModeOnly,
}

impl FileChange {
    /// In a word or two.
    pub fn says(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Changed => "changed",
            Self::ModeOnly => "mode only",
        }
    }
}

/// Sums up edits for whoever decides about them.
pub fn review(edits: &[Edit]) -> Review {
    let comparisons: Vec<Comparison<'_>> = edits.iter().map(Comparison::of).collect();
    sum_up(edits, &comparisons)
}

fn sum_up(edits: &[Edit], comparisons: &[Comparison<'_>]) -> Review {
    let mut flags: Vec<Flag> = comparisons.iter().flat_map(flags::flags).chain(case_collisions(edits)).collect();
    flags.sort_by_key(|flag| flag.hazard); // stable: the order of the edits stays
    Review { flags, files: comparisons.iter().map(stat).collect() }
}

fn stat(comparison: &Comparison<'_>) -> FileStat {
    let edit = comparison.edit;
    let change = match (&edit.old, &edit.new) {
        (None, _) => FileChange::Added,
        (Some(_), None) => FileChange::Removed,
        (Some(old), Some(new)) if old.bytes == new.bytes => FileChange::ModeOnly,
        (Some(_), Some(_)) => FileChange::Changed,
    };
    let (added, removed) = comparison.text.as_ref().map_or((0, 0), |text| (text.added, text.removed));
    let bytes = bytes(if edit.new.is_some() { &edit.new } else { &edit.old }).len();
    FileStat { path: edit.path.clone(), change, added, removed, bytes, is_binary: comparison.text.is_none() }
}

/// Names among the edits, of files or of their folders, that differ in case only. In the order of their small letters they are neighbours.
fn case_collisions(edits: &[Edit]) -> Vec<Flag> {
    let lower = |path: &[u8]| String::from_utf8_lossy(path).to_lowercase();
    let mut paths: Vec<(String, &[u8])> = edits.iter().map(|edit| (lower(&edit.path), edit.path.as_slice())).collect();
    paths.sort();
    let collides = |pair: &[(String, &[u8])]| {
        let parts = |path: &'_ [u8]| path.split(|byte| *byte == b'/').map(<[u8]>::to_vec).collect::<Vec<_>>();
        let (one, other) = (parts(pair[0].1), parts(pair[1].1));
        let differing = one.iter().zip(&other).find(|(one, other)| one != other);
        differing.is_some_and(|(one, other)| lower(one) == lower(other))
    };
    let flag = |pair: &[(String, &[u8])]| Flag {
        hazard: Hazard::CaseCollision,
        path: pair[1].1.to_vec(),
        detail: crate::quote::plain_or_quoted(pair[0].1),
    };
    paths.windows(2).filter(|pair| collides(pair)).map(flag).collect()
}
