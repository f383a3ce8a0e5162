//! A worker as a child with pipes, in a process group of its own.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use ringfence_control::cells::{CellEvent, CellRequest, CellResult, Context, Language, Limits, Stream};
use ringfence_isolation::OsText;

const PATIENCE: Duration = Duration::from_secs(60);

/// A context and the worker behind it.
pub(super) struct Worker {
    pub(super) context: Context,
    child: Child,
    stdin: ChildStdin,
    chunks: Receiver<(Stream, Vec<u8>)>,
}

impl Worker {
    pub(super) fn start(language: Language) -> Self {
        let argv = language.command();
        Self::start_as(language, &argv)
    }

    /// Python without what is installed beside it, thus without IPython.
    pub(super) fn plain_python() -> Self {
        let mut argv = Language::Python.command();
        argv.insert(1, OsText::from("-S"));
        Self::start_as(Language::Python, &argv)
    }

    /// Python with IPython and what is computed and drawn with.
    pub(super) fn ipython() -> Self {
        let place = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/test-tools/bin/python");
        assert!(std::path::Path::new(place).exists(), "{place} is missing: `make test` sets up target/test-tools");
        let mut argv = Language::Python.command();
        argv[0] = OsText::from(place);
        Self::start_as(Language::Python, &argv)
    }

    fn start_as(language: Language, argv: &[OsText]) -> Self {
        let mut command = Command::new(argv[0].as_os_str());
        command.args(argv[1..].iter().map(|word| word.as_os_str())).process_group(0);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the interpreter is there");
        let (sender, chunks) = channel();
        pass_on(Stream::Stdout, child.stdout.take().unwrap(), sender.clone());
        pass_on(Stream::Stderr, child.stderr.take().unwrap(), sender);
        let stdin = child.stdin.take().unwrap();
        Self { context: Context::new(language, Limits::default()), child, stdin, chunks }
    }

    pub(super) fn run(&mut self, code: &str) -> Cell {
        self.run_request(&CellRequest { code: code.to_owned(), ..CellRequest::default() })
    }

    pub(super) fn run_request(&mut self, request: &CellRequest) -> Cell {
        self.begin(request);
        self.finish(Vec::new())
    }

    pub(super) fn begin(&mut self, request: &CellRequest) {
        let bytes = self.context.begin(request).unwrap();
        self.stdin.write_all(&bytes).unwrap();
    }

    /// Runs code, and interrupts it when it has printed this.
    pub(super) fn interrupt(&mut self, code: &str, when: &str) -> Cell {
        self.begin(&CellRequest { code: code.to_owned(), ..CellRequest::default() });
        let mut events = Vec::new();
        while !Cell::of(&events).stdout().contains(when) {
            events.extend(self.events());
        }
        thread::sleep(Duration::from_millis(100));
        self.signal();
        self.finish(events)
    }

    /// SIGINT to the worker's process group, as the owner of a context interrupts.
    pub(super) fn signal(&mut self) {
        let group = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process_group(group, rustix::process::Signal::INT).unwrap();
    }

    /// The next events; the context is lost when both streams have ended.
    pub(super) fn events(&mut self) -> Vec<CellEvent> {
        match self.chunks.recv_timeout(PATIENCE) {
            Ok((stream, chunk)) => match self.context.push(stream, &chunk) {
                Ok(events) => events,
                Err(error) => self.context.lose("ContextBroken", &error.to_string()),
            },
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => self.context.lose("ContextEnded", "the worker ended"),
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("the worker says nothing"),
        }
    }

    pub(super) fn finish(&mut self, mut events: Vec<CellEvent>) -> Cell {
        let begun = Instant::now();
        while events.last() != Some(&CellEvent::Ended) {
            assert!(begun.elapsed() < PATIENCE, "the cell does not end: {:?}", Cell::of(&events));
            events.extend(self.events());
        }
        Cell::of(&events)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = rustix::process::kill_process_group(rustix::process::Pid::from_child(&self.child), rustix::process::Signal::KILL);
        let _ = self.child.wait();
    }
}

fn pass_on(stream: Stream, mut from: impl Read + Send + 'static, sender: Sender<(Stream, Vec<u8>)>) {
    thread::spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            if sender.send((stream, buffer[..read].to_vec())).is_err() {
                return;
            }
        }
    });
}

/// All events of an execution, neighbours of one kind joined.
#[derive(Debug, PartialEq)]
pub(super) struct Cell(pub(super) Vec<CellEvent>);

impl Cell {
    pub(super) fn of(events: &[CellEvent]) -> Self {
        let mut joined: Vec<CellEvent> = Vec::new();
        for event in events {
            match (joined.last_mut(), event) {
                (Some(CellEvent::Stdout { text }), CellEvent::Stdout { text: more })
                | (Some(CellEvent::Stderr { text }), CellEvent::Stderr { text: more }) => text.push_str(more),
                (_, event) => joined.push(event.clone()),
            }
        }
        Self(joined)
    }

    pub(super) fn stdout(&self) -> String {
        self.0.iter().filter_map(|event| if let CellEvent::Stdout { text } = event { Some(text.as_str()) } else { None }).collect()
    }

    pub(super) fn stderr(&self) -> String {
        self.0.iter().filter_map(|event| if let CellEvent::Stderr { text } = event { Some(text.as_str()) } else { None }).collect()
    }

    pub(super) fn results(&self) -> Vec<&CellResult> {
        self.0.iter().filter_map(|event| if let CellEvent::Result(result) = event { Some(&**result) } else { None }).collect()
    }

    /// The text of the main result.
    pub(super) fn main(&self) -> &str {
        let main = self.results().into_iter().find(|result| result.is_main_result);
        main.and_then(|result| result.text.as_deref()).unwrap_or_else(|| panic!("no main result: {self:?}"))
    }

    /// Name, value and traceback of the one error.
    pub(super) fn error(&self) -> (&str, &str, &str) {
        let mut errors = self.0.iter().filter_map(|event| match event {
            CellEvent::Error { name, value, traceback } => Some((name.as_str(), value.as_str(), traceback.as_str())),
            _ => None,
        });
        let error = errors.next().unwrap_or_else(|| panic!("no error: {self:?}"));
        assert_eq!(errors.next(), None);
        error
    }

    pub(super) fn is_error(&self) -> bool {
        self.0.iter().any(|event| matches!(event, CellEvent::Error { .. }))
    }
}
