//! What a context is doing, and what its worker's chunks mean: pure. The owner writes what [`Context::begin`] returns, passes on every chunk
//! that comes, and ends the process when it is told that the worker is not to be believed.

use std::io;

use super::frame::{Frame, FrameError, FrameReader, Part, Token};
use super::language::Language;
use super::request::{CellRequest, RequestError, encode};
use super::result::CellResult;
use super::text::TextDecoder;

/// What happened in an execution.
#[derive(Debug, Clone, PartialEq)]
pub enum CellEvent {
    /// The worker has begun.
    Started {
        /// Which execution of this context it is, from 1: counted here and not by the worker.
        execution_count: u64,
    },
    /// Text on standard output.
    Stdout {
        /// As much as there was.
        text: String,
    },
    /// Text on standard error.
    Stderr {
        /// As much as there was.
        text: String,
    },
    /// A value or a picture.
    Result(Box<CellResult>),
    /// The cell failed.
    Error {
        /// The kind, as the language names it.
        name: String,
        /// The message.
        value: String,
        /// Where, as the language prints it.
        traceback: String,
    },
    /// There was more than the limit of an execution, and what comes from here on is left out. Said once.
    Truncated {
        /// The limit.
        limit_bytes: usize,
    },
    /// Nothing more comes.
    Ended,
}

/// Room for errors, whatever the output took: the reason why a cell ended is not left out.
const ERROR_BYTES: usize = 1 << 20;

/// What one execution may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one frame, thus of one result. A worker leaves out what is longer than [`Limits::default`] says.
    pub frame_bytes: usize,
    /// Bytes of all output and all results; more is left out and said to be.
    pub execution_bytes: usize,
}

impl Default for Limits {
    /// 16 MiB a frame, 64 MiB an execution.
    fn default() -> Self {
        Self { frame_bytes: 16 << 20, execution_bytes: 64 << 20 }
    }
}

/// From which of the worker's two streams a chunk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Why an execution cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum ContextError {
    /// One at a time.
    #[error("the code context is running a cell; wait for its end, or interrupt it")]
    Busy,
    /// Its worker is gone or not to be believed.
    #[error("the code context has ended; restart it")]
    Over,
    /// A request that no worker could take.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// No token.
    #[error("the kernel gave no random bytes for the token of an execution; try again")]
    Random(#[source] io::Error),
}

#[derive(Debug)]
enum State {
    Idle,
    Running(Box<Execution>),
    Over,
}

/// A context, as its owner sees it.
#[derive(Debug)]
pub struct Context {
    language: Language,
    limits: Limits,
    executions: u64,
    state: State,
}

impl Context {
    /// A context whose worker has just been started.
    pub fn new(language: Language, limits: Limits) -> Self {
        Self { language, limits, executions: 0, state: State::Idle }
    }

    /// Its language.
    pub fn language(&self) -> Language {
        self.language
    }

    /// True while a cell runs.
    pub fn is_running(&self) -> bool {
        matches!(self.state, State::Running(_))
    }

    /// True when its process has to be ended, or has.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    /// Begins an execution: what to write on the worker's standard input. An error changes nothing.
    pub fn begin(&mut self, request: &CellRequest) -> Result<Vec<u8>, ContextError> {
        match self.state {
            State::Idle => {}
            State::Running(_) => return Err(ContextError::Busy),
            State::Over => return Err(ContextError::Over),
        }
        let token = Token::random().map_err(ContextError::Random)?;
        let bytes = encode(request, &token)?;
        self.executions += 1;
        self.state = State::Running(Box::new(Execution::new(&token, self.limits, self.executions)));
        Ok(bytes)
    }

    /// The events of a chunk, none while no cell runs: what a program that was left behind prints between two cells belongs to neither.
    /// After an error nothing more is taken from the worker: the owner ends the process and says so with [`Context::lose`].
    pub fn push(&mut self, stream: Stream, chunk: &[u8]) -> Result<Vec<CellEvent>, FrameError> {
        let State::Running(execution) = &mut self.state else { return Ok(Vec::new()) };
        match execution.push(stream, chunk) {
            Ok(()) if execution.is_broken => Ok(Vec::new()),
            Ok(()) if execution.has_ended() => Ok(self.leave(State::Idle, None)),
            Ok(()) => Ok(std::mem::take(&mut execution.events)),
            Err(error) => {
                execution.is_broken = true;
                Err(error)
            }
        }
    }

    /// The worker's process is gone, or its owner ended it. The events that the running cell ends with, if one runs: an error of this name
    /// and with this value, and the end.
    pub fn lose(&mut self, name: &str, value: &str) -> Vec<CellEvent> {
        let error = CellEvent::Error { name: name.to_owned(), value: value.to_owned(), traceback: String::new() };
        self.leave(State::Over, Some(error))
    }

