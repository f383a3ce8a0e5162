//! What runs inside a sandbox: the command that was asked for, or the probe of an audit. Everything else about the two runs is the same.

use ringfence_isolation::{Command, Plan, Sandbox, Streams};
use rustix::io::Errno;

/// Who may change a plan on its way: the tests of the audit, to see that it finds what they weaken. The command line never has one.
pub(crate) type Alter<'a> = &'a dyn Fn(&mut Plan);

/// What runs.
pub(crate) enum Inside<'a> {
    /// The command.
    Command,
    /// The probe, with the command's arguments.
    Probe {
        /// Weakens the sandbox.
        alter: Option<Alter<'a>>,
    },
}

impl Inside<'_> {
    pub(crate) fn alter(&self, plan: &mut Plan) {
        if let Self::Probe { alter: Some(alter) } = self {
            alter(plan);
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
