//! Names and versions of packages as their ecosystem counts them: what it holds to be the same is equal here.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::package_rule::PackageRuleError;

/// A language's packages, with its names and versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ecosystem {
    /// Wheels and source distributions; versions as PEP 440 counts them.
    Python,
    /// Tarballs; semantic versions.
    Node,
    /// Crates; semantic versions.
    Rust,
}

impl Ecosystem {
    /// Every ecosystem, in the order in which they are printed.
    pub const ALL: [Self; 3] = [Self::Python, Self::Node, Self::Rust];
}

impl fmt::Display for Ecosystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Python => "python",
            Self::Node => "node",
            Self::Rust => "rust",
        })
    }
}

/// A package's name.
///
/// INVARIANT (canonical): two names that the ecosystem holds to be the same are equal: for Python lower case with `-` for each run of `-`, `_`
/// and `.`; for Rust lower case with `-` for `_`; for Node as it is, since there case tells packages apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PackageName(String);

impl PackageName {
    /// Reads a name of one ecosystem.
    pub fn parse(ecosystem: Ecosystem, text: &str) -> Result<Self, PackageRuleError> {
        let bad = |why| PackageRuleError::Name { ecosystem, name: text.escape_debug().to_string(), why };
        if text.is_empty() || text.len() > 214 {
            return Err(bad("a name has 1 to 214 characters"));
        }
        match ecosystem {
            Ecosystem::Python => python_name(text).ok_or_else(|| bad("letters, digits and inner `-`, `_` and `.`")),
            Ecosystem::Node => node_name(text).ok_or_else(|| bad("letters, digits, `-`, `_` and `.`, or `@scope/` before them")),
            Ecosystem::Rust => rust_name(text).ok_or_else(|| bad("a letter, then letters, digits, `-` and `_`")),
        }
        .map(Self)
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn python_name(text: &str) -> Option<String> {
    let is_edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    let is_plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    let is_name = is_plain && is_edge(text.as_bytes().first()) && is_edge(text.as_bytes().last());
    let parts = || text.split(['-', '_', '.']).filter(|part| !part.is_empty());
    is_name.then(|| parts().collect::<Vec<_>>().join("-").to_ascii_lowercase())
}

fn node_name(text: &str) -> Option<String> {
    let is_part = |part: &str| {
        part.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)) && !part.is_empty() && !part.starts_with(['.', '_'])
    };
    let is_name = match text.strip_prefix('@') {
        Some(scoped) => scoped.split_once('/').is_some_and(|(scope, name)| is_part(scope) && is_part(name)),
        None => is_part(text),
    };
    is_name.then(|| text.to_owned())
}

fn rust_name(text: &str) -> Option<String> {
    let is_plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
    (is_plain && text.starts_with(|c: char| c.is_ascii_alphabetic())).then(|| text.replace('_', "-").to_ascii_lowercase())
}

impl fmt::Display for PackageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A version as its ecosystem counts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum PackageVersion {
    /// By PEP 440.
    Python(pep440_rs::Version),
    /// A semantic version.
    Semantic(semver::Version),
}

impl PackageVersion {
    /// Reads a version of one ecosystem.
    pub fn parse(ecosystem: Ecosystem, text: &str) -> Result<Self, PackageRuleError> {
        let bad = |why: String| PackageRuleError::Version { ecosystem, text: text.escape_debug().to_string(), why: why.replace('\n', " ") };
        match ecosystem {
            Ecosystem::Python => text.parse().map(Self::Python).map_err(|why: pep440_rs::VersionParseError| bad(why.to_string())),
            Ecosystem::Node | Ecosystem::Rust => text.parse().map(Self::Semantic).map_err(|why: semver::Error| bad(why.to_string())),
        }
    }
}

impl fmt::Display for PackageVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Python(version) => version.fmt(f),
            Self::Semantic(version) => version.fmt(f),
        }
    }
}
