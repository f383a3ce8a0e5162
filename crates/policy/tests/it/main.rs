//! Policy as those who use it see it: laws, decisions, the shipped profiles, and the generated schema.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "a test may stop, and starts what it tests")]

mod laws;
mod resolve;
mod shipped;
