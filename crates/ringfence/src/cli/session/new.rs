//! `session new`: asked for like a run, but for its command.

use std::collections::BTreeMap;
use std::ffi::OsString;

use clap::Args;
use ringfence_policy::{AgentId, ProfileName, StateName};
use serde::{Deserialize, Serialize};

use super::seconds;
use crate::cli::Context;
use crate::cli::out::{self, Failure, complain, parsed};
use crate::cli::run::{environment, limits, text};
use crate::remote::Server;

/// Arguments of `session new`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  session=$(ringfence session new --timeout 10m --env MODE=fast)\n  ringfence session exec $session -- python3 -c 'print(6 * 7)'"
)]
pub(super) struct NewArguments {
    /// Class of work: the name of a profile [default: base]
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Registered agent that the session belongs to [default: the first of the key's tenant]
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    /// After how long it ends by itself [default: 5m]
    #[arg(long, value_name = "TIME")]
    timeout: Option<String>,
    /// Variable that all its commands get; repeatable
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<OsString>,
    /// Lower a limit, as for a run; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    limit: Vec<String>,
    /// Destination to reach; must be inside the bound; repeatable
    #[arg(long, value_name = "[SCHEME://]HOST:PORT")]
    allow: Vec<String>,
    /// Artifact to collect when it ends, relative to the workspace; repeatable
    #[arg(long, value_name = "GLOB")]
    export: Vec<String>,
    /// State to begin with and to keep what is written in when it ends
    #[arg(long, value_name = "NAME")]
    state: Option<String>,
    /// Begin with the files of a session that was paused, or of a snapshot
    #[arg(long, value_name = "ID")]
    from: Option<String>,
}

/// The body of `POST /v1/sessions`.
#[derive(Debug, Serialize)]
struct SessionBody {
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<ProfileName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<AgentId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<u64>,
    env: BTreeMap<String, String>,
    limits: BTreeMap<String, String>,
    allow: Vec<String>,
    exports: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<StateName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Made {
    session: String,
    profile: String,
    home: String,
    ends_at: String,
}

pub(super) fn run(context: &Context, server: &Server, arguments: &NewArguments) -> Result<u8, Failure> {
    let made: Made = server.post(&["sessions"], &body(arguments)?)?;
    if !context.is_quiet {
        let Made { session, profile, home, ends_at } = &made;
        complain(&out::harmless(&format!(
            "ringfence: session {session} of profile {profile} stands until {ends_at}; its commands start in {home}"
        )));
    }
    out::print(&format!("{}\n", out::harmless(&made.session))).map(|()| 0)
}

fn body(arguments: &NewArguments) -> Result<SessionBody, Failure> {
    let hint = "see `ringfence profile ls`, `ringfence agent ls` and `ringfence state ls`";
    let variables = environment(&arguments.env)?;
    Ok(SessionBody {
        profile: arguments.profile.as_deref().map(|name| parsed(name, hint)).transpose()?,
        agent: arguments.agent.as_deref().map(|name| parsed(name, hint)).transpose()?,
        timeout: arguments.timeout.as_deref().map(|time| seconds("--timeout", time)).transpose()?,
        env: variables.iter().map(|(name, value)| Ok((name.to_string(), text("--env", value)?))).collect::<Result<_, Failure>>()?,
        limits: limits(&arguments.limit)?.iter().map(|(key, value)| (key.name().to_owned(), key.show(value))).collect(),
        allow: arguments.allow.clone(),
        exports: arguments.export.clone(),
        state: arguments.state.as_deref().map(|name| parsed(name, hint)).transpose()?,
        from: arguments.from.clone(),
    })
}
