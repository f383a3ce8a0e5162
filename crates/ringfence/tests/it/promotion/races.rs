//! Many at once: whoever asks, decides and applies at the same moment, there is one promotion, one verdict and one change.

use std::fs;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::rig::{CHECK, FIX, Rig, payload};
use crate::support::{Outcome, User, binary, count, outcome, users};

/// Starts `ringfence` with each of these arguments, all before waiting for any.
pub(crate) fn at_once(rig: &Rig, calls: &[Vec<&str>]) -> Vec<Outcome> {
    one_after_another(rig, calls, Duration::ZERO)
}

/// The same, each so much later than the one before.
fn one_after_another(rig: &Rig, calls: &[Vec<&str>], pause: Duration) -> Vec<Outcome> {
    let start = |call: &Vec<&str>| {
        std::thread::sleep(pause);
        let mut command = rig.place.command(binary());
        command.args(call).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let children: Vec<Child> = calls.iter().map(start).collect();
    children.into_iter().map(|child| outcome(child.wait_with_output().unwrap())).collect()
}

/// The promotions that there are.
fn promotions(rig: &Rig) -> Vec<Value> {
    let listed = rig.place.ringfence(&["promotion", "ls", "--json"]);
    serde_json::from_str(&listed.stdout).unwrap_or_else(|e| panic!("{e}: {listed:?}"))
}

fn runs(rig: &Rig) -> usize {
    fs::read_dir(rig.place.home().join("runs")).unwrap().count()
}

#[test]
fn pr_07_twenty_who_ask_and_apply_at_once_make_one_change() {
    for user in users() {
        let rig = Rig::with(user, &format!("checks = [\"{CHECK}\"]\n"), "checks = [\"test -s report.md\"]\n");
        for (digest, target) in [(rig.patch(FIX), "main"), (rig.report("once"), "reports")] {
            let (before, had) = (runs(&rig), promotions(&rig).len());
            let promote = vec!["promote", &digest, "--to", target, "--json"];
            let asked = at_once(&rig, &vec![promote.clone(); 20]);
            assert!(asked.iter().all(|asked| asked.status == 0), "{asked:#?}");
            let reports: Vec<Value> = asked.iter().map(|asked| serde_json::from_str(&asked.stdout).unwrap()).collect();
            assert!(reports.iter().all(|report| report == &reports[0]), "everybody hears of one promotion");
            assert_eq!((promotions(&rig).len(), runs(&rig)), (had + 1, before + 1), "one promotion, one run of its check");

            let approval = Rig::approval(&reports[0]);
            let mut calls = vec![promote; 20];
            calls.insert(7, vec!["approval", "approve", &approval, "--as", "anna"]);
            let done = at_once(&rig, &calls);
            assert!(done.iter().all(|done| done.status == 0), "{done:#?}");
            let shown = rig.show(&reports[0]);
            assert_eq!(shown["state"], "applied", "{shown}");
            assert_eq!((promotions(&rig).len(), runs(&rig)), (had + 1, before + 1));
            rig.assert_verifies(&shown);
        }
        assert_eq!(rig.shell("git -C app.git rev-list --count main").trim(), "2", "one commit over the base");
        let names: Vec<_> = fs::read_dir(rig.place.path("reports")).unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(names, ["report.md"]);
        rig.place.assert_clean();
    }
}

/// Two persons, one yes and one no, at the same moment.
#[test]
fn gw_11_of_a_yes_and_a_no_at_once_one_is_the_verdict() {
    let rig = Rig::with(User::Ordinary, "", "");
    assert_eq!(rig.place.ringfence(&["person", "add", "ben"]).status, 0);
    let races = count("RINGFENCE_VERDICT_RACES", 20);
    let mut applied = 0;
    for race in 0..races {
        let asked = rig.promote(&rig.report(&format!("race {race}")), "reports");
        let approval = Rig::approval(&asked);
        let reports = rig.place.path("reports/report.md");
        let before = fs::read_to_string(&reports).unwrap_or_default();
        let calls = [vec!["approval", "approve", &approval, "--as", "anna"], vec!["approval", "deny", &approval, "--as", "ben"]];
        // A yes takes longer to take effect than a no does: the no begins later and later, in the end too late.
        let said = one_after_another(&rig, &calls, Duration::from_millis(8) * race as u32);
        let what = format!("race {race}: {said:#?}");
        let shown = rig.show(&asked);
        let now = fs::read_to_string(&reports).unwrap_or_default();
        let receipt = payload(&rig.evidence(&asked).join("receipt.dsse.json"));
        let (state, sealed) = (shown["state"].as_str().unwrap(), &receipt["predicate"]);
        assert_eq!(sealed["state"], state, "{what}");
        let verdicts: Vec<&str> = sealed["decisions"].as_array().unwrap().iter().map(|made| made["verdict"].as_str().unwrap()).collect();
        match state {
            "applied" => {
                applied += 1;
                assert_eq!((now, verdicts), (format!("race {race}\n"), vec!["approve"]), "{what}");
                assert_eq!((said[0].status, said[1].status), (0, 125), "{what}");
                assert!(said[1].stderr.contains("can no longer be decided"), "{what}");
            }
            "denied" => {
                assert_eq!(now, before, "{what}");
                // Whoever agreed a moment before somebody denied is on record too, and learns how it ended.
                assert!(verdicts.contains(&"deny") && said[1].status == 0 && [1, 125].contains(&said[0].status), "{what}");
                assert_eq!(verdicts.len() == 2, said[0].status == 1, "{what}");
            }
            other => panic!("{other}: {what}"),
        }
        rig.assert_verifies(&asked);
    }
    assert!(applied > 0 && applied < races, "either came first at times: {applied} of {races}");
    println!("{races} races of a yes and a no: {applied} applied, {} denied", races - applied);
    rig.place.assert_clean();
}

/// Two promotions that are decided at the same moment, each its own way.
#[test]
fn o_06_a_yes_to_one_and_a_no_to_another_are_never_swapped() {
    let rig = Rig::with(User::Ordinary, "", "");
    for race in 0..count("RINGFENCE_VERDICT_RACES", 5) {
        let fix = rig.patch(&format!("echo {race} > race-{race}.txt"));
        let (git, folder) = (rig.promote(&fix, "main"), rig.promote(&rig.report(&format!("race {race}")), "reports"));
        let [yes, no] = if race % 2 == 0 { [&git, &folder] } else { [&folder, &git] };
        let (approved, denied) = (Rig::approval(yes), Rig::approval(no));
        let calls = [["approval", "approve", &approved, "--as", "anna"].to_vec(), ["approval", "deny", &denied, "--as", "anna"].to_vec()];
        let said = at_once(&rig, &calls);
        assert_eq!(said.iter().map(|said| said.status).collect::<Vec<_>>(), [0, 0], "{said:#?}");
        let states = (rig.show(yes)["state"].clone(), rig.show(no)["state"].clone());
        assert_eq!(states, ("applied".into(), "denied".into()));
        let of = |name: &str| if std::ptr::eq(yes, &git) { name == "main" } else { name == "reports" };
        assert_eq!(rig.file(&format!("race-{race}.txt")) == format!("{race}\n").into_bytes(), of("main"));
        let report = fs::read_to_string(rig.place.path("reports/report.md")).unwrap_or_default();
        assert_eq!(report == format!("race {race}\n"), of("reports"));
        [yes, no].iter().for_each(|promotion| rig.assert_verifies(promotion));
    }
}

/// Whoever waits for another's check can be stopped; the other goes on.
#[test]
fn whoever_waits_for_a_turn_can_be_stopped() {
    let rig = Rig::with(User::Ordinary, "checks = [\"sleep 3\"]\n", "");
    let digest = rig.patch(FIX);
    let start = || {
        let mut command = rig.place.command(binary());
        command.args(["promote", &digest, "--to", "main"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let first = start();
    crate::support::eventually("a promotion", || promotions(&rig).len() == 1);
    let second = start();
    std::thread::sleep(Duration::from_millis(400));
    let begun = Instant::now();
    rustix::process::kill_process(rustix::process::Pid::from_child(&second), rustix::process::Signal::INT).unwrap();
    let stopped = outcome(second.wait_with_output().unwrap());
    assert!(stopped.status == 125 && stopped.stderr.contains("interrupted"), "{stopped:?}");
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    let done = outcome(first.wait_with_output().unwrap());
    assert!(done.status == 0 && done.stdout.contains("waiting"), "{done:?}");
}
