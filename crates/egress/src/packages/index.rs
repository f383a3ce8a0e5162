//! The index that the clients inside ask: which path is which package's, who answers for it, and what is kept of what upstreams say.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{Method, Request, header};
use http_body_util::Either;
use hyper::body::Body as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use reqwest::Url;
use ringfence_policy::{Ecosystem, PackageName, Packages};
use time::OffsetDateTime;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use super::answer::{Answer, Denied};
use super::cache::Cache;
use super::client::{Client, FetchError, Page};
use super::limits::IndexLimits;
use super::pins::Pins;
use super::rules::{Refusal, Rule, Rules};
use super::upstreams::{UpstreamError, Upstreams};
use super::witness::PackageWitness;
use crate::budget::Budget;

/// How long a client may take to say what it wants.
const HEADERS: Duration = Duration::from_secs(60);

/// What an index is made of.
pub struct IndexSetup {
    /// What the grant says of packages.
    pub packages: Packages,
    /// What the project's lock files pin.
    pub pins: Pins,
    /// The operator's own indexes.
    pub upstreams: Upstreams,
    /// Where files are kept between runs.
    pub cache: PathBuf,
    /// Where the index is heard inside, such as `http://127.0.0.1:3129`.
    pub base_url: String,
    /// How long upstreams are waited for, and how much of them is taken.
    pub limits: IndexLimits,
    /// Who records.
    pub witness: Arc<dyn PackageWitness>,
    /// What time it is.
    pub clock: fn() -> SystemTime,
}

impl fmt::Debug for IndexSetup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexSetup").field("packages", &self.packages).field("cache", &self.cache).finish_non_exhaustive()
    }
}

/// Why there can be no index.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// The cache.
    #[error("folder `{}` for packages cannot be used", path.display())]
    Cache {
        /// The folder.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
}

/// The one index that a sandbox sees.
pub struct Index {
    pub(crate) packages: Packages,
    pub(crate) pins: Pins,
    pub(crate) cache: Cache,
    pub(crate) limits: IndexLimits,
    pub(crate) base_url: String,
    pub(crate) fetches: Semaphore,
    pub(crate) witness: Arc<dyn PackageWitness>,
    pub(crate) served: Mutex<BTreeSet<String>>,
    pub(crate) refused: Mutex<BTreeSet<String>>,
    upstreams: Upstreams,
    /// Made when first needed, in the order of `Ecosystem::ALL`: most runs install nothing, and reading certificates takes time.
    clients: [OnceLock<Option<Client>>; 3],
    connections: Semaphore,
    fetched_bytes: AtomicU64,
    questions: AtomicU64,
    has_made_room: AtomicBool,
    /// What one run may have of the network; an index that serves no run has none.
    budget: OnceLock<Arc<Budget>>,
    clock: fn() -> SystemTime,
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").field("packages", &self.packages).field("cache", &self.cache).finish_non_exhaustive()
    }
}

impl Index {
    /// Makes an index. Upstreams are asked only once somebody inside asks.
    pub fn new(setup: IndexSetup) -> Result<Self, IndexError> {
        let cache = Cache::open(&setup.cache).map_err(|source| IndexError::Cache { path: setup.cache.clone(), source })?;
        Ok(Self {
            upstreams: setup.upstreams,
            clients: Default::default(),
            cache,
            packages: setup.packages,
            pins: setup.pins,
            limits: setup.limits,
            base_url: setup.base_url.trim_end_matches('/').to_owned(),
            fetches: Semaphore::new(setup.limits.fetches),
            connections: Semaphore::new(setup.limits.connections),
            witness: setup.witness,
            fetched_bytes: AtomicU64::new(0),
            questions: AtomicU64::new(0),
            has_made_room: AtomicBool::new(false),
            budget: OnceLock::new(),
            served: Mutex::default(),
            refused: Mutex::default(),
            clock: setup.clock,
        })
    }

