//! Real git as the judge: of what `git diff` writes we make what `git apply` makes, byte for byte.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use proptest::collection::vec;
use proptest::prelude::*;
use ringfence_patch::{Blob, Limits, Mode, Patch};
use tempfile::TempDir;

use crate::tree::{Tree, plain, program};

struct Room(TempDir);

impl Room {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    /// Real git, which neither the host's settings nor a repository around the room can sway.
    fn git(&self, folder: &Path, arguments: &[&OsStr]) -> Output {
        let mut git = Command::new("git");
        for inherited in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_COUNT", "XDG_CONFIG_HOME"] {
            git.env_remove(inherited);
        }
        let home = self.0.path().join("home");
        git.current_dir(folder).env("GIT_CONFIG_NOSYSTEM", "1").env("HOME", home).env("GIT_CEILING_DIRECTORIES", self.0.path());
        git.env("LC_ALL", "C").args(arguments).output().unwrap()
    }

    fn write(&self, tree: &Tree, name: &str) -> std::path::PathBuf {
        let folder = self.0.path().join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        for path in tree.0.keys() {
            let blob = tree.blob(path).unwrap();
            let file = folder.join(OsStr::from_bytes(path));
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, &blob.bytes).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(blob.mode.bits() & 0o777)).unwrap();
        }
        folder
    }

    /// What `git diff` writes between two trees, with the given options.
    fn diff(&self, base: &Tree, changed: &Tree, options: &[&str]) -> Vec<u8> {
        let trees = [base, changed].map(|tree| {
            let folder = self.write(tree, "repository");
            let run = |arguments: &[&str]| {
                let output = self.git(&folder, &arguments.iter().map(OsStr::new).collect::<Vec<_>>());
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
                String::from_utf8(output.stdout).unwrap()
            };
            // The repository lies beside the tree, so that the first tree is still in it when the second is written.
            let repository = format!("--git-dir={}", self.0.path().join("git").display());
            run(&["init", "-q", "--bare", self.0.path().join("git").to_str().unwrap()]);
            run(&[&repository, "--work-tree=.", "-c", "core.autocrlf=false", "add", "-A", "."]);
            run(&[&repository, "write-tree"]).trim().to_owned()
        });
        let repository = format!("--git-dir={}", self.0.path().join("git").display());
        let trees = [trees[0].as_str(), &trees[1]];
        let fixed = [&repository, "diff", "--binary", "--full-index", "--no-color", "--no-ext-diff", "--no-textconv"];
        let arguments: Vec<&OsStr> = fixed.iter().chain(options).chain(&trees).map(OsStr::new).collect();
        let output = self.git(self.0.path(), &arguments);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    /// What `git apply` makes of a patch.
    fn applied(&self, base: &Tree, patch: &[u8]) -> Result<Tree, String> {
        let (folder, file) = (self.write(base, "applied"), self.0.path().join("changes.patch"));
        fs::write(&file, patch).unwrap();
        let output = self.git(&folder, &["apply".as_ref(), "--whitespace=nowarn".as_ref(), file.as_os_str()]);
        match output.status.success() {
            true => Ok(read(&folder)),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }
}

fn read(root: &Path) -> Tree {
    let (mut tree, mut waiting) = (Tree::default(), vec![root.to_owned()]);
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                waiting.push(path);
                continue;
            }
            let is_executable = path.metadata().unwrap().permissions().mode() & 0o100 != 0;
            let mode = if is_executable { Mode::Executable } else { Mode::Plain };
            tree.put(path.strip_prefix(root).unwrap().as_os_str().as_bytes(), &Blob { mode, bytes: fs::read(&path).unwrap() });
        }
    }
    tree
}

fn ours(base: &Tree, patch: &[u8]) -> Result<Tree, String> {
    let patch = Patch::parse(patch, &Limits::default()).map_err(|error| error.to_string())?;
    patch.apply(base).map(|edits| base.edited(&edits)).map_err(|error| error.to_string())
}

