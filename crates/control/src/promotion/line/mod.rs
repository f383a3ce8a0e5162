//! The steps of one promotion, each from one state to the next. Whoever calls them has its turn.

mod asking;
mod carrying_out;
mod examine;

use ringfence_patch::Edit;
use ringfence_store::{Authority, PromotionRow, PromotionState};

use super::destination::{Base, Destination};
use super::document::{Asked, Prepared};
use super::error::PromotionError;
use super::folder::Folder;
use super::git::CommitText;
use super::scan::{Scan, scan};
use super::source::Source;
use super::{End, RECEIPT, receipt, undo};
use crate::run::Runner;

/// One promotion, in the turn of this process.
pub(super) struct Line<'a> {
    runner: &'a Runner,
    folder: &'a Folder,
    row: &'a PromotionRow,
    asked: Asked,
    prepared: Option<Prepared>,
}

impl<'a> Line<'a> {
    pub(super) fn of(runner: &'a Runner, folder: &'a Folder, row: &'a PromotionRow) -> Result<Self, PromotionError> {
        let (asked, prepared) = receipt::read_documents(&row.id, &row.request, row.prepared.as_deref())?;
        Ok(Self { runner, folder, row, asked, prepared })
    }

    /// What the promotion makes of a base: the artifact's doing, or the undoing of what was done.
    fn edits(&self, destination: &Destination<'_>, base: &Base) -> Result<Vec<Edit>, PromotionError> {
        match &self.asked.undoes {
            None => destination.edits(base, Source::bytes(self.runner, &self.asked.what.artifact)?, &self.asked),
            Some(id) => {
                let row = Authority::open(&self.runner.home)?.promotion(id)?;
                let row = row.ok_or_else(|| PromotionError::NoPromotion(id.clone()))?;
                let (_, done) = receipt::read_documents(id, &row.request, row.prepared.as_deref())?;
                let done = done.ok_or_else(|| PromotionError::Document { id: id.clone(), cause: "nothing was prepared".into() })?;
                undo::edits(self.runner, destination, base, &self.asked, &done)
            }
        }
    }

    /// What was in the target before may come back, whatever it looks like.
    fn scan(&self, base: &Base, edits: &[Edit]) -> Scan {
        let known = self.runner.stored_credentials();
        let known: Vec<&[u8]> = known.iter().map(|secret| secret.expose().as_bytes()).collect();
        let found = scan(edits, &self.asked.target, &known, base.collision(edits));
        match self.asked.undoes {
            Some(_) => Scan { refused: Vec::new(), ..found },
            None => found,
        }
    }

    fn commit_text(&self, at: i64) -> CommitText<'_> {
        CommitText { author: &self.asked.what.agent, message: &self.asked.message, at, promotion: &self.asked.promotion }
    }

    fn prepared(&self) -> Result<&Prepared, PromotionError> {
        self.prepared.as_ref().ok_or_else(|| PromotionError::Document { id: self.row.id.clone(), cause: "nothing was prepared".into() })
    }

    fn end(&self, authority: &mut Authority, state: PromotionState, cause: &str) -> Result<bool, PromotionError> {
        let from = [PromotionState::Checking, PromotionState::Waiting, PromotionState::Applying];
        Ok(authority.end(&self.row.id, &from, state, cause)?)
    }

    /// Writes the receipt of a promotion that is over, if it is not there yet, and takes away what it needed in the target. Nothing moves after that.
    pub(super) fn close(&self, authority: &mut Authority) -> Result<bool, PromotionError> {
        if !self.folder.has(RECEIPT) {
            let approvals = authority.approvals_of(&self.row.id)?;
            let end = End { state: self.row.state, cause: &self.row.cause, at: self.row.changed_at };
            receipt::write(self.runner, self.folder, &self.asked, self.prepared.as_ref(), &approvals, &end)?;
        }
        // Where nothing can be taken away now, whoever comes next tries again: how it ended stands.
        if !self.row.is_sealed && Destination::clear(&self.asked).is_ok() {
            authority.seal(&self.row.id)?;
        }
        Ok(false)
    }
}

fn stale(cause: &str) -> String {
    format!("the target is not what was tested any more: {cause}; ask again, and it is tested on what the target holds now")
}
