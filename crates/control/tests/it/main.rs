//! What a caller of this crate sees, without a sandbox.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "a test may stop, and starts what it tests")]

mod cells;
