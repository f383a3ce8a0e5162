//! The system calls that the kept crate does not offer without libc, one small function each, and what makes a program out of them.

mod memory;
mod raw;
mod start;

pub(crate) mod landlock;
pub(crate) mod loopback;
pub(crate) mod mount;
pub(crate) mod process;
pub(crate) mod seccomp;
pub(crate) mod signals;
