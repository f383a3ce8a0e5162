//! What runs inside a sandbox: the command that was asked for, a check of a promotion, or the probe of an audit. Everything else about the runs is the
//! same.

use ringfence_isolation::{Command, Plan, Sandbox, Streams};
use rustix::io::Errno;

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
            Self::Command | Self::Check => sandbox.start(command, streams, true),
            Self::Probe { .. } => sandbox.start_probe(command, streams, true),
        }
    }
}
