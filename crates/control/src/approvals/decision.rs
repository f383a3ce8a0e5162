//! What a person signs: a statement about one request and what was shown of it. It holds wherever it is kept, by the person's public key alone.

use ringfence_evidence::{Digest, PublicKey, SigningKey, Statement, Subject};
use serde::{Deserialize, Serialize};

use super::error::ApprovalError;

/// `predicateType` of a decision.
pub const DECISION_TYPE: &str = "urn:ringfence:decision:v1";
/// `predicateType` of a standing grant.
pub const STANDING_TYPE: &str = "urn:ringfence:standing-grant:v1";

/// What a person says of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    /// The approval.
    pub approval: String,
    /// Who.
    pub person: String,
    /// `approve` or `deny`.
    pub verdict: String,
    /// In the person's words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// When, by the person's clock, RFC 3339 in UTC.
    pub decided_at: String,
}

/// What a person agrees to ahead: only what is alike in every field that is named, never a change of protected paths.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StandingGrant {
    /// The grant.
    pub grant: String,
    /// Who gives it.
    pub person: String,
    /// The target.
    pub target: String,
    /// The agent.
    pub agent: String,
    /// The version of the agent, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<Digest>,
    /// The kind of artifact.
    pub kind: String,
    /// The most bytes of an artifact.
    pub most_bytes: u64,
    /// How often.
    pub uses: u32,
    /// Until when, RFC 3339 in UTC.
    pub until: String,
    /// Digest of the settings under which it was given: it holds under no other.
    pub policy: Digest,
}

/// Signs a decision about a request of this digest, of which this was shown.
pub(super) fn sign(decision: Decision, request: Digest, preview: Digest, key: &SigningKey) -> Result<String, ApprovalError> {
    let subject = vec![Subject::new(&decision.approval, request), Subject::new(super::PREVIEW, preview)];
    signed(&Statement::new(subject, DECISION_TYPE, decision), key)
}

/// Signs a standing grant.
pub(super) fn sign_standing(grant: StandingGrant, key: &SigningKey) -> Result<String, ApprovalError> {
    let subject = vec![Subject::new(&grant.target, grant.policy)];
    signed(&Statement::new(subject, STANDING_TYPE, grant), key)
}

fn signed<P: Serialize>(statement: &Statement<P>, key: &SigningKey) -> Result<String, ApprovalError> {
    let bytes = statement.sign(key).map_err(|e| ApprovalError::Sign(e.to_string()))?;
    String::from_utf8(bytes).map_err(|e| ApprovalError::Sign(e.to_string()))
}

/// The decision in an envelope, if `key` signed it and it is about exactly this request and what was shown of it.
pub(crate) fn open(envelope: &str, key: &PublicKey, request: &Digest, preview: &Digest) -> Result<Decision, String> {
    let statement: Statement<Decision> = Statement::open(envelope.as_bytes(), key, DECISION_TYPE)?;
    match statement.subject.as_slice() {
        [about, shown] if about.is(&statement.predicate.approval, request) && shown.is(super::PREVIEW, preview) => Ok(statement.predicate),
        _ => Err("is about another request".into()),
    }
}

/// The standing grant in an envelope, if `key` signed it.
pub(crate) fn open_standing(envelope: &str, key: &PublicKey) -> Result<StandingGrant, String> {
    Statement::<StandingGrant>::open(envelope.as_bytes(), key, STANDING_TYPE).map(|statement| statement.predicate)
}
