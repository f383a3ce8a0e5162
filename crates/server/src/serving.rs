//! What every request is answered with, and the way from an asynchronous request to work that waits.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use ringfence_control::{About, Runner, Secret, Session, Sessions};
use ringfence_policy::TenantName;
use ringfence_store::{Caller, Clients, Home, RunId, StoreError, Viewer};
use tokio::sync::Semaphore;

use crate::e2b::Sandboxes;
use crate::gate::{Hosts, Throttle};
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::moment::rfc3339;
use crate::options::ServeOptions;
use crate::problem::Problem;
use crate::work::{RunUnderWay, Work};

/// What a server has while it serves.
pub(crate) struct Serving {
    /// Starts runs in the home.
    pub(crate) runner: Arc<Runner>,
    /// Every session.
    pub(crate) sessions: Sessions,
    /// Those of E2B's clients.
    pub(crate) sandboxes: Sandboxes,
    /// Paused sandboxes go on one after another.
    pub(crate) resuming: tokio::sync::Mutex<()>,
    pub(crate) clients: Mutex<Clients>,
    pub(crate) limits: Limits,
    pub(crate) hosts: Hosts,
    pub(crate) throttle: Throttle,
    pub(crate) metrics: Metrics,
    pub(crate) work: Arc<Work>,
    pub(crate) requests: Arc<Semaphore>,
    pub(crate) streams: Arc<Semaphore>,
    pub(crate) audits: Arc<Semaphore>,
    /// Bytes of bodies that may still be kept.
    pub(crate) body_bytes: Arc<Semaphore>,
    pub(crate) known_secrets: Vec<Secret>,
    pub(crate) homes: Vec<PathBuf>,
    /// The name of this start.
    pub(crate) start: String,
    log: fn(&str),
}

impl std::fmt::Debug for Serving {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Serving").field("home", self.runner.home()).field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl Serving {
    pub(crate) fn new(runner: Runner, clients: Clients, options: &ServeOptions) -> Result<Arc<Self>, std::io::Error> {
        let limits = options.limits.clone();
        let runner = Arc::new(runner);
        Ok(Arc::new(Self {
            sessions: Sessions::of(runner.clone(), limits.sessions),
            sandboxes: Sandboxes::default(),
            resuming: tokio::sync::Mutex::default(),
            runner,
            clients: Mutex::new(clients),
            hosts: Hosts::of(&options.host_names),
            throttle: Throttle::of(&limits),
            metrics: Metrics::default(),
            work: Work::new(limits.work, limits.work_of_one_tenant),
            requests: Arc::new(Semaphore::new(limits.requests)),
            streams: Arc::new(Semaphore::new(limits.streams)),
            audits: Arc::new(Semaphore::new(1)),
            body_bytes: Arc::new(Semaphore::new(limits.body_bytes_in_all)),
            known_secrets: options.known_secrets.clone(),
            homes: options.homes.clone(),
            start: RunId::new()?.to_string(),
            log: options.log,
            limits,
        }))
    }

    /// The home.
    pub(crate) fn home(&self) -> &Home {
        self.runner.home()
    }

    /// A run that is under way: of one command, or a session.
    pub(crate) fn under_way(&self, run: &str) -> Option<RunUnderWay> {
        self.work.run(run).or_else(|| self.sessions.find(run).map(|session| of_session(&session)))
    }

    /// Every run that is under way.
    pub(crate) fn all_under_way(&self) -> Vec<(String, RunUnderWay)> {
        let sessions = self.sessions.all().into_iter().map(|session| (session.run.to_string(), of_session(&session)));
        self.work.runs().into_iter().chain(sessions).collect()
    }

    /// Tells the operator.
    pub(crate) fn log(&self, line: &str) {
        (self.log)(line);
    }

    /// A failure on our side: the operator reads what it was, the client that there was one.
    pub(crate) fn failed(&self, error: &dyn std::fmt::Display) -> Problem {
        self.log(&format!("failed: {error}"));
        Problem::internal()
    }

    /// Work that waits for disks, databases or runs, on a thread that may wait.
    pub(crate) async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Arc<Self>) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let serving = self.clone();
        match tokio::task::spawn_blocking(move || work(&serving)).await {
            Ok(done) => done,
            Err(panic) => Err(self.failed(&panic)),
        }
    }

    /// Asks or tells the record of tenants and keys. Only for threads that may wait.
    pub(crate) fn clients<T>(&self, work: impl FnOnce(&mut Clients) -> Result<T, StoreError>) -> Result<T, Problem> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        work(&mut clients).map_err(|error| self.failed(&error))
    }
}

fn of_session(session: &Session) -> RunUnderWay {
    let About { tenant, agent, profile, .. } = session.about.clone();
    RunUnderWay { tenant, agent, profile, started_at: rfc3339(session.started_at) }
}

/// As whom a caller sees things.
pub(crate) fn viewer(caller: &Caller) -> Viewer {
    Viewer { tenant: caller.tenant.clone(), sees_the_command_line: caller.tenant == TenantName::first().as_str() }
}
