//! Whom commands run as: a name and, with it, the folder where they work.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::names::text_type;

/// The user of a sandbox: `agent`, whose home is `/workspace`, or another name `NAME`, whose home is `/home/NAME`. The home is the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct UserName(String);

/// The user where nobody names another.
const AGENT: &str = "agent";

/// Names that stand for somebody else in every image.
const TAKEN: &[&str] = &["root", "nobody", "nogroup"];

impl UserName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is the user of every image.
    pub fn is_agent(&self) -> bool {
        self.0 == AGENT
    }

    /// The folder where the user works.
    pub fn home(&self) -> String {
        if self.is_agent() { "/workspace".into() } else { format!("/home/{}", self.0) }
    }
}

impl Default for UserName {
    fn default() -> Self {
        Self(AGENT.into())
    }
}

impl FromStr for UserName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_first = |b: u8| b.is_ascii_lowercase();
        let is_plain = |b: u8| is_first(b) || b.is_ascii_digit() || b == b'-' || b == b'_';
        match text.bytes().next().is_some_and(is_first) && text.len() <= 32 && text.bytes().all(is_plain) && !TAKEN.contains(&text) {
            true => Ok(Self(text.to_owned())),
            false => Err(format!(
                "`{}` is not the name of a sandbox's user; write lower-case letters, digits, `-` and `_`, at most 32, a letter first, and not {}",
                text.escape_debug(),
                TAKEN.join(", ")
            )),
        }
    }
}

impl fmt::Display for UserName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

text_type!(UserName: String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_a_home_of_its_own() {
        assert_eq!(UserName::default().home(), "/workspace");
        assert_eq!("user".parse::<UserName>().unwrap_or_default().home(), "/home/user");
        for bad in ["", "root", "nobody", "Me", "1a", "a/b", "..", "a b", "ä", &"a".repeat(33)] {
            assert!(bad.parse::<UserName>().is_err(), "{bad}");
        }
    }
}
