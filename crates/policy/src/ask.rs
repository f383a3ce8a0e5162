//! What one run asks for: only what was named. What is not named is not asked, and stays at the bound.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::choices::{Sensitivity, Storage, Tier};
use crate::destination::Destination;
use crate::glob::Glob;
use crate::limits::Limits;
use crate::names::{WorkspacePath, text_type};
use crate::plain_name::StateName;

/// Why a variable's name was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvNameError {
    /// Not a name.
    #[error("`{0}` is not a variable name; write letters, digits and `_`, not starting with a digit")]
    Name(String),
}

/// The name of an environment variable.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EnvName(String);

impl EnvName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for EnvName {
    type Err = EnvNameError;

    fn from_str(text: &str) -> Result<Self, EnvNameError> {
        let is_name = text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') && !text.starts_with(|c: char| c.is_ascii_digit());
        match is_name && !text.is_empty() {
            true => Ok(Self(text.to_owned())),
            false => Err(EnvNameError::Name(text.escape_debug().to_string())),
        }
    }
}

impl fmt::Display for EnvName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

text_type!(EnvName: EnvNameError);

/// The request of one run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Ask {
    /// Names under which inputs appear in `/inputs`.
    pub inputs: Vec<String>,
    /// Whether a project is given.
    pub project: bool,
    /// Hidden files to show after all.
    pub reveal: Vec<WorkspacePath>,
    /// Variables to set (names only; values are never part of policy or evidence).
    pub environment: Vec<EnvName>,
    /// Destinations to reach.
    pub destinations: Vec<Destination>,
    /// Limits lower than the bound.
    pub limits: Limits,
    /// Artifacts to collect.
    pub exports: Vec<Glob>,
    /// At least this tier.
    pub tier: Option<Tier>,
    /// How sensitive the work is, at least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sensitivity: Option<Sensitivity>,
    /// Where to keep what is written; in memory if this is not named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<Storage>,
    /// The state to begin with, and to keep what is written in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<StateName>,
    /// Files of an earlier session to begin with.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub from_session: bool,
    /// No network and no packages, whatever the bound is.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub without_network: bool,
}
