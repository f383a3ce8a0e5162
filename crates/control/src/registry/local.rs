//! The local agent `me`, of whoever sits at this machine: made at first use, active, owned by the login user, with any profile and no bound of its own.
//!
//! A run reads its one file; only the first use takes the lock. Homes from before there were records have `me.toml`, which says the owner: that owner stays.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use ringfence_policy::{AgentId, AgentRecord, PersonName};
use ringfence_store::{Documents, Home, RegistryLock, StoreError, now};
use serde::Deserialize;

use super::agent::{Deed, ProfileDigests, RegisteredAgent, Revision, RevisionState};
use super::error::RegistryError;
use super::lifecycle::{Action, AgentState};
use super::login::Login;
use super::persons::Persons;
use crate::profiles::read_text;

/// The record of old.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OldRecord {
    owner: String,
}

/// The local agent, made if it is not there.
pub(super) fn local(home: &Home) -> Result<RegisteredAgent, RegistryError> {
    let documents = Documents::of(home);
    match documents.get(AgentId::local().as_str())? {
        Some(agent) => Ok(agent),
        None => make(home, &documents),
    }
}

/// Who answers for the local agent, once there is one.
pub(super) fn local_owner(home: &Home) -> Result<Option<PersonName>, RegistryError> {
    let documents: Documents<RegisteredAgent> = Documents::of(home);
    let id = AgentId::local();
    let Some(agent) = documents.get(id.as_str())? else { return Ok(None) };
    let Some(revision) = agent.current() else { return Ok(None) };
    Ok(Some(agent.record(revision, &documents.path(id.as_str()))?.owner))
}

/// However many are at their first use, one makes it.
fn make(home: &Home, documents: &Documents<RegisteredAgent>) -> Result<RegisteredAgent, RegistryError> {
    let lock = RegistryLock::take(home)?;
    let id = AgentId::local();
    if let Some(agent) = documents.get(id.as_str())? {
        return Ok(agent);
    }
    let old = home.agents().join("me.toml");
    let login = owner_of_old(&old)?.map_or_else(Login::current, |name| Login::called(&name, rustix::process::getuid().as_raw()))?;
    let owner = Persons::of(home).ensure(&lock, login)?;
    let record = AgentRecord::local(&owner.name)?;
    let at = now();
    let draft = Revision::draft(1, &record, ProfileDigests::new(), at.clone());
    let revision = Revision { state: RevisionState::Active, activated_at: Some(at.clone()), ..draft };
    let history = vec![Deed { at, action: Action::Add, revision: Some(1), reason: Some("first use".into()) }];
    let agent = RegisteredAgent { id, state: AgentState::Active, revisions: vec![revision], history };
    documents.put(&lock, &agent)?;
    match fs::remove_file(&old) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(StoreError::Io { act: "remove", path: old, source: error }.into()),
        Ok(()) | Err(_) => Ok(agent),
    }
}

fn owner_of_old(path: &Path) -> Result<Option<String>, StoreError> {
    let text = match read_text(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        read => read.map_err(|source| StoreError::Io { act: "read", path: path.to_owned(), source })?,
    };
    let record: OldRecord =
        toml::from_str(&text).map_err(|error| StoreError::Damaged { path: path.to_owned(), cause: error.message().to_owned() })?;
    Ok(Some(record.owner))
}
