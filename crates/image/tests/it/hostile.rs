//! Archives that want more than to be unpacked.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use crate::support::{Place, Tar, gzip, header};

fn refused(tar: Tar) -> String {
    let place = Place::new();
    let victim = place.write("victim/file", "ORIGINAL");
    let error = place.unpack(tar).unwrap_err().to_string();
    assert_eq!(fs::read_to_string(victim).unwrap(), "ORIGINAL");
    assert_eq!(fs::read_dir(place.path("victim")).unwrap().count(), 1);
    place.assert_nothing_kept();
    error
}

#[test]
fn a_path_that_leads_out_is_refused() {
    for name in ["../x", "a/../../x", "..", "a/..", "./../victim/new"] {
        assert!(refused(Tar::default().file(name, "x")).contains("leads out"), "{name}");
    }
    assert!(refused(Tar::default().file("/etc/x", "x")).contains("absolute"));
    assert!(refused(Tar::default().folder("a").file("a/../../victim/file", "x")).contains("leads out"));
}

#[test]
fn a_name_that_is_no_name_is_refused() {
    assert!(refused(Tar::default().file(".", "x")).contains("in the place of the root"));
    assert!(refused(Tar::default().link("./", "/tmp")).contains("not a folder"));
    let deep = "a/".repeat(200);
    assert!(refused(Tar::default().entry(b'L', "long", "", deep.as_bytes()).folder("x")).contains("128 folders deep"));
    let long = format!("{}\0", "n".repeat(300));
    assert!(refused(Tar::default().entry(b'L', "long", "", long.as_bytes()).file("x", "")).contains("255 bytes"));
    for (path, cause) in [("a\0b", "NUL"), ("a\nb/../../victim/x", "leads out")] {
        assert!(refused(Tar::default().said("path", path).file("x", "")).contains(cause));
    }
}

#[test]
fn a_path_comes_once_in_a_layer_but_for_files_and_folders() {
    let place = Place::new();
    let root = place.unpack(Tar::default().folder("d").file("f", "first").file("f", "last").folder("d").file("d/x", "x")).unwrap();
    assert_eq!(fs::read_to_string(root.join("f")).unwrap(), "last");
    for tar in [
        Tar::default().file("x", "a").link("x", "/etc/passwd"),
        Tar::default().link("x", "/etc/passwd").file("x", "a"),
        Tar::default().link("x", "a").link("x", "b"),
        Tar::default().file("x", "a").folder("x"),
        Tar::default().folder("x").link("x", "../victim").file("x/new", "a"),
        Tar::default().file("a/x", "a").link("a", "../victim"),
        Tar::default().file("y", "").file("x", "a").hard_link("x", "y"),
        Tar::default().file("x", "a").entry(b'6', "x", "", b""),
    ] {
        assert!(refused(tar).contains("comes twice"));
    }
}

#[test]
fn nothing_that_gives_rights_is_kept() {
    let place = Place::new();
    let capability = "\u{1}\0\0\u{2}\0\u{20}\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    let tar = Tar::default().folder("bin").said("SCHILY.xattr.security.capability", capability).file("bin/tool", "x");
    let root = place.unpack(tar).unwrap();
    let file = fs::metadata(root.join("bin/tool")).unwrap();
    assert_eq!(file.permissions().mode() & 0o7777, 0o755);
    assert_eq!((file.uid(), file.mtime()), (rustix::process::geteuid().as_raw(), 1_000_000_000));
    assert_eq!(fs::metadata(root.join("bin")).unwrap().permissions().mode() & 0o7777, 0o755);
    let mut names = [0; 256];
    assert_eq!(rustix::fs::listxattr(root.join("bin/tool"), &mut names).unwrap(), 0);
}

#[test]
fn devices_and_pipes_are_left_out_and_counted() {
    let place = Place::new();
    let tar = Tar::default()
        .folder("dev")
        .entry(b'3', "dev/sda", "", b"")
        .entry(b'4', "dev/sdb", "", b"")
        .entry(b'6', "pipe", "", b"")
        .file("f", "x");
    let facts = place.import(&place.write("root.tar", tar.bytes()), "it").unwrap();
    assert_eq!((facts.files, facts.left_out), (2, 3));
    let names: Vec<_> = fs::read_dir(place.root(&facts).join("dev")).unwrap().collect();
    assert!(names.is_empty() && !place.root(&facts).join("pipe").exists());
    assert!(refused(Tar::default().entry(b'M', "x", "", b"")).contains("unknown kind"));
}

#[test]
fn an_archive_that_was_cut_or_changed_is_refused() {
    let place = Place::new();
    let whole = Tar::default().file("a", &"x".repeat(5000));
    let refuse = |bytes: &[u8]| place.import(&place.write("cut", bytes), "it").unwrap_err().to_string();
    assert!(refuse(&whole.clone().cut()).contains("too early"));
    assert!(refuse(&whole.clone().cut()[..2000]).contains("middle of an entry"));
    let packed = gzip(&whole.clone().bytes());
    assert!(refuse(&packed[..packed.len() / 2]).contains("damaged"));
    let mut changed = packed.clone();
    let at = changed.len() - 6;
    changed[at] ^= 1;
    assert!(refuse(&changed).contains("damaged"));
    let mut sum = whole.bytes();
    sum[0] ^= 1;
    assert!(refuse(&sum).contains("sum of a header"));
    assert!(refuse(b"#!/bin/sh\n").contains("too early"));
    place.assert_nothing_kept();
}

#[test]
fn headers_about_headers_are_bounded_and_come_once() {
    assert!(refused(Tar::default().entry(b'L', "l", "", b"a").entry(b'L', "l", "", b"b").file("x", "")).contains("two headers"));
    assert!(refused(Tar::default().entry(b'g', "g", "", b"11 path=ab\n").file("x", "")).contains("all entries at once"));
    assert!(refused(Tar::default().entry(b'x', "x", "", b"99 path=ab\n").file("x", "")).contains("does not read"));
    assert!(refused(Tar::default().entry(b'x', "x", "", b"22 GNU.sparse.major=1\n").file("x", "")).contains("holes"));
    assert!(refused(Tar::default().entry(b'L', "l", "", b"a")).contains("announced"));
    let place = Place::new();
    let endless = [header(b'L', "l", "", 1 << 40).as_bytes().as_slice(), &[b'a'; 4096]].concat();
    let error = place.import(&place.write("endless", endless), "it").unwrap_err().to_string();
    assert!(error.contains("longer than any name"), "{error}");
}
