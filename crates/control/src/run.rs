//! The straight line of a run: recorded, decided, performed, sealed.

use std::collections::{BTreeMap, BTreeSet};

use ringfence_evidence::{PublicKey, SigningKey};
use std::path::Path;

use ringfence_isolation::{Cgroups, DiskPlace, Doors, Host, Plan, Remains, SandboxSpec, Traces, clear_disk, compile, lease_identity};
use ringfence_policy::{AgentId, Capabilities, Execution, Grant, Layer, ProfileName, Refusal, Set, Storage, Tier, resolve};
use ringfence_store::{Artifacts, Credentials, Home, Journal, KeySources, RunId, StateQuota, States, load_or_make_key};

use crate::doors::{DoorsAhead, NoDoors};
use crate::error::RunError;
use crate::images::{self, NoImage};
use crate::inside::Inside;
use crate::pool::Pool;
use crate::registry::{self, Agent};
use crate::report::RunReport;
use crate::request::{Attachments, RunRequest, Secret};
use crate::settings::Settings;
use crate::{ending, perform, record, sweep};

/// Starts runs in one home.
#[derive(Debug)]
pub struct Runner {
    pub(crate) home: Home,
    pub(crate) settings: Settings,
    pub(crate) host: Host,
    pub(crate) key: SigningKey,
    pub(crate) artifacts: Artifacts,
    pub(crate) surroundings: Surroundings,
    /// Sandboxes made ahead, where there are any.
    pub(crate) pool: Option<Pool>,
    warnings: Vec<String>,
}

/// What the operator's environment says.
#[derive(Clone, Default)]
pub struct Surroundings {
    /// Where the key of stored credentials comes from.
    pub key_sources: KeySources,
    /// Variables, by which the operator's own package clients are set.
    pub environment: BTreeMap<String, String>,
}

impl Surroundings {
    pub(crate) fn credentials(&self, home: &Home) -> Credentials {
        Credentials::of(home, self.key_sources.clone())
    }
}

/// Values of variables are left out: any of them may be a secret.
impl std::fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Surroundings").field("key_sources", &self.key_sources).finish_non_exhaustive()
    }
}

/// What a run would be: for `--explain`.
#[derive(Debug)]
pub struct Explained {
    /// What would be granted.
    pub grant: Grant,
    /// The image, with its digest.
    pub image: String,
    /// How the sandbox would be made.
    pub plan: Plan,
    /// What the host gives.
    pub host: Host,
    /// Names in `/`: the image's, and those of files that are laid over it.
    pub top: BTreeSet<String>,
}

/// A run that is on record and has not been decided yet.
#[derive(Debug)]
pub struct Recorded {
    request: RunRequest,
    agent: Agent,
    journal: Journal,
}

impl Recorded {
    /// The run.
    pub fn run(&self) -> &RunId {
        self.journal.run()
    }

    /// The agent that it belongs to.
    pub fn agent(&self) -> &AgentId {
        &self.agent.id
    }
}

impl Runner {
    /// Opens the home for running: what crashed runs left is taken away first.
    pub fn open(home: Home, settings: Settings) -> Result<Self, RunError> {
        let key = load_or_make_key(&home)?;
        let warnings = sweep::sweep(&home, &key)?;
        let artifacts = Artifacts::of(&home);
        Ok(Self { host: Host::look(), artifacts, settings, key, home, surroundings: Surroundings::default(), pool: None, warnings })
    }

    /// The same with what the operator's environment says.
    #[must_use]
    pub fn within(self, surroundings: Surroundings) -> Self {
        Self { surroundings, ..self }
    }

    /// The same with sandboxes made ahead for sessions: at most so many of each of the plans that were used last.
    ///
    /// # Errors
    /// There is no thread for it.
    pub fn with_pool(self, most: usize) -> std::io::Result<Self> {
        let pool = Pool::of(self.home.clone(), self.host.clone(), most)?;
        Ok(Self { pool: (most > 0).then_some(pool), ..self })
    }

    /// Takes away what was made ahead; no more is.
    pub fn close_pool(&self) {
        if let Some(pool) = &self.pool {
            pool.close();
        }
    }

    /// The home.
    pub fn home(&self) -> &Home {
        &self.home
    }

    /// The operator's settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Files of earlier runs that outlive them, as many as a tenant may keep.
    pub fn states(&self) -> States {
        let most = self.settings.state;
        States::of(&self.home).bounded(StateQuota { count: most.count, bytes: most.bytes })
    }

    /// What evidence that is made here is verified with.
    pub fn public_key(&self) -> PublicKey {
        self.key.public()
    }

    /// What a person should look at: found while sweeping.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Runs one command from request to sealed evidence. Refused and failed runs leave a record too.
    pub fn run(&self, request: &RunRequest, attachments: Attachments<'_>) -> Result<RunReport, RunError> {
        self.run_inside(request, attachments, &Inside::Command)
    }

