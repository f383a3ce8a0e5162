//! What runs inside a sandbox: the command that was asked for, or the probe of an audit. Everything else about the two runs is the same.

use ringfence_isolation::{Command, GroupLimits, Plan, Sandbox, Streams};
use rustix::io::Errno;

/// A way to weaken the sandboxes of an audit: for tests, which show that it finds what they weaken. The command line never has one.
#[derive(Clone, Copy)]
pub struct Weakening<'a> {
    /// What is done to each plan.
    pub plan: &'a dyn Fn(&mut Plan),
    /// Whether the cgroup holds nothing. It is made before there is a plan.
    pub has_no_group_limits: bool,
}

impl std::fmt::Debug for Weakening<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Weakening").field("has_no_group_limits", &self.has_no_group_limits).finish_non_exhaustive()
    }
}

/// What runs.
#[derive(Debug, Clone, Copy)]
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
    fn weakening(&self) -> Option<&Weakening<'_>> {
        match self {
            Self::Command | Self::Probe { weakening: None } => None,
            Self::Probe { weakening: Some(weakening) } => Some(weakening),
        }
    }

    pub(crate) fn alter(&self, plan: &mut Plan) {
        if let Some(weakening) = self.weakening() {
            (weakening.plan)(plan);
        }
    }

    /// What the cgroup holds, of the limits that were granted.
    pub(crate) fn group_limits(&self, granted: GroupLimits) -> GroupLimits {
        if self.weakening().is_some_and(|weakening| weakening.has_no_group_limits) { GroupLimits::default() } else { granted }
    }

    /// Starts what the sandbox ends with.
    pub(crate) fn start<'s>(&self, sandbox: &mut Sandbox<'s>, command: &Command, streams: Streams<'s>) -> Result<u32, Errno> {
        match self {
            Self::Command => sandbox.start(command, streams, true),
            Self::Probe { .. } => sandbox.start_probe(command, streams, true),
        }
    }
}
