//! Where artifacts can take effect, and who must agree: the operator's, complete and checked. What a person writes is in `raw_target`.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::artifact_kind::ArtifactKind;
use crate::glob::Glob;
use crate::plain_name::{GroupName, TargetName};
use crate::profile::ProfileName;

/// Who must agree before something takes effect, and how soon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consent {
    /// How many different persons.
    pub quorum: u32,
    /// Of which groups; any person where none is named.
    pub groups: BTreeSet<GroupName>,
    /// Whether the agent's owner does not count.
    pub exclude_owner: bool,
    /// How long a decision may take, milliseconds.
    pub decide_within_ms: u64,
    /// How long after it the thing may be done, milliseconds.
    pub execute_within_ms: u64,
}

/// Where a target is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Place {
    /// A branch of a repository.
    Git {
        /// Its path or URL.
        repository: String,
        /// The branch.
        branch: String,
    },
    /// A folder of files.
    Directory {
        /// Its absolute path.
        folder: String,
    },
}

/// A place that artifacts can be promoted to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Its name.
    pub name: TargetName,
    /// Where it is.
    pub place: Place,
    /// Which kinds of artifacts it takes.
    pub accepts: BTreeSet<ArtifactKind>,
    /// Of which profiles; of all where none is named.
    pub profiles: BTreeSet<ProfileName>,
    /// Program and arguments of each check.
    pub checks: Vec<Vec<String>>,
    /// The profile in which checks run.
    pub check_profile: ProfileName,
    /// Files that checks take from the base.
    pub tests: Vec<Glob>,
    /// Files whose change needs an approval of its own.
    pub protected: Vec<Glob>,
    /// Files in which added lines may look like secrets.
    pub secrets_allowed: Vec<Glob>,
    /// Who must agree.
    pub consent: Consent,
    /// Who must agree to a change of protected paths.
    pub protected_consent: Consent,
    /// The longest file that may result, bytes.
    pub max_file_bytes: u64,
}

impl Target {
    /// True if artifacts of this kind, made under this profile, can go here.
    pub fn takes(&self, kind: ArtifactKind, profile: &str) -> bool {
        self.accepts.contains(&kind) && (self.profiles.is_empty() || self.profiles.iter().any(|named| named.as_str() == profile))
    }

    /// True if this path is one of the tests.
    pub fn is_test(&self, path: &[u8]) -> bool {
        self.tests.iter().any(|glob| glob.matches(path))
    }

    /// True if a check of a branch names this file: whoever changes it decides what the check does.
    fn is_named_by_a_check(&self, path: &[u8]) -> bool {
        let is_apart = |c: char| c.is_whitespace() || ";&|()<>'\"`=".contains(c);
        if matches!(self.place, Place::Directory { .. }) {
            return false; // there the checks name what is promoted
        }
        let words = self.checks.iter().flatten().flat_map(|word| word.split(is_apart));
        words.map(|word| word.trim_start_matches("./")).any(|word| !word.is_empty() && word.as_bytes() == path)
    }

    /// True if a change of this path needs an approval of its own, whatever the change is, and in whatever case of letters it is written.
    pub fn is_protected(&self, path: &[u8]) -> bool {
        let folded = path.to_ascii_lowercase();
        self.protected.iter().any(|glob| glob.matches(path) || glob.matches_folded(&folded)) || self.is_named_by_a_check(path)
    }
}

/// Who agrees, in words: `1 of maintainers or owners`.
impl fmt::Display for Consent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let groups: Vec<&str> = self.groups.iter().map(GroupName::as_str).collect();
        let who = if groups.is_empty() { "any person".to_owned() } else { groups.join(" or ") };
        let owner = if self.exclude_owner { ", not the agent's owner" } else { "" };
        write!(f, "{} of {who}{owner}", self.quorum)
    }
}
