//! Whose word counts, for how long, and about what: everything else moves nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

use super::rig::{FIX, Rig};
use crate::faults::{Fault, faulty};
use crate::support::{Outcome, User, binary, outcome};

fn with(main: &str) -> Rig {
    let rig = Rig::with(User::Ordinary, main, "");
    for person in ["ben", "carl"] {
        add(&rig, person, "maintainers");
    }
    add(&rig, "eve", "readers");
    rig
}

fn add(rig: &Rig, person: &str, group: &str) {
    let added = rig.place.ringfence(&["person", "add", person, "--group", group]);
    assert_eq!(added.status, 0, "{added:?}");
}

/// A promotion of the fix to the branch that waits, and its approval.
fn asked(rig: &Rig) -> (String, Value, String) {
    let digest = rig.patch(FIX);
    let asked = rig.promote(&digest, "main");
    let approval = Rig::approval(&asked);
    (digest, asked, approval)
}

fn say(rig: &Rig, verdict: &str, approval: &str, person: &str) -> Outcome {
    rig.place.ringfence(&["approval", verdict, approval, "--as", person, "--later"])
}

fn assert_refused(said: &Outcome, why: &str) {
    assert!(said.status == 125 && said.stderr.contains(why) && said.stderr.contains("hint: "), "wanted {why:?}: {said:?}");
}

/// Speaks with the store behind ringfence's back.
fn sql(rig: &Rig, statement: &str) -> String {
    let program = "import sqlite3, sys\nc = sqlite3.connect('home/authority.sqlite', timeout=30)\nfor row in c.execute(sys.argv[1]): print(*row)\nc.commit()\nassert c.total_changes or sys.argv[1].startswith('SELECT')";
    let done = outcome(rig.place.command("/usr/bin/python3").args(["-c", program, statement]).output().unwrap());
    assert_eq!(done.status, 0, "{statement}: {done:?}");
    done.stdout
}

fn decisions(rig: &Rig) -> String {
    sql(rig, "SELECT person, verdict FROM decisions ORDER BY person, verdict")
}

/// Asked again: it stands so, and the branch is where it was.
fn assert_unmoved(rig: &Rig, digest: &str, promotion: &Value, state: &str) -> Value {
    rig.promote(digest, "main");
    let shown = rig.show(promotion);
    assert_eq!((shown["state"].as_str(), rig.shell("git -C app.git rev-list --count main").trim()), (Some(state), "1"), "{shown}");
    shown
}

#[test]
fn pr_11_who_has_no_right_on_the_target_decides_nothing() {
    let rig = with("groups = [\"maintainers\"]\n");
    let (digest, promotion, approval) = asked(&rig);
    for verdict in ["approve", "deny"] {
        assert_refused(&say(&rig, verdict, &approval, "eve"), "is in none of the groups that decide about this: maintainers");
        assert_refused(&say(&rig, verdict, &approval, "nobody"), "person `nobody` is not registered");
    }
    assert_eq!(decisions(&rig), "");
    assert_unmoved(&rig, &digest, &promotion, "waiting");
    assert_eq!(rig.approve(&approval, "anna").status, 0);
    assert_eq!(rig.show(&promotion)["state"], "applied");
}

#[test]
fn who_decides_needs_a_key_of_their_own_that_nobody_else_can_read() {
    let rig = with("");
    let (digest, promotion, approval) = asked(&rig);
    let key = |name: &str| rig.place.path(&format!("nobody-home/.config/ringfence/{name}.key"));
    let with_key = |file: &str| rig.place.ringfence(&["approval", "approve", &approval, "--as", "ben", "--key", file]);
    assert_refused(&with_key(key("anna").to_str().unwrap()), "anna");
    fs::set_permissions(key("ben"), fs::Permissions::from_mode(0o644)).unwrap();
    assert_refused(&with_key(key("ben").to_str().unwrap()), "ben.key");
    rig.shell("openssl genpkey -algorithm ed25519 -out other.key && chmod 600 other.key");
    assert_refused(&with_key("other.key"), "other.key");
    assert_refused(&with_key("nowhere.key"), "nowhere.key");
    rig.shell("cp nobody-home/.config/ringfence/anna.key nobody-home/.config/ringfence/ben.key");
    fs::set_permissions(key("ben"), fs::Permissions::from_mode(0o600)).unwrap();
    assert_refused(&rig.approve(&approval, "ben"), "anna");
    assert_eq!(decisions(&rig), "");
    assert_unmoved(&rig, &digest, &promotion, "waiting");
}

