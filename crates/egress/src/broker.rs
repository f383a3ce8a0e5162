//! Serves the sockets of one run until it is closed.

use std::collections::HashSet;
use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener, UdpSocket as StdSocket};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ringfence_policy::HostName;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::{AbortHandle, JoinHandle, JoinSet};

use crate::budget::Budget;
use crate::credential::Credential;
use crate::layout::{DoorRole, DoorSocket, Layout};
use crate::names::Names;
use crate::packages::Index;
use crate::resolver::Resolver;
use crate::rules::Rules;
use crate::tls::Interception;
use crate::witness::{EgressEvent, Refused, RequestLine, Unrecorded, Way, Witness, legible, printable};
use crate::{dns, proxy, tunnel};

/// Connections at once; more wait to be taken.
const CONNECTIONS: usize = 200;
/// Bytes that wait in a connection with a client, each way.
const WAITING: usize = 256 << 10;
/// Refusals that are told one by one.
const REFUSALS: u64 = 1000;
/// Pipes at once, of two descriptors each: with those of the connections they are fewer than the 1024 that a process has where nobody says more.
const PIPES: usize = 128;
/// After an accept that failed, most often for want of descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// What was granted, and who helps.
#[derive(Debug)]
pub struct Terms {
    /// The rules.
    pub rules: Rules,
    /// Credentials that are put in.
    pub credentials: Vec<Credential>,
    /// Bytes both ways.
    pub bytes: u64,
    /// Connections and requests.
    pub requests: u64,
    /// Who is told.
    pub witness: Arc<dyn Witness>,
    /// Who knows addresses.
    pub resolver: Arc<dyn Resolver>,
    /// How TLS is intercepted, where the rules need it.
    pub interception: Option<Interception>,
}

/// What every connection of a run shares.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) rules: Rules,
    pub(crate) credentials: Vec<Credential>,
    pub(crate) resolver: Arc<dyn Resolver>,
    pub(crate) interception: Option<Interception>,
    pub(crate) budget: Arc<Budget>,
    pub(crate) names: Names,
    witness: Arc<dyn Witness>,
    next: AtomicU64,
    refusals: AtomicU64,
    is_unrecorded: AtomicBool,
    told_names: Mutex<HashSet<String>>,
    /// Connections to hosts, which hold what is to be told of them.
    drivers: Mutex<JoinSet<()>>,
    pipes: Arc<Semaphore>,
}

impl Shared {
    pub(crate) fn next_exchange(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Once something could not be written down nothing is done any more.
    pub(crate) fn tell(&self, event: EgressEvent) -> Result<(), Unrecorded> {
        if self.is_unrecorded.load(Ordering::Relaxed) {
            return Err(Unrecorded("an earlier one could not be".to_owned()));
        }
        self.witness.tell(event).inspect_err(|_| self.is_unrecorded.store(true, Ordering::Relaxed))
    }

    /// Tells of a refusal. Many are counted only: whoever is refused can ask as often as they like.
    pub(crate) fn refuse(&self, way: Way, host: &str, port: Option<u16>, reason: &str, request: Option<RequestLine>) {
        if self.refusals.fetch_add(1, Ordering::Relaxed) < REFUSALS {
            let refused = Refused { way, host: printable(host), port, reason: legible(reason), request };
            self.tell(EgressEvent::Refused(refused)).unwrap_or_default(); // nothing is done either way
        }
    }

    /// The same for a name, once.
    pub(crate) fn refuse_name(&self, name: &str) {
        let mut told = self.told_names.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() < REFUSALS as usize && told.insert(name.to_owned()) {
            self.refuse(Way::Name, name, None, &format!("no rule names `{}`", printable(name)), None);
        }
    }

    /// Work of a connection that ends before the broker does.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let mut drivers = self.drivers.lock().unwrap_or_else(PoisonError::into_inner);
        while drivers.try_join_next().is_some() {}
        drivers.spawn(work)
    }

    /// Room for a pipe, as long as it is held.
    pub(crate) fn pipe(&self) -> Option<OwnedSemaphorePermit> {
        self.pipes.clone().try_acquire_owned().ok()
    }

    /// One connection or request more.
    pub(crate) fn take_request(&self) -> Result<(), String> {
        self.budget.take_request().then_some(()).ok_or_else(|| "limit `network-requests` is reached".to_owned())
    }

    /// Room for one that is counted later.
    pub(crate) fn has_request(&self) -> Result<(), String> {
        self.budget.has_request().then_some(()).ok_or_else(|| "limit `network-requests` is reached".to_owned())
    }

    /// The name that a local address stands for.
    pub(crate) fn name_of(&self, address: SocketAddr) -> Option<HostName> {
        match address {
            SocketAddr::V4(address) => self.names.name_of(*address.ip()),
            SocketAddr::V6(_) => None,
        }
    }
}

