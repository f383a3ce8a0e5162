//! What a run may do, as a product of small lattices. `meet` takes the smaller of each field.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::address::AddressRange;
use crate::credential::CredentialBinding;
use crate::destination::Destination;
use crate::image_name::ImageName;
use crate::lattice::Set;
use crate::limits::Limits;
use crate::names::{NamePattern, PathScope};
use crate::packages::Packages;

/// An ordered choice whose smaller value is the smaller capability.
macro_rules! choice {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $word)] $variant),+ }

        impl $name {
            /// Every value, the smallest first.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word that a person writes.
            pub fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str(self.word()) }
        }

        impl std::str::FromStr for $name {
            type Err = String;
            fn from_str(text: &str) -> Result<Self, String> {
                Self::ALL.iter().copied().find(|v| v.word() == text)
                    .ok_or_else(|| format!("`{text}` is none of {}", Self::ALL.iter().map(|v| v.word()).collect::<Vec<_>>().join(", ")))
            }
        }
    };
}
pub(crate) use choice;

choice!(
    /// Whether anything can be executed at all.
    Execution {
        /// No execution surface: the agent has tools only.
        None = "none",
        /// Commands run inside the sandbox.
        Commands = "commands",
    }
);
choice!(
    /// Whether inputs can be given.
    Inputs {
        /// No inputs.
        None = "none",
        /// The files and folders that the request names, read-only.
        Named = "named",
    }
);
choice!(
    /// Whether a project can be given as the workspace.
    Project {
        /// The workspace starts empty.
        None = "none",
        /// A copy-on-write view; the project itself is never written.
        View = "view",
    }
);
choice!(
    /// Where what a run writes may be kept. Memory is the smaller one: what is written counts as memory as well, and no disk of the host is touched.
    Storage {
        /// In memory only.
        Memory = "memory",
        /// On disk, where the request says so; in memory otherwise.
        Disk = "disk",
    }
);
choice!(
    /// How packages of one language may be installed.
    PackageMode {
        /// Not at all.
        None = "none",
        /// Only what a lock file with hashes names.
        Locked = "locked",
        /// Only what the operator's list names.
        Allowlist = "allowlist",
        /// Anything: someone's conscious choice for low-risk work.
        Open = "open",
    }
);
choice!(
    /// Whether a rule may stand for more than one host.
    Wildcards {
        /// Every host is named.
        None = "none",
        /// `*.example.com` is a rule.
        Any = "any",
    }
);
choice!(
    /// Which programs the command may start.
    Spawn {
        /// No other process: the command and its threads.
        None = "none",
        /// Programs of the image, none that the run itself wrote.
        Own = "own",
        /// Any program that the sandbox can see, also one that the run wrote or compiled.
        Any = "any",
    }
);
choice!(
    /// How much of the kernel can be called.
    Kernel {
        /// The default filter.
        Default = "default",
        /// The default filter and `ptrace` among the run's own processes.
        Debug = "debug",
    }
);
choice!(
    /// How strongly the sandbox is isolated; a stronger tier is a smaller capability.
    Tier {
        /// Namespaces, cgroups, Landlock and a system call filter on the host's kernel.
        Process = "process",
        /// A user-space kernel.
        Gvisor = "gvisor",
        /// A virtual machine with a kernel of its own.
        Microvm = "microvm",
    }
);
choice!(
    /// Who holds a limit.
    Grade {
        /// The kernel, for each process alone: many processes together can exceed it.
        PerProcess = "per-process",
        /// The supervisor, which sums the tree and ends it: short overshoots are possible.
        Watched = "watched",
        /// The kernel, for the whole tree.
        Kernel = "kernel",
    }
);

choice!(
    /// How much harm it does if what a run sees becomes known. A higher one is a smaller capability: it may ask for a stronger tier.
    Sensitivity {
        /// Anyone may know it.
        Public = "public",
        /// Known inside an organisation.
        Internal = "internal",
        /// Harm is done if it becomes known.
        Confidential = "confidential",
        /// Great harm is done if it becomes known.
        Restricted = "restricted",
    }
);

impl Sensitivity {
    /// What a record from before there was a choice means.
    fn lowest() -> Self {
        Self::Public
    }

