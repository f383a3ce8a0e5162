//! One session, as everybody but its keeper sees it.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use ringfence_evidence::{ClosedBy, Event};
use ringfence_isolation::{Files, OsText, Trees, Usage, Window};
use ringfence_policy::{Capabilities, Layer, Refusal, State as KeptFiles, UserName};
use ringfence_store::{JournalWriter, RunId, StateAbout};
use tokio::sync::{oneshot, watch};

use super::command::{CommandRequest, SessionCommand};
use super::contexts::Contexts;
use super::error::SessionError;
use super::feed::Subscription;
use super::keeper::Order;
use super::wake::Wake;
use crate::report::RunReport;
use crate::state::Words;

/// Times that input is offered to a command that does not read, and how long after one another.
const OFFERS: u32 = 500;
const OFFER_AGAIN: Duration = Duration::from_millis(20);

/// What a session was made with, for whoever asks about it later.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct About {
    /// Whose it is.
    pub tenant: String,
    /// The agent it belongs to.
    pub agent: String,
    /// The profile.
    pub profile: String,
    /// Words of the caller's own.
    pub metadata: BTreeMap<String, String>,
}

/// What a keeper begins with.
pub(crate) struct Seat {
    pub(crate) orders: Orders,
    pub(crate) standing: oneshot::Sender<Arc<Session>>,
    pub(crate) wake: Wake,
    /// How long it may go on, if less than the limit of the run.
    pub(crate) wall: Option<Duration>,
    pub(crate) about: About,
}

/// Both ends of the way to a keeper.
pub(crate) struct Orders {
    pub(crate) to: Sender<Order>,
    pub(crate) from: Receiver<Order>,
}

/// What a session begins with.
pub(crate) struct Beginning {
    pub(crate) run: RunId,
    pub(crate) about: About,
    pub(crate) journal: JournalWriter,
    pub(crate) files: Files,
    pub(crate) wake: Wake,
    pub(crate) orders: Sender<Order>,
    pub(crate) allowed: Capabilities,
    pub(crate) user: UserName,
    pub(crate) said: StateAbout,
    pub(crate) environment: Vec<(String, OsText)>,
}

/// A standing session. Everything is asked of the thread that keeps it, but for files, which are reached from any.
#[derive(Debug)]
pub struct Session {
    /// Its run, by whose id it is known.
    pub run: RunId,
    /// What it was made with.
    pub about: About,
    /// When it stood.
    pub started_at: SystemTime,
    /// What was granted.
    pub allowed: Capabilities,
    /// Whom its commands run as.
    pub user: UserName,
    environment: Vec<(String, OsText)>,
    orders: Mutex<Sender<Order>>,
    wake: Wake,
    journal: JournalWriter,
    files: Mutex<Option<Arc<Files>>>,
    pub(crate) contexts: Contexts,
    /// What is said of a snapshot of its files.
    pub(crate) said: StateAbout,
    /// What is said of its files when it is paused.
    kept_about: Mutex<serde_json::Value>,
    /// Whether it is being saved.
    is_saving: Mutex<bool>,
    saved: Condvar,
    pauses_at_timeout: AtomicBool,
    state: Mutex<State>,
    over: watch::Sender<bool>,
    report: watch::Sender<Sealed>,
}

/// Whether its record is sealed: not yet, or with this report, which is none if that could not be done.
type Sealed = Option<Option<Arc<RunReport>>>;

#[derive(Debug)]
struct State {
    commands: BTreeMap<u32, Arc<SessionCommand>>,
    next: u32,
    killed: BTreeSet<u32>,
    ends_at: SystemTime,
    usage: Usage,
}

