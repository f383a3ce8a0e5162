//! After building: what init gives up.

use alloc::vec::Vec;

use ringfence_wire::{Blueprint, Setting};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

use crate::failure::{At, Failure};
use crate::sys;
use crate::view::write_all;

/// The last thing before commands: namespaces can no longer be made, and only what starting commands as another user takes is kept. What init does from
/// here on passes the filter of its programs.
pub(crate) fn confine(blueprint: &Blueprint) -> Result<(), Failure> {
    sys::process::unshare_cgroup().at("make a cgroup namespace")?;
    for (number, setting) in blueprint.settings.iter().enumerate() {
        apply(setting).at_item("setting", number)?;
    }
    drop_capabilities(CapabilitySet::from_bits_retain(blueprint.kept)).at("drop init's capabilities")?;
    set_no_new_privs(true).at("set no_new_privs")?;
    match blueprint.is_inits_filter {
        true => sys::seccomp::load(&blueprint.filter).at("load the system call filter"),
        false => Ok(()),
    }
}

fn apply(setting: &Setting) -> Result<(), Errno> {
    match set(setting.path.as_slice(), &setting.value) {
        Err(_) if !setting.is_required => Ok(()),
        written => written,
    }
}

/// Writes a whole value to a file of the kernel's.
pub(crate) fn set(path: impl rustix::path::Arg, value: &[u8]) -> Result<(), Errno> {
    write_all(&open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?, value)
}

/// Keeps `kept` as effective and permitted; no program, whoever starts it, can gain anything.
fn drop_capabilities(kept: CapabilitySet) -> Result<(), Errno> {
    let all: Vec<CapabilitySet> = CapabilitySet::all().iter().collect();
    for capability in all {
        match remove_capability_from_bounding_set(capability) {
            Ok(()) | Err(Errno::INVAL) => {} // a capability that this kernel does not have
            Err(errno) => return Err(errno),
        }
    }
    clear_ambient_capability_set()?;
    set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() })
}