#[test]
fn gw_13_two_are_two_persons_who_still_have_the_right() {
    let rig = with("quorum = 2\ngroups = [\"maintainers\"]\n");
    let (digest, promotion, approval) = asked(&rig);
    assert_eq!(say(&rig, "approve", &approval, "anna").status, 0);
    assert_refused(&say(&rig, "approve", &approval, "anna"), "counts different persons");
    // Another account of hers, by identity or by key, is none.
    rig.shell("openssl pkey -in nobody-home/.config/ringfence/anna.key -pubout -out anna.pub");
    for more in [["--identity", "anna"], ["--public-key", "anna.pub"]] {
        let second = rig.place.ringfence(&["person", "add", "hanna", "--group", "maintainers", more[0], more[1]]);
        assert_refused(&second, "is that of person `anna` already");
    }
    assert_unmoved(&rig, &digest, &promotion, "waiting");

    assert_eq!(say(&rig, "approve", &approval, "ben").status, 0);
    assert_eq!(rig.place.ringfence(&["person", "set", "ben", "--group", "readers"]).status, 0);
    let shown = assert_unmoved(&rig, &digest, &promotion, "waiting");
    assert_eq!(shown["approvals"][0]["agreed"], json!(["anna"]), "{shown}");
    assert_refused(&say(&rig, "approve", &approval, "ben"), "is in none of the groups");
    // A third makes it two again.
    assert_eq!(rig.approve(&approval, "carl").status, 0);
    assert_eq!(rig.show(&promotion)["state"], "applied");
    rig.assert_verifies(&promotion);
}

#[test]
fn gw_13_who_is_retired_between_decision_and_effect_does_not_count() {
    let rig = with("");
    let (digest, promotion, approval) = asked(&rig);
    assert_eq!(say(&rig, "approve", &approval, "ben").status, 0);
    assert_eq!(rig.place.ringfence(&["person", "retire", "ben"]).status, 0);
    let shown = assert_unmoved(&rig, &digest, &promotion, "waiting");
    assert_eq!(shown["approvals"][0]["agreed"], json!([]), "{shown}");
    assert_refused(&say(&rig, "approve", &approval, "ben"), "ben");
    assert_eq!(rig.approve(&approval, "anna").status, 0);
    assert_eq!(rig.show(&promotion)["state"], "applied");
    rig.assert_verifies(&promotion);
}

#[test]
fn gw_12_the_owner_and_who_asked_are_barred_where_the_target_says_so() {
    let rig = with("exclude-owner = true\n");
    let persons: Value = serde_json::from_str(&rig.place.ringfence(&["person", "ls", "--json"]).stdout).unwrap();
    let known = ["anna", "ben", "carl", "eve"];
    let login = persons.as_array().unwrap().iter().map(|person| person["name"].as_str().unwrap()).find(|name| !known.contains(name));
    let login = login.map(str::to_owned).unwrap_or_else(|| {
        let run = rig.place.report(&[], &["true"]).0;
        assert!(run["run"].is_string());
        let persons: Value = serde_json::from_str(&rig.place.ringfence(&["person", "ls", "--json"]).stdout).unwrap();
        persons
            .as_array()
            .unwrap()
            .iter()
            .map(|person| person["name"].as_str().unwrap().to_owned())
            .find(|name| !known.contains(&name.as_str()))
            .unwrap()
    });
    add(&rig, &login, "maintainers");
    let (_, promotion, approval) = asked(&rig);
    assert_refused(&say(&rig, "approve", &approval, &login), "leaves out the agent's owner and who asked");
    assert_eq!(decisions(&rig), "");
    assert_eq!(rig.approve(&approval, "anna").status, 0);
    assert_eq!(rig.show(&promotion)["state"], "applied");
}

#[test]
fn a_no_takes_a_yes_back_until_it_is_used_and_is_final() {
    let rig = with("");
    let (digest, promotion, approval) = asked(&rig);
    assert_eq!(say(&rig, "approve", &approval, "anna").status, 0);
    assert_eq!(say(&rig, "deny", &approval, "anna").status, 0);
    assert_refused(&say(&rig, "approve", &approval, "ben"), "can no longer be decided: it is denied: denied by anna");
    assert_eq!(decisions(&rig), "anna approve\nanna deny\n");
    let shown = rig.show(&promotion);
    assert_eq!((shown["state"].as_str(), shown["cause"].as_str()), (Some("denied"), Some("denied by anna")));
    rig.assert_verifies(&promotion);
    // Asked again it begins anew, and only that one applies.
    let again = rig.promote(&digest, "main");
    assert_ne!(again["promotion"], promotion["promotion"]);
    assert_eq!(rig.approve(&Rig::approval(&again), "ben").status, 0);
    assert_refused(&say(&rig, "deny", &Rig::approval(&again), "anna"), "it is consumed");
    assert_eq!(rig.show(&promotion)["state"], "denied");
}

