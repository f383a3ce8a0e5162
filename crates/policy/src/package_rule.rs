//! Rules about packages: `python:requests>=2.31,<3` names an ecosystem, a package in its canonical form, and the versions that fit.
//!
//! INVARIANT (each alone): a version fits a rule if it fits each comparison by itself. So the rule that two rules have in common is the union of
//! their comparisons, and it never allows more than either. (Other readings let a comparison with a pre-release open the door for the others.)

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::lattice::Element;
use crate::names::text_type;
use crate::package_name::{Ecosystem, PackageName, PackageVersion};

/// Why a rule about packages was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PackageRuleError {
    /// No ecosystem before the name.
    #[error("`{0}` names no language; write python:NAME, node:NAME or rust:NAME, such as `python:requests>=2.31,<3`")]
    Ecosystem(String),
    /// Not a name in this ecosystem.
    #[error("`{name}` is not the name of a {ecosystem} package: {why}")]
    Name {
        /// The ecosystem.
        ecosystem: Ecosystem,
        /// What was written.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Not a comparison with a version.
    #[error("`{text}` is not a comparison of {ecosystem} versions: {why}; write one such as `>=2.31`")]
    Comparison {
        /// The ecosystem.
        ecosystem: Ecosystem,
        /// What was written.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// Not a version.
    #[error("`{text}` is not a {ecosystem} version: {why}")]
    Version {
        /// The ecosystem.
        ecosystem: Ecosystem,
        /// What was written.
        text: String,
        /// What is wrong with it.
        why: String,
    },
}

/// One comparison with a version. Its canonical text is what tells two apart.
#[derive(Debug, Clone)]
struct Comparison {
    text: String,
    form: ComparisonForm,
}

#[derive(Debug, Clone)]
enum ComparisonForm {
    Python(pep440_rs::VersionSpecifier),
    Semantic(semver::Comparator),
}

impl Comparison {
    fn parse(ecosystem: Ecosystem, text: &str) -> Result<Self, PackageRuleError> {
        let bad =
            |why: String| PackageRuleError::Comparison { ecosystem, text: text.escape_debug().to_string(), why: why.replace('\n', " ") };
        match ecosystem {
            Ecosystem::Python if text.starts_with("===") => Err(bad("`===` compares texts and not versions".to_owned())),
            Ecosystem::Python => {
                let form: pep440_rs::VersionSpecifier = text.parse().map_err(|why| bad(format!("{why}")))?;
                Ok(Self { text: format!("{form}"), form: ComparisonForm::Python(form) })
            }
            Ecosystem::Node | Ecosystem::Rust if text.starts_with(|c: char| c.is_ascii_digit()) => {
                Err(bad("it means one thing for node and another for rust without `=`, `^` or `~` before it".to_owned()))
            }
            Ecosystem::Node | Ecosystem::Rust => {
                let form: semver::Comparator = text.parse().map_err(|why: semver::Error| bad(why.to_string()))?;
                Ok(Self { text: form.to_string(), form: ComparisonForm::Semantic(form) })
            }
        }
    }

    fn fits(&self, version: &PackageVersion) -> bool {
        match (&self.form, version) {
            (ComparisonForm::Python(form), PackageVersion::Python(version)) => form.contains(version),
            (ComparisonForm::Semantic(form), PackageVersion::Semantic(version)) => form.matches(version),
            (ComparisonForm::Python(_), PackageVersion::Semantic(_)) | (ComparisonForm::Semantic(_), PackageVersion::Python(_)) => false,
        }
    }
}

impl PartialEq for Comparison {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Comparison {}

impl PartialOrd for Comparison {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Comparison {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.text.cmp(&other.text)
    }
}

/// Which package, in which versions. `python:*` stands for every name: it is what `open` means, and is not written by a person.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PackageRule {
    ecosystem: Ecosystem,
    name: Option<PackageName>,
    comparisons: BTreeSet<Comparison>,
}

impl PackageRule {
    /// The rule for every package of an ecosystem.
    pub fn any(ecosystem: Ecosystem) -> Self {
        Self { ecosystem, name: None, comparisons: BTreeSet::new() }
    }

    /// The ecosystem.
    pub fn ecosystem(&self) -> Ecosystem {
        self.ecosystem
    }

    /// True if it stands for every name.
    pub fn is_any_name(&self) -> bool {
        self.name.is_none()
    }

    /// True if the rule is about this package, in whichever version.
    pub fn names(&self, ecosystem: Ecosystem, name: &PackageName) -> bool {
        self.ecosystem == ecosystem && self.name.as_ref().is_none_or(|listed| listed == name)
    }

    /// True if a version fits every comparison.
    pub fn fits(&self, version: &PackageVersion) -> bool {
        self.comparisons.iter().all(|comparison| comparison.fits(version))
    }
}

impl FromStr for PackageRule {
    type Err = PackageRuleError;

    fn from_str(text: &str) -> Result<Self, PackageRuleError> {
        let (word, rest) = text.split_once(':').ok_or_else(|| PackageRuleError::Ecosystem(text.to_owned()))?;
        let known = Ecosystem::ALL.into_iter().find(|ecosystem| ecosystem.to_string() == word);
        let ecosystem = known.ok_or_else(|| PackageRuleError::Ecosystem(text.to_owned()))?;
        if rest == "*" {
            return Ok(Self::any(ecosystem));
        }
        let end = rest.find(|c: char| "<>=!~^ ".contains(c)).unwrap_or(rest.len());
        let (name, versions) = rest.split_at(end);
        let name = Some(PackageName::parse(ecosystem, name)?);
        let each = versions.trim().split(',').map(str::trim);
        let comparisons = match versions.trim().is_empty() {
            true => BTreeSet::new(),
            false => each.map(|text| Comparison::parse(ecosystem, text)).collect::<Result<_, _>>()?,
        };
        Ok(Self { ecosystem, name, comparisons })
    }
}

impl Element for PackageRule {
    fn meet(&self, other: &Self) -> Option<Self> {
        let is_same = self.name.is_none() || other.name.is_none() || self.name == other.name;
        (self.ecosystem == other.ecosystem && is_same).then(|| Self {
            ecosystem: self.ecosystem,
            name: self.name.clone().or_else(|| other.name.clone()),
            comparisons: self.comparisons.union(&other.comparisons).cloned().collect(),
        })
    }
}

impl fmt::Display for PackageRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name.as_ref().map_or("*", PackageName::as_str);
        let comparisons: Vec<&str> = self.comparisons.iter().map(|comparison| comparison.text.as_str()).collect();
        write!(f, "{}:{name}{}", self.ecosystem, comparisons.join(","))
    }
}