    /// The first step of a run alone: it is on record and has a name. Whoever drops it leaves it to the next sweep.
    pub fn record(&self, request: &RunRequest) -> Result<Recorded, RunError> {
        let request = self.with_stored_secrets(request);
        let agent = registry::active(&self.home, &request.agent, &request.profile)?;
        let run = RunId::new().map_err(RunError::Random)?;
        let mut journal = Journal::create(&self.home, &run, &traces_before(&self.host.cgroups, &run))?;
        record::requested(&mut journal, &request, &agent, &self.settings)?;
        Ok(Recorded { request, agent, journal })
    }

    /// The other steps of a run that is on record, to its sealed evidence.
    pub fn go_on_with(&self, recorded: Recorded, attachments: Attachments<'_>) -> Result<RunReport, RunError> {
        self.go_on_inside(recorded, attachments, &Inside::Command)
    }

    /// All steps, for what may not be a command of the request's.
    pub(crate) fn run_inside(
        &self,
        request: &RunRequest,
        attachments: Attachments<'_>,
        inside: &Inside<'_>,
    ) -> Result<RunReport, RunError> {
        self.go_on_inside(self.record(request)?, attachments, inside)
    }

    fn go_on_inside(&self, recorded: Recorded, attachments: Attachments<'_>, inside: &Inside<'_>) -> Result<RunReport, RunError> {
        let Recorded { request, agent, mut journal } = recorded;
        let (request, run) = (&request, journal.run().clone());
        let mut report = RunReport::begin(run.as_str(), agent.id.as_str(), &request.profile.profile.name.to_string());
        let (end, remains) = match self.decide(request, &agent) {
            Ok(grant) => perform::perform(self, &grant, request, inside, attachments, &mut journal, &mut report)?,
            Err(refusal) => (record::refused(&mut journal, &refusal)?, None),
        };
        let work = journal.work().to_owned();
        let sealed = journal.seal(&end, &self.key, crate::VERSION)?;
        (report.end, report.evidence) = (end, sealed.statement.to_string());
        // The mark goes last: while it is there a sweep knows what may be left.
        let closed = remains.map_or(Ok(()), Remains::close).map_err(|error| error.to_string());
        match closed.and_then(|()| clear_disk(&work).map_err(|error| error.to_string())) {
            Ok(()) if report.warning.is_none() => sealed.leave()?,
            Ok(()) => {}
            Err(error) => report.warning = Some(format!("run {run} has ended, but what it left cannot be removed yet: {error}")),
        }
        Ok(report)
    }

    /// A stored credential is a known secret, should somebody have written it into an argument. One that does not read is told of later.
    fn with_stored_secrets(&self, request: &RunRequest) -> RunRequest {
        let mut request = request.clone();
        if let Set::Only(bindings) = &request.profile.profile.bound.credentials {
            let stored = self.surroundings.credentials(&self.home);
            let values = bindings.iter().filter_map(|binding| stored.get(binding.name.as_str()).ok().flatten());
            request.known_secrets.extend(values.map(Secret::new));
        }
        request
    }

    /// Every stored credential that reads: none of them leaves in a promotion.
    pub(crate) fn stored_credentials(&self) -> Vec<Secret> {
        let stored = self.surroundings.credentials(&self.home);
        let rows = stored.list().unwrap_or_default();
        rows.iter().filter_map(|row| stored.get(&row.name).ok().flatten()).map(Secret::new).collect()
    }

    /// Policy first, then what this version and this host can do.
    fn decide(&self, request: &RunRequest, agent: &Agent) -> Result<Grant, Refusal> {
        check_version(&request.profile.profile.name, &request.profile.profile.bound)?;
        check_state(request)?;
        let grant = resolve(&self.settings.ceiling, &request.profile.profile, &agent.bound, &record::ask_of(request))?;
        check_version(&request.profile.profile.name, &grant.capabilities)?;
        check_host(&self.host, &grant)?;
        images::check(&self.home, &grant.capabilities)?;
        check_disk(&self.host, &self.home.work(), &grant)?;
        Ok(grant)
    }

    /// Where a run's storage is kept, if it is on disk.
    pub(crate) fn disk_place(&self, grant: &Grant, work: &Path) -> Option<DiskPlace> {
        match grant.capabilities.storage {
            Storage::Memory => None,
            Storage::Disk => Some(DiskPlace { folder: work.to_owned(), form: self.host.disk_form() }),
        }
    }

