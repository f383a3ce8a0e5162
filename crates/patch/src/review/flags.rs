//! Which hazards are in one edit. Every question is asked of the bytes before and after, never of a patch's words.

use super::comparison::{Comparison, Text, bytes, is_binary};
use super::hazard::{Flag, Hazard};
use super::lost_tests::lost_tests;
use super::programs::starts_programs;
use super::seen;
use crate::hunks::lines;
use crate::ids::digest;
use crate::mode::Mode;
use crate::names::folded;

/// A longer line is not read to its end.
const LONG_LINE: usize = 1000;
/// A longer file is big.
const BIG_FILE: usize = 1 << 20;
/// More changed lines of one file are not all read.
const LONG_DIFF: usize = 1000;

/// Everything about one edit that a reviewer could miss.
pub(super) fn flags(comparison: &Comparison<'_>) -> Vec<Flag> {
    let path = &comparison.edit.path;
    let groups = [of_name(path), of_mode(comparison), of_content(comparison), of_lines(comparison), of_ends(comparison)];
    groups.into_iter().flatten().map(|(hazard, detail)| Flag { hazard, path: path.clone(), detail }).collect()
}

type Found = Vec<(Hazard, String)>;

/// The hazards that are so, without more words.
fn plain<const N: usize>(hazards: [(Hazard, bool); N]) -> Found {
    hazards.into_iter().filter(|(_, is_so)| *is_so).map(|(hazard, _)| (hazard, String::new())).collect()
}

fn of_name(path: &[u8]) -> Found {
    let careless: Vec<String> = path.split(|byte| *byte == b'/').map(folded).collect();
    let mut found = plain([
        (Hazard::StartsPrograms, starts_programs(path) || starts_programs(careless.join("/").as_bytes())),
        (Hazard::GitMetadata, careless.iter().any(|part| part.starts_with(".git"))),
    ]);
    let what = [seen::hidden(path), seen::mixed(path).map(|word| format!("letters of several scripts in {word}"))];
    let what: Vec<String> = what.into_iter().flatten().chain(odd_spaces(path)).collect();
    if !what.is_empty() {
        found.push((Hazard::StrangeName, what.join(", ")));
    }
    found
}

fn odd_spaces(path: &[u8]) -> Option<String> {
    let is_odd = |part: &[u8]| part != part.trim_ascii() || part.ends_with(b".") || part.contains(&b'\\');
    path.split(|byte| *byte == b'/').any(is_odd).then(|| "a space or dot at an end, or a backslash".to_owned())
}

fn of_mode(comparison: &Comparison<'_>) -> Found {
    let edit = comparison.edit;
    let [old, new] = [&edit.old, &edit.new].map(|side| side.as_ref().map(|blob| blob.mode));
    plain([
        (Hazard::BecomesExecutable, new == Some(Mode::Executable) && old != new),
        (Hazard::StopsBeingExecutable, new == Some(Mode::Plain) && old == Some(Mode::Executable)),
        (Hazard::ModeOnly, old.is_some() && new.is_some() && bytes(&edit.old) == bytes(&edit.new)),
    ])
}

fn of_content(comparison: &Comparison<'_>) -> Found {
    let edit = comparison.edit;
    let (old, new) = (bytes(&edit.old), bytes(&edit.new));
    let is_blank = |text: &[u8]| text.trim_ascii().is_empty();
    let mut found = plain([
        (Hazard::Removed, edit.new.is_none()),
        (Hazard::Emptied, edit.new.is_some() && is_blank(new) && !is_blank(old)),
        (Hazard::LongDiff, comparison.text.as_ref().is_some_and(|text| text.added + text.removed > LONG_DIFF)),
    ]);
    for (is_so, verb, content) in [(edit.old.is_some() && is_binary(old), "was", old), (edit.new.is_some() && is_binary(new), "is", new)] {
        if is_so && old != new {
            found.push((Hazard::Binary, format!("{verb} {} bytes, {}", content.len(), digest(content))));
        }
    }
    if new.len() > BIG_FILE {
        found.push((Hazard::BigFile, format!("{} bytes", new.len())));
    }
    found.extend(lost_tests(&edit.path, old, new).map(|what| (Hazard::TestsLost, what)));
    found
}

