//! The answers of an audit: `--format json` prints them. Its JSON Schema is in docs/reference.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An audit of one profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Audit {
    /// The profile.
    pub profile: String,
    /// The tier that was measured.
    pub tier: String,
    /// The image that was seen, with its digest.
    pub image: String,
    /// Release of the host's kernel.
    pub kernel: String,
    /// Who ran it: `root` or `ordinary`.
    pub user: String,
    /// The runs of the probe, each on record.
    pub runs: Vec<String>,
    /// How many items were not as declared.
    pub differences: u64,
    /// The answers to the eight questions, in their order.
    pub answers: Vec<Answer>,
}

/// The answer to one question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// The question's number, from 1.
    pub number: u8,
    /// The question.
    pub question: String,
    /// What was declared and measured.
    pub items: Vec<Item>,
}

/// One thing that was declared, and what was measured of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Item {
    /// What it is about.
    pub capability: String,
    /// What the profile and the plan say.
    pub declared: String,
    /// What the probe, or the host afterwards, found.
    pub measured: String,
    /// Whether the two agree.
    pub is_as_declared: bool,
    /// Whether it was measured. What was not says why, and is no difference.
    pub is_measured: bool,
}

impl Item {
    pub(crate) fn new(capability: &str, declared: impl Into<String>, measured: impl Into<String>, is_as_declared: bool) -> Self {
        Self { capability: capability.to_owned(), declared: declared.into(), measured: measured.into(), is_as_declared, is_measured: true }
    }

    /// What is declared and cannot be measured from inside of this host.
    pub(crate) fn unmeasured(capability: &str, declared: impl Into<String>, why: &str) -> Self {
        Self { is_measured: false, ..Self::new(capability, declared, format!("not measured: {why}"), true) }
    }

    /// Nothing but what is declared: `extra` is what else was found.
    pub(crate) fn nothing_else(capability: &str, declared: impl Into<String>, extra: &[String]) -> Self {
        let measured = if extra.is_empty() { "nothing else".to_owned() } else { format!("also {}", extra.join(", ")) };
        Self::new(capability, declared, measured, extra.is_empty())
    }

    /// Nothing at all: `found` is what there was.
    pub(crate) fn nothing(capability: &str, declared: impl Into<String>, found: &[String]) -> Self {
        let measured = if found.is_empty() { "nothing".to_owned() } else { found.join(", ") };
        Self::new(capability, declared, measured, found.is_empty())
    }
}
