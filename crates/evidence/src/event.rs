//! The events of a run, in the order in which they happen: an intent before each act, its outcome after. Never a secret, never content.

use ringfence_policy::{Ask, Grant, Layer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::digest::Digest;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// Somebody asked for a run. From the moment this line is flushed the run is accepted.
    RunRequested {
        /// The run.
        run: String,
        /// Version of ringfence.
        version: String,
        /// The agent.
        agent: String,
        /// The version of the agent that was approved.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent_version: Option<Digest>,
        /// Who answers for the agent.
        owner: String,
        /// The tenant of a server that asked; the command line has none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tenant: Option<String>,
        /// The profile's name.
        profile: String,
        /// Digest of the profile's text.
        profile_digest: Digest,
        /// Digest of the ceiling's text.
        ceiling_digest: Digest,
        /// What was asked.
        ask: Box<Ask>,
        /// Which commands, in order; values equal to a known secret are masked.
        commands: Vec<Vec<String>>,
    },
    /// Policy said yes.
    RunGranted {
        /// What may be done.
        grant: Box<Grant>,
    },
    /// Policy or the host said no; nothing ran.
    RunRefused {
        /// The rule.
        rule: String,
        /// Who set it.
        layer: Layer,
        /// What would allow it.
        hint: String,
    },
    /// Something of the host's is about to be seen inside.
    InputAdded {
        /// What.
        input: InputRecord,
    },
    /// The sandbox is about to be made.
    SandboxCreating {
        /// The tier.
        tier: String,
        /// Who holds each limit.
        grades: std::collections::BTreeMap<String, String>,
        /// Release of the host's kernel.
        kernel: String,
        /// Version of Landlock.
        landlock: u32,
        /// The imported image as it was named; the host's own has no name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        image: Option<String>,
        /// Digest of what is visible as the image.
        image_digest: Digest,
        /// Digest of the plan.
        plan_digest: Digest,
    },
    /// The sandbox stands.
    SandboxCreated {},
    /// The files of an earlier run were laid out, before anything ran.
    StateRestored {
        /// The id of the state.
        state: String,
        /// Its name, if it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Digest of what was kept.
        sha256: Digest,
        /// Bytes of it.
        bytes: u64,
    },
    /// The agent's files are kept for a later run.
    StateSaved {
        /// The id of the state.
        state: String,
        /// `named`, `snapshot` or `paused`.
        kind: String,
        /// Its name, if it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Digest of what is kept.
        sha256: Digest,
        /// Bytes of it.
        bytes: u64,
        /// Sockets, pipes and devices, which are not kept.
        left_out: u64,
        /// Files that somebody changed while they were read, in a session that went on.
        changed: u64,
    },
    /// The agent's files are not kept; an earlier state of the name stays.
    StateNotSaved {
        /// The name, if it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Why.
        reason: String,
    },
    /// A command is about to start.
    CommandStarting {
        /// Number within the run, from 0.
        command: u32,
        /// Its arguments; values equal to a known secret are masked.
        argv: Vec<String>,
        /// Where it starts.
        folder: String,
        /// Names of the variables it was given.
        environment: Vec<String>,
        /// Whether it has the caller's standard input.
        has_stdin: bool,
    },
    /// Something is about to be dialled, or asked over a connection that is there.
    NetworkOpened {
        /// What, and by which rule.
        exchange: ExchangeRecord,
    },
    /// It is over.
    NetworkClosed {
        /// The number that its beginning has.
        exchange: u64,
        /// Bytes towards the host.
        up_bytes: u64,
        /// Bytes from the host.
        down_bytes: u64,
        /// How long it took, milliseconds.
        ms: u64,
        /// The address that answered, if it is not the one that was told of.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        address: Option<String>,
        /// The status of the reply, where somebody reads it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<u16>,
        /// Why it ended, if not by itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<String>,
    },
    /// Something on the network was refused; nothing was dialled.
    NetworkRefused {
        /// By which way: `connect`, `http`, `socks`, `direct` or `name`.
        way: String,
        /// The host as asked, control bytes escaped.
        host: String,
        /// The port.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        port: Option<u16>,
        /// The rule.
        reason: String,
        /// The method and path, where somebody reads them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<String>,
    },
    /// A lock file was read.
    LockRead {
        /// Its name.
        file: String,
        /// Its digest.
        sha256: Digest,
        /// Versions that it pins.
        pins: u64,
        /// Why it pins nothing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        problem: Option<String>,
    },
    /// A file of a package is about to go inside; its bytes were checked.
    PackageServed {
        /// Which.
        package: PackageRecord,
    },
    /// A package, a version or a file did not.
    PackageRefused {
        /// `python`, `node` or `rust`.
        ecosystem: String,
        /// The package.
        name: String,
        /// The version, where one was decided on.
        version: String,
        /// The file, where one was decided on.
        file: String,
        /// The rule.
        rule: String,
    },
    /// More was refused than is told one by one.
    NetworkRefusalsCounted {
        /// How many more.
        more: u64,
    },
    /// A command has ended.
    CommandEnded {
        /// Number within the run.
        command: u32,
        /// How.
        end: RunEnd,
        /// Its standard output.
        stdout: StreamRecord,
        /// Its standard error.
        stderr: StreamRecord,
    },
    /// A signal was sent to a command and its group.
    CommandSignaled {
        /// Number within the run.
        command: u32,
        /// The signal's name.
        signal: String,
    },
    /// A file was written from outside, by way of the server.
    FileReceived {
        /// Where.
        path: String,
        /// Bytes.
        bytes: u64,
        /// Digest of its content.
        sha256: Digest,
    },
    /// A file was read from outside: its content has left, and is no artifact.
    FileSent {
        /// Where.
        path: String,
        /// Bytes.
        bytes: u64,
        /// Digest of its content.
        sha256: Digest,
    },
    /// Files were made, moved or removed from outside.
    FileChanged {
        /// `make`, `move` or `remove`.
        act: String,
        /// Where.
        path: String,
        /// Where to, of what was moved.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<String>,
    },
    /// A cell of code was given to a context, which is a command of the run.
    CellStarting {
        /// The command.
        command: u32,
        /// Which of its cells, from 1.
        cell: u64,
        /// Digest of its code.
        sha256: Digest,
        /// Bytes of it.
        bytes: u64,
    },
    /// A cell is over.
    CellEnded {
        /// The command.
        command: u32,
        /// Which of its cells.
        cell: u64,
        /// The name of its error, if it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// Somebody outside connected to a port inside.
    PortOpened {
        /// The port.
        port: u16,
    },
    /// Every process of the sandbox is dead.
    SandboxEnded {
        /// What was used.
        usage: UsageRecord,
        /// Bounding limits that were reached.
        limits_reached: Vec<String>,
    },
    /// Artifacts are about to be collected.
    Exporting {
        /// What was named.
        globs: Vec<String>,
    },
    /// An artifact has crossed.
    ArtifactExported {
        /// Which.
        artifact: ArtifactRecord,
    },
    /// Something named did not cross.
    ArtifactRefused {
        /// Its path or glob.
        path: String,
        /// Why.
        reason: String,
    },
    /// The run is over: the last event.
    RunEnded {
        /// How.
        end: RunEnd,
    },
}

/// How a run or a command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RunEnd {
    /// By itself.
    Exited {
        /// Its status.
        code: i32,
    },
    /// By a signal.
    Signaled {
        /// The signal's name.
        signal: String,
    },
    /// By a limit.
    Limit {
        /// Which.
        limit: String,
    },
    /// It was never allowed to start.
    Refused {
        /// The rule.
        rule: String,
        /// Who set it.
        layer: Layer,
        /// What would allow it.
        hint: String,
    },
    /// A session was closed; nothing about it failed.
    Closed {
        /// By what.
        by: ClosedBy,
    },
    /// Something failed around it.
    Failed {
        /// At which step.
        step: String,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<String>,
    },
}

