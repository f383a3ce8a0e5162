//! `process.Process`: commands of a session.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ringfence_control::{CommandEnd, CommandEvent, CommandRequest, ListenFrom, SessionCommand, Subscription, Which};
use ringfence_evidence::RunEnd;
use ringfence_isolation::{FileKind, OsText, Window};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::entry::absolute;
use super::rpc::{self, Batch, Fault, Messages, Outgoing, Status};
use super::{Call, user};
use crate::connection::Line;
use crate::e2b::control::variables;
use crate::e2b::sandboxes::Sandbox;

/// Numbers of signals, by the names of the protocol.
const SIGNALS: &[(&str, i32)] = &[("SIGNAL_SIGTERM", 15), ("SIGNAL_SIGKILL", KILL)];
const KILL: i32 = 9;

pub(super) async fn answer(procedure: &str, call: Call) -> Response {
    match procedure {
        "Start" => stream(start(call).await),
        "Connect" => stream(connect(call).await),
        "StreamInput" => feed_stream(call).await.map_or_else(|fault| rpc::failed_stream(&fault), |()| rpc::single(&json!({}))),
        _ => match unary(procedure, call).await {
            Ok(value) => axum::Json(value).into_response(),
            Err(fault) => fault.into_response(),
        },
    }
}

fn stream(answered: Result<Response, Fault>) -> Response {
    answered.unwrap_or_else(|fault| rpc::failed_stream(&fault))
}

async fn unary(procedure: &str, call: Call) -> Result<Value, Fault> {
    user::check_header(&call.sandbox, call.request.headers())?;
    match procedure {
        "List" => list(call).await,
        "SendInput" => feed(call).await,
        "CloseStdin" => close_input(call).await,
        "SendSignal" => signal(call).await,
        "Update" => update(call).await,
        other => Err(Fault::new(Status::Unimplemented, format!("there is no `{}`", other.escape_debug()))),
    }
}

#[derive(Debug, Deserialize)]
struct StartBody {
    process: Config,
    pty: Option<Pty>,
    tag: Option<String>,
    stdin: Option<bool>,
}

