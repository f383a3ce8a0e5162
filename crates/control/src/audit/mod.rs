//! `ringfence audit`: eight questions about a profile, answered by measuring from inside and not only by reading the declaration.
//!
//! The line: lay bait on the host, show that the probe sees it outside, then let the probe run inside by the same path as any command, and judge what
//! it says. Measuring is in `probing` and `limits`, what the host sees afterwards in `aftermath`; `judge` is pure. Every run of the probe is an
//! ordinary recorded run.

mod aftermath;
mod answer;
mod attempts;
mod bait;
mod facts;
mod judge;
mod limits;
mod probing;
mod ways;

use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use ringfence_isolation::measure_outside;
use ringfence_policy::{Layer, Refusal, TenantName};
use rustix::process::geteuid;

use crate::error::RunError;
use crate::inside::Weakening;
use crate::profiles::ProfileText;
use crate::promotion::PromotionError;
use crate::request::Secret;
use crate::run::Runner;
use aftermath::Aftermath;
pub use answer::{Answer, Audit, Item};
use bait::Bait;
use judge::{Case, Declared};
use probing::Probing;

/// What is audited.
#[derive(Debug)]
pub struct AuditRequest {
    /// The class of work.
    pub profile: ProfileText,
    /// Values of the caller's environment that must not be found inside.
    pub known_secrets: Vec<Secret>,
    /// People's homes, as for a run.
    pub homes: Vec<PathBuf>,
    /// The tenant of a server that asks, who sees the runs of the probe.
    pub tenant: Option<TenantName>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// A run of the probe could not be recorded.
    #[error(transparent)]
    Run(#[from] RunError),
    /// What a target would take could not be found out.
    #[error(transparent)]
    Promotion(#[from] PromotionError),
    /// The profile cannot run here, so there is nothing to measure.
    #[error("{rule} (set by the {layer})")]
    Refused {
        /// Why.
        rule: String,
        /// Who says so.
        layer: Layer,
        /// What would help.
        hint: String,
    },
    /// The host's side could not be prepared.
    #[error("{act}: {source}")]
    Bait {
        /// What was tried.
        act: String,
        /// Why it failed.
        #[source]
        source: std::io::Error,
    },
    /// What the probe does not see outside it proves nothing about inside.
    #[error("outside of any sandbox the probe did not see `{0}`, so that its silence inside would prove nothing")]
    Blind(String),
    /// The probe did not live to tell.
    #[error("the probe in run {run} gave no answer: {end}")]
    Silent {
        /// The run.
        run: String,
        /// How it ended.
        end: String,
    },
}

impl AuditError {
    /// What would help.
    pub fn hint(&self) -> String {
        match self {
            Self::Run(error) => error.hint(),
            Self::Promotion(error) => error.hint(),
            Self::Refused { hint, .. } => hint.clone(),
            Self::Bait { .. } => "make room in the folder for temporary files, or name another in TMPDIR".into(),
            Self::Blind(_) => "look whether the audit itself runs inside a sandbox; `ringfence doctor` says what this host has".into(),
            Self::Silent { run, .. } => format!("`ringfence evidence show {run}` says how far it came"),
        }
    }

    fn refused(Refusal { rule, layer, hint }: Refusal) -> Self {
        Self::Refused { rule, layer, hint }
    }
}

impl Runner {
    /// Measures what a run of the profile can do, and answers with what was declared beside it. `cancel` becomes readable when the caller wants to stop.
    pub fn audit(&self, request: &AuditRequest, cancel: Option<BorrowedFd<'_>>) -> Result<Audit, AuditError> {
        self.audit_weakened(request, cancel, None)
    }

    /// The same of weakened sandboxes: for tests, which show that each answer finds a difference that is there.
    #[doc(hidden)]
    pub fn audit_weakened(
        &self,
        request: &AuditRequest,
        cancel: Option<BorrowedFd<'_>>,
        weakening: Option<Weakening<'_>>,
    ) -> Result<Audit, AuditError> {
        let bait = Bait::lay()?;
        let probing = Probing::new(self, request, cancel, weakening);
        let explained = probing.explain(&bait)?;
        see_bait(&bait)?;
        let left = probing.leave(&bait, &explained.grant.capabilities)?;
        let after = Aftermath::look(self, &left.report.run, &bait);
        let rehearsals = self.rehearse(&left.report.run).map_err(AuditError::from)?;
        let looked = probing.look(&bait, &explained)?;
        let unasked = probing.unasked_project(&bait, &explained.grant.capabilities)?;
        let limits = probing.limits(&bait, &explained.grant.capabilities)?;
        let answers = judge::answers(&Case {
            declared: &Declared::of(&explained, &left.report.grades),
            looked: &looked.facts,
            left: &left,
            after: &after,
            unasked_project: unasked.as_ref(),
            rehearsals: &rehearsals,
            limits: &limits,
            names: &bait.names,
            secrets: &request.known_secrets,
        });
        Ok(Audit {
            profile: request.profile.profile.name.to_string(),
            tier: explained.grant.capabilities.tier.to_string(),
            image: explained.image,
            kernel: self.host.kernel.clone(),
            user: if geteuid().is_root() { "root" } else { "ordinary" }.into(),
            runs: probing.runs(),
            differences: answers.iter().flat_map(|answer| &answer.items).filter(|item| !item.is_as_declared).count() as u64,
            answers,
        })
    }
}

/// The control: without a sandbox the probe sees all of the bait.
fn see_bait(bait: &Bait) -> Result<(), AuditError> {
    let facts = measure_outside(&attempts::bait(&bait.names))
        .map_err(|source| AuditError::Bait { act: "run the probe outside of a sandbox".into(), source })?;
    match facts.iter().find(|fact| fact.errno != 0) {
        Some(unseen) => Err(AuditError::Blind(String::from_utf8_lossy(&unseen.tried).into_owned())),
        None => Ok(()),
    }
}
