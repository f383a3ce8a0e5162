//! Standing grants: a yes given ahead counts for what it names, as often and as long as it says, and for nothing else.

use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

use super::races::at_once;
use super::rig::{FIX, Rig};
use crate::support::User;

fn with(main: &str, reports: &str) -> Rig {
    let rig = Rig::with(User::Ordinary, main, reports);
    assert_eq!(rig.place.ringfence(&["person", "add", "ben", "--group", "maintainers"]).status, 0);
    rig
}

/// A grant for reports of the local agent, changed by some options.
fn grant(rig: &Rig, options: &[&str]) -> String {
    let mut all = vec![("--to", "reports"), ("--agent", "me"), ("--kind", "report"), ("--for", "1h"), ("--as", "anna")];
    for pair in options.chunks(2) {
        all.retain(|(name, _)| *name != pair[0]);
        all.push((pair[0], pair[1]));
    }
    let words = all.iter().flat_map(|(name, value)| [*name, *value]);
    let given = rig.place.ringfence(&["approval", "grant"].into_iter().chain(words).collect::<Vec<_>>());
    assert_eq!(given.status, 0, "{given:?}");
    given.stdout.split([' ', ':']).nth(2).unwrap().to_owned()
}

fn grants(rig: &Rig) -> Vec<(String, u64)> {
    let listed: Value = serde_json::from_str(&rig.place.ringfence(&["approval", "ls", "--standing", "--json"]).stdout).unwrap();
    let mut all: Vec<(String, u64)> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|grant| (grant["person"].as_str().unwrap().to_owned(), grant["uses_left"].as_u64().unwrap()))
        .collect();
    all.sort();
    all
}

#[test]
fn a_grant_counts_as_often_as_it_says() {
    let rig = with("", "");
    grant(&rig, &["--uses", "2"]);
    for (number, state) in ["applied", "applied", "waiting"].into_iter().enumerate() {
        let report = rig.promote(&rig.report(&format!("number {number}")), "reports");
        assert_eq!(report["state"], state, "{report}");
        if state == "applied" {
            rig.assert_verifies(&report);
        }
    }
    assert_eq!(grants(&rig), [("anna".to_owned(), 0)]);
}

#[test]
fn a_grant_that_is_over_or_withdrawn_counts_no_more() {
    let rig = with("", "");
    grant(&rig, &["--for", "1s"]);
    sleep(Duration::from_millis(1100));
    assert_eq!(rig.promote(&rig.report("too late"), "reports")["state"], "waiting");
    let withdrawn = grant(&rig, &[]);
    assert_eq!(rig.place.ringfence(&["approval", "withdraw", &withdrawn]).status, 0);
    assert_eq!(rig.place.ringfence(&["approval", "withdraw", &withdrawn]).status, 125);
    assert_eq!(rig.promote(&rig.report("withdrawn"), "reports")["state"], "waiting");
    assert_eq!(grants(&rig), [("anna".to_owned(), 1), ("anna".to_owned(), 1)]);
}

#[test]
fn a_grant_for_something_else_does_not_count() {
    let rig = with("", "");
    rig.place.write(
        "writer.toml",
        "id = \"writer\"\nname = \"Writer\"\npurpose = \"writes\"\nowner = \"anna\"\nteam = \"tools\"\nprofiles = [\"data-analysis\"]\nreview-by = \"9999-12-31\"\n",
    );
    assert_eq!(rig.place.ringfence(&["agent", "add", "writer.toml"]).status, 0);
    let submitted = rig.place.ringfence(&["agent", "submit", "writer"]).stdout;
    assert_eq!(rig.approve(submitted.split_whitespace().last().unwrap(), "anna").status, 0);
    let long = rig.report(&"x".repeat(2000));
    for options in [["--agent", "writer"], ["--kind", "notebook"], ["--max-bytes", "1KiB"]] {
        grant(&rig, &options);
        let report = rig.promote(&long, "reports");
        assert_eq!(report["state"], "waiting", "{options:?}: {report}");
    }
    grant(&rig, &["--to", "main", "--kind", "patch"]);
    assert_eq!(rig.promote(&long, "reports")["state"], "waiting");
    // Under other settings it is another target.
    grant(&rig, &[]);
    rig.settings("", "max-file = \"1MiB\"\n");
    assert_eq!(rig.promote(&rig.report("under other settings"), "reports")["state"], "waiting");
    assert!(grants(&rig).iter().all(|(_, left)| *left == 1), "{:?}", grants(&rig));
    // And it counts where it fits.
    grant(&rig, &[]);
    assert_eq!(rig.promote(&rig.report("as it is named"), "reports")["state"], "applied");
}

