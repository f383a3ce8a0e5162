//! The steps of one promotion, each from one state to the next. Whoever calls them has its turn.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use ringfence_evidence::{Digest, Statement, canonical, provenance};
use ringfence_patch::Edit;
use ringfence_policy::{Consent, Place};
use ringfence_store::{ApprovalRow, ApprovalState, Authority, NewApproval, PromotionRow, PromotionState, RunId, Started};
use serde::Serialize;

use super::checks::{self, CheckReport};
use super::destination::{Base, Destination, Landed};
use super::document::{Asked, Content, Prepared};
use super::error::PromotionError;
use super::folder::Folder;
use super::git::CommitText;
use super::scan::{Scan, scan};
use super::source::Source;
use super::{ASKED, End, PREPARED, PROVENANCE, RECEIPT, TEST_RESULT, preview, receipt, undo};
use crate::approvals::{ApprovalRequest, Approvals, Electorate, Matter, PREVIEW};
use crate::moment;
use crate::registry;
use crate::request::Attachments;
use crate::run::Runner;

/// Milliseconds.
const DAY: i64 = 24 * 3_600_000;

/// One promotion, in the turn of this process.
pub(super) struct Line<'a> {
    runner: &'a Runner,
    folder: &'a Folder,
    row: &'a PromotionRow,
    asked: Asked,
    prepared: Option<Prepared>,
}

/// What was found out about a promotion before anybody is asked.
struct Examined {
    base: Content,
    result: Content,
    scan: Scan,
    checks: Vec<CheckReport>,
    edits: Vec<Edit>,
    at: i64,
}

impl<'a> Line<'a> {
    pub(super) fn of(runner: &'a Runner, folder: &'a Folder, row: &'a PromotionRow) -> Result<Self, PromotionError> {
        let (asked, prepared) = receipt::read_documents(&row.id, &row.request, row.prepared.as_deref())?;
        Ok(Self { runner, folder, row, asked, prepared })
    }

    /// Looks at the target, prepares the change, scans it, checks it, keeps the evidence, and asks. True if it has moved on.
    pub(super) fn examine(&self, authority: &mut Authority, attachments: &mut Attachments<'_>) -> Result<bool, PromotionError> {
        self.folder.keep(ASKED, self.row.request.as_bytes())?;
        if let Some(cause) = self.is_out_of_date()? {
            return self.end(authority, PromotionState::Stale, &cause);
        }
        let examined = match self.look_into(attachments) {
            Ok(examined) => examined,
            Err(PromotionError::Unfit(unfit)) => return self.end(authority, PromotionState::Refused, &unfit.in_full()),
            Err(PromotionError::NotUndone { cause, .. }) => return self.end(authority, PromotionState::Refused, &cause),
            Err(error) => return Err(error),
        };
        if !examined.scan.refused.is_empty() {
            return self.end(authority, PromotionState::Refused, &examined.scan.refused.join("; "));
        }
        let prepared = self.keep_evidence(&examined)?;
        // Taking something back leads to where the target was, whatever a check says of that; persons see how it went.
        match examined.checks.iter().find(|check| !check.has_passed && self.asked.undoes.is_none()) {
            Some(failed) => {
                let cause = format!("check `{}` did not pass: see run {}", failed.command, failed.run);
                self.end(authority, PromotionState::Failed, &cause)
            }
            None => self.ask(authority, &prepared, &examined),
        }
    }

    fn look_into(&self, attachments: &mut Attachments<'_>) -> Result<Examined, PromotionError> {
        let work = self.folder.fresh_work()?;
        let destination = Destination::open(&self.asked, work, &self.runner.surroundings.environment)?;
        let base = destination.look(&self.asked.target)?;
        let edits = self.edits(&destination, &base)?;
        let scan = self.scan(&base, &edits);
        let at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| i64::try_from(d.as_secs()).unwrap_or(0));
        let content = base.content(&edits);
        if !scan.refused.is_empty() {
            return Ok(Examined { result: content.clone(), base: content, scan, checks: Vec::new(), edits, at });
        }
        let result = destination.result(&base, &edits, &self.commit_text(at))?;
        let checked = work.join("checked");
        std::fs::create_dir(&checked).map_err(|source| PromotionError::File { act: "make", path: checked.clone(), source })?;
        if !self.asked.target.checks.is_empty() {
            destination.lay_out(&base, &edits, &self.asked.target, &checked)?;
        }
        let checks = checks::run(self.runner, &self.asked.target, &checked, attachments.progress, attachments.cancel)?;
        Ok(Examined { base: content, result, scan, checks, edits, at })
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

