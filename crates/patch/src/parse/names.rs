//! The names of one file, which stand in its section up to five times and must be the same each time.

use super::error::{Fault, PatchError};
use super::lines::Lines;
use crate::names::check;
use crate::patch::Action;
use crate::quote::{plain_or_quoted, unquoted};
use crate::visible::shown;

/// The path on the old side and on the new one.
#[derive(Debug)]
pub(super) struct Sides {
    pub(super) old: Vec<u8>,
    pub(super) new: Vec<u8>,
}

impl Sides {
    /// From what follows `diff --git `. Names without quotes are not told apart by anything there: they are what the headers below say, or else
    /// the same on both sides.
    pub(super) fn of(heading: &[u8], moved: Option<(&[u8], &[u8])>) -> Result<Self, Fault> {
        let (old, new) = match moved {
            Some((old, new)) => (old.to_vec(), new.to_vec()),
            None => {
                let name = same_on_both_sides(heading)?;
                (name.clone(), name)
            }
        };
        if moved.is_some() && !says(heading, &old, &new)? {
            return Err(Fault::OtherName(shown(heading)));
        }
        let names = if old == new { vec![&new] } else { vec![&old, &new] };
        for name in names {
            check(name).map_err(|fault| Fault::Name { name: plain_or_quoted(name), fault })?;
        }
        Ok(Self { old, new })
    }
}

/// `a/NAME b/NAME`, of which half is NAME however many spaces it has; or two quoted names.
fn same_on_both_sides(heading: &[u8]) -> Result<Vec<u8>, Fault> {
    let fault = || Fault::Heading(shown(heading));
    if heading.ends_with(b"\r") {
        return Err(Fault::CarriageReturn);
    }
    let (old, new) = match heading.starts_with(b"\"") {
        true => {
            let (old, rest) = unquoted(heading).ok_or_else(fault)?;
            (old, name(rest.strip_prefix(b" ").ok_or_else(fault)?)?)
        }
        false => {
            let (old, new) = heading.split_at_checked(heading.len() / 2).ok_or_else(fault)?;
            (name(old)?, name(new.strip_prefix(b" ").ok_or_else(fault)?)?)
        }
    };
    let (old, new) = (old.strip_prefix(b"a/").ok_or_else(fault)?, new.strip_prefix(b"b/").ok_or_else(fault)?);
    if old == new { Ok(old.to_vec()) } else { Err(fault()) }
}

/// Whether a heading is about these two names, each with or without quotes.
fn says(heading: &[u8], old: &[u8], new: &[u8]) -> Result<bool, Fault> {
    let (a, b) = ([b"a/".as_slice(), old].concat(), [b"b/".as_slice(), new].concat());
    let rest = match unquoted(heading) {
        Some((name, rest)) if name == a => Some(rest),
        Some(_) => None,
        None => heading.strip_prefix(a.as_slice()),
    };
    rest.and_then(|rest| rest.strip_prefix(b" ")).map_or(Ok(false), |rest| Ok(name(rest)? == b))
}

/// A name that reaches to the end of its line: quoted, or without anything that would have to be.
pub(super) fn name(text: &[u8]) -> Result<Vec<u8>, Fault> {
    if text.starts_with(b"\"") {
        return match unquoted(text) {
            Some((name, [])) => Ok(name),
            Some(_) | None => Err(Fault::Quoting(shown(text))),
        };
    }
    if text.ends_with(b"\r") {
        return Err(Fault::CarriageReturn);
    }
    let is_plain = text.iter().all(|byte| *byte >= 0x20 && *byte != 0x7f);
    if is_plain { Ok(text.to_vec()) } else { Err(Fault::Quoting(shown(text))) }
}

/// The lines `--- a/OLD` and `+++ b/NEW`, or `/dev/null` on the side where the file is not.
pub(super) fn both(sides: &Sides, action: &Action, lines: &mut Lines<'_>) -> Result<(), PatchError> {
    let old = [b"a/".as_slice(), &sides.old].concat();
    let new = [b"b/".as_slice(), &sides.new].concat();
    one(b"--- ", *action != Action::Add, &old, lines)?;
    one(b"+++ ", *action != Action::Remove, &new, lines)
}

fn one(start: &[u8], is_there: bool, expected: &[u8], lines: &mut Lines<'_>) -> Result<(), PatchError> {
    let line = lines.peek().unwrap_or_default();
    let Some(text) = lines.next_after(start) else { return Err(lines.unknown()) };
    // Git ends a name that has spaces with a tab.
    let text = text.strip_suffix(b"\t").unwrap_or(text);
    if text == b"/dev/null" || !is_there {
        let what = "a side is `/dev/null` and the header does not say so, or the other way round";
        return if text == b"/dev/null" && !is_there { Ok(()) } else { Err(lines.fault_before(Fault::Contradiction(what))) };
    }
    let found = name(text).map_err(|fault| lines.fault_before(fault))?;
    if found == expected { Ok(()) } else { Err(lines.fault_before(Fault::OtherName(shown(line)))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(heading: &str) -> Option<String> {
        Sides::of(heading.as_bytes(), None).ok().map(|sides| String::from_utf8(sides.new).unwrap())
    }

    fn moved(heading: &str, old: &str, new: &str) -> bool {
        Sides::of(heading.as_bytes(), Some((old.as_bytes(), new.as_bytes()))).is_ok()
    }

    #[test]
    fn a_name_with_spaces_is_half_of_its_heading() {
        assert_eq!(same("a/x b/x").as_deref(), Some("x"));
        assert_eq!(same("a/x b/x b/x b/x").as_deref(), Some("x b/x"));
        assert_eq!(same(r#""a/x\n" "b/x\n""#).as_deref(), Some("x\n"));
        assert_eq!(same(r#""a/\303\251" b/é"#).as_deref(), Some("é"));
    }

    #[test]
    fn names_that_do_not_fit_each_other_are_refused() {
        for heading in [
            "",
            "a/x",
            "a/x b/y",
            "x x",
            "a/x a/x",
            "b/x b/x",
            "a/ b/",
            "a/xb/x",
            r#""a/x" b/y"#,
            "a/x b/x\r",
            "a/x\t b/x\t",
            r#""a/x b/x"#,
        ] {
            assert_eq!(same(heading), None, "{heading}");
        }
    }

    #[test]
    fn moved_names_are_those_of_the_heading() {
        assert!(moved("a/x b/y", "x", "y"));
        assert!(moved("a/x b/y b/z", "x b/y", "z"));
        assert!(moved("a/x b/y b/z", "x", "y b/z"));
        assert!(moved(r#""a/x\t" b/y"#, "x\t", "y"));
        assert!(moved(r#"a/y "b/x\t""#, "y", "x\t"));
        assert!(!moved("a/x b/y", "x", "z"));
        assert!(!moved("a/x b/y", "z", "y"));
        assert!(!moved("a/x b/../y", "x", "../y"));
    }
}
