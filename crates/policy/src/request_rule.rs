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

    /// True if the path of a request is below. One that a server may read differently from us is below nothing.
    pub fn covers_request(&self, path: &str) -> bool {
        let segments = path.strip_suffix('/').unwrap_or(path).split('/').skip(1);
        self.is_above(path) && segments.into_iter().all(is_certain)
    }
}

/// What some servers take for a dot, a slash, a backslash, a percent sign, or a mark that ends a path, once they have made a text plain (Unicode's
/// compatibility forms, and what Windows fits to its code pages).
const LOOK_ALIKES: &str = "\u{2024}\u{2025}\u{2026}\u{fe19}\u{fe52}\u{ff0e}\u{3002}\u{ff61}\u{2044}\u{2215}\u{2216}\u{29f8}\u{29f5}\u{ff0f}\u{ff3c}\
                           \u{fe68}\u{a5}\u{20a9}\u{2100}\u{2101}\u{2105}\u{2106}\u{ff05}\u{fe6a}\u{ff1b}\u{37e}\u{fe54}\u{ff1f}\u{fe56}\u{ff03}\u{fe5f}";

/// Whether a segment of a request's path is read alike by every server: it is not empty and no dots alone, also where blanks are trimmed; what percent
/// signs stand for is text, and nothing that divides paths.
fn is_certain(segment: &str) -> bool {
    let Some(text) = decoded(segment).and_then(|bytes| String::from_utf8(bytes).ok()) else { return false };
    let is_doubtful = |c: char| c.is_control() || LOOK_ALIKES.contains(c);
    let is_dots = text.chars().all(|c| c == '.' || c.is_whitespace());
    !is_dots && !text.contains(is_doubtful)
}

/// The bytes of a segment; none if it holds what must not stand there as it is, or behind a percent sign.
fn decoded(segment: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = segment.bytes();
    while let Some(byte) = rest.next() {
        let is_encoded = byte == b'%';
        let byte = if is_encoded { hex(rest.next()?)? << 4 | hex(rest.next()?)? } else { byte };
        let is_wrong = if is_encoded { b"./\\%;?#".contains(&byte) } else { !byte.is_ascii_graphic() || b"\\;".contains(&byte) };
        if is_wrong {
            return None;
        }
        bytes.push(byte);
    }
    Some(bytes)
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
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
            ("/v1/caf%C3%A9/%20a", true),
            ("/v1/a%2eb", false),
            ("/v1/..%20/admin", false),
            ("/v1/..%c2%a0/admin", false),
            ("/v1/.../admin", false),
            ("/v1/%20/admin", false),
            ("/v1/..%09/admin", false),
            ("/v1/..%0d%0a/admin", false),
            ("/v1/..%3b/admin", false),
            ("/v1/a%3f", false),
            ("/v1/a%23b", false),
            ("/v1/a%7fb", false),
            ("/v1/%c0%ae%c0%ae/admin", false),
            ("/v1/%e0%80%af", false),
            ("/v1/%c0%af..", false),
            ("/v1/%uff0e%uff0e/admin", false),
            ("/v1/%ef%bc%8e%ef%bc%8e/admin", false),
            ("/v1/%e2%80%a5/admin", false),
            ("/v1/a%ef%bc%8fb", false),
            ("/v1/%2", false),
            ("/v1/%", false),
            ("/v1/%zz", false),
            ("/v1/\u{ff0e}\u{ff0e}/admin", false),
            ("/v1/a\tb", false),
            ("/v1/\u{9b}", false),
            ("//v1", false),
            ("/v1//", false),
            ("*", false),
            ("", false),
        ] {
            assert_eq!(prefix.covers_request(path), is_below, "{path}");
        }
        let root: PathPrefix = "/".parse().unwrap();
        assert!(root.covers_request("/any/thing") && root.covers_request("/") && !root.covers_request("*") && !root.covers_request("//"));
    }
}
