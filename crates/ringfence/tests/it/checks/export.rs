//! Checks of the export and of what is left behind (XA) that no older test held.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{Place, User, binary, eventually, is_root, sleepers};

/// A project whose files have several owners where that can be: of such a one a private copy is made on the host's disk.
fn project_that_is_copied(place: &Place) -> String {
    place.write("p/mine.txt", "mine\n");
    let other = place.write("p/folder/other.txt", "other\n");
    if is_root() {
        chown(&other, Some(12_345), Some(12_345)).unwrap();
    }
    place.path("p").display().to_string()
}

#[test]
fn xa_05_a_hard_link_is_no_way_to_write_what_was_given() {
    for place in Place::each() {
        let input = place.write("data.csv", "a,b\n");
        let script = "ln /inputs/data.csv a || cp /inputs/data.csv a; chmod u+w a; ln a b; echo MORE >> b; ln /etc/hostname c || true";
        let (report, status) =
            place.report(&["--input", "data.csv", "--export", "a", "--export", "b", "--out", "out"], &["bash", "-c", script]);
        assert_eq!(status, 0, "{report}");
        fs::write(place.path("out/a"), "written on the host").unwrap();
        assert_eq!(fs::read_to_string(place.path("out/b")).unwrap(), "a,b\nMORE\n", "one export is written through the other");
        assert_eq!(fs::read_to_string(input).unwrap(), "a,b\n");
    }
}

/// Names that steer, collide or are too long; links, pipes, sockets, bombs and archives that unpack elsewhere; set-user-id and attributes.
#[test]
fn xa_11_12_14_15_what_a_hostile_program_leaves_is_exported_plain_or_refused() {
    for place in Place::each() {
        let probe = place.write("probe.py", include_str!("../../data/probe.py"));
        let script = "mkdir h && python3 /inputs/probe.py hostile h > made && sha256sum h/*.zip h/*.gz h/*.tar > sums";
        let mut run = place.command(binary());
        run.args(["run", "--out", "out", "--export", "h/*", "--export", "sums", "--input"]).arg(probe).args(["--", "bash", "-c", script]);
        let outcome = crate::support::outcome(run.output().unwrap());
        assert_eq!(outcome.status, 123, "{outcome:?}");
        assert!(!outcome.stderr.contains(['\u{1b}', '\u{202e}']), "{outcome:?}");
        let refused: Vec<&str> = outcome.stderr.lines().filter_map(|line| line.strip_prefix("ringfence: not exported: h/")).collect();
        let unreadable = usize::from(place.user == User::Ordinary); // to root everything can be read
        let of = |reason: &str| refused.iter().filter(|line| line.contains(reason)).count();
        assert_eq!((of("is a symbolic link"), of("is a socket, pipe or device"), refused.len()), (6, 2, 8 + unreadable), "{refused:?}");
        assert_plain(&place.path("out/h"));
        let check = crate::support::outcome(
            place.command("/usr/bin/sha256sum").args(["--check", "sums"]).current_dir(place.path("out")).output().unwrap(),
        );
        assert_eq!((check.status, check.stdout.lines().count()), (0, 4), "archives are not as they were: {check:?}");
    }
}

/// Regular files of plain modes without attributes, none in the place of another.
fn assert_plain(folder: &Path) {
    let entries: Vec<_> = fs::read_dir(folder).unwrap().map(Result::unwrap).collect();
    for entry in &entries {
        let meta = entry.path().symlink_metadata().unwrap();
        assert!(
            meta.is_file() && meta.nlink() == 1 && [0o644, 0o755].contains(&(meta.permissions().mode() & 0o7777)),
            "{entry:?} {meta:?}"
        );
        let mut attributes = [0u8; 0];
        assert_eq!(rustix::fs::listxattr(entry.path(), &mut attributes).unwrap(), 0, "{entry:?}");
    }
    let names: Vec<_> = entries.iter().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    for wanted in ["Case", "case", "caf\u{e9}", "cafe\u{301}", "setuid", "xattr", "bomb.zip", "slip.tar", &"n".repeat(255)] {
        assert!(names.iter().any(|name| name == wanted), "{wanted}: {names:?}");
    }
    assert_eq!(fs::read_to_string(folder.join("Case")).unwrap(), "Case");
}

