//! What a hostile program would leave behind, and the caller's keys.

use alloc::vec::Vec;

use rustix::io::Errno;

use crate::{Found, digits, sys};

/// Bytes of the segment.
const SEGMENT: usize = 4096;

/// Starts a process that leaves the session, hears no signal that can be unheard, and waits. It is known by this program's arguments.
pub(crate) fn process() -> Found {
    let Some(child) = sys::process::fork()? else {
        // Nobody hears what fails here: that the process is there is all that counts.
        rustix::process::setsid().map(drop).unwrap_or_default();
        sys::process::close_all();
        sys::process::ignore_signals();
        crate::exceed::sleep(u64::MAX / 2_000_000);
        sys::process::exit_now(0)
    };
    Ok(digits(child.as_raw_nonzero().get() as u64))
}

/// Makes a System V segment of shared memory under a key.
pub(crate) fn segment(key: u64) -> Found {
    let key = i32::try_from(key).map_err(|_| Errno::INVAL)?;
    sys::kernel::make_segment(key, SEGMENT).map(|()| Vec::new())
}

/// Looks for the session's keyring.
pub(crate) fn keyring() -> Found {
    sys::kernel::session_keyring().map(digits)
}
