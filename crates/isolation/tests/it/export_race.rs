//! Export while a program that should be dead swaps what it looks at: not one byte of the bait leaves, and nothing waits.
//!
//! The swap exchanges two names in one step, so that the name always stands for one or the other.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::thread;

use ringfence_isolation::{Export, ExportLimits};
use rustix::fs::{CWD, FileType, Mode, RenameFlags, mknodat, renameat_with};
use tempfile::TempDir;

use crate::export::export;
use crate::tree::{file, tree, write};

const ROUNDS: usize = 500;
/// Of one length, so that no check of sizes can tell them apart.
const HONEST: &[u8] = b"honest";
const BAIT: &[u8] = b"bait!!";

fn exchange(a: &Path, b: &Path) {
    renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE).unwrap();
}

/// What left in many exports while two names were swapped as fast as can be.
fn while_swapped(workspace: &Path, a: &str, b: &str, globs: &[&str]) -> Vec<(Export, Vec<Vec<u8>>)> {
    let (a, b) = (workspace.join(a), workspace.join(b));
    thread::scope(|scope| {
        let limits = ExportLimits { artifacts: 100, bytes: 1 << 20 };
        let exports = scope.spawn(move || (0..ROUNDS).map(|_| export(workspace, globs, limits)).collect());
        while !exports.is_finished() {
            exchange(&a, &b);
        }
        exports.join().unwrap()
    })
}

/// Every content of which a byte left.
fn contents(left: Vec<(Export, Vec<Vec<u8>>)>) -> Vec<Vec<u8>> {
    left.into_iter().flat_map(|(_, contents)| contents).collect()
}

/// The lengths of what became an artifact: what a sink took of a file that changed under its hands does not.
fn lengths(left: &[(Export, Vec<Vec<u8>>)]) -> BTreeSet<u64> {
    left.iter().flat_map(|(export, _)| &export.artifacts).map(|artifact| artifact.stored.bytes).collect()
}

/// A workspace and, beside it, a folder with the bait.
fn room() -> (TempDir, TempDir) {
    let (room, outside) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    fs::write(outside.path().join("victim"), BAIT).unwrap();
    (room, outside)
}

#[test]
fn a_file_swapped_for_a_symlink_never_leaks_the_bait() {
    let (room, outside) = room();
    write(&tree([("victim", file(HONEST))]), room.path());
    symlink(outside.path().join("victim"), room.path().join("spare")).unwrap();
    let left = contents(while_swapped(room.path(), "victim", "spare", &["victim", "sp*"]));
    assert!(left.iter().all(|bytes| bytes == HONEST));
    assert!(!left.is_empty(), "the file itself leaves now and then");
    // Without the care, the bait is there to be read.
    let mut seen = Vec::new();
    for _ in 0..2 {
        seen.push(fs::read(room.path().join("victim")).unwrap());
        exchange(&room.path().join("victim"), &room.path().join("spare"));
    }
    seen.sort();
    assert_eq!(seen, [BAIT, HONEST]);
}

#[test]
fn a_folder_swapped_for_a_symlink_never_leaks_the_bait() {
    let (room, outside) = room();
    write(&tree([("out/victim", file(HONEST))]), room.path());
    symlink(outside.path(), room.path().join("spare")).unwrap();
    let left = contents(while_swapped(room.path(), "out", "spare", &["out/victim", "spare/**", "out/v*"]));
    assert!(left.iter().all(|bytes| bytes == HONEST));
    assert!(!left.is_empty(), "the file itself leaves now and then");
}

#[test]
fn a_file_swapped_for_a_pipe_never_makes_the_export_wait() {
    let room = TempDir::new().unwrap();
    write(&tree([("victim", file(HONEST))]), room.path());
    mknodat(CWD, room.path().join("spare"), FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
    let left = while_swapped(room.path(), "victim", "spare", &["victim", "sp*"]);
    assert!(lengths(&left).is_subset(&BTreeSet::from([0, HONEST.len() as u64])), "{:?}", lengths(&left));
}

#[test]
fn a_file_swapped_for_a_longer_one_leaves_whole_or_not_at_all() {
    let room = TempDir::new().unwrap();
    let long = [b'x'; 100_000];
    write(&tree([("victim", file(HONEST)), ("spare", file(long))]), room.path());
    let left = while_swapped(room.path(), "victim", "spare", &["victim"]);
    assert!(lengths(&left).is_subset(&BTreeSet::from([HONEST.len() as u64, long.len() as u64])), "{:?}", lengths(&left));
}

/// Check XA-10.
#[test]
fn a_file_that_grows_leaves_with_the_bytes_that_were_hashed() {
    let room = TempDir::new().unwrap();
    let room = room.path();
    write(&tree([("log", file(HONEST))]), room);
    let limits = ExportLimits { artifacts: 10, bytes: 1 << 20 };
    let length = || fs::metadata(room.join("log")).unwrap().len();
    let left = thread::scope(|scope| {
        let again = |round: &usize| *round < ROUNDS || length() <= limits.bytes;
        let exports = scope.spawn(move || (0..).take_while(again).map(|_| export(room, &["log"], limits)).collect::<Vec<_>>());
        let mut log = fs::OpenOptions::new().append(true).open(room.join("log")).unwrap();
        while !exports.is_finished() {
            log.write_all(&[b'x'; 700]).unwrap();
        }
        exports.join().unwrap()
    });
    for (export, contents) in left {
        let of_artifacts: Vec<u64> = export.artifacts.iter().map(|artifact| artifact.stored.bytes).collect();
        assert!(of_artifacts.iter().all(|bytes| *bytes <= limits.bytes), "{of_artifacts:?}");
        assert!(of_artifacts.iter().all(|bytes| contents.iter().any(|content| content.len() as u64 == *bytes)), "{of_artifacts:?}");
    }
}
