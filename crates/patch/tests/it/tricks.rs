//! What hostile code would have a reviewer apply. Each is refused by its name, before or when it meets a tree.

use ringfence_patch::BaseEntry;

use crate::tree::{Tree, misfit, parse, refusal};

fn made(path: &str, mode: &str, line: &str) -> String {
    format!("diff --git a/{path} b/{path}\nnew file mode {mode}\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+{line}\n")
}

#[test]
fn a_new_link_is_refused() {
    let text = made("passwords", "120000", "/etc/passwd").replace("/etc/passwd\n", "/etc/passwd\n\\ No newline at end of file\n");
    assert_eq!(refusal(text), "line 2: the patch makes a symbolic link (mode 120000)");
    assert_eq!(refusal("diff --git a/x b/x\nold mode 100644\nnew mode 120000\n"), "line 3: the patch makes a symbolic link (mode 120000)");
    assert_eq!(refusal("diff --git a/x b/x\ndeleted file mode 120000\n"), "line 2: the patch removes a symbolic link (mode 120000)");
    assert_eq!(refusal("diff --git a/x b/x\nindex 1234567..89abcde 120000\n"), "line 2: the patch changes a symbolic link (mode 120000)");
}

#[test]
fn nothing_is_written_through_a_link() {
    let base = Tree::default()
        .with("s", BaseEntry::Link)
        .with("m", BaseEntry::Gitlink)
        .with("f", BaseEntry::File { mode: 0o100644, bytes: Vec::new() });
    assert_eq!(misfit(&base, made("s/x", "100644", "y")), "s/x (line 1 of the patch): is behind s, which is a symbolic link in the base");
    assert_eq!(misfit(&base, made("m/x/y", "100644", "y")), "m/x/y (line 1 of the patch): is behind m, which is a submodule in the base");
    assert_eq!(misfit(&base, made("f/x", "100644", "y")), "f/x (line 1 of the patch): is behind f, which is a file in the base");
    assert_eq!(misfit(&base, made("s", "100644", "y")), "s (line 1 of the patch): is a symbolic link in the base");
    assert_eq!(
        misfit(&base, "diff --git a/s b/s\nold mode 100644\nnew mode 100755\n"),
        "s (line 1 of the patch): is a symbolic link in the base"
    );
    assert_eq!(misfit(&base, "diff --git a/s b/t\ncopy from s\ncopy to t\n"), "t (line 1 of the patch): is a symbolic link in the base");
    assert_eq!(misfit(&base, "diff --git a/m b/m\ndeleted file mode 100644\n"), "m (line 1 of the patch): is a submodule in the base");
}

#[test]
fn a_submodule_is_refused() {
    let gitlink = made("sub", "160000", "Subproject commit 0123456789012345678901234567890123456789");
    assert_eq!(refusal(gitlink), "line 2: the patch makes a submodule (gitlink, mode 160000)");
    assert_eq!(refusal(made(".gitmodules", "100644", "x")), "line 1: .gitmodules is a name that steers git");
}

#[test]
fn modes_other_than_the_two_of_files_are_refused() {
    for mode in ["104755", "102755", "101777", "100600", "100664", "100777", "644", "0100644", "100644 ", "-1"] {
        assert_eq!(refusal(made("x", mode, "y")), format!("line 2: the patch sets mode {mode}, and only 100644 and 100755 are files"));
    }
    assert_eq!(refusal(made("x", "040000", "y")), "line 2: the patch makes a folder by its mode 040000");
    let base = Tree::default().with("x", BaseEntry::File { mode: 0o100664, bytes: Vec::new() });
    let said = misfit(&base, "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n");
    assert_eq!(said, "x (line 1 of the patch): has mode 100664 in the base, and only 100644 and 100755 are files");
}

#[test]
fn what_git_reads_is_refused_in_every_spelling() {
    let inside = [
        ".git/config",
        ".GIT/hooks/pre-commit",
        "a/.git/x",
        ".git./config",
        ".git /config",
        "git~1/config",
        ".git::$INDEX_ALLOCATION/config",
        "a\u{5c}.git",
    ];
    for path in inside {
        let quoted = path.replace('\u{5c}', "\u{5c}\u{5c}");
        let text = format!("diff --git \"a/{quoted}\" \"b/{quoted}\"\nnew file mode 100644\n");
        assert!(refusal(text).ends_with("is inside `.git`, in the spelling of some file system"), "{path}");
    }
    let unseen = "diff --git \"a/.g\\342\\200\\214it/config\" \"b/.g\\342\\200\\214it/config\"\nnew file mode 100644\n";
    assert!(refusal(unseen).ends_with("is inside `.git`, in the spelling of some file system"));
    for path in [".gitattributes", "sub/.gitattributes", ".GITMODULES", ".gitmodules ", "GITMOD~1", ".gitconfig", ".git-blame-ignore-revs"]
    {
        assert!(refusal(made(path, "100644", "x")).ends_with("is a name that steers git"), "{path}");
    }
    for path in [".gitignore", "a/.gitkeep", ".github/workflows/ci.yml", ".gitlab-ci.yml"] {
        assert!(parse(made(path, "100644", "x")).is_ok(), "{path}");
    }
}

#[test]
fn paths_that_leave_the_tree_are_refused() {
    let cases = [
        ("/etc/passwd", "\"/etc/passwd\" is absolute"),
        ("../x", "../x has a part `.` or `..`"),
        ("a/../../x", "a/../../x has a part `.` or `..`"),
        ("./x", "./x has a part `.` or `..`"),
        ("a//b", "a//b has an empty part"),
        ("a/", "a/ has an empty part"),
        ("", "\"\" is empty"),
    ];
    for (path, said) in cases {
        let found = refusal(made(path, "100644", "x"));
        assert_eq!(found.replace('"', ""), format!("line 1: {said}").replace('"', ""), "{path}");
    }
    assert_eq!(refusal("diff --git \"a/x\\000y\" \"b/x\\000y\"\nnew file mode 100644\n"), "line 1: \"x\\000y\" holds a NUL byte");
    let moved = "diff --git a/x b/../y\nrename from x\nrename to ../y\n";
    assert_eq!(refusal(moved), "line 1: ../y has a part `.` or `..`");
}

#[test]
fn a_rename_does_not_go_over_a_file() {
    let base = Tree::of([("x", "x\n"), ("y", "y\n"), ("d/z", "z\n")]);
    let moved = |to: &str| format!("diff --git a/x b/{to}\nrename from x\nrename to {to}\n");
    assert_eq!(misfit(&base, moved("y")), "y (line 1 of the patch): is there already");
    assert_eq!(misfit(&base, moved("d")), "d (line 1 of the patch): is a folder in the base");
    assert_eq!(misfit(&base, moved("y/z")), "y/z (line 1 of the patch): is behind y, which is a file in the base");
    assert_eq!(misfit(&base, made("y", "100644", "x")), "y (line 1 of the patch): is there already");
}

#[test]
fn escapes_in_a_patch_do_not_reach_the_terminal() {
    let said = refusal("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n\x1b]0;owned\x07\u{202e}\n");
    assert_eq!(said, "line 7: `<U+001B>]0;owned<U+0007><U+202E>` is not a line of git's format at this place");
}
