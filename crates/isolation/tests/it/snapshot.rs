//! Private copies: the bytes on record are the bytes that are seen, nothing hidden is copied, and a copy can be written by its owner.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use ringfence_isolation::{Copied, Identity, SnapshotError, Veil, copy_file, copy_tree, scan};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{getegid, geteuid};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::tree::{self, Node, file, link, noise, program, tree};

/// The caller's own ids, so that a copy needs no right that an ordinary user has not.
fn own() -> Identity {
    Identity::Single { uid: geteuid().as_raw(), gid: getegid().as_raw() }
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn copied(from: &Path, to: &Path) -> Result<Copied, String> {
    copy_file(from, to, own(), &mut |_| Ok(())).map_err(|error| error.to_string())
}

#[test]
fn a_file_is_hashed_as_it_is_copied() {
    let room = TempDir::new().unwrap();
    let (from, to) = (room.path().join("from"), room.path().join("to"));
    let bytes = noise(700_000);
    fs::write(&from, &bytes).unwrap();
    fs::set_permissions(&from, fs::Permissions::from_mode(0o4777)).unwrap();
    let mut told = 0;
    let copied = copy_file(&from, &to, own(), &mut |bytes| {
        told += bytes;
        Ok(())
    })
    .unwrap();
    assert_eq!(copied, Copied { bytes: 700_000, sha256: hex(&bytes) });
    assert_eq!((told, fs::read(&to).unwrap()), (700_000, bytes));
    assert_eq!(fs::metadata(&to).unwrap().mode() & 0o7333, 0, "readable and nothing more");
}

#[test]
fn what_is_not_a_file_is_not_copied_and_nothing_waits() {
    let room = TempDir::new().unwrap();
    let path = |name: &str| room.path().join(name);
    mknodat(CWD, path("pipe"), FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
    fs::create_dir(path("folder")).unwrap();
    symlink("pipe", path("link")).unwrap();
    for name in ["pipe", "folder", "link"] {
        let from = path(name);
        let error = copy_file(&from, &path("to"), own(), &mut |_| Ok(())).unwrap_err();
        assert!(matches!(&error, SnapshotError::Kind(kind) if *kind == from), "{error}");
        assert_eq!(error.to_string(), format!("`{}` is neither a regular file nor a folder", from.display()));
    }
    let missing = path("missing");
    assert_eq!(copied(&missing, &path("to")), Err(format!("copying `{}`: No such file or directory (os error 2)", missing.display())));
    assert!(!path("to").exists());
}

#[test]
fn a_copy_never_writes_over_something() {
    let room = TempDir::new().unwrap();
    let (from, to, link) = (room.path().join("from"), room.path().join("to"), room.path().join("link"));
    fs::write(&from, "new").unwrap();
    fs::write(&to, "old").unwrap();
    symlink("elsewhere", &link).unwrap();
    for to in [&to, &link] {
        assert_eq!(copied(&from, to), Err(format!("copying `{}`: File exists (os error 17)", from.display())));
    }
    assert_eq!((fs::read(&to).unwrap(), room.path().join("elsewhere").exists()), (b"old".to_vec(), false));
}

#[test]
fn a_tree_is_copied_but_for_what_is_hidden() {
    let room = TempDir::new().unwrap();
    let (from, to) = (room.path().join("from"), room.path().join("to"));
    let shown = tree([
        (b"a".as_slice(), file("a\n")),
        (b"empty", file("")),
        (b"folder/run", program("#!/bin/sh\n")),
        (b"folder/deep/er/x", file(noise(100_000))),
        (b"link", link("a")),
        (b"out", link("/etc")),
        (b"odd\n\xff", file("odd")),
    ]);
    let mut all = shown.clone();
    all.extend(tree([(".env", file("SECRET=1\n")), ("folder/.aws/credentials", file("secret")), ("folder/pipe", Node::Special)]));
    tree::write(&all, &from);
    fs::create_dir(from.join("nothing-in-it")).unwrap();
    let veil = scan(&from, &[], &mut |_| Ok(())).unwrap().veil;
    copy_tree(&from, &to, &veil, own(), &mut |_| Ok(())).unwrap();
    assert_eq!(tree::read(&to), shown);
    assert!(to.join("nothing-in-it").is_dir() && !to.join("folder/.aws").exists());
}

#[test]
fn a_copy_keeps_modes_and_times_but_not_setuid() {
    let room = TempDir::new().unwrap();
    let (from, to) = (room.path().join("from"), room.path().join("to"));
    let modes = [("plain", 0o640, 0o640), ("program", 0o4755, 0o755), ("sticky", 0o3700, 0o700), ("read-only", 0o444, 0o444)];
    tree::write(&tree(modes.map(|(name, ..)| (name, file(name)))), &from);
    modes.iter().for_each(|(name, mode, _)| fs::set_permissions(from.join(name), fs::Permissions::from_mode(*mode)).unwrap());
    copy_tree(&from, &to, &Veil::default(), own(), &mut |_| Ok(())).unwrap();
    for (name, _, mode) in modes {
        let (old, new) = (fs::metadata(from.join(name)).unwrap(), fs::metadata(to.join(name)).unwrap());
        assert_eq!((new.mode() & 0o7777, new.mtime(), new.mtime_nsec()), (mode, old.mtime(), old.mtime_nsec()), "{name}");
    }
}

/// An ordinary user writes in no folder that is closed, not even in the copy.
#[test]
fn a_folder_that_is_closed_for_writing_is_copied_with_what_is_in_it() {
    let room = TempDir::new().unwrap();
    let (from, to) = (room.path().join("from"), room.path().join("to"));
    let contents = tree([("closed/a", file("a\n")), ("closed/inner/b", file("b\n"))]);
    tree::write(&contents, &from);
    let close = |folder: &Path, mode| {
        let closed = ["closed/inner", "closed"].map(|name| folder.join(name));
        closed.iter().rev().for_each(|path| fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap());
        closed.iter().for_each(|path| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap());
    };
    close(&from, 0o555);
    let done = copy_tree(&from, &to, &Veil::default(), own(), &mut |_| Ok(())).map_err(|error| error.to_string());
    let mode = |name: &str| fs::metadata(to.join(name)).map(|meta| (meta.mode() & 0o7777, meta.mtime())).ok();
    let meta = fs::metadata(from.join("closed")).unwrap();
    let (found, expected) = (["closed", "closed/inner"].map(mode), [Some((0o555, meta.mtime())); 2]);
    close(&from, 0o755);
    assert_eq!(done, Ok(()));
    assert_eq!((tree::read(&to), found), (contents, expected));
    close(&to, 0o755);
}

#[test]
fn a_scan_of_a_copy_shows_what_a_scan_of_the_folder_shows() {
    let room = TempDir::new().unwrap();
    let (from, to) = (room.path().join("from"), room.path().join("to"));
    tree::write(&tree([("a/b", file("b\n")), ("c", program("c\n")), ("d", link("c")), (".env", file("x"))]), &from);
    let before = scan(&from, &[], &mut |_| Ok(())).unwrap();
    copy_tree(&from, &to, &before.veil, own(), &mut |_| Ok(())).unwrap();
    let after = scan(&to, &[], &mut |_| Ok(())).unwrap();
    assert_eq!((after.listing_sha256, after.files, after.bytes), (before.listing_sha256, before.files, before.bytes));
    assert_eq!(after.hidden, []);
}
