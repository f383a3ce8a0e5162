//! Bad input: one clear message (what, where, why, how to mend), exit 125, and nothing left behind.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};

use crate::support::{Outcome, Place, User, binary, eventually, is_root, outcome, sleepers};

/// A refusal that says `what`, hints at a way out, and leaves nothing.
fn assert_refused(place: &Place, outcome: &Outcome, what: &str) {
    assert_eq!(outcome.status, 125, "{outcome:?}");
    assert!(outcome.stderr.contains(what), "wanted {what:?} in {:?}", outcome.stderr);
    assert!(
        outcome.stderr.contains("hint: ") || outcome.stderr.contains("Usage:") || outcome.stderr.contains("failed at"),
        "no way out: {:?}",
        outcome.stderr
    );
    assert_eq!(outcome.stdout, "");
    if place.home().join("live").exists() {
        place.assert_clean();
    }
}

fn run(place: &Place, options: &[&str]) -> Outcome {
    place.ringfence(&[&["run"], options, &["--", "echo", "RAN"]].concat())
}

#[test]
fn wrong_words_are_refused_with_the_right_ones() {
    for place in Place::each() {
        for (options, what) in [
            (vec!["--profile", "nope"], "there is no profile `nope`; there are no-code, data-analysis"),
            (vec!["--profile", "missing.toml"], "read profile `missing.toml`"),
            (vec!["--agent", "ghost"], "agent `ghost` is not registered"),
            (vec!["--limit", "memory=1e9"], "limit `memory` cannot be `1e9`; write a size with its unit"),
            (vec!["--limit", "memory=1000"], "write a size with its unit"),
            (vec!["--limit", "wal=1s"], "there is no limit `wal`; the limits are wall, cpu"),
            (vec!["--limit", "wall"], "is not of the form KEY=VALUE"),
            (vec!["--limit", "wall=1ms"], "the least that can be held is 10 ms"),
            (vec!["--limit", "memory=2GiB"], "limit `memory` of 2 GiB is above the bound of 1 GiB (set by the profile)"),
            (vec!["--input", "missing.csv"], "input `missing.csv` cannot be read: No such file"),
            (vec!["--export", "/etc/passwd"], "`/etc/passwd` is absolute"),
            (vec!["--export", "../x"], "holds an empty, `.` or `..` part"),
            (vec!["--export", ""], "an empty glob names nothing"),
            (vec!["--project", "/"], "holds a whole home or more than a project"),
            (vec!["--project", "missing"], "project `missing` cannot be read"),
            (vec!["--reveal", "**"], "`**` holds an empty, `.`, `..` or `**` part"),
            (vec!["--project", "/usr/share"], "is part of the image"),
            (vec!["--reveal", ".env"], "hidden file `.env` may not be revealed (set by the profile)"),
            (vec!["--env", "NOVALUE"], "`NOVALUE` has no `=`"),
            (vec!["--env", "=x"], "is not a variable name"),
            (vec!["--env", "A B=x"], "is not a variable name"),
            (vec!["--allow", "example.com"], "names no port"),
            (vec!["--allow", "ftp://example.com:21"], "unknown scheme"),
            (vec!["--allow", "*.com:443"], "too wide"),
            (vec!["--allow", "example.com:443"], "is not on the allowlist (set by the profile)"),
            (vec!["--tier", "docker"], "`docker` is none of process, gvisor, microvm"),
            (vec!["--tier", "microvm"], "needs tier `microvm`, not available in this version"),
            (vec!["--frobnicate"], "unexpected argument '--frobnicate'"),
        ] {
            assert_refused(&place, &run(&place, &options), what);
        }
        assert_refused(&place, &place.ringfence(&["run"]), "required arguments were not provided");
        assert_refused(&place, &place.ringfence(&["run", "--", ""]), "the program's name is empty");
    }
}

#[test]
fn the_whole_home_is_no_project_and_neither_is_the_record() {
    for place in Place::each() {
        place.write("nobody-home/project/x", "x");
        let home = place.path("nobody-home");
        assert_refused(&place, &run(&place, &["--project", home.to_str().unwrap()]), "holds a whole home");
        assert_refused(&place, &run(&place, &["--input", home.to_str().unwrap()]), "holds a whole home");
        assert_refused(&place, &run(&place, &["--project", place.home().to_str().unwrap()]), "is part of the record");
        assert_refused(&place, &run(&place, &["--project", place.path("").to_str().unwrap()]), "holds a whole home or more");
        let keys = place.home().join("keys");
        assert_refused(&place, &run(&place, &["--project", keys.to_str().unwrap()]), "is part of the record");
        assert_refused(&place, &run(&place, &["--input", keys.join("evidence.key").to_str().unwrap()]), "is part of the record");
        let project = home.join("project");
        assert_eq!(run(&place, &["--project", project.to_str().unwrap()]).status, 0);
    }
}

