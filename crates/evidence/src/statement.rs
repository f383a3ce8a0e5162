//! The seal: an in-toto Statement v1 in a DSSE envelope.
//! Sources: in-toto attestation framework, spec/v1/statement.md; DSSE, protocol.md and envelope.md.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::EVENTS_FILE;
use crate::canonical;
use crate::digest::Digest;
use crate::event::{ArtifactRecord, RunEnd};
use crate::key::SigningKey;

/// `_type` of the statement.
pub const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";
/// `predicateType`: what a run of ringfence did.
pub const PREDICATE_TYPE: &str = "urn:ringfence:run:v1";
/// `payloadType` of the envelope.
pub const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";

/// A file that the statement speaks of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    /// Its name.
    pub name: String,
    /// Its digests by algorithm, in hexadecimal.
    pub digest: BTreeMap<String, String>,
}

impl Subject {
    fn new(name: &str, digest: Digest) -> Self {
        Self { name: name.to_owned(), digest: BTreeMap::from([("sha256".to_owned(), digest.hex())]) }
    }
}

/// What is said of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seal {
    /// The run.
    pub run: String,
    /// Number of events.
    pub events: u64,
    /// How the run ended.
    pub end: RunEnd,
    /// Version of ringfence that sealed it.
    pub version: String,
}

/// An in-toto statement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// Always [`STATEMENT_TYPE`].
    #[serde(rename = "_type")]
    pub statement_type: String,
    /// The events, then the artifacts.
    pub subject: Vec<Subject>,
    /// Always [`PREDICATE_TYPE`].
    #[serde(rename = "predicateType")]
    pub predicate_type: String,
    /// What is said.
    pub predicate: Seal,
}

impl Statement {
    /// The statement of a run whose events are `bytes`.
    pub fn of(bytes: &[u8], artifacts: &[ArtifactRecord], seal: Seal) -> Self {
        let events = Subject::new(EVENTS_FILE, Digest::of(bytes));
        let subject = std::iter::once(events).chain(artifacts.iter().map(|a| Subject::new(&a.path, a.sha256))).collect();
        Self { statement_type: STATEMENT_TYPE.into(), subject, predicate_type: PREDICATE_TYPE.into(), predicate: seal }
    }

    /// Signs the statement: the bytes of `statement.dsse.json`.
    pub fn sign(&self, key: &SigningKey) -> Result<Vec<u8>, serde_json::Error> {
        let payload = canonical(self)?;
        let signature = key.sign(&pre_authentication_encoding(PAYLOAD_TYPE, payload.as_bytes()));
        let envelope = Envelope {
            payload: STANDARD.encode(payload),
            payload_type: PAYLOAD_TYPE.into(),
            signatures: vec![EnvelopeSignature { keyid: key.public().id(), sig: STANDARD.encode(signature) }],
        };
        Ok(format!("{}\n", canonical(&envelope)?).into_bytes())
    }
}

/// A DSSE envelope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Envelope {
    /// The statement, in base 64.
    pub payload: String,
    /// Its type.
    #[serde(rename = "payloadType")]
    pub payload_type: String,
    /// Signatures over type and payload.
    pub signatures: Vec<EnvelopeSignature>,
}

/// A signature of an envelope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnvelopeSignature {
    /// Id of the key.
    pub keyid: String,
    /// The signature, in base 64.
    pub sig: String,
}

/// What a DSSE signature is over.
pub fn pre_authentication_encoding(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let mut bytes = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len()).into_bytes();
    bytes.extend_from_slice(payload);
    bytes
}
