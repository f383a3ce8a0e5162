//! Archives that would do more than unpack into their own folder.

use serde_json::json;
use tar::EntryType;

use super::parcel::{self, Entry};
use super::rig::{OPEN, Rig, has};
use super::shelf::{LONG_AGO, Shelf};

/// What a wheel of these bytes is answered with.
fn wheel(bytes: &[u8], adjust: impl FnOnce(&mut ringfence_egress::packages::IndexLimits)) -> (u16, String) {
    let shelf = Shelf::new();
    shelf.python_file("trick", "trick-1.0-py3-none-any.whl", bytes, json!({}));
    let rig = Rig::with(&shelf, OPEN, Default::default(), |setup| adjust(&mut setup.limits));
    let said = rig.get("/python/files/trick/trick-1.0-py3-none-any.whl");
    if said.status != 200 {
        assert_eq!(rig.refused(), ["trick 1.0 trick-1.0-py3-none-any.whl: safe archives"]);
    }
    (said.status, said.text())
}

#[track_caller]
fn refused(said: (u16, String), why: &str) {
    assert!(said.0 == 403 && said.1.contains(why) && said.1.contains("(rule: safe archives)"), "{said:?}");
}

#[test]
fn pk_10_a_wheel_that_leads_out_of_its_folder_is_refused() {
    for name in ["../evil.py", "a/../../evil.py", "/etc/evil", "..\\evil.py", "C:\\evil"] {
        refused(wheel(&parcel::zip(&[("trick/__init__.py", b""), (name, b"x")]), |_| {}), "which leads out of its folder");
    }
    refused(wheel(&parcel::zip_link("trick/link", "../../outside"), |_| {}), "which leads out of its folder");
    refused(wheel(&parcel::zip_link("trick/link", "/etc/passwd"), |_| {}), "which leads out of its folder");
    assert_eq!(wheel(&parcel::zip_link("trick/link", "../trick/other"), |_| {}).0, 200);
}

#[test]
fn pk_10_a_bomb_and_a_crowd_are_refused_without_being_unpacked() {
    let zeros = vec![0; 32 << 20];
    let bomb = parcel::zip(&[("trick/zeros", &zeros)]);
    assert!(bomb.len() < 1 << 20);
    refused(wheel(&bomb, |limits| limits.archive_bytes = 16 << 20), "unpacks to more than 16777216 bytes");
    let names: Vec<String> = (0..101).map(|n| format!("trick/{n}")).collect();
    let crowd: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), b"".as_slice())).collect();
    refused(wheel(&parcel::zip(&crowd), |limits| limits.archive_entries = 100), "holds more than 100 entries");
    refused(wheel(b"no archive at all", |_| {}), "cannot be read as an archive");
}

/// A reader by name sees one of two entries of the same name; another reader sees both.
#[test]
fn pk_10_two_entries_of_one_name_are_refused() {
    let mut bytes = parcel::zip(&[("trick/a", b"1"), ("trick/b", b"2")]);
    while let Some(at) = bytes.windows(7).position(|window| window == b"trick/b") {
        bytes[at + 6] = b'a';
    }
    refused(wheel(&bytes, |_| {}), "entries of the same name");
}

/// One client goes by the directory at the end of a zip file, another by what streams by.
#[test]
fn pk_10_a_wheel_that_shows_two_readers_two_things_is_refused() {
    let plain = parcel::zip(&[("trick/a", b"1")]);
    let mut renamed = plain.clone();
    let at = renamed.windows(7).rposition(|window| window == b"trick/a").unwrap();
    renamed[at + 6] = b'b';
    refused(wheel(&renamed, |_| {}), "has a directory that does not agree");
    let hidden = parcel::zip(&[("../evil.py", b"x")]);
    let end = hidden.windows(4).position(|window| window == b"PK\x01\x02").unwrap();
    refused(wheel(&[&hidden[..end], &plain].concat(), |_| {}), "does not agree");
}

#[test]
fn pk_10_a_tarball_that_does_more_than_unpack_is_refused() {
    let entry = |name, kind, target| Entry { name, kind, target, bytes: b"" };
    let zeros = vec![0; 8 << 20];
    let tricks = [
        (entry("../evil", EntryType::Regular, ""), "leads out"),
        (entry("/etc/evil", EntryType::Regular, ""), "leads out"),
        (entry("package/link", EntryType::Symlink, "../../etc"), "leads out"),
        (entry("package/link", EntryType::Symlink, "/etc"), "leads out"),
        (entry("package/link", EntryType::Link, "../../etc/passwd"), "leads out"),
        (entry("package/device", EntryType::Char, ""), "neither file, folder nor link"),
        (entry("package/pipe", EntryType::Fifo, ""), "neither file, folder nor link"),
        (Entry::file("package/zeros", &zeros), "unpacks to more than"),
    ];
    for (trick, why) in tricks {
        let shelf = Shelf::new();
        let manifest = json!({ "name": "trick", "version": "1.0.0" });
        let bytes = parcel::tarball(&[Entry::file("package/package.json", manifest.to_string().as_bytes()), trick]);
        shelf.node(&manifest, &bytes, LONG_AGO);
        let rig = Rig::with(&shelf, OPEN, Default::default(), |setup| setup.limits.archive_bytes = 4 << 20);
        let said = rig.get("/node/trick/-/trick-1.0.0.tgz");
        refused((said.status, said.text()), why);
        if why == "unpacks to more than" && has("npm") {
            rig.npm(&["install", "trick"]).fails_saying("(rule: safe archives)");
            assert!(!rig.path("work").join("node_modules/trick").exists());
        }
    }
}
