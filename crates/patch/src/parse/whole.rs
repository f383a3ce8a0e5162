//! What must be so between the files of a patch: one change a path, and no path that is a file and a folder afterwards.

use std::collections::HashMap;

use super::error::{Fault, PatchError};
use crate::patch::Change;
use crate::paths::{in_order, is_within};
use crate::quote::plain_or_quoted;

pub(super) fn check(changes: &[Change]) -> Result<(), PatchError> {
    has_one_change_a_path(changes)?;
    has_no_file_in_a_file(changes)
}

/// A copy's source is not changed by the copy, but whoever reads the patch would have to know which of its forms is copied.
fn has_one_change_a_path(changes: &[Change]) -> Result<(), PatchError> {
    let mut seen: HashMap<&[u8], usize> = HashMap::new();
    for change in changes {
        let paths = [Some(change.path.as_slice()), change.removed()];
        let mut paths: Vec<&[u8]> = paths.into_iter().flatten().collect();
        paths.dedup();
        for path in paths {
            if let Some(line) = seen.insert(path, change.line) {
                return Err(PatchError { line: change.line, fault: Fault::TwoChanges { name: plain_or_quoted(path), line } });
            }
        }
    }
    Ok(())
}

fn has_no_file_in_a_file(changes: &[Change]) -> Result<(), PatchError> {
    let mut kept: Vec<&Change> = changes.iter().filter(|change| change.removed() != Some(&change.path)).collect();
    kept.sort_by(|a, b| in_order(&a.path, &b.path));
    for pair in kept.windows(2) {
        if is_within(&pair[1].path, &pair[0].path) {
            let line = pair[0].line.max(pair[1].line);
            let fault = Fault::FileAndFolder { name: plain_or_quoted(&pair[0].path), inner: plain_or_quoted(&pair[1].path) };
            return Err(PatchError { line, fault });
        }
    }
    Ok(())
}
