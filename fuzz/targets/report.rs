//! What init says over its socket, and what it is told. Init is inside the fence, so the supervisor believes nothing of it but the form.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ringfence_wire::{Blueprint, Execution, Order, Report, decode, encode};

fuzz_target!(|bytes: &[u8]| {
    if let Some(report) = decode::<Report>(bytes) {
        if let Report::Failed(failed) | Report::NotStarted { failed, .. } = &report {
            assert!((1..=4095).contains(&failed.errno), "{} is no error number of the kernel's", failed.errno);
        }
        assert_eq!(decode::<Report>(&encode(&report).unwrap()), Some(report));
    }
    // What only init reads, from the supervisor alone: it must still not stop.
    let _ = (decode::<Order>(bytes), decode::<Blueprint>(bytes), decode::<Execution>(bytes));
});
