//! Approvals: what persons are asked, what they say, and whose word counts. The agent never decides: it has no key, and no way to this.
//!
//! A decision is bound to one request by its digest, and the request to what was asked, tested and shown. It is used once, in the transaction that
//! records that the thing it is for has started.

mod agents;
mod counting;
mod decision;
mod error;
mod request;
mod standing;

use std::fs;
use std::path::PathBuf;

use ringfence_evidence::{Digest, SigningKey};
use ringfence_policy::PersonName;
use ringfence_store::{ApprovalRow, Authority, Decided, Home, NewDecision, Verdict, now};

use crate::registry::{Person, Persons};
pub(crate) use counting::{Electorate, covers};
pub use decision::{DECISION_TYPE, Decision, STANDING_TYPE, StandingGrant};
pub(crate) use decision::{open as open_decision, open_standing};
pub use error::ApprovalError;
pub use request::{ApprovalRequest, Matter};
pub use standing::NewGrant;

/// The file of a promotion that holds what is shown.
pub(crate) const PREVIEW: &str = "preview.txt";

/// The approvals of a home.
#[derive(Debug)]
pub struct Approvals {
    home: Home,
    authority: Authority,
}

/// An approval, its request, and what is shown of it.
#[derive(Debug)]
pub struct Asked {
    /// As it stands.
    pub row: ApprovalRow,
    /// What is asked.
    pub request: ApprovalRequest,
    /// Exactly what will happen.
    pub preview: String,
    /// Whose yes counts now.
    pub agreed: Vec<String>,
    /// How many persons may decide now.
    pub able: usize,
}

impl Approvals {
    /// Opens the approvals of a home.
    pub fn open(home: &Home) -> Result<Self, ApprovalError> {
        Ok(Self { home: home.clone(), authority: Authority::open(home)? })
    }

    /// The newest approvals; only those that can still be decided or used if `is_open`.
    pub fn list(&mut self, is_open: bool) -> Result<Vec<ApprovalRow>, ApprovalError> {
        const MOST: u32 = 1000;
        Ok(self.authority.approvals(is_open, MOST)?)
    }

    /// An approval with what is shown of it, each bound to the other: what was altered is not shown as if it were what was asked.
    pub fn find(&mut self, id: &str) -> Result<Asked, ApprovalError> {
        let row = self.authority.approval(id)?.ok_or_else(|| ApprovalError::NoApproval(id.escape_debug().to_string()))?;
        let altered = |cause: &str| ApprovalError::Altered { id: row.id.clone(), cause: cause.to_owned() };
        let request: ApprovalRequest = serde_json::from_str(&row.request).map_err(|_| altered("its request does not read"))?;
        if Digest::of(row.request.as_bytes()).to_string() != row.digest || request.approval != row.id || request.subject != row.subject {
            return Err(altered("its request is not the one that was asked: its digest differs"));
        }
        let path = self.preview(&request);
        let preview = fs::read(&path).map_err(|source| ApprovalError::Preview { path, source })?;
        if Digest::of(&preview) != request.preview {
            return Err(altered("what would be shown is not what was asked: its digest differs"));
        }
        let preview = String::from_utf8(preview).map_err(|_| altered("what would be shown is not text"))?;
        let electorate = Electorate::of(&self.home)?;
        let agreed = row.agreed(&|row, made| electorate.counts(row, made)).into_iter().map(str::to_owned).collect();
        let able = electorate.able(&row);
        Ok(Asked { row, request, preview, agreed, able })
    }

    fn preview(&self, request: &ApprovalRequest) -> PathBuf {
        let folder = match &request.matter {
            Matter::Promotion { .. } => self.home.promotions().join(&request.subject),
            Matter::Agent { .. } => self.home.approvals().join(&request.approval),
        };
        folder.join(PREVIEW)
    }

    /// Records what a person says, signed with the person's key.
    pub fn decide(
        &mut self,
        id: &str,
        person: &Person,
        key: &SigningKey,
        verdict: Verdict,
        reason: &str,
    ) -> Result<ApprovalRow, ApprovalError> {
        let asked = self.find(id)?;
        if let Some(rule) = Electorate::bars(person, &asked.request) {
            return Err(ApprovalError::Barred(rule));
        }
        let decision = Decision {
            approval: asked.row.id.clone(),
            person: person.name.to_string(),
            verdict: verdict.word().to_owned(),
            reason: reason.to_owned(),
            decided_at: now(),
        };
        let envelope = decision::sign(decision, Digest::of(asked.row.request.as_bytes()), asked.request.preview, key)?;
        let new = NewDecision {
            person: person.name.to_string(),
            key: key.public().id(),
            verdict,
            digest: asked.row.digest.clone(),
            envelope,
            standing: None,
        };
        self.record(id, &new)
    }

    /// Records what a person has signed elsewhere, with a key that this program never sees.
    pub fn take(&mut self, id: &str, person: &PersonName, envelope: &str) -> Result<ApprovalRow, ApprovalError> {
        let asked = self.find(id)?;
        let person = Persons::of(&self.home).find(person)?;
        if let Some(rule) = Electorate::bars(&person, &asked.request) {
            return Err(ApprovalError::Barred(rule));
        }
        let unfit =
            |cause: &str| ApprovalError::Unfit { id: asked.row.id.clone(), person: person.name.to_string(), cause: cause.to_owned() };
        let key = person.key.as_ref().ok_or_else(|| unfit("the person has no key"))?;
        let said = decision::open(envelope, key, &Digest::of(asked.row.request.as_bytes()), &asked.request.preview);
        let said = said.map_err(|cause| unfit(&format!("it {cause}")))?;
        let verdict = [Verdict::Approve, Verdict::Deny].into_iter().find(|verdict| verdict.word() == said.verdict);
        let verdict = verdict.ok_or_else(|| unfit("it says neither `approve` nor `deny`"))?;
        if said.approval != asked.row.id || said.person != person.name.as_str() {
            return Err(unfit("it was signed for another person or another approval"));
        }
        let new = NewDecision {
            person: person.name.to_string(),
            key: key.id(),
            verdict,
            digest: asked.row.digest.clone(),
            envelope: envelope.to_owned(),
            standing: None,
        };
        self.record(id, &new)
    }

    fn record(&mut self, id: &str, new: &NewDecision) -> Result<ApprovalRow, ApprovalError> {
        let electorate = Electorate::of(&self.home)?;
        match self.authority.decide(id, new, &|row, made| electorate.counts(row, made))? {
            Decided::Recorded(row) => Ok(row),
            Decided::Over(row) => Err(over(&row)),
            Decided::Other(row) => Err(ApprovalError::Altered { id: row.id, cause: "it was changed while it was decided".into() }),
            Decided::Before(row) => {
                Err(ApprovalError::Before { id: row.id, person: new.person.clone(), verdict: new.verdict.word().to_owned() })
            }
            Decided::NoStanding(row) => Err(ApprovalError::NoStanding(row.id)),
        }
    }
}

fn over(row: &ApprovalRow) -> ApprovalError {
    let cause = if row.cause.is_empty() { String::new() } else { format!(": {}", row.cause) };
    ApprovalError::Over { id: row.id.clone(), state: row.state.to_string(), cause }
}
