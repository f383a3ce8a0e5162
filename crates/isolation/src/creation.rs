//! A sandbox that is being made: begun, and then awaited, so that other work can be done meanwhile.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::Instant;

use ringfence_policy::{Grade, Limits};
use rustix::process::Pid;

use crate::cgroup::Cgroups;
use crate::identity::IdentityLease;
use crate::launch::{Launched, SetupError, launch};
use crate::plan::Plan;
use crate::sandbox::Sandbox;

/// What a sandbox is made of.
#[derive(Debug)]
pub struct Creation<'p, 'a> {
    /// The plan.
    pub plan: &'p Plan,
    /// The run's name, for its cgroup.
    pub run: &'p str,
    /// The limits to be held.
    pub limits: &'p Limits,
    /// Who holds memory.
    pub memory_grade: Grade,
    /// Where groups can be made.
    pub cgroups: &'p Cgroups,
    /// The ids, kept until the remains are dropped.
    pub lease: IdentityLease,
    /// Becomes readable when the caller wants the run to stop.
    pub cancel: Option<BorrowedFd<'a>>,
}

impl<'p, 'a> Creation<'p, 'a> {
    /// Starts init, which builds by itself from here on. `born` is told init and the cgroup's folders before anything in it runs.
    pub fn begin(self, born: &mut dyn FnMut(Pid, &[PathBuf]) -> io::Result<()>) -> Result<Rising<'p, 'a>, SetupError> {
        let started_at = Instant::now();
        let launched = launch(self.plan, self.run, self.cgroups, born)?;
        Ok(Rising { creation: self, started_at, launched })
    }
}

/// A sandbox whose init builds it. Dropping it takes everything away.
#[derive(Debug)]
pub struct Rising<'p, 'a> {
    creation: Creation<'p, 'a>,
    started_at: Instant,
    launched: Launched,
}

impl<'a> Rising<'_, 'a> {
    /// Waits until the sandbox stands, for no longer than the wall limit and until the caller wants to stop.
    pub fn stand(self) -> Result<Sandbox<'a>, SetupError> {
        let Self { creation, started_at, mut launched } = self;
        launched.stand(creation.plan, creation.cancel)?;
        Ok(Sandbox::over(launched, started_at, creation))
    }
}