    fn leave(&mut self, next: State, error: Option<CellEvent>) -> Vec<CellEvent> {
        match std::mem::replace(&mut self.state, next) {
            State::Running(execution) => execution.end(error),
            State::Idle | State::Over => Vec::new(),
        }
    }
}

#[derive(Debug)]
struct Half {
    reader: FrameReader,
    decoder: TextDecoder,
    has_ended: bool,
}

#[derive(Debug)]
struct Execution {
    stdout: Half,
    stderr: Half,
    limits: Limits,
    bytes: usize,
    error_bytes: usize,
    count: u64,
    has_started: bool,
    is_broken: bool,
    events: Vec<CellEvent>,
}

impl Execution {
    fn new(token: &Token, limits: Limits, count: u64) -> Self {
        let half = || Half { reader: FrameReader::new(token, limits.frame_bytes), decoder: TextDecoder::default(), has_ended: false };
        let (stdout, stderr) = (half(), half());
        Self { stdout, stderr, limits, bytes: 0, error_bytes: 0, count, has_started: false, is_broken: false, events: Vec::new() }
    }

    fn has_ended(&self) -> bool {
        self.stdout.has_ended && self.stderr.has_ended
    }

    fn half(&mut self, stream: Stream) -> &mut Half {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }

    fn push(&mut self, stream: Stream, chunk: &[u8]) -> Result<(), FrameError> {
        if self.is_broken || self.half(stream).has_ended {
            return Ok(());
        }
        for part in self.half(stream).reader.push(chunk)? {
            match part {
                _ if self.half(stream).has_ended => {}
                Part::Output(bytes) => self.output(stream, &bytes),
                Part::Frame(frame) => self.frame(stream, frame)?,
            }
        }
        Ok(())
    }

    fn output(&mut self, stream: Stream, bytes: &[u8]) {
        let text = self.half(stream).decoder.push(bytes);
        self.text(stream, text);
    }

    fn text(&mut self, stream: Stream, text: String) {
        if text.is_empty() || !self.has_room(text.len()) {
            return;
        }
        self.events.push(match stream {
            Stream::Stdout => CellEvent::Stdout { text },
            Stream::Stderr => CellEvent::Stderr { text },
        });
    }

    fn frame(&mut self, stream: Stream, frame: Frame) -> Result<(), FrameError> {
        let is_known = match frame {
            Frame::Ended => self.has_started || stream == Stream::Stderr,
            Frame::Started => stream == Stream::Stdout && !self.has_started,
            Frame::Stderr { .. } | Frame::Result { .. } | Frame::Error { .. } => stream == Stream::Stdout && self.has_started,
        };
        if !is_known {
            return Err(FrameError::Unreadable { why: "it stands where none of its kind may".to_owned() });
        }
        match frame {
            Frame::Started => {
                self.has_started = true;
                self.events.push(CellEvent::Started { execution_count: self.count });
            }
            Frame::Stderr { text } => self.text(Stream::Stderr, text),
            Frame::Result { data, is_main_result } => self.result(data, is_main_result),
            Frame::Error { name, value, traceback } => self.error(name, value, traceback),
            Frame::Ended => self.half(stream).has_ended = true,
        }
        Ok(())
    }

    fn result(&mut self, data: std::collections::BTreeMap<String, String>, is_main_result: bool) {
        if self.has_room(256 + data.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>()) {
            self.events.push(CellEvent::Result(Box::new(CellResult::of(data, is_main_result))));
        }
    }

    fn error(&mut self, name: String, value: String, traceback: String) {
        let [name, value, traceback] = [name, value, traceback].map(shortened);
        self.error_bytes = self.error_bytes.saturating_add(256 + name.len() + value.len() + traceback.len());
        if self.error_bytes <= ERROR_BYTES {
            self.events.push(CellEvent::Error { name, value, traceback });
        }
    }

    /// Counts, and says once that the limit is met.
    fn has_room(&mut self, bytes: usize) -> bool {
        let limit_bytes = self.limits.execution_bytes;
        let had_room = self.bytes <= limit_bytes;
        self.bytes = self.bytes.saturating_add(bytes);
        let has_room = self.bytes <= limit_bytes;
        if had_room && !has_room {
            self.events.push(CellEvent::Truncated { limit_bytes });
        }
        has_room
    }

    fn end(mut self, error: Option<CellEvent>) -> Vec<CellEvent> {
        for stream in [Stream::Stdout, Stream::Stderr] {
            let half = self.half(stream);
            let held = half.reader.finish();
            let text = half.decoder.push(&held) + &half.decoder.finish();
            self.text(stream, text);
        }
        self.events.extend(error);
        self.events.push(CellEvent::Ended);
        self.events
    }
}

