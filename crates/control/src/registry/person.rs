//! What is known of a person: data, and the one form in which an identity is written.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use ringfence_evidence::PublicKey;
use ringfence_policy::{GroupName, PersonName};
use ringfence_store::Document;
use serde::{Deserialize, Serialize};

/// Why an identity was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an identity; write a login name or an e-mail address: letters, digits and `.@_+-$\\`, at most 254")]
pub struct IdentityError(String);

/// Who a person is elsewhere: a login name or an e-mail address, as it was written. Two that differ in the case of letters alone are one.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Identity(String);

impl Identity {
    /// The identity as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl PartialEq for Identity {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl Eq for Identity {}

impl FromStr for Identity {
    type Err = IdentityError;

    fn from_str(text: &str) -> Result<Self, IdentityError> {
        let is_allowed = |b: u8| b.is_ascii_alphanumeric() || b".@_+-$\\".contains(&b);
        match (1..=254).contains(&text.len()) && text.bytes().all(is_allowed) && !text.starts_with('-') {
            true => Ok(Self(text.to_owned())),
            false => Err(IdentityError(text.escape_debug().to_string())),
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Identity {
    type Error = IdentityError;

    fn try_from(text: String) -> Result<Self, IdentityError> {
        text.parse()
    }
}

impl From<Identity> for String {
    fn from(identity: Identity) -> Self {
        identity.0
    }
}

/// Whether a person's word counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PersonState {
    /// It does.
    Active,
    /// It does not any more. The name, the identity and the key stay taken.
    Inactive,
}

impl fmt::Display for PersonState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Active => "active",
            Self::Inactive => "inactive",
        })
    }
}

/// A person who answers for agents, or approves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Person {
    /// The name, by which everything here refers to the person.
    pub name: PersonName,
    /// Who that is elsewhere.
    pub identity: Identity,
    /// The groups.
    pub groups: BTreeSet<GroupName>,
    /// The public part of the person's key. The private part is in the person's own file and nowhere here.
    #[serde(rename = "public_key", with = "pem", default, skip_serializing_if = "Option::is_none")]
    pub key: Option<PublicKey>,
    /// Whether the person's word counts.
    pub state: PersonState,
    /// When the person was registered.
    pub added_at: String,
    /// When the person was retired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retired_at: Option<String>,
}

impl Person {
    /// True if the person's word counts.
    pub fn is_active(&self) -> bool {
        self.state == PersonState::Active
    }
}

impl Document for Person {
    const FOLDER: &'static str = "persons";

    fn name(&self) -> &str {
        self.name.as_str()
    }
}

/// A public key as PEM.
mod pem {
    use ringfence_evidence::PublicKey;
    use serde::de::Error as _;
    use serde::ser::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(key: &Option<PublicKey>, serializer: S) -> Result<S::Ok, S::Error> {
        key.as_ref().map(PublicKey::to_pem).transpose().map_err(S::Error::custom)?.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PublicKey>, D::Error> {
        let text: Option<String> = Option::deserialize(deserializer)?;
        text.map(|text| PublicKey::from_pem(&text)).transpose().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_that_differ_in_case_alone_are_one() {
        let identity = |text: &str| text.parse::<Identity>().unwrap();
        assert_eq!(identity("Anna@Example.com"), identity("anna@example.COM"));
        assert_ne!(identity("anna@example.com"), identity("anna@example.org"));
        for bad in ["", "-x", "a b", "a\x1b[1m", "änna", "a`b", &"x".repeat(255)] {
            let refused = bad.parse::<Identity>().unwrap_err().to_string();
            assert!(refused.contains("not an identity") && !refused.contains('\x1b'), "{refused}");
        }
    }

    #[test]
    fn a_person_reads_as_written_and_nothing_unknown_is_passed_over() {
        let key = ringfence_evidence::SigningKey::from_seed(&[7; 32]).public();
        let person = Person {
            name: "anna".parse().unwrap(),
            identity: "Anna@example.com".parse().unwrap(),
            groups: ["security".parse().unwrap()].into(),
            key: Some(key),
            state: PersonState::Active,
            added_at: "2026-01-01T00:00:00.000Z".into(),
            retired_at: None,
        };
        let text = serde_json::to_string(&person).unwrap();
        assert!(text.contains("BEGIN PUBLIC KEY") && text.contains("\"state\":\"active\""), "{text}");
        assert_eq!(serde_json::from_str::<Person>(&text).unwrap(), person);
        for (from, to) in
            [("\"state\"", "\"more\":1,\"state\""), ("active", "asleep"), ("anna\"", "../a\""), ("BEGIN PUBLIC", "BEGIN OTHER")]
        {
            assert!(serde_json::from_str::<Person>(&text.replacen(from, to, 1)).is_err(), "{to}");
        }
    }
}
