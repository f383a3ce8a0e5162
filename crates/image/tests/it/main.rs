//! Images of strangers: what is kept of them, and what is refused.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop")]

mod hostile;
mod large;
mod layouts;
mod links;
mod over;
mod property;
mod store;
mod support;
mod whiteouts;
