//! Who may start what: persons, who answer and approve, and agents, each with an owner, a bound and a life.
//!
//! The files beneath the home are the record (`ringfence_store::Documents`). Data is in `person` and `agent`; which step is possible, and whether an agent
//! may run, is decided without touching anything in `lifecycle` and `runnable`; `persons` and `steps` read, decide and write under one lock. The start of a
//! run takes no lock and reads two small files.

mod agent;
mod agents;
mod error;
mod lifecycle;
mod local;
mod login;
mod person;
mod persons;
mod runnable;
mod steps;
mod usage;

pub use agent::{Deed, ProfileDigests, RegisteredAgent, Revision, RevisionState};
pub(crate) use agents::active_now;
pub use agents::{Agents, PendingRevision, active, active_version};
pub use error::RegistryError;
pub use lifecycle::{Action, AgentState, WrongTransition};
pub use person::{Identity, IdentityError, Person, PersonState};
pub use persons::{NewKey, NewPerson, Persons};
pub use runnable::Agent;
pub use steps::Added;
pub use usage::ProfileUsage;