    /// What a run would be allowed, and how it would be made. Nothing runs and nothing is recorded.
    pub fn explain(&self, request: &RunRequest) -> Result<Result<Explained, Refusal>, RunError> {
        let agent = registry::active(&self.home, &request.agent, &request.profile)?;
        let grant = match self.decide(request, &agent) {
            Ok(grant) => grant,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let lease = lease_identity().map_err(|source| RunError::File { act: "lease ids", path: "/run/ringfence/ids".into(), source })?;
        let doors = match DoorsAhead::of(&grant.capabilities, &self.surroundings.credentials(&self.home), request) {
            Err(NoDoors::Refused(refusal)) => return Ok(Err(refusal)),
            Err(NoDoors::Failed(act, source)) => return Err(RunError::File { act, path: self.home.root().to_owned(), source }),
            Ok(ahead) => ahead.map_or_else(|| Ok(Doors::default()), |ahead| ahead.inside()),
        };
        let doors = doors.map_err(|source| RunError::File { act: "read", path: "/etc/ssl/certs".into(), source })?;
        let shown = match images::find(&self.home, &grant.capabilities) {
            Ok(shown) => shown,
            Err(NoImage::Refused(refusal)) => return Ok(Err(refusal)),
            Err(NoImage::Failed(source)) => return Err(RunError::File { act: "prepare the image", path: self.home.images(), source }),
        };
        let image = &shown.image;
        let spec = SandboxSpec {
            capabilities: &grant.capabilities,
            cgroups: &self.host.cgroups,
            identity: lease.identity,
            user: &request.profile.profile.user,
            image,
            inputs: None,
            input_folders: Vec::new(),
            project: None,
            has_writable_union: self.host.has_writable_union(),
            disk: self.disk_place(&grant, &self.home.work().join("RUN")),
            doors: &doors,
        };
        let plan = compile(&spec);
        let mut top = image.top().map_err(|source| RunError::File { act: "list the image", path: image.root.clone(), source })?;
        top.extend(doors.files.iter().filter_map(|(path, _)| path.split('/').nth(1)).map(str::to_owned));
        Ok(Ok(Explained { image: shown.in_words(), grant, plan, host: self.host.clone(), top }))
    }
}

/// The cgroups are on record before they are made.
fn traces_before(cgroups: &Cgroups, run: &RunId) -> Traces {
    Traces { cgroups: cgroups.folders(run.as_str()), ..Traces::default() }
}

/// One run follows one state.
fn check_state(request: &RunRequest) -> Result<(), Refusal> {
    match (&request.state, &request.from) {
        (Some(name), Some(_)) => Err(Refusal {
            rule: format!("a run that goes on with an earlier session cannot begin with state `{name}` as well"),
            layer: Layer::Request,
            hint: "name one of them".into(),
        }),
        _ => Ok(()),
    }
}

/// What policy allows but this version cannot do is refused, never weakened.
fn check_version(profile: &ProfileName, capabilities: &Capabilities) -> Result<(), Refusal> {
    if capabilities.execution == Execution::None {
        return Err(Refusal {
            rule: format!("profile `{profile}` has no execution surface: there is nothing to run a command in"),
            layer: Layer::Profile,
            hint: "choose a profile whose execution is `commands`".into(),
        });
    }
    match missing_in_this_version(capabilities) {
        Some(what) => {
            Err(ending::host_refusal(format!("needs {what}, not available in this version"), "choose a profile without it".into()))
        }
        None => Ok(()),
    }
}

/// What of some capabilities this version does not have.
pub fn missing_in_this_version(capabilities: &Capabilities) -> Option<String> {
    if capabilities.tier != Tier::Process {
        Some(format!("tier `{}`", capabilities.tier))
    } else if !capabilities.tools.is_none() {
        Some(format!("governed tools ({})", capabilities.tools))
    } else {
        None
    }
}

/// A limit below the grade that the profile accepts is no limit.
fn check_host(host: &Host, grant: &Grant) -> Result<(), Refusal> {
    host.check().map_err(|e| ending::host_refusal(e.missing, e.hint))?;
    let caps = &grant.capabilities;
    let hint = match &host.cgroups {
        Cgroups::None { hint, .. } => hint.clone(),
        Cgroups::V1 { .. } | Cgroups::V2 { .. } => "lower the grade under [grades] in the profile".into(),
    };
    for (what, least, reached) in [("memory", caps.grades.memory, host.memory_grade()), ("cpu", caps.grades.cpu, host.cpu_grade())] {
        if reached < least {
            return Err(ending::host_refusal(
                format!("the {what} limit can only be {reached} here, the profile accepts no less than {least}"),
                hint,
            ));
        }
    }
    if caps.limits.get(ringfence_policy::LimitKey::Cpus).is_some() && !host.cgroups.holds_cpus() {
        return Err(ending::host_refusal("the limit `cpus` cannot be held here".into(), hint));
    }
    Ok(())
}

/// Storage on disk at the grade that the profile accepts, or none: never a weaker one, and never memory instead.
fn check_disk(host: &Host, work: &Path, grant: &Grant) -> Result<(), Refusal> {
    let (reached, least) = (host.disk_grade(), grant.capabilities.grades.disk);
    if grant.capabilities.storage == Storage::Memory {
        return Ok(());
    }
    host.check_disk(work).map_err(|e| ending::host_refusal(e.missing, format!("{}; or use `--storage memory`", e.hint)))?;
    match reached < least {
        true => Err(ending::host_refusal(
            format!("the disk limit can only be {reached} here, the profile accepts no less than {least}"),
            "run as root, where each run has a file system of its own; or lower `disk` under [grades] in the profile".into(),
        )),
        false => Ok(()),
    }
}
