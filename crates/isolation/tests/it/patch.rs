//! `changes.patch` against its judge: `git apply` of the patch on the base makes the changed tree, byte for byte.
//!
//! Each case is a base and a changed tree. The judge looks at names, bytes, the executable bit and link targets.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Output};

use ringfence_isolation::{PatchRequest, PatchSummary, write_patch};
use tempfile::TempDir;

use crate::tree::{self, Node, Tree, file, link, noise, program, tree};

/// Where base, workspace and what git made of the patch lie side by side.
pub(crate) struct Room {
    pub(crate) folder: TempDir,
}

impl Room {
    pub(crate) fn new(base: &Tree, changed: &Tree) -> Self {
        let room = Self { folder: TempDir::new().unwrap() };
        tree::write(base, &room.base());
        tree::write(changed, &room.workspace());
        fs::create_dir(room.folder.path().join("home")).unwrap();
        room
    }

    pub(crate) fn base(&self) -> std::path::PathBuf {
        self.folder.path().join("base")
    }

    pub(crate) fn workspace(&self) -> std::path::PathBuf {
        self.folder.path().join("workspace")
    }

    /// The patch where nothing was hidden.
    pub(crate) fn patch(&self) -> (Vec<u8>, PatchSummary) {
        self.patch_from(None)
    }

    /// The patch where the view was a union with this upper layer.
    pub(crate) fn patch_from(&self, layer: Option<&Path>) -> (Vec<u8>, PatchSummary) {
        let workspace = tree::open(&self.workspace());
        let layer = layer.map(tree::open);
        let request = PatchRequest {
            base: &self.base(),
            workspace: workspace.as_fd(),
            changes: layer.as_ref().map(AsFd::as_fd),
            hidden: &[],
            replaced: &[],
            most_bytes: 64 << 20,
            since: None,
        };
        write_patch(&request, &mut |_| Ok(())).unwrap()
    }

    /// What git makes of the patch on a copy of `base`, or what it says.
    pub(crate) fn applied(&self, base: &Tree, patch: &[u8]) -> Result<Tree, String> {
        let (folder, file) = (self.folder.path().join("applied"), self.folder.path().join("changes.patch"));
        tree::write(base, &folder);
        fs::write(&file, patch).unwrap();
        let output = self.git(&folder, ["apply".as_ref(), "--allow-empty".as_ref(), "--whitespace=nowarn".as_ref(), file.as_os_str()]);
        match output.status.success() {
            true => Ok(tree::read(&folder)),
            false => Err(format!("{}\n{}", String::from_utf8_lossy(&output.stderr), patch.escape_ascii().to_string().replace("\\n", "\n"))),
        }
    }

    /// Real git, which neither the host's settings nor a repository around the room can sway.
    pub(crate) fn git<'a>(&self, folder: &Path, arguments: impl IntoIterator<Item = &'a OsStr>) -> Output {
        let mut git = Command::new("git");
        for inherited in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_COUNT", "XDG_CONFIG_HOME"] {
            git.env_remove(inherited);
        }
        git.current_dir(folder)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("HOME", self.folder.path().join("home"))
            .env("GIT_CEILING_DIRECTORIES", self.folder.path())
            .env("LC_ALL", "C")
            .args(arguments)
            .output()
            .unwrap()
    }
}

/// The judgement, for one case; `what` names it where it fails.
fn is_reproduced(what: &str, base: &Tree, changed: &Tree) {
    let room = Room::new(base, changed);
    let (patch, summary) = room.patch();
    let differing = base.keys().chain(changed.keys()).filter(|path| base.get(*path) != changed.get(*path));
    let expected = PatchSummary { changed: differing.collect::<std::collections::BTreeSet<_>>().len() as u64, ..PatchSummary::default() };
    let counted = PatchSummary { links: Vec::new(), modes: Vec::new(), starts_programs: Vec::new(), ..summary };
    assert_eq!(counted, expected, "{what}");
    assert_eq!(room.applied(base, &patch).as_ref(), Ok(changed), "{what}");
}

/// One file in two forms, among files that do not change; `None` stands for no file.
fn is_reproduced_for(what: &str, path: &[u8], old: Option<Node>, new: Option<Node>) {
    let with = |node: Option<Node>| {
        let mut all = tree([("zz-same", file("same\n")), ("a0/same", program("same\n"))]);
        all.extend(node.map(|node| (path.to_vec(), node)));
        all
    };
    is_reproduced(what, &with(old), &with(new));
}