    fn keep_evidence(&self, examined: &Examined) -> Result<Prepared, PromotionError> {
        let Examined { base, result, scan, checks, edits, at } = examined;
        let mut evidence = BTreeMap::from([(ASKED.to_owned(), Digest::of(self.row.request.as_bytes()))]);
        let signed = |name: &str, statement: Digest, evidence: &mut BTreeMap<String, Digest>| evidence.insert(name.to_owned(), statement);
        let source = Source::read(self.runner, self.asked.what.artifact, &self.asked.what.run, &self.asked.what.path)?;
        signed(PROVENANCE, self.keep_signed(PROVENANCE, &provenance(&source.verified, &self.asked.what.artifact))?, &mut evidence);
        if !checks.is_empty() {
            let statement = checks::statement(checks, &self.asked.target, base, result);
            signed(TEST_RESULT, self.keep_signed(TEST_RESULT, &statement)?, &mut evidence);
        }
        let shown = preview::preview(&self.asked, base, result, scan, checks, edits);
        let prepared = Prepared {
            base: base.clone(),
            result: result.clone(),
            preview: self.folder.keep(PREVIEW, shown.as_bytes())?,
            evidence,
            protected: scan.protected.clone(),
            at: *at,
        };
        self.keep_old_version(examined)?;
        self.folder.keep_document(PREPARED, &prepared)?;
        Ok(prepared)
    }

    /// The old version of a file in a folder is kept as an artifact is, for whoever takes the promotion back.
    fn keep_old_version(&self, examined: &Examined) -> Result<(), PromotionError> {
        if let (Place::Directory { .. }, Some(old)) = (&self.asked.target.place, examined.edits.first().and_then(|edit| edit.old.as_ref()))
        {
            let kept = self.runner.artifacts.put(&mut old.bytes.as_slice());
            kept.map_err(|source| PromotionError::File { act: "keep the old version in", path: self.runner.home.root().into(), source })?;
        }
        Ok(())
    }

    fn keep_signed<P: Serialize>(&self, name: &str, statement: &Statement<P>) -> Result<Digest, PromotionError> {
        let signed = statement.sign(&self.runner.key);
        self.folder.keep(name, &signed.map_err(|e| PromotionError::Document { id: self.row.id.clone(), cause: e.to_string() })?)
    }

    /// Asks for the approval that the target wants, and for one of its own where protected paths are changed.
    fn ask(&self, authority: &mut Authority, prepared: &Prepared, examined: &Examined) -> Result<bool, PromotionError> {
        let target = &self.asked.target;
        let mut approvals = vec![self.approval(authority, prepared, &target.consent, &[])?];
        if !examined.scan.protected.is_empty() {
            approvals.push(self.approval(authority, prepared, &target.protected_consent, &examined.scan.protected)?);
        }
        let text = canonical(prepared).map_err(|e| PromotionError::Document { id: self.row.id.clone(), cause: e.to_string() })?;
        let has_moved = authority.ask(&self.row.id, &text, &approvals)?;
        Ok(has_moved)
    }

    /// Says yes in the name of those who did so ahead. Also for what a process asked that was gone before it came to this.
    fn use_standing(&self, authority: &mut Authority) -> Result<Vec<ApprovalRow>, PromotionError> {
        for row in authority.approvals_of(&self.row.id)?.iter().filter(|row| row.state == ApprovalState::Pending) {
            Approvals::open(&self.runner.home)?.use_standing(row)?;
        }
        Ok(authority.approvals_of(&self.row.id)?)
    }

    fn approval(
        &self,
        authority: &mut Authority,
        prepared: &Prepared,
        consent: &Consent,
        paths: &[String],
    ) -> Result<NewApproval, PromotionError> {
        let id = RunId::new().map_err(crate::error::RunError::Random)?.to_string();
        let decide_by = authority.now()?.saturating_add(i64::try_from(consent.decide_within_ms).unwrap_or(i64::MAX));
        let request = self.request(&id, prepared, consent, paths, decide_by);
        let (text, digest) = request.text().map_err(|e| PromotionError::Document { id: self.row.id.clone(), cause: e.to_string() })?;
        Ok(NewApproval {
            id,
            subject: self.row.id.clone(),
            request: text,
            digest: digest.to_string(),
            quorum: consent.quorum,
            decide_by,
            execute_for: i64::try_from(consent.execute_within_ms).unwrap_or(i64::MAX),
        })
    }