#[derive(Debug, Deserialize)]
struct Config {
    cmd: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    envs: BTreeMap<String, String>,
    cwd: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Pty {
    size: Option<Size>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct Size {
    #[serde(default)]
    cols: u16,
    #[serde(default)]
    rows: u16,
}

impl From<Size> for Window {
    fn from(size: Size) -> Self {
        Self { rows: size.rows, columns: size.cols }
    }
}

/// The client listens from the first word on. The command goes on although its client goes away.
async fn start(call: Call) -> Result<Response, Fault> {
    let Call { serving, sandbox, request } = call;
    user::check_header(&sandbox, request.headers())?;
    let (wall, keepalive, line) = (rpc::deadline(request.headers()), rpc::keepalive(request.headers()), rpc::line(&request));
    let body: StartBody = rpc::first(&serving, request).await?;
    let folder = match body.process.cwd.clone().filter(|cwd| !cwd.is_empty()) {
        Some(cwd) => {
            let (files, folder) = (sandbox.session.files()?, absolute(&sandbox, &cwd));
            Some(rpc::blocking(&serving, move || check_folder(&files, folder, &cwd)).await?)
        }
        None => None,
    };
    let (command, mut listening) = sandbox.session.start(body.command(wall, folder)?).await?;
    let mut waiting = Batch::default();
    match first_words(&command, &mut listening, &mut waiting) {
        Some(end) => Ok(told_whole(sandbox, waiting, end, line)),
        None => Ok(tell(sandbox, command, listening, waiting, keepalive, line)),
    }
}

/// Tells of a command that has ended already.
fn told_whole(sandbox: Arc<Sandbox>, waiting: Batch, end: CommandEnd, line: Line) -> Response {
    match ended(&end.end) {
        Ok(event) if !sandbox.session.is_over() && !end.is_out_of_time => rpc::whole(waiting, &json!({ "event": { "end": event } })),
        Ok(_) | Err(_) => {
            let (outgoing, response) = Outgoing::new(line);
            tokio::spawn(async move { last_words(&sandbox, outgoing, waiting, &end).await });
            response
        }
    }
}

/// What a command has said by now; answers with how it ended, if it has.
fn first_words(command: &SessionCommand, listening: &mut Subscription, waiting: &mut Batch) -> Option<CommandEnd> {
    let has_terminal = command.request.terminal.is_some();
    while !waiting.is_large() {
        match listening.try_next()? {
            (_, CommandEvent::Ended(end)) => return Some(end),
            (_, event) => waiting.add(&json!({ "event": word(&event, has_terminal) })),
        }
    }
    None
}

impl StartBody {
    fn command(self, wall: Option<Duration>, folder: Option<OsText>) -> Result<CommandRequest, Fault> {
        let argv: Vec<OsText> =
            std::iter::once(&self.process.cmd).chain(&self.process.args).map(|text| OsText::from(text.as_str())).collect();
        if argv.iter().any(|argument| argument.as_bytes().contains(&0)) || self.process.cmd.is_empty() {
            return Err(Fault::invalid("the command is empty, or holds a NUL"));
        }
        let window = self.pty.map(|pty| pty.size.unwrap_or(Size { cols: 80, rows: 24 }).into());
        Ok(CommandRequest {
            argv,
            environment: variables(self.process.envs)?,
            folder,
            terminal: window,
            has_stdin: self.stdin.unwrap_or(true),
            wall,
            tag: self.tag,
            known_secrets: Vec::new(),
        })
    }
}

fn check_folder(files: &ringfence_isolation::Files, folder: OsText, cwd: &str) -> Result<OsText, Fault> {
    let missing = || Fault::invalid(format!("cwd '{}' does not exist", cwd.escape_debug()));
    match files.stat(&folder) {
        Ok(entry) if entry.kind == FileKind::Folder => Ok(folder),
        Ok(_) => Err(Fault::invalid(format!("cwd '{}' is not a directory", cwd.escape_debug()))),
        Err(_) => Err(missing()),
    }
}

#[derive(Debug, Deserialize)]
struct ProcessBody {
    process: Selector,
}

#[derive(Debug, Deserialize)]
struct Selector {
    pid: Option<i32>,
    tag: Option<String>,
}

impl Selector {
    fn which(self) -> Result<Which, Fault> {
        match (self.pid, self.tag) {
            (Some(pid), _) => Ok(Which::Pid(pid)),
            (None, Some(tag)) => Ok(Which::Tag(tag)),
            (None, None) => Err(Fault::invalid("the process is named by `pid` or `tag`")),
        }
    }

    /// A command that runs.
    fn running(self, sandbox: &Sandbox) -> Result<Arc<SessionCommand>, Fault> {
        let which = self.which()?;
        let found = sandbox.session.find(&which)?;
        match found.has_ended() {
            false => Ok(found),
            true => Err(Fault::new(Status::NotFound, format!("process {which} has ended"))),
        }
    }
}

/// Listens to a command that runs, or that has just ended.
async fn connect(call: Call) -> Result<Response, Fault> {
    let Call { serving, sandbox, request } = call;
    user::check_header(&sandbox, request.headers())?;
    let (keepalive, line) = (rpc::keepalive(request.headers()), rpc::line(&request));
    let body: ProcessBody = rpc::first(&serving, request).await?;
    let command = sandbox.session.find(&body.process.which()?)?;
    let listening = command.listen(ListenFrom::Now);
    Ok(tell(sandbox, command, listening, Batch::default(), keepalive, line))
}

/// Tells a client what a command says, until it ends or the client goes away. Words that are there already go together.
fn tell(
    sandbox: Arc<Sandbox>,
    command: Arc<SessionCommand>,
    mut listening: Subscription,
    mut waiting: Batch,
    keepalive: Duration,
    line: Line,
) -> Response {
    let (outgoing, response) = Outgoing::new(line);
    tokio::spawn(async move {
        let has_terminal = command.request.terminal.is_some();
        loop {
            let heard = match listening.try_next() {
                Some((_, event)) => Some(event),
                None if !waiting.is_empty() => {
                    if !outgoing.send_batch(&mut waiting).await {
                        return;
                    }
                    continue;
                }
                None => {
                    let heard = tokio::select! {
                        heard = tokio::time::timeout(keepalive, listening.next()) => heard,
                        () = outgoing.gone() => return,
                    };
                    match heard {
                        Ok(Some((_, event))) => Some(event),
                        Ok(None) => return outgoing.break_off().await,
                        Err(_) => None,
                    }
                }
            };
            match heard {
                None => waiting.add(&json!({ "event": { "keepalive": {} } })),
                Some(CommandEvent::Ended(end)) => return last_words(&sandbox, outgoing, waiting, &end).await,
                Some(event) => waiting.add(&json!({ "event": word(&event, has_terminal) })),
            }
            if waiting.is_large() && !outgoing.send_batch(&mut waiting).await {
                return;
            }
        }
    });
    response
}

fn word(event: &CommandEvent, has_terminal: bool) -> Value {
    let stdout = if has_terminal { "pty" } else { "stdout" };
    match event {
        CommandEvent::Started { pid } => json!({ "start": { "pid": pid } }),
        CommandEvent::Stdout(bytes) => json!({ "data": { stdout: STANDARD.encode(bytes) } }),
        CommandEvent::Stderr(bytes) => json!({ "data": { "stderr": STANDARD.encode(bytes) } }),
        CommandEvent::Ended(_) => Value::Null,
    }
}

/// Where the sandbox ended the connection breaks off, and the client finds it gone.
async fn last_words(sandbox: &Sandbox, outgoing: Outgoing, mut waiting: Batch, end: &CommandEnd) {
    if sandbox.session.is_over() {
        outgoing.send_batch(&mut waiting).await;
        return outgoing.break_off().await;
    }
    let ended = match end.is_out_of_time {
        true => Err(Fault::new(Status::DeadlineExceeded, "the command was killed: its time was up")),
        false => ended(&end.end),
    };
    if let Ok(event) = &ended {
        waiting.add(&json!({ "event": { "end": event } }));
    }
    outgoing.end(waiting, ended.err().as_ref()).await;
}

/// How a command ended, in the words of the protocol; one that never began is a fault.
fn ended(end: &RunEnd) -> Result<Value, Fault> {
    match end {
        RunEnd::Exited { code: 0 } => Ok(json!({ "exited": true, "status": "exit status 0" })),
        RunEnd::Exited { code } => {
            let status = format!("exit status {code}");
            Ok(json!({ "exitCode": code, "exited": true, "status": status, "error": status }))
        }
        RunEnd::Signaled { signal } => {
            let status = format!("signal: {}", signal_word(signal));
            Ok(json!({ "exitCode": -1, "status": status, "error": status }))
        }
        RunEnd::Limit { limit } => Err(Fault::new(Status::ResourceExhausted, format!("the {limit} limit ended the sandbox"))),
        RunEnd::Failed { step, cause } => {
            let cause = cause.as_deref().unwrap_or("no reason is known");
            Err(Fault::invalid(format!("the command could not be started: {step}: {cause}")))
        }
        RunEnd::Refused { .. } | RunEnd::Closed { .. } => Err(Fault::new(Status::Unavailable, "the sandbox has ended")),
    }
}

/// As Go's `os.Signal` says it, which clients know.
fn signal_word(signal: &str) -> String {
    let word = match signal {
        "SIGHUP" => "hangup",
        "SIGINT" => "interrupt",
        "SIGQUIT" => "quit",
        "SIGILL" => "illegal instruction",
        "SIGTRAP" => "trace/breakpoint trap",
        "SIGABRT" => "aborted",
        "SIGBUS" => "bus error",
        "SIGFPE" => "floating point exception",
        "SIGKILL" => "killed",
        "SIGUSR1" => "user defined signal 1",
        "SIGSEGV" => "segmentation fault",
        "SIGUSR2" => "user defined signal 2",
        "SIGPIPE" => "broken pipe",
        "SIGALRM" => "alarm clock",
        "SIGTERM" => "terminated",
        other => other,
    };
    word.to_owned()
}

/// The commands that run.
async fn list(call: Call) -> Result<Value, Fault> {
    let _: Map<String, Value> = rpc::unary(&call.serving, call.request).await?;
    let running = call.sandbox.session.commands().into_iter().filter(|command| !command.has_ended());
    let told: Vec<Value> = running.filter_map(|command| Some(process(&command, command.pid()?))).collect();
    Ok(json!({ "processes": told }))
}

fn process(command: &SessionCommand, pid: i32) -> Value {
    let CommandRequest { argv, environment, folder, tag, .. } = &command.request;
    let text = |text: &OsText| text.as_os_str().to_string_lossy().into_owned();
    let envs: BTreeMap<String, String> = environment.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect();
    let mut config = json!({ "cmd": argv.first().map(text), "args": argv.iter().skip(1).map(text).collect::<Vec<_>>(), "envs": envs });
    if let Some(folder) = folder {
        config["cwd"] = json!(text(folder));
    }
    let mut process = json!({ "config": config, "pid": pid });
    if let Some(tag) = tag {
        process["tag"] = json!(tag);
    }
    process
}

#[derive(Debug, Deserialize)]
struct InputBody {
    process: Selector,
    input: Input,
}

/// Bytes in base 64, under either name.
#[derive(Debug, Deserialize)]
struct Input {
    stdin: Option<String>,
    pty: Option<String>,
}

impl Input {
    fn bytes(self) -> Result<Vec<u8>, Fault> {
        let text = self.stdin.or(self.pty).unwrap_or_default();
        STANDARD.decode(text).map_err(|error| Fault::invalid(format!("the input is not base 64: {error}")))
    }
}

async fn feed(call: Call) -> Result<Value, Fault> {
    let body: InputBody = rpc::unary(&call.serving, call.request).await?;
    let command = body.process.running(&call.sandbox)?;
    call.sandbox.session.feed(&command, body.input.bytes()?).await?;
    Ok(json!({}))
}

#[derive(Debug, Deserialize)]
struct InputPart {
    start: Option<ProcessBody>,
    data: Option<InputData>,
}

#[derive(Debug, Deserialize)]
struct InputData {
    input: Input,
}

/// Input that comes bit by bit, in the order in which it comes.
async fn feed_stream(call: Call) -> Result<(), Fault> {
    user::check_header(&call.sandbox, call.request.headers())?;
    let mut messages = Messages::of(call.request);
    let mut command: Option<Arc<SessionCommand>> = None;
    while let Some(part) = messages.next::<InputPart>(&call.serving).await? {
        if let Some(begin) = part.start {
            command = Some(begin.process.running(&call.sandbox)?);
        }
        if let Some(data) = part.data {
            let command = command.as_ref().ok_or_else(|| Fault::invalid("input comes before the process is named"))?;
            call.sandbox.session.feed(command, data.input.bytes()?).await?;
        }
    }
    Ok(())
}

async fn close_input(call: Call) -> Result<Value, Fault> {
    let body: ProcessBody = rpc::unary(&call.serving, call.request).await?;
    let command = body.process.running(&call.sandbox)?;
    call.sandbox.session.complete_input(&command)?;
    Ok(json!({}))
}

#[derive(Debug, Deserialize)]
struct SignalBody {
    process: Selector,
    signal: String,
}

async fn signal(call: Call) -> Result<Value, Fault> {
    let body: SignalBody = rpc::unary(&call.serving, call.request).await?;
    let signal = SIGNALS.iter().find(|(name, _)| *name == body.signal).map(|(_, number)| *number);
    let signal = signal.ok_or_else(|| Fault::invalid(format!("`{}` is not a signal that can be sent", body.signal.escape_debug())))?;
    let command = body.process.running(&call.sandbox)?;
    let listening = command.listen(ListenFrom::Now);
    call.sandbox.session.signal(&command, signal)?;
    if signal == KILL {
        // One that is not gone by then is told of as killed all the same: nothing that it does can stop that.
        tokio::time::timeout(GONE_WITHIN, until_end(listening)).await.unwrap_or_default();
    }
    Ok(json!({}))
}

/// How long a client waits for a process that it kills: it looks at once whether it is gone.
const GONE_WITHIN: Duration = Duration::from_secs(2);

async fn until_end(mut listening: Subscription) {
    while let Some((_, event)) = listening.next().await {
        if matches!(event, CommandEvent::Ended(_)) {
            return;
        }
    }
}

#[derive(Debug, Deserialize)]
struct UpdateBody {
    process: Selector,
    pty: Option<Pty>,
}

async fn update(call: Call) -> Result<Value, Fault> {
    let body: UpdateBody = rpc::unary(&call.serving, call.request).await?;
    let command = body.process.running(&call.sandbox)?;
    if let Some(size) = body.pty.and_then(|pty| pty.size) {
        if command.request.terminal.is_none() {
            return Err(Fault::new(Status::FailedPrecondition, "the process has no terminal"));
        }
        call.sandbox.session.resize(&command, size.into())?;
    }
    Ok(json!({}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_told_as_clients_know_them() {
        assert_eq!(ended(&RunEnd::Exited { code: 0 }).unwrap(), json!({ "exited": true, "status": "exit status 0" }));
        let failed = json!({ "exitCode": 3, "exited": true, "status": "exit status 3", "error": "exit status 3" });
        assert_eq!(ended(&RunEnd::Exited { code: 3 }).unwrap(), failed);
        let killed = json!({ "exitCode": -1, "status": "signal: killed", "error": "signal: killed" });
        assert_eq!(ended(&RunEnd::Signaled { signal: "SIGKILL".into() }).unwrap(), killed);
        assert_eq!(ended(&RunEnd::Failed { step: "exec".into(), cause: None }).unwrap_err().status, Status::InvalidArgument);
    }
}