fn are_reproduced(cases: &[(&str, Option<Node>, Option<Node>)]) {
    for (what, old, new) in cases {
        is_reproduced_for(what, b"folder/subject", old.clone(), new.clone());
        is_reproduced_for(&format!("{what}, reversed"), b"folder/subject", new.clone(), old.clone());
    }
}

fn text(old: impl AsRef<[u8]>, new: impl AsRef<[u8]>) -> (Option<Node>, Option<Node>) {
    (Some(file(old)), Some(file(new)))
}

/// `count` lines of which each says which it is.
fn numbered(count: usize) -> Vec<String> {
    (1..=count).map(|number| format!("line {number}\n")).collect()
}

/// The lines with those at the given places (from 0) replaced.
fn edited(count: usize, edits: &[(usize, &str)]) -> String {
    let mut lines = numbered(count);
    edits.iter().for_each(|(place, new)| lines[*place] = (*new).to_owned());
    lines.concat()
}

#[test]
fn an_edit_anywhere_in_a_text_is_reproduced() {
    let plain = numbered(40).concat();
    let cases: &[(&str, &[(usize, &str)])] = &[
        ("in the middle", &[(20, "edited\n")]),
        ("at the start", &[(0, "edited\n")]),
        ("at the end", &[(39, "edited\n")]),
        ("at both ends", &[(0, "edited\n"), (39, "edited\n")]),
        ("a line less at the start", &[(0, "")]),
        ("a line less in the middle", &[(20, "")]),
        ("a line less at the end", &[(39, "")]),
        ("a line more at the start", &[(0, "new\nline 1\n")]),
        ("a line more in the middle", &[(20, "line 21\nnew\n")]),
        ("a line more at the end", &[(39, "line 40\nnew\n")]),
        ("one more and one less", &[(10, "line 11\nnew\n"), (30, "")]),
        ("everything but the first", &[(0, "line 1\n"), (1, "x\n"), (38, "x\n"), (39, "")]),
    ];
    for (what, edits) in cases {
        let (old, new) = text(&plain, edited(40, edits));
        are_reproduced(&[(what, old, new)]);
    }
}

#[test]
fn hunks_near_and_far_are_reproduced() {
    let plain = numbered(60).concat();
    for gap in 1..12 {
        let (old, new) = text(&plain, edited(60, &[(10, "edited\n"), (10 + gap, "edited\n"), (10 + 2 * gap, "")]));
        are_reproduced(&[(&format!("{gap} lines apart"), old, new)]);
        let (old, new) = text(&plain, edited(60, &[(0, ""), (gap, "edited\n"), (59 - gap, "x\ny\n"), (59, "")]));
        are_reproduced(&[(&format!("{gap} lines from the ends"), old, new)]);
    }
    let every_ninth: Vec<(usize, &str)> = (0..60).step_by(9).map(|place| (place, "a\nb\nc\n")).collect();
    let (old, new) = text(&plain, edited(60, &every_ninth));
    are_reproduced(&[("every ninth line", old, new)]);
}

#[test]
fn a_long_removal_just_before_an_edit_is_reproduced() {
    for removed in 1..10 {
        for kept in 1..8 {
            let mut edits: Vec<(usize, &str)> = (0..removed).map(|place| (place, "")).collect();
            edits.push((removed + kept, "edited\n"));
            let (old, new) = text(numbered(20).concat(), edited(20, &edits));
            are_reproduced(&[(&format!("{removed} removed, {kept} kept"), old, new)]);
        }
    }
}

#[test]
fn lines_that_repeat_are_reproduced() {
    let lines = |text: &str| text.chars().map(|c| format!("{c}\n")).collect::<String>();
    let cases = [
        ("aaaaaaaaaa", "aaaaaaaaaaa"),
        ("abababababab", "babababababa"),
        ("aaaabaaaabaaaa", "aaaabaaaacaaaabaaaa"),
        ("}}}}}}}}", "}}x}}}}}"),
    ];
    for (old, new) in cases {
        let (before, after) = text(lines(old), lines(new));
        are_reproduced(&[(old, before, after)]);
    }
}

