//! What the probe of an audit says: facts, and no judgement.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

/// One thing that was tried inside a sandbox, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// What was tried, as the probe was told: `VERB=OPERAND`.
    pub tried: Vec<u8>,
    /// The kernel's error number, 0 where it worked.
    pub errno: i32,
    /// What was found: a text, names a line, or a number, as the verb has it.
    pub found: Vec<u8>,
}
