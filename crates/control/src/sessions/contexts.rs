//! Code contexts of a session: workers that run cells one after another, each a command of the session with a task beside it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ringfence_evidence::{Digest, Event};
use ringfence_isolation::OsText;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;

use super::command::{CommandRequest, SessionCommand};
use super::error::SessionError;
use super::feed::{CommandEvent, Subscription};
use super::session::Session;
use crate::cells::{CellEvent, CellRequest, Context, ContextError, Language, Limits, Stream};

/// Contexts of one session, and cells that wait for one of them.
const MOST: usize = 32;
const MOST_WAITING: usize = 64;
/// How long a cell that was interrupted may take to end, before its worker is killed.
const GRACE: Duration = Duration::from_secs(5);
const INTERRUPT: i32 = 2;
const KILL: i32 = 9;

/// A code context.
#[derive(Debug)]
pub struct CodeContext {
    /// Its name.
    pub id: String,
    /// Its language.
    pub language: Language,
    /// The folder in which it begins.
    pub cwd: String,
    worker: Mutex<Worker>,
}

/// The way to the task of a worker.
#[derive(Debug, Clone)]
struct Worker {
    cells: mpsc::Sender<Cell>,
    command: Arc<SessionCommand>,
    ends: mpsc::Sender<&'static str>,
}

/// A cell on its way.
#[derive(Debug)]
struct Cell {
    request: CellRequest,
    events: mpsc::Sender<CellEvent>,
    begun: oneshot::Sender<Result<(), ContextError>>,
}

/// The contexts of a session, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Contexts(Mutex<Vec<Arc<CodeContext>>>);

