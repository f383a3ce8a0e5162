//! Measures a sandbox from inside: tries what its arguments name, one after another, and writes what came of it. It judges nothing.
//!
//! A small static program without libc, so that it runs under every profile and needs nothing of the image. Each argument is `VERB=OPERAND`; the facts
//! go to standard output at the end. Some verbs are meant to end the whole sandbox by a limit: then it says nothing.
#![no_std]
#![no_main]
#![deny(unsafe_code)]

extern crate alloc;

mod asking;
mod exceed;
mod files;
mod leave;
mod network;
mod program;
mod tree;

#[expect(unsafe_code, reason = "the one place for system calls, the entry point, and what a program without libc needs")]
mod sys;

use alloc::vec::Vec;

use ringfence_wire::{Fact, encode};
use rustix::io::Errno;

/// What an attempt finds.
type Found = Result<Vec<u8>, Errno>;

/// The argument with which a copy of the probe is started that has nothing to do but to end well.
const END_WELL: &core::ffi::CStr = c"end=well";

/// The whole life.
fn live() -> i32 {
    let Ok(line) = files::text(b"/proc/self/cmdline") else { return 1 };
    let attempts: Vec<&[u8]> = line.split(|byte| *byte == 0).skip(1).filter(|word| !word.is_empty()).collect();
    if attempts == [END_WELL.to_bytes()] {
        return 0;
    }
    let facts: Vec<Fact> = attempts.into_iter().map(fact).collect();
    match encode(&facts).ok_or(Errno::NOMEM).and_then(|bytes| files::write_all(sys::process::stdout(), &bytes)) {
        Ok(()) => 0,
        Err(_) => 1,
    }
}

fn fact(attempt: &[u8]) -> Fact {
    let (errno, found) = match tried(attempt) {
        Ok(found) => (0, found),
        Err(errno) => (errno.raw_os_error(), Vec::new()),
    };
    Fact { tried: attempt.to_vec(), errno, found }
}

fn tried(attempt: &[u8]) -> Found {
    let at = attempt.iter().position(|byte| *byte == b'=').ok_or(Errno::INVAL)?;
    let (verb, operand) = (&attempt[..at], &attempt[at + 1..]);
    match verb {
        b"text" => files::text(operand),
        b"read" => files::read(operand),
        b"list" => files::list(operand),
        b"links" => files::links(operand),
        b"write" => files::write(operand),
        b"append" => files::append(operand),
        b"remove" => files::remove(operand),
        b"walk" => tree::walk(operand),
        b"run" => program::run(operand),
        b"tcp" => network::tcp(operand),
        b"unix" => network::unix(operand),
        b"abstract" => network::abstract_name(operand),
        b"socket" => network::socket(operand),
        b"http" => asking::http(operand),
        b"socks" => asking::socks(operand),
        b"name" => asking::name(operand),
        b"keyring" => leave::keyring(),
        b"leave-process" => leave::process(),
        b"leave-segment" => leave::segment(number(operand)?),
        b"memory" => exceed::memory(number(operand)?),
        b"processes" => exceed::processes(number(operand)?),
        b"files" => exceed::files(number(operand)?),
        b"disk" => exceed::disk(number(operand)?),
        b"open-files" => exceed::open_files(number(operand)?),
        b"output" => exceed::output(number(operand)?),
        b"wait" => exceed::wait(number(operand)?),
        b"spin" => exceed::spin(number(operand)?),
        _ => Err(Errno::INVAL),
    }
}

fn number(text: &[u8]) -> Result<u64, Errno> {
    core::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or(Errno::INVAL)
}

/// A number as it is written in a fact. (The library's own formatting unwinds, which a program without libc cannot.)
fn digits(number: u64) -> Vec<u8> {
    let mut digits = if number < 10 { Vec::new() } else { digits(number / 10) };
    digits.push(b'0' + (number % 10) as u8);
    digits
}
