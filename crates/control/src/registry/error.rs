//! Why the registry says no, and what would change it.

use std::path::PathBuf;

use ringfence_evidence::Digest;
use ringfence_policy::{AgentId, Date, DateError, PersonName, PlainNameError, ProfileError, ProfileName};
use ringfence_store::StoreError;

use super::agent::RevisionState;
use super::lifecycle::{AgentState, WrongTransition};
use super::person::{Identity, IdentityError};
use crate::error::RunError;

/// Why something of the registry cannot be had, changed or run.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// A record could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A name that is none.
    #[error(transparent)]
    Name(#[from] PlainNameError),
    /// An identity that is none.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// Nobody of that name.
    #[error("person `{0}` is not registered")]
    NoPerson(PersonName),
    /// Somebody of that name.
    #[error("person `{0}` is registered already")]
    PersonExists(PersonName),
    /// Somebody who was.
    #[error("person `{0}` is retired")]
    PersonRetired(PersonName),
    /// Somebody else is that.
    #[error("identity `{identity}` is that of person `{by}` already (letters may differ in case)")]
    IdentityTaken {
        /// The identity.
        identity: Identity,
        /// Who has it.
        by: PersonName,
    },
    /// Somebody else has that key.
    #[error("this public key is that of person `{by}` already; two persons never share a key")]
    KeyTaken {
        /// Who has it.
        by: PersonName,
    },
    /// The owner of `me`.
    #[error("person `{0}` answers for the local agent `me` and cannot be retired")]
    AnswersForLocal(PersonName),
    /// No key is registered for that person.
    #[error("person `{0}` has no registered key")]
    NoKey(PersonName),
    /// The key in a file is not that person's.
    #[error("the key in `{path}` is not the registered key of person `{person}`: {}", whose_in_words(.whose.as_ref()))]
    ForeignKey {
        /// The file.
        path: PathBuf,
        /// Whose it should be.
        person: PersonName,
        /// Whose it is.
        whose: Option<PersonName>,
    },
    /// An agent's form that is none.
    #[error(transparent)]
    Form(#[from] ProfileError),
    /// The clock says no date.
    #[error(transparent)]
    Date(#[from] DateError),
    /// No agent of that name.
    #[error("agent `{0}` is not registered")]
    Unknown(AgentId),
    /// Something that the local agent cannot be.
    #[error("the local agent `me` is made by ringfence and stays as it is")]
    Local,
    /// An action that does not fit the agent's state.
    #[error("agent `{id}` {wrong}")]
    Transition {
        /// The agent.
        id: AgentId,
        /// What does not fit.
        wrong: WrongTransition,
    },
    /// Nothing to submit.
    #[error("agent `{0}` has no draft")]
    NoDraft(AgentId),
    /// No such version.
    #[error("agent `{id}` has no version {version}")]
    NoVersion {
        /// The agent.
        id: AgentId,
        /// What was asked for.
        version: Digest,
    },
    /// A version that waits for nobody.
    #[error("version {version} of agent `{id}` is {state} and does not wait for a decision")]
    NotPending {
        /// The agent.
        id: AgentId,
        /// The version.
        version: Digest,
        /// Where it is.
        state: RevisionState,
    },
    /// A date for review that is no promise.
    #[error("agent `{id}` would be reviewed by {review_by}, which is not in the future")]
    ReviewNotAhead {
        /// The agent.
        id: AgentId,
        /// The date.
        review_by: Date,
    },
    /// A profile that it names cannot be had.
    #[error("agent `{id}` names a profile that cannot be used: {source}")]
    UnusableProfile {
        /// The agent.
        id: AgentId,
        /// Why.
        source: Box<RunError>,
    },
    /// Nobody answers for it.
    #[error("agent `{id}` has no active owner: person `{owner}` is not registered or is retired")]
    NoActiveOwner {
        /// The agent.
        id: AgentId,
        /// Who should.
        owner: PersonName,
    },
    /// It may not run at all.
    #[error("agent `{id}` is {state} and may not run")]
    NotActive {
        /// The agent.
        id: AgentId,
        /// Where it is.
        state: AgentState,
    },
    /// It may not run any more without being looked at.
    #[error("agent `{id}` was to be reviewed by {review_by} and may not run until it was")]
    PastReview {
        /// The agent.
        id: AgentId,
        /// The date.
        review_by: Date,
    },
    /// It may not run this.
    #[error("agent `{id}` may not run profile `{profile}`; it may run {listed}")]
    ForeignProfile {
        /// The agent.
        id: AgentId,
        /// The profile.
        profile: ProfileName,
        /// What it may run.
        listed: String,
    },
    /// The profile is another one than was approved.
    #[error("profile `{profile}` changed since version {version} of agent `{id}` was approved")]
    ProfileChanged {
        /// The agent.
        id: AgentId,
        /// The profile.
        profile: ProfileName,
        /// The version.
        version: Digest,
    },
}

fn whose_in_words(whose: Option<&PersonName>) -> String {
    whose.map_or_else(|| "no registered person has it".to_owned(), |name| format!("it was copied from person `{name}`"))
}

impl RegistryError {
    /// What would help.
    pub fn hint(&self) -> String {
        match self {
            Self::Store(error) => error.hint(),
            Self::Name(_) => "write the name as it is listed, such as `anna` or `report-writer`".into(),
            Self::Identity(_) => "such as --identity anna@example.com".into(),
            Self::NoPerson(name) => format!("see `ringfence person ls`, or register them: ringfence person add {name}"),
            Self::PersonExists(name) => format!("choose another name; `ringfence person set {name}` changes the groups"),
            Self::PersonRetired(_) => "who is retired stays so, and the name stays taken; register a person under another name".into(),
            Self::IdentityTaken { by, .. } => format!("name another --identity, or use person `{by}`"),
            Self::KeyTaken { .. } => "let each person make a key of their own: leave --public-key out, or name another file".into(),
            Self::AnswersForLocal(_) => {
                "the login user of a home stays; take away the groups instead: ringfence person set NAME --no-groups".into()
            }
            Self::NoKey(name) => format!("give them one: ringfence person add {name}"),
            Self::ForeignKey { person, .. } => {
                format!("name the key file that `ringfence person add {person}` made; each person signs with their own")
            }
            Self::Form(error) => error.fix.clone(),
            Self::Date(_) => "set the clock of this host".into(),
            Self::Unknown(_) => "see `ringfence agent ls`; leave --agent out to run as the local agent `me`".into(),
            Self::Local => "register an agent of its own name, with a profile and a bound: ringfence agent add FILE".into(),
            Self::Transition { wrong, .. } => wrong.hint(),
            Self::NoDraft(id) => format!("make one: ringfence agent add FILE, whose id is `{id}`"),
            Self::NoVersion { id, .. } | Self::NotPending { id, .. } => format!("see `ringfence agent show {id}` for its versions"),
            Self::ReviewNotAhead { .. } => "write a later `review-by`, and add the file again".into(),
            Self::UnusableProfile { source, .. } => source.hint(),
            Self::NoActiveOwner { id, .. } => {
                format!(
                    "see `ringfence person ls`; name an active person as `owner`, and submit it: ringfence agent add FILE, then ringfence agent submit {id}"
                )
            }
            Self::NotActive { id, state } => match state {
                AgentState::Draft => format!("submit it for approval: ringfence agent submit {id}"),
                AgentState::Pending => format!("it waits for approval: see `ringfence agent show {id}`"),
                AgentState::Suspended => {
                    format!("see why: ringfence agent show {id}; `ringfence agent resume {id}` lets it wait for approval anew")
                }
                AgentState::Active | AgentState::Retired => "register an agent under another name".into(),
            },
            Self::PastReview { id, .. } => {
                format!("write a later `review-by`, and submit it again: ringfence agent add FILE, then ringfence agent submit {id}")
            }
            Self::ForeignProfile { id, .. } => {
                format!("choose one of these with --profile, or add it to `profiles` and submit it: ringfence agent submit {id}")
            }
            Self::ProfileChanged { id, .. } => {
                format!("submit it again: ringfence agent add FILE, then ringfence agent submit {id}; or put the profile back as it was")
            }
        }
    }
}
