//! How packages may be installed: a mode for each language, and the rules that hold for what is installed.
//!
//! The list says which packages `allowlist` means; the least age keeps out what nobody has had time to look at; source builds and install
//! scripts are code of the package's maker that runs before anybody has called it.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::choices::{PackageMode, choice};
use crate::lattice::Set;
use crate::limits::{largest, scaled};
use crate::package_name::{Ecosystem, PackageName, PackageVersion};
use crate::package_rule::PackageRule;

choice!(
    /// Whether Python packages may be built from source.
    SourceBuilds {
        /// Wheels only.
        None = "none",
        /// Source distributions too, whose build runs code of their maker's.
        Any = "any",
    }
);
choice!(
    /// Whether Node packages with scripts that run at their install may be had.
    InstallScripts {
        /// None that has such scripts.
        None = "none",
        /// Any, and their scripts run.
        Any = "any",
    }
);

/// How long a version must have been out. Longer is the smaller capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MinimumAge(u64);

impl MinimumAge {
    /// No wait at all.
    pub const NONE: Self = Self(0);
    /// Three days: most attacks on an index are found and taken down in less.
    pub const USUAL: Self = Self(72 * 3_600_000);

    /// The age in milliseconds.
    pub fn as_millis(self) -> u64 {
        self.0
    }
}

impl FromStr for MinimumAge {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let units = [("s", 1000), ("min", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
        scaled(text, &units)
            .map(Self)
            .ok_or_else(|| format!("`minimum-age` cannot be `{text}`; write a time with its unit, such as `72h`, `7d` or `0s`"))
    }
}

impl fmt::Display for MinimumAge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&largest(self.0, &[("h", 3_600_000), ("min", 60_000), ("s", 1000), ("ms", 1)]))
    }
}

/// How packages may be installed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packages {
    /// Python.
    pub python: PackageMode,
    /// Node.
    pub node: PackageMode,
    /// Rust.
    pub rust: PackageMode,
    /// What `allowlist` means, over all languages.
    #[serde(default = "Set::none", skip_serializing_if = "Set::is_none")]
    pub allow: Set<PackageRule>,
    /// How long a version must have been out. A lock file has pinned what it has, so this is for the other modes.
    #[serde(rename = "minimum_age_ms", default = "usual_age", skip_serializing_if = "is_usual_age")]
    pub minimum_age: MinimumAge,
    /// Whether Python packages may be built from source.
    #[serde(default = "no_source_builds", skip_serializing_if = "is_no_source_builds")]
    pub source_builds: SourceBuilds,
    /// Whether Node packages with install scripts may be had.
    #[serde(default = "no_install_scripts", skip_serializing_if = "is_no_install_scripts")]
    pub install_scripts: InstallScripts,
}

// What a record says that is silent about a rule, as those from before there were any are: the smallest, which is also what a profile means.
fn usual_age() -> MinimumAge {
    MinimumAge::USUAL
}

fn is_usual_age(age: &MinimumAge) -> bool {
    *age == MinimumAge::USUAL
}

fn no_source_builds() -> SourceBuilds {
    SourceBuilds::None
}

fn is_no_source_builds(builds: &SourceBuilds) -> bool {
    *builds == SourceBuilds::None
}

fn no_install_scripts() -> InstallScripts {
    InstallScripts::None
}

fn is_no_install_scripts(scripts: &InstallScripts) -> bool {
    *scripts == InstallScripts::None
}

impl Packages {
    /// No bound at all.
    pub fn unlimited() -> Self {
        Self {
            python: PackageMode::Open,
            node: PackageMode::Open,
            rust: PackageMode::Open,
            allow: Set::All,
            minimum_age: MinimumAge::NONE,
            source_builds: SourceBuilds::Any,
            install_scripts: InstallScripts::Any,
        }
    }

    /// No packages.
    pub fn nothing() -> Self {
        Self {
            python: PackageMode::None,
            node: PackageMode::None,
            rust: PackageMode::None,
            allow: Set::none(),
            minimum_age: MinimumAge::USUAL,
            source_builds: SourceBuilds::None,
            install_scripts: InstallScripts::None,
        }
    }

    /// What both allow.
    #[must_use]
    pub fn meet(&self, other: &Self) -> Self {
        Self {
            python: self.python.min(other.python),
            node: self.node.min(other.node),
            rust: self.rust.min(other.rust),
            allow: self.allow.meet(&other.allow),
            minimum_age: self.minimum_age.max(other.minimum_age),
            source_builds: self.source_builds.min(other.source_builds),
            install_scripts: self.install_scripts.min(other.install_scripts),
        }
    }

