//! The protocol of E2B's clients, byte by byte.

mod code;
mod control;
mod files;
mod keeping;
mod network;
mod process;
mod routing;
mod watching;
pub(crate) mod wire;
