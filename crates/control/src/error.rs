//! Why a run could not even be recorded, or its record not be ended. (What happens within a run is in its report.)

use ringfence_policy::ProfileError;
use ringfence_store::{StoreError, hint_for};

use crate::registry::RegistryError;

/// Nothing ran, or what ran could not be recorded.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The record could not be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Settings or a profile could not be read.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// A file of settings could not be read.
    #[error("{act} `{path}`: {source}")]
    File {
        /// What was tried.
        act: &'static str,
        /// On what.
        path: std::path::PathBuf,
        /// Why it failed.
        #[source]
        source: std::io::Error,
    },
    /// No such profile.
    #[error("there is no profile `{name}`; there are {known}")]
    NoProfile {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// Another profile goes by this name in records and lists.
    #[error("`{path}` bears the name of the shipped profile `{name}` but says something else")]
    ShippedName {
        /// The file.
        path: std::path::PathBuf,
        /// The name.
        name: String,
    },
    /// The agent may not run.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The name of a run could not be made.
    #[error("no random bytes for the name of the run: {0}")]
    Random(std::io::Error),
}

impl RunError {
    /// What would help.
    pub fn hint(&self) -> String {
        match self {
            Self::Store(error) => error.hint(),
            Self::Profile(error) => error.fix.clone(),
            Self::File { act: "write" | "prepare the image", source, path } => hint_for(source, path),
            Self::File { .. } => "look at the file named above".into(),
            Self::NoProfile { .. } => "name one of these, or the path of a file that ends in .toml".into(),
            Self::ShippedName { name, .. } => format!("give it a name of its own, such as `name = \"my-{name}\"`"),
            Self::Registry(error) => error.hint(),
            Self::Random(_) => "this host has no source of random bytes".into(),
        }
    }
}
