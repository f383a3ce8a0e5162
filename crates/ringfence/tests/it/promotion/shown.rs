//! What is shown, named and done is the same thing: nothing steers the reader, nothing is left out of sight, and nothing goes under another name.

use std::fs;

use super::rig::{CHECK, FIX, Rig};
use crate::support::User;

/// What `approval show` prints of a promotion.
fn shown(rig: &Rig, asked: &serde_json::Value) -> String {
    rig.place.ringfence(&["approval", "show", &Rig::approval(asked)]).stdout
}

#[test]
fn a_path_cannot_steer_the_terminal_or_pass_for_a_line_of_ours() {
    let rig = Rig::with(User::Ordinary, "", "");
    let script = "mkdir -p .github && printf x > $'.github/\\033[2J\\033[H\\n  checks     passed\\n'; printf x > $'tests\\u202e/x' 2>/dev/null || true";
    let asked = rig.promote(&rig.patch(script), "main");
    let shown = shown(&rig, &asked);
    assert!(!shown.contains('\x1b') && !shown.lines().any(|line| line.trim() == "checks     passed"), "{shown}");
    assert!(shown.contains("\".github/\\033[2J"), "it is named in quotes: {shown}");
    for done in
        [rig.place.ringfence(&["promotion", "show", asked["promotion"].as_str().unwrap()]), rig.place.ringfence(&["approval", "ls"])]
    {
        assert!(!done.stdout.contains('\x1b'), "{done:?}");
    }
}

#[test]
fn an_artifact_with_a_hostile_name_is_refused_without_its_name_being_obeyed() {
    let rig = Rig::with(User::Ordinary, "", "");
    let run = |script: &str| {
        let (report, _) = rig.place.report(&["--export", "**"], &["bash", "-c", script]);
        report["artifacts"][0]["sha256"].as_str().unwrap().to_owned()
    };
    for (script, target) in [
        ("printf 1 > $'x\\e]0;evil\\a.md'", "reports"),
        ("printf 2 > $'x\\e]0;evil\\a.csv'", "main"),
        ("printf 3 > '.hidden.md'", "reports"),
    ] {
        let done = rig.place.ringfence(&["promote", &run(script), "--to", target]);
        assert!(done.status == 125 && !done.stderr.contains('\x1b') && done.stderr.contains("hint: "), "{done:?}");
        let json = rig.place.ringfence(&["artifact", "ls", "--json"]).stdout;
        assert!(!json.contains('\x1b'), "{json}");
    }
    assert_eq!(fs::read_dir(rig.place.path("reports")).unwrap().count(), 0);
}

#[test]
fn what_no_check_sees_needs_an_approval_of_its_own_and_is_said() {
    let rig = Rig::new(User::Ordinary);
    let asked = rig.promote(&rig.patch(&format!("{FIX}; true")), "main");
    assert_eq!(asked["approvals"].as_array().unwrap().len(), 1, "{asked}");
    // The name of the file is that of a key, so that no sandbox shows it.
    let patch = "diff --git a/calc.py b/calc.py\n--- a/calc.py\n+++ b/calc.py\n@@ -1,2 +1,2 @@\n def total(numbers):\n-    return sum(numbers) + 1\n+    return sum(numbers)\n\
         diff --git a/id_mode b/id_mode\nnew file mode 100644\n--- /dev/null\n+++ b/id_mode\n@@ -0,0 +1 @@\n+evil\n";
    let asked = rig.promote(&rig.hand_in(patch.as_bytes()), "main");
    assert_eq!(asked["approvals"].as_array().unwrap().len(), 2, "{asked}");
    assert!(shown(&rig, &asked).contains("no check saw these, whose names are those of secrets: id_mode"), "{asked}");
}

#[test]
fn what_says_how_a_check_goes_needs_an_approval_of_its_own() {
    let rig = Rig::with(User::Ordinary, "checks = [\"make test\"]\n", "");
    rig.commit(&format!("printf 'test:\\n\\t{CHECK}\\n' > Makefile"));
    rig.shell("rm -rf src && git clone -q app.git src");
    let asked = rig.promote(&rig.patch("printf 'test: ; true\\n' > Makefile"), "main");
    assert_eq!((asked["state"].as_str(), asked["approvals"].as_array().unwrap().len()), (Some("waiting"), 2), "{asked}");
    let new = rig.promote(&rig.patch("printf 'test: ; true\\n' > GNUmakefile"), "main");
    assert_eq!(new["approvals"].as_array().unwrap().len(), 2, "{new}");
}

