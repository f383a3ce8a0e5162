//! `session end`: nothing of it runs any more, and its record is sealed.

use clap::Args;
use serde_json::value::RawValue;

use super::report;
use crate::cli::Context;
use crate::cli::out::Failure;
use crate::cli::run::finish;
use crate::remote::Server;

/// Arguments of `session end`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  ringfence session end 01kbdz9xk3v8p5r0q2n7m4t6w1\n\nExit status: 0 it was ended; 123 a named artifact is missing or was refused, or a state not kept; 125 otherwise."
)]
pub(super) struct EndArguments {
    /// The session
    session: String,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(context: &Context, server: &Server, arguments: &EndArguments) -> Result<u8, Failure> {
    let text: Box<RawValue> = server.end(&["sessions", &arguments.session])?;
    finish(context, &report(server, &text)?, arguments.json)
}
