//! One command of a session.

use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ringfence_evidence::{RunEnd, StreamRecord};
use ringfence_isolation::{OsText, Window};
use ringfence_policy::EnvName;

use super::feed::{CommandEvent, Feed, From, Subscription};
use super::wake::Wake;
use crate::request::Secret;

/// What one command is asked for.
#[derive(Debug, Clone, Default)]
pub struct CommandRequest {
    /// Program and arguments.
    pub argv: Vec<OsText>,
    /// Variables in addition to the session's own.
    pub environment: Vec<(EnvName, OsText)>,
    /// Where it starts; the workspace if nothing is named.
    pub folder: Option<OsText>,
    /// The size of the terminal that it gets in place of streams.
    pub terminal: Option<Window>,
    /// Whether it will be fed; its standard input is empty otherwise.
    pub has_stdin: bool,
    /// How long it may run.
    pub wall: Option<Duration>,
    /// A name of the caller's, by which it can be found again.
    pub tag: Option<String>,
    /// Values that must not stand in the record.
    pub known_secrets: Vec<Secret>,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandEnd {
    /// How.
    pub end: RunEnd,
    /// The exit status, as a shell has it.
    pub status: i32,
    /// Its own time was up.
    pub is_out_of_time: bool,
    /// What it wrote.
    pub stdout: StreamRecord,
    /// What it wrote as errors.
    pub stderr: StreamRecord,
}

/// A command of a session, running or ended.
#[derive(Debug)]
pub struct SessionCommand {
    /// Its number within the run, from 0.
    pub number: u32,
    /// What was asked for.
    pub request: CommandRequest,
    /// Where it ends, if it has a time of its own.
    pub(crate) deadline: Option<Instant>,
    pid: AtomicI32,
    end: Mutex<Option<CommandEnd>>,
    feed: Feed,
}

impl SessionCommand {
    pub(crate) fn new(number: u32, request: CommandRequest, wake: Wake) -> Self {
        let deadline = request.wall.and_then(|wall| Instant::now().checked_add(wall));
        Self { number, request, deadline, pid: AtomicI32::new(0), end: Mutex::default(), feed: Feed::new(wake) }
    }

    /// The id of its process inside, once it runs.
    pub fn pid(&self) -> Option<i32> {
        Some(self.pid.load(Ordering::Acquire)).filter(|pid| *pid > 0)
    }

    /// How it ended, if it has.
    pub fn end(&self) -> Option<CommandEnd> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.end.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Listens to it.
    pub fn listen(&self, from: From) -> Subscription {
        self.feed.listen(from)
    }

    pub(crate) fn feed(&self) -> &Feed {
        &self.feed
    }

    pub(crate) fn set_started(&self, pid: i32) {
        self.pid.store(pid, Ordering::Release);
        self.feed.tell(CommandEvent::Started { pid });
    }

    pub(crate) fn set_ended(&self, end: CommandEnd) {
        *self.end.lock().unwrap_or_else(PoisonError::into_inner) = Some(end.clone());
        self.feed.tell(CommandEvent::Ended(end));
    }
}