#[test]
fn a_file_that_a_check_names_needs_an_approval_of_its_own_and_new_tests_are_said_not_to_have_run() {
    let rig = Rig::with(User::Ordinary, "checks = [\"sh ./run_tests.sh && true\"]\n", "");
    rig.commit(&format!("echo '{CHECK}' > run_tests.sh"));
    rig.shell("rm -rf src && git clone -q app.git src");
    let asked = rig.promote(&rig.patch("echo true > run_tests.sh; echo 'import os' > tests/test_more.py"), "main");
    assert_eq!((asked["state"].as_str(), asked["approvals"].as_array().unwrap().len()), (Some("waiting"), 2), "{asked}");
    assert_eq!(asked["approvals"][1]["paths"], serde_json::json!(["run_tests.sh"]));
    assert!(shown(&rig, &asked).contains("the checks ran without them, with the tests of the base: tests/test_more.py"));
}

#[test]
fn a_path_that_differs_in_case_alone_is_refused() {
    let rig = Rig::with(User::Ordinary, "", "");
    for script in ["echo x > CALC.py", "mkdir Tests && echo x > Tests/more.py"] {
        let report = rig.promote(&rig.patch(script), "main");
        assert!(report["state"] == "refused" && report["cause"].as_str().unwrap().contains("in the case of letters alone"), "{report}");
    }
    let moved = rig.promote(&rig.patch("mv calc.py Calc.py"), "main");
    assert_eq!(moved["state"], "waiting", "one that takes the place of the other is no collision: {moved}");
}

#[test]
fn the_same_bytes_under_two_names_go_where_they_were_named() {
    let rig = Rig::new(User::Ordinary);
    let (report, _) = rig.place.report(&["--export", "*.md"], &["bash", "-c", "echo same | tee a.md > b.md"]);
    let (run, digest) = (report["run"].as_str().unwrap(), report["artifacts"][0]["sha256"].as_str().unwrap());
    let alone = rig.place.ringfence(&["promote", digest, "--to", "reports"]);
    assert!(alone.status == 125 && alone.stderr.contains("made more than once") && alone.stderr.contains("RUN/PATH"), "{alone:?}");
    for name in ["b.md", "a.md"] {
        let asked = rig.promote(&format!("{run}/{name}"), "reports");
        assert_eq!((asked["state"].as_str(), asked["path"].as_str()), (Some("waiting"), Some(name)), "{asked}");
        assert_eq!(rig.approve(&Rig::approval(&asked), "anna").status, 0);
        assert_eq!(fs::read_to_string(rig.place.path(&format!("reports/{name}"))).unwrap(), "same\n");
    }
}

#[test]
fn what_was_asked_for_can_be_withdrawn_until_it_is_started() {
    let rig = Rig::new(User::Ordinary);
    let digest = rig.report("x");
    let asked = rig.promote(&digest, "reports");
    let id = asked["promotion"].as_str().unwrap();
    assert_eq!(rig.place.ringfence(&["promotion", "withdraw", id]).status, 0);
    let over = rig.show(&asked);
    assert!(over["state"] == "denied" && over["cause"].as_str().unwrap().starts_with("withdrawn by"), "{over}");
    let late = rig.approve(&Rig::approval(&asked), "anna");
    assert!(late.status == 125 && late.stderr.contains("can no longer be decided"), "{late:?}");
    rig.assert_verifies(&asked);
    let done = rig.promoted(&digest, "reports");
    let late = rig.place.ringfence(&["promotion", "withdraw", done["promotion"].as_str().unwrap()]);
    assert!(late.status == 125 && late.stderr.contains("can no longer be withdrawn"), "{late:?}");
}

#[test]
fn a_receipt_is_found_changed_in_any_part() {
    let rig = Rig::new(User::Ordinary);
    let done = rig.promoted(&rig.patch(FIX), "main");
    let folder = rig.evidence(&done);
    let verify = || rig.place.ringfence(&["evidence", "verify", folder.to_str().unwrap()]).status;
    assert_eq!(verify(), 0);
    for entry in fs::read_dir(&folder).unwrap().flatten() {
        let (path, bytes) = (entry.path(), fs::read(entry.path()).unwrap());
        if bytes.is_empty() {
            continue;
        }
        for at in [0, bytes.len() / 2, bytes.len() - 1] {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            fs::write(&path, changed).unwrap();
            assert_eq!(verify(), 1, "{} at {at}", path.display());
        }
        fs::remove_file(&path).unwrap();
        assert_ne!(verify(), 0, "{} is gone", path.display());
        fs::write(&path, bytes).unwrap();
    }
    fs::write(folder.join("more.txt"), "x").unwrap();
    assert_eq!(verify(), 1, "a file more");
    fs::remove_file(folder.join("more.txt")).unwrap();
    assert_eq!(verify(), 0);
}
