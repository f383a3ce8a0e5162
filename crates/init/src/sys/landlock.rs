//! Landlock: rules over paths, held by the kernel. Reference: Documentation/userspace-api/landlock.rst.

use rustix::fd::{AsRawFd, FromRawFd, OwnedFd};
use rustix::io::Errno;

use super::raw::syscall;

/// The kernel's `struct landlock_path_beneath_attr`.
#[repr(C, packed)]
struct PathBeneath {
    allowed: u64,
    parent: i32,
}

/// `LANDLOCK_RULE_PATH_BENEATH`.
const PATH_BENEATH: usize = 1;

/// A ruleset over the given rights.
pub(crate) fn create(handled: u64) -> Result<OwnedFd, Errno> {
    // SAFETY: the kernel reads the first member of `struct landlock_ruleset_attr`, one number, and is told its size.
    let ruleset = unsafe { syscall(libc::SYS_landlock_create_ruleset, [&raw const handled as usize, size_of::<u64>(), 0, 0, 0, 0])? };
    // SAFETY: the kernel has just made it, for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(ruleset as i32) })
}

/// Allows rights on a folder and everything below it.
pub(crate) fn allow_beneath(ruleset: &OwnedFd, folder: &OwnedFd, allowed: u64) -> Result<(), Errno> {
    let rule = PathBeneath { allowed, parent: folder.as_raw_fd() };
    // SAFETY: the kernel reads one `landlock_path_beneath_attr`, which outlives the call.
    unsafe { syscall(libc::SYS_landlock_add_rule, [ruleset.as_raw_fd() as usize, PATH_BENEATH, &raw const rule as usize, 0, 0, 0]) }
        .map(drop)
}

/// Puts the rules in force for this process and all that it starts.
pub(crate) fn restrict_self(ruleset: &OwnedFd) -> Result<(), Errno> {
    // SAFETY: a descriptor and a plain integer.
    unsafe { syscall(libc::SYS_landlock_restrict_self, [ruleset.as_raw_fd() as usize, 0, 0, 0, 0, 0]) }.map(drop)
}
