//! Why the registry says no, and what would change it.

use std::path::PathBuf;

use ringfence_policy::{PersonName, PlainNameError};
use ringfence_store::StoreError;

use super::person::{Identity, IdentityError};

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
    /// Nobody of that name.
    #[error("agent `{0}` is not registered")]
    Unknown(String),
    /// Its record could not be read or made.
    #[error("the record of agent `{id}` at `{path}`: {source}")]
    File {
        /// The agent.
        id: String,
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Its record says something else.
    #[error("the record of agent `{id}` at `{path}`: {cause}")]
    Record {
        /// The agent.
        id: String,
        /// The file.
        path: PathBuf,
        /// What is wrong.
        cause: String,
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
            Self::Unknown(_) => "this version knows the local agent `me`; leave --agent out".into(),
            Self::File { source, path, .. } => ringfence_store::hint_for(source, path),
            Self::Record { path, .. } => format!("correct or remove `{}`", path.display()),
        }
    }
}
