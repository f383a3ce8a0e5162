//! What is git's format and what is not: every form that git writes is read, and every other line is refused by its number.

use crate::tree::{Tree, apply, parse, plain, program, refusal};
use ringfence_patch::Edit;

const HEAD: &str = "diff --git a/x b/x\n";
const NAMES: &str = "--- a/x\n+++ b/x\n";

fn hunk(text: &str) -> String {
    format!("{HEAD}{NAMES}{text}")
}

#[test]
fn the_heads_of_mails_and_their_signatures_are_no_part_of_a_patch() {
    let body = hunk("@@ -1 +1 @@ fn heading()\n-a\n+b\n");
    let forms = [
        body.clone(),
        format!("ringfence changes: 1 paths\n{body}"),
        format!("From 0123 Mon Sep 17 00:00:00 2001\nSubject: x\n\n---\n x | 2 +-\n\n{body}-- \n2.47.3\n\n"),
        format!("{body}-- \n"),
        format!("{body}\n\n"),
    ];
    for form in forms {
        let edits = apply(&Tree::of([("x", "a\n")]), &form).unwrap();
        assert_eq!(edits, [Edit { path: b"x".to_vec(), old: Some(plain("a\n")), new: Some(plain("b\n")) }], "{form}");
    }
}

#[test]
fn another_format_is_refused_with_what_to_do() {
    let error = parse("some words\n--- x.orig\n+++ x\n@@ -1 +1 @@\n-a\n+b\n").unwrap_err();
    assert_eq!(error.to_string(), "line 2: `--- x.orig` before any `diff --git`: this is a diff, but not in git's format");
    assert_eq!(error.hint(), Some("make it with `git diff`"));
    assert_eq!(refusal("diff --cc x\nindex 1,2..3\n"), "line 1: `diff --cc x` is the diff of a merge");
    assert_eq!(refusal(""), "line 1: the patch changes nothing: no line begins with `diff --git `");
    assert_eq!(refusal("garbage\n\0\n"), "line 1: the patch changes nothing: no line begins with `diff --git `");
    assert_eq!(
        refusal("diff --git x x\n--- x\n"),
        "line 1: the names in `x x` are not two names with `a/` and `b/` in front that fit each other and the lines below"
    );
}

#[test]
fn a_line_that_is_not_of_the_format_is_refused() {
    assert_eq!(refusal(format!("{HEAD}foo\n")), "line 1: nothing is changed about x");
    assert_eq!(refusal(hunk("foo\n")), "line 4: `foo` does not begin a hunk");
    assert_eq!(refusal(hunk("@@ -1 +1 @@\n-a\n+b\nfoo\n")), "line 7: `foo` is not a line of git's format at this place");
    assert_eq!(refusal(hunk("@@ -1 +1 @@\n-a\n+b\n\nfoo\n")), "line 7: `` is not a line of git's format at this place");
    assert_eq!(refusal(hunk("@@ -1 +1 @@\n-a\n+b\n-- \n2.47\nfoo\n")), "line 9: `foo` is not a line of git's format at this place");
    assert_eq!(refusal(hunk("@@ -1 +1 @@\n-a\n+b")), "line 6: the patch ends in the middle of a line");
    assert_eq!(refusal(format!("{HEAD}--- a/x\n@@ -1 +1 @@\n")), "line 3: `@@ -1 +1 @@` is not a line of git's format at this place");
    assert_eq!(refusal("diff --git a/x b/x\r\n--- a/x\r\n+++ b/x\r\n"), "line 1: the patch's own lines end with CR LF");
}

#[test]
fn hunks_are_as_long_as_they_say() {
    for header in
        ["@@ -1 @@", "@@ -1 +1", "@@ -0 +1 @@", "@@ -1,1,1 +1 @@", "@@ -a +1 @@", "@@ -1 +1 @@x", "@@ -1234567890 +1 @@", "@@ -1, +1 @@"]
    {
        assert_eq!(refusal(hunk(&format!("{header}\n-a\n+b\n"))), format!("line 4: `{header}` does not begin a hunk"));
    }
    assert_eq!(refusal(hunk("@@ -1,2 +1 @@\n-a\n+b\n")), "line 7: the hunk has 1 and 0 lines less than its first line says");
    assert_eq!(
        refusal(hunk("@@ -1 +1,3 @@\n-a\n+b\ndiff --git a/y b/y\n")),
        "line 7: the hunk has 0 and 2 lines less than its first line says"
    );
    assert_eq!(refusal(hunk("@@ -1 +1 @@\n-a\n+b\n+c\n")), "line 7: the hunk has more lines than its first line says");
    assert_eq!(refusal(hunk("@@ -1 +1 @@\n-a\n-b\n+c\n")), "line 6: the hunk has more lines than its first line says");
    assert_eq!(refusal(hunk("@@ -1 +1 @@\n a\n")), "line 4: the hunk changes nothing");
    assert_eq!(refusal(hunk("@@ -1 +1 @@\n-a\n+a\n")), "line 4: the hunk changes nothing");
}

