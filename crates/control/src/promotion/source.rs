//! Where an artifact is from, read from the sealed record of the run that made it; and whether it may go to a target at all.

use std::fs;

use ringfence_evidence::{Digest, EVENTS_FILE, Event, STATEMENT_FILE, Verified, verify};
use ringfence_patch::plain_or_quoted;
use ringfence_policy::{ArtifactKind, Capabilities, Target, TenantName};
use ringfence_store::Index;

use super::document::Provenance;
use super::error::PromotionError;
use super::rules;
use crate::run::Runner;

/// An artifact, and the record of the run that made it, which holds.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) what: Provenance,
    pub(super) verified: Verified,
    granted: Option<Capabilities>,
}

impl Source {
    /// The newest run that made an artifact, whose record must hold. Where the same bytes were made under another name or by another agent, whose it is
    /// has to be said.
    pub(super) fn find(runner: &Runner, artifact: Digest) -> Result<Self, PromotionError> {
        let mut index = Index::open(&runner.home)?;
        let made = index.made(&artifact)?;
        let newest = made.first().ok_or_else(|| PromotionError::NoArtifact(artifact.to_string()))?;
        let agents = index.agents_that_made(&artifact)?;
        if agents.len() > 1 || made.iter().any(|other| other.path != newest.path) {
            let of = |made: &ringfence_store::ArtifactRow| format!("{}/{}", made.run, plain_or_quoted(made.path.as_bytes()));
            return Err(PromotionError::SeveralMade { named: made.iter().take(8).map(of).collect::<Vec<_>>().join(", ") });
        }
        Self::read(runner, artifact, &newest.run, &newest.path)
    }

    /// An artifact of one run, at one path.
    pub(super) fn read(runner: &Runner, artifact: Digest, run: &str, path: &str) -> Result<Self, PromotionError> {
        let broken = |cause: String| PromotionError::Record { run: run.to_owned(), cause };
        let folder = runner.home.runs().join(run);
        let file = |name: &str| fs::read(folder.join(name)).map_err(|e| broken(format!("{name}: {e}")));
        let verified = verify(&file(EVENTS_FILE)?, &file(STATEMENT_FILE)?, &runner.key.public()).map_err(|e| broken(e.to_string()))?;
        let record = verified.artifacts().into_iter().find(|made| made.sha256 == artifact && made.path == path);
        let record = record.ok_or_else(|| PromotionError::NoArtifact(artifact.to_string()))?;
        let what = Provenance {
            artifact,
            kind: ArtifactKind::of(&record.path),
            path: record.path,
            bytes: record.bytes,
            ..Provenance::of(&verified, run)
        };
        let granted = verified.lines.iter().find_map(|line| match &line.event {
            Event::RunGranted { grant } => Some(grant.capabilities.clone()),
            _ => None,
        });
        Ok(Self { what, verified, granted })
    }

    /// The tenant of a server that asked for the run.
    pub(super) fn tenant(&self) -> Option<TenantName> {
        match self.verified.lines.first().map(|line| &line.event) {
            Some(Event::RunRequested { tenant: Some(tenant), .. }) => tenant.parse().ok(),
            _ => None,
        }
    }

    /// Refuses what may not go to the target at all.
    pub(super) fn may_go_to(&self, target: &Target, ceiling: &Capabilities) -> Result<(), PromotionError> {
        match rules::refusal(&self.what, self.granted.as_ref(), ceiling, target) {
            Some((rule, hint)) => Err(PromotionError::NotTaken { rule, hint }),
            None => Ok(()),
        }
    }

    /// The artifact's bytes, which must be those that were exported.
    pub(super) fn bytes(runner: &Runner, artifact: &Digest) -> Result<Vec<u8>, PromotionError> {
        let path = runner.artifacts.path(artifact);
        let bytes = fs::read(&path).map_err(|source| PromotionError::File { act: "read", path, source })?;
        match Digest::of(&bytes) == *artifact {
            true => Ok(bytes),
            false => Err(PromotionError::Altered(artifact.to_string())),
        }
    }
}

impl Provenance {
    /// What the record of a run says of whatever it made; which artifact is left open.
    pub(super) fn of(verified: &Verified, run: &str) -> Self {
        let mut what = Self {
            artifact: Digest::zero(),
            kind: ArtifactKind::Other,
            path: String::new(),
            bytes: 0,
            run: run.to_owned(),
            evidence: verified.digest,
            end: in_words(verified),
            agent: String::new(),
            agent_version: None,
            owner: String::new(),
            profile: String::new(),
            command: Vec::new(),
        };
        if let Some(Event::RunRequested { agent, agent_version, owner, profile, commands, .. }) =
            verified.lines.first().map(|line| &line.event)
        {
            (what.agent, what.owner, what.profile) = (agent.clone(), owner.clone(), profile.clone());
            what.agent_version = *agent_version;
            what.command = commands.first().cloned().unwrap_or_default();
        }
        what
    }
}

fn in_words(verified: &Verified) -> String {
    let end = serde_json::to_value(&verified.statement.predicate.end).unwrap_or_default();
    let word = |name: &str| end.get(name).map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    let detail = ["code", "signal", "limit", "rule", "step"].into_iter().find_map(word).unwrap_or_default();
    format!("{} {detail}", word("kind").unwrap_or_default()).trim_end().to_owned()
}
