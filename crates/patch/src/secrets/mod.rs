//! Secrets that a change would add: by what they look like, and by the exact values that whoever asks knows.
//!
//! Only what touches an added line is found, so that a secret which is in a repository already does not stop every change around it. A finding
//! never shows more than four characters.

mod rules;

use std::ops::Range;

use memchr::{memchr_iter, memmem};

use crate::apply::Edit;
use crate::line_diff::changes;
use crate::review::{bytes, is_binary};
use rules::{RULES, Rule, Sort, is_mixed, is_placeholder};

/// Characters that a finding shows.
const SHOWN: usize = 4;

/// A secret that would be added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The file.
    pub path: Vec<u8>,
    /// The line of the new file, from 1; 0 is the name of the file itself.
    pub line: usize,
    /// What it looks like.
    pub rule: &'static str,
    /// How it begins, at most four characters, and how long it is.
    pub masked: String,
}

/// The secrets in what edits add. `known` are values that must not leave, whatever they look like.
pub fn secrets(edits: &[Edit], known: &[&[u8]]) -> Vec<Finding> {
    edits.iter().filter(|edit| edit.new.is_some()).flat_map(|edit| of_edit(edit, known)).collect()
}

fn of_edit(edit: &Edit, known: &[&[u8]]) -> Vec<Finding> {
    let new = bytes(&edit.new);
    let added = added(edit);
    let starts: Vec<usize> = std::iter::once(0).chain(memchr_iter(b'\n', new).map(|end| end + 1)).collect();
    let line_of = |byte: usize| starts.partition_point(|start| *start <= byte);
    let is_added = |place: &Range<usize>| touches(&added, line_of(place.start)..line_of(place.end.max(1) - 1) + 1);
    let in_content = found(new, known).into_iter().filter(|hit| is_added(&hit.place)).map(|hit| (line_of(hit.place.start), hit));
    let in_name = found(&edit.path, known).into_iter().filter(|_| edit.old.is_none()).map(|hit| (0, hit));
    let mut findings: Vec<Finding> = in_name
        .chain(in_content)
        .map(|(line, hit)| Finding { path: edit.path.clone(), line, rule: hit.rule, masked: hit.masked })
        .collect();
    findings.sort_by_key(|finding| finding.line);
    findings.dedup();
    findings
}

/// The lines that are added, as ranges of their numbers, in order. Of what is no text all are.
fn added(edit: &Edit) -> Vec<Range<usize>> {
    let (old, new) = (bytes(&edit.old), bytes(&edit.new));
    if edit.old.is_none() || is_binary(old) || is_binary(new) {
        return if old == new && edit.old.is_some() { Vec::new() } else { std::iter::once(1..usize::MAX).collect() };
    }
    changes(old, new).into_iter().map(|change| change.after.start as usize + 1..change.after.end as usize + 1).collect()
}

fn touches(added: &[Range<usize>], lines: Range<usize>) -> bool {
    let first = added.partition_point(|range| range.end <= lines.start);
    added.get(first).is_some_and(|range| range.start < lines.end && !range.is_empty())
}

struct Hit {
    place: Range<usize>,
    rule: &'static str,
    masked: String,
}

fn found(text: &[u8], known: &[&[u8]]) -> Vec<Hit> {
    let by_value = known.iter().filter(|value| !value.is_empty()).flat_map(|value| {
        memmem::find_iter(text, value).map(|start| Hit {
            place: start..start + value.len(),
            rule: "known value",
            masked: masked(b"", value.len()),
        })
    });
    by_value.chain(RULES.iter().flat_map(|rule| by_rule(rule, text))).collect()
}

fn by_rule(rule: &'static Rule, text: &[u8]) -> Vec<Hit> {
    let hit = |place: Range<usize>, shown: &[u8]| Hit { masked: masked(shown, place.len()), place, rule: rule.name };
    let judge = |groups: regex::bytes::Captures<'_>| {
        let whole = groups.get(0)?;
        match rule.sort {
            Sort::Named => Some(hit(whole.range(), whole.as_bytes())),
            Sort::NamedAndMixed => is_mixed(whole.as_bytes()).then(|| hit(whole.range(), whole.as_bytes())),
            Sort::Block => Some(hit(whole.range(), b"")),
            Sort::Value => groups.get(1).filter(|value| !is_placeholder(value.as_bytes())).map(|value| hit(value.range(), b"")),
        }
    };
    rule.pattern.captures_iter(text).filter_map(judge).collect()
}

/// The beginning, and how long it is.
fn masked(shown: &[u8], length: usize) -> String {
    let start = String::from_utf8_lossy(&shown[..shown.len().min(SHOWN)]);
    format!("{start}… ({length} bytes)")
}
