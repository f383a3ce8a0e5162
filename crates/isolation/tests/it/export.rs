//! Export from folders that a hostile program shaped: what is not a regular file within the limits stays, and is named.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use ringfence_isolation::{ArtifactSink, Export, ExportLimits, ExportRefusal, Exported, Stored, collect};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::tree::{self, descend, file, link, program, tree};

const ROOMY: ExportLimits = ExportLimits { artifacts: 1000, bytes: 1 << 20 };

/// Keeps every byte that left.
#[derive(Default)]
pub(crate) struct Kept(pub(crate) Vec<Vec<u8>>);

impl ArtifactSink for Kept {
    fn store(&mut self, content: &mut dyn Read) -> io::Result<Stored> {
        let mut bytes = Vec::new();
        content.read_to_end(&mut bytes)?;
        let stored = stored(&bytes);
        self.0.push(bytes);
        Ok(stored)
    }
}

fn stored(bytes: &[u8]) -> Stored {
    Stored { bytes: bytes.len() as u64, sha256: Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect() }
}

/// What left and the bytes of it.
pub(crate) fn export(workspace: &Path, globs: &[&str], limits: ExportLimits) -> (Export, Vec<Vec<u8>>) {
    let globs: Vec<_> = globs.iter().map(|glob| glob.parse().unwrap()).collect();
    let mut kept = Kept::default();
    let export = collect(tree::open(workspace).as_fd(), &globs, limits, &mut kept);
    (export, kept.0)
}

fn artifact(path: impl AsRef<[u8]>, bytes: impl AsRef<[u8]>) -> Exported {
    Exported { path: path.as_ref().into(), is_executable: false, stored: stored(bytes.as_ref()) }
}

fn refusal(path: impl AsRef<[u8]>, reason: &str) -> ExportRefusal {
    ExportRefusal { path: path.as_ref().into(), reason: reason.to_owned() }
}

fn refused(refusals: impl IntoIterator<Item = ExportRefusal>) -> Export {
    Export { artifacts: Vec::new(), refusals: refusals.into_iter().collect() }
}

fn taken(artifacts: impl IntoIterator<Item = Exported>) -> Export {
    Export { artifacts: artifacts.into_iter().collect(), refusals: Vec::new() }
}

const LINK: &str = "is a symbolic link; exports are regular files only";
const BELOW_LINK: &str = "stands below a symbolic link or a file; exports are regular files only";
const SPECIAL: &str = "is a socket, pipe or device; exports are regular files only";
const ABSENT: &str = "was not written by the run";

#[test]
fn named_files_leave_with_their_bytes() {
    let room = TempDir::new().unwrap();
    tree::write(
        &tree([("report.md", file("# r\n")), ("out/a.csv", file("1,2\n")), ("out/deep/b.csv", program("3\n")), ("other", file("x"))]),
        room.path(),
    );
    let (export, bytes) = export(room.path(), &["report.md", "out/**"], ROOMY);
    let deep = Exported { is_executable: true, ..artifact("out/deep/b.csv", "3\n") };
    assert_eq!(export, taken([artifact("report.md", "# r\n"), artifact("out/a.csv", "1,2\n"), deep]));
    assert_eq!(bytes, [b"# r\n".to_vec(), b"1,2\n".to_vec(), b"3\n".to_vec()]);
}

#[test]
fn a_symlink_export_is_refused() {
    let (room, outside) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    fs::write(outside.path().join("bait"), "bait").unwrap();
    symlink(outside.path().join("bait"), room.path().join("absolute")).unwrap();
    symlink("real", room.path().join("inside")).unwrap();
    symlink("nowhere", room.path().join("dangling")).unwrap();
    symlink("/proc/self/environ", room.path().join("magic")).unwrap();
    fs::write(room.path().join("real"), "real").unwrap();
    let names = ["absolute", "dangling", "inside", "magic"];
    let expected = refused(names.map(|name| refusal(name, LINK)));
    assert_eq!(export(room.path(), &names, ROOMY), (expected.clone(), Vec::new()));
    let with_real = Export { artifacts: vec![artifact("real", "real")], ..expected };
    assert_eq!(export(room.path(), &["*"], ROOMY), (with_real, vec![b"real".to_vec()]));
}