#[test]
fn hunks_stand_in_order() {
    let two = |second: &str| hunk(&format!("@@ -5,2 +5,1 @@\n a\n-b\n{second}"));
    assert_eq!(refusal(two("@@ -6 +5 @@\n-b\n+c\n")), "line 7: the hunk begins before the one above it ends");
    assert_eq!(refusal(two("@@ -1 +1 @@\n-b\n+c\n")), "line 7: the hunk begins before the one above it ends");
    assert_eq!(
        refusal(two("@@ -9 +9 @@\n-b\n+c\n")),
        "line 7: the hunk begins at line 9 of the new file, which the hunks above make line 8"
    );
    assert!(parse(two("@@ -9 +8 @@\n-b\n+c\n")).is_ok());
    let ended = "\\ No newline at end of file\n@@ -9 +8 @@\n-b\n+c\n";
    assert_eq!(refusal(two(ended)), "line 8: a line without a newline at its end is followed by another line of the file");
}

#[test]
fn the_end_of_a_file_without_a_newline_is_told_of_each_side() {
    let end = "\\ No newline at end of file\n";
    let cases = [
        ("a", "a\n", format!("@@ -1 +1 @@\n-a\n{end}+a\n")),
        ("a\n", "a", format!("@@ -1 +1 @@\n-a\n+a\n{end}")),
        ("a", "b", format!("@@ -1 +1 @@\n-a\n{end}+b\n{end}")),
        ("a\nb", "c\nb", format!("@@ -1,2 +1,2 @@\n-a\n+c\n b\n{end}")),
    ];
    for (old, new, text) in cases {
        let edits = apply(&Tree::of([("x", old)]), hunk(&text)).unwrap();
        assert_eq!(edits[0].new, Some(plain(new)), "{text}");
    }
    let first = format!("@@ -1 +1 @@\n{end}-a\n+b\n");
    assert_eq!(refusal(hunk(&first)), "line 5: `\\ No newline at end of file` says nothing about any line");
    let twice = format!("@@ -1 +1 @@\n-a\n+b\n{end}{end}");
    assert_eq!(refusal(hunk(&twice)), "line 8: `\\ No newline at end of file` says nothing about any line");
    let other = "@@ -1 +1 @@\n-a\n\\ no newline\n+b\n";
    assert_eq!(refusal(hunk(other)), "line 6: `\\ no newline` says nothing about any line");
    let middle = format!("@@ -1,2 +1,2 @@\n-a\n{end} b\n+c\n");
    assert_eq!(refusal(hunk(&middle)), "line 7: a line without a newline at its end is followed by another line of the file");
}

#[test]
fn all_names_of_a_file_agree() {
    let text = "@@ -1 +1 @@\n-a\n+b\n";
    assert_eq!(refusal(format!("{HEAD}--- a/y\n+++ b/x\n{text}")), "line 2: `--- a/y` names another file than the lines before");
    assert_eq!(refusal(format!("{HEAD}--- a/x\n+++ b/y\n{text}")), "line 3: `+++ b/y` names another file than the lines before");
    assert_eq!(refusal(format!("{HEAD}--- b/x\n+++ b/x\n{text}")), "line 2: `--- b/x` names another file than the lines before");
    assert_eq!(refusal(format!("{HEAD}rename from x\nrename to y\n")), "line 1: `a/x b/x` names another file than the lines before");
    let null = "a side is `/dev/null` and the header does not say so, or the other way round";
    assert_eq!(refusal(format!("{HEAD}--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+b\n")), format!("line 2: {null}"));
    assert_eq!(refusal(format!("{HEAD}new file mode 100644\n--- a/x\n+++ b/x\n@@ -0,0 +1 @@\n+b\n")), format!("line 3: {null}"));
    assert_eq!(refusal(format!("{HEAD}deleted file mode 100644\n--- a/x\n+++ b/x\n@@ -1 +0,0 @@\n-b\n")), format!("line 4: {null}"));
}

#[test]
fn headers_that_contradict_each_other_are_refused() {
    let says = |header: &str| refusal(format!("{HEAD}{header}\n")).split_once(": ").unwrap().1.to_owned();
    assert_eq!(says("old mode 100644\nold mode 100644"), "`old mode 100644` says again what was said before");
    let several = "a file is made, removed, renamed, copied or gets another mode, and only one of these can be so";
    assert_eq!(says("new file mode 100644\ndeleted file mode 100644"), several);
    assert_eq!(says("new file mode 100644\nold mode 100644\nnew mode 100755"), several);
    assert_eq!(says("old mode 100644"), "the mode is changed, and only one of the two modes is told");
    assert_eq!(says("rename from y"), "a file is renamed or copied, and only one of its two names is told");
    assert_eq!(says("rename from x\nrename to x"), "a file is renamed or copied to the name that it has");
    let ids = "the ids say of a side that it is there, or not, and the header says the opposite";
    assert_eq!(says("new file mode 100644\nindex 1234567..89abcde"), ids);
    assert_eq!(says("index 0000000..89abcde"), ids);
    assert_eq!(says("index 1234567"), "`index 1234567` is not `index OLD..NEW`");
    assert_eq!(says("index 123456G..89abcde 100644"), "`index 123456G..89abcde 100644` is not `index OLD..NEW`");
    assert_eq!(
        says("similarity index 101%"),
        "nothing is changed about x"
            .to_owned()
            .replace("nothing is changed about x", "`similarity index 101%` is not a line of git's format at this place")
    );
    assert_eq!(says("old mode 100644\nnew mode 100644"), "nothing is changed about x");
    let lines = "new file mode 100644\n--- /dev/null\n+++ b/x\n@@ -1 +1 @@\n-a\n+b";
    assert_eq!(says(lines), "a file that is made has no lines before");
}

