//! Runs of the probe: ordinary runs, recorded and sealed, in which our own program is the command.

use std::cell::RefCell;
use std::os::fd::BorrowedFd;

use base64::Engine;
use ringfence_evidence::RunEnd;
use ringfence_isolation::{OsText, PROBE_NAME, facts};
use ringfence_policy::{AgentId, Capabilities, Glob, Inputs, Limits, Project};

use super::attempts;
use super::bait::Bait;
use super::facts::Facts;
use super::judge;
use super::{AuditError, AuditRequest};
use crate::inside::{Inside, Weakening};
use crate::report::RunReport;
use crate::request::{Attachments, InputRequest, OutputTo, Progress, RunRequest};
use crate::run::{Explained, Runner};

/// The patch of a project's changes, as it is asked for.
const PATCH: &str = "changes.patch";

/// One run of the probe.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) report: RunReport,
    /// Empty where a limit ended the run.
    pub(crate) facts: Facts,
    /// What the patch of the project's changes says, where one left.
    pub(crate) patch: Option<String>,
}

/// Makes the runs of one audit.
pub(crate) struct Probing<'a> {
    runner: &'a Runner,
    request: &'a AuditRequest,
    cancel: Option<BorrowedFd<'a>>,
    weakening: Option<Weakening<'a>>,
    runs: RefCell<Vec<String>>,
}

impl<'a> Probing<'a> {
    pub(crate) fn new(
        runner: &'a Runner,
        request: &'a AuditRequest,
        cancel: Option<BorrowedFd<'a>>,
        weakening: Option<Weakening<'a>>,
    ) -> Self {
        Self { runner, request, cancel, weakening, runs: RefCell::default() }
    }

    /// The names of the runs so far.
    pub(crate) fn runs(&self) -> Vec<String> {
        self.runs.borrow().clone()
    }

    /// The workspace of the profile's user.
    pub(crate) fn home(&self) -> String {
        self.request.profile.profile.user.home()
    }

    /// What would be granted and how it would be made. A profile that cannot run is refused on record, as its runs are.
    pub(crate) fn explain(&self, bait: &Bait) -> Result<Explained, AuditError> {
        let request = self.asking(vec![attempts::host_file(&bait.names)]);
        match self.runner.explain(&request)? {
            Ok(explained) => Ok(explained),
            Err(refusal) => self.run(&request).and(Err(AuditError::refused(refusal))),
        }
    }

    /// Changes the project, and leaves behind what can be left.
    pub(crate) fn leave(&self, bait: &Bait, capabilities: &Capabilities) -> Result<Measured, AuditError> {
        let has_project = capabilities.project == Project::View;
        let exports = [Some(attempts::KEPT), has_project.then_some(PATCH)].into_iter().flatten().filter_map(|name| name.parse().ok());
        self.measure(RunRequest {
            project: has_project.then(|| bait.names.project()),
            exports: exports.filter(|glob: &Glob| capabilities.exports.allows(&glob.scope())).collect(),
            ..self.asking(attempts::leave(&bait.names, capabilities, &self.home()))
        })
    }

    /// Looks at everything.
    pub(crate) fn look(&self, bait: &Bait, explained: &Explained) -> Result<Measured, AuditError> {
        let capabilities = &explained.grant.capabilities;
        let has_inputs = capabilities.inputs == Inputs::Named;
        self.measure(RunRequest {
            inputs: has_inputs.then(|| InputRequest { path: bait.names.project(), name: "bait".into() }).into_iter().collect(),
            ..self.asking(attempts::look(&bait.names, capabilities, &judge::files(&explained.plan), &explained.plan.workspace))
        })
    }

    /// What comes of asking for a project where the profile has none; `None` where it has.
    pub(crate) fn unasked_project(&self, bait: &Bait, capabilities: &Capabilities) -> Result<Option<RunEnd>, AuditError> {
        if capabilities.project == Project::View {
            return Ok(None);
        }
        let request = RunRequest { project: Some(bait.names.project()), ..self.asking(vec![attempts::host_file(&bait.names)]) };
        Ok(Some(self.run(&request)?.end))
    }

    /// A run under limits of its own, which may end it.
    pub(crate) fn limited(&self, attempts: Vec<String>, limits: Limits, exports: Vec<Glob>) -> Result<Measured, AuditError> {
        let report = self.run(&RunRequest { limits, exports, ..self.asking(attempts) })?;
        Ok(Measured { facts: said(&report).unwrap_or_default(), report, patch: None })
    }

    /// A run that has to answer.
    fn measure(&self, request: RunRequest) -> Result<Measured, AuditError> {
        let report = self.run(&request)?;
        match said(&report) {
            Some(facts) => Ok(Measured { facts, patch: self.patch(&report), report }),
            None => Err(AuditError::Silent { end: in_words(&report), run: report.run }),
        }
    }

    fn run(&self, request: &RunRequest) -> Result<RunReport, AuditError> {
        let attachments = Attachments { output: OutputTo::Report, progress: &mut Quiet, cancel: self.cancel };
        let report = self.runner.run_inside(request, attachments, &Inside::Probe { weakening: self.weakening })?;
        self.runs.borrow_mut().push(report.run.clone());
        // A wish to stop that came while artifacts were collected does not change how the run ended.
        let is_interrupted = matches!(&report.end, RunEnd::Failed { step, .. } if step == "interrupted");
        match is_interrupted || report.is_stopped {
            true => Err(AuditError::Silent { end: "interrupted".into(), run: report.run }),
            false => Ok(report),
        }
    }

    fn asking(&self, attempts: Vec<String>) -> RunRequest {
        let words = std::iter::once(PROBE_NAME.to_owned()).chain(attempts);
        RunRequest {
            known_secrets: self.request.known_secrets.clone(),
            homes: self.request.homes.clone(),
            tenant: self.request.tenant.clone(),
            ..RunRequest::bare(self.request.profile.clone(), AgentId::local(), words.map(|word| OsText::from(word.as_str())).collect())
        }
    }

    fn patch(&self, report: &RunReport) -> Option<String> {
        let digest = report.artifacts.iter().find(|artifact| artifact.path == PATCH)?.sha256.parse().ok()?;
        std::fs::read_to_string(self.runner.artifacts.path(&digest)).ok()
    }
}

/// What the probe wrote, if it lived to write all of it.
fn said(report: &RunReport) -> Option<Facts> {
    let bytes = match (&report.stdout, &report.stdout_base64) {
        (Some(text), _) => text.clone().into_bytes(),
        (None, Some(text)) => base64::engine::general_purpose::STANDARD.decode(text).ok()?,
        (None, None) => return None,
    };
    facts(&bytes).map(Facts).filter(|facts| !facts.0.is_empty())
}

fn in_words(report: &RunReport) -> String {
    match &report.end {
        RunEnd::Failed { step, cause } => format!("{step}: {}", cause.as_deref().unwrap_or("no reason is known")),
        RunEnd::Refused { rule, .. } => format!("refused: {rule}"),
        RunEnd::Limit { limit } => format!("the {limit} limit ended it"),
        RunEnd::Signaled { signal } => format!("ended by {signal}"),
        RunEnd::Closed { by } => format!("closed by {}", by.word()),
        RunEnd::Exited { code } => format!("exited {code}, after {} bytes", report.stdout_bytes),
    }
}

/// Nobody is told: every run here is short.
struct Quiet;

impl Progress for Quiet {
    fn tell(&mut self, _: &str, _: u64) {}

    fn warn(&mut self, _: &str) {}
}
