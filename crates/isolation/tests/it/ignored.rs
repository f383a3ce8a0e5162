//! The base's ignore rules decide what a patch leaves out, as git reads them: `git check-ignore` is the judge, path by path.

use std::ffi::OsStr;
use std::fs;

use ringfence_isolation::PatchSummary;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::patch::Room;
use crate::tree::{Tree, file, link, tree};

/// Which of the new paths a patch leaves out as ignored.
fn left_out(rules: &Tree, paths: &[&str]) -> Vec<String> {
    paths
        .iter()
        .filter(|path| summary(rules, path) == PatchSummary { ignored: 1, ..PatchSummary::default() })
        .map(|p| (*p).to_owned())
        .collect()
}

/// A summary of one path made. It is in the patch or ignored; there is nothing else.
fn summary(rules: &Tree, path: &str) -> PatchSummary {
    let mut changed = rules.clone();
    changed.extend(tree([(path, file("new\n"))]));
    let (_, summary) = Room::new(rules, &changed).patch();
    let counted = PatchSummary { ignored: summary.ignored, changed: summary.changed, ..PatchSummary::default() };
    assert_eq!((counted.ignored + counted.changed, &counted), (1, &summary), "{path}");
    summary
}

/// Which of the paths git ignores.
fn ignored_by_git(rules: &Tree, paths: &[&str]) -> Vec<String> {
    let mut all = rules.clone();
    all.extend(tree(paths.iter().map(|path| (*path, file("new\n")))));
    let room = Room::new(&all, &Tree::new());
    assert!(room.git(&room.base(), ["init", "--quiet"].map(OsStr::new)).status.success());
    let ask = ["check-ignore", "--no-index"].iter().chain(paths).map(OsStr::new);
    let answer = String::from_utf8(room.git(&room.base(), ask).stdout).unwrap();
    answer.lines().map(str::to_owned).collect()
}

fn judge(what: &str, rules: &[(&str, &str)], paths: &[&str]) {
    let rules = tree(rules.iter().map(|(path, text)| (*path, file(text))));
    assert_eq!(left_out(&rules, paths), ignored_by_git(&rules, paths), "{what}");
}

#[test]
fn rules_at_the_root_are_read_as_git_reads_them() {
    let paths =
        ["target/debug/a", "sub/target/a", "x.log", "sub/x.log", "keep.log", "build", "sub/build", "docs/a/b.txt", "docs/b.txt", "a.txt"];
    judge("a folder", &[(".gitignore", "target/\n")], &paths);
    judge("a folder at the root", &[(".gitignore", "/target/\n")], &paths);
    judge("a name that is a file", &[(".gitignore", "build/\n")], &paths);
    judge("an ending", &[(".gitignore", "*.log\n")], &paths);
    judge("negated", &[(".gitignore", "*.log\n!keep.log\n")], &paths);
    judge("negated before", &[(".gitignore", "!keep.log\n*.log\n")], &paths);
    judge("a path", &[(".gitignore", "docs/*.txt\n")], &paths);
    judge("two stars", &[(".gitignore", "docs/**/*.txt\n")], &paths);
    judge("leading stars", &[(".gitignore", "**/build\n")], &paths);
    judge("all", &[(".gitignore", "*\n")], &paths);
    judge("all but", &[(".gitignore", "/*\n!/docs\n/docs/*\n!/docs/a\n")], &paths);
    judge("comments and empty lines", &[(".gitignore", "# *.log\n\n\\#x\n   \n*.txt\n")], &paths);
    judge("spaces at the end", &[(".gitignore", "*.log   \n*.txt\\ \n")], &paths);
    judge("CRLF", &[(".gitignore", "*.log\r\ntarget/\r\n")], &paths);
    judge("a byte order mark", &[(".gitignore", "\u{feff}*.log\n")], &paths);
    judge("classes", &[(".gitignore", "[a-k]*.log\n[!x].txt\n")], &paths);
    judge("no rule at all", &[], &paths);
}

