//! From artifact to consequence. The straight line of a promotion: looked at, checked, asked about, applied once, and a receipt.
//!
//! Where it stands is one row of the store, moved on by whoever has its turn; a process that is killed leaves it where it was, and the next one goes on
//! from there by asking the target. Its approvals are used up in the transaction that records that it has started, after everything that can fail
//! without effect has been done.

mod checks;
mod destination;
mod difference;
mod directory;
mod document;
mod error;
mod folder;
mod git;
mod layout;
mod line;
mod preview;
mod receipt;
mod rehearsal;
mod report;
mod rules;
mod scan;
mod source;
mod undo;

use ringfence_evidence::{Digest, canonical};
use ringfence_patch::plain_or_quoted;
use ringfence_policy::{Place, Target, TargetName};
use ringfence_store::{Authority, Begun, NewPromotion, PromotionRow, PromotionState, RunId, now};

use crate::registry;
use crate::request::Attachments;
use crate::run::Runner;
pub use checks::CheckReport;
pub use document::{Asked, Content, Prepared, Provenance};
pub use error::{PromotionError, Unfit};
use folder::Folder;
pub(crate) use folder::sweep;
use line::Line;
pub use receipt::{DecisionRecord, RECEIPT_TYPE, Receipt, verify_promotion};
pub(crate) use rehearsal::Rehearsal;
pub use report::{ApprovalReport, PromotionReport};
use source::Source;

/// What was asked, as a file of evidence.
const ASKED: &str = "asked.json";
/// What was prepared and tested.
const PREPARED: &str = "prepared.json";
/// How the artifact came to be.
const PROVENANCE: &str = "provenance.dsse.json";
/// What the checks said.
const TEST_RESULT: &str = "test-result.dsse.json";
/// The turn of whoever moves a promotion on.
const LOCK: &str = "lock";
/// How it ended.
pub const RECEIPT: &str = "receipt.dsse.json";

/// How a promotion ended.
struct End<'a> {
    state: PromotionState,
    cause: &'a str,
    at: i64,
}

/// What is asked for.
#[derive(Debug, Clone)]
pub struct PromotionRequest {
    /// Digest of the artifact.
    pub artifact: Digest,
    /// The run that made it, and its path there; every run that made it must agree where this is not said.
    pub made: Option<(RunId, String)>,
    /// Where to.
    pub target: TargetName,
    /// Why; it becomes the commit's message.
    pub message: Option<String>,
    /// Whether it is asked for although the same took effect before.
    pub is_again: bool,
}

impl Runner {
    /// Promotes an artifact, as far as it can go now: to its end, or until persons have decided. Asked again it goes on, and never does a thing twice.
    pub fn promote(&self, request: &PromotionRequest, attachments: Attachments<'_>) -> Result<PromotionReport, PromotionError> {
        let target = self.target(&request.target)?;
        let source = match &request.made {
            Some((run, path)) => Source::read(self, request.artifact, run.as_str(), path)?,
            None => Source::find(self, request.artifact)?,
        };
        source.may_go_to(target, &self.settings.ceiling)?;
        registry::active_now(&self.home, &source.what.agent)?;
        let message = request
            .message
            .clone()
            .unwrap_or_else(|| format!("{} of run {}", plain_or_quoted(source.what.path.as_bytes()), source.what.run));
        self.begin(source, target, message, None, request.is_again, attachments)
    }

    /// Takes a promotion back, by one of its own that goes the same way.
    pub fn undo(&self, id: &str, message: Option<String>, attachments: Attachments<'_>) -> Result<PromotionReport, PromotionError> {
        let row = self.promotion_row(&mut Authority::open(&self.home)?, id)?;
        if row.state != PromotionState::Applied {
            let cause = format!("it is {}; only what took effect can be taken back", row.state);
            return Err(PromotionError::NotUndone { id: row.id, cause });
        }
        let (asked, _) = receipt::read_documents(&row.id, &row.request, None)?;
        let target = self.target(&asked.target.name)?;
        let source = Source::read(self, asked.what.artifact, &asked.what.run, &asked.what.path)?;
        let message = message.unwrap_or_else(|| format!("Take back: {}", asked.message));
        self.begin(source, target, message, Some(row.id), false, attachments)
    }

    fn begin(
        &self,
        source: Source,
        target: &Target,
        message: String,
        undoes: Option<String>,
        is_again: bool,
        attachments: Attachments<'_>,
    ) -> Result<PromotionReport, PromotionError> {
        let mut authority = Authority::open(&self.home)?;
        let id = RunId::new().map_err(crate::error::RunError::Random)?.to_string();
        let asked = Asked {
            promotion: id.clone(),
            what: source.what,
            target: target.clone(),
            policy: self.settings.digest,
            requested_by: registry::Persons::of(&self.home).login_user()?.name.to_string(),
            requested_at: now(),
            message,
            undoes: undoes.clone(),
        };
        let request = canonical(&asked).map_err(|e| PromotionError::Document { id: id.clone(), cause: e.to_string() })?;
        let (artifact, target) = (asked.what.artifact.to_string(), asked.target.name.to_string());
        let place = match asked.target.place {
            Place::Git { .. } => String::new(),
            Place::Directory { .. } => directory::name_of(&asked.what.path)?,
        };
        let begun = authority.begin(&NewPromotion { id, artifact, target, place, undoes, request }, is_again)?;
        let (Begun::New(row) | Begun::There(row)) = begun;
        self.go_on(&mut authority, &row.id, Some(attachments))
    }