    /// From now on what comes through here counts as the run's.
    pub(crate) fn count_against(&self, budget: &Arc<Budget>) {
        self.budget.set(Arc::clone(budget)).unwrap_or_default(); // it serves one run
    }

    /// Answers the requests of one connection until it ends. What is wrong with the connection itself is the client's own affair.
    pub async fn serve(self: Arc<Self>, stream: TcpStream) {
        let Ok(_permit) = self.connections.acquire().await else { return };
        let index = Arc::clone(&self);
        let service = service_fn(move |request| {
            let index = Arc::clone(&index);
            async move { Ok::<_, Infallible>(index.counted(&request).await) }
        });
        let mut server = http1::Builder::new();
        server.timer(TokioTimer::new()).header_read_timeout(HEADERS).max_buf_size(32 << 10).max_headers(64).half_close(true);
        drop(server.serve_connection(TokioIo::new(stream), service).await);
    }

    /// A request and a page count like any other; a file counts where it is served.
    async fn counted(self: &Arc<Self>, request: &Request<Incoming>) -> Answer {
        if self.budget.get().is_some_and(|budget| !budget.take_request()) {
            return Denied::Limit("network-requests").answer();
        }
        let answer = self.answer(request).await;
        match answer.body() {
            Either::Left(page) => match self.take_bytes(page.size_hint().lower()) {
                Ok(()) => answer,
                Err(denied) => denied.answer(),
            },
            Either::Right(_) => answer,
        }
    }

    /// Takes bytes that are about to go inside.
    pub(crate) fn take_bytes(&self, bytes: u64) -> Result<(), Denied> {
        match self.budget.get().is_none_or(|budget| budget.take_bytes(bytes)) {
            true => Ok(()),
            false => Err(Denied::Limit("network-bytes")),
        }
    }

    async fn answer(self: &Arc<Self>, request: &Request<Incoming>) -> Answer {
        if request.method() != Method::GET {
            return Denied::Method.answer();
        }
        let header = |name| request.headers().get(name).and_then(|value: &http::HeaderValue| value.to_str().ok()).unwrap_or_default();
        let accept = header(header::ACCEPT);
        let parts: Vec<String> = request.uri().path().split('/').skip(1).map(decoded).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        match parts[..] {
            ["python", ref rest @ ..] => self.python(rest, accept, is_explained(header(header::USER_AGENT))).await,
            ["node", ref rest @ ..] => self.node(rest, accept).await,
            ["rust", ref rest @ ..] => self.rust(rest).await,
            _ => Denied::Absent("such path".to_owned()).answer(),
        }
    }

    pub(crate) fn now(&self) -> OffsetDateTime {
        (self.clock)().into()
    }

