//! What persons are asked to approve: one document, by whose digest a decision is bound to it.

use std::collections::BTreeMap;

use ringfence_evidence::{Digest, canonical};
use ringfence_policy::Consent;
use serde::{Deserialize, Serialize};

use crate::promotion::{Content, Provenance};

/// What an approval is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Matter {
    /// An artifact takes effect.
    Promotion {
        /// Digest of all that was asked.
        asked: Digest,
        /// What is to be promoted.
        what: Box<Provenance>,
        /// The promotion that it takes back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        undoes: Option<String>,
        /// The target's name.
        target: String,
        /// What the target holds.
        base: Box<Content>,
        /// What it will hold.
        result: Box<Content>,
        /// Files of evidence, by name.
        evidence: BTreeMap<String, Digest>,
        /// For an approval of its own: the paths that it is for.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        paths: Vec<String>,
    },
    /// A version of an agent becomes active.
    Agent {
        /// The agent.
        agent: String,
        /// Digest of its record.
        version: Digest,
        /// Who answers for it.
        owner: String,
    },
}

/// What persons are asked to approve. Its digest is what a decision signs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalRequest {
    /// The approval.
    pub approval: String,
    /// The promotion, or the agent.
    pub subject: String,
    /// What it is about.
    pub matter: Matter,
    /// Digest of the settings.
    pub policy: Digest,
    /// Who asked.
    pub requested_by: String,
    /// Digest of what is shown.
    pub preview: Digest,
    /// Who must agree.
    pub consent: Consent,
    /// Who does not count.
    pub excluded: Vec<String>,
    /// Until when it can be decided, RFC 3339 in UTC.
    pub decide_by: String,
}

impl ApprovalRequest {
    /// For an approval of its own: the paths that it is for.
    pub fn paths(&self) -> &[String] {
        match &self.matter {
            Matter::Promotion { paths, .. } => paths,
            Matter::Agent { .. } => &[],
        }
    }

    /// The one form in which it is kept, and its digest.
    pub(crate) fn text(&self) -> Result<(String, Digest), serde_json::Error> {
        let text = canonical(self)?;
        let digest = Digest::of(text.as_bytes());
        Ok((text, digest))
    }
}
