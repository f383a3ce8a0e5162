//! Takes as much of one resource as it is told to, or as it gets, and tells how much that was.

use alloc::vec::Vec;

use rustix::event::Timespec;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, open, unlink};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::{Found, digits, sys};

/// Bytes that are taken at a time.
const PIECE: usize = 64 << 10;
/// How long what was taken is held, milliseconds, so that who looks now and then sees it.
const HOLD: u64 = 400;
const FILE: &[u8] = b"/tmp/.ringfence-probe-disk";

/// Memory that is written to, bytes.
pub(crate) fn memory(most: u64) -> Found {
    let mut held: Vec<Vec<u8>> = Vec::new();
    while (held.len() * PIECE) as u64 <= most {
        let mut piece = Vec::new();
        piece.try_reserve_exact(PIECE).map_err(|_| Errno::NOMEM)?;
        piece.resize(PIECE, 1);
        held.push(piece);
    }
    sleep(HOLD);
    Ok(digits((held.len() * PIECE) as u64))
}

/// Processes at once, this one among them.
pub(crate) fn processes(most: u64) -> Found {
    let mut children: Vec<Pid> = Vec::new();
    while (children.len() as u64) < most {
        match sys::process::fork() {
            Ok(Some(child)) => children.push(child),
            Ok(None) => {
                sleep(u64::MAX / 2_000_000);
                sys::process::exit_now(0)
            }
            Err(_) => break,
        }
    }
    sleep(HOLD / 4);
    for child in &children {
        kill_process(*child, Signal::KILL)?;
        waitpid(Some(*child), WaitOptions::empty())?;
    }
    Ok(digits(children.len() as u64 + 1))
}

/// Files that are made.
pub(crate) fn files(most: u64) -> Found {
    let path = |number: u64| [b"/tmp/.ringfence-probe-", digits(number).as_slice()].concat();
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let made = (0..most).take_while(|number| open(path(*number).as_slice(), flags, Mode::from_raw_mode(0o600)).is_ok()).count() as u64;
    sleep(HOLD / 4);
    (0..made).try_for_each(|number| unlink(path(number).as_slice()))?;
    Ok(digits(made))
}

/// Bytes that are written to a file.
pub(crate) fn disk(most: u64) -> Found {
    let file = open(FILE, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC, Mode::from_raw_mode(0o600))?;
    let (piece, mut written) = ([1; 4096], 0);
    while written < most {
        match rustix::io::write(&file, &piece) {
            Ok(0) => break,
            Ok(more) => written += more as u64,
            Err(Errno::INTR) => {}
            Err(_) => break,
        }
    }
    sleep(HOLD / 4);
    unlink(FILE)?;
    Ok(digits(written))
}

/// Descriptors that are open at once, the three streams among them.
pub(crate) fn open_files(most: u64) -> Found {
    let opened: Vec<OwnedFd> = (3..most).map_while(|_| open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()).collect();
    Ok(digits(opened.len() as u64 + 3))
}

/// Bytes that are written to standard output, before the facts.
pub(crate) fn output(most: u64) -> Found {
    let piece = [b'x'; 4096];
    (0..most.div_ceil(4096)).try_for_each(|_| crate::files::write_all(sys::process::stdout(), &piece))?;
    Ok(digits(most))
}

/// Waits, milliseconds.
pub(crate) fn wait(milliseconds: u64) -> Found {
    sleep(milliseconds);
    Ok(digits(milliseconds))
}

/// Uses a processor, milliseconds of the wall clock.
pub(crate) fn spin(milliseconds: u64) -> Found {
    let end = sys::kernel::now_ms().saturating_add(milliseconds);
    while sys::kernel::now_ms() < end {}
    Ok(digits(milliseconds))
}

/// Sleeps; a signal ends it sooner.
pub(crate) fn sleep(milliseconds: u64) {
    let request = Timespec { tv_sec: (milliseconds / 1000) as i64, tv_nsec: (milliseconds % 1000 * 1_000_000) as i64 };
    let _how_it_ended = rustix::thread::nanosleep(&request);
}
