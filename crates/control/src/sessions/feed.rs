//! What a command says, on its way to everybody who listens, and the last of it for who comes later.
//!
//! Somebody who listens and is slow makes the command wait, as a terminal would; who takes nothing for half a minute is let go, so that nobody who went
//! away without a word holds a command up. Nobody listening is no reason to wait.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ringfence_isolation::Listener;
use tokio::sync::Notify;

use super::command::{CommandEnd, SessionCommand};
use super::wake::Wake;

/// Bytes that wait for one listener before the command has to.
const WAITING: usize = 256 << 10;
/// Bytes of what was said that are kept for who comes later.
const KEPT: usize = 256 << 10;
/// How long a listener may take nothing while the command waits for it.
const PATIENCE: Duration = Duration::from_secs(30);

/// One word of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandEvent {
    /// It runs; the id of its process is as it is inside.
    Started {
        /// The id.
        pid: i32,
    },
    /// It wrote to its standard output, or to its terminal.
    Stdout(Bytes),
    /// It wrote to its standard error.
    Stderr(Bytes),
    /// It has ended: the last word.
    Ended(CommandEnd),
}

impl CommandEvent {
    fn bytes(&self) -> usize {
        match self {
            Self::Stdout(bytes) | Self::Stderr(bytes) => bytes.len(),
            Self::Started { .. } | Self::Ended(_) => 0,
        }
    }
}

/// From where somebody listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// From now on.
    Now,
    /// From the word with this number on, as far as it is still kept.
    Number(u64),
}

/// Where a command's words go.
#[derive(Debug)]
pub(crate) struct Feed {
    wake: Wake,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    listeners: Vec<Arc<Queue>>,
    /// The last words, with their numbers.
    kept: VecDeque<(u64, CommandEvent)>,
    kept_bytes: usize,
    next: u64,
    started: Option<CommandEvent>,
    ended: Option<CommandEvent>,
}

