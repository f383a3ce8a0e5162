//! Sessions: runs with many commands, each kept by a thread of its own from its request to its sealed record.
//!
//! The line of a session is the line of any run ([`crate::Runner`]); only what is done between the sandbox's standing and its end is different: commands come
//! and go, from anywhere, and none of them ends it.

mod command;
mod contexts;
mod error;
mod feed;
mod keeper;
mod session;
mod snapshot;
mod wake;

use std::collections::BTreeMap;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ringfence_evidence::{ClosedBy, RunEnd};
use ringfence_policy::Refusal;
use tokio::sync::oneshot;

pub use command::{CommandEnd, CommandRequest, SessionCommand};
pub use contexts::CodeContext;
pub use error::SessionError;
pub use feed::{CommandEvent, From as ListenFrom, Subscription};
pub use session::{About, Session, Which};

use crate::error::RunError;
use crate::inside::Inside;
use crate::report::RunReport;
use crate::request::{Attachments, OutputTo, Progress, RunRequest};
use crate::run::Runner;
use keeper::SessionKeeper;
use session::{Orders, Seat};
use wake::Wake;

/// Stack of the thread that keeps a session: most of it is never touched.
const STACK: usize = 1 << 20;

/// What a session is asked for.
#[derive(Debug, Clone)]
pub struct SessionRequest {
    /// As for any run; it names no command.
    pub run: RunRequest,
    /// How long it may go on, if less than its wall limit.
    pub time: Option<Duration>,
    /// What is remembered of it.
    pub about: About,
}

/// Every session of a process.
#[derive(Debug)]
pub struct Sessions {
    runner: Arc<Runner>,
    most: usize,
    live: Arc<Mutex<Live>>,
}

#[derive(Debug, Default)]
struct Live {
    standing: BTreeMap<String, Arc<Session>>,
    /// Those that are on their way, or on their way out.
    others: usize,
}

impl Sessions {
    /// No sessions yet, and never more than `most`.
    pub fn of(runner: Arc<Runner>, most: usize) -> Self {
        Self { runner, most, live: Arc::default() }
    }

    fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A session that stands, by its run.
    pub fn find(&self, run: &str) -> Option<Arc<Session>> {
        self.live().standing.get(run).filter(|session| !session.is_over()).cloned()
    }

    /// Every session that stands, the oldest first.
    pub fn all(&self) -> Vec<Arc<Session>> {
        self.live().standing.values().filter(|session| !session.is_over()).cloned().collect()
    }

    /// Makes a session and waits until it stands.
    pub async fn create(&self, request: SessionRequest) -> Result<Arc<Session>, SessionError> {
        {
            let mut live = self.live();
            if live.standing.len() + live.others >= self.most {
                return Err(SessionError::Busy { most: self.most });
            }
            live.others += 1;
        }
        let made = self.begin(request).await;
        let mut live = self.live();
        live.others -= 1;
        if let Ok(session) = &made
            && !session.is_over()
        {
            live.standing.insert(session.run.to_string(), session.clone());
        }
        made
    }

    async fn begin(&self, request: SessionRequest) -> Result<Arc<Session>, SessionError> {
        let (to, from) = channel();
        let (standing, stands) = oneshot::channel();
        let (over, ended) = oneshot::channel();
        let failed = |source| SessionError::Failed { act: "make a session", source };
        let wake = Wake::new().map_err(failed)?;
        let seat = Seat { orders: Orders { to, from }, standing, wake, wall: request.time, about: request.about };
        let (runner, live) = (self.runner.clone(), self.live.clone());
        let thread = std::thread::Builder::new().name("session".into()).stack_size(STACK);
        thread.spawn(move || live_through(&runner, &request.run, seat, &live, over)).map_err(failed)?;
        match stands.await {
            Ok(session) => Ok(session),
            Err(_) => Err(why_not(ended.await.ok())),
        }
    }

    /// Ends every session; each is sealed when this returns, and what was made ahead is gone.
    pub async fn close_all(&self, by: ClosedBy) {
        let standing: Vec<Arc<Session>> = self.live().standing.values().cloned().collect();
        standing.iter().for_each(|session| session.begin_close(by));
        for session in standing {
            session.sealed().await;
        }
        let runner = self.runner.clone();
        // Waits for the kernel, on a thread that may.
        tokio::task::spawn_blocking(move || runner.close_pool()).await.unwrap_or_default();
    }
}

/// The whole life of a session, on its own thread.
fn live_through(runner: &Runner, request: &RunRequest, seat: Seat, live: &Mutex<Live>, over: oneshot::Sender<Result<RunReport, RunError>>) {
    let keeper = SessionKeeper { seat: Mutex::new(Some(seat)), session: Mutex::new(None) };
    let attachments = Attachments { output: OutputTo::Report, progress: &mut Silent, cancel: None };
    let ended = runner.run_inside(request, attachments, &Inside::Session(&keeper));
    let session = keeper.session.lock().unwrap_or_else(PoisonError::into_inner).take();
    // Where it never stood, whoever asked for it is told why.
    let Some(session) = session else { return over.send(ended).map(drop).unwrap_or_default() };
    session.set_over();
    live.lock().unwrap_or_else(PoisonError::into_inner).standing.remove(session.run.as_str());
    session.set_report(ended.ok());
}

/// Why a session does not stand.
fn why_not(ended: Option<Result<RunReport, RunError>>) -> SessionError {
    match ended {
        Some(Ok(RunReport { end: RunEnd::Refused { rule, layer, hint }, .. })) => SessionError::Refused(Refusal { rule, layer, hint }),
        Some(Ok(report)) => SessionError::NotBegun { run: report.run, end: report.end },
        Some(Err(error)) => SessionError::Run(error),
        None => SessionError::Gone,
    }
}

/// Nobody watches.
struct Silent;

impl Progress for Silent {
    fn tell(&mut self, _: &str, _: u64) {}

    fn warn(&mut self, _: &str) {}
}