    fn is_lowest(&self) -> bool {
        *self == Self::lowest()
    }
}

/// The least tier for each sensitivity; one that is not named asks for none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LeastTiers(BTreeMap<Sensitivity, Tier>);

impl LeastTiers {
    /// Asks for a tier.
    pub fn set(&mut self, sensitivity: Sensitivity, tier: Tier) {
        if tier > Tier::Process {
            self.0.insert(sensitivity, tier);
        }
    }

    /// The least tier for work of a sensitivity: what is asked for it or for less.
    pub fn of(&self, sensitivity: Sensitivity) -> Tier {
        self.0.range(..=sensitivity).map(|(_, tier)| *tier).max().unwrap_or(Tier::Process)
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn meet(&self, other: &Self) -> Self {
        let mut both = self.clone();
        for (sensitivity, tier) in &other.0 {
            both.0.entry(*sensitivity).and_modify(|own| *own = (*own).max(*tier)).or_insert(*tier);
        }
        both
    }
}

impl fmt::Display for LeastTiers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.0.iter().map(|(sensitivity, tier)| format!("{sensitivity} {tier}")).collect();
        f.write_str(if words.is_empty() { "none" } else { "" })?;
        f.write_str(&words.join(", "))
    }
}

/// What a record from before there was a choice means: the host's image.
fn host_alone() -> Set<ImageName> {
    Set::only([ImageName::Host])
}

fn is_host_alone(images: &Set<ImageName>) -> bool {
    *images == host_alone()
}

impl Storage {
    /// What a record from before there was a choice means.
    fn smallest() -> Self {
        Self::Memory
    }

    fn is_smallest(&self) -> bool {
        *self == Self::smallest()
    }
}

/// The least grade at which a limit may be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grades {
    /// For memory.
    pub memory: Grade,
    /// For processor time.
    pub cpu: Grade,
    /// For bytes and files on disk. (In memory they are always held by the kernel.)
    #[serde(default = "Grades::least_for_disk", skip_serializing_if = "Grades::is_least_for_disk")]
    pub disk: Grade,
}

impl Grades {
    /// What a record from before there was storage on disk means.
    fn least_for_disk() -> Grade {
        Grade::Watched
    }

    fn is_least_for_disk(grade: &Grade) -> bool {
        *grade == Self::least_for_disk()
    }

    fn all(grade: Grade) -> Self {
        Self { memory: grade, cpu: grade, disk: grade }
    }

    fn meet(self, other: Self) -> Self {
        Self { memory: self.memory.max(other.memory), cpu: self.cpu.max(other.cpu), disk: self.disk.max(other.disk) }
    }
}

impl fmt::Display for Grades {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "memory {}, cpu {}, disk {}", self.memory, self.cpu, self.disk)
    }
}

/// Everything that a run may do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    /// Whether anything can be executed.
    pub execution: Execution,
    /// Which image is seen as `/`.
    #[serde(default = "host_alone", skip_serializing_if = "is_host_alone")]
    pub image: Set<ImageName>,
    /// Whether inputs can be given.
    pub inputs: Inputs,
    /// Whether a project can be given.
    pub project: Project,
    /// Which hidden files may be revealed on request.
    pub reveal: Set<PathScope>,
    /// Which paths of the workspace may leave as artifacts.
    pub exports: Set<PathScope>,
    /// Where what the run writes may be kept.
    #[serde(default = "Storage::smallest", skip_serializing_if = "Storage::is_smallest")]
    pub storage: Storage,
    /// Which environment variables the request may set.
    pub environment: Set<NamePattern>,
    /// Which destinations may be reached.
    pub network: Set<Destination>,
    /// Whether a destination may stand for more than one host.
    pub wildcards: Wildcards,
    /// Which refused ranges of addresses a name may lead to after all. Only the ceiling names some.
    #[serde(default = "Set::all", skip_serializing_if = "Set::is_all")]
    pub private: Set<AddressRange>,
    /// Which credentials are put in outside, and for which requests.
    #[serde(default = "Set::none", skip_serializing_if = "Set::is_none")]
    pub credentials: Set<CredentialBinding>,
    /// How packages may be installed.
    pub packages: Packages,
    /// Which governed tools may be called.
    pub tools: Set<NamePattern>,
    /// Which programs may be started.
    pub spawn: Spawn,
    /// How much of the kernel can be called.
    pub kernel: Kernel,
    /// The least tier.
    pub tier: Tier,
    /// How sensitive the work is.
    #[serde(default = "Sensitivity::lowest", skip_serializing_if = "Sensitivity::is_lowest")]
    pub sensitivity: Sensitivity,
    /// The least tier for each sensitivity.
    #[serde(default, skip_serializing_if = "LeastTiers::is_empty")]
    pub tiers: LeastTiers,
    /// The most of each resource.
    pub limits: Limits,
    /// The least grade at which limits are held.
    pub grades: Grades,
}

