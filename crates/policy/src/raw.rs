//! A bound as a person writes it in TOML: every field optional, unknown keys refused, and each text still knowing where it stands.
//!
//! The same form serves a profile, the ceiling in `ringfence.toml` and an agent's posture; what a left-out field means differs (see [`crate::profile`]).

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

use crate::capabilities::{Execution, Grade, Inputs, Kernel, PackageMode, Project, Spawn, Storage, Tier, Wildcards};
use crate::limits::LimitKey;
use crate::packages::{InstallScripts, SourceBuilds};

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
    /// Whether anything can be executed: `none` or `commands`.
    pub(crate) execution: Option<Execution>,
    /// The least tier: `process`, `gvisor` or `microvm`.
    pub(crate) tier: Option<Tier>,
    /// What can be read and what can leave.
    pub(crate) files: Option<RawFiles>,
    /// Which variables a request may set.
    pub(crate) environment: Option<RawNames>,
    /// Which destinations may be reached.
    pub(crate) network: Option<RawNetwork>,
    /// How packages may be installed.
    pub(crate) packages: Option<RawPackages>,
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
    /// `SCHEME://HOST:PORT` or `SCHEME://*.SUFFIX:PORT`; an empty list allows nothing.
    #[schemars(with = "Option<Vec<String>>")]
    pub(crate) allow: Option<Vec<Text>>,
    /// `none`: a destination of another layer that stands for more than one host does not count.
    pub(crate) wildcards: Option<Wildcards>,
}

/// Settings: `ringfence.toml`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawSettings {
    /// The operator's bound on every run.
    pub(crate) ceiling: Option<RawBound>,
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
        ]
        .into_iter()
        .filter_map(|(key, value)| value.as_ref().map(|v| (key, v)))
    }
}
