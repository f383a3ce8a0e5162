//! Why a promotion could not be begun, or not gone on with. (How one ended is its state, not an error.)

use std::io;
use std::path::PathBuf;

use ringfence_patch::{ApplyError, PatchError};
use ringfence_store::{StoreError, hint_for};

use crate::approvals::ApprovalError;
use crate::error::RunError;
use crate::registry::RegistryError;

/// What does not fit, so that the promotion ends here.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    /// The patch is not one that may pass.
    #[error("{0}")]
    Patch(PatchError),
    /// It cannot be laid out as files.
    #[error("what it makes cannot be laid out for checks: {0}")]
    Layout(String),
    /// It does not fit the base.
    #[error("{0}")]
    Apply(ApplyError),
}

impl Unfit {
    /// What does not fit, and what would mend it.
    pub(super) fn in_full(&self) -> String {
        let hint = match self {
            Self::Patch(error) => error.hint(),
            Self::Apply(error) => error.hint(),
            Self::Layout(_) => Some("shorten its paths; a test that becomes a folder is a change of its own"),
        };
        hint.map_or_else(|| self.to_string(), |hint| format!("{self}; {hint}"))
    }
}

/// Nothing was promoted by this call.
#[derive(Debug, thiserror::Error)]
pub enum PromotionError {
    /// No run made such an artifact.
    #[error("no run here made artifact `{0}`")]
    NoArtifact(String),
    /// Several runs made the same bytes, under other names or by other agents.
    #[error("these bytes were made more than once: {named}")]
    SeveralMade {
        /// By which runs, as what.
        named: String,
    },
    /// The artifact's bytes are others.
    #[error("artifact `{0}` is not what was exported: the store was changed")]
    Altered(String),
    /// The record of its run does not hold.
    #[error("the record of run `{run}`, which made the artifact, does not hold: {cause}")]
    Record {
        /// The run.
        run: String,
        /// What is wrong.
        cause: String,
    },
    /// No such target.
    #[error("there is no target `{name}`; there are {known}")]
    NoTarget {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// The artifact cannot go there.
    #[error("{rule}")]
    NotTaken {
        /// The rule.
        rule: String,
        /// What would allow it.
        hint: String,
    },
    /// No such promotion.
    #[error("there is no promotion `{0}` here")]
    NoPromotion(String),
    /// It cannot be taken back.
    #[error("promotion `{id}` cannot be undone: {cause}")]
    NotUndone {
        /// Which.
        id: String,
        /// Why.
        cause: String,
    },
    /// It is too late to withdraw it.
    #[error("promotion `{id}` can no longer be withdrawn: it is {state}")]
    NotWithdrawn {
        /// Which.
        id: String,
        /// Where it stands.
        state: String,
    },
    /// Does not fit.
    #[error(transparent)]
    Unfit(Unfit),
    /// There is no git.
    #[error("git cannot be started: {source}")]
    NoGit {
        /// Why.
        #[source]
        source: io::Error,
    },
    /// git failed.
    #[error("git {act}: {cause}")]
    Git {
        /// Its command.
        act: String,
        /// What it said.
        cause: String,
    },
    /// The repository cannot be reached.
    #[error("the repository `{repository}` cannot be reached: {cause}")]
    Unreachable {
        /// Which.
        repository: String,
        /// What git said.
        cause: String,
    },
    /// The branch is not there.
    #[error("the repository `{repository}` has no branch `{branch}`")]
    NoBranch {
        /// The repository.
        repository: String,
        /// The branch.
        branch: String,
    },
    /// A file could not be used.
    #[error("{act} `{path}`: {source}")]
    File {
        /// What was tried.
        act: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// A check may not run.
    #[error("check `{check}` cannot run: {rule}")]
    NoCheck {
        /// Which.
        check: String,
        /// The rule.
        rule: String,
        /// What would allow it.
        hint: String,
    },
    /// A check could not be run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The registry says no.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// Somebody asked to stop.
    #[error("interrupted; asking again goes on")]
    Interrupted,
    /// Approvals cannot be counted.
    #[error(transparent)]
    Approval(#[from] ApprovalError),
    /// Nothing can be remembered.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A document of ours does not read.
    #[error("the record of promotion `{id}` does not read: {cause}")]
    Document {
        /// Which.
        id: String,
        /// What is wrong.
        cause: String,
    },
}

impl PromotionError {
    /// What would help.
    pub fn hint(&self) -> String {
        match self {
            Self::NoArtifact(_) => "see `ringfence artifact ls`".into(),
            Self::Altered(_) | Self::Record { .. } | Self::Document { .. } => "run the agent again: what was changed proves nothing".into(),
            Self::SeveralMade { .. } => "say which is meant: RUN/PATH in place of the digest".into(),
            Self::NoTarget { .. } => "name one of these, or add it to ringfence.toml, such as [targets.main]".into(),
            Self::NotTaken { hint, .. } | Self::NoCheck { hint, .. } => hint.clone(),
            Self::NoPromotion(_) => "see `ringfence promotion ls`".into(),
            Self::NotWithdrawn { .. } => "what took effect can be taken back: `ringfence promotion undo`".into(),
            Self::NotUndone { .. } => "`ringfence promotion show` says where it stands".into(),
            Self::Unfit(Unfit::Patch(error)) => {
                error.hint().unwrap_or("make the patch with `git diff`, or export `changes.patch`").to_owned()
            }
            Self::Unfit(Unfit::Apply(_) | Unfit::Layout(_)) => "run the agent again on the base as it is now".into(),
            Self::NoGit { .. } => "install git; it must be in PATH".into(),
            Self::Git { .. } => "what git says above names the cause; the target was not changed by this".into(),
            Self::Unreachable { cause, .. } if cause.contains("dubious ownership") => {
                "promote as the user to whom the repository belongs: git runs its hooks with the rights of whoever pushes".into()
            }
            Self::Unreachable { .. } => "try what git says above by hand; asking again goes on where this stopped".into(),
            Self::NoBranch { .. } => "make the branch, or correct `branch` of the target in ringfence.toml".into(),
            Self::File { source, path, .. } => hint_for(source, path),
            Self::Run(error) => error.hint(),
            Self::Registry(error) => error.hint(),
            Self::Store(error) => error.hint(),
            Self::Interrupted => "run the same command again".into(),
            Self::Approval(error) => error.hint(),
        }
    }
}
