//! Whatever the entries of two layers are: nothing outside changes, and what is kept is files, folders and links that give no rights.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use ringfence_image::{Caps, Over};
use ringfence_policy::ImageName;

use crate::support::{Place, Tar};

const KINDS: &[u8] = b"0000000000011222222555555734";
/// What a layer may hold, and what refuses it: seldom, so that others are kept.
const NAMES: &[&str] =
    &["a", "b", "c", "d", "a/b", "a/b/c", "./a", "a//b/", "lib/a", ".wh.a", "a/.wh.b", "a/.wh..wh..opq", ".wh..wh..opq", "usr/lib/a"];
const ODD_NAMES: &[&str] = &["..", "a/../b", "../victim/file", "/a", ".wh...", "a/.wh.", ".wh.a/b", "tmp", "usr"];
const LINKS: &[&str] = &["a", "b", "../victim", "../../victim/file", "/etc/passwd", "", ".", "a/b", "lib/a", "VICTIM", "VICTIM/file"];

fn entries() -> impl Strategy<Value = Vec<(u8, &'static str, &'static str)>> {
    let names = prop_oneof![30 => select(NAMES), 1 => select(ODD_NAMES)];
    vec((select(KINDS), names, select(LINKS)), 0..6)
}

fn layer(place: &Place, name: &str, entries: &[(u8, &str, &str)]) -> std::path::PathBuf {
    let victim = place.path("victim").display().to_string();
    let add = |tar: Tar, (kind, name, link): &(u8, &str, &str)| {
        let content = if *kind == b'0' { b"content".as_slice() } else { b"" };
        tar.entry(*kind, name, &link.replace("VICTIM", &victim), content)
    };
    place.write(name, entries.iter().fold(Tar::default(), add).bytes())
}

fn check(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let (path, meta) = (entry.path(), fs::symlink_metadata(entry.path()).unwrap());
        let mode = meta.mode() & 0o7777;
        assert!(!entry.file_name().as_encoded_bytes().starts_with(b".wh."), "{}", path.display());
        if meta.is_dir() {
            assert_eq!(mode, 0o755, "{}", path.display());
            check(&path);
        } else if meta.is_file() {
            assert!(mode == 0o755 || mode == 0o644, "{} {mode:o}", path.display());
            assert!(matches!(fs::read(&path).unwrap().as_slice(), b"" | b"content"), "{}", path.display());
        } else {
            assert!(meta.is_symlink(), "{}", path.display());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn nothing_outside_changes_whatever_the_entries_are(below in entries(), above in entries()) {
        let place = Place::new();
        let victim = place.write("victim/file", "ORIGINAL");
        let files = [layer(&place, "below.tar", &below), layer(&place, "above.tar", &above)];
        let over = Over { base: &ImageName::Host, base_root: &place.path("victim"), files: &files, environment: BTreeMap::new() };
        match place.images.import_over(&over, None, Caps::default(), &mut |_, _| {}) {
            Ok(facts) => check(&place.root(&facts)),
            Err(_) => place.assert_nothing_kept(),
        }
        prop_assert_eq!(fs::read_to_string(&victim).unwrap(), "ORIGINAL");
        prop_assert_eq!((fs::metadata(&victim).unwrap().nlink(), fs::read_dir(place.path("victim")).unwrap().count()), (1, 1));
    }
}
