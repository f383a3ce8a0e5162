//! Lays a tree out as files for a check, byte for byte: no attribute, filter or line-end setting has a say, and nothing is written through a link.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::Path;

use ringfence_patch::{Edit, Mode};
use ringfence_policy::Target;

use super::git::{GitBase, TreeEntry};

/// What stands at one path of the tree that is checked.
enum Source<'a> {
    Base(&'a TreeEntry),
    Edited(&'a Edit),
}

/// Lays out what edits make of a base; files that are tests are those of the base, and those that the base has not are not there.
pub(super) fn tree(
    base: &GitBase,
    edits: &[Edit],
    target: &Target,
    folder: &Path,
    blob: &mut dyn FnMut(&str) -> io::Result<Vec<u8>>,
) -> io::Result<()> {
    let mut sources: BTreeMap<&[u8], Source<'_>> =
        base.entries.iter().map(|(path, entry)| (path.as_slice(), Source::Base(entry))).collect();
    for edit in edits.iter().filter(|edit| !target.is_test(&edit.path)) {
        match edit.new {
            Some(_) => sources.insert(&edit.path, Source::Edited(edit)),
            None => sources.remove(edit.path.as_slice()),
        };
    }
    let mut links = Vec::new();
    for (path, source) in &sources {
        let place = folder.join(OsStr::from_bytes(path));
        match source {
            Source::Base(entry) if entry.is_link() => links.push((place, blob(&entry.id)?)),
            Source::Base(entry) if entry.is_repository() => fs::create_dir_all(place)?,
            Source::Base(entry) => write(&place, &blob(&entry.id)?, entry.mode == 0o100_755)?,
            Source::Edited(edit) => write_edited(&place, edit)?,
        }
    }
    // Links come last: there is nothing left to be written through them.
    links.into_iter().try_for_each(|(place, target)| {
        make_parent(&place)?;
        symlink(OsStr::from_bytes(&target), place)
    })
}

/// Lays out the files of some edits alone.
pub(super) fn files(edits: &[Edit], folder: &Path) -> io::Result<()> {
    edits.iter().try_for_each(|edit| write_edited(&folder.join(OsStr::from_bytes(&edit.path)), edit))
}

fn write_edited(place: &Path, edit: &Edit) -> io::Result<()> {
    edit.new.as_ref().map_or(Ok(()), |blob| write(place, &blob.bytes, blob.mode == Mode::Executable))
}

fn write(place: &Path, bytes: &[u8], is_executable: bool) -> io::Result<()> {
    make_parent(place)?;
    let mode = if is_executable { 0o755 } else { 0o644 };
    OpenOptions::new().write(true).create_new(true).mode(mode).open(place)?.write_all(bytes)
}

fn make_parent(place: &Path) -> io::Result<()> {
    place.parent().map_or(Ok(()), fs::create_dir_all)
}