#[test]
fn a_file_below_a_symlink_is_refused() {
    let (room, outside) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    fs::write(outside.path().join("bait"), "bait").unwrap();
    symlink(outside.path(), room.path().join("out")).unwrap();
    symlink(".", room.path().join("self")).unwrap();
    fs::write(room.path().join("real"), "real").unwrap();
    assert_eq!(
        export(room.path(), &["out/bait", "self/real"], ROOMY),
        (refused([refusal("out/bait", BELOW_LINK), refusal("self/real", BELOW_LINK)]), Vec::new())
    );
    // A glob does not look behind the link at all.
    assert_eq!(export(room.path(), &["out/*"], ROOMY), (refused([refusal("out/*", ABSENT)]), Vec::new()));
    assert_eq!(export(room.path(), &["out/**"], ROOMY), (refused([refusal("out", LINK)]), Vec::new()));
}

#[test]
fn pipes_and_sockets_are_refused() {
    let room = TempDir::new().unwrap();
    mknodat(CWD, room.path().join("pipe"), FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
    let _socket = UnixListener::bind(room.path().join("socket")).unwrap();
    let expected = (refused([refusal("pipe", SPECIAL), refusal("socket", SPECIAL)]), Vec::new());
    assert_eq!(export(room.path(), &["pipe", "socket"], ROOMY), expected);
    assert_eq!(export(room.path(), &["**"], ROOMY), expected);
}

#[test]
fn a_sparse_file_of_64_gib_is_refused_alone_and_not_read() {
    let room = TempDir::new().unwrap();
    File::create(room.path().join("huge")).unwrap().set_len(64 << 30).unwrap();
    fs::write(room.path().join("small"), "small").unwrap();
    let reason = "is 68719476736 bytes long, more than the limit of 1048576";
    let expected = Export { artifacts: vec![artifact("small", "small")], refusals: vec![refusal("huge", reason)] };
    assert_eq!(export(room.path(), &["*"], ROOMY), (expected, vec![b"small".to_vec()]));
}

#[test]
fn many_sparse_files_break_the_total_before_a_byte_is_read() {
    let room = TempDir::new().unwrap();
    for name in ["a", "b", "c"] {
        File::create(room.path().join(name)).unwrap().set_len(30 << 30).unwrap();
    }
    let limits = ExportLimits { artifacts: 10, bytes: 64 << 30 };
    let reason = "nothing was exported: 96636764160 bytes of artifacts are more than the limit of 68719476736";
    assert_eq!(export(room.path(), &["*"], limits), (refused([refusal("**", reason)]), Vec::new()));
}

#[test]
fn the_byte_limit_holds_to_the_byte() {
    let room = TempDir::new().unwrap();
    tree::write(&tree([("a", file("1234")), ("b", file("56789"))]), room.path());
    let limits = |bytes| ExportLimits { artifacts: 10, bytes };
    let all = taken([artifact("a", "1234"), artifact("b", "56789")]);
    assert_eq!(export(room.path(), &["*"], limits(9)).0, all);
    let reason = "nothing was exported: 9 bytes of artifacts are more than the limit of 8";
    assert_eq!(export(room.path(), &["*"], limits(8)), (refused([refusal("**", reason)]), Vec::new()));
    // One file over the limit is refused alone: the rest is still the whole of what can leave.
    assert_eq!(export(room.path(), &["b"], limits(5)).0, taken([artifact("b", "56789")]));
    let alone =
        Export { artifacts: vec![artifact("a", "1234")], refusals: vec![refusal("b", "is 5 bytes long, more than the limit of 4")] };
    assert_eq!(export(room.path(), &["*"], limits(4)), (alone, vec![b"1234".to_vec()]));
}

#[test]
fn the_count_limit_holds_to_the_file() {
    let room = TempDir::new().unwrap();
    tree::write(&tree([("a", file("a")), ("b", file("b")), ("c", link("a"))]), room.path());
    let limits = |artifacts| ExportLimits { artifacts, bytes: 100 };
    let of_link = refusal("c", LINK);
    let both = Export { artifacts: vec![artifact("a", "a"), artifact("b", "b")], refusals: vec![of_link.clone()] };
    assert_eq!(export(room.path(), &["*"], limits(2)).0, both);
    let reason = "nothing was exported: 2 artifacts are more than the limit of 1";
    assert_eq!(export(room.path(), &["*"], limits(1)), (refused([of_link, refusal("**", reason)]), Vec::new()));
}

#[test]
fn an_empty_file_leaves() {
    let room = TempDir::new().unwrap();
    fs::write(room.path().join("empty"), "").unwrap();
    let nothing_allowed = ExportLimits { artifacts: 1, bytes: 0 };
    assert_eq!(export(room.path(), &["empty"], nothing_allowed), (taken([artifact("empty", "")]), vec![Vec::new()]));
}

#[test]
fn odd_names_leave_as_they_are() {
    let names: [&[u8]; 9] = [b"\x1b[31m", b" ", b"-rf", b"a\nb", "a\u{202e}gpj".as_bytes(), b"a\xff", b"a\\", b"*", "é".as_bytes()];
    let mut names = names.to_vec();
    names.sort_unstable();
    let room = TempDir::new().unwrap();
    tree::write(&tree(names.iter().map(|name| (*name, file(name)))), room.path());
    assert_eq!(export(room.path(), &["**"], ROOMY).0, taken(names.iter().map(|name| artifact(name, name))));
    assert_eq!(
        export(room.path(), &["a\nb", "-rf", " "], ROOMY).0,
        taken([artifact("a\nb", "a\nb"), artifact("-rf", "-rf"), artifact(" ", " ")])
    );
}

#[test]
fn names_that_differ_in_case_alone_both_leave() {
    let room = TempDir::new().unwrap();
    tree::write(&tree([("README", file("upper")), ("readme", file("lower"))]), room.path());
    assert_eq!(export(room.path(), &["**"], ROOMY).0, taken([artifact("README", "upper"), artifact("readme", "lower")]));
    assert_eq!(export(room.path(), &["Readme"], ROOMY).0, refused([refusal("Readme", ABSENT)]));
}

#[test]
fn folders_beyond_the_depth_are_refused_and_the_rest_leaves() {
    let room = TempDir::new().unwrap();
    fs::write(room.path().join("top"), "top").unwrap();
    let deepest = descend(room.path(), 300);
    rustix::fs::openat(&deepest, "leaf", rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY, Mode::from_raw_mode(0o644)).unwrap();
    let below = ["d"; 257].join("/");
    let reason = "is more than 256 folders or 4000 bytes deep";
    let expected = Export { artifacts: vec![artifact("top", "top")], refusals: vec![refusal(below, reason)] };
    assert_eq!(export(room.path(), &["**"], ROOMY), (expected, vec![b"top".to_vec()]));
}

#[test]
fn paths_longer_than_the_kernel_takes_stop_nothing() {
    let room = TempDir::new().unwrap();
    fs::write(room.path().join("top"), "top").unwrap();
    let long = "d".repeat(250);
    let mut folder = std::os::fd::OwnedFd::from(File::open(room.path()).unwrap());
    for _ in 0..20 {
        rustix::fs::mkdirat(&folder, &long, Mode::from_raw_mode(0o755)).unwrap();
        folder = rustix::fs::openat(&folder, &long, rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC, Mode::empty()).unwrap();
    }
    let (export, _) = export(room.path(), &["**"], ROOMY);
    let refused = vec![long.as_str(); 16].join("/");
    let expected =
        Export { artifacts: vec![artifact("top", "top")], refusals: vec![refusal(refused, "is more than 256 folders or 4000 bytes deep")] };
    assert_eq!(export, expected);
    tree::remove(room);
}

#[test]
fn of_a_mode_only_the_executable_bit_leaves() {
    let room = TempDir::new().unwrap();
    let modes =
        [("group", 0o610, false), ("plain", 0o644, false), ("program", 0o755, true), ("setuid", 0o6755, true), ("sticky", 0o1644, false)];
    for (name, mode, _) in modes {
        fs::write(room.path().join(name), name).unwrap();
        fs::set_permissions(room.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let expected = modes.map(|(name, _, is_executable)| Exported { is_executable, ..artifact(name, name) });
    assert_eq!(export(room.path(), &["*"], ROOMY).0, taken(expected));
}

#[test]
fn a_glob_that_matches_nothing_is_refused() {
    let room = TempDir::new().unwrap();
    tree::write(&tree([("out/a.csv", file("a"))]), room.path());
    let (export, _) = export(room.path(), &["*.md", "missing", "out/a.csv", "out/a.csv/below", "missing/below"], ROOMY);
    let absent = ["*.md", "missing", "missing/below"].map(|glob| refusal(glob, ABSENT));
    let refusals = [vec![refusal("out/a.csv/below", BELOW_LINK)], absent.to_vec()].concat();
    assert_eq!(export, Export { artifacts: vec![artifact("out/a.csv", "a")], refusals });
}

#[test]
fn a_folder_that_was_named_itself_is_refused() {
    let room = TempDir::new().unwrap();
    tree::write(&tree([("out/a.csv", file("a"))]), room.path());
    assert_eq!(export(room.path(), &["out"], ROOMY).0, refused([refusal("out", "is a folder; name what is in it, such as `folder/**`")]));
    assert_eq!(export(room.path(), &["out/**"], ROOMY).0, taken([artifact("out/a.csv", "a")]));
}

#[test]
fn hard_links_leave_as_the_files_they_are() {
    let room = TempDir::new().unwrap();
    fs::write(room.path().join("a"), "same").unwrap();
    fs::hard_link(room.path().join("a"), room.path().join("b")).unwrap();
    assert_eq!(export(room.path(), &["*"], ROOMY).0, taken([artifact("a", "same"), artifact("b", "same")]));
}

#[test]
fn a_file_that_was_named_twice_leaves_once() {
    let room = TempDir::new().unwrap();
    fs::write(room.path().join("a"), "a").unwrap();
    let one = ExportLimits { artifacts: 1, bytes: 1 };
    for globs in [["a", "a"].as_slice(), &["a", "*"], &["*", "a", "**"], &["*", "?"]] {
        assert_eq!(export(room.path(), globs, one).0, taken([artifact("a", "a")]), "{globs:?}");
    }
    assert_eq!(export(room.path(), &["b", "b"], one).0, refused([refusal("b", ABSENT)]));
}

#[test]
fn a_file_that_cannot_be_read_is_refused_alone() {
    let room = TempDir::new().unwrap();
    tree::write(&tree([("a", file("a")), ("b", file("b"))]), room.path());
    fs::set_permissions(room.path().join("a"), fs::Permissions::from_mode(0o0)).unwrap();
    let expected = match fs::read(room.path().join("a")) {
        // Root reads what nobody may read.
        Ok(_) => taken([artifact("a", "a"), artifact("b", "b")]),
        Err(_) => {
            Export { artifacts: vec![artifact("b", "b")], refusals: vec![refusal("a", "cannot be read: Permission denied (os error 13)")] }
        }
    };
    assert_eq!(export(room.path(), &["*"], ROOMY).0, expected);
}

/// A refusal costs the run its exit status, so what no glob can name must not cause one.
#[test]
fn folders_that_no_glob_can_name_into_are_not_looked_into() {
    let room = TempDir::new().unwrap();
    tree::write(&tree([("out/a.csv", file("a")), ("b.csv", file("b")), ("out/x/c.csv", file("c"))]), room.path());
    drop(descend(room.path(), 300));
    let a = || artifact("out/a.csv", "a");
    let c = || artifact("out/x/c.csv", "c");
    for (globs, expected) in [
        (["*.csv"].as_slice(), taken([artifact("b.csv", "b")])),
        (&["out/*.csv"], taken([a()])),
        (&["out/**/*.csv"], taken([a(), c()])),
        (&["o*/?.csv"], taken([a()])),
        (&["*/*/c.csv"], taken([c()])),
        (&["o?t/**"], taken([a(), c()])),
    ] {
        assert_eq!(export(room.path(), globs, ROOMY).0, expected, "{globs:?}");
    }
}

#[test]
fn a_sink_that_fails_refuses_the_file() {
    struct Full;
    impl ArtifactSink for Full {
        fn store(&mut self, _: &mut dyn Read) -> io::Result<Stored> {
            Err(io::Error::from_raw_os_error(28))
        }
    }
    let room = TempDir::new().unwrap();
    fs::write(room.path().join("a"), "a").unwrap();
    let export = collect(tree::open(room.path()).as_fd(), &["a".parse().unwrap()], ROOMY, &mut Full);
    assert_eq!(export, refused([refusal("a", "cannot be read: No space left on device (os error 28)")]));
}
