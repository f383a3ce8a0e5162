//! Sandboxes that were made ahead for sessions, so that one stands at once: each has namespaces, a cgroup and user ids that nobody has used, and is had by
//! one session at most.
//!
//! What a session was once made by is a pattern. The pool keeps a few standing sandboxes of each of the last patterns; a session whose plan is the same,
//! but for user ids, takes one of them. Anything else about the session is as for any: its record, its decision, its limits.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use ringfence_evidence::{Digest, canonical};
use ringfence_isolation::{
    Creation, Doors, EmptySandbox, Host, Identity, Image, Plan, Sandbox, SandboxSpec, SetupError, Traces, compile, lease_identity,
};
use ringfence_policy::{Capabilities, UserName};
use ringfence_store::{Home, Journal, Mark, RunId, StoreError};

/// Patterns that are remembered.
const PATTERNS: usize = 4;

/// What a plan is compiled from, where nothing of the host's but its own image is seen and there are no ways out.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    pub(crate) capabilities: Capabilities,
    pub(crate) user: UserName,
    pub(crate) image: Image,
}

/// A sandbox that stands, and nobody has used.
#[derive(Debug)]
pub(crate) struct Parked {
    pub(crate) plan: Plan,
    /// Gone before its mark is.
    sandbox: Option<Sandbox<'static>>,
    mark: Option<Mark>,
    traces: Traces,
}

impl Parked {
    /// Hands the sandbox over to a run: from here on that run's mark says what may be left.
    pub(crate) fn hand_over(mut self, journal: &mut Journal) -> Result<Option<Sandbox<'static>>, StoreError> {
        journal.trace(&self.traces).map_err(|source| StoreError::Io { act: "write", path: journal.work().to_owned(), source })?;
        if let Some(mark) = self.mark.take() {
            mark.leave()?;
        }
        Ok(self.sandbox.take())
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        // Where something cannot be taken away its mark stays, and the next sweep tries again.
        let is_gone = self.sandbox.take().is_none_or(|sandbox| sandbox.finish().is_ok_and(|remains| remains.close().is_ok()));
        if let Some(mark) = self.mark.take().filter(|_| is_gone) {
            mark.leave().unwrap_or_default();
        }
    }
}

#[derive(Debug)]
struct Kind {
    key: Digest,
    pattern: Pattern,
    parked: Vec<Parked>,
}

#[derive(Debug)]
struct Shared {
    home: Home,
    host: Host,
    /// Sandboxes of each pattern.
    most: usize,
    /// The last one used is the last.
    kinds: Mutex<Vec<Kind>>,
    is_closed: AtomicBool,
}

/// The pool.
#[derive(Debug)]
pub(crate) struct Pool {
    shared: Arc<Shared>,
    /// The way to the thread that makes them, and the thread; none once the pool is closed.
    filling: Mutex<Option<(Sender<Digest>, JoinHandle<()>)>>,
}

impl Pool {
    /// A pool of at most `most` sandboxes of each pattern, filled by a thread of its own.
    pub(crate) fn of(home: Home, host: Host, most: usize) -> std::io::Result<Self> {
        let (wants, wanted) = channel();
        let shared = Arc::new(Shared { home, host, most, kinds: Mutex::default(), is_closed: AtomicBool::new(false) });
        let filling = shared.clone();
        let filling = std::thread::Builder::new().name("pool".into()).spawn(move || filling.fill(&wanted))?;
        Ok(Self { shared, filling: Mutex::new(Some((wants, filling))) })
    }

    /// Takes every sandbox away that nobody has, also the one that is being made; no more are made.
    pub(crate) fn close(&self) {
        self.shared.is_closed.store(true, Ordering::Release);
        let kinds = std::mem::take(&mut *self.shared.kinds());
        drop(kinds);
        let filling = self.filling.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((wants, thread)) = filling {
            drop(wants); // nobody wants anything any more: with that it ends
            thread.join().unwrap_or_default();
        }
    }

    /// A sandbox of this plan, if one is there. The next one is made in any case.
    pub(crate) fn take(&self, plan: &Plan, pattern: impl FnOnce() -> Pattern) -> Option<Parked> {
        let key = key(plan)?;
        let parked = self.shared.take(key, pattern);
        // Where the thread is gone there is no pool any more.
        if let Some((wants, _)) = &*self.filling.lock().unwrap_or_else(PoisonError::into_inner) {
            wants.send(key).unwrap_or_default();
        }
        parked
    }
}

