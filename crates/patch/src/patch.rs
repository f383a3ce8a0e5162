//! A patch that was read: what it says about each file, in the order in which it says so. Nothing here is known to fit any tree.

use crate::binary::Delta;
use crate::limits::Limits;
use crate::mode::Mode;

/// A patch whose every line was understood.
///
/// INVARIANT (plain): each path passes `names::check`, no two changes concern one path, no path is both a file and a
/// folder, and hunks stand in order and change something. Only [`Patch::parse`] builds one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch {
    pub(crate) changes: Vec<Change>,
    pub(crate) limits: Limits,
}

impl Patch {
    /// Every path that it concerns, with where files are renamed or copied from.
    pub fn paths(&self) -> impl Iterator<Item = &[u8]> {
        self.changes.iter().flat_map(|change| [change.source(), Some(change.path.as_slice())]).flatten()
    }
}

/// What is said about one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    /// Where it begins in the patch.
    pub(crate) line: usize,
    pub(crate) path: Vec<u8>,
    pub(crate) action: Action,
    /// The mode that it had, where that is said.
    pub(crate) old_mode: Option<Mode>,
    /// The mode that it gets, where that is said.
    pub(crate) new_mode: Option<Mode>,
    pub(crate) ids: Option<Ids>,
    pub(crate) content: Content,
}

impl Change {
    /// Where the file comes from, if from another path.
    pub(crate) fn source(&self) -> Option<&[u8]> {
        match &self.action {
            Action::Rename(from) | Action::Copy(from) => Some(from),
            Action::Add | Action::Remove | Action::Modify => None,
        }
    }

    /// The path that is no file any more.
    pub(crate) fn removed(&self) -> Option<&[u8]> {
        match &self.action {
            Action::Rename(from) => Some(from),
            Action::Remove => Some(&self.path),
            Action::Add | Action::Modify | Action::Copy(_) => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    Add,
    Remove,
    Modify,
    Rename(Vec<u8>),
    Copy(Vec<u8>),
}

/// The ids of the blobs before and after, as they stand in the patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ids {
    pub(crate) old: String,
    pub(crate) new: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    /// No word about it.
    Same,
    Text(Vec<Hunk>),
    Binary {
        forward: Block,
        reverse: Option<Block>,
    },
}

/// What makes binary content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Block {
    Literal(Vec<u8>),
    Delta(Delta),
}

/// Lines that stand somewhere, and the lines that take their place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hunk {
    /// Where it begins in the patch.
    pub(crate) line: usize,
    /// How many lines of the old file are before it.
    pub(crate) after_lines: usize,
    /// How many lines it has on the old side, and on the new one.
    pub(crate) counts: (usize, usize),
    /// Unchanged lines at its beginning and at its end.
    pub(crate) context: (usize, usize),
    /// The lines as they are before.
    pub(crate) before: Vec<u8>,
    /// The lines as they are after.
    pub(crate) after: Vec<u8>,
}
