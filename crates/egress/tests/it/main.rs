//! Egress as those inside and outside see it: real clients, a real index of ours, and fakes only where the world ends.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "a test may stop, and starts what it tests")]

mod broker;
mod packages;
