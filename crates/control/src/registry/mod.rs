//! Registered agents. Each run belongs to one, and each has an owner who answers for it. The local agent `me` is made at first use, owned by the
//! login user.

use std::fs;

use ringfence_policy::{Bound, Capabilities};
use ringfence_store::{Home, draft_of};
use serde::{Deserialize, Serialize};

mod error;
mod login;
mod person;
mod persons;

pub use error::RegistryError;
pub use person::{Identity, IdentityError, Person, PersonState};
pub use persons::{NewKey, NewPerson, Persons};

/// The agent of whoever sits at this machine.
pub(crate) const LOCAL: &str = "me";

/// A registered agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// Its name.
    pub id: String,
    /// Who answers for it.
    pub owner: String,
    /// What it may do at most.
    pub bound: Bound,
}

/// An agent's record.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentRecord {
    owner: String,
}

/// The agent of that name, if it may run.
pub fn active(home: &Home, id: &str) -> Result<Agent, RegistryError> {
    if id != LOCAL {
        return Err(RegistryError::Unknown(id.escape_debug().to_string()));
    }
    let path = home.agents().join(format!("{LOCAL}.toml"));
    let unread = |source| RegistryError::File { id: id.to_owned(), path: path.clone(), source };
    let text = match fs::read_to_string(&path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            make_local(&path, login::Login::current()?.identity.as_str()).map_err(unread)?;
            fs::read_to_string(&path)
        }
        read => read,
    };
    let broken = |e: toml::de::Error| RegistryError::Record { id: id.to_owned(), path: path.clone(), cause: e.message().to_owned() };
    let record: AgentRecord = toml::from_str(&text.map_err(unread)?).map_err(broken)?;
    Ok(Agent { id: id.to_owned(), owner: record.owner, bound: Capabilities::unlimited() })
}

/// Refuses an agent that may not run now: what it made is not promoted either.
pub(crate) fn active_now(home: &Home, id: &str) -> Result<(), RegistryError> {
    active(home, id).map(drop)
}

/// The version of an agent that may run now, where it has one.
pub fn active_version(home: &Home, id: &str) -> Result<Option<ringfence_evidence::Digest>, RegistryError> {
    active(home, id).map(|_| None)
}

/// Put in place whole, however many are at their first use.
fn make_local(path: &std::path::Path, owner: &str) -> std::io::Result<()> {
    let text = toml::to_string(&AgentRecord { owner: owner.to_owned() }).map_err(std::io::Error::other)?;
    let draft = draft_of(path);
    let made = fs::write(&draft, text).and_then(|()| fs::rename(&draft, path));
    if made.is_err() {
        // What could not be made whole is not kept; the error is what matters.
        fs::remove_file(&draft).unwrap_or_default();
    }
    made
}