/// Both readers make the changed tree of what git writes.
fn agree(what: &str, base: &Tree, changed: &Tree, options: &[&str]) -> Vec<u8> {
    let room = Room::new();
    let patch = room.diff(base, changed, options);
    let shown = patch.escape_ascii().to_string().replace("\\n", "\n");
    assert_eq!(ours(base, &patch).as_ref(), Ok(changed), "{what}\n{shown}");
    assert_eq!(room.applied(base, &patch).as_ref(), Ok(changed), "{what}\n{shown}");
    patch
}

fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as u8
    };
    (0..length).map(|_| next()).collect()
}

fn numbered(count: usize) -> String {
    (1..=count).map(|number| format!("line {number}\n")).collect()
}

#[test]
fn text_in_every_form() {
    let lines = numbered(40);
    let cases = [
        ("a line in the middle", lines.clone(), lines.replace("line 20\n", "other\n")),
        ("both ends", lines.clone(), format!("first\n{lines}last\n")),
        ("far apart", lines.clone(), lines.replace("line 5\n", "").replace("line 30\n", "a\nb\n")),
        ("no newline before", lines.clone() + "end", lines.clone() + "end\n"),
        ("no newline after", lines.clone() + "end\n", lines.clone() + "end"),
        ("no newline on either side", lines.clone() + "end", lines.replace("line 38\n", "x\n") + "end"),
        ("CR LF", lines.replace('\n', "\r\n"), lines.replace("line 20\n", "other\n").replace('\n', "\r\n")),
        ("LF to CR LF", lines.clone(), lines.replace('\n', "\r\n")),
        ("emptied", lines.clone(), String::new()),
        ("filled", String::new(), lines.clone()),
        ("one line", "a".to_owned(), "b".to_owned()),
        ("looks like a patch", "-- \n--- a/x\n@@ -1 +1 @@\n".to_owned(), "-- \n+++ b/x\n-- \n@@ -1 +1 @@\n".to_owned()),
        ("no UTF-8 and no more than a return", "a\u{e9}\r\n\r\r\n".to_owned(), "a\r\n\r\n\n".to_owned()),
    ];
    for (what, old, new) in cases {
        let (old, new) = (Tree::of([("dir/x", &old), ("z", "z\n")]), Tree::of([("dir/x", &new), ("z", "z\n")]));
        agree(what, &old, &new, &[]);
        agree(what, &new, &old, &[]);
        agree(what, &old, &new, &["-U1"]);
    }
}

#[test]
fn files_that_come_go_and_change_their_mode() {
    let mut base = Tree::of([("gone", "a\nb\n"), ("gone-empty", ""), ("d/e/deep", "x\n"), ("file", "x\n")]);
    base.put(b"mode", &plain("m\n"));
    base.put(b"both", &program("m\n"));
    let mut changed = Tree::of([("made", "a\n"), ("made-empty", ""), ("new/folder/x", "x"), ("file/now/folder", "x\n")]);
    changed.put(b"mode", &program("m\n"));
    changed.put(b"both", &plain("n\n"));
    changed.put(b"program", &program("#!/bin/sh\n"));
    agree("many", &base, &changed, &["--no-renames"]);
    agree("many, back", &changed, &base, &["--no-renames"]);
}

#[test]
fn names_in_every_form() {
    let names: [&[u8]; 12] = [
        b"a b",
        b" lead",
        b"trail ",
        b"x b/x",
        b"b",
        b"q\"uote",
        b"back\\slash",
        b"tab\tnew\nline",
        "é".as_bytes(),
        b"\xff\xfe",
        b"-- ",
        b"a/b c/\x01",
    ];
    let tree = |text: &str| {
        let mut tree = Tree::default();
        names.iter().for_each(|name| tree.put(name, &plain(text)));
        tree
    };
    agree("changed", &tree("a\n"), &tree("b\n"), &[]);
    agree("emptied", &tree("a\n"), &tree(""), &[]);
    agree("binary", &tree("a\n"), &tree("\0"), &[]);
    let mut programs = Tree::default();
    names.iter().for_each(|name| programs.put(name, &program("a\n")));
    agree("mode alone", &tree("a\n"), &programs, &[]);
    let empty = Tree::of([("other", "x")]);
    agree("made", &empty, &tree(""), &["--no-renames"]);
    agree("removed", &tree("a\n"), &empty, &["--no-renames"]);
}

