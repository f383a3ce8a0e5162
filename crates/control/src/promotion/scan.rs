//! The policy scan: what of some edits may not pass, and what needs an approval of its own. Pure.

use std::collections::BTreeSet;

use ringfence_patch::{Edit, secrets};
use ringfence_policy::Target;

/// What the scan found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Scan {
    /// Why it may not pass.
    pub(super) refused: Vec<String>,
    /// Paths whose change needs an approval of its own.
    pub(super) protected: Vec<String>,
    /// Whether tests that are there are changed: checks run with those of the base.
    pub(super) changes_tests: bool,
}

/// Findings that are told one by one.
const TOLD: usize = 20;

/// Scans edits for a target; `known` are values of stored credentials.
pub(super) fn scan(edits: &[Edit], target: &Target, known: &[&[u8]]) -> Scan {
    let mut scan = Scan::default();
    if edits.iter().all(|edit| edit.old == edit.new) {
        scan.refused.push("it changes nothing".to_owned());
    }
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
    let protected: BTreeSet<String> =
        edits.iter().filter(|edit| target.is_protected(&edit.path) || is_changed_test(edit)).map(|edit| shown(&edit.path)).collect();
    scan.protected = protected.into_iter().collect();
    scan
}

/// A path for people: one spelling for each, control bytes and bytes that are not UTF-8 as `%XX`.
pub(super) fn shown(path: &[u8]) -> String {
    ringfence_isolation::OsText::from(path).escaped()
}
