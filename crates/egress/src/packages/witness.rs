//! Who is told: of each file before its first byte goes inside, and of what was refused.

use ringfence_policy::Ecosystem;

use super::rules::Rule;
use crate::witness::Unrecorded;

/// What was decided about a file or a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PackageDecision {
    /// The file goes inside.
    Served,
    /// It does not.
    Refused {
        /// By which rule.
        rule: Rule,
    },
}

/// One decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageEvent {
    /// The ecosystem.
    pub ecosystem: Ecosystem,
    /// The package, in its canonical form.
    pub name: String,
    /// The version; empty where a name alone was decided on.
    pub version: String,
    /// The file; empty where a name or version alone was decided on.
    pub file: String,
    /// What was decided.
    pub decision: PackageDecision,
    /// The SHA-256 of the bytes, in digits; none where there were none.
    pub sha256: Option<String>,
    /// Where the file is from, without credentials and query; none where nothing was asked.
    pub source: Option<String>,
    /// True if the bytes were kept from earlier.
    pub is_from_cache: bool,
    /// How many bytes.
    pub bytes: u64,
}

/// Somebody who records. What cannot be recorded is not served.
pub trait PackageWitness: Send + Sync {
    /// Records one event before it takes effect.
    fn tell(&self, event: PackageEvent) -> Result<(), Unrecorded>;
}
