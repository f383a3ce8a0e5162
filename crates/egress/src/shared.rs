//! What every connection of a run shares: what was granted, what is left of it, and who is told.

use std::collections::HashSet;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ringfence_policy::HostName;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{AbortHandle, JoinSet};

use crate::budget::Budget;
use crate::credential::Credential;
use crate::names::Names;
use crate::resolver::Resolver;
use crate::rules::Rules;
use crate::tls::Interception;
use crate::witness::{EgressEvent, Refused, RequestLine, Unrecorded, Way, Witness, legible, printable};

/// Refusals that are told one by one.
const REFUSALS: u64 = 1000;
/// Pipes at once, of two descriptors each: with those of the connections they are fewer than the 1024 that a process has where nobody says more.
const PIPES: usize = 128;

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
    pub(crate) fn new(terms: Terms, names: Names) -> Self {
        Self {
            budget: Arc::new(Budget::new(terms.bytes, terms.requests)),
            rules: terms.rules,
            credentials: terms.credentials,
            resolver: terms.resolver,
            interception: terms.interception,
            names,
            witness: terms.witness,
            next: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
            is_unrecorded: AtomicBool::new(false),
            told_names: Mutex::default(),
            drivers: Mutex::default(),
            pipes: Arc::new(Semaphore::new(PIPES)),
        }
    }

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

    /// All of that work, to be ended.
    pub(crate) fn take_drivers(&self) -> JoinSet<()> {
        std::mem::take(&mut *self.drivers.lock().unwrap_or_else(PoisonError::into_inner))
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

    /// What was done, in sum.
    pub(crate) fn totals(&self) -> Totals {
        Totals {
            untold_refusals: self.refusals.load(Ordering::Relaxed).saturating_sub(REFUSALS),
            is_out_of_bytes: self.budget.is_out_of_bytes(),
            is_out_of_requests: self.budget.is_out_of_requests(),
            is_unrecorded: self.is_unrecorded.load(Ordering::Relaxed),
        }
    }
}
