//! What the caller gets: `--json` prints it. Its JSON Schema is in docs/reference.

mod network;

use std::collections::BTreeMap;

use base64::Engine;
use ringfence_evidence::{PackageRecord, RunEnd, UsageRecord};
use ringfence_isolation::{Captured, ExportRefusal, Exported, Host, OsText, Remains};
use ringfence_policy::{Grant, LimitKey, Storage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use network::NetworkReport;

/// The report of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunReport {
    /// The run.
    pub run: String,
    /// The agent.
    pub agent: String,
    /// The profile.
    pub profile: String,
    /// The tier that was used.
    pub tier: String,
    /// Who held each limit: `kernel`, `watched` or `per-process`.
    pub grades: BTreeMap<String, String>,
    /// How it ended.
    pub end: RunEnd,
    /// Bounding limits that the program met, as far as the host can tell.
    pub limits_reached: Vec<String>,
    /// What was kept of standard output, if it is UTF-8. Left out when it was streamed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout: Option<String>,
    /// The same in base 64, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout_base64: Option<String>,
    /// Bytes written to standard output.
    pub stdout_bytes: u64,
    /// SHA-256 of all of them.
    pub stdout_sha256: String,
    /// What was kept of standard error, if it is UTF-8. Left out when it was streamed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// The same in base 64, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr_base64: Option<String>,
    /// Bytes written to standard error.
    pub stderr_bytes: u64,
    /// SHA-256 of all of them.
    pub stderr_sha256: String,
    /// Whether not all output was kept.
    pub output_truncated: bool,
    /// What was used.
    pub usage: UsageRecord,
    /// What left.
    pub artifacts: Vec<ArtifactReport>,
    /// What was named and did not leave, with reasons.
    pub refusals: Vec<RefusalReport>,
    /// What the program could not see of its inputs.
    pub hidden: Vec<HiddenReport>,
    /// What was decided about the network, the first 1,000 in order; the record has all.
    pub network: Vec<NetworkReport>,
    /// What a person should know that is no refusal, such as a language whose packages nobody can have here.
    pub warnings: Vec<String>,
    /// Lock files by which packages are pinned.
    pub locks: Vec<LockReport>,
    /// Files of packages that went inside.
    pub packages: Vec<PackageRecord>,
    /// Packages that did not.
    pub refused_packages: Vec<PackageRefusalReport>,
    /// What it began with of an earlier run, and what is kept of it for a later one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<StateReport>,
    /// Digest of the sealed statement.
    pub evidence: String,
    /// The status with which `ringfence run` exits.
    pub exit_status: i32,
    /// Whether the caller asked to stop after the program had ended, while artifacts were collected.
    #[serde(skip)]
    pub is_stopped: bool,
    /// What a person should look at.
    #[serde(skip)]
    pub warning: Option<String>,
}

/// An artifact in a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ArtifactReport {
    /// Its path in the workspace; `%` and bytes that are not UTF-8 stand as `%XX`.
    pub path: String,
    /// Bytes.
    pub bytes: u64,
    /// SHA-256, as `sha256:` and 64 digits.
    pub sha256: String,
    /// Whether it was executable in the workspace.
    pub is_executable: bool,
    /// Its path as it is. JSON has it in `path`.
    #[serde(skip)]
    #[schemars(skip)]
    pub name: OsText,
}

impl ArtifactReport {
    /// Takes the path as it is from `path`, where the report was read from JSON. `None` if that is no escaped path.
    fn named(self) -> Option<Self> {
        OsText::unescaped(&self.path).map(|name| Self { name, ..self })
    }
}

/// A refusal in a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RefusalReport {
    /// The path or glob.
    pub path: String,
    /// Why.
    pub reason: String,
}

/// A hidden path in a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HiddenReport {
    /// The path.
    pub path: String,
    /// Why.
    pub reason: String,
}

/// A lock file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LockReport {
    /// Its name.
    pub file: String,
    /// Versions that it pins.
    pub pins: u64,
    /// Why it pins nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// State in a report.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct StateReport {
    /// Its name, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// With what the run began; a new state begins empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restored: Option<KeptState>,
    /// What is kept of the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub saved: Vec<KeptState>,
}

/// A state that is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeptState {
    /// Its id.
    pub id: String,
    /// `named`, `snapshot` or `paused`.
    pub kind: String,
    /// Bytes.
    pub bytes: u64,
    /// SHA-256, as `sha256:` and 64 digits.
    pub sha256: String,
}

/// A package that did not go inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PackageRefusalReport {
    /// `python`, `node` or `rust`.
    pub ecosystem: String,
    /// The package.
    pub name: String,
    /// The version, where one was decided on.
    pub version: String,
    /// The file, where one was decided on.
    pub file: String,
    /// The rule.
    pub rule: String,
}

