//! What can be compared of a run: how it ended, digests of what it printed and left, and what surrounded it.

use std::collections::BTreeMap;
use std::fs;

use ringfence_evidence::{EVENTS_FILE, Event, Line, read_chain};

use super::{Changed, ReplayError};
use crate::report::RunReport;
use crate::run::Runner;

/// What was observed, by what it is of.
pub(super) type Facts = BTreeMap<String, String>;

/// A repetition.
#[derive(Debug)]
pub(super) struct Observed {
    pub(super) run: String,
    pub(super) facts: Facts,
    pub(super) surroundings: Surroundings,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

/// What surrounds a run, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Surroundings(BTreeMap<String, String>);

impl Surroundings {
    /// What is not as it was.
    pub(super) fn changed(&self, now: &Self) -> Vec<Changed> {
        let names: std::collections::BTreeSet<&String> = self.0.keys().chain(now.0.keys()).collect();
        let of = |side: &Self, name: &String| side.0.get(name).cloned().unwrap_or_else(|| "nothing".to_owned());
        let changed = |name: &String| Changed { what: name.clone(), then: of(self, name), now: of(now, name) };
        names.into_iter().map(changed).filter(|changed| changed.then != changed.now).collect()
    }
}

impl Observed {
    /// What a report and the record of its run say.
    pub(super) fn of(runner: &Runner, report: &RunReport) -> Result<Self, ReplayError> {
        let path = runner.home.runs().join(&report.run).join(EVENTS_FILE);
        let broken = |cause: String| ReplayError::Record { run: report.run.clone(), cause };
        let bytes = fs::read(&path).map_err(|e| broken(e.to_string()))?;
        let lines = read_chain(&bytes).map_err(|e| broken(e.to_string()))?;
        let kept = |text: &Option<String>| text.clone().unwrap_or_default().into_bytes();
        Ok(Self {
            run: report.run.clone(),
            facts: facts(&lines),
            surroundings: surroundings(&lines),
            stdout: kept(&report.stdout),
            stderr: kept(&report.stderr),
        })
    }
}

/// The facts of a record.
pub(super) fn facts(lines: &[Line]) -> Facts {
    let mut facts = Facts::new();
    let mut put = |what: &str, value: String| facts.insert(what.to_owned(), value);
    for line in lines {
        match &line.event {
            Event::CommandEnded { stdout, stderr, .. } => {
                put("stdout", stdout.sha256.to_string());
                put("stderr", stderr.sha256.to_string());
            }
            Event::ArtifactExported { artifact } => {
                put(&format!("artifact {}", artifact.path), artifact.sha256.to_string());
            }
            Event::ArtifactRefused { path, reason } => {
                put(&format!("artifact {path}"), format!("refused: {reason}"));
            }
            Event::RunEnded { end } => {
                put("end", serde_json::to_string(end).unwrap_or_default());
            }
            _ => {}
        }
    }
    facts
}

/// What surrounded a run, by its record.
pub(super) fn surroundings(lines: &[Line]) -> Surroundings {
    let mut found = BTreeMap::new();
    let mut put = |what: &str, value: String| found.insert(what.to_owned(), value);
    for line in lines {
        match &line.event {
            Event::RunRequested { version, profile_digest, ceiling_digest, .. } => {
                put("version of ringfence", version.clone());
                put("text of the profile", profile_digest.to_string());
                put("text of the settings", ceiling_digest.to_string());
            }
            Event::InputAdded { input } => {
                put(&format!("{} {}", input.kind, input.name), format!("{} of its {}", input.sha256, input.digest_of));
            }
            Event::SandboxCreating { tier, kernel, landlock, image, image_digest, .. } => {
                put("tier", tier.clone());
                put("kernel", kernel.clone());
                put("version of Landlock", landlock.to_string());
                put("image", format!("{} {image_digest}", image.as_deref().unwrap_or("host")));
            }
            Event::PackageServed { package } => {
                put(&format!("package {} {}", package.name, package.file), package.sha256.clone());
            }
            Event::NetworkClosed { exchange, status: Some(status), .. } => {
                put(&format!("exchange {exchange} with the network"), status.to_string());
            }
            _ => {}
        }
    }
    Surroundings(found)
}

/// The bytes behind a fact, where they were kept.
pub(super) fn content(runner: &Runner, observed: &Observed, what: &str) -> Vec<u8> {
    match what {
        "stdout" => observed.stdout.clone(),
        "stderr" => observed.stderr.clone(),
        other => artifact(runner, observed.facts.get(other)),
    }
}

/// The bytes of an artifact by its digest; nothing where it is not kept.
pub(super) fn artifact(runner: &Runner, digest: Option<&String>) -> Vec<u8> {
    let path = digest.and_then(|digest| digest.parse().ok()).map(|digest| runner.artifacts.path(&digest));
    path.and_then(|path| fs::read(path).ok()).unwrap_or_default()
}
