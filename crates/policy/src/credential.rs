//! Credentials that the broker puts in, outside the sandbox: which one, for which host, in which header. Never a value.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ask::EnvName;
use crate::destination::{Destination, Scheme};
use crate::lattice::Element;
use crate::names::text_type;

/// Why a binding was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CredentialError {
    /// Not of the form that it has.
    #[error("`{text}` is not a credential: {why}; write `NAME: https://HOST:443 header=HEADER variable=VARIABLE`")]
    Form {
        /// What was written.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// A name that is none.
    #[error("`{0}` is not a credential's name; write lower-case letters, digits and hyphens, at most 64")]
    Name(String),
}

/// The name of a stored credential: lower-case letters, digits and hyphens, at most 64.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CredentialName(String);

impl CredentialName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for CredentialName {
    type Err = CredentialError;

    fn from_str(text: &str) -> Result<Self, CredentialError> {
        let is_plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        match (1..=64).contains(&text.len()) && text.bytes().all(is_plain) && !text.starts_with('-') {
            true => Ok(Self(text.to_owned())),
            false => Err(CredentialError::Name(text.escape_debug().to_string())),
        }
    }
}

impl fmt::Display for CredentialName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A credential bound to the one host, header and, if named, the methods and paths for which it is put in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CredentialBinding {
    /// Which credential.
    pub name: CredentialName,
    /// Where it is put in: one host, over TLS.
    pub to: Destination,
    /// In which header, lower case.
    pub header: String,
    /// The variable that holds the placeholder inside.
    pub variable: EnvName,
}

impl FromStr for CredentialBinding {
    type Err = CredentialError;

    fn from_str(text: &str) -> Result<Self, CredentialError> {
        let bad = |why: &dyn fmt::Display| CredentialError::Form { text: text.to_owned(), why: why.to_string() };
        let (name, rest) = text.split_once(": ").ok_or_else(|| bad(&"there is no `NAME: `"))?;
        let value = |key: &str| {
            let mut found = rest.split(' ').filter_map(|word| word.strip_prefix(key)?.strip_prefix('='));
            match (found.next(), found.next()) {
                (Some(value), None) => Ok(value),
                (_, Some(_)) | (None, None) => Err(bad(&format!("it must say `{key}=` once"))),
            }
        };
        let is_own = |word: &&str| word.starts_with("header=") || word.starts_with("variable=");
        let place = rest.split(' ').filter(|word| !is_own(word)).collect::<Vec<_>>().join(" ");
        let to: Destination = place.parse().map_err(|why| bad(&why))?;
        if !to.is_one_host() || to.scheme != Scheme::Https {
            return Err(bad(&"a credential goes to one host, over https"));
        }
        let header = value("header")?.to_ascii_lowercase();
        if !is_header(&header) {
            return Err(bad(&format!("`{}` is not a header that a credential can be in", header.escape_debug())));
        }
        Ok(Self { name: name.parse()?, to, header, variable: value("variable")?.parse().map_err(|why| bad(&why))? })
    }
}

/// Names of fields as RFC 9110 has them, but for those that say where a request goes and how long it is.
fn is_header(name: &str) -> bool {
    const NOT: &[&str] = &["host", "connection", "content-length", "transfer-encoding", "upgrade", "te", "trailer", "expect"];
    let is_token = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_';
    (1..=64).contains(&name.len()) && name.bytes().all(is_token) && !NOT.contains(&name) && !name.starts_with("proxy-")
}

impl Element for CredentialBinding {
    fn meet(&self, other: &Self) -> Option<Self> {
        match self.name == other.name && self.header == other.header && self.variable == other.variable {
            true => Some(Self { to: self.to.meet(&other.to)?, ..self.clone() }),
            false => None,
        }
    }
}

impl fmt::Display for CredentialBinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} header={} variable={}", self.name, self.to, self.header, self.variable)
    }
}

text_type!(CredentialName: CredentialError, CredentialBinding: CredentialError);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binding_names_one_host_one_header_and_one_variable() {
        for (text, wanted) in [
            (
                "github: https://api.example.com:443 methods=GET header=Authorization variable=GITHUB_TOKEN",
                Some("github: https://api.example.com:443 methods=GET header=authorization variable=GITHUB_TOKEN"),
            ),
            ("github: https://*.example.com:443 header=authorization variable=T", None),
            ("github: http://api.example.com:80 header=authorization variable=T", None),
            ("github: https://api.example.com:443 variable=T", None),
            ("github: https://api.example.com:443 header=host variable=T", None),
            ("github: https://api.example.com:443 header=a header=b variable=T", None),
            ("github: https://api.example.com:443 header=a variable=9", None),
            ("Git Hub: https://api.example.com:443 header=a variable=T", None),
            ("https://api.example.com:443 header=a variable=T", None),
        ] {
            let read = text.parse::<CredentialBinding>().ok().map(|binding| binding.to_string());
            assert_eq!(read.as_deref(), wanted, "{text}");
        }
    }
}
