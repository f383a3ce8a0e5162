//! `ringfence session`: sandboxes of a server that stand, with commands and files that come and go. One file each.

mod end;
mod exec;
mod get;
mod ls;
mod new;
mod pause;
mod put;
mod snapshot;

use clap::{Args, Subcommand};
use ringfence_control::RunReport;
use ringfence_policy::LimitKey;
use serde_json::value::RawValue;

use super::Context;
use super::out::Failure;
use crate::remote::Server;

/// Arguments of `session`.
#[derive(Debug, Args)]
pub(crate) struct SessionArguments {
    #[command(subcommand)]
    command: SessionCommand,
}

#[derive(Debug, Subcommand)]
enum SessionCommand {
    /// Make a session, and print its name
    New(new::NewArguments),
    /// List the sessions that stand, the oldest first
    Ls(ls::LsArguments),
    /// Run a command in a session, with its output as it comes
    Exec(exec::ExecArguments),
    /// Put a file into a session
    Put(put::PutArguments),
    /// Fetch a file out of a session
    Get(get::GetArguments),
    /// End a session: what was named leaves it, and its record is sealed
    End(end::EndArguments),
    /// End a session and keep its files, and print the id with which another one goes on (`session new --from`)
    Pause(pause::PauseArguments),
    /// Keep the files of a session as they are while it goes on, and print the id with which others begin (`session new --from`)
    Snapshot(snapshot::SnapshotArguments),
}

pub(crate) fn run(context: &Context, arguments: &SessionArguments) -> Result<u8, Failure> {
    let server = context.server()?.ok_or_else(|| {
        let hint = "name it: --server URL or RINGFENCE_SERVER; `ringfence serve` serves from this host, and `ringfence run` needs none";
        Failure::new("sessions stand on a server, and none is named", hint)
    })?;
    match &arguments.command {
        SessionCommand::New(arguments) => new::run(context, &server, arguments),
        SessionCommand::Ls(arguments) => ls::run(&server, arguments),
        SessionCommand::Exec(arguments) => exec::run(context, &server, arguments),
        SessionCommand::Put(arguments) => put::run(context, &server, arguments),
        SessionCommand::Get(arguments) => get::run(&server, arguments),
        SessionCommand::End(arguments) => end::run(context, &server, arguments),
        SessionCommand::Pause(arguments) => pause::run(context, &server, arguments),
        SessionCommand::Snapshot(arguments) => snapshot::run(&server, arguments),
    }
}

/// A time as whole seconds, begun ones counted.
fn seconds(option: &str, text: &str) -> Result<u64, Failure> {
    let minutes = text.strip_suffix('m').filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
    let text = minutes.map_or_else(|| text.to_owned(), |minutes| format!("{minutes}min"));
    let millis = LimitKey::Wall.parse_value(&text);
    millis.map(|millis| millis.div_ceil(1000)).map_err(|e| Failure::new(format!("{option}: {e}"), format!("such as {option} 10m")))
}

/// The report of a session that is over.
fn report(server: &Server, text: &RawValue) -> Result<RunReport, Failure> {
    Ok(RunReport::from_json(text.get()).map_err(|e| server.not_understood(e))?)
}

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn a_time_is_whole_seconds() {
        let times = ["10m", "10min", "1h", "90s", "10ms", "1500ms"].map(|text| seconds("--timeout", text).unwrap());
        assert_eq!(times, [600, 600, 3600, 90, 1, 2]);
        for bad in ["", "m", "10", "-1s", "1d", "soon"] {
            assert!(seconds("--timeout", bad).is_err(), "{bad}");
        }
    }
}