#[test]
fn xa_19_clean_up_follows_no_link() {
    for place in Place::each() {
        let (project, bait) = (project_that_is_copied(&place), place.write("bait/kept.txt", "KEPT"));
        symlink(place.path("bait"), place.path("p/link")).unwrap();
        let bait_folder = place.path("bait").display().to_string();
        let script = format!(
            "rm -rf folder; ln -s {bait_folder} folder; ln -s {bait_folder} /tmp/l; ln -s {bait_folder} new; mkdir d; ln -s ../.. d/up"
        );
        let (report, status) = place.report(&["--project", &project], &["bash", "-c", &script]);
        assert_eq!(status, 0, "{report}");
        place.assert_clean();
        assert_eq!(fs::read_to_string(bait).unwrap(), "KEPT");
        assert!(place.path("p/folder/other.txt").exists());
    }
}

#[test]
fn xa_20_nothing_survives_a_run_that_was_killed() {
    for place in Place::each() {
        let (project, mark) = (project_that_is_copied(&place), format!("72.{}", 1 + place.user as u8));
        let script = format!("for d in /workspace /tmp /dev/shm; do echo LEFT-BEHIND > $d/mark; done; sync; sleep {mark}");
        let mut first =
            place.command(binary()).args(["run", "--quiet", "--project", &project, "--", "bash", "-c", &script]).spawn().unwrap();
        eventually("start of the sleeper", || sleepers(&mark).len() == 1);
        kill_process(Pid::from_child(&first), Signal::KILL).unwrap();
        first.wait().unwrap();
        let look = "cat /workspace/mark /tmp/mark /dev/shm/mark 2>/dev/null; ls -A /workspace /tmp /dev/shm";
        assert_eq!(place.bash(&["--quiet"], look).stdout, "/dev/shm:\n\n/tmp:\n\n/workspace:\n");
        place.assert_clean();
        let left = place.command("/bin/grep").args(["-rl", "LEFT-BEHIND"]).arg(place.home().join("work")).output().unwrap();
        assert!(left.stdout.is_empty(), "{left:?}");
    }
}

#[test]
fn xa_21_what_cannot_be_opened_is_cleaned_up() {
    for place in Place::each() {
        let project = project_that_is_copied(&place);
        let immutable = "import fcntl, os, struct\ntry: fcntl.ioctl(os.open('mine.txt', os.O_RDONLY), 0x40086602, struct.pack('l', 0x10))\nexcept OSError: pass";
        let script =
            format!("python3 -c \"{immutable}\"; mkdir -p d/e /tmp/d/e; echo x > d/e/f; chmod 000 d/e/f d/e d /tmp/d/e /tmp/d folder");
        let (report, status) = place.report(&["--project", &project], &["bash", "-c", &script]);
        assert_eq!(status, 0, "{report}");
        place.assert_clean();
        assert_eq!(place.bash(&["--quiet", "--project", &project], "cat mine.txt folder/other.txt").stdout, "mine\nother\n");
    }
}

#[test]
fn xa_22_artifacts_of_one_name_are_both_kept() {
    for place in Place::each() {
        let export = |text: &str| {
            let (report, _): (Value, i32) = place.report(&["--export", "report"], &["bash", "-c", &format!("printf {text} > report")]);
            report["artifacts"][0]["sha256"].as_str().unwrap().to_owned()
        };
        let (first, second) = (export("one"), export("two"));
        let shown = |digest: &str| place.ringfence(&["artifact", "show", digest]).stdout;
        assert_eq!((shown(&first).trim_end(), shown(&second).trim_end()), ("one", "two"));
    }
}
