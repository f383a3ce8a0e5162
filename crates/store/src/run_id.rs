//! Names of runs: 26 characters that sort by the time at which the run was requested (48 bits of milliseconds, 80 random bits, in Crockford's
//! base 32, lower case, as in the ULID specification).

use std::fmt;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Why a name was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the name of a run; it has 26 letters and digits, such as `01kbdz9xk3v8p5r0q2n7m4t6w1`")]
pub struct RunIdError(String);

/// The name of a run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunId(String);

impl RunId {
    /// A new name.
    pub fn new() -> Result<Self, std::io::Error> {
        let millis = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis());
        let mut random = [0u8; 10];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
        let random = random.iter().fold(0u128, |value, byte| value << 8 | u128::from(*byte));
        let value = (millis & 0xFFFF_FFFF_FFFF) << 80 | random;
        let digit = |place: u32| char::from(DIGITS[(value >> (5 * place)) as usize & 31]);
        Ok(Self((0..26).rev().map(digit).collect()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for RunId {
    type Err = RunIdError;

    fn from_str(text: &str) -> Result<Self, RunIdError> {
        match text.len() == 26 && text.bytes().all(|b| DIGITS.contains(&b)) {
            true => Ok(Self(text.to_owned())),
            false => Err(RunIdError(text.escape_debug().to_string())),
        }
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for RunId {
    type Error = RunIdError;

    fn try_from(text: String) -> Result<Self, RunIdError> {
        text.parse()
    }
}

impl From<RunId> for String {
    fn from(run: RunId) -> Self {
        run.0
    }
}