#[test]
fn what_is_in_an_ignored_folder_stays_ignored() {
    let paths = ["build/a", "build/keep", "build/deep/keep", "other/keep", "logs/keep/a"];
    judge("negated below", &[(".gitignore", "build/\n!build/keep\n!keep\n")], &paths);
    judge("negated by the folder's own rules", &[(".gitignore", "build/\n"), ("build/.gitignore", "!*\n")], &paths);
    judge("negated in a deeper folder", &[(".gitignore", "build/\n"), ("build/deep/.gitignore", "!keep\n")], &paths);
    judge("content of a folder, negated", &[(".gitignore", "build/*\n!build/keep\n")], &paths);
    judge("content of a folder, negated deeper", &[(".gitignore", "build/**\n!build/deep/\n!build/deep/keep\n")], &paths);
}

#[test]
fn rules_in_folders_hold_there_and_before_those_above() {
    let paths = ["a.log", "sub/a.log", "sub/deep/a.log", "sub/b.log", "subset/a.log", "sub/deep/c.txt", "c.txt"];
    judge("nested", &[("sub/.gitignore", "*.log\n")], &paths);
    judge("nested, at its root", &[("sub/.gitignore", "/a.log\n")], &paths);
    judge("nested, negated", &[(".gitignore", "*.log\n"), ("sub/.gitignore", "!a.log\n")], &paths);
    judge("three deep", &[(".gitignore", "*.log\n"), ("sub/.gitignore", "!*.log\n"), ("sub/deep/.gitignore", "a.log\n*.txt\n")], &paths);
    judge("a path below", &[("sub/.gitignore", "deep/*.txt\nsub/a.log\n")], &paths);
}

/// Git gives a clone its own exclude file; rules of the tree come before it.
#[test]
fn the_clones_own_exclude_file_is_read_last() {
    let rules = tree([(".git/info/exclude", file("*.log\n*.tmp\n")), (".gitignore", file("!keep.log\n"))]);
    assert_eq!(left_out(&rules, &["a.log", "keep.log", "a.tmp", "a.txt"]), ["a.log", "a.tmp"]);
}

#[test]
fn only_the_bases_rules_count() {
    let base = tree([(".gitignore", file("*.log\n")), ("a.txt", file("a\n"))]);
    let changed = tree([(".gitignore", file("*\n")), ("a.txt", file("evil\n")), ("sub/.gitignore", file("*\n")), ("b.log", file("x\n"))]);
    let (_, summary) = Room::new(&base, &changed).patch();
    assert_eq!(summary, PatchSummary { changed: 3, ignored: 1, ..PatchSummary::default() });
}

#[test]
fn a_change_or_removal_of_an_ignored_file_is_counted_too() {
    let base = tree([(".gitignore", file("*.log\n")), ("a.log", file("a\n")), ("b.log", file("b\n")), ("same.log", file("c\n"))]);
    let changed = tree([(".gitignore", file("*.log\n")), ("a.log", file("x\n")), ("c.log", link("a")), ("same.log", file("c\n"))]);
    let (patch, summary) = Room::new(&base, &changed).patch();
    assert_eq!(summary, PatchSummary { ignored: 3, ..PatchSummary::default() });
    assert_eq!(patch, b"ringfence changes: 0 paths; ignored and left out: 3\n");
}

#[test]
fn a_line_that_is_not_utf8_spoils_no_other() {
    let rules = tree([(".gitignore", file(b"caf\xe9\n*.log\n"))]);
    assert_eq!(left_out(&rules, &["a.log", "a.txt"]), ["a.log"]);
}

/// Git follows no link here, and a pipe would never answer.
#[test]
fn rules_are_read_from_plain_files_only() {
    let base = tree([("rules", file("*.log\n")), (".gitignore", link("rules"))]);
    assert_eq!(left_out(&base, &["a.log"]), [""; 0]);
    let room = Room::new(&Tree::new(), &tree([("a.log", file("x\n"))]));
    mknodat(CWD, room.base().join(".gitignore"), FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
    fs::create_dir_all(room.base().join("sub/.gitignore")).unwrap();
    fs::create_dir_all(room.workspace().join("sub")).unwrap();
    mknodat(CWD, room.workspace().join(".gitignore"), FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
    assert_eq!(room.patch().1, PatchSummary { changed: 1, ..PatchSummary::default() });
}
