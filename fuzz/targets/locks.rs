//! A lock file of a project's, by its name and its text: it is read, or refused with the line that is wrong.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ringfence_egress::packages::parse_lock;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for name in ["requirements.txt", "uv.lock", "package-lock.json", "Cargo.lock"] {
        if let Err(error) = parse_lock(name, text) {
            let lines = text.split('\n').count();
            assert!(error.line.is_none_or(|line| (1..=lines).contains(&line)), "{error}");
            assert!(!error.cause.is_empty() && !error.fix.is_empty());
        }
    }
});
