//! The probe: a program of our own that measures a sandbox from inside, and is executed there as any command is.
//!
//! It is static and needs nothing of the image, so it runs under every profile; it is handed over as a sealed memory file and is on no path.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use ringfence_wire::{Fact, decode};
use rustix::io::Errno;

use crate::init_program::sealed_once;

/// The name by which the probe is known in records and lists of processes.
pub const PROBE_NAME: &str = "ringfence-probe";

/// What the build script made of `crates/init/src/probe`.
const PROGRAM: &[u8] = include_bytes!(env!("RINGFENCE_PROBE"));

/// The probe as a file that can be executed.
pub(crate) fn probe_program() -> Result<BorrowedFd<'static>, Errno> {
    static FILE: OnceLock<OwnedFd> = OnceLock::new();
    sealed_once(&FILE, c"ringfence-probe", PROGRAM)
}

/// What a probe wrote; `None` if it is not whole.
pub fn facts(written: &[u8]) -> Option<Vec<Fact>> {
    decode(written)
}

/// Runs the probe outside of any sandbox: what it cannot see there it proves nothing about.
#[expect(clippy::disallowed_methods, reason = "this crate starts programs")]
pub fn measure_outside(attempts: &[String]) -> io::Result<Vec<Fact>> {
    let program = format!("/proc/self/fd/{}", probe_program()?.as_raw_fd());
    let done = Command::new(program).args(attempts).stdin(Stdio::null()).stderr(Stdio::null()).output()?;
    facts(&done.stdout).ok_or_else(|| io::Error::other(format!("the probe ended with {}", done.status)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outside_the_probe_says_what_it_finds() {
        let attempts = ["list=/proc/self/ns", "text=/proc/self/comm", "read=/nonexistent", "no-such-verb=x"].map(str::to_owned);
        let facts = measure_outside(&attempts).unwrap();
        let tried: Vec<String> = facts.iter().map(|fact| String::from_utf8(fact.tried.clone()).unwrap()).collect();
        assert_eq!(tried, attempts);
        assert!(facts[0].found.split(|byte| *byte == b'\n').any(|name| name == b"mnt"), "{facts:?}");
        assert_eq!((facts[1].errno, facts[2].errno, facts[3].errno), (0, libc::ENOENT, libc::EINVAL), "{facts:?}");
    }
}
