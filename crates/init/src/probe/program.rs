//! Programs that the run writes, and whether they can be executed.

use alloc::vec::Vec;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create, open, unlink};
use rustix::io::Errno;

use crate::files::{text, write_all};
use crate::{END_WELL, Found, sys};

/// The operand that stands for a memory file.
const MEMORY: &[u8] = b"memory";
const COPY: &[u8] = b".ringfence-probe-copy";

/// Writes a copy of this program into a folder, or into a memory file, and executes it. `EACCES` and its like: it was refused.
pub(crate) fn run(place: &[u8]) -> Found {
    let program = text(b"/proc/self/exe")?;
    if place == MEMORY {
        let file = memfd_create(c"copy", MemfdFlags::CLOEXEC)?;
        write_all(&file, &program)?;
        return executed(&file);
    }
    let path = [place, COPY].join(&b'/');
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    write_all(open(path.as_slice(), flags, Mode::from_raw_mode(0o700))?, &program)?;
    let done = open(path.as_slice(), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).and_then(|copy| executed(&copy));
    unlink(path.as_slice())?;
    done
}

/// In a child, whose status says how it went.
fn executed(program: &OwnedFd) -> Found {
    let Some(child) = sys::process::fork()? else {
        let errno = sys::process::execute(program.as_fd(), [c"ringfence-probe", END_WELL]);
        sys::process::exit_now(errno.raw_os_error())
    };
    match rustix::io::retry_on_intr(|| rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty()))? {
        Some((_, status)) if status.exit_status() == Some(0) => Ok(Vec::new()),
        Some((_, status)) => Err(Errno::from_raw_os_error(status.exit_status().unwrap_or(Errno::IO.raw_os_error()))),
        None => Err(Errno::CHILD),
    }
}
