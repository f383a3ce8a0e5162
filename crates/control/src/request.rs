//! What one run is asked for.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use ringfence_isolation::{OsText, own_stdin};
use ringfence_policy::{AgentId, Destination, EnvName, Glob, Limits, Sensitivity, StateName, Storage, TenantName, Tier, WorkspacePath};

use ringfence_store::StateId;

use crate::profiles::ProfileText;

/// A file or folder to be seen at `/inputs/NAME`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputRequest {
    /// Where it is on the host.
    pub path: PathBuf,
    /// Its name inside.
    pub name: String,
}

/// A value that must not be shown: `Debug` prints stars, and reading it is a call that says so.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps a value.
    pub fn new(value: String) -> Self {
        Self(value)
    }

    /// The value.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// Parts of names by which variables with secrets are known.
const SECRET_WORDS: &[&str] = &["TOKEN", "SECRET", "PASS", "CREDENTIAL", "APIKEY", "_KEY", "AUTH", "DSN", "COOKIE"];

/// True if a variable of this name holds a secret, as far as a name can tell.
pub fn names_a_secret(name: &str) -> bool {
    SECRET_WORDS.iter().any(|word| name.to_ascii_uppercase().contains(word))
}

/// The request of a run with one command.
#[derive(Clone)]
pub struct RunRequest {
    /// The class of work.
    pub profile: ProfileText,
    /// The agent.
    pub agent: AgentId,
    /// Inputs.
    pub inputs: Vec<InputRequest>,
    /// The project that becomes the workspace.
    pub project: Option<PathBuf>,
    /// Hidden files of the project to show after all.
    pub reveal: Vec<WorkspacePath>,
    /// Variables to set.
    pub environment: Vec<(EnvName, OsText)>,
    /// Destinations to reach.
    pub destinations: Vec<Destination>,
    /// No network and no packages, whatever the bound is.
    pub without_network: bool,
    /// Limits lower than the bound.
    pub limits: Limits,
    /// Artifacts to collect.
    pub exports: Vec<Glob>,
    /// At least this tier.
    pub tier: Option<Tier>,
    /// Where to keep what is written; in memory if not named.
    pub storage: Option<Storage>,
    /// The state to begin with, and to keep what is written in.
    pub state: Option<StateName>,
    /// The kept files of an earlier session to begin with; not with a named state.
    pub from: Option<StateId>,
    /// How sensitive the work is, at least.
    pub sensitivity: Option<Sensitivity>,
    /// Program and arguments.
    pub command: Vec<OsText>,
    /// Whether the command gets the caller's standard input.
    pub has_stdin: bool,
    /// What that is, if not the standard input of this process.
    pub stdin: Option<Arc<OwnedFd>>,
    /// The tenant of a server that asks.
    pub tenant: Option<TenantName>,
    /// The folder in the work folder of the home where a server has laid out the inputs.
    pub handed_over: Option<PathBuf>,
    /// Values that must not stand in the record, should they occur in an argument.
    pub known_secrets: Vec<Secret>,
    /// People's homes: neither they nor what holds them can be given, though what is in them can.
    pub homes: Vec<PathBuf>,
}

impl RunRequest {
    /// A request that names nothing but its command.
    pub fn bare(profile: ProfileText, agent: AgentId, command: Vec<OsText>) -> Self {
        Self {
            profile,
            agent,
            inputs: Vec::new(),
            project: None,
            reveal: Vec::new(),
            environment: Vec::new(),
            destinations: Vec::new(),
            without_network: false,
            limits: Limits::default(),
            exports: Vec::new(),
            tier: None,
            storage: None,
            state: None,
            from: None,
            sensitivity: None,
            command,
            has_stdin: false,
            stdin: None,
            tenant: None,
            handed_over: None,
            known_secrets: Vec::new(),
            homes: Vec::new(),
        }
    }
}

impl RunRequest {
    /// The standard input for the command, if it gets one.
    pub(crate) fn open_stdin(&self) -> io::Result<Option<OwnedFd>> {
        match (self.has_stdin, &self.stdin) {
            (false, _) => Ok(None),
            (true, Some(given)) => given.try_clone().map(Some),
            (true, None) => own_stdin().map(Some),
        }
    }
}

/// Values of variables are left out: any of them may be a secret.
impl std::fmt::Debug for RunRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunRequest")
            .field("profile", &self.profile.profile.name)
            .field("agent", &self.agent)
            .field("inputs", &self.inputs)
            .field("project", &self.project)
            .field("exports", &self.exports)
            .finish_non_exhaustive()
    }
}

/// Where the command's output goes.
#[derive(Debug, Clone, Copy)]
pub enum OutputTo<'a> {
    /// Into the report.
    Report,
    /// On to these, as it comes.
    Streams {
        /// For its standard output.
        stdout: BorrowedFd<'a>,
        /// For its standard error.
        stderr: BorrowedFd<'a>,
    },
}

/// Is told of long work while it goes on.
pub trait Progress {
    /// So much of `what` is done.
    fn tell(&mut self, what: &str, done: u64);

    /// Something that a person should know before the program starts.
    fn warn(&mut self, text: &str);
}

/// What a run is connected to while it goes on.
pub struct Attachments<'a> {
    /// Where output goes.
    pub output: OutputTo<'a>,
    /// Who is told of long work.
    pub progress: &'a mut dyn Progress,
    /// Becomes readable when the run must stop.
    pub cancel: Option<BorrowedFd<'a>>,
}

impl std::fmt::Debug for Attachments<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attachments").field("output", &self.output).field("cancel", &self.cancel).finish_non_exhaustive()
    }
}
