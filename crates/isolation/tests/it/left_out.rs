//! What a patch leaves out and what its first line says: a reviewer sees there what the rest must not hide.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

use ringfence_isolation::{OsText, PatchRequest, PatchSummary, write_patch};

use crate::patch::Room;
use crate::tree::{self, Node, Tree, descend, file, link, program, tree};

const LIMIT: u64 = 1 << 20;

/// The patch of a room with things hidden or shown in another form.
fn veiled(room: &Room, hidden: &[OsText], replaced: &[(OsText, String)]) -> (Vec<u8>, PatchSummary) {
    let (base, workspace) = (room.base(), tree::open(&room.workspace()));
    let request =
        PatchRequest { base: &base, workspace: workspace.as_fd(), changes: None, hidden, replaced, most_bytes: LIMIT, since: None };
    write_patch(&request, &mut |_| Ok(())).unwrap()
}

fn plain(room: &Room) -> (Vec<u8>, PatchSummary) {
    veiled(room, &[], &[])
}

fn refused(path: &str, reason: &str) -> (OsText, String) {
    (path.into(), reason.into())
}

fn first_line(patch: &[u8]) -> String {
    String::from_utf8(patch.split(|b| *b == b'\n').next().unwrap().to_vec()).unwrap()
}

/// The room's base with what the patch changes of it.
fn judged(room: &Room, base: &Tree, patch: &[u8]) -> Tree {
    room.applied(base, patch).unwrap()
}

#[test]
fn changes_in_git_are_left_out_and_counted() {
    let base = tree([(".git/HEAD", file("ref: refs/heads/main\n")), ("a", file("a\n")), ("sub/.git/config", file(""))]);
    let changed = tree([
        (".git/HEAD", file("ref: refs/heads/evil\n")),
        (".git/hooks/pre-commit", program("#!/bin/sh\n")),
        (".Git/hooks/pre-commit", program("#!/bin/sh\n")),
        ("a", file("b\n")),
        ("sub/.git", file("gitdir: /tmp/evil\n")),
    ]);
    let room = Room::new(&base, &changed);
    let (patch, summary) = plain(&room);
    assert_eq!(summary, PatchSummary { changed: 1, in_git: 5, ..PatchSummary::default() });
    assert_eq!(first_line(&patch), "ringfence changes: 1 paths; in .git and left out: 5");
    assert_eq!(
        judged(&room, &base, &patch),
        tree([(".git/HEAD", file("ref: refs/heads/main\n")), ("a", file("b\n")), ("sub/.git/config", file(""))])
    );
}

/// On some file systems these names are `.git`; git refuses a whole patch in which one of them stands.
#[test]
fn names_that_stand_for_git_elsewhere_are_left_out() {
    let names = [
        "git~1/config",
        "GIT~1/x",
        ".git./config",
        ".git /config",
        ".git. ./x",
        ".git::$INDEX_ALLOCATION/x",
        "sub/.git:x",
        ".git\\x",
        ".g\u{200c}it/config",
        "\u{feff}.git/x",
    ];
    let base = tree([("a", file("a\n"))]);
    let mut changed = tree(names.map(|name| (name, file("x\n"))));
    changed.extend(tree([("a", file("b\n")), ("gitx~1", file("x\n")), (".gitignore.", file("x\n"))]));
    let room = Room::new(&base, &changed);
    let (patch, summary) = plain(&room);
    assert_eq!(summary, PatchSummary { changed: 3, in_git: names.len() as u64, ..PatchSummary::default() });
    assert_eq!(judged(&room, &base, &patch), tree([("a", file("b\n")), ("gitx~1", file("x\n")), (".gitignore.", file("x\n"))]));
}

