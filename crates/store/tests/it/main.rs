//! What is remembered, with the real SQLite and the real disk.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test may stop")]

mod approvals;
mod states;