impl Session {
    pub(crate) fn standing(beginning: Beginning) -> Arc<Self> {
        let Beginning { run, about, journal, files, wake, orders, allowed, user, said, environment } = beginning;
        let now = SystemTime::now();
        let wall = allowed.limits.get(ringfence_policy::LimitKey::Wall).map_or(Duration::MAX, Duration::from_millis);
        let state =
            State { commands: BTreeMap::new(), next: 0, killed: BTreeSet::new(), ends_at: later(now, wall), usage: Usage::default() };
        Arc::new(Self {
            run,
            about,
            started_at: now,
            allowed,
            user,
            environment,
            orders: Mutex::new(orders),
            wake,
            journal,
            files: Mutex::new(Some(Arc::new(files))),
            contexts: Contexts::default(),
            said,
            kept_about: Mutex::default(),
            is_saving: Mutex::new(false),
            saved: Condvar::new(),
            pauses_at_timeout: AtomicBool::new(false),
            state: Mutex::new(state),
            over: watch::Sender::new(false),
            report: watch::Sender::new(None),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn order(&self, order: Order) -> Result<(), SessionError> {
        let sent = self.orders.lock().unwrap_or_else(PoisonError::into_inner).send(order);
        self.wake.call();
        sent.map_err(|_| SessionError::Gone)
    }

    async fn ask<T>(&self, order: impl FnOnce(oneshot::Sender<Result<T, SessionError>>) -> Order) -> Result<T, SessionError> {
        let (answer, answered) = oneshot::channel();
        self.order(order(answer))?;
        answered.await.map_err(|_| SessionError::Gone)?
    }

    /// Variables that every command of the session gets beside the sandbox's own; values that are not UTF-8 as well as they can be shown.
    pub fn environment(&self) -> Vec<(String, String)> {
        self.environment.iter().map(|(name, value)| (name.clone(), value.as_os_str().to_string_lossy().into_owned())).collect()
    }

    /// Starts a command; answers with it and with somebody who listens from its first word on. Variables that were not granted are refused.
    pub async fn start(&self, request: CommandRequest) -> Result<(Arc<SessionCommand>, Subscription), SessionError> {
        if let Some((name, _)) = request.environment.iter().find(|(name, _)| !self.allowed.allows_variable(name)) {
            return Err(SessionError::Refused(Refusal {
                rule: format!("variable `{name}` may not be set"),
                layer: Layer::Profile,
                hint: format!("add \"{name}\" to `allow` under [environment] in profile `{}`, or leave it out", self.about.profile),
            }));
        }
        self.ask(|answer| Order::Start { request: Box::new(request), answer }).await
    }

    /// The commands that run, and the last that have ended.
    pub fn commands(&self) -> Vec<Arc<SessionCommand>> {
        self.state().commands.values().cloned().collect()
    }

    /// The newest command with this process id or tag; one that runs goes before one that has ended.
    pub fn find(&self, which: &Which) -> Result<Arc<SessionCommand>, SessionError> {
        let commands = self.commands();
        let fits = commands.iter().rev().filter(|command| which.fits(command));
        let (running, ended): (Vec<_>, Vec<_>) = fits.partition(|command| !command.has_ended());
        let found = running.into_iter().chain(ended).next();
        found.cloned().ok_or_else(|| SessionError::NoCommand { which: which.to_string() })
    }

    /// Gives a command input, waiting while it does not read.
    pub async fn feed(&self, command: &SessionCommand, bytes: Vec<u8>) -> Result<(), SessionError> {
        for _ in 0..OFFERS {
            let (number, bytes) = (command.number, bytes.clone());
            if self.ask(|answer| Order::Feed { command: number, bytes, answer }).await? {
                return Ok(());
            }
            tokio::time::sleep(OFFER_AGAIN).await;
        }
        Err(SessionError::InputFull)
    }

    /// The input of a command is complete.
    pub fn complete_input(&self, command: &SessionCommand) -> Result<(), SessionError> {
        self.order(Order::CompleteInput { command: command.number })
    }

    /// Sends a signal to a command and its group.
    pub fn signal(&self, command: &SessionCommand, signal: i32) -> Result<(), SessionError> {
        self.order(Order::Signal { command: command.number, signal })
    }

    /// Changes the size of a command's terminal.
    pub fn resize(&self, command: &SessionCommand, window: Window) -> Result<(), SessionError> {
        self.order(Order::Resize { command: command.number, window })
    }

    /// A TCP socket in the sandbox's network, to be connected to a port there.
    pub async fn socket(&self, port: u16) -> Result<OwnedFd, SessionError> {
        self.ask(|answer| Order::Socket { port, answer }).await
    }

    /// Its files.
    pub fn files(&self) -> Result<Arc<Files>, SessionError> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).clone().ok_or(SessionError::Gone)
    }

    /// Writes down what was done from outside.
    pub fn note(&self, event: Event) -> Result<(), SessionError> {
        self.journal.append(event).map_err(|error| if self.is_over() { SessionError::Gone } else { SessionError::Run(error.into()) })
    }

    /// It may go on for this long from now, but not past the limit of its run; answers with the moment at which it will end.
    pub fn set_left(&self, left: Duration) -> Result<SystemTime, SessionError> {
        let wall = self.allowed.limits.get(ringfence_policy::LimitKey::Wall).map_or(Duration::MAX, Duration::from_millis);
        let most = wall.saturating_sub(self.started_at.elapsed().unwrap_or_default());
        let is_given = left < most;
        let left = left.min(most);
        self.order(Order::Wall { left, is_given })?;
        let ends_at = later(SystemTime::now(), left);
        self.state().ends_at = ends_at;
        Ok(ends_at)
    }

    /// When it will end by itself.
    pub fn ends_at(&self) -> SystemTime {
        self.state().ends_at
    }

    /// What it has used so far.
    pub fn usage(&self) -> Usage {
        self.state().usage
    }

    /// Ends it, and waits until its record is sealed.
    pub async fn close(&self, by: ClosedBy) -> Option<Arc<RunReport>> {
        self.begin_close(by);
        self.sealed().await
    }

    /// Begins to end it. One that has ended by itself is left that end.
    pub fn begin_close(&self, by: ClosedBy) {
        self.order(Order::Close { by }).unwrap_or_default();
    }

    /// Ends it and keeps its files, and waits until its record is sealed. The report says by which id they are kept; where they could not be, the run
    /// has failed. `about` is kept with them for whoever goes on.
    ///
    /// # Errors
    /// Nothing of this run may outlive it.
    pub async fn pause(&self, about: serde_json::Value) -> Result<Option<Arc<RunReport>>, SessionError> {
        self.check_may_be_kept()?;
        *self.kept_about.lock().unwrap_or_else(PoisonError::into_inner) = about;
        Ok(self.close(ClosedBy::Pause).await)
    }

    /// When its time is up it is paused, and not just ended: its files are kept, with `about`.
    ///
    /// # Errors
    /// Nothing of this run may outlive it.
    pub fn pause_at_timeout(&self, about: serde_json::Value) -> Result<(), SessionError> {
        self.check_may_be_kept()?;
        *self.kept_about.lock().unwrap_or_else(PoisonError::into_inner) = about;
        self.pauses_at_timeout.store(true, Ordering::Release);
        Ok(())
    }

    /// By what it is closed when its time is up.
    pub(crate) fn closed_at_timeout(&self) -> ClosedBy {
        if self.pauses_at_timeout.load(Ordering::Acquire) { ClosedBy::Pause } else { ClosedBy::Timeout }
    }

    /// Its files as they are, to be read by any thread.
    pub(crate) async fn trees(&self) -> Result<Trees, SessionError> {
        self.ask(|answer| Order::Snapshot { answer }).await
    }

    /// The right to save it: one at a time.
    pub(crate) fn begin_saving(self: &Arc<Self>) -> Result<Saving, SessionError> {
        self.check_may_be_kept()?;
        match std::mem::replace(&mut *self.is_saving.lock().unwrap_or_else(PoisonError::into_inner), true) {
            false => Ok(Saving(self.clone())),
            true => Err(SessionError::Failed { act: "save the session", source: std::io::Error::other("it is being saved already") }),
        }
    }

    /// Waits until nobody saves it any more: two at once would see each other's steps, and what is saved stands on record before that is sealed.
    pub(crate) fn wait_until_saved(&self) {
        let is_saving = self.is_saving.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.saved.wait_while(is_saving, |is_saving| *is_saving));
    }

