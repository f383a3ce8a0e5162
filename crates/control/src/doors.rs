//! The ways out of one run: decided before its sandbox is made, served while it stands, closed when it is gone.
//!
//! A run without destinations and packages has none: no socket, no thread, no variable.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ringfence_egress::{Broker, Credential, CredentialValue, DoorRole, Interception, Layout, Rules, SystemResolver, Terms, Totals};
use ringfence_isolation::{Door, Doors, Transport};
use ringfence_policy::{Capabilities, CredentialBinding, Destination, Layer, LimitKey, Refusal, Set};
use ringfence_store::Credentials;
use tokio::runtime::{Builder, Runtime};

use crate::packages::{LockFile, PackagesAhead};
use crate::recording::Recording;
use crate::request::RunRequest;

/// Threads that serve the ways out of one run: more of them wake each other more than they help.
const THREADS: usize = 1;
/// Threads that wait for the host's resolver or a disk: a name server that never answers holds one for each name.
const WAITERS: usize = 64;
/// How long the last of them may take to end: one can hang in the host's resolver.
const LAST: Duration = Duration::from_secs(2);
/// Where programs inside find whom to trust.
const BUNDLE: &str = "/etc/ssl/certs/ca-certificates.crt";
/// Variables by which tools are told of it.
const BUNDLE_VARIABLES: &[&str] = &[
    "SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "PIP_CERT",
    "NODE_EXTRA_CA_CERTS",
    "GIT_SSL_CAINFO",
    "CARGO_HTTP_CAINFO",
    "AWS_CA_BUNDLE",
];

/// The ways out, decided.
#[derive(Debug)]
pub(crate) struct DoorsAhead {
    layout: Layout,
    rules: Rules,
    credentials: Vec<Credential>,
    interception: Option<Interception>,
    bytes: u64,
    requests: u64,
    packages: Option<PackagesAhead>,
}

/// What serving them needs beside what was granted.
#[derive(Debug)]
pub(crate) struct Helpers<'a> {
    /// Who writes down.
    pub(crate) recording: &'a Arc<Recording>,
    /// How the operator's own package clients are set.
    pub(crate) environment: &'a BTreeMap<String, String>,
    /// Where files of packages are kept between runs.
    pub(crate) cache: PathBuf,
}

/// Why they cannot be had.
#[derive(Debug)]
pub(crate) enum NoDoors {
    Refused(Refusal),
    Failed(&'static str, io::Error),
}

impl From<Refusal> for NoDoors {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl DoorsAhead {
    /// The ways out that were granted; `None` if there are none.
    pub(crate) fn of(granted: &Capabilities, stored: &Credentials, request: &RunRequest) -> Result<Option<Self>, NoDoors> {
        let destinations = listed(&granted.network)?;
        let packages = PackagesAhead::of(&granted.packages, request);
        if destinations.is_empty() && packages.is_none() {
            return Ok(None);
        }
        let layout = Layout::of(&destinations, packages.is_some());
        let rules = Rules { destinations, private: granted.private.clone() };
        let credentials = bound(&granted.credentials, stored)?;
        let interception = rules.needs_interception(&credentials).then(Interception::new).transpose();
        let limit = |key| granted.limits.get(key).unwrap_or(u64::MAX);
        Ok(Some(Self {
            layout,
            credentials,
            interception: interception.map_err(|error| NoDoors::Failed("make the run's certificate authority", error))?,
            rules,
            bytes: limit(LimitKey::NetworkBytes),
            requests: limit(LimitKey::NetworkRequests),
            packages,
        }))
    }

    /// What the sandbox is made with.
    pub(crate) fn inside(&self) -> io::Result<Doors> {
        let transport = |role| if role == DoorRole::Names { Transport::Datagram } else { Transport::Stream };
        let door =
            |socket: &ringfence_egress::DoorSocket| Door { transport: transport(socket.role), address: socket.address, port: socket.port };
        let mut doors = Doors {
            addresses: self.layout.addresses.clone(),
            doors: self.layout.sockets.iter().map(door).collect(),
            files: self.layout.files.clone(),
            environment: self.layout.environment.clone(),
        };
        if let Some(packages) = &self.packages {
            let settings = packages.settings();
            doors.files.extend(settings.files);
            doors.environment.extend(settings.environment);
        }
        if let Some(interception) = &self.interception {
            doors.files.push((BUNDLE.to_owned(), bundle(interception)?));
            doors.environment.extend(BUNDLE_VARIABLES.iter().map(|name| ((*name).to_owned(), BUNDLE.to_owned())));
        }
        Ok(doors)
    }

