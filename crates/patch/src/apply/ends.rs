//! Why a hunk's lines are not where they should be, in words: another line, or the same lines with other ends.

use memchr::memmem;

use super::error::ApplyFault;
use crate::hunks::lines;
use crate::visible::shown;

/// Says so if the lines are in the file but for what ends them.
pub(super) fn differ_in_ends(base: &[u8], wanted: &[u8]) -> Option<ApplyFault> {
    let (file, hunk) = (ends(base), ends(wanted));
    let is_there = !wanted.is_empty() && memmem::find(&without_returns(base), &without_returns(wanted)).is_some();
    (file != hunk && is_there).then_some(ApplyFault::LineEnds { file, hunk })
}

/// What ends the lines of a text.
fn ends(text: &[u8]) -> &'static str {
    let all = lines(text);
    let crlf = all.iter().filter(|line| line.ends_with(b"\r\n")).count();
    match crlf {
        0 => "LF",
        count if count == all.iter().filter(|line| line.ends_with(b"\n")).count() => "CR LF",
        _ => "both CR LF and LF",
    }
}

fn without_returns(text: &[u8]) -> Vec<u8> {
    let strip = |line: &[u8]| line.strip_suffix(b"\r\n").map_or_else(|| line.to_vec(), |line| [line, b"\n"].concat());
    lines(text).into_iter().flat_map(strip).collect()
}

/// The first line that differs; `line` is how many are before.
pub(super) fn other_line(line: usize, base: &[u8], wanted: &[u8]) -> ApplyFault {
    let mut is = base.split_inclusive(|byte| *byte == b'\n');
    for (number, said) in (line + 1..).zip(wanted.split_inclusive(|byte| *byte == b'\n')) {
        let found = is.next();
        if found != Some(said) {
            return ApplyFault::OtherLine { line: number, is: found.map_or("not there".into(), named), said: named(said) };
        }
    }
    ApplyFault::NotAtEnd
}

fn named(line: &[u8]) -> String {
    match line.strip_suffix(b"\n") {
        Some(line) => format!("`{}`", shown(line)),
        None => format!("`{}` without a newline at its end", shown(line)),
    }
}
