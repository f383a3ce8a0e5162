//! Where a hunk may be applied: at its line, or at the one other place where all its lines stand; and nowhere else.

use ringfence_patch::{BaseEntry, Edit};

use crate::tree::{Tree, apply, misfit, plain, program};

fn hunk(text: &str) -> String {
    format!("diff --git a/x b/x\n--- a/x\n+++ b/x\n{text}")
}

fn result(base: &str, text: &str) -> String {
    let edits = apply(&Tree::of([("x", base)]), hunk(text)).unwrap();
    String::from_utf8(edits[0].new.clone().unwrap().bytes).unwrap()
}

fn says(base: &str, text: &str) -> String {
    misfit(&Tree::of([("x", base)]), hunk(text)).replace("x (line 4 of the patch): ", "")
}

const CHANGE: &str = "@@ -2,3 +2,3 @@\n a\n-b\n+B\n c\n";

#[test]
fn a_hunk_is_applied_at_its_line() {
    assert_eq!(result("0\na\nb\nc\n1\na\nb\nc\n", CHANGE), "0\na\nB\nc\n1\na\nb\nc\n");
}

#[test]
fn a_hunk_moves_if_only_one_other_place_has_its_lines() {
    assert_eq!(result("0\n1\n2\na\nb\nc\n", CHANGE), "0\n1\n2\na\nB\nc\n");
    assert_eq!(result("a\nb\nc\n2\n", CHANGE), "a\nB\nc\n2\n");
    let twice = "the hunk's lines are not at line 2 of the file, but at more than one other place, lines 1 and 5 among them";
    assert_eq!(says("a\nb\nc\n0\na\nb\nc\n", CHANGE), twice);
    // Places that overlap count too.
    let overlapping = "@@ -9,4 +9,3 @@\n a\n-a\n a\n a\n";
    let said = "the hunk's lines are not at line 9 of the file, but at more than one other place, lines 2 and 3 among them";
    assert_eq!(says("0\na\na\na\na\na\n", overlapping), said);
}

#[test]
fn a_hunk_does_not_move_before_the_one_above_it() {
    let text = "@@ -5,3 +5,3 @@\n x\n-y\n+Y\n z\n@@ -20,3 +20,3 @@\n a\n-b\n+B\n c\n";
    let said = misfit(&Tree::of([("x", "a\nb\nc\n0\nx\ny\nz\n")]), hunk(text));
    assert_eq!(said, "x (line 9 of the patch): line 20 of the file is not there, and the hunk has `a`");
    assert_eq!(result("0\n0\n0\n0\nx\ny\nz\n0\na\nb\nc\n", text), "0\n0\n0\n0\nx\nY\nz\n0\na\nB\nc\n");
}

#[test]
fn nothing_is_compared_loosely() {
    assert_eq!(says("0\na\nb \nc\n", CHANGE), "line 3 of the file is `b `, and the hunk has `b`");
    assert_eq!(says("0\na\nb\n", CHANGE), "line 4 of the file is not there, and the hunk has `c`");
    assert_eq!(says("", CHANGE), "line 2 of the file is not there, and the hunk has `a`");
    assert_eq!(says("0\na\nb\nc", CHANGE), "line 4 of the file is `c` without a newline at its end, and the hunk has `c`");
    let without = "@@ -2,2 +2,2 @@\n a\n-b\n+B\n\\ No newline at end of file\n";
    assert_eq!(says("0\na\nb\nc\n", without), "the hunk reaches to the end of the file, and the file goes on");
    assert_eq!(result("0\na\nb\n", without), "0\na\nB");
}

#[test]
fn a_hunk_at_an_end_of_the_file_stays_there() {
    let at_start = "@@ -1,2 +1,2 @@\n-a\n+A\n b\n";
    assert_eq!(says("0\na\nb\n", at_start), "line 1 of the file is `0`, and the hunk has `a`");
    let at_end = "@@ -2,2 +2,3 @@\n a\n b\n+c\n";
    assert_eq!(says("0\na\nb\n1\n", at_end), "the hunk reaches to the end of the file, and the file goes on");
    assert_eq!(result("0\n1\n1\na\nb\n", at_end), "0\n1\n1\na\nb\nc\n");
}

#[test]
fn line_ends_are_content() {
    let windows = CHANGE.replace("a\n", "a\r\n").replace("b\n", "b\r\n").replace("B\n", "B\r\n").replace("c\n", "c\r\n");
    assert_eq!(result("0\r\na\r\nb\r\nc\r\n", &windows), "0\r\na\r\nB\r\nc\r\n");
    assert_eq!(says("0\r\na\r\nb\r\nc\r\n", CHANGE), "the file's lines end with CR LF, the hunk's with LF");
    assert_eq!(says("0\na\nb\nc\n", &windows), "the file's lines end with LF, the hunk's with CR LF");
    assert_eq!(says("0\na\r\nb\nc\n", CHANGE), "the file's lines end with both CR LF and LF, the hunk's with LF");
}

