//! Where an image is: `oci://HOST[:PORT]/NAME[:TAG or @DIGEST]`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use ringfence_policy::ImageDigest;

/// Why a place was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a place in a registry; write `oci://HOST[:PORT]/NAME[:TAG]` or `oci://HOST[:PORT]/NAME@sha256:…`")]
pub struct PlaceError(String);

/// A place in a registry.
///
/// INVARIANT (plain place): a host of letters, digits, `.`, `-` or an address in brackets, a port, a name of lower-case parts without `..`, and a tag or
/// digest: nothing that could change what a URL made of them asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    host: String,
    name: String,
    reference: Reference,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Reference {
    Tag(String),
    Digest(ImageDigest),
}

impl Place {
    /// What every place begins with.
    pub const SCHEME: &'static str = "oci://";

    /// Host and port as they were written: by this name credentials are kept.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The name of the image in its registry.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The tag, if the place names one.
    pub fn tag(&self) -> Option<&str> {
        match &self.reference {
            Reference::Tag(tag) => Some(tag),
            Reference::Digest(_) => None,
        }
    }

    /// The digest, if the place names one.
    pub fn digest(&self) -> Option<&ImageDigest> {
        match &self.reference {
            Reference::Digest(digest) => Some(digest),
            Reference::Tag(_) => None,
        }
    }

    /// Where its API begins.
    pub(super) fn base(&self) -> String {
        let scheme = if self.is_loopback() { "http" } else { "https" };
        format!("{scheme}://{}/v2/{}", self.host, self.name)
    }

    pub(super) fn reference(&self) -> &str {
        match &self.reference {
            Reference::Tag(tag) => tag,
            Reference::Digest(digest) => digest.as_str(),
        }
    }

    pub(super) fn is_loopback(&self) -> bool {
        let host =
            self.host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit())).map_or(self.host.as_str(), |(h, _)| h);
        is_loopback(host)
    }
}

/// `localhost` is asked at its address, whatever a resolver says.
pub(super) const LOCALHOST: (&str, IpAddr) = ("localhost", IpAddr::V4(Ipv4Addr::LOCALHOST));

/// Whether a host of a URL is this machine.
pub(super) fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == LOCALHOST.0 || address.is_ok_and(|address| address.is_loopback())
}

impl FromStr for Place {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Self, PlaceError> {
        let refused = || PlaceError(text.escape_debug().to_string());
        let (host, path) = text.strip_prefix(Self::SCHEME).and_then(|rest| rest.split_once('/')).ok_or_else(refused)?;
        let (name, reference) = match (path.split_once('@'), path.split_once(':')) {
            (Some((name, digest)), _) => (name, Reference::Digest(digest.parse().map_err(|_| refused())?)),
            (None, Some((name, tag))) => (name, Reference::Tag(tag.to_owned())),
            (None, None) => (path, Reference::Tag("latest".to_owned())),
        };
        let is_tag = match &reference {
            Reference::Tag(tag) => is_word(tag, 128, |b| b.is_ascii_alphanumeric() || b"._-".contains(&b)),
            Reference::Digest(_) => true,
        };
        match is_host(host) && name.len() <= 255 && name.split('/').all(is_part) && is_tag {
            true => Ok(Self { host: host.to_owned(), name: name.to_owned(), reference }),
            false => Err(refused()),
        }
    }
}

fn is_host(host: &str) -> bool {
    let (name, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, port)) if address.parse::<std::net::Ipv6Addr>().is_ok() => ("address", port),
        Some(_) => return false,
        None => host.find(':').map_or((host, ""), |at| host.split_at(at)),
    };
    let is_port = port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
    is_port && is_word(name, 253, |b| b.is_ascii_alphanumeric() || b".-".contains(&b))
}

fn is_part(part: &str) -> bool {
    is_word(part, 255, |b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b))
}

/// Begins with what is no mark, so that no word is `.` or `..`.
fn is_word(word: &str, most: usize, is_allowed: impl Fn(u8) -> bool) -> bool {
    (1..=most).contains(&word.len()) && !word.starts_with(['.', '-']) && word.bytes().all(is_allowed)
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.digest().is_some() { '@' } else { ':' };
        write!(f, "{}{}/{}{mark}{}", Self::SCHEME, self.host, self.name, self.reference())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_prints_as_it_is_read() {
        let digest = format!("oci://[::1]:5000/a/b@sha256:{}", "1".repeat(64));
        for text in ["oci://registry.example.com/team/tools:1.2", "oci://127.0.0.1:5000/tools:latest", digest.as_str()] {
            assert_eq!(text.parse::<Place>().unwrap().to_string(), text);
        }
        assert_eq!("oci://localhost:5000/a".parse::<Place>().unwrap().base(), "http://localhost:5000/v2/a");
        assert_eq!("oci://example.com/a".parse::<Place>().unwrap().base(), "https://example.com/v2/a");
        assert_eq!("oci://127.0.0.1.example.com/a".parse::<Place>().unwrap().base(), "https://127.0.0.1.example.com/v2/a");
    }

    #[test]
    fn what_would_ask_for_something_else_is_no_place() {
        for bad in [
            "a/b",
            "oci://",
            "oci://h",
            "oci://h/",
            "oci://h/../x",
            "oci://u@h/x",
            "oci://h/x?y",
            "oci://h/x#y",
            "oci://h/X",
            "oci://h:0/x",
            "oci://h/x:",
            "oci://h/x@sha256:1",
            "oci://h x/y",
            "oci://[h]/x",
            "oci://h/x:a/b",
        ] {
            assert!(bad.parse::<Place>().is_err(), "{bad}");
        }
    }
}
