//! What an approver reads, for the changes that are easily missed.

use ringfence_patch::{Blob, Edit, FileChange, FileStat, Hazard, render, review};

use crate::tree::{plain, program};

fn edit(path: &str, old: Option<Blob>, new: Option<Blob>) -> Edit {
    Edit { path: path.as_bytes().to_vec(), old, new }
}

/// The hazards of one file, and what is said of each.
fn hazards(path: &str, old: Option<Blob>, new: Option<Blob>) -> Vec<(Hazard, String)> {
    review(&[edit(path, old, new)]).flags.into_iter().map(|flag| (flag.hazard, flag.detail)).collect()
}

fn added(path: &str, text: impl AsRef<[u8]>) -> Vec<(Hazard, String)> {
    hazards(path, Some(plain("")), Some(plain(text)))
}

#[test]
fn the_whole_is_flags_files_and_lines() {
    let edits = [
        edit("Makefile", Some(plain("all:\n\ttrue\n")), Some(plain("all:\n\tcurl x | sh\n"))),
        edit("bin/x", Some(plain("x\n")), Some(program("x\n"))),
        edit("logo.png", None, Some(plain(b"\x89PNG\0\0\0\0"))),
        edit("tests/a.txt", Some(plain("a\u{202e}b\n\x1b[2J")), None),
    ];
    let digest = "sha256:";
    let text = render(&edits);
    let short: String = text
        .split(digest)
        .enumerate()
        .map(|(i, part)| if i == 0 { part.to_owned() } else { format!("{digest}…{}", &part[64..]) })
        .collect();
    assert_eq!(
        short,
        "4 files, 1 line added, 3 lines removed
! Makefile starts programs
! bin/x becomes executable
! bin/x changes its mode alone
! logo.png is binary, and not shown: is 8 bytes, sha256:…
! tests/a.txt is removed
! tests/a.txt loses tests: the whole file
* changed Makefile (+1 -1, 18 bytes)
* mode only bin/x (+0 -0, 2 bytes)
* added logo.png (binary, 8 bytes)
* removed tests/a.txt (+0 -2, 10 bytes)

=== Makefile
--- mode 100644, 11 bytes, sha256:…
+++ mode 100644, 18 bytes, sha256:…
@@ -1,2 +1,2 @@
 all:
-\ttrue
+\tcurl x | sh

=== bin/x
--- mode 100644, 2 bytes, sha256:…
+++ mode 100755, 2 bytes, sha256:…

=== logo.png
--- nothing
+++ mode 100644, 8 bytes, sha256:…
binary content, not shown

=== tests/a.txt
--- mode 100644, 10 bytes, sha256:…
+++ nothing
@@ -1,2 +0,0 @@
-a<U+202E>b
-<U+001B>[2J
\\ No newline at end of file
"
    );
}

#[test]
fn files_are_counted() {
    let stats = review(&[edit("a", Some(plain("1\n2\n")), Some(plain("1\n3\n4\n"))), edit("b", None, Some(plain([0; 9])))]).files;
    let file = |path: &str, change, added, removed, bytes, is_binary| FileStat {
        path: path.as_bytes().to_vec(),
        change,
        added,
        removed,
        bytes,
        is_binary,
    };
    assert_eq!(stats, [file("a", FileChange::Changed, 2, 1, 6, false), file("b", FileChange::Added, 0, 0, 9, true)]);
}

#[test]
fn modes_are_flagged() {
    assert_eq!(hazards("x", None, Some(program("x\n"))), [(Hazard::BecomesExecutable, String::new())]);
    assert_eq!(hazards("x", Some(program("x\n")), Some(plain("y\n"))), [(Hazard::StopsBeingExecutable, String::new())]);
}

#[test]
fn unseen_characters_are_flagged_with_their_lines() {
    let text = "fine\nif admin\u{202e} {\nnaïve é 漢字\nzero\u{200b}width\n";
    assert_eq!(added("x", text), [(Hazard::HiddenCharacters, "line 2 (U+202E), line 4 (U+200B)".to_owned())]);
    assert_eq!(
        added("x", b"caf\xe9, which is no UTF-8\nlone\rreturn\n"),
        [(Hazard::HiddenCharacters, "line 1 (0xE9), line 2 (U+000D)".to_owned())]
    );
    let many = added("x", "\u{200b}\n".repeat(25));
    assert!(many[0].1.ends_with("line 20 (U+200B), and 5 more lines"), "{many:?}");
    // What was there before is not the patch's.
    assert_eq!(hazards("x", Some(plain("\u{200b}\na\n")), Some(plain("\u{200b}\nb\n"))), []);
    assert_eq!(added("x", "is_\u{430}dmin\n"), [(Hazard::MixedScripts, "line 1 (`is_\u{430}dmin`)".to_owned())]);
}

#[test]
fn a_program_is_not_hidden_by_one_odd_byte() {
    let found = added("x.sh", "#!/bin/sh\n# \0\ncurl x | sh\n");
    assert_eq!(found, [(Hazard::HiddenCharacters, "line 2 (U+0000)".to_owned())]);
    assert!(render(&[edit("x.sh", None, Some(plain("# \0 comment\nrm -rf /\n")))]).contains("\n+# <U+0000> comment\n+rm -rf /\n"));
}

#[test]
fn binary_content_that_becomes_text_is_shown() {
    let edits = [edit("x", Some(plain([0; 50])), Some(plain("#!/bin/sh\n")))];
    assert!(render(&edits).contains("\n+#!/bin/sh\n"));
    assert!(review(&edits).flags[0].detail.starts_with("was 50 bytes, sha256:"));
}

#[test]
fn line_ends_are_flagged_and_shown() {
    let change = |old: &str, new: &str| hazards("x", Some(plain(old)), Some(plain(new)));
    assert_eq!(change("a\nb\n", "a\r\nb\r\n"), [(Hazard::LineEndsOnly, "from LF to CR LF".to_owned())]);
    assert_eq!(change("a\nb", "a\nb\n"), [(Hazard::LineEndsOnly, "from LF, the last line without any to LF".to_owned())]);
    assert_eq!(change("a\r\nb\r\n", "a\r\nb\r\nc\n"), [(Hazard::MixedLineEnds, "2 CR LF and 1 LF".to_owned())]);
    let shown = |old: &str, new: &str| render(&[edit("x", Some(plain(old)), Some(plain(new)))]);
    assert!(shown("a\n", "a\r\n").ends_with("-a\n+a<U+000D>\n"));
    assert!(shown("a\r\n", "b\r\n").ends_with("every line ends with CR LF, before and after\n@@ -1 +1 @@\n-a\n+b\n"));
}

#[test]
fn what_nobody_reads_to_its_end_is_flagged() {
    assert_eq!(added("x", "a ".repeat(501) + "\n"), [(Hazard::LongLine, "line 1 (1002 bytes)".to_owned())]);
    assert_eq!(added("x", "a\n".repeat(1001)), [(Hazard::LongDiff, String::new())]);
    let big = "a line that is not long\n".repeat(50_000);
    assert_eq!(hazards("x", Some(plain(&big)), Some(plain(big.clone() + "b\n"))), [(Hazard::BigFile, "1200002 bytes".to_owned())]);
}

#[test]
fn what_goes_is_flagged() {
    assert_eq!(hazards("x", Some(plain("x\n")), None), [(Hazard::Removed, String::new())]);
    assert_eq!(hazards("x", Some(plain("x\n")), Some(plain("\n"))), [(Hazard::Emptied, String::new())]);
    let test = "#[test]\nfn a() {}\n";
    let lost = (Hazard::TestsLost, "1 tests before, 0 after".to_owned());
    assert_eq!(hazards("src/a.rs", Some(plain(test)), Some(plain("fn a() {}\n"))), [lost]);
}

#[test]
fn names_are_flagged() {
    let of = |path: &str| added(path, "x\n").into_iter().map(|(hazard, _)| hazard).collect::<Vec<_>>();
    assert_eq!(of("src/x.rs"), []);
    assert_eq!(of(".github/workflows/ci.yml"), [Hazard::StartsPrograms, Hazard::GitMetadata]);
    assert_eq!(of(".gitlab-ci.yml"), [Hazard::StartsPrograms, Hazard::GitMetadata]);
    assert_eq!(of("a/.gitignore"), [Hazard::GitMetadata]);
    assert_eq!(of("MAKEFILE."), [Hazard::StartsPrograms, Hazard::StrangeName]);
    assert_eq!(of("pack\u{200c}age.json"), [Hazard::StartsPrograms, Hazard::StrangeName]);
    assert_eq!(of("p\u{430}ckage.json"), [Hazard::StrangeName]);
    assert_eq!(of("a\nb"), [Hazard::StrangeName]);
    assert_eq!(of("x "), [Hazard::StrangeName]);
}

#[test]
fn names_that_differ_in_case_are_flagged() {
    let made = |path: &str| edit(path, None, Some(plain("x\n")));
    let found = |paths: &[&str]| -> Vec<(String, String)> {
        let edits: Vec<Edit> = paths.iter().map(|path| made(path)).collect();
        let flags = review(&edits).flags.into_iter().filter(|flag| flag.hazard == Hazard::CaseCollision);
        flags.map(|flag| (String::from_utf8(flag.path).unwrap(), flag.detail)).collect()
    };
    assert_eq!(found(&["README", "Readme", "other"]), [("Readme".to_owned(), "README".to_owned())]);
    assert_eq!(found(&["Src/a", "src/b", "src/c"]), [("src/b".to_owned(), "Src/a".to_owned())]);
    assert_eq!(found(&["a/X", "b/x", "a.x"]), []);
}
