//! A bound as a person writes it in TOML: every field optional, unknown keys refused, and each text still knowing where it stands.
//!
//! The same form serves a profile, the ceiling in `ringfence.toml` and an agent's posture; what a left-out field means differs (see [`crate::profile`]).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

use crate::choices::{Execution, Grade, Inputs, Kernel, PackageMode, Project, Sensitivity, Spawn, State, Storage, Tier, Wildcards};
use crate::limits::LimitKey;
use crate::packages::{InstallScripts, SourceBuilds};
use crate::raw_target::{RawConsent, RawTarget};

/// A text with its place in the file.
pub(crate) type Text = Spanned<String>;

/// A bound as written.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawBound {
    /// The profile's name: lower-case letters, digits and hyphens. Profiles only.
    #[schemars(with = "Option<String>")]
    pub(crate) name: Option<Text>,
    /// One line on what the profile is for. Profiles only.
    pub(crate) summary: Option<String>,
    /// Whom commands run as: `agent`, who works in `/workspace`, or another name, who works in `/home/NAME`. Profiles only.
    #[schemars(with = "Option<String>")]
    pub(crate) user: Option<Text>,
    /// Whether anything can be executed: `none` or `commands`.
    pub(crate) execution: Option<Execution>,
    /// What is seen as `/`: `host`, or an imported image by `name`, `name:tag`, `sha256:…` or `name:tag@sha256:…`. A profile names one and means `host`
    /// where it names none; a ceiling or an agent may list several.
    #[schemars(with = "Option<RawImages>")]
    pub(crate) image: Option<Spanned<RawImages>>,
    /// The least tier: `process`, `gvisor` or `microvm`.
    pub(crate) tier: Option<Tier>,
    /// How sensitive the work is: `public`, `internal`, `confidential` or `restricted`.
    pub(crate) sensitivity: Option<Sensitivity>,
    /// The least tier for work of a sensitivity, and of a higher one.
    pub(crate) tiers: Option<RawTiers>,
    /// What can be read and what can leave.
    pub(crate) files: Option<RawFiles>,
    /// Which variables a request may set.
    pub(crate) environment: Option<RawNames>,
    /// Which destinations may be reached.
    pub(crate) network: Option<RawNetwork>,
    /// Which credentials are put in outside: `NAME: https://HOST:443 header=HEADER variable=VARIABLE`, with ` methods=` and ` paths=` as in `[network]`.
    pub(crate) credentials: Option<RawNames>,
    /// How packages may be installed.
    pub(crate) packages: Option<RawPackages>,
    /// Which kinds of artifacts may be promoted: `patch`, `report`, `image`, `notebook`, `sql`, `manifest`, `data-set` or `other`.
    pub(crate) promotions: Option<RawNames>,
    /// Which governed tools may be called.
    pub(crate) tools: Option<RawNames>,
    /// Which programs may be started, and how much of the kernel they can call.
    pub(crate) process: Option<RawProcess>,
    /// The most of each resource.
    pub(crate) limits: Option<RawLimits>,
    /// The least grade at which a limit is held.
    pub(crate) grades: Option<RawGrades>,
}

/// What can be read and what can leave.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawFiles {
    /// `none` or `named`.
    pub(crate) inputs: Option<Inputs>,
    /// `none` or `view`.
    pub(crate) project: Option<Project>,
    /// Hidden files that `--reveal` may show: `**`, `folder/**` or a path.
    #[schemars(with = "Option<Vec<String>>")]
    pub(crate) reveal: Option<Vec<Text>>,
    /// Paths of the workspace that may leave: `**`, `folder/**` or a path.
    #[schemars(with = "Option<Vec<String>>")]
    pub(crate) exports: Option<Vec<Text>>,
    /// Where what is written may be kept: `memory`, or `disk` where the request says so.
    pub(crate) storage: Option<Storage>,
    /// Whether what is written may outlive the run: `none`, or `named` where the request names a state.
    pub(crate) state: Option<State>,
}