#[test]
fn the_end_of_the_last_line_is_reproduced() {
    let cases = [
        ("none before", "a\nb\nc", "a\nb\nc\n"),
        ("none before, edited as well", "a\nb\nc", "a\nb\nx\n"),
        ("none on both sides, edit at the end", "a\nb\nc", "a\nb\nx"),
        ("none on both sides, edit at the start", "a\nb\nc", "x\nb\nc"),
        ("none on both sides, edit far from the end", "a\nb\nc\nd\ne\nf\ng", "x\nb\nc\nd\ne\nf\ng"),
        ("none on both sides, a line more", "a\nb", "a\nb\nc"),
        ("a file of one line", "a", "a\n"),
        ("only an end", "\n", "\n\n"),
        ("only an end to nothing", "\n", ""),
    ];
    for (what, old, new) in cases {
        let (old, new) = text(old, new);
        are_reproduced(&[(what, old, new)]);
    }
}

#[test]
fn line_ends_of_every_kind_are_reproduced() {
    let cases = [
        ("CRLF", "a\r\nb\r\nc\r\n", "a\r\nx\r\nc\r\n"),
        ("CRLF at the end", "a\r\nb\r\nc\r\n", "a\r\nb\r\nc\r\nd\r\n"),
        ("from CRLF to LF", "a\r\nb\r\nc\r\n", "a\nb\nc\n"),
        ("mixed", "a\r\nb\nc\r\nd\n", "a\nb\nx\r\nd\r\n"),
        ("mixed around an edit", "a\r\nb\nc\r\nd\n", "a\r\nb\nx\nd\n"),
        ("CR alone", "a\rb\rc\r", "a\rx\rc\r"),
        ("CRLF without an end", "a\r\nb\r", "a\r\nb\r\n"),
        ("two CR", "a\r\r\nb\n", "a\r\nb\r\r\n"),
        ("form feed and vertical tab", "a\x0cb\n\x0b\n", "a\x0c\nb\x0b\n"),
        ("next line and line separator", "a\u{85}b\u{2028}c\n", "a\u{85}x\u{2028}c\n"),
        ("byte order mark", "\u{feff}a\n", "a\n"),
    ];
    for (what, old, new) in cases {
        let (old, new) = text(old, new);
        are_reproduced(&[(what, old, new)]);
    }
}

#[test]
fn lines_of_white_space_are_reproduced() {
    let cases = [
        ("only blanks", " \n  \n\t\n", " \n\t\n \t \n"),
        ("blanks at the end of lines", "a\nb\nc\n", "a \nb\t\nc \t\n"),
        ("empty lines more", "a\n\n\nb\n", "a\n\n\n\n\nb\n"),
        ("empty lines at the end", "a\n", "a\n\n\n\n"),
        ("spaces before a tab", "\ta\n", " \ta\n"),
    ];
    for (what, old, new) in cases {
        let (old, new) = text(old, new);
        are_reproduced(&[(what, old, new)]);
    }
}

#[test]
fn text_that_looks_like_a_patch_is_reproduced() {
    let header =
        "diff --git a/x b/x\nindex 1234567..89abcde 100644\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-a\n+b\n c\n\\ No newline at end of file\n";
    let dashes = "-- a/x\n++ b/x\n- \n+ \n-\n+\nGIT binary patch\nliteral 3\n";
    are_reproduced(&[
        ("headers made", None, Some(file(header))),
        ("headers added", Some(file("a\n")), Some(file(format!("a\n{header}")))),
        ("headers before", Some(file("a\n")), Some(file(format!("{header}a\n")))),
        ("dashes made", None, Some(file(dashes))),
        ("dashes for headers", Some(file(header)), Some(file(dashes))),
        ("the end of a mail", Some(file("-- \nme\n")), Some(file("-- \nyou\n-- \n2.47.3\n"))),
        ("no newline, in words", Some(file("a\n\\ No newline at end of file\n")), Some(file("a\n\\ No newline at end of file"))),
    ]);
}

#[test]
fn one_very_long_line_is_reproduced() {
    let long = "0123456789abcdef".repeat(1 << 16);
    are_reproduced(&[
        ("made", None, Some(file(&long))),
        ("edited", Some(file(&long)), Some(file(format!("{long}x")))),
        ("between short ones", Some(file(format!("a\n{long}\nb\n"))), Some(file(format!("a\n{long}\nc\n")))),
    ]);
}