/// What closed a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClosedBy {
    /// Whoever had it.
    Request,
    /// The time that it was given.
    Timeout,
    /// It was paused: its files are kept, and it can go on in another run.
    Pause,
    /// The server that had it stopped.
    Shutdown,
}

impl ClosedBy {
    /// As it stands in records.
    pub fn word(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Timeout => "timeout",
            Self::Pause => "pause",
            Self::Shutdown => "shutdown",
        }
    }
}

/// What was given to a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputRecord {
    /// Its name inside.
    pub name: String,
    /// `file`, `folder` or `project`.
    pub kind: String,
    /// Files in it.
    pub files: u64,
    /// Bytes in it.
    pub bytes: u64,
    /// Its identity.
    pub sha256: Digest,
    /// What the digest covers: `content`, or `listing` (paths, modes, sizes, times and link targets).
    pub digest_of: String,
    /// What is hidden from the run, with the reason after a colon.
    pub hidden: Vec<String>,
}

/// A file of a package that went inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PackageRecord {
    /// `python`, `node` or `rust`.
    pub ecosystem: String,
    /// The package, in its canonical form.
    pub name: String,
    /// The version.
    pub version: String,
    /// The file.
    pub file: String,
    /// SHA-256 of its bytes, as `sha256:` and 64 digits.
    pub sha256: String,
    /// Where it is from, without credentials.
    pub source: String,
    /// Whether the bytes were kept from earlier.
    pub is_from_cache: bool,
    /// Bytes.
    pub bytes: u64,
}

/// Something that was allowed on the network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExchangeRecord {
    /// Its number within the run.
    pub number: u64,
    /// By which way: `connect`, `http`, `socks` or `direct`.
    pub way: String,
    /// The rule that allows it.
    pub rule: String,
    /// The host.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The address, resolved once and checked.
    pub address: String,
    /// How much of it is looked at: `nothing`, the `name` that TLS is for and nothing inside it, or `requests`.
    pub seen: String,
    /// The method and path, where somebody reads them; never the query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// The credential that was put in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
}

/// What a command wrote to one stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamRecord {
    /// Bytes written.
    pub bytes: u64,
    /// Digest of all of them, also of those that were not kept.
    pub sha256: Digest,
    /// Whether some were not kept.
    pub is_truncated: bool,
}

/// What a run used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct UsageRecord {
    /// Wall-clock time, milliseconds.
    pub wall_ms: u64,
    /// Processor time of the whole tree, milliseconds.
    pub cpu_ms: u64,
    /// Most memory at once, bytes.
    pub memory_peak_bytes: u64,
    /// Most processes at once.
    pub processes_peak: u64,
}

/// What left a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactRecord {
    /// Its path in the workspace; `%` and bytes that are not UTF-8 stand as `%XX`.
    pub path: String,
    /// Bytes.
    pub bytes: u64,
    /// Digest of its content.
    pub sha256: Digest,
    /// Whether it was executable.
    pub is_executable: bool,
}
