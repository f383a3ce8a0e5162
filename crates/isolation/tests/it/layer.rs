//! The upper layer of a union says what changed: the patch read off it is the patch of a full comparison, which git has judged.
//!
//! The layers are made by hand as overlayfs makes them (Documentation/filesystems/overlayfs.rst): what was written, a character device 0:0 for
//! what was removed, and a mark on a folder that replaces one of the base.

use std::fs;
use std::path::Path;

use ringfence_isolation::PatchSummary;
use rustix::fs::{CWD, FileType, Mode, XattrFlags, mknodat, setxattr};

use crate::patch::Room;
use crate::tree::{self, Tree, at, file, link, program, tree};

/// Makes the layer that turns `base` into `changed`.
pub(crate) fn write(base: &Tree, changed: &Tree, layer: &Path) {
    let written = changed.iter().filter(|(path, node)| base.get(*path) != Some(node));
    tree::write(&written.map(|(path, node)| (path.clone(), node.clone())).collect(), layer);
    for path in base.keys().filter(|path| !changed.contains_key(*path)) {
        if let Some(gone) = topmost_gone(path, changed) {
            white_out(layer, gone);
        }
    }
}

/// The first part of a path that is no more. None if something else stands there, or above.
fn topmost_gone<'a>(path: &'a [u8], changed: &Tree) -> Option<&'a [u8]> {
    let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| end).chain([path.len()]);
    let is_folder = |path: &[u8]| changed.keys().any(|other| other.strip_prefix(path).is_some_and(|rest| rest.starts_with(b"/")));
    let first = ends.map(|end| &path[..end]).find(|part| !is_folder(part))?;
    (!changed.contains_key(first)).then_some(first)
}

/// Marks a path as removed; one removal of a folder may be asked for by each file in it.
fn white_out(layer: &Path, path: &[u8]) {
    let path = at(layer, path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    if fs::symlink_metadata(&path).is_err() {
        mknodat(CWD, &path, FileType::CharacterDevice, Mode::empty(), 0).unwrap();
    }
}

/// Marks a folder as replacing the base's.
fn make_opaque(layer: &Path, path: &str) {
    let path = layer.join(path);
    fs::create_dir_all(&path).unwrap();
    setxattr(&path, "user.overlay.opaque", b"y", XattrFlags::empty()).unwrap();
}

/// Each kind of change once.
fn sample() -> (Tree, Tree) {
    let base = tree([
        ("edited", file("a\n")),
        ("removed", file("a\n")),
        ("folder/removed", file("a\n")),
        ("folder/same", file("a\n")),
        ("gone/a", file("a\n")),
        ("gone/b/c", file("a\n")),
        ("to-file/a", file("a\n")),
        ("to-folder", file("a\n")),
        ("to-link", file("a\n")),
        ("same", file("a\n")),
    ]);
    let changed = tree([
        ("edited", file("b\n")),
        ("folder/same", file("a\n")),
        ("folder/new", program("a\n")),
        ("to-file", file("a\n")),
        ("to-folder/a/b", file("a\n")),
        ("to-link", link("same")),
        ("same", file("a\n")),
    ]);
    (base, changed)
}

#[test]
fn every_kind_of_change_is_read_off_the_layer() {
    let (base, changed) = sample();
    let room = Room::new(&base, &changed);
    let layer = room.folder.path().join("layer");
    write(&base, &changed, &layer);
    let (patch, summary) = room.patch_from(Some(&layer));
    assert_eq!((patch.clone(), summary), room.patch());
    assert_eq!(room.applied(&base, &patch), Ok(changed));
}

#[test]
fn a_folder_that_replaces_the_bases_removes_what_was_in_it() {
    let base = tree([("a/old", file("a\n")), ("a/same", file("a\n")), ("a/b/c", file("a\n")), ("d", file("a\n"))]);
    let changed = tree([("a/new", file("a\n")), ("a/same", file("a\n")), ("d", file("a\n"))]);
    let room = Room::new(&base, &changed);
    let layer = room.folder.path().join("layer");
    tree::write(&tree([("a/new", file("a\n")), ("a/same", file("a\n"))]), &layer);
    make_opaque(&layer, "a");
    assert_eq!(room.patch_from(Some(&layer)), room.patch());
    assert_eq!(room.patch().1, PatchSummary { changed: 3, ..PatchSummary::default() });
}

#[test]
fn a_file_written_with_the_same_bytes_has_not_changed() {
    let base = tree([("a", file("a\n")), ("b/c", program("c\n"))]);
    let room = Room::new(&base, &base);
    let layer = room.folder.path().join("layer");
    tree::write(&base, &layer);
    assert_eq!(room.patch_from(Some(&layer)), (b"ringfence changes: 0 paths\n".to_vec(), PatchSummary::default()));
}
