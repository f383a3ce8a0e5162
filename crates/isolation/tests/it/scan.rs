//! What a scan hides of a folder and why, and when its identity changes.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, SystemTime};

use ringfence_isolation::{HiddenPath, OsText, Scan, scan};
use tempfile::TempDir;

use crate::tree::{self, Node, at, file, link, program, tree};

fn scanned(folder: &Path, reveal: &[&str]) -> Scan {
    let reveal: Vec<_> = reveal.iter().map(|path| path.parse().unwrap()).collect();
    scan(folder, &reveal, &mut |_| Ok(())).unwrap()
}

fn hidden(folder: &Path, reveal: &[&str]) -> Vec<HiddenPath> {
    scanned(folder, reveal).hidden
}

fn listed(path: impl AsRef<[u8]>, reason: &'static str) -> HiddenPath {
    HiddenPath { path: path.as_ref().into(), reason }
}

const SECRET: &str = "may hold secrets";
const SPECIAL: &str = "a socket, pipe or device";
const UNREADABLE: &str = "cannot be read";

fn settings(text: &str) -> TempDir {
    let room = TempDir::new().unwrap();
    tree::write(&tree([(".git/HEAD", file("ref: refs/heads/main\n")), (".git/config", file(text))]), room.path());
    room
}

/// The harmless form of a repository's settings.
fn harmless(text: &str) -> String {
    let room = settings(text);
    let Scan { veil, hidden, .. } = scanned(room.path(), &[]);
    assert_eq!(hidden, []);
    let [(path, text)] = veil.replaced.as_slice() else { panic!("{:?}", veil.replaced) };
    assert_eq!(*path, OsText::from(".git/config"));
    text.clone()
}