/// At most a quarter of the room for errors.
fn shortened(mut text: String) -> String {
    let end = (0..=text.len().min(ERROR_BYTES / 4 - 256)).rev().find(|at| text.is_char_boundary(*at));
    text.truncate(end.unwrap_or(0));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun() -> (Context, String) {
        let mut context = Context::new(Language::Python, Limits { frame_bytes: 2000, execution_bytes: 1000 });
        let bytes = context.begin(&CellRequest { code: "x".to_owned(), ..CellRequest::default() }).unwrap();
        let token = String::from_utf8(bytes[..32].to_vec()).unwrap();
        (context, token)
    }

    fn frame(token: &str, text: &str) -> Vec<u8> {
        format!("\x1e{token}.{text}\n").into_bytes()
    }

    #[test]
    fn both_streams_end_before_the_execution_does() {
        let (mut context, token) = begun();
        assert!(matches!(context.begin(&CellRequest::default()), Err(ContextError::Busy)));
        let started = context.push(Stream::Stdout, &frame(&token, r#"{"type":"started"}"#)).unwrap();
        assert_eq!(started, [CellEvent::Started { execution_count: 1 }]);
        let ended = frame(&token, r#"{"type":"ended"}"#);
        assert_eq!(context.push(Stream::Stdout, &[&ended[..], b"after"].concat()), Ok(vec![]));
        assert_eq!(context.push(Stream::Stdout, b"later"), Ok(vec![]));
        let last = context.push(Stream::Stderr, &[b"late", &ended[..]].concat()).unwrap();
        assert_eq!(last, [CellEvent::Stderr { text: "late".to_owned() }, CellEvent::Ended]);
        assert_eq!(context.push(Stream::Stdout, b"between"), Ok(vec![]));
        assert!(context.begin(&CellRequest::default()).is_ok());
    }

    #[test]
    fn a_worker_that_is_lost_ends_its_cell_and_runs_no_other() {
        let (mut context, _) = begun();
        assert_eq!(context.push(Stream::Stdout, b"a\x1e"), Ok(vec![CellEvent::Stdout { text: "a".to_owned() }]));
        let error = CellEvent::Error { name: "Killed".to_owned(), value: "v".to_owned(), traceback: String::new() };
        assert_eq!(context.lose("Killed", "v"), [CellEvent::Stdout { text: "\x1e".to_owned() }, error, CellEvent::Ended]);
        assert_eq!(context.lose("Killed", "v"), []);
        assert!(matches!(context.begin(&CellRequest::default()), Err(ContextError::Over)));
    }

    #[test]
    fn frames_stand_only_where_they_may() {
        let (started, ended, result) =
            (r#"{"type":"started"}"#, r#"{"type":"ended"}"#, r#"{"type":"result","data":{},"is_main_result":true}"#);
        let refused = [
            (Stream::Stdout, vec![ended]),
            (Stream::Stdout, vec![result]),
            (Stream::Stdout, vec![started, started]),
            (Stream::Stderr, vec![started]),
            (Stream::Stderr, vec![result]),
        ];
        for (stream, frames) in refused {
            let (mut context, token) = begun();
            let bytes: Vec<u8> = frames.iter().flat_map(|text| frame(&token, text)).collect();
            assert!(matches!(context.push(stream, &bytes), Err(FrameError::Unreadable { .. })), "{frames:?}");
            assert_eq!(context.push(stream, b"more"), Ok(vec![]));
            assert_eq!(context.lose("Broken", "v").last(), Some(&CellEvent::Ended));
        }
    }

    #[test]
    fn what_is_too_much_is_left_out_and_said_once_and_errors_are_not() {
        let (mut context, token) = begun();
        context.push(Stream::Stdout, &frame(&token, r#"{"type":"started"}"#)).unwrap();
        assert_eq!(context.push(Stream::Stdout, &[b'x'; 900]).unwrap().len(), 1);
        assert_eq!(context.push(Stream::Stdout, &[b'x'; 200]), Ok(vec![CellEvent::Truncated { limit_bytes: 1000 }]));
        assert_eq!(context.push(Stream::Stderr, &[b'x'; 200]), Ok(vec![]));
        let error = frame(&token, r#"{"type":"error","name":"E","value":"v","traceback":""}"#);
        assert!(matches!(context.push(Stream::Stdout, &error).unwrap()[..], [CellEvent::Error { .. }]));
    }

    #[test]
    fn an_error_is_cut_at_a_character() {
        assert_eq!(shortened("é".repeat(ERROR_BYTES)).len(), ERROR_BYTES / 4 - 256);
        assert_eq!(shortened("é".to_owned()), "é");
    }
}
