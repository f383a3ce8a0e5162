//! Globs that name artifacts, relative to the workspace: `*` and `?` stop at `/`, `**` does not.
//!
//! Matching is on bytes, since a file name need not be text, and cannot take exponential time: each star only ever moves forward.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::names::{PathScope, text_type};

/// Why a glob was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GlobError {
    /// Nothing was written.
    #[error("an empty glob names nothing; write a path or pattern relative to the workspace, such as `report.*`")]
    Empty,
    /// It starts at the root.
    #[error("`{0}` is absolute; name files relative to the workspace, such as `report.*`")]
    Absolute(String),
    /// It has a `..`, `.` or empty part.
    #[error("`{0}` holds an empty, `.` or `..` part; name files inside the workspace")]
    Traversal(String),
    /// It holds a NUL byte.
    #[error("a glob cannot hold a NUL byte")]
    Nul,
    /// It is longer than a path can be.
    #[error("the glob is {0} bytes long; a path holds at most 4096")]
    Long(usize),
}

/// A checked glob.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Glob(String);

impl Glob {
    /// True if the glob holds no wildcard, and so names one file.
    pub fn is_literal(&self) -> bool {
        !self.0.contains(['*', '?'])
    }

    /// True if the whole of `path` matches.
    pub fn matches(&self, path: &[u8]) -> bool {
        let pattern: Vec<&[u8]> = self.0.as_bytes().split(|b| *b == b'/').collect();
        let parts: Vec<&[u8]> = path.split(|b| *b == b'/').collect();
        parts_match(&pattern, &parts)
    }

    /// True if the whole of a path in lower case matches, in whatever case the glob is written.
    pub fn matches_folded(&self, folded: &[u8]) -> bool {
        Self(self.0.to_ascii_lowercase()).matches(folded)
    }

    /// The smallest scope that certainly holds all that the glob can match.
    pub fn scope(&self) -> PathScope {
        let fixed: Vec<&str> = self.0.split('/').take_while(|part| !part.contains(['*', '?'])).collect();
        let scope = match self.is_literal() {
            true => PathScope::exactly(&self.0),
            false => PathScope::folder(&fixed.join("/")),
        };
        scope.unwrap_or_else(|_| unreachable!("a checked glob has plain parts"))
    }

    /// The glob as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Matches part by part; a part `**` stands for any number of parts. Two indexes and one place to go back to: linear in practice, quadratic at worst.
fn parts_match(pattern: &[&[u8]], parts: &[&[u8]]) -> bool {
    let (mut p, mut s, mut back) = (0, 0, None);
    while s < parts.len() {
        if pattern.get(p) == Some(&b"**".as_slice()) {
            back = Some((p, s));
            p += 1;
        } else if pattern.get(p).is_some_and(|pat| part_matches(pat, parts[s])) {
            p += 1;
            s += 1;
        } else if let Some((star, from)) = back {
            back = Some((star, from + 1));
            p = star + 1;
            s = from + 1;
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|rest| rest == b"**")
}

/// Matches one part, in which `*` stands for any bytes and `?` for one.
fn part_matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut s, mut back) = (0, 0, None);
    while s < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                back = Some((p, s));
                p += 1;
            }
            Some(c) if *c == b'?' || *c == name[s] => {
                p += 1;
                s += 1;
            }
            Some(_) | None => match back {
                Some((star, from)) => {
                    back = Some((star, from + 1));
                    p = star + 1;
                    s = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

impl FromStr for Glob {
    type Err = GlobError;

    fn from_str(text: &str) -> Result<Self, GlobError> {
        match text {
            "" => Err(GlobError::Empty),
            _ if text.len() > 4096 => Err(GlobError::Long(text.len())),
            _ if text.contains('\0') => Err(GlobError::Nul),
            _ if text.starts_with('/') => Err(GlobError::Absolute(text.to_owned())),
            _ if text.split('/').any(|part| matches!(part, "" | "." | "..")) => Err(GlobError::Traversal(text.to_owned())),
            _ => Ok(Self(text.to_owned())),
        }
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

text_type!(Glob: GlobError);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stops_at_a_slash_and_two_do_not() {
        let cases: &[(&str, &str, bool)] = &[
            ("report.*", "report.md", true),
            ("report.*", "out/report.md", false),
            ("**/report.*", "report.md", true),
            ("**/report.*", "a/b/report.md", true),
            ("out/**", "out/a/b", true),
            ("out/**", "output/a", false),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "aXbY", false),
            ("?.csv", "a.csv", true),
            ("?.csv", "ab.csv", false),
            ("**", "any/thing", true),
            ("a/**/z", "a/z", true),
            ("a/**/z", "a/b/c/z", true),
        ];
        for (glob, path, wanted) in cases {
            assert_eq!(glob.parse::<Glob>().unwrap().matches(path.as_bytes()), *wanted, "{glob} on {path}");
        }
    }

    #[test]
    fn a_glob_that_leaves_the_workspace_is_refused() {
        for bad in ["", "/etc/passwd", "../x", "a/../../b", "a//b", "a\0", "./x"] {
            assert!(bad.parse::<Glob>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn many_stars_take_no_exponential_time() {
        let glob: Glob = "*a".repeat(60).parse().unwrap();
        assert!(!glob.matches("a".repeat(59).as_bytes()));
        let glob: Glob = "**/a/".repeat(40).trim_end_matches('/').parse().unwrap();
        assert!(!glob.matches("b/".repeat(500).trim_end_matches('/').as_bytes()));
    }

    #[test]
    fn the_scope_of_a_glob_holds_what_it_matches() {
        let scope = |g: &str| g.parse::<Glob>().unwrap().scope().to_string();
        assert_eq!(scope("out/x.csv"), "out/x.csv");
        assert_eq!(scope("out/*/x.csv"), "out/**");
        assert_eq!(scope("*.csv"), "**");
    }
}
