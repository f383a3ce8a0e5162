//! What can go wrong with a home.

use std::io;
use std::path::{Path, PathBuf};

/// Why something could not be remembered, or read again.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file or folder could not be used.
    #[error("{act} `{path}`: {source}")]
    Io {
        /// What was tried.
        act: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// The home was made by a newer version.
    #[error("`{path}` was made by a newer ringfence (format {found}; this one knows {known})")]
    Newer {
        /// The home.
        path: PathBuf,
        /// Its format.
        found: String,
        /// Ours.
        known: u32,
    },
    /// The home is somebody else's, or open to others.
    #[error("`{path}` {cause}")]
    Loose {
        /// The home.
        path: PathBuf,
        /// What is wrong.
        cause: String,
    },
    /// A file or folder that holds keys is open to others.
    #[error("`{path}` {cause}")]
    Open {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        cause: String,
    },
    /// A run is not there.
    #[error("there is no run `{0}` here")]
    NoRun(String),
    /// An artifact is not there.
    #[error("there is no artifact `{0}` here")]
    NoArtifact(String),
    /// A key file holds something else.
    #[error("`{path}` does not hold a key: {cause}")]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        cause: String,
    },
    /// A private key cannot be made there.
    #[error("`{path}` cannot be the place of a private key: {cause}")]
    KeyPlace {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        cause: String,
    },
    /// A document of the registry does not read.
    #[error("`{path}` does not read: {cause}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        cause: String,
    },
    /// Another process has the registry for too long.
    #[error("the registry is in use: `{path}` is locked by another process")]
    Busy {
        /// The lock.
        path: PathBuf,
    },
    /// Somebody else uses a named state.
    #[error("state `{name}` is in use by {by}")]
    StateInUse {
        /// Its name.
        name: String,
        /// Who uses it.
        by: String,
    },
    /// A tenant keeps as much as it may.
    #[error("tenant `{tenant}` keeps {count} states of {bytes} bytes in all, and may keep {most_count} of {most_bytes} bytes")]
    StatesFull {
        /// The tenant.
        tenant: String,
        /// How many it keeps, beside the one that would be replaced.
        count: u64,
        /// Their bytes.
        bytes: u64,
        /// The most.
        most_count: u64,
        /// The most bytes.
        most_bytes: u64,
    },
    /// A stored credential, or the key of them, does not read.
    #[error("`{path}` does not read: {cause}")]
    Credential {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        cause: String,
    },
    /// The record of a run does not read.
    #[error("the record of run `{run}` does not read: {cause}")]
    Record {
        /// The run.
        run: String,
        /// What is wrong.
        cause: String,
    },
    /// The index could not be used.
    #[error("index `{path}`: {cause}")]
    Index {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        cause: String,
    },
}

impl StoreError {
    /// What would help.
    pub fn hint(&self) -> String {
        match self {
            Self::Io { source, path, .. } => hint_for(source, path),
            Self::Newer { .. } => "use that newer version, or another RINGFENCE_HOME".to_owned(),
            Self::Loose { path, .. } => format!("use a RINGFENCE_HOME of your own with mode 700: chmod 700 `{}`", path.display()),
            Self::Open { .. } => "let nobody but yourself use it; if others could, revoke the keys: `ringfence key ls`".to_owned(),
            Self::NoRun(_) => "see `ringfence evidence ls`".to_owned(),
            Self::NoArtifact(_) => "see `ringfence artifact ls`".to_owned(),
            Self::Key { .. } => "name a file that holds a key in PEM form; a private one has mode 600".to_owned(),
            Self::KeyPlace { .. } => {
                "name another file with --key; a private key is kept outside of RINGFENCE_HOME, and none is ever replaced".to_owned()
            }
            Self::Damaged { .. } => {
                "the file was changed or damaged; put a whole copy of it back, for nothing is decided by a record that does not read"
                    .to_owned()
            }
            Self::Busy { .. } => "wait until the other ringfence is done, or end it if it hangs".to_owned(),
            Self::StateInUse { .. } => {
                "one run at a time has a state: wait until that one has ended, end it, or name another state".to_owned()
            }
            Self::StatesFull { .. } => {
                "remove states that are not needed any more, or ask the operator for more: `max-count` and `max-bytes` under [state] in ringfence.toml"
                    .to_owned()
            }
            Self::Credential { .. } => {
                "give the key that sealed it (RINGFENCE_CREDENTIAL_KEY, RINGFENCE_CREDENTIAL_KEY_FILE or the keyring), or set it again"
                    .to_owned()
            }
            Self::Record { .. } => "the folder of the run was changed or damaged; `ringfence evidence verify` says where".to_owned(),
            Self::Index { path, .. } if path.ends_with("server.sqlite") || path.ends_with("authority.sqlite") => {
                "another ringfence has it for too long, or it is damaged; it cannot be made anew, so put a whole copy of it back".to_owned()
            }
            Self::Index { path, .. } => format!("remove `{}`: it is made anew from the runs", path.display()),
        }
    }
}

/// What would help where a file of a home cannot be read or written.
pub fn hint_for(source: &io::Error, path: &Path) -> String {
    match source.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "set RINGFENCE_HOME to a folder that you can write to".to_owned()
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            format!(
                "make room on the file system of `{}`; nothing starts that cannot be recorded, and what was started is sealed once there is room",
                path.display()
            )
        }
        _ => "look at the file named above".to_owned(),
    }
}

/// Names the act and the path of an I/O error.
pub(crate) trait At<T> {
    fn at(self, act: &'static str, path: &Path) -> Result<T, StoreError>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, act: &'static str, path: &Path) -> Result<T, StoreError> {
        self.map_err(|source| StoreError::Io { act, path: path.to_owned(), source })
    }
}
