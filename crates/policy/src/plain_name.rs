//! Names that stand in file names, records and on terminals: of persons, groups, agents, targets and states. One form for all of them, so that none can be mistaken for a
//! path, an option or a control sequence.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::names::text_type;

/// Why a name was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not the name of {what}; write lower-case letters, digits, `.`, `-` and `_`, at most 64, a letter or a digit first")]
pub struct PlainNameError {
    text: String,
    what: &'static str,
}

fn plain(text: &str, what: &'static str) -> Result<String, PlainNameError> {
    let is_first = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let is_plain = |b: u8| is_first(b) || b".-_".contains(&b);
    match text.bytes().next().is_some_and(is_first) && text.len() <= 64 && text.bytes().all(is_plain) {
        true => Ok(text.to_owned()),
        false => Err(PlainNameError { text: text.escape_debug().to_string(), what }),
    }
}

macro_rules! plain_name {
    ($(#[$doc:meta] $name:ident: $what:literal),*) => {$(
        #[$doc]
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = PlainNameError;

            fn from_str(text: &str) -> Result<Self, PlainNameError> {
                plain(text, $what).map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        text_type!($name: PlainNameError);
    )*};
}

plain_name!(
    /// The name of a person who answers for agents or approves.
    PersonName: "a person",
    /// The name of a group of persons.
    GroupName: "a group",
    /// The name of an agent.
    AgentId: "an agent",
    /// The name of a target.
    TargetName: "a target",
    /// The name of a state: of files that outlive the run that wrote them.
    StateName: "a state",
    /// The name of a tenant: of those who ask over the network, and see what is theirs alone.
    TenantName: "a tenant"
);

impl AgentId {
    /// The agent of whoever sits at this machine: `me`.
    pub fn local() -> Self {
        Self("me".to_owned())
    }

    /// True for `me`.
    pub fn is_local(&self) -> bool {
        self.0 == "me"
    }
}

impl TenantName {
    /// The tenant that is there from the first start of a server, and sees what the command line did: `default`.
    pub fn first() -> Self {
        Self("default".to_owned())
    }

    /// True for `default`.
    pub fn is_first(&self) -> bool {
        self.0 == "default"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_no_path_no_option_and_no_control_sequence() {
        for bad in ["", ".", "..", "-x", "_x", "a/b", "../x", "A", "a b", "a\x1b[31m", "é", "a\0", &"x".repeat(65)] {
            let refused = bad.parse::<PersonName>().unwrap_err().to_string();
            assert!(refused.contains("is not the name of a person") && !refused.contains('\x1b'), "{bad:?}: {refused}");
            assert!(serde_json::from_value::<AgentId>(bad.into()).is_err(), "{bad:?}");
        }
        for good in ["a", "0", "anna.b-c_d", &"x".repeat(64)] {
            assert_eq!(good.parse::<GroupName>().unwrap().as_str(), good);
        }
    }
}