#[test]
fn inputs_that_are_no_files_are_refused() {
    for place in Place::each() {
        let pipe = place.path("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o666), 0).unwrap();
        place.give(&pipe);
        assert_refused(&place, &run(&place, &["--input", "pipe"]), "neither a regular file nor a folder");
        symlink("loop", place.path("loop")).unwrap();
        assert_refused(&place, &run(&place, &["--input", "loop"]), "input `loop` cannot be read");
        place.write("a.csv", "x");
        place.write("b/a.csv", "y");
        assert_refused(&place, &run(&place, &["--input", "a.csv", "--input", "b/a.csv"]), "two inputs have the name `a.csv`");
        assert_refused(&place, &run(&place, &["--input", "a.csv=../x"]), "cannot be the name of an input");
        let private = place.write("private.csv", "x");
        fs::set_permissions(&private, fs::Permissions::from_mode(0o000)).unwrap();
        if place.user == User::Ordinary {
            assert_refused(&place, &run(&place, &["--input", "private.csv"]), "Permission denied");
        }
    }
}

#[test]
fn odd_names_and_long_arguments_pass() {
    for place in Place::each() {
        place.write("with=sign.csv", "x");
        assert_eq!(place.bash(&["--quiet", "--input", "with=sign.csv"], "ls /inputs").stdout, "with=sign.csv\n");
        let argument = "x".repeat(64 << 10);
        let (report, _) = place.report(&[], &["bash", "-c", "echo ${#0} ${#1}", "a", &argument]);
        assert_eq!(report["stdout"], "1 65536\n");
        let outcome = outcome(
            place
                .command(binary())
                .args(["run", "--quiet", "--", "printf", "%s"])
                .arg(std::ffi::OsStr::from_bytes(b"\xff\xfe"))
                .output()
                .unwrap(),
        );
        assert_eq!(outcome.stdout, "\u{fffd}\u{fffd}");
    }
}

/// Bytes as an argument.
trait ToStrLossy {
    fn to_str_lossy(&self) -> std::ffi::OsString;
}

impl ToStrLossy for [u8] {
    fn to_str_lossy(&self) -> std::ffi::OsString {
        std::ffi::OsStr::from_bytes(self).to_owned()
    }
}

#[test]
fn an_input_whose_name_is_not_text_can_be_given_one() {
    for place in Place::each() {
        let odd = place.path("").join(std::ffi::OsStr::from_bytes(b"odd-\xff.csv"));
        fs::write(&odd, "content").unwrap();
        place.give(&odd);
        let mut command = place.command(binary());
        let named = [odd.as_os_str().as_bytes(), b"=odd.csv"].concat();
        command.args(["run", "--quiet", "--input"]).arg(named.to_str_lossy()).args(["--", "cat", "/inputs/odd.csv"]);
        assert_eq!(outcome(command.output().unwrap()).stdout, "content");
        let mut command = place.command(binary());
        command.args(["run", "--input"]).arg(&odd).args(["--", "true"]);
        assert_refused(&place, &outcome(command.output().unwrap()), "the name is not UTF-8");
    }
}

#[test]
fn a_home_that_cannot_be_used_stops_everything() {
    for place in Place::each() {
        place.write("home/format", "99\n");
        assert_refused(&place, &run(&place, &[]), "was made by a newer ringfence (format 99; this one knows 1)");
        fs::remove_dir_all(place.home()).unwrap();
        place.write("home", "a file");
        assert_refused(&place, &run(&place, &[]), "open `");
        fs::remove_file(place.home()).unwrap();
        if place.user == User::Ordinary {
            place.folder("home");
            fs::set_permissions(place.home(), fs::Permissions::from_mode(0o500)).unwrap();
            assert_refused(&place, &run(&place, &[]), "Permission denied");
            fs::set_permissions(place.home(), fs::Permissions::from_mode(0o700)).unwrap();
        }
    }
}

/// In a mount namespace of its own: as root, or as the root of a user namespace.
fn in_own_mounts(place: &Place, script: &str) -> Outcome {
    let namespaces = if is_root() { "-m" } else { "-Urm" };
    outcome(place.command("/usr/bin/unshare").args([namespaces, "bash", "-c", script]).output().unwrap())
}

#[test]
fn a_full_or_read_only_home_stops_everything() {
    let place = Place::new(if is_root() { User::Root } else { User::Ordinary });
    let in_a_mount = |prepare: &str| {
        let script = format!(
            "mkdir -p home && mount -t tmpfs -o size=256k,mode=700 tmpfs home && {prepare}; {} run -- echo RAN; s=$?; umount home; exit $s",
            binary().display()
        );
        in_own_mounts(&place, &script)
    };
    let read_only = in_a_mount("mount -o remount,bind,ro home");
    assert_eq!((read_only.status, read_only.stdout.as_str()), (125, ""), "{read_only:?}");
    assert!(read_only.stderr.contains("Read-only file system") && read_only.stderr.contains("hint: set RINGFENCE_HOME"), "{read_only:?}");
    let full = in_a_mount("head -c 300k /dev/zero > home/filler 2>/dev/null");
    assert_eq!((full.status, full.stdout.as_str()), (125, ""), "{full:?}");
    assert!(full.stderr.contains("No space left") && full.stderr.contains("make room"), "{full:?}");
}

#[test]
fn a_deleted_folder_and_closed_streams_are_no_harm() {
    for place in Place::each() {
        let gone = place.folder("gone");
        let script = format!("cd {0} && rmdir {0} && {1} run --quiet -- echo RAN", gone.display(), binary().display());
        assert_eq!(outcome(place.command("/bin/bash").args(["-c", &script]).output().unwrap()).stdout, "RAN\n");
        let closed = format!(
            "{0} run --quiet -- echo RAN <&-; {0} run -- echo RAN 2>&-; {0} run -- echo RAN >&- 2>/dev/null; true",
            binary().display()
        );
        assert_eq!(outcome(place.command("/bin/bash").args(["-c", &closed]).output().unwrap()).stdout, "RAN\nRAN\n");
        place.assert_clean();
    }
}

#[test]
fn a_wrong_profile_is_refused_with_line_field_cause_and_fix() {
    for place in Place::each() {
        place.write("p.toml", "name = \"x\"\nexecution = \"commands\"\n[limits]\nwal = \"1s\"\n");
        let outcome = place.ringfence(&["profile", "check", "p.toml"]);
        assert_refused(&place, &outcome, "p.toml:4:1: unknown field `wal`, expected one of `wall`, `cpu`");
        assert_refused(&place, &run(&place, &["--profile", "./p.toml"]), "p.toml:4:1");
        place.write("settings.toml", "[ceiling]\nallowedDomain = 1\n");
        assert_refused(&place, &run(&place, &["--config", "settings.toml"]), "settings.toml:2:1: unknown field `allowedDomain`");
        assert_refused(&place, &run(&place, &["--config", "missing.toml"]), "read `missing.toml`");
    }
}

#[test]
fn a_request_to_stop_ends_the_run_and_seals_it() {
    // TERM, not INT: a shell's background jobs, of which this test may be one, ignore INT, and what the caller ignores stays ignored.
    for place in Place::each() {
        let child = place.command(binary()).args(["run", "--", "sleep", "63.75"]).stderr(std::process::Stdio::piped()).spawn().unwrap();
        eventually("sandbox", || sleepers("63.75").len() == 1);
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM).unwrap();
        let outcome = outcome(child.wait_with_output().unwrap());
        assert_eq!(outcome.status, 143, "{outcome:?}");
        assert!(outcome.stderr.contains("failed at `interrupted`: SIGTERM") && outcome.stderr.contains("evidence sha256:"), "{outcome:?}");
        place.assert_clean();
    }
}

