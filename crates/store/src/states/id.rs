//! Names of kept states, which are made as those of runs are: they sort by the time at which they were saved.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::run_id::RunId;

/// Why the id of a state was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the id of a state; it has 26 letters and digits, such as `01kbdz9xk3v8p5r0q2n7m4t6w1`")]
pub struct StateIdError(String);

/// The id of one kept state. What is saved under the same name again has another one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StateId(RunId);

impl StateId {
    /// A new id.
    pub fn new() -> Result<Self, std::io::Error> {
        RunId::new().map(Self)
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl FromStr for StateId {
    type Err = StateIdError;

    fn from_str(text: &str) -> Result<Self, StateIdError> {
        text.parse().map(Self).map_err(|_| StateIdError(text.escape_debug().to_string()))
    }
}

impl fmt::Display for StateId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
