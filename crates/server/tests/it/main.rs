//! A real server on loopback with a real home, and strangers who ask it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "a test may stop, and starts what it tests")]

mod approvals;
mod bodies;
mod checks;
mod described;
mod e2b;
mod ends;
mod gate;
mod hostile;
mod kept_open;
mod quota;
mod rig;
mod runs;
mod sessions;
mod slow;
mod tenants;