#[test]
fn gw_10_what_nobody_decided_in_time_is_over_and_stays_so_whatever_the_clock_says() {
    let rig = with("decide-within = \"1s\"\n");
    let (digest, promotion, approval) = asked(&rig);
    sleep(Duration::from_millis(1100));
    assert_refused(&say(&rig, "approve", &approval, "anna"), "nobody decided in time");
    for shift in [-3600, 3600] {
        let late = faulty(&rig.place, Fault::Shift(shift), &["approval", "approve", &approval, "--as", "anna"]).output().unwrap();
        assert_refused(&outcome(late), "nobody decided in time");
    }
    assert_unmoved(&rig, &digest, &promotion, "expired");
    rig.assert_verifies(&promotion);
    assert_eq!(decisions(&rig), "");
}

#[test]
fn gw_10_a_clock_that_is_set_back_gives_nobody_more_time() {
    let rig = with("decide-within = \"1s\"\nexecute-within = \"1s\"\n");
    let (_, promotion, approval) = asked(&rig);
    sleep(Duration::from_millis(1100));
    let late = faulty(&rig.place, Fault::Shift(-3600), &["approval", "approve", &approval, "--as", "anna"]).output().unwrap();
    assert_refused(&outcome(late), "nobody decided in time");
    assert_eq!(rig.show(&promotion)["state"], "expired");

    // One that is set forward lets time pass at once, and what passed does not come back.
    let digest = rig.patch(&format!("{FIX}; echo more > more.txt"));
    rig.settings("decide-within = \"1h\"\n", "");
    let second = rig.promote(&digest, "main");
    let ahead = faulty(&rig.place, Fault::Shift(7200), &["approval", "approve", &Rig::approval(&second), "--as", "anna"]).output().unwrap();
    assert_refused(&outcome(ahead), "nobody decided in time");
    assert_refused(&say(&rig, "approve", &Rig::approval(&second), "anna"), "nobody decided in time");
}

#[test]
fn gw_10_a_yes_that_nobody_used_in_time_is_used_up() {
    let rig = with("execute-within = \"1s\"\n");
    let (digest, promotion, approval) = asked(&rig);
    assert_eq!(say(&rig, "approve", &approval, "anna").status, 0);
    sleep(Duration::from_millis(1100));
    let shown = assert_unmoved(&rig, &digest, &promotion, "expired");
    assert!(shown["cause"].as_str().unwrap().contains("not used in time"), "{shown}");
    let back = faulty(&rig.place, Fault::Shift(-3600), &["promotion", "show", promotion["promotion"].as_str().unwrap()]).output().unwrap();
    assert!(outcome(back).stdout.contains("expired"));
    rig.assert_verifies(&promotion);
}

#[test]
fn gw_08_what_was_altered_is_not_what_was_agreed_to() {
    for (what, told) in [
        ("preview", "what would be shown is not what was asked"),
        ("UPDATE approvals SET request = replace(request, '\"quorum\":1', '\"quorum\":0')", "its digest differs"),
        ("UPDATE approvals SET digest = 'sha256:00'", "its digest differs"),
    ] {
        let rig = with("");
        let (digest, promotion, approval) = asked(&rig);
        match what {
            "preview" => rig.shell(&format!("sed -i 's/ + 1/ + 2/' '{}/preview.txt'", rig.evidence(&promotion).display())),
            statement => sql(&rig, statement),
        };
        for call in [["approval", "show", &approval].as_slice(), &["approval", "approve", &approval, "--as", "anna"]] {
            let refused = rig.place.ringfence(call);
            assert_refused(&refused, told);
            assert!(refused.stderr.contains(&approval), "{refused:?}");
        }
        assert_eq!(decisions(&rig), "");
        // Whoever asks ends it, and can ask anew.
        let shown = assert_unmoved(&rig, &digest, &promotion, "refused");
        assert!(shown["cause"].as_str().unwrap().contains("changed"), "{shown}");
        let again = rig.promote(&digest, "main");
        assert_eq!(rig.approve(&Rig::approval(&again), "anna").status, 0);
        assert_eq!(rig.show(&again)["state"], "applied");
    }
}

