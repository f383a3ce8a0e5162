//! PID 1 of a sandbox: builds the view, confines itself, then waits for orders, ended children and its own clock.
//!
//! A small static program without libc, executed from memory with an empty environment and one socket, so that nothing of the launcher is here
//! and starting it costs little. The process that is executed makes the namespaces and, in them, its own copy, which is init; then it ends. It decides nothing: what it does is a list of acts with numbers as the kernel takes them. It never carries the
//! bytes of a command. When the supervisor is gone, or the time is up, it ends; the kernel then kills every process of its namespace.
#![no_std]
#![no_main]
#![deny(unsafe_code)]

extern crate alloc;

mod begin;
mod command;
mod confine;
mod copy;
mod failure;
mod links;
mod serve;
mod terminal;
mod view;

#[expect(unsafe_code, reason = "the one place for system calls, the entry point, and what a program without libc needs")]
mod sys;

use ringfence_wire::Report;

/// The whole life.
fn live() -> i32 {
    let control = sys::process::inherited(ringfence_wire::CONTROL_FD);
    match begin::run(&control).and_then(|is_init| if is_init { serve::run(&control) } else { Ok(()) }) {
        Ok(()) => 0,
        Err(failure) => {
            // The supervisor may be gone: then nobody is left to hear it.
            links::send(&control, &Report::Failed(failure.into_wire()), &[]).unwrap_or_default();
            1
        }
    }
}