impl Capabilities {
    /// No bound at all: what an absent ceiling means.
    pub fn unlimited() -> Self {
        Self {
            execution: Execution::Commands,
            image: Set::All,
            inputs: Inputs::Named,
            project: Project::View,
            reveal: Set::All,
            exports: Set::All,
            storage: Storage::Disk,
            environment: Set::All,
            network: Set::All,
            wildcards: Wildcards::Any,
            private: Set::All,
            credentials: Set::All,
            packages: Packages::unlimited(),
            tools: Set::All,
            spawn: Spawn::Any,
            kernel: Kernel::Debug,
            tier: Tier::Process,
            sensitivity: Sensitivity::Public,
            tiers: LeastTiers::default(),
            limits: Limits::default(),
            grades: Grades::all(Grade::PerProcess),
        }
    }

    /// Nothing at all: what a profile's absent field means (its limits it must state). Its image is the host's.
    pub fn nothing() -> Self {
        Self {
            execution: Execution::None,
            image: host_alone(),
            inputs: Inputs::None,
            project: Project::None,
            reveal: Set::none(),
            exports: Set::none(),
            storage: Storage::Memory,
            environment: Set::none(),
            network: Set::none(),
            wildcards: Wildcards::Any,
            private: Set::All,
            credentials: Set::none(),
            packages: Packages::nothing(),
            tools: Set::none(),
            spawn: Spawn::None,
            kernel: Kernel::Default,
            tier: Tier::Process,
            sensitivity: Sensitivity::Public,
            tiers: LeastTiers::default(),
            limits: Limits::default(),
            grades: Grades::all(Grade::Watched),
        }
    }

    /// What both allow: commutative, associative, idempotent, and never larger than either.
    #[must_use]
    pub fn meet(&self, other: &Self) -> Self {
        Self {
            execution: self.execution.min(other.execution),
            image: self.image.meet(&other.image),
            inputs: self.inputs.min(other.inputs),
            project: self.project.min(other.project),
            reveal: self.reveal.meet(&other.reveal),
            exports: self.exports.meet(&other.exports),
            storage: self.storage.min(other.storage),
            environment: self.environment.meet(&other.environment),
            network: self.network.meet(&other.network),
            wildcards: self.wildcards.min(other.wildcards),
            private: self.private.meet(&other.private),
            credentials: self.credentials.meet(&other.credentials),
            packages: self.packages.meet(&other.packages),
            tools: self.tools.meet(&other.tools),
            spawn: self.spawn.min(other.spawn),
            kernel: self.kernel.min(other.kernel),
            tier: self.tier.max(other.tier),
            sensitivity: self.sensitivity.max(other.sensitivity),
            tiers: self.tiers.meet(&other.tiers),
            limits: self.limits.meet(&other.limits),
            grades: self.grades.meet(other.grades),
        }
    }

    /// True if `other` allows nothing that `self` does not.
    pub fn covers(&self, other: &Self) -> bool {
        self.meet(other) == *other
    }

    /// The destinations that hold once every bound is known. (Kept apart from `meet`, which must not depend on the order of the bounds: a
    /// wildcard of one layer may still meet a host of another.)
    pub fn reachable(&self) -> Set<Destination> {
        match (&self.network, self.wildcards) {
            (Set::Only(listed), Wildcards::None) => Set::only(listed.iter().filter(|d| d.is_one_host()).cloned()),
            (network, Wildcards::None | Wildcards::Any) => network.clone(),
        }
    }

