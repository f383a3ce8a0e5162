//! Which requests a destination may be asked: methods, and paths below a prefix.

use std::fmt;
use std::str::FromStr;

use crate::lattice::Element;

/// The method of a request, as RFC 9110 has it: in capitals, and none that opens a tunnel or echoes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Method(String);

impl Method {
    /// The method as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Method {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_plain = (1..=32).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_uppercase() || b == b'-');
        match is_plain && !["CONNECT", "TRACE"].contains(&text) {
            true => Ok(Self(text.to_owned())),
            false => Err(format!("`{}` is not a method that can be allowed; write GET, HEAD, POST and the like", text.escape_debug())),
        }
    }
}

impl Element for Method {
    fn meet(&self, other: &Self) -> Option<Self> {
        (self == other).then(|| self.clone())
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A path and all below it, at the edge of a segment: `/v1` is `/v1` and `/v1/x`, not `/v1x`.
///
/// INVARIANT (plain): begins with `/`, holds no empty segment, no `.`, no `..`, and nothing that two readers could read differently. The root is the
/// empty text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathPrefix(String);

/// Whether a segment is one that every server reads alike.
fn is_plain_segment(segment: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~!$&'()*+=:@".contains(&b);
    !segment.is_empty() && segment != "." && segment != ".." && segment.bytes().all(is_plain)
}

impl FromStr for PathPrefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let path = text.strip_prefix('/').ok_or_else(|| format!("`{}` does not begin with `/`", text.escape_debug()))?;
        let path = path.strip_suffix('/').unwrap_or(path);
        match path.is_empty() || path.split('/').all(is_plain_segment) {
            true if path.is_empty() => Ok(Self(String::new())),
            true => Ok(Self(format!("/{path}"))),
            false => Err(format!("`{}` holds an empty segment, `.`, `..`, or a character that is not plain", text.escape_debug())),
        }
    }
}

impl PathPrefix {
    fn is_above(&self, path: &str) -> bool {
        path.strip_prefix(&self.0).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// True if the path of a request is below. One that a server may read differently from us is not: dot segments and empty ones, backslashes, and
    /// percent signs that stand for one of these.
    pub fn covers_request(&self, path: &str) -> bool {
        let lower = path.to_ascii_lowercase();
        let is_doubtful = ["%2f", "%5c", "%2e", "%25", "%00", "\\", "//", ";"].iter().any(|part| lower.contains(part));
        let has_dots = path.split('/').any(|segment| segment == "." || segment == "..");
        !is_doubtful && !has_dots && self.is_above(path)
    }
}

impl Element for PathPrefix {
    fn meet(&self, other: &Self) -> Option<Self> {
        if self.is_above(&other.0) { Some(other.clone()) } else { other.is_above(&self.0).then(|| self.clone()) }
    }
}

impl fmt::Display for PathPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "/" } else { &self.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_at_a_segment_and_doubtful_paths_are_below_nothing() {
        let prefix: PathPrefix = "/v1/".parse().unwrap();
        for (path, is_below) in [
            ("/v1", true),
            ("/v1/", true),
            ("/v1/a/b.json", true),
            ("/v1/a%20b", true),
            ("/v1x", false),
            ("/", false),
            ("/v1/../admin", false),
            ("/v1/..", false),
            ("/v1/%2e%2e/admin", false),
            ("/v1/%2E%2E/admin", false),
            ("/v1/a%2fb", false),
            ("/v1/a\\b", false),
            ("/v1//a", false),
            ("/v1/..;/admin", false),
            ("/v1/%252e%252e/", false),
            ("/V1", false),
        ] {
            assert_eq!(prefix.covers_request(path), is_below, "{path}");
        }
        assert!("/".parse::<PathPrefix>().unwrap().covers_request("/any/thing"));
    }
}
