//! What the writer writes is read and applied to the same: random trees under random edits, in every kind of content.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use ringfence_patch::{Blob, Mode, render};

use crate::tree::{Tree, apply, parse, plain};

/// Few names, so that a file often stands where a folder was.
const NAMES: &[&[u8]] = &[b"a", b"b", b"c d", b"e ", "é".as_bytes(), b"-x", b"q\"\\", b"n\nl", b"\xfe", b"a b", b"B"];
/// Few lines, so that they often repeat.
#[rustfmt::skip]
const LINES: &[&[u8]] = &[
    b"", b"a", b"a", b"b", b"c", b"}", b"\t", b"a\r", b"--- a/a", b"+++ b/b", b"@@ -1 +1 @@", b"\\ No newline at end of file", b"\xff", b"-- ",
    b"diff --git a/a b/a", b"\0",
];

fn path() -> impl Strategy<Value = Vec<u8>> {
    vec(select(NAMES), 1..4).prop_map(|parts| parts.join(&b'/'))
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    let lines = |most| {
        vec(select(LINES), 0..most).prop_map(|lines| lines.iter().flat_map(|line| [line, b"\n".as_slice()].concat()).collect::<Vec<u8>>())
    };
    prop_oneof![
        6 => lines(40),
        2 => (lines(12), select(LINES)).prop_map(|(lines, last)| [lines.as_slice(), last].concat()),
        1 => vec(any::<u8>(), 0..300),
    ]
}

fn blob() -> impl Strategy<Value = Blob> {
    (content(), select(&[Mode::Plain, Mode::Executable][..])).prop_map(|(bytes, mode)| Blob { mode, bytes })
}

/// Puts a file in the place of whatever was there, below or above.
fn put(tree: &mut Tree, path: &[u8], blob: &Blob) {
    let is_within = |inner: &[u8], outer: &[u8]| inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"));
    tree.0.retain(|other, _| !is_within(other, path) && !is_within(path, other));
    tree.put(path, blob);
}

#[derive(Debug, Clone)]
enum Act {
    Put { path: Vec<u8>, blob: Blob },
    Remove { place: usize },
    Turn { place: usize },
    Splice { place: usize, line: usize, removed: usize, added: Vec<u8> },
}

fn act() -> impl Strategy<Value = Act> {
    let place = any::<usize>;
    prop_oneof![
        2 => (path(), blob()).prop_map(|(path, blob)| Act::Put { path, blob }),
        1 => place().prop_map(|place| Act::Remove { place }),
        1 => place().prop_map(|place| Act::Turn { place }),
        5 => (place(), place(), 0usize..4, content()).prop_map(|(place, line, removed, added)| Act::Splice { place, line, removed, added }),
    ]
}

fn perform(tree: &mut Tree, act: &Act) {
    let nth = |tree: &Tree, place: &usize| tree.0.keys().nth(place % tree.0.len().max(1)).cloned();
    let mut change = |place: &usize, with: &dyn Fn(Blob) -> Blob| {
        if let Some(path) = nth(tree, place) {
            let blob = with(tree.blob(&path).unwrap());
            tree.put(&path, &blob);
        }
    };
    match act {
        Act::Put { path, blob } => put(tree, path, blob),
        Act::Remove { place } => {
            nth(tree, place).map(|path| tree.0.remove(&path));
        }
        Act::Turn { place } => change(place, &|blob| match blob.mode {
            Mode::Plain => Blob { mode: Mode::Executable, ..blob },
            Mode::Executable => Blob { mode: Mode::Plain, ..blob },
        }),
        Act::Splice { place, line, removed, added } => change(place, &|blob| {
            let mut lines: Vec<&[u8]> = blob.bytes.split_inclusive(|b| *b == b'\n').collect();
            let from = line % (lines.len() + 1);
            let to = (from + removed).min(lines.len());
            lines.splice(from..to, [added.as_slice()]);
            Blob { mode: blob.mode, bytes: lines.concat() }
        }),
    }
}

fn trees(files: &[(Vec<u8>, Blob)], acts: &[Act]) -> (Tree, Tree) {
    let mut base = Tree::of([("z", "z\n")]);
    files.iter().for_each(|(path, blob)| put(&mut base, path, blob));
    let mut changed = base.clone();
    acts.iter().for_each(|act| perform(&mut changed, act));
    (base, changed)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_and_makes_the_changed_tree(files in vec((path(), blob()), 0..24), acts in vec(act(), 0..24)) {
        let (base, changed) = trees(&files, &acts);
        prop_assume!(base != changed);
        let edits = apply(&base, base.patch_to(&changed)).unwrap();
        prop_assert_eq!(base.edited(&edits), changed);
        prop_assert_eq!(render(&edits), render(&edits.clone()));
    }

    #[test]
    fn other_edits_are_shown_otherwise(one in blob(), other in blob(), base in blob()) {
        prop_assume!(one != other && one != base && other != base);
        let shown = |new: &Blob| {
            let (mut old_tree, mut new_tree) = (Tree::default(), Tree::default());
            old_tree.put(b"x", &base);
            new_tree.put(b"x", new);
            render(&apply(&old_tree, old_tree.patch_to(&new_tree)).unwrap())
        };
        let (one, other) = (shown(&one), shown(&other));
        prop_assert_ne!(&one, &other);
        prop_assert!(one.chars().all(|c| c == '\n' || c == '\t' || !c.is_control()));
    }

    #[test]
    fn a_cut_or_changed_patch_stops_no_reader(
        files in vec((path(), blob()), 0..6), acts in vec(act(), 1..6), cut in any::<usize>(), place in any::<usize>(), byte in any::<u8>(),
    ) {
        let (base, changed) = trees(&files, &acts);
        let mut text = base.patch_to(&changed);
        text.truncate(text.len() - cut % text.len() / 4);
        let place = place % text.len();
        text[place] = byte;
        if let Some(edits) = parse(&text).ok().and_then(|patch| patch.apply(&base).ok()) {
            base.edited(&edits);
            render(&edits);
        }
    }
}

#[test]
fn a_patch_without_any_change_is_refused() {
    let base = Tree::of([("a", "a\n")]);
    let mut changed = base.clone();
    changed.put(b"a", &plain("a\n"));
    assert!(parse(base.patch_to(&changed)).unwrap_err().to_string().contains("changes nothing"));
}
