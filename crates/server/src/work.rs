//! What is under way: runs, audits, promotions. Each can be asked to stop, and a server that stops waits for all of them.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ringfence_store::now;
use rustix::event::{EventfdFlags, eventfd};
use tokio::sync::watch;

use crate::problem::{Code, Problem};

/// The number of SIGTERM: how a run is ended that nobody waits for any more.
const TERMINATED: u64 = 15;

/// A run that is under way.
#[derive(Debug, Clone)]
pub(crate) struct RunUnderWay {
    pub(crate) tenant: String,
    pub(crate) agent: String,
    pub(crate) profile: String,
    pub(crate) started_at: String,
}

/// All that is under way.
#[derive(Debug)]
pub(crate) struct Work {
    most: usize,
    most_of_one_tenant: usize,
    known: Mutex<Known>,
    count: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct Known {
    is_stopping: bool,
    next: u64,
    stops: BTreeMap<u64, (String, Arc<OwnedFd>)>,
    runs: BTreeMap<String, (u64, RunUnderWay)>,
}

/// One thing under way, which is over when this is dropped.
#[derive(Debug)]
pub(crate) struct Task {
    work: Arc<Work>,
    number: u64,
    stop: Arc<OwnedFd>,
}

impl Work {
    pub(crate) fn new(most: usize, most_of_one_tenant: usize) -> Arc<Self> {
        Arc::new(Self { most, most_of_one_tenant, known: Mutex::default(), count: watch::Sender::new(0) })
    }

    /// Begins something for a tenant, unless there is too much under way or the server is about to stop.
    pub(crate) fn begin(self: &Arc<Self>, tenant: &str) -> Result<Task, Problem> {
        let mut known = self.known();
        if known.is_stopping {
            return Err(stopping());
        }
        let theirs = known.stops.values().filter(|(whose, _)| whose == tenant).count();
        if known.stops.len() >= self.most || theirs >= self.most_of_one_tenant {
            let detail = format!("{} runs, audits and promotions are under way, {theirs} of them this tenant's", known.stops.len());
            return Err(Problem::new(Code::Overloaded, detail, "ask again when some are over").retry_after(1));
        }
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|_| Problem::internal())?;
        let (number, stop) = (known.next, Arc::new(stop));
        known.next += 1;
        known.stops.insert(number, (tenant.to_owned(), stop.clone()));
        self.count.send_replace(known.stops.len());
        Ok(Task { work: self.clone(), number, stop })
    }

    /// A run that is under way.
    pub(crate) fn run(&self, run: &str) -> Option<RunUnderWay> {
        self.known().runs.get(run).map(|(_, under_way)| under_way.clone())
    }

    /// Every run that is under way, the newest first.
    pub(crate) fn runs(&self) -> Vec<(String, RunUnderWay)> {
        self.known().runs.iter().rev().map(|(run, (_, under_way))| (run.clone(), under_way.clone())).collect()
    }

    /// Asks a run to stop. False if it is not under way.
    pub(crate) fn stop_run(&self, run: &str) -> bool {
        let known = self.known();
        let stop = known.runs.get(run).and_then(|(number, _)| known.stops.get(number));
        stop.inspect(|(_, stop)| ask_to_stop(stop)).is_some()
    }

    /// Begins nothing more.
    pub(crate) fn close(&self) {
        self.known().is_stopping = true;
    }

    /// True once nothing more is begun.
    pub(crate) fn is_closed(&self) -> bool {
        self.known().is_stopping
    }

    /// Asks everything to stop.
    pub(crate) fn stop_all(&self) {
        self.known().stops.values().for_each(|(_, stop)| ask_to_stop(stop));
    }

    /// How much is under way.
    pub(crate) fn count(&self) -> usize {
        *self.count.borrow()
    }

    /// Waits until nothing is.
    pub(crate) async fn is_over(&self) {
        // The sender is in our own hands, so that the wait does not fail.
        drop(self.count.subscribe().wait_for(|count| *count == 0).await);
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Nothing is begun any more.
pub(crate) fn stopping() -> Problem {
    Problem::new(Code::Stopping, "the server is about to stop, and begins nothing more", "ask again once it is back").retry_after(5)
}

/// What is asked once is asked: the number stays there until it is read.
fn ask_to_stop(stop: &OwnedFd) {
    let is_asked =
        rustix::event::poll(&mut [rustix::event::PollFd::new(stop, rustix::event::PollFlags::IN)], Some(&NOW)).is_ok_and(|n| n > 0);
    if !is_asked {
        // An eventfd takes a number whenever it holds none.
        rustix::io::write(stop, &TERMINATED.to_ne_bytes()).unwrap_or_default();
    }
}

const NOW: rustix::event::Timespec = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };

impl Task {
    /// Becomes readable when it must stop.
    pub(crate) fn stop(&self) -> BorrowedFd<'_> {
        self.stop.as_fd()
    }

    /// Lets a run be found by its name while this goes on.
    pub(crate) fn is_run(&self, run: &str, tenant: &str, agent: &str, profile: &str) {
        let under_way = RunUnderWay { tenant: tenant.to_owned(), agent: agent.to_owned(), profile: profile.to_owned(), started_at: now() };
        self.work.known().runs.insert(run.to_owned(), (self.number, under_way));
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        let mut known = self.work.known();
        known.stops.remove(&self.number);
        known.runs.retain(|_, (number, _)| *number != self.number);
        let count = known.stops.len();
        drop(known);
        self.work.count.send_replace(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_tenant_leaves_room_for_others() {
        let work = Work::new(3, 2);
        let held = [work.begin("one").unwrap(), work.begin("one").unwrap()];
        assert_eq!(work.begin("one").unwrap_err().code(), Code::Overloaded);
        let other = work.begin("other").unwrap();
        assert_eq!(work.begin("third").unwrap_err().code(), Code::Overloaded);
        drop(held);
        let again = work.begin("one").unwrap();
        assert_eq!(work.count(), 2);
        drop(again);
        drop(other);
        work.close();
        assert_eq!((work.begin("one").unwrap_err().code(), work.count()), (Code::Stopping, 0));
    }
}
