//! Commands of a session: started, told of, fed, signalled.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use ringfence_control::{CommandEvent, CommandRequest, Session, SessionCommand, Subscription, Which};
use ringfence_evidence::RunEnd;
use ringfence_isolation::{OsText, Window};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{refused, standing};
use crate::asked::{Asked, By, Filter, Name, NoFilter, Two, Wanted};
use crate::bounded::{Few, Table, Text};
use crate::idempotency::once;
use crate::problem::{Code, Problem};
use crate::reply::{json, located};
use crate::routes::runs::{bytes, environment, words};
use crate::serving::Serving;

/// Bytes of each stream in an answer that waits; the rest is counted and hashed.
const MOST_KEPT: usize = 1 << 20;

/// A command that is asked for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CommandBody {
    /// Program and arguments.
    #[schemars(length(min = 1), extend("prefixItems" = [{"type": "string", "minLength": 1, "maxLength": 131_071, "pattern": "^[^\\u0000]+$"}]))]
    command: Few<Text<0, 131_071>, 1024>,
    /// Variables beside the session's own.
    #[serde(default)]
    env: Table<Text<0, 131_071>, 256>,
    /// The folder in which it starts; the home if not named.
    #[schemars(regex(pattern = "^[^\\u0000]+$"))]
    cwd: Option<Text<1, 4095>>,
    /// Standard input, as text; it is complete then.
    stdin: Option<Text<0, 1_048_576>>,
    /// Standard input in base 64; it is complete then.
    #[schemars(extend("contentEncoding" = "base64"))]
    stdin_base64: Option<Text<0, 1_048_576>>,
    /// Whether it will be fed; its input is empty otherwise.
    #[serde(default)]
    open_stdin: bool,
    /// A terminal of this size in place of streams.
    terminal: Option<WindowBody>,
    /// Seconds after which it is killed.
    #[schemars(range(min = 1, max = 315_360_000))]
    timeout: Option<u64>,
    /// A name of the client's own.
    tag: Option<Text<1, 255>>,
}

impl Wanted for CommandBody {
    const MOST_BYTES: usize = 4 << 20;
}

/// The size of a terminal, in characters.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WindowBody {
    /// Lines.
    rows: u16,
    /// Characters of a line.
    columns: u16,
}

impl Wanted for WindowBody {
    const MOST_BYTES: usize = 4 << 10;
}

impl From<WindowBody> for Window {
    fn from(body: WindowBody) -> Self {
        Self { rows: body.rows, columns: body.columns }
    }
}

/// A command.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CommandView {
    /// Its number within the session, from 0.
    number: u32,
    /// The id of its process inside, once it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<i32>,
    /// Program and arguments.
    command: Vec<String>,
    /// The client's name for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    tag: Option<String>,
    /// How it ended; not there while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<RunEnd>,
    /// Its exit status as a shell has it; not there while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_status: Option<i32>,
    /// Whether its own time was up.
    is_out_of_time: bool,
}

impl CommandView {
    fn of(command: &SessionCommand) -> Self {
        let end = command.end();
        Self {
            number: command.number,
            pid: command.pid(),
            command: command.request.argv.iter().map(|word| word.as_os_str().to_string_lossy().into_owned()).collect(),
            tag: command.request.tag.clone(),
            exit_status: end.as_ref().map(|end| end.status),
            is_out_of_time: end.as_ref().is_some_and(|end| end.is_out_of_time),
            end: end.map(|end| end.end),
        }
    }
}

/// Commands of a session.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CommandList {
    /// Those that run, and the last that have ended, in the order of their numbers.
    commands: Vec<CommandView>,
}

/// A command that was waited for.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CommandDone {
    /// The command.
    #[serde(flatten)]
    command: CommandView,
    /// What it wrote, if it is UTF-8; the first mebibyte.
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout: Option<String>,
    /// The same in base 64, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout_base64: Option<String>,
    /// What it wrote as errors, if it is UTF-8; the first mebibyte.
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr: Option<String>,
    /// The same in base 64, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr_base64: Option<String>,
    /// Whether some of it is left out here.
    output_truncated: bool,
}

/// Whether to wait.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wait {
    #[serde(default)]
    wait: bool,
}

/// Start a command
///
/// It goes on although the client goes away. With `wait=true` the answer comes when it has ended, with what it wrote.
#[utoipa::path(post, path = "/v1/sessions/{session}/commands", operation_id = "start_command", tag = "commands",
    params(("session" = String, Path, description = "The session"), ("wait" = Option<bool>, Query, description = "Answer when the command has ended")),
    request_body(content = ref("#/components/schemas/CommandBody"), content_type = "application/json"),
    responses(
        (status = 201, description = "It has ended", content_type = "application/json", body = ref("#/components/schemas/CommandDone")),
        (status = 202, description = "It runs", content_type = "application/json", body = ref("#/components/schemas/CommandView")), (status = 422)))]
