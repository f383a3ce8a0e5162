//! What runs inside a sandbox: the command that was asked for, a check of a promotion, the probe of an audit, or a session with many commands. Everything
//! else about the runs is the same.

use std::io;

use ringfence_evidence::RunEnd;
use ringfence_isolation::{Command, OsText, Plan, Sandbox, Streams};
use ringfence_policy::{Capabilities, UserName};
use ringfence_store::{JournalWriter, RunId, StateAbout};
use rustix::io::Errno;

use crate::request::Secret;
use crate::state::Words;

/// A way to weaken the sandboxes of an audit, by changing their plans: for tests, which show that it finds what they weaken. The command line never
/// has one.
pub type Weakening<'a> = &'a dyn Fn(&mut Plan);

/// What runs.
#[derive(Clone, Copy)]
pub(crate) enum Inside<'a> {
    /// The command.
    Command,
    /// The command, over a tree that a promotion laid out beneath the home for it.
    Check,
    /// The probe, with the command's arguments.
    Probe {
        /// Weakens the sandbox.
        weakening: Option<Weakening<'a>>,
    },
    /// Many commands, for as long as somebody keeps the session.
    Session(&'a dyn Keeper),
}

/// What whoever keeps a session is handed.
pub(crate) struct Kept<'s, 'a> {
    /// Its run.
    pub(crate) run: RunId,
    /// The sandbox, which stands.
    pub(crate) sandbox: &'s mut Sandbox<'a>,
    /// The record of its run.
    pub(crate) journal: JournalWriter,
    /// What a command gets beside the sandbox's own variables.
    pub(crate) environment: Vec<(String, OsText)>,
    /// Values that must not stand in the record.
    pub(crate) secrets: Vec<Secret>,
    /// What was granted.
    pub(crate) allowed: Capabilities,
    /// Whom commands run as.
    pub(crate) user: UserName,
    /// What is said of a snapshot of its files.
    pub(crate) said: StateAbout,
}

/// Keeps a session: sees to its commands until it is over.
pub(crate) trait Keeper {
    /// Answers with how it ended, once no command runs any more.
    fn keep(&self, kept: Kept<'_, '_>) -> io::Result<RunEnd>;

    /// What is said of the files of a session that was paused.
    fn words(&self) -> Words;
}

impl Inside<'_> {
    pub(crate) fn alter(&self, plan: &mut Plan) {
        if let Self::Probe { weakening: Some(weaken) } = self {
            weaken(plan);
        }
    }

    /// True if the project is a tree of ours, laid out for this run, and not somebody's.
    pub(crate) fn is_laid_out(&self) -> bool {
        matches!(self, Self::Check)
    }

    /// Starts what the sandbox ends with.
    pub(crate) fn start<'s>(&self, sandbox: &mut Sandbox<'s>, command: &Command, streams: Streams<'s>) -> Result<u32, Errno> {
        match self {
            Self::Command | Self::Check | Self::Session(_) => sandbox.start(command, streams, true),
            Self::Probe { .. } => sandbox.start_probe(command, streams, true),
        }
    }
}
