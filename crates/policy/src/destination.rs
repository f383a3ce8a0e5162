//! Destinations: scheme, host (or `*.suffix`) and port, always explicit and in one canonical form; and, if wanted, which requests.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::host::{HostName, HostPattern};
use crate::lattice::{Element, Set};
use crate::names::text_type;
use crate::request_rule::{Method, PathPrefix};

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
    /// A part after the address that is not one.
    #[error("`{word}` in `{rule}` is no part of a rule: {why}")]
    Part {
        /// The rule.
        rule: String,
        /// The part.
        word: String,
        /// What is wrong with it.
        why: String,
    },
    /// Something about requests of bytes that nobody reads.
    #[error("`{0}` is opaque: methods and paths need https or http")]
    Opaque(String),
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

/// A place on the network, such as `https://*.example.com:443`, and what may be asked there, such as `methods=GET,HEAD paths=/v1`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Destination {
    /// How it is spoken to.
    pub scheme: Scheme,
    /// Which hosts.
    pub host: HostPattern,
    /// Which port.
    pub port: u16,
    /// Which methods; never none.
    pub methods: Set<Method>,
    /// Which paths; never none.
    pub paths: Set<PathPrefix>,
}

impl FromStr for Destination {
    type Err = DestinationError;

    /// `[SCHEME://]HOST:PORT [methods=M,M] [paths=/P,/P]`; left out, the scheme follows the port: 443 https, 80 http, else tcp.
    fn from_str(text: &str) -> Result<Self, DestinationError> {
        let mut words = text.split(' ');
        let mut place = place(words.next().unwrap_or_default())?;
        for word in words {
            place.narrow(word).map_err(|why| DestinationError::Part { rule: text.to_owned(), word: word.to_owned(), why })?;
        }
        match place.scheme == Scheme::Tcp && place.is_about_requests() {
            true => Err(DestinationError::Opaque(text.to_owned())),
            false => Ok(place),
        }
    }
}

/// Scheme, host and port.
fn place(text: &str) -> Result<Destination, DestinationError> {
    let (scheme, rest) = match text.split_once("://") {
        None => (None, text),
        Some(("https", rest)) => (Some(Scheme::Https), rest),
        Some(("http", rest)) => (Some(Scheme::Http), rest),
        Some(("tcp", rest)) => (Some(Scheme::Tcp), rest),
        Some(_) => return Err(DestinationError::Scheme(text.to_owned())),
    };
    if rest.contains(['/', '?', '#', '@', '\\', '%', '\0']) {
        return Err(DestinationError::Extra(text.to_owned()));
    }
    let (host, port) = rest.rsplit_once(':').ok_or_else(|| DestinationError::Port(text.to_owned()))?;
    let is_number = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    let port = port.parse::<u16>().ok().filter(|p| is_number && *p > 0).ok_or_else(|| DestinationError::Port(text.to_owned()))?;
    if host.contains(':') && !host.starts_with('[') {
        return Err(DestinationError::Host { host: host.to_owned(), why: "write an IPv6 address in brackets" });
    }
    let by_port = match port {
        443 => Scheme::Https,
        80 => Scheme::Http,
        _ => Scheme::Tcp,
    };
    Ok(Destination { scheme: scheme.unwrap_or(by_port), host: host.parse()?, port, methods: Set::All, paths: Set::All })
}

/// The list after `NAME=`.
fn list<T: Element + FromStr<Err = String>>(text: &str) -> Result<Set<T>, String> {
    Ok(Set::only(text.split(',').map(str::parse).collect::<Result<Vec<T>, String>>()?))
}

impl Destination {
    fn narrow(&mut self, word: &str) -> Result<(), String> {
        match word.split_once('=') {
            Some(("methods", methods)) if self.methods == Set::All => self.methods = list(methods)?,
            Some(("paths", paths)) if self.paths == Set::All => self.paths = list(paths)?,
            Some(("methods" | "paths", _)) => return Err("it stands there twice".to_owned()),
            Some(_) | None => return Err("write `methods=GET,HEAD` or `paths=/v1,/status`".to_owned()),
        }
        Ok(())
    }

    /// True if it names just one host.
    pub fn is_one_host(&self) -> bool {
        matches!(self.host, HostPattern::Exactly(_))
    }

