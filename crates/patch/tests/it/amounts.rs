//! Patches that would take memory or time: what is too much is refused early, and what is allowed is done in time that grows with its length.

use std::time::{Duration, Instant};

use ringfence_patch::{BaseEntry, Edit, Limits, Patch, render, secrets, write};

use crate::tree::{Tree, apply, parse, plain};

fn limited(text: impl AsRef<[u8]>, limits: Limits) -> String {
    Patch::parse(text.as_ref(), &limits).unwrap_err().to_string()
}

fn binary(content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write(b"x", None, Some((&plain(content)).into()), &mut out).unwrap();
    out
}

#[test]
fn limits_hold_before_anything_is_made() {
    let small = Limits { patch_bytes: 1000, files: 2, file_bytes: 100, result_bytes: 150 };
    assert_eq!(limited(b"x".repeat(1001), small), "line 1: the patch is 1001 bytes long, more than the limit of 1000");
    let made = |name: &str| format!("diff --git a/{name} b/{name}\nnew file mode 100644\n");
    assert_eq!(limited(made("a") + &made("b") + &made("c"), small), "line 5: the patch changes more than 2 files");
    assert_eq!(limited(binary(&[0; 101]), small), "line 5: the patch makes a file of 101 bytes, more than the limit of 100");
    let two = [binary(&[0; 100]), String::from_utf8(binary(&[0; 100])).unwrap().replace("/x", "/y").into_bytes()].concat();
    assert_eq!(limited(two, small), "line 15: the patch makes more than 150 bytes in all");
}

#[test]
fn results_are_limited_too() {
    let small = Limits { file_bytes: 10, result_bytes: 15, ..Limits::default() };
    let base = Tree::of([("x", "0123456\n")]);
    let copy = |to: &str| format!("diff --git a/x b/{to}\ncopy from x\ncopy to {to}\n");
    let said = |text: String| Patch::parse(text.as_bytes(), &small).unwrap().apply(&base).unwrap_err().to_string();
    assert_eq!(said(copy("a") + &copy("b")), "b (line 4 of the patch): the patch makes more than 15 bytes in all");
    let longer = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1,2 @@\n 0123456\n+789\n".to_owned();
    assert_eq!(said(longer), "x (line 1 of the patch): the patch makes a file of 12 bytes, more than the limit of 10");
}

#[test]
fn a_bomb_is_refused_by_what_it_says_and_by_what_it_is() {
    let bomb = binary(&vec![0; 200 << 20]);
    let since = Instant::now();
    assert_eq!(limited(&bomb, Limits::default()), "line 5: the patch makes a file of 209715200 bytes, more than the limit of 33554432");
    let lie = String::from_utf8(bomb).unwrap().replacen("literal 209715200", "literal 5", 1);
    assert_eq!(limited(lie, Limits::default()), "line 5: the binary content unpacks to more than the 5 bytes that its first line says");
    assert!(since.elapsed() < Duration::from_secs(2), "{:?}", since.elapsed());
}

/// Doing twice as much takes about twice as long; what is quadratic would take hours here.
fn is_quick(what: &str, work: impl FnOnce()) {
    let since = Instant::now();
    work();
    assert!(since.elapsed() < Duration::from_secs(20), "{what}: {:?}", since.elapsed());
}

#[test]
fn many_moved_hunks_are_given_up() {
    let lines = 30_000;
    let base: String = (0..lines).map(|i| format!("{i}\nx\n")).collect();
    let mut text = "diff --git a/x b/x\n--- a/x\n+++ b/x\n".to_owned();
    (0..lines).for_each(|i| text += &format!("@@ -{at},2 +{at},2 @@\n-{i}\n+a\n x\n", at = 2 * i + 3));
    let base = Tree::of([("x", &base)]);
    is_quick("moved hunks", || assert!(apply(&base, &text).unwrap_err().to_string().ends_with("too many hunks are not at their lines")));
}

#[test]
fn hunks_on_lines_that_repeat_take_no_longer() {
    let base = Tree::of([("x", &"a\n".repeat(4 << 18))]);
    let long = "a\n".repeat(1 << 18);
    let lines = long.replace("a\n", " a\n");
    let at_end = format!("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -2,{n} +2,{m} @@\n{lines}+b\n", n = 1 << 18, m = (1 << 18) + 1);
    is_quick("a hunk at the end", || assert!(apply(&base, &at_end).is_ok()));
    let nowhere =
        format!("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -2,{n} +2,{m} @@\n{lines}-b\n c\n", n = (1 << 18) + 2, m = (1 << 18) + 1);
    is_quick("a hunk that is nowhere", || assert!(apply(&base, &nowhere).is_err()));
}

#[test]
fn deep_paths_take_no_longer() {
    let path = |i: usize| format!("{}{i}", "d/".repeat(2000));
    let text: String = (0..3000).map(|i| format!("diff --git a/{p} b/{p}\nnew file mode 100644\n", p = path(i))).collect();
    is_quick("deep paths", || assert_eq!(apply(&Tree::default(), &text).unwrap().len(), 3000));
    let base = Tree::default().with("s", BaseEntry::Link);
    assert!(parse(&text).unwrap().apply(&base).is_ok());
}

#[test]
fn reviews_of_what_repeats_and_of_what_is_long_take_no_longer() {
    let lines = |seed: usize, count: usize| -> String { (0..count).map(|i| format!("{}\n", (i * seed) % 7)).collect() };
    let edit = |old: &str, new: &str| Edit { path: b"x".to_vec(), old: Some(plain(old)), new: Some(plain(new)) };
    let between = |other: &str| -> String { (0..100_000).map(|i| format!("{i}\n{other}\n")).collect() };
    // Landmarks with as much between them as is still compared, of lines that are hard to compare.
    let hard = |seed: usize| -> String { (0..50).map(|i| format!("{i} mark\n{}", lines(seed + i, 2000))).collect() };
    let edits = [
        edit(&lines(3, 200_000), &lines(5, 200_000)),
        edit(&"a\n".repeat(1 << 18), &"a\nb\n".repeat(1 << 17)),
        edit(&between("a"), &between("b")),
        edit(&hard(3), &hard(5)),
        edit(&lines(3, 1 << 20), &lines(5, 1 << 20)),
        edit("", &"\u{202e}".repeat(1 << 18)),
        edit("", &"token = 'a".repeat(1 << 17)),
        edit("", &"://x:".repeat(1 << 17)),
    ];
    for edit in edits {
        is_quick("a review", || assert!(!render(std::slice::from_ref(&edit)).is_empty()));
        is_quick("secrets", || drop(secrets(std::slice::from_ref(&edit), &[b"aaaa", b"b\na\n"])));
    }
}
