//! Edits as text: first what a reviewer must not miss, then every file with its lines. The digest of this text is bound into an approval, so the
//! same edits always make the same text, other edits make another (the digests of all content are in it), and nothing is left out for length.

use std::fmt::Write;

use super::comparison::{Comparison, Text, bytes};
use super::flags::is_all_crlf;
use super::{Review, sum_up};
use crate::apply::Edit;
use crate::hunks::Sign;
use crate::ids::digest;
use crate::mode::Blob;
use crate::quote::plain_or_quoted;
use crate::visible::push_visible;

/// What an approver reads. It is safe for a terminal: a line of a file is behind its sign, and what would not be seen is spelled out.
pub fn render(edits: &[Edit]) -> String {
    let comparisons: Vec<Comparison<'_>> = edits.iter().map(Comparison::of).collect();
    let mut out = String::new();
    push_summary(&sum_up(edits, &comparisons), &mut out);
    comparisons.iter().for_each(|comparison| push_file(comparison, &mut out));
    out
}

// Writing to a string cannot fail.
fn push_summary(review: &Review, out: &mut String) {
    let (added, removed) = review.files.iter().fold((0, 0), |sum, file| (sum.0 + file.added, sum.1 + file.removed));
    let (files, added, removed) = (counted(review.files.len(), "file"), counted(added, "line"), counted(removed, "line"));
    let _ = writeln!(out, "{files}, {added} added, {removed} removed");
    for flag in &review.flags {
        let detail = if flag.detail.is_empty() { String::new() } else { format!(": {}", flag.detail) };
        let _ = writeln!(out, "! {} {}{detail}", plain_or_quoted(&flag.path), flag.hazard.says());
    }
    for file in &review.files {
        let lines = if file.is_binary { "binary".to_owned() } else { format!("+{} -{}", file.added, file.removed) };
        let _ = writeln!(out, "* {} {} ({lines}, {} bytes)", file.change.says(), plain_or_quoted(&file.path), file.bytes);
    }
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn push_file(comparison: &Comparison<'_>, out: &mut String) {
    let edit = comparison.edit;
    let _ = writeln!(out, "\n=== {}\n--- {}\n+++ {}", plain_or_quoted(&edit.path), side(&edit.old), side(&edit.new));
    match &comparison.text {
        Some(text) => push_text(text, edit, out),
        None => out.push_str("binary content, not shown\n"),
    }
}

fn side(blob: &Option<Blob>) -> String {
    match blob {
        None => "nothing".to_owned(),
        Some(blob) => format!("mode {:o}, {} bytes, {}", blob.mode.bits(), blob.bytes.len(), digest(&blob.bytes)),
    }
}

fn push_text(text: &Text<'_>, edit: &Edit, out: &mut String) {
    let is_crlf = |side: &Option<Blob>| bytes(side).is_empty() || is_all_crlf(bytes(side));
    let hides_returns = is_crlf(&edit.old) && is_crlf(&edit.new) && !text.hunks.is_empty();
    if hides_returns {
        out.push_str("every line ends with CR LF, before and after\n");
    }
    for hunk in &text.hunks {
        out.push_str(&hunk.header());
        hunk.each(&text.old, &text.new, |sign, line| push_line(sign, line, hides_returns, out));
    }
}

fn push_line(sign: Sign, line: &[u8], hides_returns: bool, out: &mut String) {
    out.push(char::from(sign.byte()));
    let Some(shown) = line.strip_suffix(b"\n") else {
        push_visible(line, out);
        out.push_str("\n\\ No newline at end of file\n");
        return;
    };
    push_visible(shown.strip_suffix(b"\r").filter(|_| hides_returns).unwrap_or(shown), out);
    out.push('\n');
}
