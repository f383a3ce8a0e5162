//! Gives up what building needed: namespaces can no longer be made, and init keeps only what starting commands as another user takes.

use std::fs;

use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets, clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities};

use super::command::Program;
use crate::plan::{Identity, Plan};
use crate::step::{AtStep, StepError};

/// What init keeps as root: to start commands under the agent's id.
const KEPT: CapabilitySet = CapabilitySet::SETUID.union(CapabilitySet::SETGID);

/// What can be made ready while the supervisor is busy elsewhere.
pub(super) fn prepare(plan: &Plan) -> Result<Program, StepError> {
    Program::prepare(plan)
}

/// The last steps: the process is in its cgroup by now.
pub(super) fn confine(plan: &Plan) -> Result<(), StepError> {
    crate::sys::clone::unshare_cgroup().at(|| "make a cgroup namespace".into())?;
    for sysctl in &plan.sysctls {
        match fs::write(format!("/proc/sys/{}", sysctl.name), &sysctl.value) {
            Err(_) if !sysctl.is_required => {}
            written => written.at(|| format!("set {} to {}", sysctl.name, sysctl.value))?,
        }
    }
    let kept = match plan.identity {
        Identity::Range { .. } => KEPT,
        Identity::Single { .. } => CapabilitySet::empty(),
    };
    drop_capabilities(kept).at(|| "drop init's capabilities".into())
}

/// Keeps `kept` as effective and permitted; no program, whoever starts it, can gain anything.
fn drop_capabilities(kept: CapabilitySet) -> Result<(), Errno> {
    for capability in CapabilitySet::all().iter() {
        match remove_capability_from_bounding_set(capability) {
            Ok(()) | Err(Errno::INVAL) => {} // a capability that this kernel does not have
            Err(errno) => return Err(errno),
        }
    }
    clear_ambient_capability_set()?;
    set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() })
}
