//! Names and places: patterns for names, scopes of paths, and paths relative to the workspace.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::lattice::Element;

/// Why a pattern was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// Nothing was written.
    #[error("an empty pattern matches nothing; leave it out")]
    Empty,
    /// A star that is not at the end.
    #[error("`{0}` has a `*` that is not at its end; write a name, or a prefix and `*`")]
    Star(String),
    /// A character that no name of this kind holds.
    #[error("`{0}` holds `{1}`, which no such name can hold")]
    Character(String, char),
    /// A path scope that is not of one of the three forms.
    #[error("`{0}` is not a path scope; write `**`, `folder/**` or one path, relative and without `..`")]
    Scope(String),
}

/// A name, or a prefix followed by `*`. Used for environment variables and tools.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NamePattern {
    prefix: String,
    is_exact: bool,
}

impl FromStr for NamePattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let (prefix, is_exact) = match text.strip_suffix('*') {
            Some(prefix) => (prefix, false),
            None => (text, true),
        };
        if is_exact && prefix.is_empty() {
            return Err(PatternError::Empty);
        }
        if prefix.contains('*') {
            return Err(PatternError::Star(text.to_owned()));
        }
        match prefix.chars().find(|c| !(c.is_ascii_alphanumeric() || "_-./".contains(*c))) {
            Some(c) => Err(PatternError::Character(text.to_owned(), c)),
            None => Ok(Self { prefix: prefix.to_owned(), is_exact }),
        }
    }
}

impl Element for NamePattern {
    fn meet(&self, other: &Self) -> Option<Self> {
        match (self.is_exact, other.is_exact) {
            (true, true) => (self == other).then(|| self.clone()),
            (true, false) => self.prefix.starts_with(&other.prefix).then(|| self.clone()),
            (false, true) => other.prefix.starts_with(&self.prefix).then(|| other.clone()),
            (false, false) if self.prefix.starts_with(&other.prefix) => Some(self.clone()),
            (false, false) => other.prefix.starts_with(&self.prefix).then(|| other.clone()),
        }
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.prefix, if self.is_exact { "" } else { "*" })
    }
}

/// A part of the workspace: one path, or a folder and all below it (`folder/**`, or `**` for the whole workspace).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PathScope {
    parts: Vec<String>,
    is_folder: bool,
}

impl PathScope {
    /// The scope that holds just `path`. The path must be relative and without `..`.
    pub fn exactly(path: &str) -> Result<Self, PatternError> {
        let parts: Vec<String> = path.split('/').map(str::to_owned).collect();
        match parts.iter().any(|p| p.is_empty() || p == "." || p == ".." || p == "**") {
            true => Err(PatternError::Scope(path.to_owned())),
            false => Ok(Self { parts, is_folder: false }),
        }
    }

    /// The scope that holds the folder `path` and all below it.
    pub fn folder(path: &str) -> Result<Self, PatternError> {
        match path {
            "" => Ok(Self { parts: Vec::new(), is_folder: true }),
            path => Ok(Self { is_folder: true, ..Self::exactly(path)? }),
        }
    }
}

impl FromStr for PathScope {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        if text.is_empty() {
            return Err(PatternError::Empty);
        }
        if text == "**" {
            return Self::folder("");
        }
        let scope = match text.strip_suffix("/**") {
            Some(folder) if !folder.is_empty() => Self::folder(folder)?,
            Some(_) | None => Self::exactly(text)?,
        };
        match scope.parts.iter().any(|p| p.contains(['*', '\0'])) {
            true => Err(PatternError::Scope(text.to_owned())),
            false => Ok(scope),
        }
    }
}

impl Element for PathScope {
    fn meet(&self, other: &Self) -> Option<Self> {
        let (outer, inner) = if self.parts.len() <= other.parts.len() { (self, other) } else { (other, self) };
        if !inner.parts.starts_with(&outer.parts) {
            return None;
        }
        match (outer.is_folder, outer.parts.len() == inner.parts.len()) {
            (true, true) => Some(if self.is_folder { other.clone() } else { self.clone() }),
            (true, false) => Some(inner.clone()),
            (false, true) => Some(outer.clone()),
            (false, false) => None,
        }
    }
}

impl fmt::Display for PathScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.parts.join("/");
        match (self.is_folder, path.is_empty()) {
            (true, true) => f.write_str("**"),
            (true, false) => write!(f, "{path}/**"),
            (false, true | false) => f.write_str(&path),
        }
    }
}

/// Why a workspace path was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkspacePathError {
    /// Nothing was written.
    #[error("an empty path names nothing")]
    Empty,
    /// It starts at the root.
    #[error("`{0}` is absolute; name a path relative to the workspace")]
    Absolute(String),
    /// It has a `..`, `.` or empty part.
    #[error("`{0}` holds an empty, `.`, `..` or `**` part; name the path plainly")]
    Traversal(String),
    /// It holds a NUL byte.
    #[error("a path cannot hold a NUL byte")]
    Nul,
}

/// A path relative to the workspace: plain parts joined by `/`, no `..`.
///
/// INVARIANT (relative): never absolute, no empty, `.` or `..` part, no NUL.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct WorkspacePath(String);

impl WorkspacePath {
    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for WorkspacePath {
    type Err = WorkspacePathError;

    fn from_str(text: &str) -> Result<Self, WorkspacePathError> {
        if text.is_empty() {
            return Err(WorkspacePathError::Empty);
        }
        if text.contains('\0') {
            return Err(WorkspacePathError::Nul);
        }
        if text.starts_with('/') {
            return Err(WorkspacePathError::Absolute(text.to_owned()));
        }
        match text.split('/').any(|part| matches!(part, "" | "." | ".." | "**")) {
            true => Err(WorkspacePathError::Traversal(text.to_owned())),
            false => Ok(Self(text.to_owned())),
        }
    }
}

impl fmt::Display for WorkspacePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Text that is parsed on the way in and printed on the way out, so that serde cannot build what `FromStr` refuses.
macro_rules! text_type {
    ($($name:ident: $error:ty),*) => {$(
        impl TryFrom<String> for $name {
            type Error = $error;
            fn try_from(text: String) -> Result<Self, $error> { text.parse() }
        }
        impl From<$name> for String {
            fn from(value: $name) -> Self { value.to_string() }
        }
    )*};
}
pub(crate) use text_type;
text_type!(NamePattern: PatternError, PathScope: PatternError, WorkspacePath: WorkspacePathError);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_meets_the_narrower_of_two() {
        let meet = |a: &str, b: &str| {
            let (a, b): (PathScope, PathScope) = (a.parse().unwrap(), b.parse().unwrap());
            a.meet(&b).map(|s| s.to_string())
        };
        assert_eq!(meet("**", "out/**"), Some("out/**".into()));
        assert_eq!(meet("out/**", "out/a.csv"), Some("out/a.csv".into()));
        assert_eq!(meet("out", "out/**"), Some("out".into()));
        assert_eq!(meet("out/a", "out/b"), None);
        assert_eq!(meet("outer/**", "out/**"), None);
    }

    #[test]
    fn a_workspace_path_never_leaves() {
        for bad in ["", "**", "a/**", "/etc/passwd", "../x", "a/../../b", "a//b", "./a", "a\0b"] {
            assert!(bad.parse::<WorkspacePath>().is_err(), "{bad:?}");
        }
        assert_eq!("a/b c".parse::<WorkspacePath>().unwrap().as_str(), "a/b c");
    }
}