#[test]
fn a_path_has_one_change() {
    let mode = |path: &str| format!("diff --git a/{path} b/{path}\nold mode 100644\nnew mode 100755\n");
    let made = |path: &str| format!("diff --git a/{path} b/{path}\nnew file mode 100644\n");
    let moved = |from: &str, to: &str| format!("diff --git a/{from} b/{to}\nrename from {from}\nrename to {to}\n");
    assert_eq!(refusal(mode("x") + &mode("x")), "line 4: x was changed before, at line 1");
    assert_eq!(refusal(moved("x", "y") + &mode("x")), "line 4: x was changed before, at line 1");
    assert_eq!(refusal(moved("x", "y") + &moved("y", "x")), "line 4: x was changed before, at line 1");
    assert_eq!(refusal(moved("x", "y") + &made("y")), "line 4: y was changed before, at line 1");
    assert_eq!(refusal(made("a/b") + &made("c") + &made("a")), "line 5: a would be a file, and also a folder for a/b");
    assert!(parse(made("a") + &made("a-b") + &made("ab/c")).is_ok());
}

#[test]
fn files_are_made_removed_renamed_copied_and_change_their_mode() {
    let base = Tree::of([("gone", "g\n"), ("empty", ""), ("from", "1\n2\n"), ("mode", "m\n")]);
    let text = "diff --git a/copy b/copy\nsimilarity index 100%\ncopy from mode\ncopy to copy\n\
        diff --git a/empty b/empty\ndeleted file mode 100644\nindex e69de29..0000000\n\
        diff --git a/gone b/gone\ndeleted file mode 100644\nindex 01058d8..0000000\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-g\n\
        diff --git a/made b/made\nnew file mode 100755\nindex 0000000..e69de29\n\
        diff --git a/mode b/mode\nold mode 100644\nnew mode 100755\n\
        diff --git a/from b/to\nsimilarity index 50%\nrename from from\nrename to to\nindex 1191247..0cfbf08 100644\n--- a/from\n+++ b/to\n@@ -1,2 +1 @@\n-1\n 2\n";
    let text = text.replace("a/copy b/copy", "a/mode b/copy");
    let edit = |path: &str, old, new| Edit { path: path.as_bytes().to_vec(), old, new };
    let expected = [
        edit("empty", Some(plain("")), None),
        edit("from", Some(plain("1\n2\n")), None),
        edit("gone", Some(plain("g\n")), None),
        edit("copy", None, Some(plain("m\n"))),
        edit("made", None, Some(program(""))),
        edit("mode", Some(plain("m\n")), Some(program("m\n"))),
        edit("to", None, Some(plain("2\n"))),
    ];
    assert_eq!(apply(&base, text).unwrap(), expected);
}

#[test]
fn binary_content_is_complete() {
    let ids = format!("index {}..{}\n", "1".repeat(40), "2".repeat(40));
    let text = |block: &str| format!("{HEAD}{ids}GIT binary patch\n{block}");
    assert_eq!(
        refusal(format!("{HEAD}index 1234567..89abcde\nGIT binary patch\n")),
        "line 3: binary content needs an `index` line with both ids in full"
    );
    assert_eq!(
        refusal(format!("{HEAD}{ids}Binary files a/x and b/x differ\n")),
        "line 3: `Binary files a/x and b/x differ`: the patch does not hold the content"
    );
    assert_eq!(refusal(text("literal x\n")), "line 4: `literal x` does not begin binary content");
    assert_eq!(refusal(text("literal 0\nHcmV?d00001\n")), "line 6: the binary content does not end with an empty line");
    assert_eq!(refusal(text("literal 0\nHcmV?d0000\n\n")), "line 5: the line is not as long as its first letter says");
    assert_eq!(
        refusal(text("literal 1\nHcmV?d00001\n\n")),
        "line 4: the binary content unpacks to fewer than the 1 bytes that its first line says"
    );
    assert_eq!(refusal(text("literal 0\n\n")), "line 4: the binary content does not unpack: it is not zlib's, or damaged");
    assert_eq!(refusal(text("delta 0\nHcmV?d00001\n\n")), "line 4: the binary content is not a delta: its instructions are broken");
    assert!(parse(text("literal 0\nHcmV?d00001\n\nliteral 0\nHcmV?d00001\n\n-- \n2.47.3\n\n")).is_ok());
}
