//! Destinations: scheme, host (or `*.suffix`) and port, always explicit and in one canonical form.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::lattice::Element;
use crate::names::text_type;

/// Why a destination was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DestinationError {
    /// Not one of the three schemes.
    #[error("`{0}` has an unknown scheme; write https, http or tcp")]
    Scheme(String),
    /// No port.
    #[error("`{0}` names no port; write HOST:PORT, such as `api.example.com:443`")]
    Port(String),
    /// A path, query, fragment or user part.
    #[error("`{0}` holds more than scheme, host and port")]
    Extra(String),
    /// Not a host name or address in canonical form.
    #[error("`{host}` is not a host name: {why}")]
    Host {
        /// What was written.
        host: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A wildcard that is too wide.
    #[error("`{0}` is too wide; a wildcard needs at least two labels after it, such as `*.example.com`")]
    Wide(String),
}

/// How a destination is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    /// TLS whose server name is the host.
    Https,
    /// Plain HTTP.
    Http,
    /// Opaque bytes.
    Tcp,
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Https => "https",
            Self::Http => "http",
            Self::Tcp => "tcp",
        })
    }
}

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
    fn meet(&self, other: &Self) -> Option<Self> {
        let is_below = |name: &HostName, suffix: &HostName| name.0.strip_suffix(&suffix.0).is_some_and(|rest| rest.ends_with('.'));
        match (self, other) {
            (Self::Exactly(a), Self::Exactly(b)) => (a == b).then(|| self.clone()),
            (Self::Exactly(name), Self::Below(suffix)) => is_below(name, suffix).then(|| self.clone()),
            (Self::Below(suffix), Self::Exactly(name)) => is_below(name, suffix).then(|| other.clone()),
            (Self::Below(a), Self::Below(b)) if a == b || is_below(a, b) => Some(self.clone()),
            (Self::Below(a), Self::Below(b)) => is_below(b, a).then(|| other.clone()),
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

/// A place on the network, such as `https://*.example.com:443`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Destination {
    /// How it is spoken to.
    pub scheme: Scheme,
    /// Which hosts.
    pub host: HostPattern,
    /// Which port.
    pub port: u16,
}

impl FromStr for Destination {
    type Err = DestinationError;

    /// `[SCHEME://]HOST:PORT`; left out, the scheme follows the port: 443 https, 80 http, else tcp.
    fn from_str(text: &str) -> Result<Self, DestinationError> {
        let (scheme, rest) = match text.split_once("://") {
            None => (None, text),
            Some(("https", rest)) => (Some(Scheme::Https), rest),
            Some(("http", rest)) => (Some(Scheme::Http), rest),
            Some(("tcp", rest)) => (Some(Scheme::Tcp), rest),
            Some(_) => return Err(DestinationError::Scheme(text.to_owned())),
        };
        if rest.contains(['/', '?', '#', '@', '\\', '%', ' ', '\0']) {
            return Err(DestinationError::Extra(text.to_owned()));
        }
        let (host, port) = rest.rsplit_once(':').ok_or_else(|| DestinationError::Port(text.to_owned()))?;
        let port = port.parse::<u16>().ok().filter(|p| *p > 0).ok_or_else(|| DestinationError::Port(text.to_owned()))?;
        if host.contains(':') && !host.starts_with('[') {
            return Err(DestinationError::Host { host: host.to_owned(), why: "write an IPv6 address in brackets" });
        }
        let by_port = match port {
            443 => Scheme::Https,
            80 => Scheme::Http,
            _ => Scheme::Tcp,
        };
        Ok(Self { scheme: scheme.unwrap_or(by_port), host: host.parse()?, port })
    }
}

impl Destination {
    /// True if it names just one host.
    pub fn is_one_host(&self) -> bool {
        matches!(self.host, HostPattern::Exactly(_))
    }
}

impl Element for Destination {
    fn meet(&self, other: &Self) -> Option<Self> {
        match self.scheme == other.scheme && self.port == other.port {
            true => Some(Self { host: self.host.meet(&other.host)?, ..self.clone() }),
            false => None,
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}:{}", self.scheme, self.host, self.port)
    }
}

text_type!(HostName: DestinationError, Destination: DestinationError);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_canonical_destinations_are_read() {
        for (text, wanted) in [
            ("api.example.com:443", Some("https://api.example.com:443")),
            ("API.Example.com.:80", Some("http://api.example.com:80")),
            ("tcp://db.example.com:5432", Some("tcp://db.example.com:5432")),
            ("*.example.com:443", Some("https://*.example.com:443")),
            ("[::ffff:127.0.0.1]:8080", Some("tcp://127.0.0.1:8080")),
            ("[::1]:443", Some("https://[::1]:443")),
            ("*.com:443", None),
            ("*:443", None),
            ("a*.example.com:443", None),
            ("example.com", None),
            ("ftp://example.com:21", None),
            ("https://user@example.com:443", None),
            ("https://example.com:443/path", None),
            ("0x7f000001:80", None),
            ("2130706433:80", None),
            ("127.1:80", None),
            ("exämple.com:443", None),
            ("example.com:0", None),
            ("::1:443", None),
        ] {
            let read = text.parse::<Destination>().ok().map(|d| d.to_string());
            assert_eq!(read.as_deref(), wanted, "{text}");
        }
    }

    #[test]
    fn a_wildcard_meets_a_name_at_a_label_edge() {
        let meet = |a: &str, b: &str| {
            let (a, b): (Destination, Destination) = (a.parse().unwrap(), b.parse().unwrap());
            a.meet(&b).map(|d| d.host.to_string())
        };
        assert_eq!(meet("*.example.com:443", "api.example.com:443"), Some("api.example.com".into()));
        assert_eq!(meet("*.example.com:443", "*.api.example.com:443"), Some("*.api.example.com".into()));
        assert_eq!(meet("*.example.com:443", "evilexample.com:443"), None);
        assert_eq!(meet("*.example.com:443", "example.com:443"), None);
        assert_eq!(meet("api.example.com:443", "api.example.com:8443"), None);
    }
}
