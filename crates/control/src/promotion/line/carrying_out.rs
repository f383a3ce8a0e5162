//! From agreed to done: the change is made once more and compared with what was tested, the approvals are used up, and it takes effect once. Whoever comes
//! after a crash asks the target how far it came.

use ringfence_evidence::Digest;
use ringfence_patch::Edit;
use ringfence_store::{ApprovalRow, ApprovalState, Authority, PromotionState, Started};

use super::{Line, stale};
use crate::approvals::Electorate;
use crate::promotion::RECEIPT;
use crate::promotion::destination::{Base, Destination, Landed};
use crate::promotion::document::{Content, Prepared};
use crate::promotion::error::PromotionError;
use crate::promotion::source::Source;

/// Milliseconds.
const DAY: i64 = 24 * 3_600_000;

/// Whether the change can be made now.
enum Ready<'a> {
    Yes(Box<Change<'a>>),
    Stale(String),
    Altered(String),
}

/// A change that is made but for its effect.
struct Change<'a> {
    destination: Destination<'a>,
    base: Base,
    edits: Vec<Edit>,
}

impl Line<'_> {
    /// If everybody has agreed who must: does all that can fail without effect, then uses the approvals up and starts. True if it has moved on.
    pub(in crate::promotion) fn start(&self, authority: &mut Authority) -> Result<bool, PromotionError> {
        let approvals = self.use_standing(authority)?;
        if self.folder.has(RECEIPT) {
            return self.end(authority, PromotionState::Refused, "it has a receipt: it is over, whatever the store says");
        }
        if let Some(cause) = self.altered(&approvals)? {
            return self.end(authority, PromotionState::Refused, &cause);
        }
        if self.is_overdue(&approvals, authority.now()?, 0) {
            return self.end(authority, PromotionState::Expired, "what was agreed to was not used in time");
        }
        let electorate = Electorate::of(&self.runner.home)?;
        if !approvals.iter().all(|row| row.state == ApprovalState::Approved && row.has_quorum(&|row, made| electorate.counts(row, made))) {
            return Ok(false);
        }
        if let Some(cause) = self.is_out_of_date()? {
            return self.end(authority, PromotionState::Stale, &cause);
        }
        let prepared = self.prepared()?;
        match self.ready()? {
            Ready::Yes(ready) => {
                ready.destination.make_ready(&ready.base, &prepared.result, &ready.edits)?;
                // Looking at the target may have taken a while: who counts is asked again.
                let electorate = Electorate::of(&self.runner.home)?;
                match authority.start(&self.row.id, &|row, made| electorate.counts(row, made))? {
                    Started::Now => self.carry_out(authority, &ready),
                    Started::Waiting => Destination::clear(&self.asked).map(|()| false),
                    Started::Not(_) => Ok(true),
                }
            }
            Ready::Stale(cause) => self.end(authority, PromotionState::Stale, &cause),
            Ready::Altered(cause) => self.end(authority, PromotionState::Refused, &cause),
        }
    }

    /// Makes the change once more, from the artifact as it is kept and the target as it is, and compares it with what was tested.
    fn ready(&self) -> Result<Ready<'_>, PromotionError> {
        let prepared = self.prepared()?;
        let work = self.folder.fresh_work()?;
        let destination = Destination::open(&self.asked, work, &self.runner.surroundings.environment)?;
        let base = destination.look(&self.asked.target)?;
        let edits = match self.edits(&destination, &base) {
            Err(PromotionError::Unfit(unfit)) => return Ok(Ready::Stale(stale(&unfit.in_full()))),
            Err(PromotionError::NotUndone { cause, .. }) => return Ok(Ready::Stale(stale(&cause))),
            edits => edits?,
        };
        let found = base.content(&edits);
        if found != prepared.base {
            return Ok(Ready::Stale(stale(&format!("it holds {}", found.in_words()))));
        }
        if self.scan(&base, &edits).protected != prepared.protected {
            return Ok(Ready::Altered("the protected paths on record are not those of the change: the store was changed".to_owned()));
        }
        let result = destination.result(&base, &edits, &self.commit_text(prepared.at))?;
        match result == prepared.result {
            true => Ok(Ready::Yes(Box::new(Change { destination, base, edits }))),
            false => Ok(Ready::Stale(format!("the change would lead to {}, not to what was tested", result.in_words()))),
        }
    }

    fn carry_out(&self, authority: &mut Authority, ready: &Change<'_>) -> Result<bool, PromotionError> {
        let prepared = self.prepared()?;
        let (landed, said) = ready.destination.apply(&prepared.base, &prepared.result, &ready.edits)?;
        let (state, cause) = match landed {
            Landed::Yes => (PromotionState::Applied, String::new()),
            Landed::No => (PromotionState::Failed, format!("the target did not take it: {said}")),
            Landed::Moved => (PromotionState::Stale, stale("it was changed while this was applied")),
        };
        authority.end(&self.row.id, &[PromotionState::Applying], state, &cause).map_err(PromotionError::from)
    }

    /// Goes on with what was started and cut short: asks the target first, and never does a thing that is done.
    pub(in crate::promotion) fn apply(&self, authority: &mut Authority) -> Result<bool, PromotionError> {
        let prepared = self.prepared()?.clone();
        let work = self.folder.fresh_work()?;
        let destination = Destination::open(&self.asked, work, &self.runner.surroundings.environment)?;
        let edits = self.edits_on_record(&destination, &prepared)?;
        match destination.settle(&prepared.base, &prepared.result, &edits, &self.asked.target)? {
            Landed::Yes => self.end(authority, PromotionState::Applied, ""),
            Landed::Moved => self.end(authority, PromotionState::Stale, &stale("it was changed before this was applied")),
            Landed::No => self.apply_after_all(authority),
        }
    }

    /// What was started has come to nothing so far. That it was started is only a word in the store: the approvals say whether it may go on.
    fn apply_after_all(&self, authority: &mut Authority) -> Result<bool, PromotionError> {
        let approvals = authority.approvals_of(&self.row.id)?;
        if let Some(cause) = self.altered(&approvals)? {
            return self.end(authority, PromotionState::Refused, &cause);
        }
        let electorate = Electorate::of(&self.runner.home)?;
        let is_used = |row: &ApprovalRow| row.state == ApprovalState::Consumed && row.has_quorum(&|row, made| electorate.counts(row, made));
        if let Some(row) = approvals.iter().find(|row| !is_used(row)) {
            let cause = format!("it was cut short, and of those who agreed to approval {} not enough count any more", row.id);
            return self.end(authority, PromotionState::Refused, &cause);
        }
        // It was started in time; a repository that was away for a day is another matter.
        if self.is_overdue(&approvals, authority.now()?, DAY) {
            return self.end(authority, PromotionState::Expired, "it was started, but could not be applied in time");
        }
        if let Some(cause) = self.is_out_of_date()? {
            return self.end(authority, PromotionState::Stale, &cause);
        }
        let prepared = self.prepared()?;
        match self.ready()? {
            Ready::Yes(ready) => {
                ready.destination.make_ready(&ready.base, &prepared.result, &ready.edits)?;
                self.carry_out(authority, &ready)
            }
            Ready::Stale(cause) => self.end(authority, PromotionState::Stale, &cause),
            Ready::Altered(cause) => self.end(authority, PromotionState::Refused, &cause),
        }
    }

    /// The edits of a folder's one file, by the contents that are on record; a repository is asked by its commit.
    fn edits_on_record(&self, destination: &Destination<'_>, prepared: &Prepared) -> Result<Vec<Edit>, PromotionError> {
        let blob = |digest: &Digest| {
            Source::bytes(self.runner, digest).map(|bytes| ringfence_patch::Blob { mode: ringfence_patch::Mode::Plain, bytes })
        };
        match (destination, &prepared.base, &prepared.result) {
            (Destination::Directory(_), Content::File { name, sha256: old, .. }, Content::File { sha256: new, .. }) => Ok(vec![Edit {
                path: name.clone().into_bytes(),
                old: old.as_ref().map(blob).transpose()?,
                new: new.as_ref().map(blob).transpose()?,
            }]),
            _ => Ok(Vec::new()),
        }
    }
}