#[test]
fn an_empty_file_made_removed_or_filled_is_reproduced() {
    are_reproduced(&[
        ("made", None, Some(file(""))),
        ("made executable", None, Some(program(""))),
        ("filled", Some(file("")), Some(file("a\nb\n"))),
        ("filled without an end", Some(file("")), Some(file("a"))),
        ("filled with binary", Some(file("")), Some(file(b"\0\x01\x02"))),
        ("filled and executable", Some(file("")), Some(program("a\n"))),
    ]);
}

#[test]
fn a_binary_file_is_reproduced() {
    are_reproduced(&[
        ("made", None, Some(file(b"\0"))),
        ("made executable", None, Some(program(b"\x7fELF\0\0\0"))),
        ("changed", Some(file(b"\0\x01\x02\n")), Some(file(b"\0\x01\x03\n"))),
        ("changed and executable", Some(file(b"\0\x01")), Some(program(b"\0\x02"))),
        ("to text", Some(file(b"\0a\n")), Some(file("a\n"))),
        ("not UTF-8", Some(file(b"\xff\xfe\n\x80\n")), Some(file(b"\xff\n\x80\n\xc0"))),
        (
            "NUL where git no longer looks",
            Some(file([vec![b'a'; 8000], b"\n\0b\nc\n".to_vec()].concat())),
            Some(file([vec![b'a'; 8000], b"\n\0x\nc\n".to_vec()].concat())),
        ),
        (
            "NUL where git looks last",
            Some(file([vec![b'a'; 7999], b"\0\n".to_vec()].concat())),
            Some(file([vec![b'a'; 7999], b"\0x\n".to_vec()].concat())),
        ),
    ]);
    let noise = noise(200);
    for length in [1, 2, 3, 4, 5, 51, 52, 53, 104, 200] {
        let with_nul = [b"\0", &noise[..length]].concat();
        are_reproduced(&[(&format!("{length} bytes of noise"), None, Some(file(with_nul)))]);
    }
}

#[test]
fn a_large_binary_file_is_reproduced() {
    let large = noise(1 << 20);
    let mut changed = large.clone();
    changed[500_000] ^= 1;
    are_reproduced(&[("made", None, Some(file(&large))), ("changed", Some(file(&large)), Some(file(changed)))]);
}

#[test]
fn the_executable_bit_is_reproduced() {
    are_reproduced(&[
        ("alone", Some(file("a\n")), Some(program("a\n"))),
        ("of an empty file", Some(file("")), Some(program(""))),
        ("with content", Some(file("a\nb\n")), Some(program("a\nx\n"))),
        ("with content removed", Some(file("a\n")), Some(program(""))),
    ]);
}

#[test]
fn a_link_is_reproduced() {
    are_reproduced(&[
        ("made", None, Some(link("subject2"))),
        ("made to nowhere", None, Some(link("/does/not/../exist"))),
        ("changed", Some(link("a")), Some(link("b"))),
        ("with an odd target", Some(link("a")), Some(link(b"a\nb \xff\t\"\\\n"))),
        ("to its own folder", None, Some(link("."))),
        ("for a file", Some(file("a\nb\n")), Some(link("a"))),
        ("for an empty file", Some(file("")), Some(link("a"))),
        ("for a program", Some(program("a\n")), Some(link("a"))),
        ("for a binary file", Some(file(b"\0\x01")), Some(link("a"))),
        ("for a file that holds its target", Some(file("a")), Some(link("a"))),
    ]);
}

#[test]
fn a_folder_in_the_place_of_something_else_is_reproduced() {
    let folder = tree([("a/b", file("b\n")), ("a/c/d", program("d\n")), ("a/c/e", link("d")), ("b", file("b\n"))]);
    let others = [
        ("a file", file("a\n")),
        ("an empty file", file("")),
        ("a binary file", file(b"\0")),
        ("a link", link("b")),
        ("a link to a folder", link(".")),
    ];
    for (what, other) in others {
        let other = tree([("a", other), ("b", file("b\n"))]);
        is_reproduced(&format!("a folder becomes {what}"), &folder, &other);
        is_reproduced(&format!("{what} becomes a folder"), &other, &folder);
    }
}

