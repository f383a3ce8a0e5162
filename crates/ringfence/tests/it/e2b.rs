//! Unmodified clients of E2B, the oldest and the newest that are pinned, drive sandboxes of the real binary. The scripts are in `clients/python`, and each
//! ends with 1 if one of its checks fails.

use std::path::PathBuf;
use std::process::Command;

use crate::serve::Serving;
use crate::support::{Place, outcome, side_by_side};

const SCRIPTS: [(&str, &str); 5] = [
    ("2.45.1", "sandbox.py"),
    ("2.63.0", "sandbox.py"),
    ("2.45.1", "asynchronous.py"),
    ("2.63.0", "asynchronous.py"),
    ("2.63.0", "interpreter.py"),
];

fn run(serving: &Serving, version: &str, script: &str) {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let python = root.join(format!("target/clients-python-{version}/bin/python"));
    assert!(python.exists(), "{} is missing: `make test` sets it up", python.display());
    let url = format!("http://{}", serving.address);
    let mut command = Command::new(python);
    command.arg(script).current_dir(root.join("clients/python")).env("PYTHONDONTWRITEBYTECODE", "1");
    command.env("E2B_API_URL", &url).env("E2B_SANDBOX_URL", &url).env("E2B_API_KEY", &serving.e2b_key);
    let shown = outcome(command.output().unwrap());
    assert_eq!(shown.status, 0, "{script} with e2b {version}: {}{}", shown.stdout, shown.stderr);
}

#[test]
fn unmodified_clients_drive_sandboxes() {
    for place in Place::each() {
        let serving = Serving::start(&place, &[]);
        side_by_side(&SCRIPTS, 2, |(version, script)| run(&serving, version, script));
        assert_eq!(serving.signal(rustix::process::Signal::TERM), Some(0));
        place.assert_clean();
    }
}