    fn check_may_be_kept(&self) -> Result<(), SessionError> {
        match self.allowed.state {
            KeptFiles::Named => Ok(()),
            KeptFiles::None => Err(SessionError::Refused(Refusal {
                rule: "nothing that is written may outlive the run".into(),
                layer: Layer::Profile,
                hint: format!("set `state = \"named\"` under [files] in profile `{}`", self.about.profile),
            })),
        }
    }

    /// What is said of its files.
    pub(crate) fn words(&self) -> Words {
        let about = self.kept_about.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Words { metadata: self.about.metadata.clone(), about }
    }

    pub(crate) fn journal(&self) -> &JournalWriter {
        &self.journal
    }

    /// Waits until its record is sealed; `None` if that could not be done.
    pub async fn sealed(&self) -> Option<Arc<RunReport>> {
        let mut report = self.report.subscribe();
        let sealed = report.wait_for(Option::is_some).await.ok()?;
        sealed.clone().flatten()
    }

    /// Whether no command runs any more.
    pub fn is_over(&self) -> bool {
        *self.over.borrow()
    }

    /// Waits until no command runs any more.
    pub async fn over(&self) {
        // The sender lives as long as this does.
        self.over.subscribe().wait_for(|over| *over).await.map(drop).unwrap_or_default();
    }