/// What is done to a file, and in words.
type Act = (&'static str, fn(&Path));

#[test]
fn hidden_names_are_listed_with_reasons() {
    let room = TempDir::new().unwrap();
    let contents = tree([
        (b".env".as_slice(), file("A=1\n")),
        (b".env.local", link("elsewhere")),
        (b".env\xff", file("")),
        (b".aws/credentials", file("")),
        (b"app/.ENV", file("")),
        (b"app/server.pem", file("")),
        (b"app/id_ed25519", file("")),
        (b"app/id_ed25519.pub", file("")),
        (b"app/main.rs", file("fn main() {}\n")),
        (b"pipe", Node::Special),
        (b".git/HEAD", file("ref: refs/heads/main\n")),
        (b".git/hooks/pre-commit", program("#!/bin/sh\n")),
    ]);
    tree::write(&contents, room.path());
    let _socket = UnixListener::bind(room.path().join("socket")).unwrap();
    let found = scanned(room.path(), &[]);
    let expected = [
        listed(".aws", SECRET),
        listed(".env", SECRET),
        listed(".env.local", SECRET),
        listed(b".env\xff", SECRET),
        listed(".git/hooks", SECRET),
        listed("app/.ENV", SECRET),
        listed("app/id_ed25519", SECRET),
        listed("app/server.pem", SECRET),
        listed("pipe", SPECIAL),
        listed("socket", SPECIAL),
    ];
    assert_eq!(found.hidden, expected);
    assert_eq!(found.veil.hidden, expected.map(|hidden| hidden.path));
    assert_eq!(found.veil.replaced, []);
    assert_eq!((found.files, found.bytes), (3, 13 + 21));
}

#[test]
fn owners_of_what_is_shown_are_listed() {
    let room = TempDir::new().unwrap();
    tree::write(&tree([("a/b", file("b"))]), room.path());
    let meta = fs::metadata(room.path().join("a/b")).unwrap();
    let found = scanned(room.path(), &[]);
    let top = fs::metadata(room.path()).unwrap();
    assert_eq!((found.uids, found.gids), (BTreeSet::from([meta.uid(), top.uid()]), BTreeSet::from([meta.gid(), top.gid()])));
}

#[test]
fn a_revealed_path_is_shown_and_no_other() {
    let room = TempDir::new().unwrap();
    tree::write(
        &tree([
            (".env", file("")),
            ("app/.env", file("")),
            (".aws/credentials", file("")),
            (".aws/config.pem", file("")),
            ("pipe.key", Node::Special),
        ]),
        room.path(),
    );
    assert_eq!(
        hidden(room.path(), &["app/.env", ".aws", "pipe.key", "not/there"]),
        [listed(".aws/config.pem", SECRET), listed(".env", SECRET), listed("pipe.key", SPECIAL)]
    );
}

#[test]
fn nothing_below_a_hidden_folder_can_be_revealed_alone() {
    let room = TempDir::new().unwrap();
    tree::write(&tree([(".aws/credentials", file(""))]), room.path());
    assert_eq!(hidden(room.path(), &[".aws/credentials"]), [listed(".aws", SECRET)]);
}

#[test]
fn a_pipe_is_hidden_and_never_opened() {
    let room = TempDir::new().unwrap();
    let names = [".git/config", ".gitignore", "a", "sub/b"];
    tree::write(&tree(names.map(|name| (name, Node::Special))), room.path());
    assert_eq!(hidden(room.path(), &["a", ".git/config"]), names.map(|name| listed(name, SPECIAL)));
}

#[test]
fn what_cannot_be_read_is_hidden() {
    let room = TempDir::new().unwrap();
    let paths = [".git/config", "file", "folder/inner", "shown"];
    tree::write(&tree(paths.map(|path| (path, file("x")))), room.path());
    let closed = [".git/config", "file", "folder"].map(|path| room.path().join(path));
    closed.iter().for_each(|path| fs::set_permissions(path, fs::Permissions::from_mode(0o0)).unwrap());
    let expected = match fs::read(&closed[1]) {
        // Root reads what nobody may read.
        Ok(_) => Vec::new(),
        Err(_) => [".git/config", "file", "folder"].map(|path| listed(path, UNREADABLE)).to_vec(),
    };
    let found = hidden(room.path(), &[]);
    closed.iter().for_each(|path| fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap());
    assert_eq!(found, expected);
}

#[test]
fn a_folder_that_is_not_there_is_an_error_that_names_it() {
    let room = TempDir::new().unwrap();
    let error = scan(&room.path().join("missing"), &[], &mut |_| Ok(())).unwrap_err();
    assert_eq!(error.to_string(), format!("reading `{}/missing`: No such file or directory (os error 2)", room.path().display()));
}

#[test]
fn links_are_shown_and_never_followed() {
    let (room, outside) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    fs::write(outside.path().join(".env"), "SECRET=1\n").unwrap();
    symlink(outside.path(), room.path().join("out")).unwrap();
    symlink(".", room.path().join("self")).unwrap();
    symlink(outside.path().join(".env"), room.path().join("plain-name")).unwrap();
    let found = scanned(room.path(), &[]);
    assert_eq!((found.hidden, found.files, found.bytes), (vec![], 3, 0));
}

#[test]
fn a_repositorys_settings_lose_programs_and_credentials() {
    let text = "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = touch /x\n\thooksPath = .h\n\tworktree = /etc\n\
                [remote \"origin\"]\n\turl = https://me:TOKEN@example.com/a/b.git\n\tpushurl = https://me:TOKEN@example.com/a\n\tuploadpack = evil\n\
                [branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n[include]\n\tpath = evil\n[filter \"lfs\"]\n\tprocess = evil\n";
    assert_eq!(
        harmless(text),
        "[core]\n\trepositoryformatversion = 0\n[remote \"origin\"]\n\turl = https://example.com/a/b.git\n[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n"
    );
}

/// Git takes a setting on the line of its header.
#[test]
fn a_setting_on_the_line_of_its_header_does_not_pass() {
    for header in [
        "[core] fsmonitor = evil ;]",
        "[remote \"x\"] uploadpack = evil ;]",
        "[remote \"x\"] uploadpack = evil \"]\"",
        "[remote \"x\"]uploadpack=evil;\"]",
        "[remote \"x] \\\"\"] uploadpack = evil ;\"]",
        "[core]fsmonitor=evil#]",
        "[remote x] uploadpack = evil]",
        "[core\t\"a\"] fsmonitor = \"evil\"]",
    ] {
        let left = harmless(&format!("{header}\n\turl = https://example.com/\n"));
        assert!(!left.contains("evil"), "{header} left {left:?}");
    }
}

#[test]
fn a_setting_that_goes_on_in_the_next_line_does_not_pass() {
    assert_eq!(harmless("[remote \"x\"]\n\turl = https://me:\\\nTOKEN@example.com/\n\tfetch = a\\\n\tb\n"), "[remote \"x\"]\n");
    assert_eq!(harmless("[core]\n\tfsmonitor = a\\\n[remote \"x\"]\n\tuploadpack = evil\n"), "[core]\n[remote \"x\"]\n");
}

#[test]
fn an_address_keeps_its_place_and_nothing_secret() {
    for (written, shown) in [
        ("https://me:TOKEN@example.com/a.git", "https://example.com/a.git"),
        ("https://TOKEN@example.com/a.git", "https://example.com/a.git"),
        ("https://me:TO@KEN@example.com/a.git", "https://example.com/a.git"),
        ("https://example.com/a.git?key=TOKEN", "https://example.com/a.git"),
        ("https://example.com?key=TOKEN", "https://example.com"),
        ("https://example.com#TOKEN", "https://example.com"),
        ("https://me:TO?KEN@example.com/a", "https://example.com/a"),
        ("\"https://me:TO#KEN@example.com?TOKEN\"", "https://example.com"),
        ("\"https://me:TOKEN@example.com/a b.git?key=TOKEN\"", "https://example.com/a b.git"),
        ("\"https://me:TOKEN@example.com/a.git\"", "https://example.com/a.git"),
        ("https://\"me:TO\\\"KEN\"@example.com/a.git", "https://example.com/a.git"),
        ("\" ../a\\\\b\"", "\" ../a\\\\b\""),
        ("https://example.com/a.git # TOKEN", "https://example.com/a.git"),
        ("https://example.com/a.git ; TOKEN", "https://example.com/a.git"),
        ("../other.git ; TOKEN", "../other.git"),
        ("\"../a;b.git\" # TOKEN", "\"../a;b.git\""),
        ("ssh://git@example.com:22/a.git", "ssh://example.com:22/a.git"),
        ("git@example.com:a/b.git", "git@example.com:a/b.git"),
        ("../other.git", "../other.git"),
        ("/srv/git/a@b.git", "/srv/git/a@b.git"),
    ] {
        assert_eq!(harmless(&format!("[remote \"x\"]\n\turl = {written}\n")), format!("[remote \"x\"]\n\turl = {shown}\n"), "{written}");
    }
}

#[test]
fn git_reads_the_harmless_settings() {
    use crate::patch::Room;
    use std::ffi::OsStr;
    let text = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n[remote \"o\"]\n\turl = \"https://me:TOKEN@h/a?TOKEN\"\n\tfetch = +refs/heads/*:refs/remotes/o/*\n";
    let room = Room::new(&tree([("config", file(harmless(text)))]), &tree::Tree::new());
    let output = room.git(&room.base(), ["config", "--file", "config", "--list"].map(OsStr::new));
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "core.repositoryformatversion=0\ncore.bare=false\nremote.o.url=https://h/a\nremote.o.fetch=+refs/heads/*:refs/remotes/o/*\n"
    );
}

#[test]
fn settings_that_are_no_plain_file_are_hidden() {
    let room = TempDir::new().unwrap();
    tree::write(&tree([("a/.git/config", link("/etc/passwd")), ("b/.git/config/x", file("")), ("c/.git/config", file(""))]), room.path());
    let reason = "a repository's settings that are not a plain file";
    assert_eq!(hidden(room.path(), &["a/.git/config"]), [listed("a/.git/config", reason), listed("b/.git/config", reason)]);
}

/// The repositories of submodules, and bare ones, are not named `.git`.
#[test]
fn settings_of_a_repository_of_any_name_are_made_harmless() {
    let room = TempDir::new().unwrap();
    let mut contents = tree([("src/config", file("token\n")), ("src/HEAD", file("")), ("src/hooks/a", file(""))]);
    for repository in [".git/", ".git/modules/lib/inner/", "mirror.git/"] {
        let own = [
            ("HEAD", "ref: refs/heads/main\n"),
            ("config", "[http]\n\textraHeader = TOKEN\n"),
            ("objects/x", ""),
            ("refs/heads/config", "x"),
            ("hooks/pre-commit", ""),
        ];
        contents.extend(own.map(|(name, text)| (format!("{repository}{name}").into_bytes(), file(text))));
    }
    tree::write(&contents, room.path());
    let found = scanned(room.path(), &[]);
    let expected = [".git/hooks", ".git/modules/lib/inner/hooks", "mirror.git/hooks"];
    assert_eq!(found.hidden, expected.map(|path| listed(path, SECRET)));
    let replaced = [".git/config", ".git/modules/lib/inner/config", "mirror.git/config"];
    assert_eq!(found.veil.replaced, replaced.map(|path| (OsText::from(path), String::new())));
}

/// A small folder with one of each kind.
fn sample() -> TempDir {
    let room = TempDir::new().unwrap();
    tree::write(
        &tree([
            ("a", file("a\n")),
            ("folder/b", file("b\n")),
            ("link", link("a")),
            (".env", file("SECRET=1\n")),
            (".git/config", file("[core]\n\tbare = false\n")),
        ]),
        room.path(),
    );
    room
}

/// The identity before and after something is done to a sample.
fn around(act: impl FnOnce(&Path)) -> (String, String) {
    let room = sample();
    let before = scanned(room.path(), &[]).listing_sha256;
    act(room.path());
    (before, scanned(room.path(), &[]).listing_sha256)
}

fn set_time(path: &Path, from_now: u64) {
    fs::File::open(path).unwrap().set_modified(SystemTime::now() + Duration::from_secs(from_now)).unwrap();
}

/// Writes and restores the time of change, so that what is compared is not the time alone.
fn rewrite(path: &Path, bytes: &str) {
    let modified = fs::metadata(path).unwrap().modified().unwrap();
    fs::write(path, bytes).unwrap();
    fs::File::options().write(true).open(path).unwrap().set_modified(modified).unwrap();
}

#[test]
fn the_identity_changes_with_what_is_shown() {
    let acts: &[Act] = &[
        ("a size", |room| rewrite(&room.join("a"), "aa\n")),
        ("a time", |room| set_time(&room.join("a"), 1000)),
        ("a mode", |room| fs::set_permissions(room.join("a"), fs::Permissions::from_mode(0o755)).unwrap()),
        ("a folder's mode", |room| fs::set_permissions(room.join("folder"), fs::Permissions::from_mode(0o711)).unwrap()),
        ("a target", |room| {
            fs::remove_file(room.join("link")).unwrap();
            symlink("b", room.join("link")).unwrap();
        }),
        ("a name", |room| fs::rename(room.join("a"), room.join("c")).unwrap()),
        ("a place", |room| fs::rename(room.join("a"), room.join("folder/a")).unwrap()),
        ("one more", |room| fs::write(room.join("c"), "").unwrap()),
        ("one less", |room| fs::remove_file(room.join("folder/b")).unwrap()),
        ("an empty folder", |room| fs::create_dir(room.join("empty")).unwrap()),
        ("the settings", |room| rewrite(&room.join(".git/config"), "[core]\n\tbare = true\n")),
        ("a file for a link", |room| {
            fs::remove_file(room.join("link")).unwrap();
            fs::write(room.join("link"), "a").unwrap();
        }),
    ];
    for (what, act) in acts {
        let (before, after) = around(act);
        assert_ne!(before, after, "{what}");
    }
}

#[test]
fn the_identity_stays_while_nothing_shown_changes() {
    let acts: &[Act] = &[
        ("nothing", |_| {}),
        ("a look", |room| drop(fs::read(room.join("a")).unwrap())),
        ("a secret", |room| fs::write(room.join(".env"), "OTHER=12\n").unwrap()),
        ("a folder's time", |room| set_time(&room.join("folder"), 1000)),
        ("a file that came and went", |room| {
            fs::write(room.join("c"), "").unwrap();
            fs::remove_file(room.join("c")).unwrap();
        }),
        ("settings that are not shown", |room| fs::write(room.join(".git/config"), "[core]\n\tfsmonitor = x\n\tbare = false\n").unwrap()),
        ("a second name", |room| {
            fs::hard_link(room.join("a"), room.join(".env.a")).unwrap();
        }),
    ];
    for (what, act) in acts {
        let (before, after) = around(act);
        assert_eq!(before, after, "{what}");
    }
}

#[test]
fn the_identity_does_not_depend_on_where_the_folder_is() {
    let room = sample();
    let before = scanned(room.path(), &[]).listing_sha256;
    let moved = TempDir::new().unwrap();
    fs::rename(room.path(), moved.path().join("inner")).unwrap();
    assert_eq!(scanned(&moved.path().join("inner"), &[]).listing_sha256, before);
}

#[test]
fn the_identity_tells_a_revealed_folder_from_a_hidden_one() {
    let room = sample();
    assert_ne!(scanned(room.path(), &[]).listing_sha256, scanned(room.path(), &[".env"]).listing_sha256);
}

#[test]
fn progress_is_told_every_256_files() {
    let room = TempDir::new().unwrap();
    (0..2500).for_each(|number| fs::write(at(room.path(), number.to_string()), "").unwrap());
    let mut told = Vec::new();
    let found = scan(room.path(), &[], &mut |files| {
        told.push(files);
        Ok(())
    })
    .unwrap();
    assert_eq!((told, found.files), ((1..10).map(|step| step * 256).collect::<Vec<u64>>(), 2500));
}

#[test]
fn long_work_can_be_ended() {
    let room = TempDir::new().unwrap();
    (0..600).for_each(|number| fs::write(at(room.path(), number.to_string()), "").unwrap());
    let mut told = 0;
    let ended = scan(room.path(), &[], &mut |files| {
        told = files;
        Err(std::io::ErrorKind::Interrupted.into())
    });
    assert_eq!((ended.unwrap_err().source.kind(), told), (std::io::ErrorKind::Interrupted, 256));
}
