//! What takes a promotion back: the old content of exactly the paths that it changed, where they are still as it left them. It goes the same way as any
//! promotion, with a record of its own.

use std::collections::BTreeMap;

use ringfence_patch::{Blob, Edit, Mode};

use super::destination::{Base, Destination};
use super::directory;
use super::document::{Asked, Content, Prepared};
use super::error::PromotionError;
use super::git::{Entries, GitBase, GitPlace};
use super::source::Source;
use crate::run::Runner;

/// The edits that take back what was `done`.
pub(super) fn edits(
    runner: &Runner,
    destination: &Destination<'_>,
    base: &Base,
    asked: &Asked,
    done: &Prepared,
) -> Result<Vec<Edit>, PromotionError> {
    match (destination, base, &done.base, &done.result) {
        (Destination::Git(place), Base::Git(now), Content::Git { commit: before, .. }, Content::Git { commit: after, .. }) => {
            in_git(place, now, before, after, asked)
        }
        (Destination::Directory(_), Base::File(now), Content::File { sha256: before, .. }, Content::File { sha256: after, .. }) => {
            let now = now.as_ref().map(|seen| seen.blob.clone());
            let is_as_left = now.as_ref().map(|blob| ringfence_evidence::Digest::of(&blob.bytes)) == *after;
            let name = directory::name_of(&asked.what.path)?;
            if !is_as_left {
                return Err(changed_since(asked, &name));
            }
            let old = before.as_ref().map(|digest| Source::bytes(runner, digest)).transpose()?;
            let new = old.map(|bytes| Blob { mode: Mode::Plain, bytes });
            Ok(vec![Edit { path: name.into_bytes(), old: now, new }])
        }
        _ => Err(PromotionError::NotUndone { id: undone(asked), cause: "the target is another kind of place by now".into() }),
    }
}

fn in_git(place: &GitPlace<'_>, now: &GitBase, before: &str, after: &str, asked: &Asked) -> Result<Vec<Edit>, PromotionError> {
    place.fetch_history()?;
    let gone =
        |_| PromotionError::NotUndone { id: undone(asked), cause: "the branch has lost the commit: its history was written anew".into() };
    let (before, after) = (place.base_at(before).map_err(gone)?.entries, place.base_at(after).map_err(gone)?.entries);
    let mut blobs = place.blobs()?;
    let mut read = |entries: &Entries, path: &[u8]| -> Result<Option<Blob>, PromotionError> {
        let Some(entry) = entries.get(path) else { return Ok(None) };
        let bytes = blobs.read(&entry.id).map_err(|e| PromotionError::Git { act: "cat-file".into(), cause: e.to_string() })?;
        let mode = Mode::from_bits(entry.mode);
        let mode = mode.ok_or_else(|| PromotionError::NotUndone { id: undone(asked), cause: "it holds more than files".into() })?;
        Ok(Some(Blob { mode, bytes }))
    };
    let mut edits = Vec::new();
    for path in differing(&before, &after) {
        if now.entries.get(path) != after.get(path) {
            return Err(changed_since(asked, &super::scan::shown(path)));
        }
        edits.push(Edit { path: path.to_vec(), old: read(&after, path)?, new: read(&before, path)? });
    }
    Ok(edits)
}

/// The paths at which two trees differ.
fn differing<'a>(before: &'a Entries, after: &'a Entries) -> Vec<&'a [u8]> {
    let mut paths: BTreeMap<&[u8], ()> = BTreeMap::new();
    paths.extend(before.keys().chain(after.keys()).map(|path| (path.as_slice(), ())));
    paths.into_keys().filter(|path| before.get(*path) != after.get(*path)).collect()
}

fn undone(asked: &Asked) -> String {
    asked.undoes.clone().unwrap_or_default()
}

fn changed_since(asked: &Asked, path: &str) -> PromotionError {
    PromotionError::NotUndone { id: undone(asked), cause: format!("`{path}` was changed since; take it back by a change of your own") }
}
