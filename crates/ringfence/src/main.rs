//! Ringfence: a smaller computer for model-written code.
//!
//! This is the binary: it reads arguments and the environment, calls the crates that know, and prints. The same binary, started under another name
//! inside a new sandbox, is that sandbox's init; that question comes before everything else.
#![forbid(unsafe_code)]

mod cli;
mod config;

use std::process::ExitCode;

fn main() -> ExitCode {
    ringfence_isolation::become_init_if_asked();
    cli::main()
}
