//! What goes wrong with a target while something is promoted to it: told plainly, done once or not at all, and gone on with once it is well again.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::rig::{FIX, Rig};
use crate::faults::{Fault, calls, faulty};
use crate::left::names;
use crate::support::{Outcome, User, binary, outcome, spread};

fn rig() -> Rig {
    Rig::with(User::Ordinary, "", "")
}

/// A promotion of the fix to the branch, approved but not applied.
fn approved(rig: &Rig) -> (String, Value) {
    let digest = rig.patch(FIX);
    let asked = rig.promote(&digest, "main");
    let later = rig.place.ringfence(&["approval", "approve", &Rig::approval(&asked), "--as", "anna", "--later"]);
    assert_eq!(later.status, 0, "{later:?}");
    (digest, asked)
}

fn promote(rig: &Rig, digest: &str) -> Outcome {
    rig.place.ringfence(&["promote", digest, "--to", "main"])
}

fn commits(rig: &Rig) -> String {
    rig.shell("git -C app.git rev-list --count main").trim().to_owned()
}

fn hook(rig: &Rig, name: &str, script: &str) {
    let path = rig.place.write(&format!("app.git/hooks/{name}"), format!("#!/bin/bash\n{script}\n"));
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn assert_applied(rig: &Rig, promotion: &Value) {
    let shown = rig.show(promotion);
    assert_eq!((shown["state"].as_str(), commits(rig).as_str()), (Some("applied"), "2"), "{shown}");
    rig.assert_verifies(promotion);
    rig.place.assert_clean();
}

#[test]
fn a_push_that_a_hook_refuses_ends_it_with_what_the_hook_said() {
    let rig = rig();
    hook(&rig, "pre-receive", "printf 'not on a \\x1b[31mFriday\\x1b[0m\\n' >&2; exit 1");
    let (digest, asked) = approved(&rig);
    let objects = rig.shell("git -C app.git count-objects");
    let refused = promote(&rig, &digest);
    let told = refused.stdout.replace('\n', " ");
    assert!(refused.status == 1 && told.contains("pre-receive hook declined") && told.contains("Friday"), "{refused:?}");
    assert!(!refused.stdout.contains('\x1b') && !refused.stderr.contains('\x1b'), "{refused:?}");
    let shown = rig.show(&asked);
    assert_eq!((shown["state"].as_str(), shown["approvals"][0]["state"].as_str()), (Some("failed"), Some("consumed")), "{shown}");
    assert_eq!((commits(&rig).as_str(), rig.shell("git -C app.git count-objects")), ("1", objects));
    rig.assert_verifies(&asked);
    rig.place.assert_clean();
}

/// The repository takes it, and nobody is told: git is killed before it can answer.
#[test]
fn pr_10_a_push_whose_answer_is_lost_is_settled_by_asking() {
    for name in ["post-receive", "reference-transaction"] {
        let rig = rig();
        let (digest, asked) = approved(&rig);
        let only = if name == "reference-transaction" { "[ \"$1\" = committed ] || exit 0\n" } else { "" };
        hook(&rig, name, &format!("{only}parent=$PPID; grand=$(ps -o ppid= -p $parent); kill -9 $parent $grand"));
        let done = promote(&rig, &digest);
        assert!(done.status == 0 && done.stdout.contains("applied"), "{name}: {done:?}");
        assert_applied(&rig, &asked);
    }
}

/// The repository does not take it and does not say so: nothing is known, and it goes on once it can.
#[test]
fn pr_10_a_push_that_breaks_off_stays_open_and_goes_on() {
    let rig = rig();
    let (digest, asked) = approved(&rig);
    hook(&rig, "pre-receive", "kill -9 $PPID");
    let broken = promote(&rig, &digest);
    assert!(broken.status == 125 && broken.stderr.contains("hint: "), "{broken:?}");
    let shown = rig.show(&asked);
    assert_eq!((shown["state"].as_str(), commits(&rig).as_str()), (Some("applying"), "1"), "{shown}");
    fs::remove_file(rig.place.path("app.git/hooks/pre-receive")).unwrap();
    let done = promote(&rig, &digest);
    assert!(done.status == 0 && done.stdout.contains("applied"), "{done:?}");
    assert_applied(&rig, &asked);
}

/// Another push holds the branch: that is no refusal.
#[test]
fn a_branch_that_is_locked_is_waited_for_by_asking_again() {
    let rig = rig();
    let (digest, asked) = approved(&rig);
    rig.shell("touch app.git/refs/heads/main.lock");
    let locked = promote(&rig, &digest);
    assert!(locked.status == 125 && locked.stderr.contains("main.lock"), "{locked:?}");
    assert_eq!(rig.show(&asked)["state"], "applying");
    rig.shell("rm app.git/refs/heads/main.lock");
    assert_eq!(promote(&rig, &digest).status, 0);
    assert_applied(&rig, &asked);
}

#[test]
fn pr_06_a_branch_that_moved_since_the_tests_makes_it_stale() {
    let rig = rig();
    let (digest, asked) = approved(&rig);
    let tip = rig.commit("echo other > other.txt");
    let stale = promote(&rig, &digest);
    assert!(stale.status == 1 && stale.stdout.contains("stale"), "{stale:?}");
    assert_eq!((rig.show(&asked)["state"].as_str(), rig.tip()), (Some("stale"), tip));
    rig.assert_verifies(&asked);
    // Asked again it is looked at, checked and asked about anew, on what is there now.
    let again = rig.promote(&digest, "main");
    assert_eq!(rig.approve(&Rig::approval(&again), "anna").status, 0);
    assert_eq!(commits(&rig), "3");
    rig.place.assert_clean();
}

#[test]
fn a_branch_or_a_repository_that_is_gone_is_named_and_may_come_back() {
    for (away, back, told) in [
        (
            "git -C app.git update-ref refs/heads/kept main && git -C app.git update-ref -d refs/heads/main",
            "git -C app.git update-ref refs/heads/main kept && git -C app.git update-ref -d refs/heads/kept",
            "has no branch `main`",
        ),
        ("mv app.git away.git", "mv away.git app.git", "app.git` cannot be reached"),
    ] {
        let rig = rig();
        let (digest, asked) = approved(&rig);
        rig.shell(away);
        let gone = promote(&rig, &digest);
        assert!(gone.status == 125 && gone.stderr.contains(told) && gone.stderr.contains("hint: "), "{gone:?}");
        let shown = rig.show(&asked);
        assert_eq!((shown["state"].as_str(), shown["approvals"][0]["state"].as_str()), (Some("waiting"), Some("approved")), "{shown}");
        rig.place.assert_clean();
        rig.shell(back);
        let done = promote(&rig, &digest);
        assert!(done.status == 0 && done.stdout.contains("applied"), "nobody is asked again: {done:?}");
        assert_applied(&rig, &asked);
    }
}

#[test]
fn without_git_a_person_is_told_so() {
    let rig = rig();
    let (digest, asked) = approved(&rig);
    rig.place.folder("empty");
    let mut command = rig.place.command(binary());
    command.args(["promote", &digest, "--to", "main"]).env("PATH", rig.place.path("empty"));
    let refused = outcome(command.output().unwrap());
    assert!(
        refused.status == 125 && refused.stderr.contains("git cannot be started") && refused.stderr.contains("hint: install git"),
        "{refused:?}"
    );
    assert_eq!(promote(&rig, &digest).status, 0);
    assert_applied(&rig, &asked);
}

#[test]
fn a_branch_that_somebody_works_on_is_refused_before_anybody_is_asked() {
    let rig = rig();
    let settings = fs::read_to_string(rig.place.home().join("ringfence.toml")).unwrap();
    rig.place.write("home/ringfence.toml", settings.replace("app.git", "src"));
    let digest = rig.patch(FIX);
    let refused = promote(&rig, &digest);
    assert!(
        refused.status == 125 && refused.stderr.contains("is checked out in") && refused.stderr.contains("hint: name a bare repository"),
        "{refused:?}"
    );
    rig.place.assert_clean();
    // As the hint says.
    rig.shell("git -C src config receive.denyCurrentBranch updateInstead");
    let asked = rig.promote(&digest, "main");
    assert_eq!(rig.approve(&Rig::approval(&asked), "anna").status, 0);
    assert_eq!(rig.shell("cat src/calc.py").lines().last(), Some("    return sum(numbers)"));
}

#[test]
fn an_address_that_does_not_answer_is_told_at_once() {
    let rig = rig();
    let settings = fs::read_to_string(rig.place.home().join("ringfence.toml")).unwrap();
    let repository = rig.place.path("app.git").display().to_string();
    let digest = rig.patch(FIX);
    for url in ["http://127.0.0.1:9/app.git", "https://nowhere.invalid/app.git", "ssh://git@127.0.0.1:9/app.git"] {
        rig.place.write("home/ringfence.toml", settings.replace(&repository, url));
        // What was begun with another address ends.
        let ended = promote(&rig, &digest);
        let begun = Instant::now();
        let refused = if ended.status == 1 { promote(&rig, &digest) } else { ended };
        assert!(refused.status == 125 && refused.stderr.contains(url) && refused.stderr.contains("cannot be reached"), "{refused:?}");
        assert!(refused.stderr.contains("hint: ") && begun.elapsed() < Duration::from_secs(25), "{:?}: {refused:?}", begun.elapsed());
    }
    rig.place.assert_clean();
}

/// The file is there as it was or as it is to be; nothing else is left in the folder.
fn assert_one_of(rig: &Rig, contents: [&str; 2]) {
    let path = rig.place.path("reports");
    let found = fs::read_to_string(path.join("report.md")).unwrap();
    assert!(contents.iter().any(|content| *content == found), "{found:?}");
    assert_eq!(names(&path), ["report.md"]);
}

#[test]
fn a_folder_that_cannot_be_written_is_told_and_gone_on_with() {
    let rig = rig();
    rig.promoted(&rig.report("first"), "reports");
    let asked = rig.promote(&rig.report("second"), "reports");
    let set = |mode| fs::set_permissions(rig.place.path("reports"), fs::Permissions::from_mode(mode)).unwrap();
    set(0o555);
    let refused = rig.approve(&Rig::approval(&asked), "anna");
    assert!(refused.status == 125 && refused.stderr.contains("reports") && refused.stderr.contains("Permission denied"), "{refused:?}");
    assert_one_of(&rig, ["first\n", "first\n"]);
    let shown = rig.show(&asked);
    assert_eq!((shown["state"].as_str(), shown["approvals"][0]["state"].as_str()), (Some("waiting"), Some("approved")), "{shown}");
    set(0o755);
    let done = rig.promote(asked["artifact"].as_str().unwrap(), "reports");
    assert_eq!(done["state"], "applied", "nobody is asked again: {done}");
    assert_one_of(&rig, ["second\n", "second\n"]);
    rig.assert_verifies(&asked);
    rig.place.assert_clean();
}

/// Every step of applying at which something takes room in the home.
#[test]
fn a_full_disk_of_the_home_at_any_step_loses_nothing() {
    let rig = rig();
    let mut text = "first".to_owned();
    rig.promoted(&rig.report(&text), "reports");
    let ask = |text: &str| rig.promote(&rig.report(text), "reports");
    let asked = ask("measured");
    let steps = calls(&rig.place, true, &["approval", "approve", &Rig::approval(&asked), "--as", "anna"]);
    let mut before = "measured".to_owned();
    for step in spread(steps, 12) {
        text = format!("full from step {step} on");
        let asked = ask(&text);
        let approval = Rig::approval(&asked);
        let full = outcome(faulty(&rig.place, Fault::Full(step), &["approval", "approve", &approval, "--as", "anna"]).output().unwrap());
        assert!(full.status == 0 || full.stderr.contains("hint: "), "step {step} of {steps}: {full:?}");
        let path = rig.place.path("reports/report.md");
        let found = fs::read_to_string(path).unwrap();
        assert!([format!("{before}\n"), format!("{text}\n")].contains(&found), "step {step} of {steps}: {found:?}");
        let next = rig.promote(asked["artifact"].as_str().unwrap(), "reports");
        if next["state"] == "waiting" {
            assert_eq!(rig.approve(&approval, "anna").status, 0);
        }
        assert_eq!(rig.show(&asked)["state"], "applied", "step {step} of {steps}");
        assert_one_of(&rig, [&format!("{text}\n"); 2]);
        rig.assert_verifies(&asked);
        before.clone_from(&text);
    }
    rig.place.assert_clean();
}

/// A target folder on a file system of its own that has room for half of the file.
#[test]
fn a_full_target_folder_keeps_its_file_and_takes_the_new_one_once_there_is_room() {
    if !crate::support::is_root() {
        println!("skipped 1: mounting a small file system needs root");
        return;
    }
    let rig = Rig::with(User::Root, "", "");
    let script = format!(
        "set -e; mount -t tmpfs -o size=48k tmpfs reports\n\
         ask() {{ '{0}' run --quiet --export report.md --out out-$1 -- bash -c \"seq $1 $2 > report.md\"; digest=sha256:$(sha256sum out-$1/report.md | cut -c1-64); \
           '{0}' promote $digest --to reports | grep -o 'approve .*' | cut -d' ' -f2; echo $digest > digest; }}\n\
         first=$(ask 1 100); '{0}' approval approve $first --as anna > /dev/null\n\
         second=$(ask 2 12000); '{0}' approval approve $second --as anna && echo WRONG; cat reports/report.md | tail -1; ls -A reports\n\
         mount -o remount,size=1m reports; '{0}' promote $(cat digest) --to reports; tail -1 reports/report.md; ls -A reports",
        binary().display()
    );
    let done = outcome(rig.place.command("/usr/bin/unshare").args(["-m", "bash", "-c", &script]).output().unwrap());
    let lines: Vec<&str> = done.stdout.lines().collect();
    assert!(done.stderr.contains("No space left on device") && done.stderr.contains("hint: "), "{done:?}");
    assert!(!done.stdout.contains("WRONG") && done.stdout.contains("100\nreport.md\n"), "{done:?}");
    assert!(done.stdout.contains(": applied") && lines.ends_with(&["12000", "report.md"]), "{done:?}");
}
