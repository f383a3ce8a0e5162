//! `session ls`: what stands.

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::cli::out::{self, Failure};
use crate::remote::Server;

/// Arguments of `session ls`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  ringfence session ls --json")]
pub(super) struct LsArguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Deserialize)]
struct SessionList {
    sessions: Vec<Listed>,
}

/// A session in a list. Its port token is for `GET /v1/sessions/{session}` alone.
#[derive(Debug, Serialize, Deserialize)]
struct Listed {
    session: String,
    agent: String,
    profile: String,
    user: String,
    home: String,
    started_at: String,
    ends_at: String,
    cpu_ms: u64,
    memory_peak_bytes: u64,
    commands_running: u64,
}

pub(super) fn run(server: &Server, arguments: &LsArguments) -> Result<u8, Failure> {
    let list: SessionList = server.get(&["sessions"])?;
    if arguments.json {
        return out::print_json(&list.sessions).map(|()| 0);
    }
    let header = ["session", "profile", "agent", "began", "ends", "commands", "memory at most"];
    out::print(&out::table(&header, list.sessions.into_iter().map(cells).collect())).map(|()| 0)
}

fn cells(listed: Listed) -> Vec<String> {
    let Listed { session, profile, agent, started_at, ends_at, commands_running, memory_peak_bytes, .. } = listed;
    let mut cells: Vec<String> = [session, profile, agent, started_at, ends_at].iter().map(|text| out::harmless(text)).collect();
    cells.extend([commands_running.to_string(), out::bytes(memory_peak_bytes)]);
    cells
}