/// The least tier by sensitivity: `process`, `gvisor` or `microvm`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawTiers {
    /// For what anyone may know.
    pub(crate) public: Option<Tier>,
    /// For what an organisation knows.
    pub(crate) internal: Option<Tier>,
    /// For what does harm if it becomes known.
    pub(crate) confidential: Option<Tier>,
    /// For what does great harm if it becomes known.
    pub(crate) restricted: Option<Tier>,
}

impl RawTiers {
    /// The tiers that were written, each with its sensitivity.
    pub(crate) fn written(&self) -> impl Iterator<Item = (Sensitivity, Tier)> {
        [
            (Sensitivity::Public, self.public),
            (Sensitivity::Internal, self.internal),
            (Sensitivity::Confidential, self.confidential),
            (Sensitivity::Restricted, self.restricted),
        ]
        .into_iter()
        .filter_map(|(sensitivity, tier)| tier.map(|tier| (sensitivity, tier)))
    }
}

/// A list of names, patterns or destinations.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawNames {
    /// What is allowed; an empty list allows nothing.
    #[schemars(with = "Option<Vec<String>>")]
    pub(crate) allow: Option<Vec<Text>>,
}

/// Destinations.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawNetwork {
    /// `SCHEME://HOST:PORT` or `SCHEME://*.SUFFIX:PORT`, followed by ` methods=GET,HEAD` and ` paths=/v1,/status` where only some requests are meant; an
    /// empty list allows nothing.
    #[schemars(with = "Option<Vec<String>>")]
    pub(crate) allow: Option<Vec<Text>>,
    /// Refused ranges of addresses, such as `10.20.0.0/16`, that a name may lead to after all. The ceiling only.
    #[schemars(with = "Option<Vec<String>>")]
    pub(crate) private: Option<Vec<Text>>,
    /// `none`: a destination of another layer that stands for more than one host does not count.
    pub(crate) wildcards: Option<Wildcards>,
}

/// Settings: `ringfence.toml`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawSettings {
    /// The operator's bound on every run.
    pub(crate) ceiling: Option<RawBound>,
    /// Where artifacts can be promoted to, by name.
    #[serde(default)]
    pub(crate) targets: BTreeMap<String, RawTarget>,
    /// Who decides about new versions of agents.
    pub(crate) agents: Option<RawConsent>,
    /// The profile of each template, by which clients of E2B ask for a sandbox: `base` and `code-interpreter-v1` are there without a word.
    #[serde(default)]
    pub(crate) templates: BTreeMap<String, String>,
    /// How much a tenant of a server may keep.
    pub(crate) state: Option<RawKept>,
}

/// What each tenant of a server may keep in states: named ones, snapshots and paused sessions.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct RawKept {
    /// How many; 1000 if not named.
    #[schemars(with = "Option<u64>")]
    pub(crate) max_count: Option<Spanned<u64>>,
    /// How much all of them take, such as `32GiB`, which it is if not named.
    #[schemars(with = "Option<String>")]
    pub(crate) max_bytes: Option<Text>,
}

/// Package modes, `none`, `locked`, `allowlist` or `open`, and the rules for what is installed.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct RawPackages {
    /// For Python.
    pub(crate) python: Option<PackageMode>,
    /// For Node.
    pub(crate) node: Option<PackageMode>,
    /// For Rust.
    pub(crate) rust: Option<PackageMode>,
    /// For `allowlist`: `LANGUAGE:NAME` and comparisons of versions, such as `python:requests>=2.31,<3`. What a listed package needs must be
    /// listed too. An empty list allows nothing.
    #[schemars(with = "Option<Vec<String>>")]
    pub(crate) allow: Option<Vec<Text>>,
    /// How long a version must have been out, such as `72h`; `locked` does not ask.
    #[schemars(with = "Option<String>")]
    pub(crate) minimum_age: Option<Text>,
    /// `none`: wheels only. `any`: Python packages may be built from source.
    pub(crate) source_builds: Option<SourceBuilds>,
    /// `none`: no Node package that has scripts which run at its install. `any`: they are had, and run.
    pub(crate) install_scripts: Option<InstallScripts>,
}

