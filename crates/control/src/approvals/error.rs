//! Why nothing was decided.

use std::path::PathBuf;

use ringfence_store::StoreError;

use crate::registry::RegistryError;

/// Nothing was decided by this call.
#[derive(Debug, thiserror::Error)]
pub enum ApprovalError {
    /// No such approval.
    #[error("there is no approval `{0}` here")]
    NoApproval(String),
    /// No such standing grant that could still be used.
    #[error("there is no standing grant `{0}` that can be withdrawn")]
    NoStanding(String),
    /// It is over.
    #[error("approval `{id}` can no longer be decided: it is {state}{cause}")]
    Over {
        /// Which.
        id: String,
        /// How it ended.
        state: String,
        /// Why, after a colon.
        cause: String,
    },
    /// The person has said so before.
    #[error("`{person}` has said `{verdict}` to approval `{id}` before; an approval counts different persons")]
    Before {
        /// Which.
        id: String,
        /// Who.
        person: String,
        /// What.
        verdict: String,
    },
    /// The person may not decide about it.
    #[error("{0}")]
    Barred(String),
    /// What is shown is not what was asked.
    #[error("approval `{id}`: {cause}")]
    Altered {
        /// Which.
        id: String,
        /// What differs.
        cause: String,
    },
    /// What a person signed elsewhere is no decision about this.
    #[error("what was handed in is no decision of `{person}` about approval `{id}`: {cause}")]
    Unfit {
        /// Which.
        id: String,
        /// Whose it should be.
        person: String,
        /// What is wrong with it.
        cause: String,
    },
    /// A standing grant that cannot be given.
    #[error("{0}")]
    Grant(String),
    /// Nothing could be signed.
    #[error("the decision could not be signed: {0}")]
    Sign(String),
    /// The preview cannot be read.
    #[error("read `{path}`: {source}")]
    Preview {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The registry says no.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// Nothing can be remembered.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ApprovalError {
    /// What would help.
    pub fn hint(&self) -> String {
        match self {
            Self::NoApproval(_) => "see `ringfence approval ls`".into(),
            Self::NoStanding(_) => "see `ringfence approval ls --standing`".into(),
            Self::Over { state, .. } if state == "approved" => "enough have agreed: `ringfence promote` does the rest".into(),
            Self::Over { .. } => "ask for the promotion anew: `ringfence promote`".into(),
            Self::Before { .. } => {
                "somebody else must agree; a yes can be taken back with `ringfence approval deny` until it is used".into()
            }
            Self::Barred(_) => "see `groups` and `exclude-owner` of the target in ringfence.toml, and `ringfence person ls`".into(),
            Self::Altered { .. } => "nothing can be decided about it: ask for it anew, which ends this one".into(),
            Self::Unfit { .. } => {
                "sign the statement about the request and the preview as they are now, with the person's own registered key".into()
            }
            Self::Grant(_) => "a standing grant names one target, one agent and one kind, at most 100 uses and 90 days".into(),
            Self::Sign(_) => "the key's file may be damaged".into(),
            Self::Preview { .. } => "the promotion's folder was changed; ask for it anew".into(),
            Self::Registry(error) => error.hint(),
            Self::Store(error) => error.hint(),
        }
    }
}
