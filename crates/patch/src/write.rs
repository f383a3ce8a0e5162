//! One change written in git's patch format. Reference: git-diff(1), "generating patch text with -p".

use std::io;

use crate::binary::literal;
use crate::hunks::{Sign, hunks, lines};
use crate::ids::{SHORT_ID, blob_id};
use crate::mode::{Kind, Side};
use crate::quote::quoted;

/// A NUL byte this early makes a file binary, as git decides.
const PROBED: usize = 8000;

/// A longer file is written as binary: nobody reads its lines.
const LONGEST_TEXT: usize = 4 << 20;

/// Writes the change of one path; another kind of thing in its place is a removal and an addition. Nothing is written where nothing changed.
pub fn write(path: &[u8], old: Option<Side<'_>>, new: Option<Side<'_>>, out: &mut Vec<u8>) -> io::Result<()> {
    match (old, new) {
        (Some(before), Some(after)) if matches!(before.kind, Kind::Link) != matches!(after.kind, Kind::Link) => {
            write_change(path, old, None, out)?;
            write_change(path, None, new, out)
        }
        (old, new) if old == new => Ok(()),
        (old, new) => write_change(path, old, new, out),
    }
}

fn write_change(path: &[u8], old: Option<Side<'_>>, new: Option<Side<'_>>, out: &mut Vec<u8>) -> io::Result<()> {
    let (a, b) = (quoted("a/", path), quoted("b/", path));
    out.extend([b"diff --git ", a.as_slice(), b" ", &b, b"\n"].concat());
    let suffix = write_modes(old, new, out);
    let (before, after) = (content(old), content(new));
    if before == after && old.is_some() && new.is_some() {
        return Ok(()); // a change of mode alone
    }
    let id = |side: Option<Side<'_>>| blob_id(side.map(|side| side.bytes), SHORT_ID);
    out.extend(format!("index {}..{}{suffix}\n", id(old), id(new)).into_bytes());
    if before == after {
        return Ok(()); // an empty file made or removed
    }
    if is_binary(before) || is_binary(after) {
        out.extend(b"GIT binary patch\n");
        out.extend(literal(after)?);
        out.extend(literal(before)?);
        return Ok(());
    }
    let name = |side: Option<Side<'_>>, name| match side {
        Some(_) => [name, tab_if_spaced(path)].concat(),
        None => b"/dev/null".to_vec(),
    };
    out.extend([b"--- ".as_slice(), &name(old, &a), b"\n+++ ", &name(new, &b), b"\n"].concat());
    write_hunks(before, after, out);
    Ok(())
}

fn content(side: Option<Side<'_>>) -> &[u8] {
    side.map_or(b"", |side| side.bytes)
}

/// The lines about modes; what the line of the ids ends with is returned.
fn write_modes(old: Option<Side<'_>>, new: Option<Side<'_>>, out: &mut Vec<u8>) -> String {
    let mode = |side: Option<Side<'_>>| side.map(|side| side.kind.bits());
    let line = match (mode(old), mode(new)) {
        (None, Some(made)) => format!("new file mode {made:o}\n"),
        (Some(gone), None) => format!("deleted file mode {gone:o}\n"),
        (Some(before), Some(after)) if before != after => format!("old mode {before:o}\nnew mode {after:o}\n"),
        (Some(same), Some(_)) => return format!(" {same:o}"),
        (None, None) => return String::new(),
    };
    out.extend(line.into_bytes());
    String::new()
}

/// A name with a space is followed by a tab, so that its end can be found.
fn tab_if_spaced(path: &[u8]) -> &'static [u8] {
    if path.contains(&b' ') { b"\t" } else { b"" }
}

fn is_binary(bytes: &[u8]) -> bool {
    bytes.len() > LONGEST_TEXT || bytes[..bytes.len().min(PROBED)].contains(&0)
}

fn write_hunks(before: &[u8], after: &[u8], out: &mut Vec<u8>) {
    let (old, new) = (lines(before), lines(after));
    for hunk in hunks(before, after) {
        out.extend(hunk.header().into_bytes());
        hunk.each(&old, &new, |sign, line| put(sign, line, out));
    }
}

fn put(sign: Sign, line: &[u8], out: &mut Vec<u8>) {
    out.push(sign.byte());
    out.extend_from_slice(line);
    if !line.ends_with(b"\n") {
        out.extend(b"\n\\ No newline at end of file\n");
    }
}