/// Whoever can write to the store has no key of a person.
#[test]
fn gw_08_what_somebody_wrote_into_the_store_moves_nothing() {
    let forged = "INSERT INTO decisions SELECT id, 'anna', 'sha256:00', 'approve', '{}', NULL, asked_at FROM approvals";
    let yes = "UPDATE approvals SET state = 'approved', execute_by = 9999999999999";
    let used = "UPDATE approvals SET state = 'consumed'";
    let other = "UPDATE promotions SET request = replace(request, '\"branch\":\"main\"', '\"branch\":\"other\"')";
    let open = "UPDATE approvals SET quorum = 0";
    for (statements, is_agreed) in [
        (vec![forged, yes], false),
        (vec![yes], false),
        (vec![open, yes], false),
        (vec!["UPDATE promotions SET state = 'applying'"], false),
        (vec![forged, used, "UPDATE promotions SET state = 'applying'"], false),
        (vec!["DELETE FROM decisions", "DELETE FROM approvals"], true),
        (vec![other], true),
        (vec!["UPDATE approvals SET decide_by = decide_by + 3600000"], true),
        (
            vec![
                "UPDATE promotions SET prepared = replace(prepared, '\"protected\":[\"calc.py\"]', '\"protected\":[]')",
                "DELETE FROM approvals WHERE request LIKE '%\"paths\":[%'",
            ],
            true,
        ),
    ] {
        let rig = with("protected = [\"calc.py\"]\n");
        rig.shell("git -C app.git branch other main");
        let digest = rig.patch(FIX);
        let promotion = rig.promote(&digest, "main");
        if is_agreed {
            // Only one of the two that are asked about.
            assert_eq!(say(&rig, "approve", &Rig::approval(&promotion), "anna").status, 0);
        }
        statements.iter().for_each(|statement| drop(sql(&rig, statement)));
        rig.promote(&digest, "main");
        rig.place.ringfence(&["promotion", "ls"]);
        let shown = rig.show(&promotion);
        let branches = rig.shell("git -C app.git rev-list --count --all");
        assert_eq!(branches.trim(), "1", "{statements:?}: {shown}");
        assert!(["waiting", "refused"].contains(&shown["state"].as_str().unwrap()), "{statements:?}: {shown}");
        assert!(shown["approvals"].as_array().unwrap().iter().all(|a| !is_agreed || a["state"] != "consumed"), "{shown}");
    }
}

/// A decision that nobody signed is in nobody's way, and no part of the evidence.
#[test]
fn a_forged_decision_keeps_nobody_from_deciding() {
    let rig = with("");
    let (_, promotion, approval) = asked(&rig);
    sql(&rig, "INSERT INTO decisions SELECT id, 'anna', 'sha256:00', 'approve', '{}', NULL, asked_at FROM approvals");
    sql(&rig, "INSERT INTO decisions SELECT id, '../../x', 'sha256:00', 'deny', '{}', NULL, asked_at FROM approvals");
    assert_eq!(rig.show(&promotion)["approvals"][0]["agreed"], json!([]));
    assert_eq!(rig.approve(&approval, "anna").status, 0);
    assert_eq!(rig.show(&promotion)["state"], "applied");
    rig.assert_verifies(&promotion);
}

#[test]
fn gw_12_an_agent_inside_decides_nothing() {
    let rig = with("");
    let (_, promotion, approval) = asked(&rig);
    let home = rig.place.home();
    let key = rig.place.path("nobody-home/.config/ringfence/anna.key");
    rig.shell(&format!("strip -o ringfence '{}'", binary().display()));
    // The program runs inside as it does outside; what it would need is not there.
    let script = format!(
        "env | grep -c RINGFENCE; cat '{0}' '{1}/authority.sqlite' && echo SEEN; cp /inputs/ringfence r && chmod +x r && ./r --version && \
         RINGFENCE_HOME='{1}' ./r approval approve {approval} --as anna --key '{0}'; echo \"status $?\"",
        key.display(),
        home.display()
    );
    let run = rig.place.ringfence(&["run", "--profile", "code-change", "--input", "ringfence", "--", "bash", "-c", &script]);
    assert!(run.stdout.starts_with("0\n") && !run.stdout.contains("SEEN"), "{run:?}");
    assert!(run.stdout.contains("ringfence 0") && run.stdout.contains("status 125"), "{run:?}");
    assert_eq!((rig.show(&promotion)["state"].as_str(), decisions(&rig).as_str()), (Some("waiting"), ""));
}
