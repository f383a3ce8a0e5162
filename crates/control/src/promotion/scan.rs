//! The policy scan: what of some edits may not pass, and what needs an approval of its own. Pure.

use std::collections::BTreeSet;

use ringfence_patch::{Edit, plain_or_quoted, secrets};
use ringfence_policy::{Hiding, Target, is_secret};

/// What the scan found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Scan {
    /// Why it may not pass.
    pub(super) refused: Vec<String>,
    /// Paths whose change needs an approval of its own.
    pub(super) protected: Vec<String>,
    /// Files that would be made or changed and that no check sees, for their names are those of secrets.
    pub(super) unseen: Vec<String>,
    /// Tests that are new: the checks run without them.
    pub(super) new_tests: Vec<String>,
    /// Whether tests that are there are changed: checks run with those of the base.
    pub(super) changes_tests: bool,
}

/// Findings that are told one by one.
const TOLD: usize = 20;

/// Scans edits for a target; `known` are values of stored credentials, `collision` says which path the base has in another case.
pub(super) fn scan(edits: &[Edit], target: &Target, known: &[&[u8]], collision: Option<String>) -> Scan {
    let mut scan = Scan::default();
    if edits.iter().all(|edit| edit.old == edit.new) {
        scan.refused.push("it changes nothing".to_owned());
    }
    scan.refused.extend(collision);
    for edit in edits {
        let length = edit.new.as_ref().map_or(0, |blob| blob.bytes.len() as u64);
        if length > target.max_file_bytes {
            let path = shown(&edit.path);
            scan.refused.push(format!("`{path}` would be {length} bytes long; the target takes {} at most", target.max_file_bytes));
        }
    }
    let found = secrets(edits, known);
    let mut hidden = found.iter().filter(|finding| !target.secrets_allowed.iter().any(|glob| glob.matches(&finding.path)));
    let told = hidden.by_ref().take(TOLD);
    scan.refused.extend(told.map(|f| format!("`{}` line {}: looks like a secret ({}): {}", shown(&f.path), f.line, f.rule, f.masked)));
    let more = hidden.count();
    if more > 0 {
        scan.refused.push(format!("and {more} more that look like secrets"));
    }
    let is_changed_test = |edit: &&Edit| target.is_test(&edit.path) && edit.old.is_some();
    scan.changes_tests = edits.iter().any(|edit| is_changed_test(&edit));
    let is_new_test = |edit: &&Edit| target.is_test(&edit.path) && edit.old.is_none();
    scan.new_tests = edits.iter().filter(is_new_test).map(|edit| shown(&edit.path)).collect();
    let is_unseen = |edit: &&Edit| edit.new.is_some() && is_hidden(&edit.path);
    scan.unseen = edits.iter().filter(is_unseen).map(|edit| shown(&edit.path)).collect();
    let protected: BTreeSet<String> = edits
        .iter()
        .filter(|edit| target.is_protected(&edit.path) || is_changed_test(edit) || is_unseen(edit))
        .map(|edit| shown(&edit.path))
        .collect();
    scan.protected = protected.into_iter().collect();
    scan
}

/// True if a sandbox does not show a file of this path, or one of the folders that lead to it.
fn is_hidden(path: &[u8]) -> bool {
    let parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    (0..parts.len()).any(|at| is_secret(if at == 0 { b"" } else { parts[at - 1] }, parts[at]) != Hiding::Shown)
}

/// A path for people, as it is or in quotes: one spelling for each, in which nothing steers a terminal or passes for another line.
pub(super) fn shown(path: &[u8]) -> String {
    plain_or_quoted(path)
}