impl Contexts {
    fn known(&self) -> MutexGuard<'_, Vec<Arc<CodeContext>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CodeContext {
    fn worker(&self) -> Worker {
        self.worker.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Session {
    /// Every code context, the oldest first.
    pub fn contexts(&self) -> Vec<Arc<CodeContext>> {
        self.contexts.known().clone()
    }

    /// A code context by its name.
    pub fn context(&self, id: &str) -> Option<Arc<CodeContext>> {
        self.contexts.known().iter().find(|context| context.id == id).cloned()
    }

    /// Starts a code context, in the workspace if no folder is named.
    pub async fn add_context(
        self: &Arc<Self>,
        id: String,
        language: Language,
        cwd: Option<String>,
    ) -> Result<Arc<CodeContext>, SessionError> {
        if self.contexts.known().len() >= MOST {
            return Err(SessionError::Commands { most: MOST, what: "code contexts" });
        }
        let cwd = cwd.unwrap_or_else(|| self.user.home());
        let worker = self.start_worker(language, &cwd).await?;
        let context = Arc::new(CodeContext { id, language, cwd, worker: Mutex::new(worker) });
        self.contexts.known().push(context.clone());
        Ok(context)
    }

    /// Ends a code context and begins it anew, without its state. A cell that runs ends with an error.
    pub async fn restart_context(self: &Arc<Self>, context: &CodeContext) -> Result<(), SessionError> {
        self.end_worker(&context.worker(), "ContextRestarting")?;
        let worker = self.start_worker(context.language, &context.cwd).await?;
        *context.worker.lock().unwrap_or_else(PoisonError::into_inner) = worker;
        Ok(())
    }

    /// Ends a code context.
    pub fn remove_context(&self, context: &CodeContext) -> Result<(), SessionError> {
        self.contexts.known().retain(|known| known.id != context.id);
        self.end_worker(&context.worker(), "ContextRemoved")
    }

    /// Interrupts the cell that runs in a context, which keeps its state.
    pub fn interrupt(&self, context: &CodeContext) -> Result<(), SessionError> {
        self.signal(&context.worker().command, INTERRUPT)
    }

    /// Gives a cell to a context; its turn comes after those that were given before. The events end with [`CellEvent::Ended`]. Who lets go of them
    /// interrupts the cell.
    pub async fn execute(&self, context: &CodeContext, request: CellRequest) -> Result<mpsc::Receiver<CellEvent>, SessionError> {
        let (events, received) = mpsc::channel(64);
        let (begun, has_begun) = oneshot::channel();
        let cell = Cell { request, events, begun };
        context.worker().cells.try_send(cell).map_err(|error| match error {
            TrySendError::Full(_) => SessionError::Commands { most: MOST_WAITING, what: "cells that wait" },
            TrySendError::Closed(_) => SessionError::Cell(ContextError::Over),
        })?;
        match has_begun.await {
            Ok(Ok(())) => Ok(received),
            Ok(Err(error)) => Err(SessionError::Cell(error)),
            Err(_) => Err(SessionError::Cell(ContextError::Over)),
        }
    }

    async fn start_worker(self: &Arc<Self>, language: Language, cwd: &str) -> Result<Worker, SessionError> {
        let request = CommandRequest {
            argv: language.command(),
            folder: Some(OsText::from(cwd)),
            has_stdin: true,
            tag: None,
            ..CommandRequest::default()
        };
        let (command, listening) = self.start(request).await?;
        let (cells, waiting) = mpsc::channel(MOST_WAITING);
        let (ends, ending) = mpsc::channel(1);
        let tending = Tending {
            session: self.clone(),
            command: command.clone(),
            listening,
            context: Context::new(language, Limits::default()),
            current: None,
            count: 0,
            noted: 0,
        };
        tokio::spawn(tending.tend(waiting, ending));
        Ok(Worker { cells, command, ends })
    }

    fn end_worker(&self, worker: &Worker, why: &'static str) -> Result<(), SessionError> {
        // One that is ending already has its reason.
        worker.ends.try_send(why).unwrap_or_default();
        self.signal(&worker.command, KILL)
    }
}

/// The task beside a worker: it takes all that the worker says, also between cells, and gives it one cell after another.
struct Tending {
    session: Arc<Session>,
    command: Arc<SessionCommand>,
    listening: Subscription,
    context: Context,
    current: Option<mpsc::Sender<CellEvent>>,
    count: u64,
    /// The last cell whose end is on record.
    noted: u64,
}

impl Tending {
    async fn tend(mut self, mut waiting: mpsc::Receiver<Cell>, mut ending: mpsc::Receiver<&'static str>) {
        let mut patience: Option<std::pin::Pin<Box<tokio::time::Sleep>>> = None;
        loop {
            let is_idle = self.current.is_none();
            let left = self.current.clone();
            tokio::select! {
                biased;
                Some(why) = ending.recv() => return self.lose(why, "the context was ended").await,
                heard = self.listening.next() => match heard {
                    Some((_, CommandEvent::Stdout(bytes))) => self.hear(Stream::Stdout, &bytes).await,
                    Some((_, CommandEvent::Stderr(bytes))) => self.hear(Stream::Stderr, &bytes).await,
                    Some((_, CommandEvent::Started { .. })) => {}
                    Some((_, CommandEvent::Ended(_))) | None => {
                        // Why it was ended comes first, if somebody ended it.
                        let why = ending.try_recv().unwrap_or("ContextEnded");
                        return self.lose(why, "the process of the context has ended").await;
                    }
                },
                // Who asked has gone: the cell is interrupted, and what does not heed that is killed.
                () = async { if let Some(events) = &left { events.closed().await } }, if !is_idle && patience.is_none() => {
                    self.session.signal(&self.command, INTERRUPT).unwrap_or_default();
                    patience = Some(Box::pin(sleep(GRACE)));
                }
                () = async { if let Some(patience) = &mut patience { patience.await } }, if patience.is_some() => {
                    self.session.signal(&self.command, KILL).unwrap_or_default();
                    patience = Some(Box::pin(sleep(GRACE)));
                }
                cell = waiting.recv(), if is_idle => match cell {
                    Some(cell) => self.begin(cell).await,
                    None => return self.lose("ContextEnded", "nobody has the context any more").await,
                },
            }
            if self.current.is_none() {
                patience = None;
            }
        }
    }

    async fn begin(&mut self, cell: Cell) {
        let begun = self.context.begin(&cell.request);
        let bytes = match begun {
            Ok(bytes) => bytes,
            Err(error) => return drop(cell.begun.send(Err(error))),
        };
        self.count += 1;
        let code = cell.request.code.as_bytes();
        let event =
            Event::CellStarting { command: self.command.number, cell: self.count, sha256: Digest::of(code), bytes: code.len() as u64 };
        let noted = self.session.note(event);
        let fed = match noted {
            Ok(()) => self.session.feed(&self.command, bytes).await,
            Err(error) => Err(error),
        };
        self.current = Some(cell.events);
        // Who asked may have gone.
        cell.begun.send(Ok(())).unwrap_or_default();
        if let Err(error) = fed {
            self.session.signal(&self.command, KILL).unwrap_or_default();
            let events = self.context.lose("ContextEnded", &error.to_string());
            self.tell(events).await;
        }
    }

    async fn hear(&mut self, stream: Stream, bytes: &[u8]) {
        match self.context.push(stream, bytes) {
            Ok(events) => self.tell(events).await,
            Err(error) => {
                self.session.signal(&self.command, KILL).unwrap_or_default();
                let events = self.context.lose("ContextEnded", &error.to_string());
                self.tell(events).await;
            }
        }
    }

    async fn lose(mut self, name: &str, value: &str) {
        self.session.signal(&self.command, KILL).unwrap_or_default();
        let events = self.context.lose(name, value);
        self.tell(events).await;
    }

    /// Tells whoever asked for the cell, waiting while they are slow. Who has gone is told nothing.
    async fn tell(&mut self, events: Vec<CellEvent>) {
        for event in events {
            let is_last = event == CellEvent::Ended;
            if let CellEvent::Error { name, .. } = &event {
                self.note_end(Some(name.clone()));
            } else if is_last {
                self.note_end(None);
            }
            if let Some(current) = &self.current {
                current.send(event).await.unwrap_or_default();
            }
            if is_last {
                self.current = None;
            }
        }
    }

    /// The first word on how a cell ended is the one that stands on record.
    fn note_end(&mut self, error: Option<String>) {
        if self.noted < self.count {
            self.noted = self.count;
            let event = Event::CellEnded { command: self.command.number, cell: self.count, error };
            // Where the session is over its record is closed.
            self.session.note(event).unwrap_or_default();
        }
    }
}
