//! Why a server did not do what it was asked, and what would help.

use std::path::PathBuf;

use serde::Deserialize;

/// What goes wrong between this command line and a server.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RemoteError {
    /// The address is not one to which a key may go.
    #[error("--server: `{}` {why}", text.escape_debug())]
    Address {
        /// The address, as it was written.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// There is no key.
    #[error("there is no key for {server}")]
    NoKey {
        /// The server.
        server: String,
    },
    /// The key cannot be one.
    #[error("RINGFENCE_API_KEY holds something that is no key")]
    Key,
    /// The certificates could not be read.
    #[error("--server-ca: `{}`: {why}", path.display())]
    Certificates {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// The client could not be made.
    #[error("a client of the server cannot be made: {0}")]
    Client(String),
    /// The server could not be asked.
    #[error("asking {server}: {}", causes(source))]
    Unreachable {
        /// The server.
        server: String,
        /// Why.
        #[source]
        source: reqwest::Error,
    },
    /// The server says what is wrong.
    #[error("{}", .0.detail)]
    Problem(Problem),
    /// The server answers with a status and does not say what is wrong, or somebody else answers.
    #[error("{server} answered with status {status}")]
    Status {
        /// The server.
        server: String,
        /// The status.
        status: u16,
    },
    /// The answer is not of the form that is known here.
    #[error("the answer of {server} is not understood: {source}")]
    Answer {
        /// The server.
        server: String,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// The answer is larger than is read.
    #[error("the answer of {server} is larger than {most} bytes")]
    TooLarge {
        /// The server.
        server: String,
        /// Bytes that are read.
        most: u64,
    },
    /// The server has gone silent, or broken off.
    #[error("{server} broke off before the end")]
    BrokenOff {
        /// The server.
        server: String,
    },
    /// Bytes that came are not those that were asked for.
    #[error("what {server} sent is not {digest}")]
    OtherBytes {
        /// The server.
        server: String,
        /// The digest by which they were asked for.
        digest: String,
    },
    /// A file or stream of this host failed.
    #[error("{act}: {source}")]
    Local {
        /// What was done.
        act: String,
        /// Why it failed.
        #[source]
        source: std::io::Error,
    },
}

/// What a server says is wrong: the part of `application/problem+json` that is told to a person.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Problem {
    /// A word that stays the same.
    pub(crate) code: String,
    /// What is wrong this time.
    pub(crate) detail: String,
    /// What would help.
    #[serde(default)]
    pub(crate) hint: String,
}

impl RemoteError {
    /// What would help.
    pub(crate) fn hint(&self) -> String {
        match self {
            Self::Address { .. } => "such as --server https://fence.example.com, or http://127.0.0.1:7300 for this host".into(),
            Self::NoKey { .. } => {
                "set RINGFENCE_API_KEY to a key of the server (`ringfence key add` makes one); it is never an argument".into()
            }
            Self::Key => "a key is `rf_` and 64 digits, as `ringfence key add` printed it".into(),
            Self::Certificates { .. } => "name a file with certificates in PEM form".into(),
            Self::Client(_) => "certificates of this host may be missing: name some with --server-ca FILE".into(),
            Self::Unreachable { source, .. } if source.is_connect() => {
                "see that the server runs and is reached from here; --server-ca FILE names certificates beside those of this host".into()
            }
            Self::Unreachable { .. } | Self::BrokenOff { .. } => {
                "ask again; what was begun goes on, and the server's record says how it ended".into()
            }
            Self::Problem(problem) => problem.hint.clone(),
            Self::Status { .. } => "see that --server names a ringfence server itself, and no proxy before it".into(),
            Self::Answer { .. } | Self::TooLarge { .. } => "see that the server and this program are of the same version".into(),
            Self::OtherBytes { .. } => "nothing was kept of it; tell the operator of the server".into(),
            Self::Local { .. } => "see that the file can be read or made, and that there is room".into(),
        }
    }

    /// True if the server says so by this word.
    pub(crate) fn is_problem(&self, code: &str) -> bool {
        matches!(self, Self::Problem(problem) if problem.code == code)
    }
}

/// An error with what lies behind it: the client's own words say little.
fn causes(error: &reqwest::Error) -> String {
    let mut last: &dyn std::error::Error = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    last.to_string()
}
