//! One change in git's patch format. Reference: git-diff(1), "generating patch text with -p"; gitformat of names in core.quotePath.

use std::io;

use imara_diff::{Algorithm, Diff, InternedInput, sources::byte_lines};
use sha1::{Digest, Sha1};

use super::super::beneath::Entry;
use super::super::binary::literal;
use crate::image::hex;
use crate::text::OsText;

/// Unchanged lines around a change.
const CONTEXT: u32 = 3;
/// A NUL byte this early makes a file binary, as git decides.
const PROBED: usize = 8000;

/// A longer file is written as binary: nobody reads its lines, and comparing them takes many times its size.
const LONGEST_TEXT: usize = 4 << 20;

/// The mode that git records.
pub(super) fn mode(entry: &Entry) -> Option<u32> {
    match entry {
        Entry::File { is_executable: true, .. } => Some(0o100755),
        Entry::File { is_executable: false, .. } => Some(0o100644),
        Entry::Link { .. } => Some(0o120000),
        Entry::Missing | Entry::Folder | Entry::Special => None,
    }
}

fn content(entry: &Entry) -> &[u8] {
    match entry {
        Entry::File { bytes, .. } | Entry::Link { target: bytes } => bytes,
        Entry::Missing | Entry::Folder | Entry::Special => b"",
    }
}

/// Writes one change.
pub(super) fn write(path: &[u8], old: &Entry, new: &Entry, out: &mut Vec<u8>) -> io::Result<()> {
    let (a, b) = (quoted("a/", path), quoted("b/", path));
    out.extend([b"diff --git ", a.as_slice(), b" ", &b, b"\n"].concat());
    let suffix = match (mode(old), mode(new)) {
        (None, Some(made)) => header(out, format!("new file mode {made:o}")),
        (Some(gone), None) => header(out, format!("deleted file mode {gone:o}")),
        (Some(before), Some(after)) if before != after => header(out, format!("old mode {before:o}\nnew mode {after:o}")),
        (Some(same), Some(_)) => format!(" {same:o}"),
        (None, None) => return Ok(()),
    };
    let (before, after) = (content(old), content(new));
    if before == after && mode(old).is_some() && mode(new).is_some() {
        return Ok(()); // a change of mode alone
    }
    out.extend(format!("index {}..{}{suffix}\n", blob_id(old), blob_id(new)).into_bytes());
    if before == after {
        return Ok(()); // an empty file made or removed
    }
    if is_binary(before) || is_binary(after) {
        out.extend(b"GIT binary patch\n");
        out.extend(literal(after)?);
        out.extend(literal(before)?);
        return Ok(());
    }
    let name = |entry: &Entry, name: Vec<u8>| if mode(entry).is_some() { name } else { b"/dev/null".to_vec() };
    out.extend([b"--- ".as_slice(), &name(old, a), tab_if_spaced(path), b"\n+++ ", &name(new, b), tab_if_spaced(path), b"\n"].concat());
    write_hunks(before, after, out);
    Ok(())
}

fn header(out: &mut Vec<u8>, line: String) -> String {
    out.extend(line.into_bytes());
    out.push(b'\n');
    String::new()
}

/// A name with a space is followed by a tab, so that its end can be found.
fn tab_if_spaced(path: &[u8]) -> &'static [u8] {
    if path.contains(&b' ') { b"\t" } else { b"" }
}

/// A name as git writes it: in quotes with C escapes if it holds anything unusual.
fn quoted(side: &str, path: &[u8]) -> Vec<u8> {
    let is_plain = |byte: &u8| (0x20..0x7f).contains(byte) && *byte != b'"' && *byte != b'\\';
    if path.iter().all(is_plain) {
        return [side.as_bytes(), path].concat();
    }
    let mut out = format!("\"{side}").into_bytes();
    for byte in path {
        match byte {
            b'"' | b'\\' => out.extend([b'\\', *byte]),
            byte if is_plain(byte) => out.push(*byte),
            byte => out.extend(format!("\\{byte:03o}").into_bytes()),
        }
    }
    out.push(b'"');
    out
}

