//! `session pause`: its processes end, its files are kept.

use clap::Args;
use serde_json::json;
use serde_json::value::RawValue;

use super::report;
use crate::cli::Context;
use crate::cli::out::{self, Failure};
use crate::cli::run::finish;
use crate::remote::Server;

/// Arguments of `session pause`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  kept=$(ringfence session pause 01kbdz9xk3v8p5r0q2n7m4t6w1)\n  ringfence session new --from $kept")]
pub(super) struct PauseArguments {
    /// The session
    session: String,
}

pub(super) fn run(context: &Context, server: &Server, arguments: &PauseArguments) -> Result<u8, Failure> {
    let text: Box<RawValue> = server.post(&["sessions", &arguments.session, "pause"], &json!({}))?;
    let report = report(server, &text)?;
    let kept = report.state.iter().flat_map(|state| &state.saved).find(|kept| kept.kind == "paused");
    if let Some(kept) = kept {
        out::print(&format!("{}\n", out::harmless(&kept.id)))?;
    }
    finish(context, &report, false)
}
