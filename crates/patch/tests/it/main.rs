//! Patches as strangers write them, on trees in memory; real git is the judge of what a good one makes.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used, reason = "a test may stop, and starts the judge")]

mod amounts;
mod fits;
mod forms;
mod git;
mod rendered;
mod round_trip;
mod secret;
mod tree;
mod tricks;
