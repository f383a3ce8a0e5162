//! The seal of a run: a statement that names its events and its artifacts.

use serde::{Deserialize, Serialize};

use crate::EVENTS_FILE;
use crate::digest::Digest;
use crate::envelope::{Statement, Subject};
use crate::event::{ArtifactRecord, RunEnd};

/// `predicateType`: what a run of ringfence did.
pub const PREDICATE_TYPE: &str = "urn:ringfence:run:v1";

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

/// The statement of a run: the events, then the artifacts.
pub type RunStatement = Statement<Seal>;

impl RunStatement {
    /// The statement of a run whose events are `bytes`.
    pub fn of(bytes: &[u8], artifacts: &[ArtifactRecord], seal: Seal) -> Self {
        Self::over(Digest::of(bytes), artifacts, seal)
    }

    /// The statement of a run whose events have this digest.
    pub fn over(events: Digest, artifacts: &[ArtifactRecord], seal: Seal) -> Self {
        let events = Subject::new(EVENTS_FILE, events);
        let subject = std::iter::once(events).chain(artifacts.iter().map(|a| Subject::new(&a.path, a.sha256))).collect();
        Self::new(subject, PREDICATE_TYPE, seal)
    }
}