#[test]
fn a_grant_never_counts_for_protected_paths() {
    let rig = with("protected = [\"calc.py\"]\n", "");
    grant(&rig, &["--to", "main", "--kind", "patch", "--uses", "5"]);
    let report = rig.promote(&rig.patch(FIX), "main");
    assert_eq!(report["state"], "waiting", "{report}");
    let agreed: Vec<&Value> = report["approvals"].as_array().unwrap().iter().map(|approval| &approval["agreed"]).collect();
    assert_eq!(agreed, [&json!(["anna"]), &json!([])], "{report}");
    assert_eq!(rig.shell("git -C app.git rev-list --count main").trim(), "1");
}

/// What is taken back is not what somebody agreed to ahead.
#[test]
fn a_grant_does_not_take_back() {
    let rig = with("", "");
    grant(&rig, &["--uses", "5"]);
    let done = rig.promote(&rig.report("first"), "reports");
    assert_eq!(done["state"], "applied", "{done}");
    let undo = rig.place.ringfence(&["promotion", "undo", done["promotion"].as_str().unwrap(), "--json"]);
    let undo: Value = serde_json::from_str(&undo.stdout).unwrap();
    assert_eq!(undo["state"], "waiting", "{undo}");
    assert_eq!(grants(&rig), [("anna".to_owned(), 4)]);
}

#[test]
fn gw_13_two_grants_of_one_person_are_one_yes() {
    let rig = with("", "quorum = 2\n");
    grant(&rig, &[]);
    grant(&rig, &[]);
    let report = rig.report("two");
    let asked = rig.promote(&report, "reports");
    assert_eq!((&asked["state"], &asked["approvals"][0]["agreed"]), (&"waiting".into(), &json!(["anna"])), "{asked}");
    assert_eq!(grants(&rig), [("anna".to_owned(), 0), ("anna".to_owned(), 1)]);
    grant(&rig, &["--as", "ben"]);
    let applied = rig.promote(&rig.report("three"), "reports");
    assert_eq!(applied["state"], "applied", "{applied}");
    rig.assert_verifies(&applied);
    assert_eq!(grants(&rig), [("anna".to_owned(), 0), ("anna".to_owned(), 0), ("ben".to_owned(), 0)]);
}

#[test]
fn a_grant_of_one_use_lets_one_of_twenty_through() {
    let rig = with("", "");
    let digests: Vec<String> = (0..20).map(|number| rig.report(&format!("number {number}"))).collect();
    grant(&rig, &[]);
    let calls: Vec<Vec<&str>> = digests.iter().map(|digest| vec!["promote", digest, "--to", "reports", "--json"]).collect();
    let done = at_once(&rig, &calls);
    let reports: Vec<Value> =
        done.iter().map(|done| serde_json::from_str(&done.stdout).unwrap_or_else(|e| panic!("{e}: {done:?}"))).collect();
    let states: Vec<&str> = reports.iter().map(|report| report["state"].as_str().unwrap()).collect();
    assert_eq!(states.iter().filter(|state| **state == "applied").count(), 1, "{states:?}");
    assert_eq!(states.iter().filter(|state| **state == "waiting").count(), 19, "{states:?}");
    assert_eq!(grants(&rig), [("anna".to_owned(), 0)]);
    rig.place.assert_clean();
}