fn of_lines(comparison: &Comparison<'_>) -> Found {
    let Some(text) = &comparison.text else { return Vec::new() };
    let added = text.added_lines();
    let mut found = Vec::new();
    let mut note = |hazard, what: Vec<(usize, Option<String>)>| {
        if !what.is_empty() {
            found.push((hazard, listed(&what)));
        }
    };
    let each = |judge: fn(&[u8]) -> Option<String>| -> Vec<(usize, Option<String>)> {
        added.iter().filter_map(|(number, line)| judge(without_end(line)).map(|what| (*number, Some(what)))).collect()
    };
    note(Hazard::HiddenCharacters, each(seen::hidden));
    note(Hazard::MixedScripts, each(seen::mixed));
    note(Hazard::LongLine, each(|line| (line.len() > LONG_LINE).then(|| format!("{} bytes", line.len()))));
    found
}

/// A line without LF or CR LF.
fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Lines by their numbers; of very many the first, and how many there are.
fn listed(lines: &[(usize, Option<String>)]) -> String {
    const NAMED: usize = 20;
    let one = |(number, what): &(usize, Option<String>)| match what {
        Some(what) => format!("line {number} ({what})"),
        None => format!("line {number}"),
    };
    let named: Vec<String> = lines.iter().take(NAMED).map(one).collect();
    let more = if lines.len() > NAMED { format!(", and {} more lines", lines.len() - NAMED) } else { String::new() };
    format!("{}{more}", named.join(", "))
}

fn of_ends(comparison: &Comparison<'_>) -> Found {
    let (Some(text), edit) = (&comparison.text, comparison.edit) else { return Vec::new() };
    let (old, new) = (Ends::of(&text.old), Ends::of(&text.new));
    let is_alone = edit.old.is_some() && edit.new.is_some() && has_same_lines(text) && !text.hunks.is_empty();
    let mut found = Vec::new();
    if is_alone {
        found.push((Hazard::LineEndsOnly, format!("from {} to {}", old.says(), new.says())));
    }
    if new.is_mixed() && !old.is_mixed() {
        found.push((Hazard::MixedLineEnds, new.says()));
    }
    found
}

fn has_same_lines(text: &Text<'_>) -> bool {
    text.old.len() == text.new.len() && text.old.iter().zip(&text.new).all(|(old, new)| without_end(old) == without_end(new))
}

/// How the lines of a text end.
struct Ends {
    crlf: usize,
    lf: usize,
    has_none: bool,
}

impl Ends {
    fn of(lines: &[&[u8]]) -> Self {
        let crlf = lines.iter().filter(|line| line.ends_with(b"\r\n")).count();
        let lf = lines.iter().filter(|line| line.ends_with(b"\n")).count() - crlf;
        Self { crlf, lf, has_none: lines.last().is_some_and(|line| !line.ends_with(b"\n")) }
    }

    fn is_mixed(&self) -> bool {
        self.crlf > 0 && self.lf > 0
    }

    fn says(&self) -> String {
        let kinds = match (self.crlf, self.lf) {
            (0, 0) => "none".to_owned(),
            (0, _) => "LF".to_owned(),
            (_, 0) => "CR LF".to_owned(),
            (crlf, lf) => format!("{crlf} CR LF and {lf} LF"),
        };
        format!("{kinds}{}", if self.has_none { ", the last line without any" } else { "" })
    }
}

/// True if every line of a text ends with CR LF, and there is one.
pub(super) fn is_all_crlf(content: &[u8]) -> bool {
    let ends = Ends::of(&lines(content));
    ends.crlf > 0 && ends.lf == 0
}
