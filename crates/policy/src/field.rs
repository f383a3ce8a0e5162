//! The names of the parts of a capability.

use std::fmt;

use crate::limits::LimitKey;

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
    /// Which kinds of artifacts may be promoted.
    Promotions,
    /// Where what is written may be kept.
    Storage,
    /// Whether what is written may outlive the run.
    State,
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
    Limit(LimitKey),
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
            Self::Promotions,
            Self::Storage,
            Self::State,
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
        .chain(LimitKey::ALL.into_iter().map(Self::Limit))
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
            Self::Promotions => "promotions",
            Self::Storage => "storage",
            Self::State => "state",
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
