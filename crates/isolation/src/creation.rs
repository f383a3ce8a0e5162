//! A sandbox on its way: begun empty, built by its init, and awaited, so that other work can be done meanwhile.
//!
//! The stages are also what can be made ahead: an [`EmptySandbox`] has namespaces that nobody has used and a cgroup; a standing
//! [`Sandbox`] waits for its first command. Neither is ever used by two runs.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::Instant;

use ringfence_policy::{Grade, Limits};
use rustix::process::Pid;

use crate::cgroup::Cgroups;
use crate::identity::IdentityLease;
use crate::launch::{Launched, Launching, SetupError, launch};
use crate::plan::{GroupLimits, Plan};
use crate::sandbox::Sandbox;

/// A cgroup and new namespaces with an init in them, and nothing else. Dropping it takes everything away.
#[derive(Debug)]
pub struct EmptySandbox {
    launching: Launching,
    lease: IdentityLease,
}

impl EmptySandbox {
    /// Begins to make one, which goes on by itself. `run` names its cgroup.
    pub fn begin(run: &str, cgroups: &Cgroups, limits: &GroupLimits, lease: IdentityLease) -> Result<Self, SetupError> {
        Ok(Self { launching: launch(run, cgroups, limits, lease.identity)?, lease })
    }

    /// Gives init a plan, by which it builds by itself from here on. `record` is told init and the cgroup's folders before any command can
    /// run.
    pub fn build<'p, 'a>(
        self,
        creation: Creation<'p, 'a>,
        record: &mut dyn FnMut(Pid, &[PathBuf]) -> io::Result<()>,
    ) -> Result<Rising<'p, 'a>, SetupError> {
        let started_at = Instant::now();
        let launched = self.launching.begin(creation.plan, creation.cancel, record)?;
        Ok(Rising { creation, lease: self.lease, started_at, launched })
    }
}

/// What a sandbox is built by.
#[derive(Debug, Clone, Copy)]
pub struct Creation<'p, 'a> {
    /// The plan.
    pub plan: &'p Plan,
    /// The limits to be held.
    pub limits: &'p Limits,
    /// Who holds memory.
    pub memory_grade: Grade,
    /// Becomes readable when the caller wants the run to stop.
    pub cancel: Option<BorrowedFd<'a>>,
}

/// A sandbox whose init builds it. Dropping it takes everything away.
#[derive(Debug)]
pub struct Rising<'p, 'a> {
    creation: Creation<'p, 'a>,
    lease: IdentityLease,
    started_at: Instant,
    launched: Launched,
}

impl<'a> Rising<'_, 'a> {
    /// Waits until the sandbox stands, for no longer than the wall limit and until the caller wants to stop.
    pub fn stand(self) -> Result<Sandbox<'a>, SetupError> {
        let Self { creation, lease, started_at, mut launched } = self;
        launched.stand(creation.plan, creation.cancel)?;
        Ok(Sandbox::over(launched, started_at, creation, lease))
    }
}