/// Processes and the kernel.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawProcess {
    /// `none`, `own` or `any`.
    pub(crate) spawn: Option<Spawn>,
    /// `default` or `debug`.
    pub(crate) kernel: Option<Kernel>,
}

/// The least grades: `per-process`, `watched` or `kernel`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawGrades {
    /// For memory.
    pub(crate) memory: Option<Grade>,
    /// For processor time.
    pub(crate) cpu: Option<Grade>,
    /// For bytes and files on disk.
    pub(crate) disk: Option<Grade>,
}

/// One image, or a list of them.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum RawImages {
    /// One.
    One(String),
    /// Several.
    Several(Vec<String>),
}

/// A limit's value: text with a unit, or a whole number for limits that count things.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum RawValue {
    /// A whole number.
    Number(u64),
    /// A number with its unit.
    Text(String),
}

/// Limits as written.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct RawLimits {
    /// Wall-clock time, such as `5min`.
    #[schemars(with = "Option<RawValue>")]
    pub(crate) wall: Option<Spanned<RawValue>>,
    /// Processor time of the whole tree, such as `5min`.
    #[schemars(with = "Option<RawValue>")]
    pub(crate) cpu: Option<Spanned<RawValue>>,
    /// Processors at once, such as `2` or `"0.5"`.
    #[schemars(with = "Option<RawValue>")]
    pub(crate) cpus: Option<Spanned<RawValue>>,
    /// Memory of the whole tree, such as `1GiB`.
    #[schemars(with = "Option<RawValue>")]
    pub(crate) memory: Option<Spanned<RawValue>>,
    /// Processes and threads at once.
    #[schemars(with = "Option<RawValue>")]
    pub(crate) processes: Option<Spanned<RawValue>>,
    /// Bytes kept of stdout and stderr, such as `4MiB`.
    #[schemars(with = "Option<RawValue>")]
    pub(crate) output: Option<Spanned<RawValue>>,
    /// Bytes of the workspace, `/tmp` and `/dev/shm`, such as `1GiB`.
    #[schemars(with = "Option<RawValue>")]
    pub(crate) disk: Option<Spanned<RawValue>>,
    /// Files and folders in them.
    #[schemars(with = "Option<RawValue>")]
    pub(crate) files: Option<Spanned<RawValue>>,
    /// Open descriptors of one process.
    #[schemars(with = "Option<RawValue>")]
    pub(crate) open_files: Option<Spanned<RawValue>>,
    /// Number of artifacts.
    #[schemars(with = "Option<RawValue>")]
    pub(crate) artifacts: Option<Spanned<RawValue>>,
    /// Bytes of all artifacts, such as `256MiB`.
    #[schemars(with = "Option<RawValue>")]
    pub(crate) artifact_bytes: Option<Spanned<RawValue>>,
    /// Bytes over the network, both ways, such as `1GiB`.
    #[schemars(with = "Option<RawValue>")]
    pub(crate) network_bytes: Option<Spanned<RawValue>>,
    /// Connections and requests over the network.
    #[schemars(with = "Option<RawValue>")]
    pub(crate) network_requests: Option<Spanned<RawValue>>,
}

impl RawLimits {
    /// The limits that were written, each with its key.
    pub(crate) fn written(&self) -> impl Iterator<Item = (LimitKey, &Spanned<RawValue>)> {
        [
            (LimitKey::Wall, &self.wall),
            (LimitKey::Cpu, &self.cpu),
            (LimitKey::Cpus, &self.cpus),
            (LimitKey::Memory, &self.memory),
            (LimitKey::Processes, &self.processes),
            (LimitKey::Output, &self.output),
            (LimitKey::Disk, &self.disk),
            (LimitKey::Files, &self.files),
            (LimitKey::OpenFiles, &self.open_files),
            (LimitKey::Artifacts, &self.artifacts),
            (LimitKey::ArtifactBytes, &self.artifact_bytes),
            (LimitKey::NetworkBytes, &self.network_bytes),
            (LimitKey::NetworkRequests, &self.network_requests),
        ]
        .into_iter()
        .filter_map(|(key, value)| value.as_ref().map(|v| (key, v)))
    }
}
