//! Targets and consent as a person writes them in `ringfence.toml`.

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

use crate::raw::Text;

/// Where a target is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RawTargetKind {
    /// A branch of a git repository.
    Git,
    /// A folder of files.
    Directory,
}

/// One command of a target's checks: a line for `sh -c`, or a program with its arguments.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum RawCheck {
    /// A line for a shell.
    Line(String),
    /// A program with its arguments.
    Program(Vec<String>),
}

/// A place that artifacts can be promoted to.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct RawTarget {
    /// `git` or `directory`.
    #[schemars(with = "RawTargetKind")]
    pub(crate) kind: Spanned<RawTargetKind>,
    /// For `git`: path or URL of the repository.
    #[schemars(with = "Option<String>")]
    pub(crate) repository: Option<Text>,
    /// For `git`: the branch.
    #[schemars(with = "Option<String>")]
    pub(crate) branch: Option<Text>,
    /// For `directory`: the folder, as an absolute path.
    #[schemars(with = "Option<String>")]
    pub(crate) folder: Option<Text>,
    /// Which kinds of artifacts it takes; `git` takes `patch` alone.
    #[schemars(with = "Option<Vec<String>>")]
    pub(crate) accepts: Option<Vec<Text>>,
    /// Artifacts of which profiles it takes; default: of every profile that may promote the kind.
    #[schemars(with = "Option<Vec<String>>")]
    pub(crate) profiles: Option<Vec<Text>>,
    /// What must end with status 0 in a fresh sandbox before anybody is asked.
    #[schemars(with = "Option<Vec<RawCheck>>")]
    pub(crate) checks: Option<Spanned<Vec<RawCheck>>>,
    /// The profile in which checks run; default `code-change` for `git`, `data-analysis` for `directory`.
    #[schemars(with = "Option<String>")]
    pub(crate) check_profile: Option<Text>,
    /// Files that checks take from the base and never from the patch, as globs; changing one that is there needs the approval for protected paths.
    #[schemars(with = "Option<Vec<String>>")]
    pub(crate) tests: Option<Vec<Text>>,
    /// Files whose change needs an approval of its own, as globs.
    #[schemars(with = "Option<Vec<String>>")]
    pub(crate) protected: Option<Vec<Text>>,
    /// Files in which added lines may look like secrets, as globs; nowhere by default.
    #[schemars(with = "Option<Vec<String>>")]
    pub(crate) secrets_allowed: Option<Vec<Text>>,
    /// How many different persons must approve; default 1.
    #[schemars(with = "Option<u32>")]
    pub(crate) quorum: Option<Spanned<u32>>,
    /// Of which groups they must be members; default: any person.
    #[schemars(with = "Option<Vec<String>>")]
    pub(crate) groups: Option<Vec<Text>>,
    /// How many must approve a change of protected paths; default as `quorum`.
    #[schemars(with = "Option<u32>")]
    pub(crate) protected_quorum: Option<Spanned<u32>>,
    /// Of which groups those must be members; default as `groups`.
    #[schemars(with = "Option<Vec<String>>")]
    pub(crate) protected_groups: Option<Vec<Text>>,
    /// Whether the agent's owner cannot approve.
    #[serde(default)]
    pub(crate) exclude_owner: bool,
    /// How long a decision may take, such as `24h`, the default.
    #[schemars(with = "Option<String>")]
    pub(crate) decide_within: Option<Text>,
    /// How long after it the promotion may be applied, such as `1h`, the default.
    #[schemars(with = "Option<String>")]
    pub(crate) execute_within: Option<Text>,
    /// The longest file that may result, such as `10MiB`, the default.
    #[schemars(with = "Option<String>")]
    pub(crate) max_file: Option<Text>,
}

/// Who decides about new versions of agents.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct RawConsent {
    /// How many different persons must approve; default 1.
    #[schemars(with = "Option<u32>")]
    pub(crate) quorum: Option<Spanned<u32>>,
    /// Of which groups they must be members; default: any person.
    #[schemars(with = "Option<Vec<String>>")]
    pub(crate) groups: Option<Vec<Text>>,
    /// Whether the agent's owner cannot approve.
    #[serde(default)]
    pub(crate) exclude_owner: bool,
    /// How long a decision may take, such as `7d`, the default.
    #[schemars(with = "Option<String>")]
    pub(crate) decide_within: Option<Text>,
}