    /// The lock files by which packages are pinned.
    pub(crate) fn locks(&self) -> impl Iterator<Item = &LockFile> {
        self.packages.iter().flat_map(|packages| &packages.locks)
    }

    /// What the operator should know of them before anything starts.
    pub(crate) fn warnings(&self, environment: &BTreeMap<String, String>) -> Vec<String> {
        self.packages.as_ref().map(|packages| packages.warnings(environment)).unwrap_or_default()
    }

    /// Variables with the placeholders of credentials: a new one for each run.
    pub(crate) fn placeholders(&self) -> impl Iterator<Item = (String, String)> {
        let variable = |credential: &Credential| (credential.binding.variable.as_str().to_owned(), credential.placeholder.clone());
        self.credentials.iter().map(variable)
    }

    /// Begins to serve the sockets that the sandbox handed out.
    pub(crate) fn open(self, sockets: Vec<OwnedFd>, helpers: &Helpers<'_>) -> io::Result<OpenDoors> {
        let recording = helpers.recording;
        let index = self.packages.map(|packages| packages.index(helpers.environment, helpers.cache.clone(), recording.clone()));
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(THREADS).max_blocking_threads(WAITERS).thread_name("egress").enable_io().enable_time();
        let runtime = builder.build()?;
        let terms = Terms {
            rules: self.rules,
            credentials: self.credentials,
            bytes: self.bytes,
            requests: self.requests,
            witness: recording.clone(),
            resolver: Arc::new(SystemResolver),
            interception: self.interception,
        };
        let broker = Broker::open(runtime.handle(), self.layout, sockets, terms, index.transpose()?)?;
        Ok(OpenDoors { runtime, broker })
    }
}

/// The ways out, served.
#[derive(Debug)]
pub(crate) struct OpenDoors {
    runtime: Runtime,
    broker: Broker,
}

impl OpenDoors {
    /// Ends every connection; what is on its way then is told of as ended.
    pub(crate) fn close(self) -> Totals {
        let totals = self.broker.close(self.runtime.handle());
        self.runtime.shutdown_timeout(LAST);
        totals
    }
}

/// Everything is no list: somebody has to name where a run may go.
fn listed(network: &Set<Destination>) -> Result<Vec<Destination>, Refusal> {
    match network {
        Set::Only(listed) => Ok(listed.iter().cloned().collect()),
        Set::All => Err(Refusal {
            rule: "the network is not bounded".into(),
            layer: Layer::Profile,
            hint: "list destinations under [network] in the profile".into(),
        }),
    }
}

fn bound(bindings: &Set<CredentialBinding>, stored: &Credentials) -> Result<Vec<Credential>, NoDoors> {
    match bindings {
        Set::All => Ok(Vec::new()),
        Set::Only(listed) => listed.iter().map(|binding| credential(binding, stored)).collect(),
    }
}

fn credential(binding: &CredentialBinding, stored: &Credentials) -> Result<Credential, NoDoors> {
    let refuse = |rule: String, hint: String| NoDoors::Refused(Refusal { rule, layer: Layer::Host, hint });
    let name = binding.name.as_str();
    keep_out_of_dumps().map_err(|error| NoDoors::Failed("keep credentials out of core files", error))?;
    let value = stored.get(name).map_err(|error| refuse(error.to_string(), error.hint()))?;
    let missing = || refuse(format!("credential `{name}` is not stored"), format!("set it: ringfence credential set {name}"));
    let value = CredentialValue::new(value.ok_or_else(missing)?);
    let value = value.map_err(|error| refuse(format!("credential `{name}`: {error}"), format!("ringfence credential set {name}")))?;
    let placeholder = placeholder().map_err(|error| NoDoors::Failed("make a placeholder", error))?;
    Ok(Credential { binding: binding.clone(), placeholder, value })
}

/// From here on this process holds values: no core file of it is written, and no process of the same user looks into it.
fn keep_out_of_dumps() -> io::Result<()> {
    Ok(rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?)
}

fn placeholder() -> io::Result<String> {
    let mut bytes = [0u8; 16];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(format!("ringfence-placeholder-{}", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()))
}

/// What the host trusts, and the run's own authority.
fn bundle(interception: &Interception) -> io::Result<String> {
    let hosts = match std::fs::read_to_string(BUNDLE) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        read => read?,
    };
    Ok(format!("{hosts}{}", interception.certificate()))
}
