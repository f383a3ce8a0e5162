//! What an approver reads.

mod programs;

pub use programs::starts_programs;