    /// True if it says which requests: then somebody has to read them.
    pub fn is_about_requests(&self) -> bool {
        self.methods != Set::All || self.paths != Set::All
    }

    /// True if all of `asked` may be had; where it does not say which methods or paths it asks for those that are allowed.
    pub(crate) fn admits(&self, asked: &Self) -> bool {
        let methods = if asked.methods == Set::All { &self.methods } else { &asked.methods };
        let paths = if asked.paths == Set::All { &self.paths } else { &asked.paths };
        self.covers(&Self { methods: methods.clone(), paths: paths.clone(), ..asked.clone() })
    }

    /// True if the host and port are among those that it stands for.
    pub fn is_at(&self, host: &HostName, port: u16) -> bool {
        self.port == port && self.host.matches(host)
    }
}

/// A set that is never none: what both have in common, if anything.
fn common<T: Element>(a: &Set<T>, b: &Set<T>) -> Option<Set<T>> {
    Some(a.meet(b)).filter(|both| !both.is_none())
}

impl Element for Destination {
    fn meet(&self, other: &Self) -> Option<Self> {
        match self.scheme == other.scheme && self.port == other.port {
            true => Some(Self {
                host: self.host.meet(&other.host)?,
                methods: common(&self.methods, &other.methods)?,
                paths: common(&self.paths, &other.paths)?,
                ..self.clone()
            }),
            false => None,
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}:{}", self.scheme, self.host, self.port)?;
        write_list(f, "methods", &self.methods)?;
        write_list(f, "paths", &self.paths)
    }
}

fn write_list<T: Element>(f: &mut fmt::Formatter<'_>, name: &str, set: &Set<T>) -> fmt::Result {
    match set {
        Set::All => Ok(()),
        Set::Only(listed) => write!(f, " {name}={}", listed.iter().map(T::to_string).collect::<Vec<_>>().join(",")),
    }
}

text_type!(Destination: DestinationError);

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
            ("https://a.example.com:443 methods=HEAD,GET paths=/v1/", Some("https://a.example.com:443 methods=GET,HEAD paths=/v1")),
            ("https://a.example.com:443 paths=/", Some("https://a.example.com:443 paths=/")),
            ("https://a.example.com:443 paths=/v1,/v1/x", Some("https://a.example.com:443 paths=/v1")),
            ("https://a.example.com:443 methods=", None),
            ("https://a.example.com:443 methods=get", None),
            ("https://a.example.com:443 methods=CONNECT", None),
            ("https://a.example.com:443 paths=v1", None),
            ("https://a.example.com:443 paths=/a/../b", None),
            ("https://a.example.com:443 paths=/a%2fb", None),
            ("https://a.example.com:443  paths=/a", None),
            ("https://a.example.com:443 verbs=GET", None),
            ("tcp://a.example.com:443 methods=GET", None),
            ("http://a.example.com:+80", None),
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
            ("010.0.0.1:80", None),
            ("1.2.3:80", None),
            ("1.2.3.4.:80", None),
            ("example.com..:80", None),
            ("a..example.com:80", None),
            ("a.0x1:80", None),
            ("[1.2.3.4]:80", Some("http://1.2.3.4:80")),
            ("[example.com]:80", None),
            ("[fe80::1%eth0]:80", None),
            ("a_b.example.com:80", Some("http://a_b.example.com:80")),
            ("-a.example.com:80", None),
            ("::1:443", None),
        ] {
            let read = text.parse::<Destination>().ok().map(|d| d.to_string());
            assert_eq!(read.as_deref(), wanted, "{text}");
        }
    }

    #[test]
    fn a_name_is_as_long_as_the_dns_has_it() {
        let is_read = |name: &str| format!("{name}:80").parse::<Destination>().is_ok();
        let (label, longer) = ("a".repeat(63), "a".repeat(64));
        assert!(is_read(&format!("{label}.example.com")) && !is_read(&format!("{longer}.example.com")));
        let most = format!("{label}.{label}.{label}.{}", "a".repeat(61));
        assert!(most.len() == 253 && is_read(&most) && is_read(&format!("{most}.")) && !is_read(&format!("{most}a")));
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
