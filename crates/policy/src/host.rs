//! Hosts: names and addresses in one canonical form, and every name below a suffix.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::destination::DestinationError;
use crate::names::text_type;

/// A host name or an address.
///
/// INVARIANT (canonical): lower case ASCII, no trailing dot, no empty label; an address as the standard library prints it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostName(String);

impl FromStr for HostName {
    type Err = DestinationError;

    fn from_str(text: &str) -> Result<Self, DestinationError> {
        let bad = |why| DestinationError::Host { host: text.to_owned(), why };
        let bare = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
        if let Ok(address) = bare.parse::<IpAddr>() {
            return Ok(Self(address.to_canonical().to_string()));
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        if name.is_empty() || name.len() > 253 {
            return Err(bad("a name has 1 to 253 characters"));
        }
        if !name.is_ascii() {
            return Err(bad("write an international name in its `xn--` form, so that look-alikes can be told apart"));
        }
        let is_label = |l: &str| {
            (1..=63).contains(&l.len())
                && l.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
                && !l.starts_with('-')
                && !l.ends_with('-')
        };
        if !name.split('.').all(is_label) {
            return Err(bad("a label holds letters, digits and inner hyphens"));
        }
        let last = name.rsplit('.').next().unwrap_or_default();
        if last.bytes().all(|b| b.is_ascii_digit()) || last.starts_with("0x") {
            return Err(bad("an address must be written in the usual dotted or colon form"));
        }
        Ok(Self(name))
    }
}

impl HostName {
    /// The name as text; an IPv6 address without brackets.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The address, if it is one.
    pub fn address(&self) -> Option<IpAddr> {
        self.0.parse().ok()
    }

    fn is_below(&self, suffix: &Self) -> bool {
        self.0.strip_suffix(&suffix.0).is_some_and(|rest| rest.ends_with('.'))
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One host, or every name below a suffix.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostPattern {
    /// Just this host.
    Exactly(HostName),
    /// Every name that ends in `.` and this, but not the name itself.
    Below(HostName),
}

impl FromStr for HostPattern {
    type Err = DestinationError;

    fn from_str(text: &str) -> Result<Self, DestinationError> {
        let Some(suffix) = text.strip_prefix("*.") else {
            return match text.contains('*') {
                true => Err(DestinationError::Wide(text.to_owned())),
                false => Ok(Self::Exactly(text.parse()?)),
            };
        };
        let suffix: HostName = suffix.parse()?;
        match suffix.0.contains('.') && suffix.0.parse::<IpAddr>().is_err() {
            true => Ok(Self::Below(suffix)),
            false => Err(DestinationError::Wide(text.to_owned())),
        }
    }
}

impl HostPattern {
    /// True if the name is one of those that it stands for.
    pub fn matches(&self, name: &HostName) -> bool {
        match self {
            Self::Exactly(host) => host == name,
            Self::Below(suffix) => name.is_below(suffix) && name.address().is_none(),
        }
    }

    pub(crate) fn meet(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::Exactly(a), Self::Exactly(b)) => (a == b).then(|| self.clone()),
            (Self::Exactly(name), Self::Below(suffix)) => name.is_below(suffix).then(|| self.clone()),
            (Self::Below(suffix), Self::Exactly(name)) => name.is_below(suffix).then(|| other.clone()),
            (Self::Below(a), Self::Below(b)) if a == b || a.is_below(b) => Some(self.clone()),
            (Self::Below(a), Self::Below(b)) => b.is_below(a).then(|| other.clone()),
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(name) if name.0.contains(':') => write!(f, "[{name}]"),
            Self::Exactly(name) => name.fmt(f),
            Self::Below(suffix) => write!(f, "*.{suffix}"),
        }
    }
}

text_type!(HostName: DestinationError);