    /// One field as a person reads it.
    pub fn show(&self, field: Field) -> String {
        match field {
            Field::Execution => self.execution.to_string(),
            Field::Image => self.image.to_string(),
            Field::Inputs => self.inputs.to_string(),
            Field::Project => self.project.to_string(),
            Field::Reveal => self.reveal.to_string(),
            Field::Exports => self.exports.to_string(),
            Field::Storage => self.storage.to_string(),
            Field::Environment => self.environment.to_string(),
            Field::Network => self.reachable().to_string(),
            Field::Wildcards => self.wildcards.to_string(),
            Field::Private => match &self.private {
                Set::All => "as the ceiling excepts".to_owned(),
                listed @ Set::Only(_) => listed.to_string(),
            },
            Field::Credentials => self.credentials.to_string(),
            Field::Packages => self.packages.to_string(),
            Field::Tools => self.tools.to_string(),
            Field::Spawn => self.spawn.to_string(),
            Field::Kernel => self.kernel.to_string(),
            Field::Tier => self.tier.to_string(),
            Field::Sensitivity => self.sensitivity.to_string(),
            Field::Tiers => self.tiers.to_string(),
            Field::Grades => self.grades.to_string(),
            Field::Limit(key) => self.limits.get(key).map_or_else(|| "unlimited".to_owned(), |v| key.show(v)),
        }
    }
}

/// The name of one field, for printing and for saying which layer won.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Field {
    /// Whether anything can be executed.
    Execution,
    /// Which image is seen.
    Image,
    /// Whether inputs can be given.
    Inputs,
    /// Whether a project can be given.
    Project,
    /// Which hidden files may be revealed.
    Reveal,
    /// What may leave.
    Exports,
    /// Where what is written may be kept.
    Storage,
    /// Which variables may be set.
    Environment,
    /// Which destinations may be reached.
    Network,
    /// Whether a destination may stand for more than one host.
    Wildcards,
    /// Which refused addresses a name may lead to after all.
    Private,
    /// Which credentials are put in outside.
    Credentials,
    /// How packages may be installed.
    Packages,
    /// Which tools may be called.
    Tools,
    /// Which programs may be started.
    Spawn,
    /// How much of the kernel can be called.
    Kernel,
    /// The least tier.
    Tier,
    /// How sensitive the work is.
    Sensitivity,
    /// The least tier for each sensitivity.
    Tiers,
    /// The least grades.
    Grades,
    /// One limit.
    Limit(crate::limits::LimitKey),
}

impl Field {
    /// Every field, in the order in which they are printed.
    pub fn all() -> impl Iterator<Item = Self> {
        [
            Self::Execution,
            Self::Image,
            Self::Inputs,
            Self::Project,
            Self::Reveal,
            Self::Exports,
            Self::Storage,
            Self::Environment,
            Self::Network,
            Self::Wildcards,
            Self::Private,
            Self::Credentials,
            Self::Packages,
            Self::Tools,
            Self::Spawn,
            Self::Kernel,
            Self::Tier,
            Self::Sensitivity,
            Self::Tiers,
            Self::Grades,
        ]
        .into_iter()
        .chain(crate::limits::LimitKey::ALL.into_iter().map(Self::Limit))
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Execution => "execution",
            Self::Image => "image",
            Self::Inputs => "inputs",
            Self::Project => "project",
            Self::Reveal => "reveal",
            Self::Exports => "exports",
            Self::Storage => "storage",
            Self::Environment => "environment",
            Self::Network => "network",
            Self::Wildcards => "wildcards",
            Self::Private => "private addresses",
            Self::Credentials => "credentials",
            Self::Packages => "packages",
            Self::Tools => "tools",
            Self::Spawn => "spawn",
            Self::Kernel => "kernel",
            Self::Tier => "tier",
            Self::Sensitivity => "sensitivity",
            Self::Tiers => "tiers by sensitivity",
            Self::Grades => "grades",
            Self::Limit(key) => key.name(),
        })
    }
}