impl Feed {
    pub(crate) fn new(wake: Wake) -> Self {
        Self { wake, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells a word to everybody.
    pub(crate) fn tell(&self, event: CommandEvent) {
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        match event {
            CommandEvent::Started { .. } => state.started = Some(event.clone()),
            CommandEvent::Ended(_) => state.ended = Some(event.clone()),
            CommandEvent::Stdout(_) | CommandEvent::Stderr(_) => {}
        }
        state.listeners.retain(|listener| listener.push(number, &event));
        state.kept_bytes += event.bytes();
        state.kept.push_back((number, event));
        while state.kept_bytes > KEPT && state.kept.len() > 1 {
            let dropped = state.kept.pop_front().map_or(0, |(_, event)| event.bytes());
            state.kept_bytes -= dropped;
        }
    }

    /// Somebody listens from here on. That the command has started, and that it has ended, is told in any case.
    pub(crate) fn listen(&self, from: From) -> Subscription {
        let mut state = self.state();
        let first = if let From::Number(number) = from { number } else { state.next };
        let queue = Arc::new(Queue { wake: self.wake.clone(), held: Mutex::default(), ready: Notify::new() });
        let kept: Vec<(u64, CommandEvent)> = state.kept.iter().filter(|(number, _)| *number >= first).cloned().collect();
        let says = |event: &CommandEvent| kept.iter().any(|(_, kept)| kept == event);
        if let Some(started) = state.started.clone().filter(|started| !says(started)) {
            queue.push(first, &started);
        }
        for (number, event) in &kept {
            queue.push(*number, event);
        }
        match state.ended.clone().filter(|ended| !says(ended)) {
            Some(ended) => {
                queue.push(state.next.saturating_sub(1), &ended);
            }
            None => state.listeners.push(queue.clone()),
        }
        Subscription { queue }
    }

    /// Everybody who listens has taken enough. Who has taken nothing for too long is let go.
    fn has_room(&self) -> bool {
        let mut state = self.state();
        state.listeners.retain(|listener| !listener.is_stuck());
        state.listeners.iter().all(|listener| listener.has_room())
    }
}

/// Words on their way to one listener.
#[derive(Debug)]
struct Queue {
    wake: Wake,
    held: Mutex<Held>,
    ready: Notify,
}

#[derive(Debug, Default)]
struct Held {
    events: VecDeque<(u64, CommandEvent)>,
    bytes: usize,
    full_since: Option<Instant>,
    /// Nobody listens any more, or it was let go.
    is_closed: bool,
}

impl Queue {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// False if nobody is there any more.
    fn push(&self, number: u64, event: &CommandEvent) -> bool {
        let mut held = self.held();
        if held.is_closed {
            return false;
        }
        held.bytes += event.bytes();
        held.events.push_back((number, event.clone()));
        if held.bytes >= WAITING {
            held.full_since.get_or_insert_with(Instant::now);
        }
        drop(held);
        self.ready.notify_one();
        true
    }

    fn has_room(&self) -> bool {
        let held = self.held();
        held.is_closed || held.bytes < WAITING
    }

    fn is_stuck(&self) -> bool {
        let mut held = self.held();
        let is_stuck = held.full_since.is_some_and(|since| since.elapsed() > PATIENCE);
        if is_stuck {
            held.is_closed = true;
            self.ready.notify_one();
        }
        held.is_closed
    }

    /// The next word; `Err` once there are no more.
    fn pop(&self) -> Result<Option<(u64, CommandEvent)>, ()> {
        let mut held = self.held();
        let Some((number, event)) = held.events.pop_front() else {
            return if held.is_closed { Err(()) } else { Ok(None) };
        };
        held.bytes -= event.bytes();
        let was_full = held.full_since.is_some();
        held.full_since = (held.bytes >= WAITING).then(Instant::now);
        let is_relieved = was_full && held.full_since.is_none();
        drop(held);
        if is_relieved {
            self.wake.call();
        }
        Ok(Some((number, event)))
    }
}

/// Somebody who listens to a command. Dropping it is going away, which the command does not notice.
#[derive(Debug)]
pub struct Subscription {
    queue: Arc<Queue>,
}

impl Subscription {
    /// The next word, with its number. `None` after the last one, and for a listener that was let go because it took nothing.
    pub async fn next(&mut self) -> Option<(u64, CommandEvent)> {
        loop {
            match self.queue.pop() {
                Ok(Some(event)) => return Some(event),
                Ok(None) => self.queue.ready.notified().await,
                Err(()) => return None,
            }
        }
    }
}

impl Subscription {
    /// The next word if it is there already.
    pub fn try_next(&mut self) -> Option<(u64, CommandEvent)> {
        self.queue.pop().ok().flatten()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut held = self.queue.held();
        held.is_closed = true;
        held.events.clear();
        let was_full = held.full_since.is_some();
        drop(held);
        if was_full {
            self.queue.wake.call();
        }
    }
}

/// One stream of a command, as the sandbox sees it.
#[derive(Debug)]
pub(crate) struct Stream {
    command: Arc<SessionCommand>,
    of: fn(Bytes) -> CommandEvent,
}

impl Stream {
    pub(crate) fn stdout(command: &Arc<SessionCommand>) -> Box<dyn Listener> {
        Box::new(Self { command: command.clone(), of: CommandEvent::Stdout })
    }

    pub(crate) fn stderr(command: &Arc<SessionCommand>) -> Box<dyn Listener> {
        Box::new(Self { command: command.clone(), of: CommandEvent::Stderr })
    }
}

impl Listener for Stream {
    fn started(&mut self, pid: i32) {
        self.command.set_started(pid);
    }

    fn take(&mut self, bytes: &[u8]) {
        self.command.feed().tell((self.of)(Bytes::copy_from_slice(bytes)));
    }

    fn has_room(&self) -> bool {
        self.command.feed().has_room()
    }
}
