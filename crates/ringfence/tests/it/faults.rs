//! Faults at a chosen step of ringfence itself, by a library that is put before the C library of its process (`faults.c`).

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use tempfile::TempDir;

use crate::support::{Place, binary, outcome};

/// What goes wrong.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// Killed before the call of this number that changes something.
    Kill(u64),
    /// No room from the call of this number on that takes some in the home.
    Full(u64),
    /// The wall clock goes back and forth.
    Clock,
    /// The wall clock is so many seconds ahead, or behind.
    Shift(i64),
}

/// `ringfence` with these arguments and a fault.
pub(crate) fn faulty(place: &Place, fault: Fault, arguments: &[&str]) -> Command {
    let (kind, at) = match fault {
        Fault::Kill(at) => ("kill", at.to_string()),
        Fault::Full(at) => ("full", at.to_string()),
        Fault::Clock => ("clock", "0".to_owned()),
        Fault::Shift(seconds) => ("shift", seconds.to_string()),
    };
    let mut command = preloaded(place, kind);
    command.env("FAULT_AT", at).args(arguments);
    command
}

/// How many calls of a whole run there are at which it can be killed, or find no room.
pub(crate) fn calls(place: &Place, is_for_room: bool, arguments: &[&str]) -> u64 {
    let told = place.path("calls");
    let kind = if is_for_room { "count-full" } else { "count-kill" };
    let done = outcome(preloaded(place, kind).env("FAULT_COUNT", &told).args(arguments).output().unwrap());
    assert_eq!(done.status, 0, "{done:?}");
    let calls = fs::read_to_string(told).unwrap().trim().parse().unwrap();
    assert!(calls > 10, "the binary does not go by way of the C library: {calls} calls");
    calls
}

fn preloaded(place: &Place, kind: &str) -> Command {
    let mut command = place.command(binary());
    command.env("LD_PRELOAD", library()).env("FAULT_KIND", kind).env("FAULT_BELOW", place.home());
    command
}

fn library() -> &'static Path {
    static LIBRARY: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = LIBRARY.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let path = folder.path().join("faults.so");
        let source = format!("{}/tests/it/faults.c", env!("CARGO_MANIFEST_DIR"));
        let built = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"]).arg(&path).arg(source).output().unwrap();
        assert!(built.status.success(), "{built:?}");
        (folder, path)
    });
    path
}
