//! What may a run do?
//!
//! Policy is an algebra of three bounds and an ask. The operator's *ceiling*, the class of work's *profile* and the *agent* each bound a run;
//! their [`meet`](Capabilities::meet) is what may be asked for at most. The *ask* then names what one run wants, and [`resolve()`] answers with a
//! [`Grant`] or a [`Refusal`] that says which rule refused, which layer set it and what would allow it.
//!
//! This crate is pure: it reads no file, knows no kernel and starts nothing. It can be printed, compared and tested alone.
#![forbid(unsafe_code)]
#![warn(clippy::wildcard_enum_match_arm)]

mod address;
mod agent;
mod artifact_kind;
mod ask;
mod capabilities;
mod choices;
mod credential;
mod date;
mod destination;
mod field;
mod glob;
mod grades;
mod hidden;
mod host;
mod image_name;
mod lattice;
mod limits;
mod matrix;
mod most_kept;
mod names;
mod package_name;
mod package_rule;
mod packages;
mod plain_name;
mod profile;
mod raw;
mod raw_target;
mod request_rule;
mod resolve;
mod settings;
mod shipped;
mod target;
mod tiers;
mod user_name;

pub use address::{AddressRange, REFUSED_RANGES, RangeError, refused_range};
pub use agent::{AgentProfiles, AgentRecord, RawAgent};
pub use artifact_kind::ArtifactKind;
pub use ask::{Ask, EnvName, EnvNameError};
pub use capabilities::Capabilities;
pub use choices::{Execution, Grade, Inputs, Kernel, PackageMode, Project, Sensitivity, Spawn, State, Storage, Tier, Wildcards};
pub use credential::{CredentialBinding, CredentialError, CredentialName};
pub use date::{Date, DateError};
pub use destination::{Destination, DestinationError, Scheme};
pub use field::Field;
pub use glob::{Glob, GlobError};
pub use grades::Grades;
pub use hidden::{Hiding, is_secret};
pub use host::{HostName, HostPattern};
pub use image_name::{ImageDigest, ImageName, ImageNameError, ImageTag};
pub use lattice::{Element, Set};
pub use limits::{LimitError, LimitKey, Limits, Unit};
pub use matrix::{Matrix, MatrixRow, SafeDefault};
pub use most_kept::MostKept;
pub use names::{NamePattern, PathScope, PatternError, WorkspacePath, WorkspacePathError};
pub use package_name::{Ecosystem, PackageName, PackageVersion};
pub use package_rule::{PackageRule, PackageRuleError};
pub use packages::{InstallScripts, MinimumAge, Packages, SourceBuilds};
pub use plain_name::{AgentId, GroupName, PersonName, PlainNameError, StateName, TargetName, TenantName};
pub use profile::{Bound, Profile, ProfileError, ProfileName, parse_bound};
pub use raw::{RawBound, RawSettings};
pub use request_rule::{Method, PathPrefix};
pub use resolve::{Decision, Grant, Layer, Refusal, resolve};
pub use settings::{OperatorSettings, parse_settings};
pub use shipped::{Shipped, shipped};
pub use target::{Consent, Place, Target};
pub use tiers::LeastTiers;
pub use user_name::UserName;