/// Git refuses a whole patch that makes `.gitmodules` a link.
#[test]
fn a_link_in_the_place_of_gitmodules_is_refused_alone() {
    let base = tree([("a", file("a\n")), ("b/.gitmodules", file("x\n"))]);
    let names = [".gitmodules", "b/.gitmodules", "c/.GitModules", "d/.gitmodules.", "e/gitmod~1"];
    let mut changed = tree(names.map(|name| (name, link("a"))));
    changed.extend(tree([("a", file("b\n"))]));
    let room = Room::new(&base, &changed);
    let (patch, summary) = plain(&room);
    let reason = "is a link where git takes only a file";
    assert_eq!(summary, PatchSummary { changed: 1, refused: names.map(|name| refused(name, reason)).to_vec(), ..PatchSummary::default() });
    assert_eq!(judged(&room, &base, &patch), tree([("a", file("b\n")), ("b/.gitmodules", file("x\n"))]));
}

#[test]
fn what_stands_where_something_was_hidden_is_refused() {
    let base = tree([
        (".env", file("SECRET=1\n")),
        (".aws/credentials", file("secret\n")),
        ("a", file("a\n")),
        ("kept.pem", file("key\n")),
        (".envoy", file("a\n")),
    ]);
    let changed = tree([
        (".env", file("MINE=1\n")),
        (".aws/credentials", file("x\n")),
        (".aws/more", link("x")),
        ("a", file("b\n")),
        (".envoy", file("b\n")),
    ]);
    let room = Room::new(&base, &changed);
    let (patch, summary) = veiled(&room, &[".env".into(), ".aws".into(), "kept.pem".into()], &[]);
    let reason = "stands where a file was hidden";
    let expected = PatchSummary {
        changed: 2,
        refused: vec![refused(".aws/credentials", reason), refused(".aws/more", reason), refused(".env", reason)],
        ..PatchSummary::default()
    };
    assert_eq!(summary, expected);
    assert_eq!(first_line(&patch), "ringfence changes: 2 paths; refused: .aws/credentials, .aws/more, .env");
    let mut wanted = base.clone();
    wanted.extend(tree([("a", file("b\n")), (".envoy", file("b\n"))]));
    assert_eq!(judged(&room, &base, &patch), wanted);
}

#[test]
fn a_hidden_folder_that_became_a_file_is_refused() {
    let base = tree([(".aws/credentials", file("secret\n"))]);
    let room = Room::new(&base, &tree([(".aws", file("x\n"))]));
    let (_, summary) = veiled(&room, &[".aws".into()], &[]);
    assert_eq!(summary, PatchSummary { refused: vec![refused(".aws", "stands where a file was hidden")], ..PatchSummary::default() });
}

#[test]
fn a_file_shown_in_another_form_has_not_changed_by_that() {
    let base = tree([(".git/config", file("[http]\n\textraHeader = TOKEN\n")), ("settings", file("token\n"))]);
    let room = Room::new(&base, &tree([(".git/config", file("")), ("settings", file("harmless\n"))]));
    let replaced = [(".git/config".into(), String::new()), ("settings".into(), "harmless\n".to_owned())];
    assert_eq!(veiled(&room, &[], &replaced), (b"ringfence changes: 0 paths\n".to_vec(), PatchSummary::default()));
}

#[test]
fn pipes_and_sockets_are_refused() {
    let base = tree([("a", file("a\n")), ("old", Node::Special)]);
    let room = Room::new(&base, &tree([("a", Node::Special), ("pipe", Node::Special), ("old", file("now a file\n")), ("b", file("b\n"))]));
    let _socket = UnixListener::bind(room.workspace().join("socket")).unwrap();
    let (patch, summary) = plain(&room);
    let names = ["a", "old", "pipe", "socket"];
    let expected = PatchSummary {
        changed: 1,
        refused: names.map(|name| refused(name, "is a socket, pipe or device")).to_vec(),
        ..PatchSummary::default()
    };
    assert_eq!(summary, expected);
    assert_eq!(judged(&room, &tree([("a", file("a\n"))]), &patch), tree([("a", file("a\n")), ("b", file("b\n"))]));
}

