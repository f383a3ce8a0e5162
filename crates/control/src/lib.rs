//! Who may start what: the registry of agents, settings, and the straight line of a run from request to sealed evidence.
#![forbid(unsafe_code)]

mod audit;
mod build;
mod doors;
mod ending;
mod error;
mod images;
mod inside;
mod leaving;
mod packages;
mod perform;
mod profiles;
mod pull;
mod record;
mod recording;
mod registry;
mod report;
mod request;
mod run;
mod settings;
mod stop;
mod sweep;
mod views;

pub use audit::{Answer, Audit, AuditError, AuditRequest, Item};
pub use build::{BuildError, BuildRequest};
pub use error::RunError;
pub use images::{ImagesError, images, import_image, remove_image};
#[doc(hidden)]
pub use inside::Weakening;
pub use profiles::{ProfileText, find_profile, read_text};
pub use pull::ImageSource;
pub use registry::{Agent, Identity, IdentityError, NewKey, NewPerson, Person, PersonState, Persons, RegistryError, active};
pub use report::{ArtifactReport, HiddenReport, LockReport, NetworkReport, PackageRefusalReport, RefusalReport, RunReport};
pub use request::{Attachments, InputRequest, OutputTo, Progress, RunRequest, Secret};
pub use ringfence_image::{Facts as ImageFacts, Listed as ListedImage};
pub use run::{Explained, Runner, Surroundings, missing_in_this_version};
pub use settings::Settings;

/// The version of this program, as it stands in evidence.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
