//! What the supervisor and the init of a sandbox say to each other, over a socket pair that no command ever sees.
//!
//! Init is a small static program without a standard library, so this crate has none either. Everything here is decided: paths, flags and numbers
//! as the kernel takes them. What they mean stands in the plan, which stays with the supervisor.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod blueprint;
mod fact;
mod messages;

pub use blueprint::{Act, Blueprint, Copy, Instruction, Mount, Setting, Veil};
pub use fact::Fact;
pub use messages::{CONTROL_FD, Execution, Failed, Maps, Order, Report, Window, decode, encode};