/// What a run did on the network, in sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Refusals beyond those that were told one by one.
    pub untold_refusals: u64,
    /// The limit of bytes was reached.
    pub is_out_of_bytes: bool,
    /// The limit of requests was reached.
    pub is_out_of_requests: bool,
    /// Something could not be written down: from then on nothing was done.
    pub is_unrecorded: bool,
}

/// The sockets of one run, served.
#[derive(Debug)]
pub struct Broker {
    shared: Arc<Shared>,
    closing: watch::Sender<bool>,
    servers: Vec<JoinHandle<()>>,
}

impl Broker {
    /// Begins to serve. `sockets` are those of the layout, in its order; package connections are handed to `index`.
    pub fn open(runtime: &Handle, layout: Layout, sockets: Vec<OwnedFd>, terms: Terms, index: Option<Arc<Index>>) -> io::Result<Self> {
        let _inside = runtime.enter();
        let shared = Arc::new(Shared {
            budget: Arc::new(Budget::new(terms.bytes, terms.requests)),
            rules: terms.rules,
            credentials: terms.credentials,
            resolver: terms.resolver,
            interception: terms.interception,
            names: layout.names,
            witness: terms.witness,
            next: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
            is_unrecorded: AtomicBool::new(false),
            told_names: Mutex::default(),
            drivers: Mutex::default(),
            pipes: Arc::new(Semaphore::new(PIPES)),
        });
        if let Some(index) = &index {
            index.count_against(&shared.budget);
        }
        let (closing, closed) = watch::channel(false);
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        let mut servers = Vec::new();
        for (DoorSocket { role, .. }, socket) in layout.sockets.into_iter().zip(sockets) {
            let (shared, closed, places) = (shared.clone(), closed.clone(), places.clone());
            servers.push(match (role, &index) {
                (DoorRole::Names, _) => runtime.spawn(until(closed, dns::answer(shared, datagrams(socket)?))),
                (DoorRole::Proxy, _) => {
                    runtime.spawn(accept(listener(socket)?, places, closed, move |stream| proxy::serve(shared.clone(), stream)))
                }
                (DoorRole::Direct, _) => {
                    runtime.spawn(accept(listener(socket)?, places, closed, move |stream| tunnel::serve_direct(shared.clone(), stream)))
                }
                (DoorRole::Index, Some(index)) => {
                    let index = index.clone();
                    runtime.spawn(accept(listener(socket)?, places, closed, move |stream| index.clone().serve(stream)))
                }
                (DoorRole::Index, None) => return Err(io::Error::other("there is no package index to serve")),
            });
        }
        Ok(Self { shared, closing, servers })
    }

    /// Ends every connection and waits until that is told.
    pub fn close(self, runtime: &Handle) -> Totals {
        self.closing.send(true).unwrap_or_default(); // no server is left to hear it
        for server in self.servers {
            runtime.block_on(server).unwrap_or_default(); // one that panicked has ended
        }
        let mut drivers = std::mem::take(&mut *self.shared.drivers.lock().unwrap_or_else(PoisonError::into_inner));
        runtime.block_on(drivers.shutdown());
        Totals {
            untold_refusals: self.shared.refusals.load(Ordering::Relaxed).saturating_sub(REFUSALS),
            is_out_of_bytes: self.shared.budget.is_out_of_bytes(),
            is_out_of_requests: self.shared.budget.is_out_of_requests(),
            is_unrecorded: self.shared.is_unrecorded.load(Ordering::Relaxed),
        }
    }
}

fn listener(socket: OwnedFd) -> io::Result<TcpListener> {
    let listener = StdListener::from(socket);
    // Those that are taken from it have the same. What waits in them is the host's memory, and left alone they grow to megabytes.
    rustix::net::sockopt::set_socket_send_buffer_size(&listener, WAITING)?;
    rustix::net::sockopt::set_socket_recv_buffer_size(&listener, WAITING)?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

fn datagrams(socket: OwnedFd) -> io::Result<UdpSocket> {
    let socket = StdSocket::from(socket);
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket)
}

async fn until(mut closed: watch::Receiver<bool>, work: impl Future<Output = ()>) {
    tokio::select! {
        () = work => {}
        _ = closed.wait_for(|is_closed| *is_closed) => {}
    }
}

/// Takes connections and serves each in a task of its own, which ends with this one.
async fn accept<F: Future<Output = ()> + Send + 'static>(
    listener: TcpListener,
    places: Arc<Semaphore>,
    closed: watch::Receiver<bool>,
    serve: impl Fn(TcpStream) -> F,
) {
    let mut connections = JoinSet::new();
    let taking = async {
        loop {
            let Ok(place) = places.clone().acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, _)) => {
                    stream.set_nodelay(true).unwrap_or_default(); // slower without, and nothing worse
                    let served = serve(stream);
                    connections.spawn(async move {
                        served.await;
                        drop(place);
                    });
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
            while connections.try_join_next().is_some() {}
        }
    };
    until(closed, taking).await;
    connections.shutdown().await;
}
