//! What persons are asked, and whether what they agreed to is still what is on record, allowed, and in time.

use std::collections::BTreeMap;

use ringfence_evidence::{Digest, canonical};
use ringfence_policy::Consent;
use ringfence_store::{ApprovalRow, ApprovalState, Authority, NewApproval, RunId};

use super::Line;
use super::examine::Examined;
use crate::approvals::{ApprovalRequest, Approvals, Matter, PREVIEW};
use crate::moment;
use crate::promotion::document::Prepared;
use crate::promotion::error::PromotionError;
use crate::registry;

impl Line<'_> {
    /// Asks for the approval that the target wants, and for one of its own where protected paths are changed.
    pub(super) fn ask(&self, authority: &mut Authority, prepared: &Prepared, examined: &Examined) -> Result<bool, PromotionError> {
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
    pub(super) fn use_standing(&self, authority: &mut Authority) -> Result<Vec<ApprovalRow>, PromotionError> {
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
    pub(super) fn altered(&self, approvals: &[ApprovalRow]) -> Result<Option<String>, PromotionError> {
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

    /// True if an approval can no longer be used by what was signed: the times in the store are only words.
    pub(super) fn is_overdue(&self, approvals: &[ApprovalRow], now: i64, grace: i64) -> bool {
        let within = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
        let target = &self.asked.target;
        let longest = within(target.consent.execute_within_ms.max(target.protected_consent.execute_within_ms)).saturating_add(grace);
        approvals.iter().any(|row| row.decide_by.saturating_add(longest) < now)
    }

    /// Whether the operator has changed the rules since persons were asked. An agent that may not run now holds its promotions up, but for one that is
    /// taken back.
    pub(super) fn is_out_of_date(&self) -> Result<Option<String>, PromotionError> {
        let (settings, asked) = (&self.runner.settings, &self.asked);
        if settings.targets.get(&asked.target.name) != Some(&asked.target) {
            return Ok(Some(format!(
                "the settings of target `{}` are not what they were when it was asked for; ask again with `ringfence promote`",
                asked.target.name
            )));
        }
        if asked.undoes.is_none() {
            registry::active_now(&self.runner.home, &asked.what.agent)?;
            if !settings.ceiling.promotions.allows(&asked.what.kind) {
                return Ok(Some(format!("the ceiling lets nothing of kind `{}` be promoted any more", asked.what.kind)));
            }
        }
        Ok(None)
    }
}
