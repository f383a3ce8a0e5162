//! Random trees under random edits: the same judge as in `patch`, on what nobody thought of.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::layer;
use crate::patch::Room;
use crate::tree::{Node, Tree, file, tree};

/// Few names, so that a file often stands where a folder was.
const NAMES: &[&[u8]] = &[b"a", b"b", b"c d", b"e ", "é".as_bytes(), b"-x", b"q\"\\", b"n\nl", b"\xfe"];
/// Few lines, so that they often repeat.
const LINES: &[&[u8]] = &[
    b"",
    b"a",
    b"a",
    b"b",
    b"c",
    b"}",
    b"\t",
    b"  ",
    b"a\r",
    b"--- a/a",
    b"+++ b/b",
    b"@@ -1 +1 @@",
    b"\\ No newline at end of file",
    b"\xff",
];

/// None leads to a link again: where the base holds such a link and a folder takes its place, git looks behind the link before it removes it,
/// and refuses ("beyond a symbolic link", "too many levels"), whatever the patch says.
const TARGETS: &[&[u8]] = &[b"z", b"nowhere", b"../z/", b"no\nwhere\n", b"\xff"];

/// One thing done to a tree. Places are taken modulo what is there.
#[derive(Debug, Clone)]
enum Edit {
    Put { path: Vec<u8>, node: Node },
    Remove { place: usize },
    Turn { place: usize },
    Splice { place: usize, line: usize, removed: usize, added: Vec<u8> },
}

fn path() -> impl Strategy<Value = Vec<u8>> {
    vec(select(NAMES), 1..4).prop_map(|parts| parts.join(&b'/'))
}

fn lines(most: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(select(LINES), 0..most).prop_map(|lines| lines.iter().flat_map(|line| [line, b"\n".as_slice()].concat()).collect())
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => lines(30),
        2 => (lines(12), select(LINES)).prop_map(|(lines, last)| [lines.as_slice(), last].concat()),
        1 => vec(any::<u8>(), 0..300),
        1 => (lines(3), vec(any::<u8>(), 0..100)).prop_map(|(head, tail)| [head.as_slice(), b"\0", &tail].concat()),
    ]
}

fn node() -> impl Strategy<Value = Node> {
    prop_oneof![
        5 => (content(), any::<bool>()).prop_map(|(bytes, is_executable)| Node::File { is_executable, bytes }),
        1 => select(TARGETS).prop_map(|target| Node::Link(target.to_vec())),
    ]
}

fn edit() -> impl Strategy<Value = Edit> {
    let place = any::<usize>;
    prop_oneof![
        2 => (path(), node()).prop_map(|(path, node)| Edit::Put { path, node }),
        1 => place().prop_map(|place| Edit::Remove { place }),
        1 => place().prop_map(|place| Edit::Turn { place }),
        4 => (place(), place(), 0usize..4, lines(4)).prop_map(|(place, line, removed, added)| Edit::Splice { place, line, removed, added }),
    ]
}

/// Puts a node in the place of whatever was there, below or above.
fn put(tree: &mut Tree, path: &[u8], node: Node) {
    let is_within = |inner: &[u8], outer: &[u8]| inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"));
    tree.retain(|other, _| !is_within(other, path) && !is_within(path, other));
    tree.insert(path.to_vec(), node);
}

fn perform(tree: &mut Tree, edit: &Edit) {
    let nth = |tree: &Tree, place: &usize| tree.keys().nth(place % tree.len().max(1)).cloned();
    match edit {
        Edit::Put { path, node } => put(tree, path, node.clone()),
        Edit::Remove { place } => {
            nth(tree, place).map(|path| tree.remove(&path));
        }
        Edit::Turn { place } => {
            if let Some(Node::File { is_executable, .. }) = nth(tree, place).and_then(|path| tree.get_mut(&path)) {
                *is_executable = !*is_executable;
            }
        }
        Edit::Splice { place, line, removed, added } => {
            if let Some(Node::File { bytes, .. }) = nth(tree, place).and_then(|path| tree.get_mut(&path)) {
                let mut lines: Vec<&[u8]> = bytes.split_inclusive(|b| *b == b'\n').collect();
                let from = line % (lines.len() + 1);
                let to = (from + removed).min(lines.len());
                lines.splice(from..to, [added.as_slice()]);
                *bytes = lines.concat();
            }
        }
    }
}

fn trees(nodes: &[(Vec<u8>, Node)], edits: &[Edit]) -> (Tree, Tree) {
    let mut base = tree([("z", file("z\n"))]);
    nodes.iter().for_each(|(path, node)| put(&mut base, path, node.clone()));
    let mut changed = base.clone();
    edits.iter().for_each(|edit| perform(&mut changed, edit));
    (base, changed)
}

/// A found case is written into `patch` as one of its own rather than kept as a seed beside the sources.
fn config() -> ProptestConfig {
    ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn git_apply_makes_the_changed_tree(nodes in vec((path(), node()), 0..24), edits in vec(edit(), 0..24)) {
        let (base, changed) = trees(&nodes, &edits);
        let room = Room::new(&base, &changed);
        let (patch, summary) = room.patch();
        prop_assert_eq!(&summary.refused, &[]);
        prop_assert_eq!(room.applied(&base, &patch), Ok(changed));
    }

    #[test]
    fn the_layer_of_a_union_makes_the_same_patch(nodes in vec((path(), node()), 0..24), edits in vec(edit(), 0..24)) {
        let (base, changed) = trees(&nodes, &edits);
        let room = Room::new(&base, &changed);
        let layer = room.folder.path().join("layer");
        layer::write(&base, &changed, &layer);
        prop_assert_eq!(room.patch_from(Some(&layer)), room.patch());
    }
}
