//! Runs the checks of a target, each in a fresh sandbox over what the target would hold. What a check prints is data: its exit status alone says
//! whether it passed.

use std::os::fd::BorrowedFd;
use std::path::Path;

use ringfence_evidence::{Digest, ResourceDescriptor, RunEnd, Statement, Subject, TEST_RESULT_TYPE, TestResult};
use ringfence_isolation::OsText;
use ringfence_policy::{AgentId, Target, TenantName};
use serde::Serialize;

use super::document::Content;
use super::error::PromotionError;
use crate::inside::Inside;
use crate::profiles::find_profile;
use crate::report::RunReport;
use crate::request::{Attachments, OutputTo, Progress, RunRequest};
use crate::run::Runner;

/// How one check went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckReport {
    /// What was run.
    pub command: String,
    /// The run in which it ran.
    pub run: String,
    /// Digest of that run's evidence.
    pub evidence: String,
    /// How it ended.
    pub end: RunEnd,
    /// Whether it ended with status 0.
    pub has_passed: bool,
    /// Digest of what it printed, which is kept as an artifact.
    pub output: Digest,
}

impl CheckReport {
    /// How a check ended that did not pass, and how to see what it printed.
    pub(super) fn in_words(&self) -> String {
        let end = match &self.end {
            RunEnd::Exited { code: 127 } => "exited 127: its program is not in the sandbox".to_owned(),
            RunEnd::Exited { code } => format!("exited {code}"),
            RunEnd::Signaled { signal } => format!("ended by {signal}"),
            RunEnd::Limit { limit } => format!("ended by the {limit} limit"),
            RunEnd::Refused { rule, .. } => format!("refused: {rule}"),
            RunEnd::Closed { by } => format!("closed by {}", by.word()),
            RunEnd::Failed { step, .. } => format!("failed at {step}"),
        };
        format!("check `{}` did not pass ({end}); what it printed: `ringfence artifact get {}`", self.command, self.output)
    }
}

/// Runs every check, also after one that failed: the evidence says of each how it went. Whoever sees the run that made the artifact sees these too.
pub(super) fn run(
    runner: &Runner,
    target: &Target,
    folder: &Path,
    tenant: Option<&TenantName>,
    progress: &mut dyn Progress,
    cancel: Option<BorrowedFd<'_>>,
) -> Result<Vec<CheckReport>, PromotionError> {
    let profile = find_profile(&runner.home, target.check_profile.as_str())?;
    let mut reports = Vec::new();
    for command in &target.checks {
        progress.warn(&format!("check: {}", name(command)));
        let request = RunRequest {
            project: Some(folder.to_owned()),
            tenant: tenant.cloned(),
            ..RunRequest::bare(profile.clone(), AgentId::local(), command.iter().map(|word| OsText::from(word.as_str())).collect())
        };
        let report = runner.run_inside(&request, Attachments { output: OutputTo::Report, progress, cancel }, &Inside::Check)?;
        if report.is_stopped {
            return Err(PromotionError::Interrupted);
        }
        if let RunEnd::Refused { rule, hint, .. } = report.end {
            return Err(PromotionError::NoCheck { check: name(command), rule, hint });
        }
        reports.push(told(runner, command, &report)?);
    }
    Ok(reports)
}

fn told(runner: &Runner, command: &[String], report: &RunReport) -> Result<CheckReport, PromotionError> {
    let output = serde_json::json!({
        "stdout": report.stdout, "stdout_base64": report.stdout_base64, "stderr": report.stderr, "stderr_base64": report.stderr_base64,
    });
    let kept = runner.artifacts.put(&mut output.to_string().as_bytes());
    let (digest, _) =
        kept.map_err(|source| PromotionError::File { act: "keep the output of a check in", path: runner.home.root().into(), source })?;
    Ok(CheckReport {
        command: name(command),
        run: report.run.clone(),
        evidence: report.evidence.clone(),
        has_passed: report.end == RunEnd::Exited { code: 0 },
        end: report.end.clone(),
        output: digest,
    })
}

/// A check as the target names it.
fn name(command: &[String]) -> String {
    match command {
        [shell, option, line] if shell == "sh" && option == "-c" => line.clone(),
        words => words.join(" "),
    }
}

/// What the checks said, as an in-toto test result about what they ran on: the result, with the tests of the base and without new ones.
pub(super) fn statement(
    checks: &[CheckReport],
    target: &Target,
    base: &Content,
    result: &Content,
    new_tests: &[String],
) -> Statement<TestResult> {
    let of = |has_passed: bool| checks.iter().filter(|check| check.has_passed == has_passed).map(|check| check.command.clone()).collect();
    let mut configuration: Vec<ResourceDescriptor> = checks
        .iter()
        .map(|check| {
            let evidence = check.evidence.parse().unwrap_or_else(|_| Digest::zero());
            let mut run = ResourceDescriptor::new(&format!("run {}", check.run), evidence);
            run.annotations.insert("check".into(), check.command.clone().into());
            run.annotations.insert("output".into(), check.output.to_string().into());
            run
        })
        .collect();
    let mut tests = ResourceDescriptor { name: "tests of the base".into(), ..descriptor("base", base) };
    tests.annotations.insert("globs".into(), target.tests.iter().map(ToString::to_string).collect::<Vec<_>>().into());
    tests.annotations.insert("leftOut".into(), new_tests.to_vec().into());
    configuration.push(tests);
    let verdict = if checks.iter().all(|check| check.has_passed) { "PASSED" } else { "FAILED" };
    let predicate = TestResult { result: verdict.into(), configuration, passed_tests: of(true), failed_tests: of(false) };
    let ResourceDescriptor { name, digest, .. } = descriptor("result", result);
    Statement::new(vec![Subject { name, digest }], TEST_RESULT_TYPE, predicate)
}

/// What a target holds, as something that a statement can speak of.
pub(super) fn descriptor(name: &str, content: &Content) -> ResourceDescriptor {
    let (name, digest) = match content {
        Content::Git { commit, tree } => {
            (name.to_owned(), [("gitCommit".to_owned(), commit.clone()), ("gitTree".to_owned(), tree.clone())].into())
        }
        Content::File { name, sha256: Some(sha256), .. } => (name.clone(), [("sha256".to_owned(), sha256.hex())].into()),
        Content::File { name, sha256: None, .. } => (format!("no {name}"), [("sha256".to_owned(), Digest::of(b"").hex())].into()),
    };
    ResourceDescriptor { name, digest, annotations: std::collections::BTreeMap::new() }
}
