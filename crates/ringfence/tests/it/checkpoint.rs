//! A record proves itself; a checkpoint that is kept elsewhere proves that none is missing.

use std::fs;

use crate::support::{Place, User};

#[test]
fn ev_06_records_that_were_put_back_or_taken_away_are_found() {
    let place = Place::new(User::Ordinary);
    let run = || place.report(&[], &["true"]).0["run"].as_str().unwrap().to_owned();
    let (first, yesterday) = (run(), place.path("yesterday"));
    place.command("cp").args(["-r", "home"]).arg(&yesterday).status().unwrap();
    let newer = run();
    let made = place.ringfence(&["evidence", "checkpoint", "--out", "elsewhere.json"]);
    assert_eq!(made.status, 0, "{made:?}");
    let verify = || place.ringfence(&["evidence", "verify", "--checkpoint", "elsewhere.json"]);
    run();
    let whole = verify();
    assert!(whole.status == 0 && whole.stdout.starts_with("all 2 runs and 0 promotions"), "{whole:?}");

    // Yesterday's store is put back: each record in it proves itself, and yet.
    fs::rename(place.home(), place.path("today")).unwrap();
    place.command("cp").arg("-r").arg(&yesterday).arg("home").status().unwrap();
    assert_eq!(place.ringfence(&["evidence", "verify", &first]).status, 0);
    let rolled_back = verify();
    assert!(rolled_back.status == 1 && rolled_back.stderr.contains(&format!("run {newer}, which was sealed")), "{rolled_back:?}");

    fs::remove_dir_all(place.home()).unwrap();
    fs::rename(place.path("today"), place.home()).unwrap();
    assert_eq!(verify().status, 0);
    let text = fs::read_to_string(place.path("elsewhere.json")).unwrap();
    fs::write(place.path("elsewhere.json"), text.replacen("ey", "eZ", 1)).unwrap();
    assert_eq!(verify().status, 1, "a checkpoint that was changed holds nothing");
    assert_eq!(place.ringfence(&["evidence", "checkpoint", "--out", "elsewhere.json"]).status, 125, "never over a file that is there");
}