    pub(crate) fn set_over(&self) {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.over.send_replace(true);
    }

    pub(crate) fn set_report(&self, report: Option<RunReport>) {
        self.report.send_replace(Some(report.map(Arc::new)));
    }

    pub(crate) fn set_usage(&self, usage: Usage) {
        self.state().usage = usage;
    }

    pub(crate) fn next_number(&self, most: u32) -> Result<u32, SessionError> {
        let mut state = self.state();
        if state.next >= most {
            return Err(SessionError::Commands { most: most as usize, what: "in all" });
        }
        state.next += 1;
        Ok(state.next - 1)
    }

    pub(crate) fn remember(&self, command: Arc<SessionCommand>) {
        self.state().commands.insert(command.number, command);
    }

    /// Forgets the oldest of the commands that have ended, while more than `most` are known.
    pub(crate) fn forget_beyond(&self, most: usize) {
        let mut state = self.state();
        while state.commands.len() > most {
            let ended = state.commands.values().find(|command| command.has_ended()).map(|command| command.number);
            let Some(number) = ended else { return };
            state.commands.remove(&number);
            state.killed.remove(&number);
        }
    }

    /// True the first time that it is asked for a command.
    pub(crate) fn is_killed_anew(&self, command: u32) -> bool {
        self.state().killed.insert(command)
    }
}

/// Somebody saves a session.
pub(crate) struct Saving(Arc<Session>);

impl Drop for Saving {
    fn drop(&mut self) {
        *self.0.is_saving.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.0.saved.notify_all();
    }
}

/// By what a command is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// The id of its process inside.
    Pid(i32),
    /// The caller's name for it.
    Tag(String),
    /// Its number within the run.
    Number(u32),
}

impl Which {
    fn fits(&self, command: &SessionCommand) -> bool {
        match self {
            Self::Pid(pid) => command.pid() == Some(*pid),
            Self::Tag(tag) => command.request.tag.as_deref() == Some(tag),
            Self::Number(number) => command.number == *number,
        }
    }
}

impl std::fmt::Display for Which {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Pid(pid) => write!(f, "with pid {pid}"),
            Self::Tag(tag) => write!(f, "with tag `{}`", tag.escape_debug()),
            Self::Number(number) => write!(f, "with number {number}"),
        }
    }
}

fn later(now: SystemTime, left: Duration) -> SystemTime {
    now.checked_add(left.min(Duration::from_secs(10 * 366 * 24 * 3600))).unwrap_or(now)
}