pub(super) async fn start(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Name(session): Name,
    Filter(Wait { wait }): Filter<Wait>,
    asked: Asked<CommandBody>,
) -> Result<Response, Problem> {
    let session = standing(&serving, &caller, &session)?;
    let (server, body) = (serving.clone(), asked.body);
    once(&serving, &caller, asked.again, async move {
        let stdin = bytes("stdin", body.stdin.as_ref(), body.stdin_base64.as_ref())?;
        let request = body.request(stdin.is_some())?;
        let (command, listening) = session.start(request).await.map_err(|error| refused(&server, error))?;
        if let Some(stdin) = stdin {
            session.feed(&command, stdin).await.map_err(|error| refused(&server, error))?;
            session.complete_input(&command).map_err(|error| refused(&server, error))?;
        }
        let place = format!("/v1/sessions/{}/commands/{}", session.run, command.number);
        match wait {
            true => Ok(located(json(&server, StatusCode::CREATED, &done(&command, listening).await)?, &place)),
            false => Ok(located(json(&server, StatusCode::ACCEPTED, &begun(&command, listening).await)?, &place)),
        }
    })
    .await
}

impl CommandBody {
    fn request(&self, has_all_input: bool) -> Result<CommandRequest, Problem> {
        if has_all_input && self.terminal.is_some() {
            return Err(Problem::value("stdin", "a terminal is fed while it is open", "leave it out, and send it as input"));
        }
        let no_zero = |text: &Text<1, 4095>| match text.0.contains('\0') {
            true => Err(Problem::value("cwd", "a zero byte ends a path", "name a folder")),
            false => Ok(OsText::from(text.0.as_str())),
        };
        Ok(CommandRequest {
            argv: words("command", &self.command.0)?,
            environment: environment(&self.env)?,
            folder: self.cwd.as_ref().map(no_zero).transpose()?,
            terminal: self.terminal.map(Window::from),
            has_stdin: self.open_stdin || has_all_input,
            wall: self.timeout.map(Duration::from_secs),
            tag: self.tag.as_ref().map(|tag| tag.0.clone()),
            known_secrets: Vec::new(),
        })
    }
}

/// Waits until a command runs, or has ended because it could not.
async fn begun(command: &SessionCommand, mut listening: Subscription) -> CommandView {
    listening.next().await;
    CommandView::of(command)
}

/// Waits until a command has ended, and keeps the first of what it wrote.
async fn done(command: &SessionCommand, mut listening: Subscription) -> CommandDone {
    let (mut streams, mut is_cut) = ([Vec::new(), Vec::new()], false);
    while let Some((_, event)) = listening.next().await {
        let (stream, bytes) = match event {
            CommandEvent::Stdout(bytes) => (0, bytes),
            CommandEvent::Stderr(bytes) => (1, bytes),
            CommandEvent::Started { .. } => continue,
            CommandEvent::Ended(end) => {
                is_cut |= end.stdout.is_truncated || end.stderr.is_truncated;
                break;
            }
        };
        let room = MOST_KEPT - streams[stream].len();
        is_cut |= bytes.len() > room;
        streams[stream].extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
    let [(stdout, stdout_base64), (stderr, stderr_base64)] = streams.map(text_or_base64);
    CommandDone { command: CommandView::of(command), stdout, stdout_base64, stderr, stderr_base64, output_truncated: is_cut }
}

fn text_or_base64(bytes: Vec<u8>) -> (Option<String>, Option<String>) {
    match String::from_utf8(bytes) {
        Ok(text) => (Some(text), None),
        Err(error) => (None, Some(STANDARD.encode(error.as_bytes()))),
    }
}

/// List the commands of a session
#[utoipa::path(get, path = "/v1/sessions/{session}/commands", operation_id = "list_commands", tag = "commands",
    params(("session" = String, Path, description = "The session")),
    responses((status = 200, description = "The commands", content_type = "application/json", body = ref("#/components/schemas/CommandList"))))]
pub(super) async fn list(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Name(session): Name,
    Filter(NoFilter {}): Filter<NoFilter>,
) -> Result<Response, Problem> {
    let session = standing(&serving, &caller, &session)?;
    json(&serving, StatusCode::OK, &CommandList { commands: session.commands().iter().map(|command| CommandView::of(command)).collect() })
}

/// A command of a session by its number.
pub(super) fn found(serving: &Serving, session: &Session, number: &str) -> Result<Arc<SessionCommand>, Problem> {
    let number: u32 = number.parse().map_err(|_| Problem::not_found("command", number))?;
    session.find(&Which::Number(number)).map_err(|error| refused(serving, error))
}

/// Show a command
#[utoipa::path(get, path = "/v1/sessions/{session}/commands/{command}", operation_id = "show_command", tag = "commands",
    params(("session" = String, Path, description = "The session"), ("command" = String, Path, description = "Its number")),
    responses((status = 200, description = "The command", content_type = "application/json", body = ref("#/components/schemas/CommandView"))))]
pub(super) async fn show(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Two(session, command): Two,
    Filter(NoFilter {}): Filter<NoFilter>,
) -> Result<Response, Problem> {
    let session = standing(&serving, &caller, &session)?;
    json(&serving, StatusCode::OK, &CommandView::of(&*found(&serving, &session, &command)?))
}

