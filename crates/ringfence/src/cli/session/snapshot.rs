//! `session snapshot`: its files as they are, while it goes on.

use clap::Args;
use serde::Deserialize;
use serde_json::json;

use crate::cli::out::{self, Failure};
use crate::remote::Server;

/// Arguments of `session snapshot`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  kept=$(ringfence session snapshot 01kbdz9xk3v8p5r0q2n7m4t6w1)\n  ringfence session new --from $kept")]
pub(super) struct SnapshotArguments {
    /// The session
    session: String,
}

#[derive(Debug, Deserialize)]
struct Kept {
    state: String,
}

pub(super) fn run(server: &Server, arguments: &SnapshotArguments) -> Result<u8, Failure> {
    let kept: Kept = server.post(&["sessions", &arguments.session, "snapshots"], &json!({}))?;
    out::print(&format!("{}\n", out::harmless(&kept.state))).map(|()| 0)
}
