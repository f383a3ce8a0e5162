//! Export by the real binary: only what was named, and nothing that a hostile program can dress up.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::json;

use crate::support::Place;

#[test]
fn hostile_artifacts_are_refused_one_by_one() {
    for place in Place::each() {
        let victim = place.write("victim.txt", "ORIGINAL");
        let script = format!(
            "echo good > good; ln -s {} link; mkfifo pipe; mkdir folder; truncate -s 1000M sparse; mkdir d; ln -s /etc d/l; echo w > worldwide; chmod 6777 worldwide",
            victim.display()
        );
        let options = ["good", "link", "pipe", "folder", "sparse", "d/l/passwd", "worldwide", "never"]
            .iter()
            .flat_map(|g| ["--export", g])
            .chain(["--out", "out"])
            .collect::<Vec<_>>();
        let (report, status) = place.report(&options, &["bash", "-c", &script]);
        let exported: Vec<&str> = report["artifacts"].as_array().unwrap().iter().map(|a| a["path"].as_str().unwrap()).collect();
        assert_eq!((exported, status), (vec!["good", "worldwide"], 123), "{report}");
        let mut refused: Vec<String> = report["refusals"]
            .as_array()
            .unwrap()
            .iter()
            .map(|r| format!("{}: {}", r["path"].as_str().unwrap(), r["reason"].as_str().unwrap()))
            .collect();
        refused.sort();
        assert_eq!(
            refused,
            [
                "d/l/passwd: stands below a symbolic link or a file; exports are regular files only",
                "folder: is a folder; name what is in it, such as `folder/**`",
                "link: is a symbolic link; exports are regular files only",
                "never: was not written by the run",
                "pipe: is a socket, pipe or device; exports are regular files only",
                "sparse: is 1048576000 bytes long, more than the limit of 268435456",
            ]
        );
        assert_eq!(fs::metadata(place.path("out/worldwide")).unwrap().permissions().mode() & 0o7777, 0o755);
        assert_eq!(fs::read_to_string(victim).unwrap(), "ORIGINAL");
    }
}

#[test]
fn a_broken_total_refuses_the_whole_export() {
    for place in Place::each() {
        let exactly = place.report(
            &["--limit", "artifact-bytes=2KiB", "--export", "*"],
            &["bash", "-c", "head -c 1024 /dev/zero > a; head -c 1024 /dev/zero > b"],
        );
        assert_eq!((exactly.0["artifacts"].as_array().unwrap().len(), exactly.1), (2, 0));
        let over = place.report(
            &["--limit", "artifact-bytes=2KiB", "--export", "*"],
            &["bash", "-c", "head -c 1024 /dev/zero > a; head -c 1025 /dev/zero > b"],
        );
        assert_eq!((&over.0["artifacts"], over.1), (&json!([]), 123));
        let many = place.report(&["--limit", "artifacts=3", "--export", "*"], &["bash", "-c", "touch 1 2 3 4"]);
        assert_eq!(many.0["refusals"][0]["reason"], "nothing was exported: 4 artifacts are more than the limit of 3");
    }
}

#[test]
fn out_never_overwrites_without_force_and_follows_no_link() {
    for place in Place::each() {
        place.write("out/report", "MINE");
        let taken = place.bash(&["--export", "report", "--out", "out"], "echo new > report");
        assert!(taken.status == 125 && taken.stderr.contains("is there already"), "{taken:?}");
        let (report, status) = place.report(&["--export", "rep*", "--out", "out"], &["bash", "-c", "echo new > report"]);
        assert_eq!((report["refusals"][0]["path"].as_str(), status), (Some("report"), 123));
        assert_eq!(fs::read_to_string(place.path("out/report")).unwrap(), "MINE");
        assert_eq!(place.bash(&["--export", "report", "--out", "out", "--force"], "echo new > report").status, 0);
        assert_eq!(fs::read_to_string(place.path("out/report")).unwrap(), "new\n");
        let elsewhere = place.folder("elsewhere");
        symlink(&elsewhere, place.path("out/sub")).unwrap();
        let (report, _) = place.report(&["--export", "sub/*", "--out", "out"], &["bash", "-c", "mkdir sub; echo x > sub/x"]);
        assert!(report["refusals"][0]["reason"].as_str().unwrap().contains("could not be copied"), "{report}");
        assert_eq!(fs::read_dir(elsewhere).unwrap().count(), 0);
    }
}

#[test]
fn what_was_not_named_does_not_leave() {
    for place in Place::each() {
        let (report, _) = place.report(&["--export", "a"], &["bash", "-c", "echo a > a; echo b > b"]);
        assert_eq!(report["artifacts"].as_array().unwrap().len(), 1);
        let listed = place.ringfence(&["artifact", "ls", "--json", report["run"].as_str().unwrap()]).stdout;
        assert!(listed.contains("\"path\": \"a\"") && !listed.contains("\"path\": \"b\""), "{listed}");
    }
}

#[test]
fn odd_names_leave_and_are_shown_without_their_control_bytes() {
    for place in Place::each() {
        let script = "printf x > $'new\\nline'; printf y > $'esc\\033[31m'; printf z > $'bad\\377'; printf w > ./-rf; printf v > $'inv\\342\\200\\256fdp.sh'; printf u > Case; printf t > case; printf s > '100%.csv'";
        let outcome = place.bash(&["--export", "*", "--out", "out"], script);
        assert_eq!(outcome.status, 0, "{outcome:?}");
        assert!(
            !outcome.stderr.contains('\u{1b}') && !outcome.stderr.contains('\u{202e}') && outcome.stderr.contains("new\\nline"),
            "{outcome:?}"
        );
        assert_eq!(fs::read_dir(place.path("out")).unwrap().count(), 8);
        assert_eq!(fs::read_to_string(place.path("out/100%.csv")).unwrap(), "s");
        let listed = place.ringfence(&["artifact", "ls"]).stdout;
        assert!(!listed.contains('\u{1b}'), "{listed}");
    }
}

#[test]
fn an_artifact_is_shown_harmless_and_fetched_whole() {
    for place in Place::each() {
        let (report, _) = place.report(&["--export", "a"], &["bash", "-c", "printf '\\033]0;evil\\007text\\n' > a"]);
        let digest = report["artifacts"][0]["sha256"].as_str().unwrap();
        let shown = place.ringfence(&["artifact", "show", digest]).stdout;
        assert_eq!(shown.lines().next().unwrap(), "\\u{1b}]0;evil\\u{7}text");
        assert_eq!(place.ringfence(&["artifact", "get", digest, "--out", "fetched"]).status, 0);
        assert_eq!(fs::read(place.path("fetched")).unwrap(), b"\x1b]0;evil\x07text\n");
        assert_eq!(place.ringfence(&["artifact", "get", digest, "--out", "fetched"]).status, 125);
        assert_eq!(place.ringfence(&["artifact", "show", "sha256:00"]).status, 125);
    }
}