/// A name as it is if it is made of what no list or sentence is made of, else in quotes.
pub(super) fn plain_or_quoted(name: &OsText) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-/+@%~".contains(byte);
    let quoted = quoted("", name.as_bytes());
    match name.as_bytes().iter().all(is_plain) || quoted.starts_with(b"\"") {
        true => String::from_utf8_lossy(&quoted).into_owned(),
        false => format!("\"{}\"", String::from_utf8_lossy(&quoted)),
    }
}

fn is_binary(bytes: &[u8]) -> bool {
    bytes.len() > LONGEST_TEXT || bytes[..bytes.len().min(PROBED)].contains(&0)
}

/// The id of a blob, as git computes it; zeros for nothing.
fn blob_id(entry: &Entry) -> String {
    match mode(entry) {
        None => "0".repeat(40),
        Some(_) => {
            let bytes = content(entry);
            let mut digest = Sha1::new();
            digest.update(format!("blob {}\0", bytes.len()));
            digest.update(bytes);
            hex(&digest.finalize())
        }
    }
}

/// A run of changes that are near enough to share their context.
struct Hunk {
    before: std::ops::Range<u32>,
    after: std::ops::Range<u32>,
    changes: Vec<imara_diff::Hunk>,
}

fn write_hunks(before: &[u8], after: &[u8], out: &mut Vec<u8>) {
    if before.is_empty() || after.is_empty() {
        return write_whole(before, after, out);
    }
    let input = InternedInput::new(byte_lines(before), byte_lines(after));
    let mut diff = Diff::compute(Algorithm::Histogram, &input);
    diff.postprocess_no_heuristic(&input);
    let (old, new) = (lines(before), lines(after));
    for hunk in group(diff.hunks(), old.len() as u32) {
        out.extend(format!("@@ -{} +{} @@\n", span(&hunk.before), span(&hunk.after)).into_bytes());
        let mut at = hunk.before.start;
        for change in &hunk.changes {
            put(b' ', &old[at as usize..change.before.start as usize], out);
            put(b'-', &old[change.before.start as usize..change.before.end as usize], out);
            put(b'+', &new[change.after.start as usize..change.after.end as usize], out);
            at = change.before.end;
        }
        put(b' ', &old[at as usize..hunk.before.end as usize], out);
    }
}

/// A file that is made or emptied: there is nothing to compare.
fn write_whole(before: &[u8], after: &[u8], out: &mut Vec<u8>) {
    let (old, new) = (lines(before), lines(after));
    let all = |lines: &[&[u8]]| span(&(0..lines.len() as u32));
    out.extend(format!("@@ -{} +{} @@\n", all(&old), all(&new)).into_bytes());
    put(b'-', &old, out);
    put(b'+', &new, out);
}

fn group(changes: impl Iterator<Item = imara_diff::Hunk>, old: u32) -> Vec<Hunk> {
    let mut hunks: Vec<Hunk> = Vec::new();
    for change in changes {
        let (start, end) = (change.before.start.saturating_sub(CONTEXT), (change.before.end + CONTEXT).min(old));
        let after_end = change.after.end + (end - change.before.end);
        match hunks.last_mut() {
            Some(last) if start <= last.before.end => {
                last.before.end = end;
                last.after.end = after_end;
                last.changes.push(change);
            }
            // What leads to the first change of a hunk is the same on both sides, and so as long; that of a later one need not be.
            Some(_) | None => {
                let after_start = change.after.start - (change.before.start - start);
                hunks.push(Hunk { before: start..end, after: after_start..after_end, changes: vec![change] });
            }
        }
    }
    hunks
}

/// `line,count`; an empty range names the line before it.
fn span(range: &std::ops::Range<u32>) -> String {
    match range.len() {
        0 => format!("{},0", range.start),
        1 => format!("{}", range.start + 1),
        count => format!("{},{count}", range.start + 1),
    }
}

/// The lines, each with its end.
fn lines(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.split_inclusive(|b| *b == b'\n').collect()
}

fn put(sign: u8, lines: &[&[u8]], out: &mut Vec<u8>) {
    for line in lines {
        out.push(sign);
        out.extend_from_slice(line);
        if !line.ends_with(b"\n") {
            out.extend(b"\n\\ No newline at end of file\n");
        }
    }
}