#[test]
fn a_file_at_the_limit_is_taken_and_one_over_it_is_refused_alone() {
    let at = vec![b'x'; LIMIT as usize];
    let over = vec![b'x'; LIMIT as usize + 1];
    let base = tree([("was-over", file(&over))]);
    let room = Room::new(&base, &tree([("at", file(&at)), ("over", file(&over)), ("was-over", file("a\n"))]));
    let (patch, summary) = plain(&room);
    let reason = "is longer than the limit of 1048576 bytes";
    let expected =
        PatchSummary { changed: 1, refused: vec![refused("over", reason), refused("was-over", reason)], ..PatchSummary::default() };
    assert_eq!(summary, expected);
    assert_eq!(judged(&room, &base, &patch), tree([("at", file(&at)), ("was-over", file(&over))]));
}

#[test]
fn a_long_file_that_did_not_change_is_not_spoken_of() {
    let long = tree([("long", file(vec![b'x'; LIMIT as usize + 1]))]);
    assert_eq!(plain(&Room::new(&long, &long)).1, PatchSummary::default());
    let mut other = vec![b'x'; LIMIT as usize + 1];
    other[LIMIT as usize] = b'y';
    let refusal = PatchSummary { refused: vec![refused("long", "is longer than the limit of 1048576 bytes")], ..PatchSummary::default() };
    assert_eq!(plain(&Room::new(&long, &tree([("long", file(other))]))).1, refusal);
    assert_eq!(plain(&Room::new(&long, &tree([("long", program(vec![b'x'; LIMIT as usize + 1]))]))).1, refusal);
}

#[test]
fn a_long_file_that_is_ignored_is_counted_and_not_refused() {
    let base = tree([(".gitignore", file("target/\n"))]);
    let mut changed = base.clone();
    changed.extend(tree([
        ("target/debug/binary", file(vec![0; LIMIT as usize + 1])),
        (".git/objects/pack", file(vec![0; LIMIT as usize + 1])),
    ]));
    assert_eq!(plain(&Room::new(&base, &changed)).1, PatchSummary { ignored: 1, in_git: 1, ..PatchSummary::default() });
}

#[test]
fn what_cannot_be_read_is_refused_alone() {
    let base = tree([("a", file("a\n")), ("folder/b", file("b\n"))]);
    let room = Room::new(&base, &tree([("a", file("x\n")), ("c", file("c\n")), ("folder/b", file("b\n"))]));
    let (secret, folder) = (room.workspace().join("a"), room.workspace().join("folder"));
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o0)).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o0)).unwrap();
    let expected = match fs::read_dir(&folder) {
        // Root reads what nobody may read.
        Ok(_) => PatchSummary { changed: 2, ..PatchSummary::default() },
        Err(_) => {
            let reason = "cannot be read: Permission denied (os error 13)";
            let refused = ["a", "folder", "folder/b"].map(|path| refused(path, reason)).to_vec();
            PatchSummary { changed: 1, refused, ..PatchSummary::default() }
        }
    };
    let (_, summary) = plain(&room);
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(summary, expected);
}

/// The kernel takes paths of 4095 bytes; a program makes longer ones by entering each folder.
#[test]
fn a_folder_too_deep_to_open_is_refused_alone() {
    let base = tree([("a", file("a\n"))]);
    let room = Room::new(&base, &tree([("a", file("b\n"))]));
    drop(descend(&room.workspace(), 2200));
    let (patch, summary) = plain(&room);
    let deepest = format!("{}d", "d/".repeat(2048));
    let expected = PatchSummary {
        changed: 1,
        refused: vec![refused(&deepest, "cannot be read: File name too long (os error 36)")],
        ..PatchSummary::default()
    };
    assert_eq!(summary, expected);
    assert_eq!(judged(&room, &base, &patch), tree([("a", file("b\n"))]));
    tree::remove(room.folder);
}

