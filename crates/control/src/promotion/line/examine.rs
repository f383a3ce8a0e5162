//! From asked to waiting: the target is looked at, the change is made on paper, scanned and checked, and the evidence is kept.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use ringfence_evidence::{Digest, Statement, provenance};
use ringfence_patch::Edit;
use ringfence_policy::Place;
use ringfence_store::{Authority, PromotionState};
use serde::Serialize;

use super::Line;
use crate::approvals::PREVIEW;
use crate::promotion::checks::{self, CheckReport};
use crate::promotion::destination::Destination;
use crate::promotion::document::{Content, Prepared};
use crate::promotion::error::PromotionError;
use crate::promotion::scan::Scan;
use crate::promotion::source::Source;
use crate::promotion::{ASKED, PREPARED, PROVENANCE, TEST_RESULT, preview};
use crate::request::Attachments;

/// What was found out about a promotion before anybody is asked.
pub(super) struct Examined {
    pub(super) base: Content,
    pub(super) result: Content,
    pub(super) scan: Scan,
    pub(super) checks: Vec<CheckReport>,
    pub(super) edits: Vec<Edit>,
    pub(super) at: i64,
}

impl Line<'_> {
    /// Looks at the target, prepares the change, scans it, checks it, keeps the evidence, and asks. True if it has moved on.
    pub(in crate::promotion) fn examine(
        &self,
        authority: &mut Authority,
        attachments: &mut Attachments<'_>,
    ) -> Result<bool, PromotionError> {
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
        let failed: Vec<String> = examined.checks.iter().filter(|check| !check.has_passed).map(CheckReport::in_words).collect();
        match failed.is_empty() || self.asked.undoes.is_some() {
            false => self.end(authority, PromotionState::Failed, &failed.join("; ")),
            true => self.ask(authority, &prepared, &examined),
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
        let tenant = self.source()?.tenant();
        let checks = checks::run(self.runner, &self.asked.target, &checked, tenant.as_ref(), attachments.progress, attachments.cancel)?;
        Ok(Examined { base: content, result, scan, checks, edits, at })
    }

    fn source(&self) -> Result<Source, PromotionError> {
        Source::read(self.runner, self.asked.what.artifact, &self.asked.what.run, &self.asked.what.path)
    }

    fn keep_evidence(&self, examined: &Examined) -> Result<Prepared, PromotionError> {
        let Examined { base, result, scan, checks, edits, at } = examined;
        let mut evidence = BTreeMap::from([(ASKED.to_owned(), Digest::of(self.row.request.as_bytes()))]);
        let signed = |name: &str, statement: Digest, evidence: &mut BTreeMap<String, Digest>| evidence.insert(name.to_owned(), statement);
        let source = self.source()?;
        signed(PROVENANCE, self.keep_signed(PROVENANCE, &provenance(&source.verified, &self.asked.what.artifact))?, &mut evidence);
        if !checks.is_empty() {
            let statement = checks::statement(checks, &self.asked.target, base, result, &scan.new_tests);
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
}