#[test]
fn without_user_namespaces_nothing_runs_and_the_way_out_is_named() {
    for place in Place::each() {
        // The root of a namespace in which no further one can be made.
        let script = format!("echo 0 > /proc/sys/user/max_user_namespaces && exec {} run -- echo RAN", binary().display());
        let outcome = outcome(place.command("/usr/bin/unshare").args(["-Ur", "bash", "-c", &script]).output().unwrap());
        assert_eq!((outcome.status, outcome.stdout.as_str()), (125, ""), "{outcome:?}");
        assert!(
            outcome.stderr.contains("failed at `make namespaces`") && outcome.stderr.contains("user.max_user_namespaces"),
            "{outcome:?}"
        );
        place.assert_clean();
    }
}

#[test]
fn as_root_of_a_namespace_a_run_works_with_the_one_id_there_is() {
    for place in Place::each() {
        let script = format!("exec {} run --quiet -- id -u", binary().display());
        let outcome = outcome(place.command("/usr/bin/unshare").args(["-Ur", "bash", "-c", &script]).output().unwrap());
        assert_eq!((outcome.status, outcome.stdout.as_str()), (0, "1000\n"), "{:?} {outcome:?}", place.user);
    }
}

#[test]
fn without_proc_nothing_runs() {
    let place = Place::new(if is_root() { User::Root } else { User::Ordinary });
    place.ringfence(&["run", "--", "true"]);
    let script = format!("mount -t tmpfs tmpfs /proc && exec {} run -- echo RAN", binary().display());
    let outcome = in_own_mounts(&place, &script);
    assert_eq!((outcome.status, outcome.stdout.as_str()), (125, ""), "{outcome:?}");
    assert!(outcome.stderr.contains("/proc") && outcome.stderr.contains("hint: mount"), "{outcome:?}");
}