text_type!(PackageRule: PackageRuleError);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_read_into_its_canonical_form() {
        for (text, wanted) in [
            ("python:Requests >=2.31, <3", Some("python:requests<3,>=2.31")),
            ("python:zope.interface", Some("python:zope-interface")),
            ("python:a__B--c", Some("python:a-b-c")),
            ("python:x==1.*", Some("python:x==1.*")),
            ("node:@acme/left-pad^1.2", Some("node:@acme/left-pad^1.2")),
            ("node:JSONStream", Some("node:JSONStream")),
            ("rust:Serde_Json>=1.0,<2", Some("rust:serde-json<2,>=1.0")),
            ("requests", None),
            ("perl:x", None),
            ("python:", None),
            ("python:-x", None),
            ("python:x[socks]", None),
            ("python:x>=", None),
            ("python:x>=1,", None),
            ("python:x>=one", None),
            ("python:x===1", None),
            ("python:x@1", None),
            ("node:../x", None),
            ("node:@/x", None),
            ("node:x=1 || 2", None),
            ("rust:serde 1.0", None),
            ("rust:1serde", None),
            ("rust:sërde", None),
        ] {
            let read = text.parse::<PackageRule>().ok().map(|rule| rule.to_string());
            assert_eq!(read.as_deref(), wanted, "{text}");
        }
    }

    #[test]
    fn a_version_fits_only_if_it_fits_each_comparison_alone() {
        let fits = |rule: &str, version: &str| {
            let rule: PackageRule = rule.parse().unwrap();
            rule.fits(&PackageVersion::parse(rule.ecosystem(), version).unwrap())
        };
        assert!(fits("python:x>=2.31,<3", "2.31.0") && !fits("python:x>=2.31,<3", "3.0") && !fits("python:x<3", "3.0rc1"));
        assert!(fits("node:x^1.2", "1.9.0") && !fits("node:x^1.2", "2.0.0"));
        assert!(fits("rust:x=1.0.0-rc.1", "1.0.0-rc.1") && !fits("rust:x>=1.0.0-rc.1,<2", "1.0.0-rc.2"));
    }
}
