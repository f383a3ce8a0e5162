//! Ringfence: a smaller computer for model-written code.
//!
//! This is the binary: it reads arguments and the environment, calls the crates that know, and prints.
#![forbid(unsafe_code)]

mod cli;
mod config;
mod remote;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