impl RunReport {
    /// Reads a report as another process has printed it.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        use serde::de::Error as _;
        let mut report: Self = serde_json::from_str(text)?;
        let artifacts: Option<Vec<ArtifactReport>> = report.artifacts.into_iter().map(ArtifactReport::named).collect();
        report.artifacts =
            artifacts.ok_or_else(|| serde_json::Error::custom("an artifact has a path in which `%` is not followed by two digits"))?;
        Ok(report)
    }

    /// A report of a run of which nothing is known yet but who asked.
    pub(crate) fn begin(run: &str, agent: &str, profile: &str) -> Self {
        let empty = format!("sha256:{}", ringfence_evidence::Digest::of(b"").hex());
        Self {
            run: run.to_owned(),
            agent: agent.to_owned(),
            profile: profile.to_owned(),
            tier: "none".into(),
            grades: BTreeMap::new(),
            end: RunEnd::Failed { step: "begin".into(), cause: None },
            limits_reached: Vec::new(),
            stdout: None,
            stdout_base64: None,
            stdout_bytes: 0,
            stdout_sha256: empty.clone(),
            stderr: None,
            stderr_base64: None,
            stderr_bytes: 0,
            stderr_sha256: empty,
            output_truncated: false,
            usage: UsageRecord::default(),
            artifacts: Vec::new(),
            refusals: Vec::new(),
            hidden: Vec::new(),
            network: Vec::new(),
            warnings: Vec::new(),
            locks: Vec::new(),
            packages: Vec::new(),
            refused_packages: Vec::new(),
            state: None,
            evidence: String::new(),
            exit_status: crate::ending::REFUSED,
            is_stopped: false,
            warning: None,
        }
    }

    pub(crate) fn take_output(&mut self, stdout: &Captured, stderr: &Captured, is_kept: bool) {
        let digest = |c: &Captured| ringfence_evidence::Digest::from_bytes(c.sha256).to_string();
        (self.stdout_bytes, self.stdout_sha256) = (stdout.bytes, digest(stdout));
        (self.stderr_bytes, self.stderr_sha256) = (stderr.bytes, digest(stderr));
        self.output_truncated = stdout.cut + stderr.cut > 0;
        if is_kept {
            (self.stdout, self.stdout_base64) = text_or_base64(&stdout.kept);
            (self.stderr, self.stderr_base64) = text_or_base64(&stderr.kept);
        }
    }

    pub(crate) fn take_usage(&mut self, remains: &Remains) {
        self.usage = crate::record::usage(&remains.usage);
        self.limits_reached.extend(remains.limits_reached.iter().map(|key| key.name().to_owned()));
    }

    /// What is said of its state, from the first word on.
    pub(crate) fn state(&mut self) -> &mut StateReport {
        self.state.get_or_insert_default()
    }

    /// A program that ended well has not done what was asked if something named did not leave.
    pub(crate) fn take_refusals(&mut self, refusals: &[ExportRefusal]) {
        self.refusals = refusals.iter().map(|r| RefusalReport { path: r.path.escaped(), reason: r.reason.clone() }).collect();
        if self.exit_status == 0 && !self.refusals.is_empty() {
            self.exit_status = crate::ending::INCOMPLETE;
        }
    }

    pub(crate) fn take_artifacts(&mut self, exported: &[Exported]) {
        let report = |e: &Exported| ArtifactReport {
            path: e.path.escaped(),
            bytes: e.stored.bytes,
            sha256: format!("sha256:{}", e.stored.sha256),
            is_executable: e.is_executable,
            name: e.path.clone(),
        };
        self.artifacts = exported.iter().map(report).collect();
    }
}

fn text_or_base64(bytes: &[u8]) -> (Option<String>, Option<String>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (Some(text.to_owned()), None),
        Err(_) => (None, Some(base64::engine::general_purpose::STANDARD.encode(bytes))),
    }
}

/// Who holds each limit of a run.
pub(crate) fn grades(host: &Host, grant: &Grant) -> BTreeMap<String, String> {
    let grade = |key: LimitKey| match key {
        LimitKey::Memory => host.memory_grade().word(),
        LimitKey::Cpu => host.cpu_grade().word(),
        LimitKey::Wall
        | LimitKey::Output
        | LimitKey::Artifacts
        | LimitKey::ArtifactBytes
        | LimitKey::NetworkBytes
        | LimitKey::NetworkRequests => "watched",
        LimitKey::Disk | LimitKey::Files if grant.capabilities.storage == Storage::Disk => host.disk_grade().word(),
        LimitKey::Cpus | LimitKey::Processes | LimitKey::Disk | LimitKey::Files => "kernel",
        LimitKey::OpenFiles => "per-process",
    };
    grant.capabilities.limits.iter().map(|(key, _)| (key.name().to_owned(), grade(key).to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let mut report = RunReport::begin("r", "me", "p");
        let name = OsText::from(b"100%/\xff".as_slice());
        let artifact = ArtifactReport { path: name.escaped(), bytes: 1, sha256: "sha256:1".into(), is_executable: true, name };
        report.artifacts = vec![artifact];
        report.state().name = Some("notes".into());
        report.exit_status = 3;
        let text = serde_json::to_string(&report).unwrap();
        assert_eq!(RunReport::from_json(&text).unwrap(), report);
        assert!(RunReport::from_json(&text.replace("100%25", "100%zz")).is_err());
        assert!(RunReport::from_json(&text.replace(",\"exit_status\":3", "")).is_err());
    }
}
