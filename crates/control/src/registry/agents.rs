//! The agents of a home, for whoever asks: what is registered, what may run, what waits for approval, what was used. What becomes of them is in `steps`.

use ringfence_evidence::Digest;
use ringfence_policy::{AgentId, AgentRecord, Date};
use ringfence_store::{Documents, Home, Index, now};

use super::agent::{RegisteredAgent, Revision, RevisionState};
use super::error::RegistryError;
use super::lifecycle::Action;
use super::local::local;
use super::persons::Persons;
use super::runnable::{Agent, allows, serves};
use super::usage::{ProfileUsage, usage};
use crate::profiles::ProfileText;

/// The agents of a home.
#[derive(Debug, Clone)]
pub struct Agents {
    pub(super) home: Home,
    pub(super) documents: Documents<RegisteredAgent>,
}

/// A revision that waits for approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingRevision {
    /// Its number.
    pub number: u32,
    /// Digest of the text.
    pub version: Digest,
    /// What is to be approved, for people and for signatures.
    pub text: String,
    /// The same, read.
    pub record: AgentRecord,
}

impl Agents {
    /// Those of a home.
    pub fn of(home: &Home) -> Self {
        Self { home: home.clone(), documents: Documents::of(home) }
    }

    /// An agent; the local one is made if it is not there.
    pub fn find(&self, id: &AgentId) -> Result<RegisteredAgent, RegistryError> {
        let agent = match id.is_local() {
            true => local(&self.home)?,
            false => self.documents.get(id.as_str())?.ok_or_else(|| RegistryError::Unknown(id.clone()))?,
        };
        agent.check(&self.documents.path(id.as_str()))?;
        Ok(agent)
    }

    /// Every agent, by name.
    pub fn all(&self) -> Result<Vec<RegisteredAgent>, RegistryError> {
        local(&self.home)?;
        let agents = self.documents.all()?;
        agents.iter().try_for_each(|agent| agent.check(&self.documents.path(agent.id.as_str())))?;
        Ok(agents)
    }

    /// What a revision of an agent says.
    pub fn record(&self, agent: &RegisteredAgent, revision: &Revision) -> Result<AgentRecord, RegistryError> {
        Ok(agent.record(revision, &self.documents.path(agent.id.as_str()))?)
    }

    /// The agent as it may run now, with this profile.
    pub fn runnable(&self, id: &AgentId, profile: &ProfileText) -> Result<Agent, RegistryError> {
        let (revision, record) = self.answerable(id)?;
        allows(&record, &revision, profile)?;
        Ok(Agent { id: record.id, owner: record.owner, bound: record.bound, version: revision.version })
    }

    /// The revision that serves now, for which somebody answers.
    fn answerable(&self, id: &AgentId) -> Result<(Revision, AgentRecord), RegistryError> {
        let agent = self.find(id)?;
        let revision = agent.current().ok_or_else(|| RegistryError::Unknown(id.clone()))?.clone();
        let record = self.record(&agent, &revision)?;
        let owner = match Persons::of(&self.home).find(&record.owner) {
            Err(RegistryError::NoPerson(_)) => None,
            found => Some(found?),
        };
        serves(agent.state, &record, owner.as_ref(), today()?)?;
        Ok((revision, record))
    }

    /// The revision that waits for approval, if one does.
    pub fn pending(&self, id: &AgentId) -> Result<Option<PendingRevision>, RegistryError> {
        let agent = self.find(id)?;
        let waiting = agent.revision(RevisionState::Pending).filter(|_| agent.state.after(Action::Activate).is_ok());
        let Some(revision) = waiting else { return Ok(None) };
        let record = self.record(&agent, revision)?;
        Ok(Some(PendingRevision { number: revision.number, version: revision.version, text: revision.text(), record }))
    }

    /// What an agent was granted, beside what it ever used.
    pub fn usage(&self, agent: &RegisteredAgent) -> Result<Vec<ProfileUsage>, RegistryError> {
        let Some(revision) = agent.current() else { return Ok(Vec::new()) };
        let record = self.record(agent, revision)?;
        let used = Index::open(&self.home)?.usage(agent.id.as_str())?;
        Ok(usage(&record, &used, today()?))
    }
}

/// The agent of that name as it may run now, with this profile.
pub fn active(home: &Home, id: &AgentId, profile: &ProfileText) -> Result<Agent, RegistryError> {
    Agents::of(home).runnable(id, profile)
}

/// Refuses an agent that may not run now, whatever the profile: what it made is not promoted either.
pub(crate) fn active_now(home: &Home, id: &str) -> Result<(), RegistryError> {
    Agents::of(home).answerable(&id.parse()?).map(drop)
}

/// The version of an agent that may run now, where it has one.
pub fn active_version(home: &Home, id: &str) -> Result<Option<Digest>, RegistryError> {
    Agents::of(home).answerable(&id.parse()?).map(|(revision, _)| Some(revision.version))
}

/// What day it is, in UTC.
pub(super) fn today() -> Result<Date, RegistryError> {
    Ok(now().get(..10).unwrap_or_default().parse()?)
}
