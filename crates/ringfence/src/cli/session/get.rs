//! `session get`: the bytes of a file of a session, to be saved and not shown.

use std::path::PathBuf;

use clap::Args;

use crate::cli::artifact::save;
use crate::cli::out::Failure;
use crate::remote::Server;

/// Arguments of `session get`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  ringfence session get 01kbdz9xk3v8p5r0q2n7m4t6w1 report.md report.md")]
pub(super) struct GetArguments {
    /// The session
    session: String,
    /// Path in the sandbox, from the home if it does not begin with `/`
    path: String,
    /// File to make; never one that is there. Default: standard output
    file: Option<PathBuf>,
}

pub(super) fn run(server: &Server, arguments: &GetArguments) -> Result<u8, Failure> {
    let fetch = |to: &mut dyn std::io::Write| Ok(server.fetch(&arguments.session, &arguments.path, to)?);
    save(arguments.file.as_deref(), "name a file to make", fetch).map(|()| 0)
}
