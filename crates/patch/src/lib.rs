//! What would this patch do to a tree?
//!
//! Model-written code leaves its sandbox as a patch. Nobody runs `git apply` on it: this crate [reads](Patch::parse) git's format and refuses
//! what is not plain in it, [applies](Patch::apply) it to the bytes of a base, and [shows](render) an approver what was found, made from the
//! edits and never from the patch's own words. The [writer](write()) of such patches is here too, beside its reader.
//!
//! It is pure: no files, no processes, no repository. Bytes come in through a [`Base`], and bytes go out as [`Edit`]s.
#![forbid(unsafe_code)]
#![warn(clippy::wildcard_enum_match_arm)]

mod apply;
mod binary;
mod hunks;
mod ids;
mod limits;
mod line_diff;
mod mode;
mod names;
mod parse;
mod patch;
mod paths;
mod quote;
mod review;
mod secrets;
mod visible;
mod write;

pub use apply::{ApplyError, ApplyFault, Base, BaseEntry, Edit};
pub use binary::{DeltaFault, DigitFault, UnpackFault};
pub use limits::{LimitFault, Limits};
pub use mode::{Blob, Kind, Mode, Side};
pub use names::{NameFault, is_git, is_modules};
pub use parse::{Fault, ModeFault, PatchError};
pub use patch::Patch;
pub use quote::plain_or_quoted;
pub use review::{FileChange, FileStat, Flag, Hazard, Review, render, review, starts_programs};
pub use secrets::{Finding, secrets};
pub use write::write;