    /// Moves a promotion on that persons have decided about, in its turn.
    pub fn resume(&self, id: &str) -> Result<PromotionReport, PromotionError> {
        let mut authority = Authority::open(&self.home)?;
        let row = self.promotion_row(&mut authority, id)?;
        self.go_on(&mut authority, &row.id, None)
    }

    fn go_on(
        &self,
        authority: &mut Authority,
        id: &str,
        mut attachments: Option<Attachments<'_>>,
    ) -> Result<PromotionReport, PromotionError> {
        let folder = Folder::take_turn(&self.home, id, attachments.as_ref().and_then(|attachments| attachments.cancel))?;
        let gone = self.go_in_turn(authority, id, &folder, &mut attachments);
        let cleared = folder.clear();
        gone.and(cleared)?;
        self.report(authority, id)
    }

    fn go_in_turn(
        &self,
        authority: &mut Authority,
        id: &str,
        folder: &Folder,
        attachments: &mut Option<Attachments<'_>>,
    ) -> Result<(), PromotionError> {
        loop {
            let row = self.promotion_row(authority, id)?;
            let line = Line::of(self, folder, &row)?;
            let has_moved = match row.state {
                PromotionState::Checking => attachments.as_mut().map_or(Ok(false), |attachments| line.examine(authority, attachments))?,
                PromotionState::Waiting => line.start(authority)?,
                PromotionState::Applying => line.apply(authority)?,
                PromotionState::Applied
                | PromotionState::Refused
                | PromotionState::Failed
                | PromotionState::Denied
                | PromotionState::Expired
                | PromotionState::Stale => line.close(authority)?,
            };
            if !has_moved {
                return Ok(());
            }
        }
    }

    /// Promotions whose process is gone in the middle of being applied are brought to their end, and those that are over get their receipt. One whose
    /// target cannot be asked is left for later.
    pub fn settle_promotions(&self) -> Result<(), PromotionError> {
        let mut authority = Authority::open(&self.home)?;
        for id in authority.unsettled()? {
            // Whoever has the turn is at it.
            if Folder::try_turn(&self.home, &id)?.is_some() {
                drop(self.go_on(&mut authority, &id, None));
            }
        }
        Ok(())
    }

    /// Takes back that a promotion was asked for, before it is started.
    pub fn withdraw(&self, id: &str) -> Result<PromotionReport, PromotionError> {
        let mut authority = Authority::open(&self.home)?;
        let row = self.promotion_row(&mut authority, id)?;
        let who = registry::Persons::of(&self.home).login_user()?.name;
        let from = [PromotionState::Checking, PromotionState::Waiting];
        let is_withdrawn = authority.end(&row.id, &from, PromotionState::Denied, &format!("withdrawn by {who}"))?;
        match is_withdrawn {
            true => self.go_on(&mut authority, &row.id, None),
            false => {
                let state = self.promotion_row(&mut authority, id)?.state;
                Err(PromotionError::NotWithdrawn { id: row.id, state: state.to_string() })
            }
        }
    }

    /// The newest promotions.
    pub fn promotions(&self) -> Result<Vec<PromotionReport>, PromotionError> {
        const MOST: u32 = 1000;
        let mut authority = Authority::open(&self.home)?;
        let rows = authority.promotions(MOST)?;
        rows.iter().map(|row| self.report(&mut authority, &row.id)).collect()
    }

    /// One promotion as it stands.
    pub fn promotion(&self, id: &str) -> Result<PromotionReport, PromotionError> {
        let mut authority = Authority::open(&self.home)?;
        let row = self.promotion_row(&mut authority, id)?;
        self.report(&mut authority, &row.id)
    }

    fn report(&self, authority: &mut Authority, id: &str) -> Result<PromotionReport, PromotionError> {
        let row = self.promotion_row(authority, id)?;
        let (asked, prepared) = receipt::read_documents(&row.id, &row.request, row.prepared.as_deref())?;
        let electorate = crate::approvals::Electorate::of(&self.home)?;
        let agreed = |row: &ringfence_store::ApprovalRow| {
            row.agreed(&|row, made| electorate.counts(row, made)).into_iter().map(str::to_owned).collect()
        };
        let approvals = authority.approvals_of(id)?.iter().map(|row| ApprovalReport::of(row, agreed(row), electorate.able(row))).collect();
        let evidence = self.home.promotions().join(&row.id).display().to_string();
        Ok(PromotionReport::of(&row, &asked, prepared.as_ref(), approvals, authority.undone_by(id)?, evidence))
    }

    fn promotion_row(&self, authority: &mut Authority, id: &str) -> Result<PromotionRow, PromotionError> {
        authority.promotion(id)?.ok_or_else(|| PromotionError::NoPromotion(id.escape_debug().to_string()))
    }

    fn target(&self, name: &TargetName) -> Result<&Target, PromotionError> {
        self.settings.targets.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.settings.targets.keys().map(TargetName::as_str).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            PromotionError::NoTarget { name: name.to_string(), known }
        })
    }
}
