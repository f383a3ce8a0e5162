//! One exchange: told before it happens, counted while it does, and told again when it is over, however that comes.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use ringfence_policy::HostName;
use tokio::sync::OwnedSemaphorePermit;

use crate::shared::Shared;
use crate::witness::{Closed, EgressEvent, Opened, RequestLine, Seen, Unrecorded, Way, legible};

/// What is about to happen.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    pub(crate) way: Way,
    pub(crate) rule: String,
    pub(crate) host: &'a HostName,
    pub(crate) port: u16,
    pub(crate) address: SocketAddr,
    pub(crate) seen: Seen,
    pub(crate) request: Option<RequestLine>,
    pub(crate) credential: Option<String>,
}

/// An exchange that is on record. Dropping it puts its end there.
#[derive(Debug)]
pub(crate) struct Exchange {
    shared: Arc<Shared>,
    number: u64,
    started_at: Instant,
    up: AtomicU64,
    down: AtomicU64,
    address: SocketAddr,
    outcome: Mutex<Outcome>,
}

#[derive(Debug, Default)]
struct Outcome {
    status: Option<u16>,
    cause: Option<String>,
    address: Option<SocketAddr>,
}

/// The run has no bytes left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("limit `network-bytes` is reached")]
pub(crate) struct OutOfBytes;

impl From<OutOfBytes> for std::io::Error {
    fn from(error: OutOfBytes) -> Self {
        Self::other(error)
    }
}

impl Exchange {
    pub(crate) fn open(shared: &Arc<Shared>, plan: Plan<'_>) -> Result<Arc<Self>, Unrecorded> {
        let number = shared.next_exchange();
        shared.tell(EgressEvent::Opened(Opened {
            exchange: number,
            way: plan.way,
            rule: plan.rule,
            host: plan.host.to_string(),
            port: plan.port,
            address: plan.address,
            seen: plan.seen,
            request: plan.request,
            credential: plan.credential,
        }))?;
        Ok(Arc::new(Self {
            shared: shared.clone(),
            number,
            started_at: Instant::now(),
            up: AtomicU64::new(0),
            down: AtomicU64::new(0),
            address: plan.address,
            outcome: Mutex::default(),
        }))
    }

    /// Counts bytes that are about to go to the host.
    pub(crate) fn up(&self, bytes: usize) -> Result<(), OutOfBytes> {
        self.count(&self.up, bytes)
    }

    /// Counts bytes that are about to come from the host.
    pub(crate) fn down(&self, bytes: usize) -> Result<(), OutOfBytes> {
        self.count(&self.down, bytes)
    }

    fn count(&self, counter: &AtomicU64, bytes: usize) -> Result<(), OutOfBytes> {
        match self.shared.budget.take_bytes(bytes as u64) {
            true => {
                counter.fetch_add(bytes as u64, Ordering::Relaxed);
                Ok(())
            }
            false => {
                self.ended_by(&OutOfBytes.to_string());
                Err(OutOfBytes)
            }
        }
    }

    pub(crate) fn replied(&self, status: u16) {
        self.outcome().status = Some(status);
    }

    /// Notes which of the addresses answered.
    pub(crate) fn reached(&self, address: SocketAddr) {
        self.outcome().address = Some(address).filter(|address| *address != self.address);
    }

    fn outcome(&self) -> MutexGuard<'_, Outcome> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes why it ends; the first cause is the one that counts.
    pub(crate) fn ended_by(&self, cause: &str) {
        self.outcome().cause.get_or_insert_with(|| legible(cause));
    }

    /// Room for a pipe of the kernel's.
    pub(crate) fn pipe(&self) -> Option<OwnedSemaphorePermit> {
        self.shared.pipe()
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let Outcome { status, cause, address } = std::mem::take(self.outcome.get_mut().unwrap_or_else(PoisonError::into_inner));
        let closed = Closed {
            exchange: self.number,
            up_bytes: *self.up.get_mut(),
            down_bytes: *self.down.get_mut(),
            ms: u64::try_from(self.started_at.elapsed().as_millis()).unwrap_or(u64::MAX),
            address,
            status,
            cause,
        };
        // What cannot be written down stops everything that would follow; the broker keeps that in mind.
        self.shared.tell(EgressEvent::Closed(closed)).unwrap_or_default();
    }
}
