//! What runs inside a sandbox: the command that was asked for, or the probe of an audit. Everything else about the two runs is the same.

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

    /// Starts what the sandbox ends with.
    pub(crate) fn start<'s>(&self, sandbox: &mut Sandbox<'s>, command: &Command, streams: Streams<'s>) -> Result<u32, Errno> {
        match self {
            Self::Command => sandbox.start(command, streams, true),
            Self::Probe { .. } => sandbox.start_probe(command, streams, true),
        }
    }
}