#[test]
fn renames_and_copies() {
    let (lines, other) = (numbered(40), numbered(90).replace("line", "row"));
    let base = Tree::of([("from", &lines), ("dir/a b", &other), ("kept", &lines.replace("line", "kept"))]);
    let mut changed = Tree::of([("to here", &lines), ("kept", &lines.replace("line", "kept"))]);
    changed.put("dir/é".as_bytes(), &program(other.replace("row 7\n", "")));
    changed.put(b"kept2", &plain(lines.replace("line", "kept").replace("kept 3\n", "x\n")));
    let patch = agree("renamed", &base, &changed, &["-M", "-C", "--find-copies-harder"]);
    let has = |text: &str| patch.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(
        has("rename from from\nrename to to here\n") && has("copy from kept\ncopy to kept2\n") && has("rename to \"dir/\\303\\251\"\n")
    );
}

#[test]
fn binary_content_as_literals_and_deltas() {
    let long = noise(60_000, 1);
    let mut changed = long.clone();
    changed.splice(30_000..30_010, noise(50, 2));
    let tree = |bytes: &[u8]| {
        let mut tree = Tree::default();
        tree.put(b"image", &plain(bytes));
        tree
    };
    let patch = agree("a delta", &tree(&long), &tree(&changed), &[]);
    assert!(patch.windows(6).any(|window| window == b"delta "));
    agree("a delta back", &tree(&changed), &tree(&long), &[]);
    let patch = agree("a literal", &tree(&noise(100, 3)), &tree(&noise(1000, 4)), &[]);
    assert!(patch.windows(8).any(|window| window == b"literal "));
    agree("from nothing", &tree(b""), &tree(&long), &[]);
    agree("to nothing", &tree(&long), &tree(b""), &[]);
    agree("made", &Tree::of([("x", "x")]), &tree(&long), &["--no-renames"]);
    agree("long runs", &tree(&[0; 200_000]), &tree(&[0; 300_000]), &[]);
}

#[test]
fn git_refuses_what_does_not_fit_too() {
    let (base, changed) = (Tree::of([("x", &numbered(30))]), Tree::of([("x", &numbered(30).replace("line 15\n", "other\n"))]));
    let room = Room::new();
    let patch = room.diff(&base, &changed, &[]);
    let others = [
        ("gone", Tree::of([("y", "x")])),
        ("another line", Tree::of([("x", &numbered(30).replace("line 14\n", "x\n"))])),
        ("CR LF", Tree::of([("x", &numbered(30).replace('\n', "\r\n"))])),
    ];
    for (what, other) in others {
        assert!(room.applied(&other, &patch).is_err() && ours(&other, &patch).is_err(), "{what}");
    }
    let moved = Tree::of([("x", &format!("new\nnew\n{}", numbered(30)))]);
    assert_eq!(ours(&moved, &patch), room.applied(&moved, &patch));
    assert!(ours(&moved, &patch).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Lines that repeat make git choose hunks of its own; renames and copies are found wherever files are alike.
    #[test]
    fn what_git_writes_of_random_trees_is_applied_alike(
        olds in vec((0usize..6, vec(0usize..5, 0..30), any::<bool>()), 1..6),
        news in vec((0usize..6, vec(0usize..5, 0..30), any::<bool>()), 1..6),
        finds_renames in any::<bool>(),
    ) {
        let tree = |files: &[(usize, Vec<usize>, bool)]| {
            let mut tree = Tree::of([("same", "same\n")]);
            for (name, lines, is_cut) in files {
                let mut text: String = lines.iter().map(|line| ["a\n", "b\n", "c\r\n", "\n", "}\n"][*line]).collect();
                if *is_cut { text.push('x'); }
                tree.put(["one", "two", "d/three", "d/four", "fi ve", "s\"ix"][*name].as_bytes(), &plain(text));
            }
            tree
        };
        let (base, changed) = (tree(&olds), tree(&news));
        prop_assume!(base != changed);
        let options: &[&str] = if finds_renames { &["-M40%"] } else { &["--no-renames"] };
        agree("random", &base, &changed, options);
    }
}
