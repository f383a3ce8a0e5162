//! What is remembered?
//!
//! The record is in folders: a journal a run, appended and flushed, and artifacts by digest. An SQLite index over them answers questions fast; it is
//! brought up to date by whoever asks, never on the path of a run, and is made anew when it is lost. Several processes use a home at once.
#![forbid(unsafe_code)]

mod artifacts;
mod authority;
mod clients;
mod credentials;
mod database;
mod error;
mod home;
mod index;
mod journal;
mod keys;
mod registry;
mod run_id;
mod states;

pub use artifacts::Artifacts;
pub use authority::{
    ApprovalRow, ApprovalState, Authority, Begun, Counts, Decided, DecisionRow, NewApproval, NewDecision, NewPromotion, NewStanding,
    PromotionRow, PromotionState, StandingRow, Started, Verdict,
};
pub use clients::{Answer, AnswerBegun, AnswerKey, Caller, Clients, KEPT_FOR_MS, KeyKind, KeyRow, NewKey, TenantRow};
pub use credentials::{CredentialRow, Credentials, KeySources};
pub use error::{StoreError, hint_for};
pub use home::{FORMAT, Home, draft_of, write_whole};
pub use index::{ArtifactRow, Index, RunFilter, RunRow, UsageRow, Viewer};
pub use journal::{Journal, JournalWriter, Mark, Orphan, now};
pub use keys::{load_or_make_key, make_private_key, read_private_key, read_public_key};
pub use registry::{Document, Documents, RegistryLock};
pub use run_id::{RunId, RunIdError};
pub use states::{StateAbout, StateContent, StateDraft, StateId, StateIdError, StateKind, StateLock, StateQuota, StateRow, States};
