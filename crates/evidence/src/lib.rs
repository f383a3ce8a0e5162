//! What did a run do?
//!
//! A run leaves a folder with two files: `events.jsonl`, a chain of events, each line holding the digest of the one before; and, once the run is
//! over, `statement.dsse.json`, an in-toto Statement in a signed DSSE envelope that names the events and every artifact by digest. This
//! crate holds the format, the chain, the seal and their verification. It is pure: bytes in, bytes out; `store` writes and flushes.
#![forbid(unsafe_code)]

mod attestation;
mod chain;
mod digest;
mod envelope;
mod event;
mod key;
mod statement;
mod verify;

pub use attestation::{
    BuildDefinition, PROVENANCE_TYPE, Provenance, ResourceDescriptor, RunDetails, TEST_RESULT_TYPE, TestResult, provenance,
};
pub use chain::{Chain, ChainError, Line, read_chain};
pub use digest::{Digest, DigestError};
pub use envelope::{Envelope, EnvelopeSignature, PAYLOAD_TYPE, STATEMENT_TYPE, Statement, Subject, pre_authentication_encoding};
pub use event::{ArtifactRecord, ClosedBy, Event, ExchangeRecord, InputRecord, PackageRecord, RunEnd, StreamRecord, UsageRecord};
pub use key::{KeyError, PublicKey, SigningKey};
pub use statement::{PREDICATE_TYPE, RunStatement, Seal};
pub use verify::{Verified, VerifyError, verify};

/// The file that holds the events.
pub const EVENTS_FILE: &str = "events.jsonl";
/// The file that holds the signed statement.
pub const STATEMENT_FILE: &str = "statement.dsse.json";

/// The one form in which a value is written: JSON without white space, keys in order of their bytes.
pub fn canonical<T: serde::Serialize>(value: &T) -> Result<String, serde_json::Error> {
    // A map of serde_json is ordered by key.
    serde_json::to_value(value).and_then(|value| serde_json::to_string(&value))
}
