//! An agent as it is registered: its revisions, of which at most one serves, and what became of it. Nothing of it is ever taken away.
//!
//! INVARIANT (serving): an agent that is active or suspended has exactly one active revision, and any other but a retired one has none.
//! INVARIANT (version): the version of a revision is the digest of its text, in which its number, its record and the digests of its profiles stand. So what
//! was approved is what runs, and no approval fits two revisions.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use ringfence_evidence::Digest;
use ringfence_policy::{AgentId, AgentRecord, ProfileName};
use ringfence_store::{Document, StoreError};
use serde::{Deserialize, Serialize};

use super::lifecycle::{Action, AgentState};

/// Digests of the texts of profiles.
pub type ProfileDigests = BTreeMap<ProfileName, Digest>;

/// Where a revision is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RevisionState {
    /// It was written, and waits for nobody.
    Draft,
    /// It waits for approval.
    Pending,
    /// It was approved, and is what runs.
    Active,
    /// Another one took its place.
    Superseded,
    /// It was not approved.
    Refused,
}

impl fmt::Display for RevisionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Draft => "draft",
            Self::Pending => "pending",
            Self::Active => "active",
            Self::Superseded => "superseded",
            Self::Refused => "refused",
        })
    }
}

/// One revision of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Revision {
    /// Its number within the agent, from 1.
    pub number: u32,
    /// Digest of its text.
    pub version: Digest,
    /// The agent's record in its canonical form.
    pub record: String,
    /// The texts of its profiles, as they were when it was submitted.
    pub profile_digests: ProfileDigests,
    /// Where it is in its life.
    pub state: RevisionState,
    /// When it was written.
    pub made_at: String,
    /// When it was submitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submitted_at: Option<String>,
    /// The approval by which it was decided on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<String>,
    /// When it was activated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activated_at: Option<String>,
}

impl Revision {
    /// A revision of what somebody wrote.
    pub(super) fn draft(number: u32, record: &AgentRecord, profile_digests: ProfileDigests, made_at: String) -> Self {
        let record = record.text().to_owned();
        let version = Digest::of(text(number, &record, &profile_digests).as_bytes());
        let state = RevisionState::Draft;
        Self { number, version, record, profile_digests, state, made_at, submitted_at: None, approval: None, activated_at: None }
    }

    /// The same as it is submitted, with the profiles as they are then.
    pub(super) fn submitted(self, profile_digests: ProfileDigests, submitted_at: String) -> Self {
        let version = Digest::of(text(self.number, &self.record, &profile_digests).as_bytes());
        Self { version, profile_digests, state: RevisionState::Pending, submitted_at: Some(submitted_at), ..self }
    }

    /// What is approved: TOML, of which the version is the digest.
    pub fn text(&self) -> String {
        text(self.number, &self.record, &self.profile_digests)
    }
}

/// The record stands in the middle as it is; a table of its own at the end says which profiles are meant.
fn text(number: u32, record: &str, profile_digests: &ProfileDigests) -> String {
    let digests: String = profile_digests.iter().map(|(name, digest)| format!("{name} = \"{digest}\"\n")).collect();
    match digests.is_empty() {
        true => format!("revision = {number}\n{record}"),
        false => format!("revision = {number}\n{record}\n[profile-digests]\n{digests}"),
    }
}

/// Something that was done to an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deed {
    /// When.
    pub at: String,
    /// What.
    pub action: Action,
    /// The revision that it was about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u32>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// An agent with all that was ever known of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegisteredAgent {
    /// Its name.
    pub id: AgentId,
    /// Where it is in its life.
    pub state: AgentState,
    /// Its revisions, the oldest first.
    pub revisions: Vec<Revision>,
    /// What was done to it, the oldest first.
    pub history: Vec<Deed>,
}

impl Document for RegisteredAgent {
    const FOLDER: &'static str = "agents";

    fn name(&self) -> &str {
        self.id.as_str()
    }
}

impl RegisteredAgent {
    /// The newest revision in a state.
    pub fn revision(&self, state: RevisionState) -> Option<&Revision> {
        self.revisions.iter().rev().find(|revision| revision.state == state)
    }

    /// The revision that is the agent, for whoever looks at it: the one that serves, else the newest.
    pub fn current(&self) -> Option<&Revision> {
        self.revision(RevisionState::Active).or_else(|| self.revisions.last())
    }

    /// What a revision says.
    pub(super) fn record(&self, revision: &Revision, path: &Path) -> Result<AgentRecord, StoreError> {
        let damaged = |cause: String| StoreError::Damaged { path: path.to_owned(), cause };
        let record = AgentRecord::parse(&path.to_string_lossy(), &revision.record)
            .map_err(|error| damaged(format!("revision {}: {}", revision.number, error.cause)))?;
        match record.id == self.id {
            true => Ok(record),
            false => Err(damaged(format!("revision {} is of agent `{}`", revision.number, record.id))),
        }
    }

    /// What must hold of every record that we wrote.
    pub(super) fn check(&self, path: &Path) -> Result<(), StoreError> {
        let damaged = |cause: String| Err(StoreError::Damaged { path: path.to_owned(), cause });
        let active = self.revisions.iter().filter(|revision| revision.state == RevisionState::Active).count();
        let is_serving = match self.state {
            AgentState::Active | AgentState::Suspended => active == 1,
            AgentState::Draft | AgentState::Pending => active == 0,
            AgentState::Retired => active <= 1,
        };
        let is_counted = self.revisions.iter().zip(1..).all(|(revision, number)| revision.number == number);
        if !is_serving || !is_counted || self.revisions.is_empty() {
            return damaged("its revisions do not fit its state".into());
        }
        let is_changed = |revision: &&Revision| Digest::of(revision.text().as_bytes()) != revision.version;
        match self.revisions.iter().find(is_changed) {
            Some(changed) => damaged(format!("revision {} is not what its version was made of", changed.number)),
            None => Ok(()),
        }
    }
}
