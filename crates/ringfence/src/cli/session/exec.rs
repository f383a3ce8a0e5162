//! `session exec`: a command, what it writes as it writes it, and its exit status. Whoever asks this process to stop sends the command that signal.

use std::cell::Cell;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use ringfence_evidence::RunEnd;
use ringfence_isolation::{OsText, stop_requested_descriptor, stop_signal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::seconds;
use crate::cli::Context;
use crate::cli::out::{self, Failure, complain};
use crate::cli::run::{tell_not_executed, text};
use crate::remote::{RemoteError, Server, ServerEvent};

/// Bytes of standard input that are sent at once.
const PIECE: usize = 256 << 10;
/// The command's own time was up.
const OUT_OF_TIME: u8 = 124;

/// Arguments of `session exec`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  ringfence session exec 01kbdz9xk3v8p5r0q2n7m4t6w1 --timeout 30s -- python3 -c 'print(6 * 7)'\n  ringfence session exec --stdin 01kbdz9xk3v8p5r0q2n7m4t6w1 -- sh < setup.sh\n\nExit status: the program's own; 124 its time; 125 refused, or the server could not be asked; 126 and 127 as a shell; 128+n a signal."
)]
pub(super) struct ExecArguments {
    /// The session
    session: String,
    /// Pass your standard input to the command; it is empty otherwise
    #[arg(long)]
    stdin: bool,
    /// After how long the command is killed
    #[arg(long, value_name = "TIME")]
    timeout: Option<String>,
    /// Folder in which it starts [default: the home]
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// Variable beside the session's own; repeatable
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<OsString>,
    /// The command
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// The body of `POST /v1/sessions/{session}/commands`.
#[derive(Debug, Serialize)]
struct CommandBody {
    command: Vec<String>,
    env: std::collections::BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<u64>,
    open_stdin: bool,
}

#[derive(Debug, Deserialize)]
struct Begun {
    number: u32,
}

#[derive(Debug, Deserialize)]
struct View {
    end: Option<RunEnd>,
}

/// What the last event says.
#[derive(Debug, Deserialize)]
struct Ended {
    end: RunEnd,
    exit_status: i32,
    is_out_of_time: bool,
}

pub(super) fn run(context: &Context, server: &Server, arguments: &ExecArguments) -> Result<u8, Failure> {
    let body = body(arguments)?;
    // Before there are threads, which would be ended by the signals.
    let stop = stop_requested_descriptor().map_err(|e| Failure::new(format!("watching signals: {e}"), ""))?;
    let session = arguments.session.as_str();
    let begun: Begun = server.post(&["sessions", session, "commands"], &body)?;
    let number = begun.number.to_string();
    if let (true, Some(feeding)) = (arguments.stdin, context.server()?) {
        let (session, number) = (session.to_owned(), number.clone());
        std::thread::spawn(move || feed(&feeding, &session, &number));
    }
    let ended = follow(server, session, &number, &stop)?;
    tell_not_executed(&ended.end);
    Ok(match ended.is_out_of_time {
        true => OUT_OF_TIME,
        false => u8::try_from(ended.exit_status).unwrap_or(out::REFUSED),
    })
}

fn body(arguments: &ExecArguments) -> Result<CommandBody, Failure> {
    let word = |word: &OsString| text("COMMAND", &OsText::from(word.clone()));
    let variables = crate::cli::run::environment(&arguments.env)?;
    Ok(CommandBody {
        command: arguments.command.iter().map(word).collect::<Result<_, _>>()?,
        env: variables.iter().map(|(name, value)| Ok((name.to_string(), text("--env", value)?))).collect::<Result<_, Failure>>()?,
        cwd: arguments.cwd.clone(),
        timeout: arguments.timeout.as_deref().map(|time| seconds("--timeout", time)).transpose()?,
        open_stdin: arguments.stdin,
    })
}

/// Passes on what the command writes until it has ended.
fn follow(server: &Server, session: &str, number: &str, stop: &OwnedFd) -> Result<Ended, Failure> {
    // A reader that has gone away ends the command, as in any pipe.
    let (mut ended, is_unread) = (None, Cell::new(false));
    let each = |event: ServerEvent| match event.name.as_str() {
        "stdout" => {
            pass_on(server, &event, &mut io::stdout().lock()).map(|is_read| is_unread.set(is_unread.get() || !is_read)).map(|()| false)
        }
        "stderr" => pass_on(server, &event, &mut io::stderr().lock()).map(|_| false),
        "ended" => serde_json::from_value(event.data).map(|last| ended = Some(last)).map(|()| true).map_err(|e| server.not_understood(e)),
        _ => Ok(false),
    };
    let path = ["sessions", session, "commands", number, "signal"].map(str::to_owned).to_vec();
    let also = || {
        let signal = if is_unread.take() { Some("TERM") } else { asked_to_stop(stop) };
        signal.map(|signal| (path.clone(), json!({ "signal": signal })))
    };
    server.follow(&["sessions", session, "commands", number, "output"], each, also)?;
    ended.ok_or_else(|| Failure::new("the command's end is not known", "see `ringfence session ls`"))
}

/// Writes a piece of output. False if nobody reads it any more.
fn pass_on(server: &Server, event: &ServerEvent, to: &mut dyn Write) -> Result<bool, RemoteError> {
    let encoded = event.data["base64"].as_str().unwrap_or_default();
    let bytes = STANDARD.decode(encoded).map_err(|e| server.not_understood(serde::de::Error::custom(e)))?;
    match to.write_all(&bytes).and_then(|()| to.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(source) => Err(RemoteError::Local { act: "writing what came".into(), source }),
        Ok(()) => Ok(true),
    }
}

/// The name of the signal by which this process is asked to stop, if it is.
fn asked_to_stop(stop: &OwnedFd) -> Option<&'static str> {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let is_ready = poll(&mut [PollFd::new(stop, PollFlags::IN)], Some(&now)).is_ok_and(|ready| ready > 0);
    let signal = is_ready.then(|| stop_signal(stop.as_fd())).flatten()?;
    Some(match signal {
        1 => "HUP",
        2 => "INT",
        3 => "QUIT",
        _ => "TERM",
    })
}

/// Sends standard input, piece by piece, until it or the command ends. This thread ends with the process.
fn feed(server: &Server, session: &str, number: &str) {
    let path = ["sessions", session, "commands", number];
    let mut piece = vec![0; PIECE];
    loop {
        let sent = match io::stdin().lock().read(&mut piece) {
            Ok(0) => server.post(&[&path[..], &["stdin"]].concat(), &json!({ "end": true })).map(|IgnoredAny| false),
            Ok(read) => {
                let body = json!({ "base64": STANDARD.encode(&piece[..read]) });
                server.post(&[&path[..], &["stdin"]].concat(), &body).map(|IgnoredAny| true)
            }
            Err(source) => Err(RemoteError::Local { act: "reading standard input".into(), source }),
        };
        match sent {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => return tell_unfed(server, &path, &error),
        }
    }
}

/// That a command ended before its input is nothing to tell of.
fn tell_unfed(server: &Server, path: &[&str], error: &RemoteError) {
    let is_over = error.is_problem("conflict") && server.get::<View>(path).is_ok_and(|view| view.end.is_some());
    if !is_over {
        complain(&out::harmless(&format!("ringfence: the command does not get all of its input: {error}")));
    }
}