#[test]
fn the_first_line_lists_links_modes_and_what_starts_programs() {
    let base = tree([
        ("run.sh", file("echo\n")),
        ("stop.sh", program("echo\n")),
        ("gone.sh", program("echo\n")),
        ("old-link", link("a")),
        ("Makefile", file("all:\n")),
    ]);
    let changed = tree([
        ("run.sh", program("echo\n")),
        ("stop.sh", file("echo\n")),
        ("new.sh", program("echo\n")),
        ("old-link", link("b")),
        ("new-link", link("/etc/passwd")),
        (".github/workflows/ci.yml", file("on: push\n")),
        ("web/package.json", file("{}\n")),
        ("Makefile", file("all: evil\n")),
        ("plain", file("a\n")),
    ]);
    let room = Room::new(&base, &changed);
    let (patch, summary) = plain(&room);
    let names = |names: &[&str]| names.iter().map(|name| OsText::from(*name)).collect::<Vec<_>>();
    let expected = PatchSummary {
        changed: 10,
        links: names(&["new-link", "old-link"]),
        modes: names(&["new.sh", "run.sh", "stop.sh"]),
        starts_programs: names(&[".github/workflows/ci.yml", "Makefile", "web/package.json"]),
        ..PatchSummary::default()
    };
    assert_eq!(summary, expected);
    assert_eq!(
        first_line(&patch),
        "ringfence changes: 10 paths; start programs: .github/workflows/ci.yml, Makefile, web/package.json; \
         links: new-link, old-link; mode changes: new.sh, run.sh, stop.sh"
    );
    assert_eq!(judged(&room, &base, &patch), changed);
}

#[test]
fn names_with_escape_codes_are_escaped_on_the_first_line() {
    let changed = tree([
        (b"a\x1b[2J\x1b[H".as_slice(), link("x")),
        ("b\u{202e}gpj.exe".as_bytes(), link("x")),
        (b"c\ndiff --git a/x b/x", link("x")),
        (b"d\r\x07\x7f", link("x")),
        (b"e\xff\x9b", link("x")),
        ("f\u{9b}2J".as_bytes(), link("x")),
    ]);
    let room = Room::new(&Tree::new(), &changed);
    let (patch, _) = plain(&room);
    assert_eq!(
        first_line(&patch),
        "ringfence changes: 6 paths; links: \"a\\033[2J\\033[H\", \"b\\342\\200\\256gpj.exe\", \"c\\012diff --git a/x b/x\", \
         \"d\\015\\007\\177\", \"e\\377\\233\", \"f\\302\\2332J\""
    );
    let printable = |byte: &u8| (0x20..0x7f).contains(byte) || matches!(byte, b'\n' | b'\t');
    let body = &patch[first_line(&patch).len()..];
    assert!(body.iter().all(printable), "names in the body are in quotes: {}", body.escape_ascii());
    assert_eq!(judged(&room, &Tree::new(), &patch), changed);
}

#[test]
fn a_first_line_of_names_is_no_patch_to_git() {
    let changed = tree([
        ("diff --git a/y b/y", program("")),
        ("--- a/y", link("+++ b/y")),
        ("\ndiff --git a/evil b/evil\nnew file mode 100644\n", link("x")),
    ]);
    let room = Room::new(&Tree::new(), &changed);
    let (patch, _) = plain(&room);
    assert_eq!(judged(&room, &Tree::new(), &patch), changed);
    let output = room.git(room.folder.path(), ["apply", "--numstat", "-z", "changes.patch"].map(OsStr::new));
    assert_eq!(output.stdout.iter().filter(|byte| **byte == 0).count(), 3);
}

/// A name cannot speak for the line, nor make it endless.
#[test]
fn a_name_cannot_imitate_the_first_line_and_many_are_counted() {
    let forged = Room::new(&Tree::new(), &tree([("a; start programs: none, b", link("x"))]));
    let (patch, _) = plain(&forged);
    assert_eq!(first_line(&patch), "ringfence changes: 1 paths; links: \"a; start programs: none, b\"");
    let many: Tree = (0..100).map(|number| (format!("link{number:03}").into_bytes(), link("x"))).collect();
    let (patch, summary) = plain(&Room::new(&Tree::new(), &many));
    assert!(first_line(&patch).ends_with("link039, and 60 more") && summary.links.len() == 100, "{}", first_line(&patch));
}
