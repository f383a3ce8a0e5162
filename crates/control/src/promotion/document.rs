//! The documents of a promotion: what was asked, what was prepared, and where it is bound to. Each is kept in its one canonical form, by whose digest
//! the next one names it.

use std::collections::BTreeMap;

use ringfence_evidence::Digest;
use ringfence_patch::plain_or_quoted;
use ringfence_policy::{ArtifactKind, Target};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An artifact, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// Digest of its content.
    pub artifact: Digest,
    /// Its path in the workspace; `%` and bytes that are not UTF-8 stand as `%XX`.
    pub path: String,
    /// Bytes.
    pub bytes: u64,
    /// What kind of thing it is.
    pub kind: ArtifactKind,
    /// The run that made it.
    pub run: String,
    /// Digest of that run's evidence.
    pub evidence: Digest,
    /// How that run ended.
    pub end: String,
    /// The agent.
    pub agent: String,
    /// The version of the agent's record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<Digest>,
    /// Who answers for the agent.
    pub owner: String,
    /// The profile.
    pub profile: String,
    /// What was run; values equal to a known secret are masked.
    pub command: Vec<String>,
}

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// The promotion.
    pub promotion: String,
    /// What is to be promoted.
    pub what: Provenance,
    /// Where to: the target as the settings had it.
    pub target: Target,
    /// Digest of the settings.
    pub policy: Digest,
    /// Who asked.
    pub requested_by: String,
    /// When, RFC 3339 in UTC.
    pub requested_at: String,
    /// Why, in the words of who asked; it becomes the commit's message.
    pub message: String,
    /// The promotion that this one takes back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoes: Option<String>,
}

/// What a target holds, before or after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Content {
    /// A commit.
    Git {
        /// Its id.
        commit: String,
        /// The id of its tree.
        tree: String,
    },
    /// One file, or its absence.
    File {
        /// Its name in the folder.
        name: String,
        /// Digest of its content; nothing where there is no file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<String>")]
        sha256: Option<Digest>,
        /// Its permissions, in octal digits.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<String>,
    },
}

impl Content {
    /// In words, for a person.
    pub fn in_words(&self) -> String {
        match self {
            Self::Git { commit, tree } => format!("commit {commit}, tree {tree}"),
            Self::File { name, sha256: Some(sha256), mode } => {
                let mode = mode.as_deref().map(|mode| format!(", mode {mode}")).unwrap_or_default();
                format!("{} as {sha256}{mode}", plain_or_quoted(name.as_bytes()))
            }
            Self::File { name, sha256: None, .. } => format!("no {}", plain_or_quoted(name.as_bytes())),
        }
    }
}

/// What was prepared and tested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prepared {
    /// What the target held.
    pub base: Content,
    /// What it will hold.
    pub result: Content,
    /// Digest of the preview.
    pub preview: Digest,
    /// Files of evidence, by name.
    pub evidence: BTreeMap<String, Digest>,
    /// Paths whose change needs an approval of its own.
    pub protected: Vec<String>,
    /// The time of the commit, seconds since 1970.
    pub at: i64,
}
