//! What init says over its socket. Init is inside the fence, so the supervisor believes nothing of it but the form.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ringfence_isolation::Report;

fuzz_target!(|bytes: &[u8]| {
    let Ok(report) = Report::read(bytes) else { return };
    if let Report::Failed { errno, .. } | Report::NotStarted { errno, .. } = &report {
        assert!((1..=4095).contains(errno), "{errno} is no error number of the kernel's");
    }
    let again = serde_json::to_vec(&report).unwrap();
    assert_eq!(format!("{:?}", Report::read(&again).unwrap()), format!("{report:?}"));
});
