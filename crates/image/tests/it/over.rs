//! Images that are laid over others: packages are unpacked, never run, and nothing of them hides what the sandbox needs.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use ringfence_image::{Caps, Facts, ImageError, Over};
use ringfence_policy::ImageName;

use crate::support::{Place, Tar, gzip};

fn deb(data: &[u8], ending: &str) -> Vec<u8> {
    let scripts = gzip(&Tar::default().file("postinst", "#!/bin/sh\ntouch /tmp/ran\n").bytes());
    let mut package = b"!<arch>\n".to_vec();
    for (name, content) in [("debian-binary", b"2.0\n".as_slice()), ("control.tar.gz", &scripts), (&format!("data.tar{ending}"), data)] {
        package.extend_from_slice(format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 100644, content.len()).as_bytes());
        package.extend_from_slice(content);
        package.resize(package.len().next_multiple_of(2), b'\n');
    }
    package
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut writer = lzma_rust2::XzWriter::new(Vec::new(), lzma_rust2::XzOptions::with_preset(1)).unwrap();
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap()
}

/// Lays files over a base whose `lib` leads to `usr/lib`.
fn import(place: &Place, files: &[PathBuf], base: &ImageName) -> Result<Facts, ImageError> {
    let base_root = place.path("base");
    fs::create_dir_all(base_root.join("usr/lib")).unwrap();
    symlink("usr/lib", base_root.join("lib")).unwrap_or_default();
    let environment = BTreeMap::from([("PATH".to_owned(), "/opt/bin".to_owned())]);
    let over = Over { base, base_root: &base_root, files, environment };
    place.images.import_over(&over, Some(&"it".parse().unwrap()), Caps::default(), &mut |_, _| {})
}

#[test]
fn a_package_is_unpacked_and_its_scripts_are_not_looked_at() {
    let data = Tar::default().folder("./").folder("./lib").file("./lib/x.so", "lib").hard_link("./usr/bin/x", "./lib/x.so").bytes();
    for (packed, ending) in
        [(gzip(&data), ".gz"), (xz(&data), ".xz"), (zstd::encode_all(data.as_slice(), 1).unwrap(), ".zst"), (data.clone(), "")]
    {
        let place = Place::new();
        let facts = import(&place, &[place.write("x.deb", deb(&packed, ending))], &ImageName::Host).unwrap();
        let root = place.root(&facts);
        assert_eq!(fs::read_to_string(root.join("usr/lib/x.so")).unwrap(), "lib");
        assert!(root.join("usr/bin/x").exists() && !root.join("lib").exists() && !root.join("etc").exists());
        assert_eq!((facts.base, facts.environment.len()), (Some(ImageName::Host), 1));
    }
}

#[test]
fn the_digest_is_of_the_base_and_of_what_is_over_it() {
    let place = Place::new();
    let one = place.write("one.tar", Tar::default().file("opt/a", "a").bytes());
    let base = place.import(&place.write("root.tar", Tar::default().file("b", "b").bytes()), "base").unwrap().digest;
    let over = |base: &ImageName| import(&place, std::slice::from_ref(&one), base).unwrap().digest;
    let (host, other) = (over(&ImageName::Host), over(&ImageName::Digest(base.clone())));
    assert_ne!(host, other);
    assert_eq!(over(&ImageName::Host), host);
    // The base stays as long as something is over it.
    let named = ImageName::Digest(base.clone());
    assert!(matches!(place.images.remove(&named), Err(ImageError::Base { .. })));
    place.images.remove(&ImageName::Digest(other)).unwrap();
    assert_eq!(place.images.remove(&named).unwrap(), Some(base));
}

#[test]
fn what_would_stand_in_the_way_of_a_sandbox_is_refused() {
    for tar in [
        Tar::default().link("tmp", "/etc"),
        Tar::default().file("dev", ""),
        Tar::default().link("usr", "/opt"),
        Tar::default().link("etc", "opt"),
        Tar::default().link("workspace", "/"),
    ] {
        let place = Place::new();
        let error = import(&place, &[place.write("over.tar", tar.bytes())], &ImageName::Host).unwrap_err().to_string();
        assert!(error.contains("in the place of /"), "{error}");
        place.assert_nothing_kept();
    }
}

#[test]
fn a_package_that_is_none_is_refused() {
    let whole = deb(&gzip(&Tar::default().file("a", "a").bytes()), ".gz");
    let mut endless = whole.clone();
    let size = b"!<arch>\n".len() + 48;
    endless[size..size + 10].copy_from_slice(b"9999999999");
    let hostile = deb(&gzip(&Tar::default().file("../a", "a").bytes()), ".gz");
    for (package, cause) in [
        (whole[..whole.len() - 40].to_vec(), "too early"),
        (b"!<arch>\nnothing".to_vec(), "no data"),
        (endless, "no data"),
        (hostile, "leads out"),
        (deb(b"\xfd7zXZ\0broken", ".xz"), "damaged"),
    ] {
        let place = Place::new();
        let error = import(&place, &[place.write("x.deb", package)], &ImageName::Host).unwrap_err().to_string();
        assert!(error.contains(cause), "{cause}: {error}");
        place.assert_nothing_kept();
    }
}
