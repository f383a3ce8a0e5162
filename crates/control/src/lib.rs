//! Who may start what: the registry of agents, settings, and the straight line of a run from request to sealed evidence.
#![forbid(unsafe_code)]

mod approvals;
mod audit;
mod build;
pub mod cells;
mod checkpoint;
mod doors;
mod ending;
mod error;
mod images;
mod inside;
mod leaving;
mod moment;
mod packages;
mod perform;
mod pool;
mod profiles;
mod promotion;
mod pull;
mod record;
mod recording;
mod registry;
mod replay;
mod report;
mod request;
mod run;
mod sessions;
mod settings;
mod state;
mod stop;
mod sweep;
mod views;
mod words;

pub use approvals::{
    ApprovalError, ApprovalRequest, Approvals, Asked as AskedApproval, DECISION_TYPE, Decision, Matter, NewGrant, STANDING_TYPE,
    StandingGrant,
};
pub use audit::{Answer, Audit, AuditError, AuditRequest, Item};
pub use build::{BuildError, BuildRequest};
pub use checkpoint::{CHECKPOINT_TYPE, Checkpoint, verify_checkpoint};
pub use error::RunError;
pub use images::{ImagesError, images, import_image, remove_image};
#[doc(hidden)]
pub use inside::Weakening;
pub use moment::in_words as moment_in_words;
pub use profiles::{ProfileText, find_profile, read_text};
pub use promotion::{
    ApprovalReport, Asked, CheckReport, Content, DecisionRecord, Prepared, PromotionError, PromotionReport, PromotionRequest, Provenance,
    RECEIPT, RECEIPT_TYPE, Receipt, Unfit, verify_promotion,
};
pub use pull::ImageSource;
pub use registry::{
    Action, Added, Agent, AgentState, Agents, Deed, Identity, IdentityError, NewKey, NewPerson, PendingRevision, Person, PersonState,
    Persons, ProfileDigests, ProfileUsage, RegisteredAgent, RegistryError, Revision, RevisionState, WrongTransition, active,
    active_version,
};
pub use replay::{Cause, Changed, Difference, Replay, ReplayError, ReplayRequest};
pub use report::{
    ArtifactReport, HiddenReport, KeptState, LockReport, NetworkReport, PackageRefusalReport, RefusalReport, RunReport, StateReport,
};
pub use request::{Attachments, InputRequest, OutputTo, Progress, RunRequest, Secret, names_a_secret};
pub use ringfence_image::{Facts as ImageFacts, Listed as ListedImage};
pub use run::{Explained, Recorded, Runner, Surroundings, missing_in_this_version};
pub use sessions::{
    About, CodeContext, CommandEnd, CommandEvent, CommandRequest, ListenFrom, Session, SessionCommand, SessionError, SessionRequest,
    Sessions, Subscription, Which,
};
pub use settings::Settings;
pub use state::KeepError;

pub use words::command_in_words;

/// The version of this program, as it stands in evidence.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
