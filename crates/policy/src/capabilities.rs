//! What a run may do, as a product of small lattices. `meet` takes the smaller of each field.

use serde::{Deserialize, Serialize};

use crate::address::AddressRange;
use crate::artifact_kind::ArtifactKind;
use crate::ask::EnvName;
use crate::choices::{Execution, Grade, Inputs, Kernel, Project, Sensitivity, Spawn, State, Storage, Tier, Wildcards};
use crate::credential::CredentialBinding;
use crate::destination::Destination;
use crate::field::Field;
use crate::grades::Grades;
use crate::image_name::ImageName;
use crate::lattice::Set;
use crate::limits::Limits;
use crate::names::{NamePattern, PathScope};
use crate::packages::Packages;
use crate::tiers::LeastTiers;

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
    /// Which kinds of artifacts may be promoted, where a target takes them.
    #[serde(default = "Set::none", skip_serializing_if = "Set::is_none")]
    pub promotions: Set<ArtifactKind>,
    /// Where what the run writes may be kept.
    #[serde(default = "Storage::smallest", skip_serializing_if = "Storage::is_smallest")]
    pub storage: Storage,
    /// Whether what the run writes may outlive it.
    #[serde(default = "State::smallest", skip_serializing_if = "State::is_smallest")]
    pub state: State,
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
            promotions: Set::All,
            storage: Storage::Disk,
            state: State::Named,
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
            promotions: Set::none(),
            storage: Storage::Memory,
            state: State::None,
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
            promotions: self.promotions.meet(&other.promotions),
            storage: self.storage.min(other.storage),
            state: self.state.min(other.state),
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

    /// Whether a request may set a variable.
    pub fn allows_variable(&self, name: &EnvName) -> bool {
        let pattern: NamePattern = name.as_str().parse().unwrap_or_else(|_| unreachable!("a variable's name is a pattern"));
        self.environment.allows(&pattern)
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
            Field::Promotions => self.promotions.to_string(),
            Field::Storage => self.storage.to_string(),
            Field::State => self.state.to_string(),
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

/// What a record from before there was a choice means: the host's image.
fn host_alone() -> Set<ImageName> {
    Set::only([ImageName::Host])
}

fn is_host_alone(images: &Set<ImageName>) -> bool {
    *images == host_alone()
}
