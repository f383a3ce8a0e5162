//! A run that is run again: what is as it was is found to be so, and what is not is explained.

use serde_json::Value;

use crate::support::{Place, User};

/// A place and a run in it.
fn ran(options: &[&str], command: &[&str]) -> (Place, String) {
    let place = Place::new(User::Ordinary);
    place.write("in.txt", "as it was\n");
    let (report, _) = place.report(options, command);
    let run = report["run"].as_str().unwrap().to_owned();
    (place, run)
}

fn replay(place: &Place, run: &str, options: &[&str]) -> (Value, i32) {
    let done = place.ringfence(&[&["evidence", "replay", run, "--json"], options].concat());
    (serde_json::from_str(&done.stdout).unwrap_or_else(|e| panic!("{e}: {done:?}")), done.status)
}

/// What differs, and why.
fn causes(replay: &Value) -> Vec<(String, String)> {
    let of = |difference: &Value| (difference["what"].as_str().unwrap().to_owned(), difference["cause"].as_str().unwrap().to_owned());
    replay["differences"].as_array().unwrap().iter().map(of).collect()
}

#[test]
fn what_does_the_same_each_time_is_as_it_was() {
    let script = "cat /inputs/in.txt; echo 100%; printf '\\xff' >&2; wc -c < /inputs/in.txt > n.txt; exit 3";
    let (place, run) = ran(&["--input", "in.txt", "--export", "n.txt"], &["bash", "-c", script]);
    let (replay, status) = replay(&place, &run, &["--input", "in.txt"]);
    assert_eq!((status, replay["is_same"].as_bool(), replay["surroundings"].as_array().unwrap().len()), (0, Some(true), 0), "{replay}");
    for repeated in replay["runs"].as_array().unwrap() {
        assert_eq!(place.ringfence(&["evidence", "verify", repeated.as_str().unwrap()]).status, 0);
    }
    place.assert_clean();
}

#[test]
fn time_and_chance_are_told_apart() {
    let script = "date -Ins; od -An -N8 -tx1 /dev/urandom > chance.txt; echo fixed > fixed.txt";
    let (place, run) = ran(&["--export", "*.txt"], &["bash", "-c", script]);
    let (replay, status) = replay(&place, &run, &[]);
    assert_eq!(status, 1);
    let wanted = [("artifact chance.txt", "randomness"), ("stdout", "time")];
    assert_eq!(causes(&replay), wanted.map(|(what, why)| (what.to_owned(), why.to_owned())), "{replay}");
}

#[test]
fn an_input_that_changed_is_the_cause() {
    let (place, run) = ran(&["--input", "in.txt"], &["cat", "/inputs/in.txt"]);
    place.write("in.txt", "as it is\n");
    let (replay, _) = replay(&place, &run, &["--input", "in.txt"]);
    assert_eq!(causes(&replay), [("stdout".to_owned(), "environment".to_owned())], "{replay}");
    assert_eq!(replay["surroundings"][0]["what"], "file in.txt");
}

#[test]
fn what_a_record_does_not_hold_has_to_be_given() {
    let (place, run) = ran(&["--input", "in.txt", "--profile", "code-change", "--env", "MODE=fast"], &["cat", "/inputs/in.txt"]);
    for (given, wanted) in [
        (&[][..], "--input PATH=in.txt"),
        (&["--input", "in.txt"], "--env NAME=VALUE"),
        (&["--input", "in.txt", "--env", "OTHER=1"], "--env NAME=VALUE"),
    ] {
        let done = place.ringfence(&[&["evidence", "replay", &run], given].concat());
        assert_eq!(done.status, 125);
        assert!(done.stderr.contains(wanted), "{done:?}");
    }
    assert_eq!(replay(&place, &run, &["--input", "in.txt", "--env", "MODE=fast"]).1, 0);
}

#[test]
fn a_run_that_was_refused_or_whose_record_was_changed_is_not_repeated() {
    let (place, refused) = ran(&["--limit", "wall=9h"], &["true"]);
    let done = place.ringfence(&["evidence", "replay", &refused]);
    assert!(done.status == 125 && done.stderr.contains("it was refused"), "{done:?}");
    let (place, run) = ran(&[], &["true"]);
    let path = place.home().join("runs").join(&run).join("events.jsonl");
    let text = std::fs::read_to_string(&path).unwrap().replace("\"true\"", "\"false\"");
    std::fs::write(&path, text).unwrap();
    let done = place.ringfence(&["evidence", "replay", &run]);
    assert!(done.status == 125 && done.stderr.contains("does not hold"), "{done:?}");
    assert_eq!(place.ringfence(&["evidence", "replay", "01kbdz9xk3v8p5r0q2n7m4t6w1"]).status, 125);
}

#[test]
fn a_secret_that_was_masked_cannot_be_repeated() {
    let place = Place::new(User::Ordinary);
    let run = place
        .command(crate::support::binary())
        .args(["run", "--json", "--", "echo", "hunter2-hunter2"])
        .env("MY_TOKEN", "hunter2-hunter2")
        .output();
    let report: Value = serde_json::from_slice(&run.unwrap().stdout).unwrap();
    let done = place.ringfence(&["evidence", "replay", report["run"].as_str().unwrap()]);
    assert!(done.status == 125 && done.stderr.contains("masked"), "{done:?}");
}
