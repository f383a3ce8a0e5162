//! What a patch makes of a tree: one edit a path, or the reason why it does not fit. The tree is only asked, never changed.

mod base;
mod ends;
mod error;
mod text;

pub use base::{Base, BaseEntry};
pub use error::{ApplyError, ApplyFault};

use crate::ids::{LONG_ID, SHORT_ID, blob_id};
use crate::limits::Budget;
use crate::mode::{Blob, Mode};
use crate::patch::{Action, Block, Change, Content, Ids, Patch};
use crate::paths::in_order;
use crate::quote::plain_or_quoted;
use base::Ground;
use text::Patience;

/// What happens to one path of a tree: at least one side is there, and the two differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// The path.
    pub path: Vec<u8>,
    /// The file before.
    pub old: Option<Blob>,
    /// The file after.
    pub new: Option<Blob>,
}

impl Patch {
    /// The edits that lead from the base to the patched tree: first what goes, then what comes or changes, each by path, so that whoever
    /// performs them in this order never meets a file where a folder has to be. A rename is a removal and an addition. Either every change
    /// fits exactly, or the first that does not is told.
    pub fn apply(&self, base: &dyn Base) -> Result<Vec<Edit>, ApplyError> {
        let mut ground = Ground::of(base, self);
        let (mut budget, mut patience) = (Budget::new(self.limits), Patience::new());
        let mut edits = Vec::with_capacity(self.changes.len());
        for change in &self.changes {
            let at = |(line, fault)| ApplyError { path: plain_or_quoted(&change.path), line, fault };
            edits.extend(perform(change, &mut ground, &mut budget, &mut patience).map_err(at)?);
        }
        edits.sort_by(|a, b| b.new.is_none().cmp(&a.new.is_none()).then_with(|| in_order(&a.path, &b.path)));
        Ok(edits)
    }
}

/// A fault with its line.
type At = (usize, ApplyFault);

fn perform(change: &Change, ground: &mut Ground<'_>, budget: &mut Budget, patience: &mut Patience) -> Result<Vec<Edit>, At> {
    let at = |fault| (change.line, fault);
    let old = before(change, ground).map_err(at)?;
    let bytes = content(change, old.as_ref(), patience)?;
    budget.take(bytes.len()).map_err(|fault| at(fault.into()))?;
    match_ids(change, old.as_ref(), &bytes).map_err(at)?;
    if change.action == Action::Remove && !bytes.is_empty() {
        return Err(at(ApplyFault::Leaves));
    }
    let made = |old: Option<&Blob>| Blob { mode: change.new_mode.or(old.map(|old| old.mode)).unwrap_or(Mode::Plain), bytes };
    let edit = |path: &[u8], old, new| Edit { path: path.to_vec(), old, new };
    Ok(match &change.action {
        Action::Remove => vec![edit(&change.path, old, None)],
        Action::Rename(from) => {
            let new = made(old.as_ref());
            vec![edit(from, old, None), edit(&change.path, None, Some(new))]
        }
        Action::Add | Action::Copy(_) => vec![edit(&change.path, None, Some(made(old.as_ref())))],
        Action::Modify => {
            let new = Some(made(old.as_ref()));
            if old == new {
                return Err(at(ApplyFault::Same));
            }
            vec![edit(&change.path, old, new)]
        }
    })
}

/// The file that is changed, where its mode and its place are what the patch says.
fn before(change: &Change, ground: &mut Ground<'_>) -> Result<Option<Blob>, ApplyFault> {
    let old = match &change.action {
        Action::Add => None,
        Action::Remove | Action::Modify => Some(ground.file(&change.path)?),
        Action::Rename(from) | Action::Copy(from) => Some(ground.file(from)?),
    };
    if old.is_none() || change.source().is_some() {
        ground.is_free(&change.path)?;
    }
    match (old.as_ref().map(|old| old.mode), change.old_mode) {
        (Some(is), Some(said)) if is != said => Err(ApplyFault::OtherMode { is, said }),
        (Some(_) | None, Some(_) | None) => Ok(old),
    }
}

/// The content afterwards.
fn content(change: &Change, old: Option<&Blob>, patience: &mut Patience) -> Result<Vec<u8>, At> {
    let at = |fault| (change.line, fault);
    let base = old.map_or(&b""[..], |old| &old.bytes);
    match &change.content {
        Content::Same => Ok(base.to_vec()),
        Content::Text(hunks) => text::apply(base, hunks, is_known(change, old), patience),
        Content::Binary { forward, reverse } => {
            let bytes = unblock(forward, base).map_err(at)?;
            match reverse {
                Some(reverse) if unblock(reverse, &bytes).map_err(at)? != base => Err(at(ApplyFault::OtherReverse)),
                Some(_) | None => Ok(bytes),
            }
        }
    }
}

fn unblock(block: &Block, base: &[u8]) -> Result<Vec<u8>, ApplyFault> {
    match block {
        Block::Literal(bytes) => Ok(bytes.clone()),
        Block::Delta(delta) => Ok(delta.apply(base)?),
    }
}

/// The ids of a change, if both are in full.
fn full(ids: &Option<Ids>) -> Option<&Ids> {
    ids.as_ref().filter(|ids| [SHORT_ID, LONG_ID].contains(&ids.old.len()) && ids.old.len() == ids.new.len())
}

/// Whether the ids say that this is the very content for which the patch was made.
fn is_known(change: &Change, old: Option<&Blob>) -> bool {
    full(&change.ids).is_some_and(|ids| ids.old == blob_id(old.map(|old| old.bytes.as_slice()), ids.old.len()))
}

/// Full ids are true, of binary content always, of text where the base is the one for which the patch was made.
fn match_ids(change: &Change, old: Option<&Blob>, bytes: &[u8]) -> Result<(), ApplyFault> {
    let Some(ids) = full(&change.ids) else { return Ok(()) };
    let id = |bytes: Option<&[u8]>| blob_id(bytes, ids.old.len());
    let is = id(old.map(|old| old.bytes.as_slice()));
    if is != ids.old {
        return match change.content {
            Content::Binary { .. } | Content::Same => Err(ApplyFault::OtherBase { is, said: ids.old.clone() }),
            Content::Text(_) => Ok(()),
        };
    }
    let is = id(Some(bytes).filter(|_| change.action != Action::Remove));
    if is == ids.new { Ok(()) } else { Err(ApplyFault::OtherResult { is, said: ids.new.clone() }) }
}
