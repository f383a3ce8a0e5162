//! A server from its first look at the home to its last run: bound, serving, draining.

use std::fs::{File, OpenOptions};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ringfence_control::Runner;
use ringfence_evidence::ClosedBy;
use ringfence_policy::{AgentId, TenantName};
use ringfence_store::{Clients, Home, KeyKind, NewKey};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::time::{interval, timeout};
use tokio_rustls::TlsAcceptor;

use crate::connection::{Listening, accept, acceptor};
use crate::error::ServeError;
use crate::options::ServeOptions;
use crate::routes;
use crate::serving::Serving;

/// How often what is kept for a day is looked at.
const SWEEP_EVERY: Duration = Duration::from_secs(600);
/// How long runs that were asked to stop may take to be sealed.
const SEAL: Duration = Duration::from_secs(20);
/// How long connections may take once nothing is under way.
const LAST_REPLIES: Duration = Duration::from_secs(2);

/// A server that listens, and serves once it runs.
pub struct Server {
    serving: Arc<Serving>,
    listener: std::net::TcpListener,
    tls: Option<TlsAcceptor>,
    drain: Duration,
    first_keys: Vec<NewKey>,
    _lock: File,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("serving", &self.serving).field("listener", &self.listener).finish_non_exhaustive()
    }
}

impl Server {
    /// Takes the home and the address. Where there is no tenant yet, one is made with a key of each kind.
    ///
    /// # Errors
    /// A public address without TLS, an address or a home that another has, and files that others can read are refused.
    pub fn bind(runner: Runner, options: &ServeOptions) -> Result<Self, ServeError> {
        options.check()?;
        take_all_descriptors();
        let tls = options.tls.as_ref().map(acceptor).transpose()?;
        let lock = lock(runner.home())?;
        let mut clients = Clients::open(runner.home())?;
        clients.sweep()?;
        routes::clear_handed_over(runner.home())?;
        let address = options.listen;
        let listen = |source| ServeError::Listen { address, source };
        let listener = std::net::TcpListener::bind(address).map_err(listen)?;
        listener.set_nonblocking(true).map_err(listen)?;
        let first_keys = first_keys(&mut clients)?;
        let runner = runner.with_pool(options.parked).map_err(|source| ServeError::System { act: "make sandboxes ahead", source })?;
        let serving = Serving::new(runner, clients, options).map_err(|source| ServeError::System { act: "name this start", source })?;
        Ok(Self { serving, listener, tls, drain: options.drain, first_keys, _lock: lock })
    }

    /// Where it listens.
    pub fn address(&self) -> Result<SocketAddr, ServeError> {
        self.listener.local_addr().map_err(|source| ServeError::System { act: "ask where it listens", source })
    }

    /// Whether clients speak TLS.
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// The keys that were made because there were none: they are shown once, and never again.
    pub fn first_keys(&self) -> &[NewKey] {
        &self.first_keys
    }

    /// Serves until `stop` becomes readable. Then nothing is begun any more; what is under way may go on for a while, and is asked to stop after that.
    pub fn run(self, stop: OwnedFd) -> Result<(), ServeError> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(workers()).thread_name("server").enable_all().build();
        let runtime = runtime.map_err(|source| ServeError::System { act: "start threads", source })?;
        // A database has a runtime of its own, which cannot end inside this one.
        let serving = self.serving.clone();
        let served = runtime.block_on(self.serve(stop));
        runtime.shutdown_timeout(LAST_REPLIES);
        drop(serving);
        served
    }

    async fn serve(self, stop: OwnedFd) -> Result<(), ServeError> {
        let system = |act| move |source: io::Error| ServeError::System { act, source };
        let listener = TcpListener::from_std(self.listener).map_err(system("listen"))?;
        let stop = asked(stop).map_err(system("wait for the end"))?;
        let serving = self.serving;
        let (tell, told) = watch::channel(false);
        let listening = Listening { listener, tls: self.tls, router: routes::router(&serving), serving: serving.clone() };
        let accepting = tokio::spawn(accept(listening, told));
        let sweeping = tokio::spawn(sweep(serving.clone()));
        // A thread that is gone asks for the end as well.
        drop(stop.await);
        serving.work.close();
        tell.send_replace(true);
        serving.sessions.close_all(ClosedBy::Shutdown).await;
        drain(&serving, self.drain).await;
        sweeping.abort();
        // Whoever reads no reply is left.
        drop(timeout(LAST_REPLIES, accepting).await);
        Ok(())
    }
}

/// Threads that speak with clients: half of the processors, for the other half is the sandboxes'. One that woke the other for each word of a command
/// cost more than it helped; what takes long has threads of its own.
fn workers() -> usize {
    std::thread::available_parallelism().map_or(1, |processors| (processors.get() / 2).max(1))
}

/// Tells when the descriptor becomes readable, from a thread that does nothing else.
fn asked(stop: OwnedFd) -> io::Result<oneshot::Receiver<()>> {
    let (tell, told) = oneshot::channel();
    std::thread::Builder::new().name("stop".into()).spawn(move || {
        while poll(&mut [PollFd::new(&stop, PollFlags::IN)], None) == Err(rustix::io::Errno::INTR) {}
        // Whoever waited is gone, and with it what could be stopped.
        tell.send(()).unwrap_or_default();
    })?;
    Ok(told)
}

/// Waits for what is under way, and asks it to stop when that takes too long.
async fn drain(serving: &Arc<Serving>, time: Duration) {
    if timeout(time, serving.work.is_over()).await.is_ok() {
        return;
    }
    serving.log(&format!("{} runs, audits or promotions are under way, and are asked to stop", serving.work.count()));
    serving.work.stop_all();
    if timeout(SEAL, serving.work.is_over()).await.is_err() {
        serving.log("something under way does not stop; the next start seals what is left of it");
    }
}

async fn sweep(serving: Arc<Serving>) {
    let mut turns = interval(SWEEP_EVERY);
    loop {
        turns.tick().await;
        // What failed is in the log, and tried again.
        drop(serving.blocking(|serving| serving.clients(Clients::sweep)).await);
    }
}

/// Raises the number of descriptors to the most that this process may have: a session needs six, and what is usual does for 150 of them. Programs inside
/// have the limit of their profile.
fn take_all_descriptors() {
    let held = getrlimit(Resource::Nofile);
    // A server with fewer has room for fewer sessions, and says so when there is none.
    setrlimit(Resource::Nofile, Rlimit { current: held.maximum, maximum: held.maximum }).unwrap_or_default();
}

/// One server a home: the lock goes with the process, however that ends.
fn lock(home: &Home) -> Result<File, ServeError> {
    let path: PathBuf = home.root().join("serving.lock");
    let file = |act, source| ServeError::File { act, path: path.clone(), source };
    let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path).map_err(|e| file("open", e))?;
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(lock),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(ServeError::Taken { path }),
        Err(errno) => Err(file("lock", errno.into())),
    }
}

/// The first tenant with a key of each kind, where there is no tenant.
fn first_keys(clients: &mut Clients) -> Result<Vec<NewKey>, ServeError> {
    let (tenant, agent) = (TenantName::first(), AgentId::local());
    if !clients.add_tenant(tenant.as_str(), &[agent.to_string()])? {
        return Ok(Vec::new());
    }
    let kinds = [KeyKind::Api, KeyKind::E2b];
    let keys = kinds.into_iter().map(|kind| clients.add_key(tenant.as_str(), kind)).collect::<Result<Vec<_>, _>>()?;
    Ok(keys.into_iter().flatten().collect())
}