    /// What persons are asked, which is all that is on record of this promotion.
    fn request(&self, id: &str, prepared: &Prepared, consent: &Consent, paths: &[String], decide_by: i64) -> ApprovalRequest {
        let left_out = [self.asked.what.owner.clone(), self.asked.requested_by.clone()];
        ApprovalRequest {
            approval: id.to_owned(),
            subject: self.row.id.clone(),
            matter: Matter::Promotion {
                asked: Digest::of(self.row.request.as_bytes()),
                what: Box::new(self.asked.what.clone()),
                undoes: self.asked.undoes.clone(),
                target: self.asked.target.name.to_string(),
                base: Box::new(prepared.base.clone()),
                result: Box::new(prepared.result.clone()),
                evidence: prepared.evidence.clone(),
                paths: paths.to_vec(),
            },
            policy: self.asked.policy,
            requested_by: self.asked.requested_by.clone(),
            preview: prepared.preview,
            excluded: if consent.exclude_owner { left_out.to_vec() } else { Vec::new() },
            decide_by: moment::in_words(decide_by),
            consent: consent.clone(),
        }
    }

    /// What is on record and not what was asked, if something is: every approval that the target wants must be there and be about this very promotion,
    /// and every file that was shown or stands behind it must be the one that it was. Whoever can write to the store changes nothing by it.
    fn altered(&self, approvals: &[ApprovalRow]) -> Result<Option<String>, PromotionError> {
        let prepared = self.prepared()?;
        let target = &self.asked.target;
        let mut wanted: Vec<(&Consent, &[String])> = vec![(&target.consent, &[])];
        if !prepared.protected.is_empty() {
            wanted.push((&target.protected_consent, &prepared.protected));
        }
        let is_about = |row: &ApprovalRow, (consent, paths): (&Consent, &[String])| {
            let request = self.request(&row.id, prepared, consent, paths, row.decide_by);
            request.text().is_ok_and(|(text, digest)| text == row.request && digest.to_string() == row.digest)
        };
        let stray = approvals.iter().find(|row| !wanted.iter().any(|wanted| is_about(row, *wanted)));
        if let Some(row) = stray {
            return Ok(Some(format!("approval {} is not about what is on record: the store was changed", row.id)));
        }
        if !wanted.iter().all(|wanted| approvals.iter().any(|row| is_about(row, *wanted))) {
            return Ok(Some("an approval that the target wants is not on record: the store was changed".to_owned()));
        }
        let shown = (PREVIEW.to_owned(), prepared.preview);
        let files = prepared.evidence.iter().map(|(name, digest)| (name.clone(), *digest)).chain([shown]);
        let found: BTreeMap<String, Digest> = self.folder.files()?.into_iter().collect();
        let changed = files.into_iter().find(|(name, digest)| found.get(name) != Some(digest));
        Ok(changed.map(|(name, _)| format!("`{name}` of its evidence is not what was asked about: it was changed")))
    }

    /// If everybody has agreed who must: does all that can fail without effect, then uses the approvals up and starts. True if it has moved on.
    pub(super) fn start(&self, authority: &mut Authority) -> Result<bool, PromotionError> {
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

    /// True if an approval can no longer be used by what was signed: the times in the store are only words.
    fn is_overdue(&self, approvals: &[ApprovalRow], now: i64, grace: i64) -> bool {
        let within = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
        let target = &self.asked.target;
        let longest = within(target.consent.execute_within_ms.max(target.protected_consent.execute_within_ms)).saturating_add(grace);
        approvals.iter().any(|row| row.decide_by.saturating_add(longest) < now)
    }

    /// Whether the operator has changed the rules since persons were asked. An agent that may not run now holds its promotions up, but for one that is
    /// taken back.
    fn is_out_of_date(&self) -> Result<Option<String>, PromotionError> {
        let (settings, asked) = (&self.runner.settings, &self.asked);
        if settings.targets.get(&asked.target.name) != Some(&asked.target) {
            return Ok(Some(format!("the settings of target `{}` are not what they were when it was asked for", asked.target.name)));
        }
        if asked.undoes.is_none() {
            registry::active_now(&self.runner.home, &asked.what.agent)?;
            if !settings.ceiling.promotions.allows(&asked.what.kind) {
                return Ok(Some(format!("the ceiling lets nothing of kind `{}` be promoted any more", asked.what.kind)));
            }
        }
        Ok(None)
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

    fn prepared(&self) -> Result<&Prepared, PromotionError> {
        self.prepared.as_ref().ok_or_else(|| PromotionError::Document { id: self.row.id.clone(), cause: "nothing was prepared".into() })
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
    pub(super) fn apply(&self, authority: &mut Authority) -> Result<bool, PromotionError> {
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

fn stale(cause: &str) -> String {
    format!("the target is not what was tested any more: {cause}")
}