/// What two plans have in common that differ in user ids alone.
fn key(plan: &Plan) -> Option<Digest> {
    let identity = match plan.identity {
        Identity::Range { .. } => Identity::Range { first: 0 },
        single @ Identity::Single { .. } => single,
    };
    let text = canonical(&Plan { identity, ..plan.clone() }).ok()?;
    Some(Digest::of(text.as_bytes()))
}

impl Shared {
    fn kinds(&self) -> MutexGuard<'_, Vec<Kind>> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, key: Digest, pattern: impl FnOnce() -> Pattern) -> Option<Parked> {
        if self.is_closed.load(Ordering::Acquire) {
            return None;
        }
        let mut kinds = self.kinds();
        let at = kinds.iter().position(|kind| kind.key == key);
        let mut kind = at.map_or_else(|| Kind { key, pattern: pattern(), parked: Vec::new() }, |at| kinds.remove(at));
        let is_alive = |parked: &Parked| parked.sandbox.as_ref().is_some_and(Sandbox::is_alive);
        let mut dead = Vec::new();
        let taken = loop {
            match kind.parked.pop() {
                Some(parked) if !is_alive(&parked) => dead.push(parked),
                taken => break taken,
            }
        };
        kinds.push(kind);
        let forgotten = (kinds.len() > PATTERNS).then(|| kinds.remove(0));
        drop(kinds);
        drop((dead, forgotten)); // taking sandboxes away takes a moment
        taken
    }

    /// Makes what is missing, until nobody can want anything any more.
    fn fill(&self, wanted: &Receiver<Digest>) {
        while let Ok(key) = wanted.recv() {
            while let Some(pattern) = self.missing(key) {
                // What cannot be made ahead is made when it is needed, and says then why it cannot.
                let Ok(parked) = self.make(&pattern) else { break };
                let mut kinds = self.kinds();
                if let Some(kind) = kinds.iter_mut().find(|kind| kind.key == key) {
                    kind.parked.push(parked);
                }
            }
        }
        self.kinds().clear();
    }

    fn missing(&self, key: Digest) -> Option<Pattern> {
        self.kinds().iter().find(|kind| kind.key == key && kind.parked.len() < self.most).map(|kind| kind.pattern.clone())
    }

    fn make(&self, pattern: &Pattern) -> Result<Parked, SetupError> {
        let failed = |step: &str, cause: String| SetupError { step: step.into(), cause, hint: None, is_out_of_time: false, left: None };
        let name = RunId::new().map_err(|error| failed("name the sandbox", error.to_string()))?;
        let lease = lease_identity().map_err(|error| failed("lease user ids", error.to_string()))?;
        let plan = compile(&SandboxSpec {
            capabilities: &pattern.capabilities,
            cgroups: &self.host.cgroups,
            identity: lease.identity,
            user: &pattern.user,
            image: &pattern.image,
            inputs: None,
            input_folders: Vec::new(),
            project: None,
            has_writable_union: self.host.has_writable_union(),
            disk: None,
            doors: &Doors::default(),
        });
        let mut traces = Traces { cgroups: self.host.cgroups.folders(name.as_str()), ..Traces::default() };
        let mark = Mark::place(&self.home, &name, &traces).map_err(|error| failed("mark the sandbox", error.to_string()))?;
        // From here on it is taken away whole, and its mark last.
        let mut parked = Parked { plan, sandbox: None, mark: Some(mark), traces: Traces::default() };
        let empty = EmptySandbox::begin(name.as_str(), &self.host.cgroups, &parked.plan.group_limits, lease)?;
        let limits = &pattern.capabilities.limits;
        let creation = Creation { plan: &parked.plan, limits, memory_grade: self.host.memory_grade(), cancel: None };
        let mark = parked.mark.as_ref();
        let rising = empty.build(creation, &mut |pid, cgroups| {
            traces = Traces { name: Some(name.to_string()), ..Traces::of(pid, cgroups) };
            mark.map_or(Ok(()), |mark| mark.trace(&traces))
        })?;
        let sandbox = rising.stand()?;
        (parked.sandbox, parked.traces) = (Some(sandbox), traces);
        Ok(parked)
    }
}