    /// The rules of one ecosystem at this moment.
    pub(crate) fn rules(&self, ecosystem: Ecosystem) -> Rules<'_> {
        Rules { ecosystem, packages: &self.packages, pins: &self.pins, now: self.now() }
    }

    /// Who asks upstream.
    pub(crate) fn client(&self, ecosystem: Ecosystem) -> Result<&Client, Denied> {
        let denied = |why: String| Denied::Upstream { ecosystem, why };
        let upstream = self.upstreams.of(ecosystem).map_err(|error| denied(told_inside(error)))?;
        let [python, node, rust] = &self.clients;
        let client = match ecosystem {
            Ecosystem::Python => python,
            Ecosystem::Node => node,
            Ecosystem::Rust => rust,
        };
        let client = client.get_or_init(|| Client::new(upstream.clone(), self.limits).ok());
        client.as_ref().ok_or_else(|| denied("the certificates that the operator's client names cannot be used".to_owned()))
    }

    /// What upstream says at this address: what it said lately, what it says now, or what it last said if it cannot be asked.
    pub(crate) async fn page(self: &Arc<Self>, ecosystem: Ecosystem, url: &Url, accept: &str) -> Result<Page, Denied> {
        let client = self.client(ecosystem)?;
        let secret = client.upstream.authorization_for(url).map_or("", |secret| secret.expose().as_str());
        let key = format!("{url}\n{accept}\n{secret}");
        let (index, kept_key) = (Arc::clone(self), key.clone());
        let kept = blocking(move || Ok(index.cache.page(&kept_key))).await?;
        let now_ms = milliseconds((self.clock)());
        let is_fresh = |at: u64| at <= now_ms && now_ms - at < milliseconds(UNIX_EPOCH + self.limits.fresh);
        let kept = match kept {
            Some((page, fetched_at)) if is_fresh(fetched_at) => return Ok(page),
            kept => kept.map(|(page, _)| page),
        };
        let _permit = self.fetches.acquire().await.map_err(|_| Denied::Storage)?;
        self.spend(&self.questions, 1, self.limits.questions, "this question")?;
        match client.page(url, accept).await {
            Ok(page) => {
                self.spend_bytes(page.body.len() as u64, "this answer")?;
                let index = Arc::clone(self);
                // A page that cannot be kept is asked for again; nothing else follows.
                blocking(move || {
                    drop(index.cache.keep_page(&key, &page, now_ms));
                    Ok(page)
                })
                .await
            }
            Err(FetchError::Absent) => Err(Denied::Absent("such package".to_owned())),
            Err(error) => kept.ok_or_else(|| Denied::Upstream { ecosystem, why: error.to_string() }),
        }
    }

    /// What is kept is counted once a run, and only by a run that adds to it: the folder may hold very many files.
    pub(crate) fn make_room_once(&self) -> Result<(), Denied> {
        match self.has_made_room.swap(true, Ordering::Relaxed) {
            true => Ok(()),
            false => self.cache.make_room(self.limits.cache_bytes).map_err(|_| Denied::Storage),
        }
    }

    /// Counts what was fetched against what one run may have.
    pub(crate) fn spend_bytes(&self, bytes: u64, what: &str) -> Result<(), Denied> {
        self.spend(&self.fetched_bytes, bytes, self.limits.run_bytes, what)
    }

    fn spend(&self, spent: &AtomicU64, more: u64, most: u64, what: &str) -> Result<(), Denied> {
        match spent.fetch_add(more, Ordering::Relaxed) + more <= most {
            true => Ok(()),
            false => Err(Refusal::new(what, "is more than one run may ask of an index", Rule::Bounds).into()),
        }
    }

    /// Decides on a name as it was asked for.
    pub(crate) async fn allowed_name(&self, ecosystem: Ecosystem, text: &str) -> Result<PackageName, Denied> {
        let name = PackageName::parse(ecosystem, text).map_err(|_| Denied::Absent("package of such a name".to_owned()))?;
        match self.rules(ecosystem).name(&name) {
            Ok(()) => Ok(name),
            Err(refusal) => {
                self.tell_left_out(ecosystem, &name, None, refusal.rule).await;
                Err(refusal.into())
            }
        }
    }
}

/// Where the operator's files are is no business of those inside.
fn told_inside(error: &UpstreamError) -> String {
    match error {
        UpstreamError::Unnamed { .. } | UpstreamError::Unusable { .. } => format!("{error}; {}", error.hint()),
        UpstreamError::Settings { client, .. } => format!("the settings of {client} on the host cannot be read"),
    }
}

/// Work that waits for a disk or computes for long has a thread of its own.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Denied> + Send + 'static) -> Result<T, Denied> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Denied::Storage)?
}

fn milliseconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).ok().and_then(|since| u64::try_from(since.as_millis()).ok()).unwrap_or_default()
}

fn decoded(part: &str) -> String {
    percent_encoding::percent_decode_str(part).decode_utf8_lossy().into_owned()
}

/// pip and uv show nothing of an answer about a package that is not 200, but all of a file's.
fn is_explained(user_agent: &str) -> bool {
    user_agent.starts_with("pip/") || user_agent.starts_with("uv/")
}