/// Input for a command.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "StdinBody")]
pub(crate) struct InputBody {
    /// Bytes, as text.
    text: Option<Text<0, 1_048_576>>,
    /// Bytes in base 64.
    #[schemars(extend("contentEncoding" = "base64"))]
    base64: Option<Text<0, 1_048_576>>,
    /// Whether the input is complete with them.
    #[serde(default)]
    end: bool,
}

impl Wanted for InputBody {
    const MOST_BYTES: usize = 2 << 20;
}

/// A command that runs.
fn running(serving: &Serving, session: &Session, number: &str) -> Result<Arc<SessionCommand>, Problem> {
    let command = found(serving, session, number)?;
    match command.end() {
        None => Ok(command),
        Some(_) => Err(Problem::new(Code::Conflict, format!("command {} has ended", command.number), "start another one")),
    }
}

/// Give a command input
///
/// A command that does not read is waited for; 409 if it does not for ten seconds.
#[utoipa::path(post, path = "/v1/sessions/{session}/commands/{command}/stdin", operation_id = "feed_command", tag = "commands",
    params(("session" = String, Path, description = "The session"), ("command" = String, Path, description = "Its number")),
    request_body(content = ref("#/components/schemas/StdinBody"), content_type = "application/json"),
    responses((status = 200, description = "The command has it", content_type = "application/json", body = ref("#/components/schemas/CommandView"))))]
pub(super) async fn feed(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Two(session, command): Two,
    asked: Asked<InputBody>,
) -> Result<Response, Problem> {
    let session = standing(&serving, &caller, &session)?;
    let command = running(&serving, &session, &command)?;
    let body = asked.body;
    if let Some(bytes) = bytes("text", body.text.as_ref(), body.base64.as_ref())? {
        session.feed(&command, bytes).await.map_err(|error| refused(&serving, error))?;
    }
    if body.end {
        session.complete_input(&command).map_err(|error| refused(&serving, error))?;
    }
    json(&serving, StatusCode::OK, &CommandView::of(&command))
}

/// A signal.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignalBody {
    /// Its name.
    #[schemars(extend("enum" = ["HUP", "INT", "QUIT", "KILL", "USR1", "USR2", "TERM", "CONT", "STOP"]))]
    signal: Text<1, 8>,
}

impl Wanted for SignalBody {
    const MOST_BYTES: usize = 4 << 10;
}

const SIGNALS: &[(&str, i32)] =
    &[("HUP", 1), ("INT", 2), ("QUIT", 3), ("KILL", 9), ("USR1", 10), ("USR2", 12), ("TERM", 15), ("CONT", 18), ("STOP", 19)];

/// Send a command a signal
///
/// It goes to the process and its group.
#[utoipa::path(post, path = "/v1/sessions/{session}/commands/{command}/signal", operation_id = "signal_command", tag = "commands",
    params(("session" = String, Path, description = "The session"), ("command" = String, Path, description = "Its number")),
    request_body(content = ref("#/components/schemas/SignalBody"), content_type = "application/json"),
    responses((status = 200, description = "It is sent", content_type = "application/json", body = ref("#/components/schemas/CommandView"))))]
pub(super) async fn signal(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Two(session, command): Two,
    asked: Asked<SignalBody>,
) -> Result<Response, Problem> {
    let session = standing(&serving, &caller, &session)?;
    let command = running(&serving, &session, &command)?;
    let names = || SIGNALS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let signal = SIGNALS.iter().find(|(name, _)| *name == asked.body.signal.0).map(|(_, number)| *number);
    let signal = signal.ok_or_else(|| Problem::value("signal", "it is not one that can be sent", format!("one of {}", names())))?;
    session.signal(&command, signal).map_err(|error| refused(&serving, error))?;
    json(&serving, StatusCode::OK, &CommandView::of(&command))
}

/// Change the size of a command's terminal
#[utoipa::path(post, path = "/v1/sessions/{session}/commands/{command}/terminal", operation_id = "resize_command", tag = "commands",
    params(("session" = String, Path, description = "The session"), ("command" = String, Path, description = "Its number")),
    request_body(content = ref("#/components/schemas/WindowBody"), content_type = "application/json"),
    responses((status = 200, description = "It has the size", content_type = "application/json", body = ref("#/components/schemas/CommandView"))))]
pub(super) async fn resize(
    State(serving): State<Arc<Serving>>,
    By(caller): By,
    Two(session, command): Two,
    asked: Asked<WindowBody>,
) -> Result<Response, Problem> {
    let session = standing(&serving, &caller, &session)?;
    let command = running(&serving, &session, &command)?;
    if command.request.terminal.is_none() {
        return Err(Problem::new(Code::Conflict, "the command has no terminal", "start it with a `terminal`"));
    }
    session.resize(&command, asked.body.into()).map_err(|error| refused(&serving, error))?;
    json(&serving, StatusCode::OK, &CommandView::of(&command))
}