    /// A language that is `open` has every name on the list, so that the list of another layer is what both have in common.
    pub(crate) fn with_open_names(mut self) -> Self {
        let open = Ecosystem::ALL.into_iter().filter(|ecosystem| self.mode(*ecosystem) == PackageMode::Open).map(PackageRule::any);
        if let Set::Only(rules) = &self.allow {
            self.allow = Set::only(rules.iter().cloned().chain(open));
        }
        self
    }

    /// The mode of one language.
    pub fn mode(&self, ecosystem: Ecosystem) -> PackageMode {
        match ecosystem {
            Ecosystem::Python => self.python,
            Ecosystem::Node => self.node,
            Ecosystem::Rust => self.rust,
        }
    }

    /// The most that any language has.
    pub fn most(&self) -> PackageMode {
        self.python.max(self.node).max(self.rust)
    }

    /// True if the list has a rule about this package, in whichever version.
    pub fn lists(&self, ecosystem: Ecosystem, name: &PackageName) -> bool {
        match &self.allow {
            Set::All => true,
            Set::Only(rules) => rules.iter().any(|rule| !rule.is_any_name() && rule.names(ecosystem, name)),
        }
    }

    /// True if the list has a rule about this package that this version fits.
    pub fn lists_version(&self, ecosystem: Ecosystem, name: &PackageName, version: &PackageVersion) -> bool {
        match &self.allow {
            Set::All => true,
            Set::Only(rules) => rules.iter().any(|rule| !rule.is_any_name() && rule.names(ecosystem, name) && rule.fits(version)),
        }
    }

    /// The part of the list that a mode asks. (Where one layer says `allowlist` and the other `open`, neither may have listed anything.)
    fn heeded(&self) -> Set<PackageRule> {
        match &self.allow {
            Set::All => Set::All,
            Set::Only(rules) => {
                let is_heeded = |rule: &&PackageRule| !rule.is_any_name() && self.mode(rule.ecosystem()) == PackageMode::Allowlist;
                Set::only(rules.iter().filter(is_heeded).cloned())
            }
        }
    }

    /// The rules that go beyond the smallest, or that matter only in these modes.
    fn rules(&self) -> Vec<String> {
        let is_in = |mode: PackageMode| Ecosystem::ALL.into_iter().any(|ecosystem| self.mode(ecosystem) == mode);
        let mut rules = Vec::new();
        if is_in(PackageMode::Allowlist) {
            rules.push(format!("list: {}", self.heeded()));
        }
        if is_in(PackageMode::Allowlist) || is_in(PackageMode::Open) {
            rules.push(match self.minimum_age {
                MinimumAge::NONE => "of any age".to_owned(),
                age => format!("at least {age} old"),
            });
        }
        if self.python > PackageMode::None && self.source_builds == SourceBuilds::Any {
            rules.push("source builds".to_owned());
        }
        if self.node > PackageMode::None && self.install_scripts == InstallScripts::Any {
            rules.push("install scripts".to_owned());
        }
        rules
    }
}

impl fmt::Display for Packages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.most() == PackageMode::None {
            return f.write_str("none");
        }
        write!(f, "python {}, node {}, rust {}", self.python, self.node, self.rust)?;
        self.rules().into_iter().try_for_each(|rule| write!(f, "; {rule}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records are signed over their bytes, so what one does not use must not appear in it.
    #[test]
    fn a_record_that_knows_no_rules_is_read_as_the_smallest_and_written_as_it_was() {
        let old = r#"{"python":"locked","node":"none","rust":"none"}"#;
        let read: Packages = serde_json::from_str(old).unwrap();
        assert_eq!(read, Packages { python: PackageMode::Locked, ..Packages::nothing() });
        assert_eq!(serde_json::to_string(&read).unwrap(), old);
        assert_eq!(read.to_string(), "python locked, node none, rust none");
    }

    #[test]
    fn what_goes_beyond_the_smallest_is_printed() {
        let open = Packages { rust: PackageMode::None, allow: Set::none(), ..Packages::unlimited() };
        assert_eq!(open.to_string(), "python open, node open, rust none; of any age; source builds; install scripts");
        let rule = "python:requests>=2".parse().unwrap();
        let listed = Packages { python: PackageMode::Allowlist, allow: Set::only([rule]), ..Packages::nothing() };
        assert_eq!(listed.to_string(), "python allowlist, node none, rust none; list: python:requests>=2; at least 72 h old");
    }
}