#[test]
fn a_hunk_without_any_line_of_the_file_needs_the_very_file() {
    let text = "@@ -1,0 +2 @@\n+new\n";
    assert_eq!(says("a\nb\n", text), "the hunk shows no line of the file, which may not be the one that it was made for");
    let ids = "index 422c2b7ab3b3c668038da977e4e93a5fc623169c..c5d5e5a3d0e0b4f5a8f5a3d0e0b4f5a8f5a3d0e0 100644\n";
    let text = hunk(text).replacen("--- a/x", &format!("{ids}--- a/x"), 1);
    let said = misfit(&Tree::of([("x", "a\nb\n")]), &text);
    assert!(said.starts_with("x (line 1 of the patch): the id of the result is "), "{said}");
    let is = said.split_whitespace().find(|word| word.len() == 41).unwrap().trim_end_matches(',').to_owned();
    let edits = apply(&Tree::of([("x", "a\nb\n")]), text.replace("c5d5e5a3d0e0b4f5a8f5a3d0e0b4f5a8f5a3d0e0", &is)).unwrap();
    assert_eq!(edits[0].new, Some(plain("a\nnew\nb\n")));
}

#[test]
fn ids_in_full_are_true() {
    let ids = |old: &str, new: &str| format!("diff --git a/x b/x\nindex {old}..{new} 100644\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n");
    let (a, b) = ("78981922613b2afb6025042ff6bd878ac1994e85", "61780798228d17af2d34fce4cfbdf35556832472");
    let base = Tree::of([("x", "a\n")]);
    assert_eq!(apply(&base, ids(a, b)).unwrap()[0].new, Some(plain("b\n")));
    assert_eq!(apply(&base, ids(b, a)).unwrap()[0].new, Some(plain("b\n")), "the ids are of another base, which is allowed for text");
    assert_eq!(misfit(&base, ids(a, a)), format!("x (line 1 of the patch): the id of the result is {b}, and the patch says {a}"));
    let long = ("e".repeat(64), "f".repeat(64));
    assert_eq!(apply(&base, ids(&long.0, &long.1)).unwrap()[0].new, Some(plain("b\n")));
}

#[test]
fn a_patch_is_for_the_modes_and_files_that_it_says() {
    let mut base = Tree::of([("y", "a\n")]);
    base.put(b"x", &program("a\n"));
    let mode = "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n";
    assert_eq!(misfit(&base, mode), "x (line 1 of the patch): has mode 100755, and the patch says 100644");
    assert_eq!(misfit(&base, mode.replace("/x", "/z")), "z (line 1 of the patch): is not there");
    let removed = "diff --git a/y b/y\ndeleted file mode 100644\nindex 7898192..0000000\n";
    assert_eq!(misfit(&base, removed), "y (line 1 of the patch): is removed, and the patch does not hold the content that goes");
    let edits = apply(&base, hunk("@@ -1 +1 @@\n-a\n+b\n")).unwrap();
    assert_eq!(edits, [Edit { path: b"x".to_vec(), old: Some(program("a\n")), new: Some(program("b\n")) }]);
}

#[test]
fn a_file_takes_the_place_of_a_folder_only_if_nothing_is_left_in_it() {
    let base = Tree::of([("d/e/x", "1\n"), ("d/y", "2\n")]);
    let file = "diff --git a/d b/d\nnew file mode 100644\n";
    let gone = |path: &str, line: &str| {
        format!("diff --git a/{path} b/{path}\ndeleted file mode 100644\n--- a/{path}\n+++ /dev/null\n@@ -1 +0,0 @@\n-{line}\n")
    };
    assert_eq!(misfit(&base, format!("{file}{}", gone("d/y", "2"))), "d (line 1 of the patch): is a folder in the base");
    let edits = apply(&base, format!("{file}{}{}", gone("d/y", "2"), gone("d/e/x", "1"))).unwrap();
    let paths = |edits: &[Edit]| edits.iter().map(|edit| String::from_utf8(edit.path.clone()).unwrap()).collect::<Vec<_>>();
    assert_eq!(paths(&edits), ["d/e/x", "d/y", "d"]);
    let file_to_folder = format!("{}diff --git a/d/y/z b/d/y/z\nnew file mode 100644\n", gone("d/y", "2"));
    assert_eq!(paths(&apply(&base, file_to_folder).unwrap()), ["d/y", "d/y/z"]);
}

#[test]
fn a_base_that_cannot_be_read_is_told() {
    struct Broken;
    impl ringfence_patch::Base for Broken {
        fn entry(&self, _: &[u8]) -> std::io::Result<Option<BaseEntry>> {
            Err(std::io::Error::other("gone"))
        }
    }
    let error = crate::tree::parse(hunk(CHANGE)).unwrap().apply(&Broken).unwrap_err();
    assert_eq!(error.to_string(), "x (line 1 of the patch): reading x in the base");
}
