//! The system calls that the kept crate does not offer without libc. What makes a program is init's own.

#[path = "../../sys/memory.rs"]
mod memory;
#[path = "../../sys/raw.rs"]
mod raw;
#[path = "../../sys/start.rs"]
mod start;

pub(crate) mod kernel;
pub(crate) mod process;