#[test]
fn a_link_that_shows_the_same_files_as_the_folder_was_is_reproduced() {
    let folder = tree([("a/x", file("x\n")), ("b/x", file("x\n"))]);
    let linked = tree([("a/x", file("x\n")), ("b", link("a"))]);
    is_reproduced("a folder becomes a link to its twin", &folder, &linked);
    is_reproduced("a link becomes the folder it named", &linked, &folder);
}

#[test]
fn names_of_every_kind_are_reproduced() {
    let long = "n".repeat(200);
    let longest = "é".repeat(127);
    let names: &[&[u8]] = &[
        b"a b",
        b" a",
        b"a ",
        b"a  b ",
        b"c d/c d",
        b"c /b",
        b"a/ b",
        b"x b/x",
        b"b/a b/a",
        b"a\tb",
        b"a\t",
        b"a\nb",
        b"\n",
        b"a\r",
        b"a\x1b[31m",
        b"a\x7fb",
        b"a\x01\x07\x08\x0b\x0c",
        b"a\"b",
        b"\"a\"",
        b"a\\b",
        b"a\\",
        b"a\\nb",
        "é/ü".as_bytes(),
        "日本".as_bytes(),
        "a\u{202e}b".as_bytes(),
        b"a\xffb",
        b"\xc3",
        b"-a",
        b"--help",
        b"-",
        b"dev/null",
        b"a:b",
        b"a=>b",
        b"{a,b}",
        b"*?[a]",
        b"#a",
        b"~",
        b"a.",
        b"...",
        b"diff --git a/x b/x",
        b"@@ -1 +1 @@",
        b"git",
        b".gitx",
        long.as_bytes(),
        longest.as_bytes(),
    ];
    let kinds: &[(&str, Option<Node>, Option<Node>)] = &[
        ("text made", None, Some(file("a\n"))),
        ("text edited", Some(file("a\n")), Some(file("b\n"))),
        ("empty made", None, Some(file(""))),
        ("binary edited", Some(file(b"\0a")), Some(file(b"\0b"))),
        ("mode alone", Some(file("a\n")), Some(program("a\n"))),
        ("link for a file", Some(file("a\n")), Some(link("b"))),
    ];
    for (what, old, new) in kinds {
        let all = |node: &Option<Node>| tree(names.iter().filter_map(|name| Some((*name, node.clone()?))));
        is_reproduced(what, &all(old), &all(new));
        is_reproduced(&format!("{what}, reversed"), &all(new), &all(old));
    }
}

#[test]
fn deep_folders_are_reproduced() {
    let deep = format!("{}leaf", "d/".repeat(200));
    let wide = format!("{}leaf", format!("{}/", "w".repeat(200)).repeat(15));
    let base = tree([(deep.as_str(), file("a\n"))]);
    let changed = tree([(deep.as_str(), program("b\n")), (wide.as_str(), file("c\n"))]);
    is_reproduced("deeper", &base, &changed);
    is_reproduced("less deep", &changed, &base);
    is_reproduced("all removed", &base, &Tree::new());
}

#[test]
fn a_patch_of_nothing_is_one_line() {
    let base = tree([("a", file("a\n")), ("b", link("a")), ("c/d", program(b"\0"))]);
    let room = Room::new(&base, &base);
    let nothing = (b"ringfence changes: 0 paths\n".to_vec(), PatchSummary::default());
    assert_eq!(room.patch(), nothing);
}

#[test]
fn a_patch_is_the_same_each_time() {
    let base = tree([("a", file("a\n")), ("c/d", program(b"\0"))]);
    let changed = tree([("a", file("b\n")), ("b", link("a")), ("e/f", file("f"))]);
    assert_eq!(Room::new(&base, &changed).patch(), Room::new(&base, &changed).patch());
}

#[test]
fn only_the_owner_decides_on_the_executable_bit() {
    use std::os::unix::fs::PermissionsExt;
    let base = tree([("a", file("a\n"))]);
    let room = Room::new(&base, &base);
    fs::set_permissions(room.workspace().join("a"), fs::Permissions::from_mode(0o655)).unwrap();
    assert_eq!(room.patch().1, PatchSummary::default());
}
