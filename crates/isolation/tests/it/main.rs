//! What leaves a workspace and what is shown in one, on real folders.
//!
//! No test here starts a sandbox: each shapes folders as a hostile program would and asks the crate to read them. All pass as root and as
//! an ordinary user; where the two see different things, the test asks the kernel which of them it is.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "a test may stop, and starts what it tests")]
#![expect(clippy::unwrap_used, reason = "a test whose setting cannot be made has failed")]

mod export;
mod export_race;
mod ignored;
mod layer;
mod left_out;
mod patch;
mod patch_property;
mod scan;
mod snapshot;
mod tree;
