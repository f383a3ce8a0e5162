//! The index that the clients inside ask: which path is which package's, who answers for it, and what is kept of what upstreams say.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{Method, Request, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use reqwest::Url;
use ringfence_policy::{Ecosystem, PackageName, PackageVersion, Packages};
use time::OffsetDateTime;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use super::answer::{Answer, Denied};
use super::cache::Cache;
use super::client::{Client, ClientError, FetchError, Page};
use super::limits::IndexLimits;
use super::pins::Pins;
use super::rules::{Refusal, Rule, Rules};
use super::upstreams::{UpstreamError, Upstreams};
use super::witness::{PackageDecision, PackageEvent, PackageWitness};

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
    /// The client for an upstream.
    #[error("the index of {ecosystem} packages cannot be asked: {why}")]
    Client {
        /// Whose packages.
        ecosystem: Ecosystem,
        /// Why not.
        why: String,
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
    clients: BTreeMap<Ecosystem, Result<Client, UpstreamError>>,
    connections: Semaphore,
    witness: Arc<dyn PackageWitness>,
    told: Mutex<BTreeSet<String>>,
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
        let client = |ecosystem| match setup.upstreams.of(ecosystem) {
            Err(error) => Ok((ecosystem, Err(error.clone()))),
            Ok(upstream) => match Client::new(upstream.clone(), setup.limits) {
                Ok(client) => Ok((ecosystem, Ok(client))),
                Err(error) => Err(IndexError::Client { ecosystem, why: client_error(&error) }),
            },
        };
        Ok(Self {
            clients: Ecosystem::ALL.into_iter().map(client).collect::<Result<_, _>>()?,
            cache,
            packages: setup.packages,
            pins: setup.pins,
            limits: setup.limits,
            base_url: setup.base_url.trim_end_matches('/').to_owned(),
            fetches: Semaphore::new(setup.limits.fetches),
            connections: Semaphore::new(setup.limits.connections),
            witness: setup.witness,
            told: Mutex::new(BTreeSet::new()),
            clock: setup.clock,
        })
    }

    /// Answers the requests of one connection until it ends. What is wrong with the connection itself is the client's own affair.
    pub async fn serve(self: Arc<Self>, stream: TcpStream) {
        let Ok(_permit) = self.connections.acquire().await else { return };
        let index = Arc::clone(&self);
        let service = service_fn(move |request| {
            let index = Arc::clone(&index);
            async move { Ok::<_, Infallible>(index.answer(&request).await) }
        });
        let mut server = http1::Builder::new();
        server.timer(TokioTimer::new()).header_read_timeout(HEADERS).max_buf_size(32 << 10).max_headers(64).half_close(true);
        drop(server.serve_connection(TokioIo::new(stream), service).await);
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
        match self.clients.get(&ecosystem) {
            Some(Ok(client)) => Ok(client),
            Some(Err(error)) => Err(Denied::Upstream { ecosystem, why: format!("{error}; {}", error.hint()) }),
            None => Err(Denied::Upstream { ecosystem, why: "nobody asks it".to_owned() }),
        }
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
        match client.page(url, accept).await {
            Ok(page) => {
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

    /// Records an event, each once. What cannot be recorded must not happen.
    pub(crate) async fn tell(&self, event: PackageEvent) -> Result<(), Denied> {
        let key = format!("{event:?}");
        {
            let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            if told.contains(&key) {
                return Ok(());
            }
            if told.len() >= self.limits.events {
                return Err(Refusal::new(event.file, "is one file too many for one run", Rule::Bounds).into());
            }
        }
        let witness = Arc::clone(&self.witness);
        blocking(move || witness.tell(event).map_err(|_| Denied::Unrecorded)).await?;
        self.told.lock().unwrap_or_else(PoisonError::into_inner).insert(key);
        Ok(())
    }

    /// Records a refusal. It stands whether or not it can be recorded.
    pub(crate) async fn tell_refused(&self, event: PackageEvent) {
        drop(self.tell(event).await);
    }

    /// Records a refusal of a name or a version.
    pub(crate) async fn tell_left_out(&self, ecosystem: Ecosystem, name: &PackageName, version: Option<&PackageVersion>, rule: Rule) {
        self.tell_refused(PackageEvent {
            ecosystem,
            name: name.to_string(),
            version: version.map(PackageVersion::to_string).unwrap_or_default(),
            file: String::new(),
            decision: PackageDecision::Refused { rule },
            sha256: None,
            source: None,
            is_from_cache: false,
            bytes: 0,
        })
        .await;
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

fn client_error(error: &ClientError) -> String {
    let cause = std::error::Error::source(error).map(|source| format!(": {source}")).unwrap_or_default();
    format!("{error}{cause}")
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
