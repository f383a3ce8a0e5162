//! DSSE envelopes and in-toto statements: what is signed, whatever it says, and opening it again.
//! Sources: in-toto attestation framework, spec/v1/statement.md; DSSE, protocol.md and envelope.md.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::canonical;
use crate::digest::Digest;
use crate::key::{PublicKey, SigningKey};

/// `_type` of a statement.
pub const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";
/// `payloadType` of an envelope that holds a statement.
pub const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";

/// Something that a statement speaks of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    /// Its name.
    pub name: String,
    /// Its digests by algorithm, in hexadecimal.
    pub digest: BTreeMap<String, String>,
}

impl Subject {
    /// Something known by the SHA-256 of its bytes.
    pub fn new(name: &str, digest: Digest) -> Self {
        Self::known_by(name, "sha256", digest.hex())
    }

    /// Something known by another digest, such as `gitTree` or `gitCommit`.
    pub fn known_by(name: &str, algorithm: &str, value: String) -> Self {
        Self { name: name.to_owned(), digest: BTreeMap::from([(algorithm.to_owned(), value)]) }
    }

    /// True if this is `name` with that SHA-256.
    pub fn is(&self, name: &str, digest: &Digest) -> bool {
        self.name == name && self.digest.get("sha256") == Some(&digest.hex())
    }
}

/// An in-toto statement, whose predicate is `P`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement<P> {
    /// Always [`STATEMENT_TYPE`].
    #[serde(rename = "_type")]
    pub statement_type: String,
    /// What it speaks of.
    pub subject: Vec<Subject>,
    /// What kind of thing it says.
    #[serde(rename = "predicateType")]
    pub predicate_type: String,
    /// What it says.
    pub predicate: P,
}

impl<P: Serialize> Statement<P> {
    /// A statement of one kind about some subjects.
    pub fn new(subject: Vec<Subject>, predicate_type: &str, predicate: P) -> Self {
        Self { statement_type: STATEMENT_TYPE.into(), subject, predicate_type: predicate_type.into(), predicate }
    }

    /// Signs the statement: the bytes of an envelope's file.
    pub fn sign(&self, key: &SigningKey) -> Result<Vec<u8>, serde_json::Error> {
        Envelope::seal(canonical(self)?.as_bytes(), key).to_bytes()
    }
}

impl<P: DeserializeOwned> Statement<P> {
    /// Opens an envelope that `key` signed and that holds a statement of `predicate_type`, or says what is wrong with it.
    pub fn open(bytes: &[u8], key: &PublicKey, predicate_type: &str) -> Result<Self, String> {
        let payload = Envelope::open(bytes, key)?;
        let statement: Self = serde_json::from_slice(&payload).map_err(|e| format!("is not a statement: {e}"))?;
        let is_ours = statement.statement_type == STATEMENT_TYPE && statement.predicate_type == predicate_type;
        if is_ours { Ok(statement) } else { Err("is a statement of another type".into()) }
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

impl Envelope {
    /// Signs a payload.
    fn seal(payload: &[u8], key: &SigningKey) -> Self {
        let signature = key.sign(&pre_authentication_encoding(PAYLOAD_TYPE, payload));
        Self {
            payload: STANDARD.encode(payload),
            payload_type: PAYLOAD_TYPE.into(),
            signatures: vec![EnvelopeSignature { keyid: key.public().id(), sig: STANDARD.encode(signature) }],
        }
    }

    fn to_bytes(&self) -> Result<Vec<u8>, serde_json::Error> {
        Ok(format!("{}\n", canonical(self)?).into_bytes())
    }

    /// The payload of a file that is in canonical form and signed by `key` alone; else what is wrong with it.
    fn open(bytes: &[u8], key: &PublicKey) -> Result<Vec<u8>, String> {
        let envelope: Self = serde_json::from_slice(bytes).map_err(|e| format!("is not a DSSE envelope: {e}"))?;
        if envelope.to_bytes().map_err(|e| e.to_string())? != bytes {
            return Err("is not in canonical form".into());
        }
        let [signature] = envelope.signatures.as_slice() else { return Err("does not have exactly one signature".into()) };
        if signature.keyid != key.id() {
            return Err(format!("is signed by key {}, not by the given key {}", short(&signature.keyid), short(&key.id())));
        }
        if envelope.payload_type != PAYLOAD_TYPE {
            return Err("has a payload of another type".into());
        }
        let payload = STANDARD.decode(&envelope.payload).map_err(|_| "has a payload that is not base 64")?;
        let sig = STANDARD.decode(&signature.sig).map_err(|_| "has a signature that is not base 64")?;
        match key.verifies(&pre_authentication_encoding(PAYLOAD_TYPE, &payload), &sig) {
            true => Ok(payload),
            false => Err("the signature does not match".into()),
        }
    }
}

/// What a DSSE signature is over.
pub fn pre_authentication_encoding(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let mut bytes = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len()).into_bytes();
    bytes.extend_from_slice(payload);
    bytes
}

fn short(id: &str) -> String {
    id.chars().take(16).collect()
}
