//! A disk that is full at every step of a run, from the first use of a home on: nothing runs unrecorded, the message says what to do, and once there
//! is room the home opens clean and every record verifies. `RINGFENCE_FULL` says how many steps of a first use and sizes are tried.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::faults::{Fault, calls, faulty};
use crate::left::{assert_nothing_is_left, names, runs, sealed_end};
use crate::support::{Outcome, Place, User, binary, count, outcome, spread, users};

const RUN: [&str; 8] = ["run", "--export", "x", "--", "bash", "-c", "echo RAN; head -c 20000 /dev/zero > x", "x"];

/// What a person is told: all went well, the artifact did not fit, or nothing more than the record does.
fn assert_told(what: &str, run: &Outcome) {
    assert!([0, 123, 125].contains(&run.status), "{what}: {run:?}");
    assert_eq!(run.status == 0, !run.stderr.contains("No space left"), "{what}: {run:?}");
    assert!(run.status != 125 || run.stderr.contains("hint: make room") || run.stderr.contains("failed at"), "{what}: {run:?}");
}

/// With room again: what ran has a record, and nothing else is left. `before` is how many had run already.
fn assert_recovered(what: &str, home: &Path, before: usize, full: &Outcome, next: &Outcome) {
    assert_eq!((next.status, next.stdout.as_str()), (0, "NEXT\n"), "{what}: {next:?}");
    assert_nothing_is_left(home);
    runs(home).iter().for_each(|run| drop(sealed_end(home, run)));
    let has_run = full.stdout == "RAN\n";
    assert!(started(home) > before + usize::from(has_run), "{what}: {full:?}");
}

/// How many runs of a home got as far as their command.
fn started(home: &Path) -> usize {
    let has_started = |run: &String| {
        fs::read_to_string(home.join("runs").join(run).join("events.jsonl")).is_ok_and(|events| events.contains("command_starting"))
    };
    runs(home).iter().filter(|run| has_started(run)).count()
}

const NEXT: [&str; 5] = ["run", "--quiet", "--", "echo", "NEXT"];

/// Runs with no room from one step on, then again with room.
fn full_from(place: &Place, step: u64, steps: u64) {
    let before = started(&place.home());
    let full = outcome(faulty(place, Fault::Full(step), &RUN).output().unwrap());
    let what = format!("{:?}, step {step} of {steps}", place.user);
    assert_told(&what, &full);
    assert!(full.status != 0 || step + 5 > steps, "{what}: {full:?}");
    assert_recovered(&what, &place.home(), before, &full, &place.ringfence(&NEXT));
}

/// The first use of a home, which makes keys, settings and an image.
#[test]
fn no_room_at_any_step_of_the_first_use_is_told_and_leaves_nothing() {
    for user in users() {
        let steps = calls(&Place::new(user), true, &RUN);
        let chosen = spread(steps, count("RINGFENCE_FULL", 6));
        chosen.iter().for_each(|step| full_from(&Place::new(user), *step, steps));
        println!("{user:?}: no room from {} of the {steps} steps of a first use on", chosen.len());
    }
}

#[test]
fn no_room_at_any_step_of_a_run_is_told_and_leaves_nothing() {
    for place in Place::each() {
        // The second time: from then on the artifact is in the store already.
        let [_, steps] = [(); 2].map(|()| calls(&place, true, &RUN));
        (1..=steps).for_each(|step| full_from(&place, step, steps));
        println!("{:?}: no room from each of the {steps} steps of a run on", place.user);
    }
}

/// A real file system, on which a run begins with so much room left; then it grows. What is then in the home, but for the image, is copied for us to
/// look at.
const WITH_LITTLE_ROOM: &str = r#"
set -e
mkdir home; mount -t tmpfs -o mode=700,size=16m,nr_inodes=4000 tmpfs home
used() { df -k --output=$1 home | tail -1; }
resize() { mount --options-mode ignore -t tmpfs -o remount,$1 tmpfs home; }
try() { "${@:2}" > $1.out 2> $1.err && echo 0 > $1.status || echo $? > $1.status; }
"$RINGFENCE" run -- true
for room in $ROOMS; do
    mkdir $room; cd $room; ln -s ../home home
    case $room in
        pages-*) resize size=$(($(used used) + 4 * ${room#pages-}))k ;;
        files-*) resize nr_inodes=$(($(used iused) + ${room#files-})) ;;
    esac
    try full "$RINGFENCE" "$@"
    resize size=16m,nr_inodes=4000
    try next "$RINGFENCE" run --quiet -- echo NEXT
    rm home; mkdir kept; cp -a ../home/[!i]* kept
    cd ..; rm -rf home/runs/*
done
umount home"#;

#[test]
fn little_room_of_any_size_is_told_and_leaves_nothing() {
    let most = count("RINGFENCE_FULL", 6);
    for place in Place::each() {
        let pages = spread(64, most).into_iter().map(|pages| format!("pages-{}", pages - 1));
        let files = spread(16, most).into_iter().map(|files| format!("files-{}", files - 1));
        let rooms: Vec<String> = pages.chain(files).collect();
        let namespaces = if place.user == User::Root { "-m" } else { "-Urm" };
        let mut command = place.command("/usr/bin/unshare");
        command.args([namespaces, "bash", "-c", WITH_LITTLE_ROOM, "bash"]).args(RUN);
        let done = outcome(command.env("RINGFENCE", binary()).env("ROOMS", rooms.join(" ")).output().unwrap());
        assert_eq!(done.status, 0, "{done:?}");
        let fitted = rooms.iter().filter(|room| fitted(&place, room)).count();
        println!("{:?}: {} sizes of room, in {fitted} of which a run fitted", place.user, rooms.len());
        assert!(fitted >= 2 && fitted < rooms.len(), "the largest sizes are meant to hold a run, the smallest not");
    }
}

/// Whether a run fitted; either way all is well.
fn fitted(place: &Place, room: &str) -> bool {
    let read = |name: &str| fs::read_to_string(place.path(room).join(name)).unwrap();
    let [full, next] = ["full", "next"].map(|name| Outcome {
        status: read(&format!("{name}.status")).trim().parse().unwrap(),
        stdout: read(&format!("{name}.out")),
        stderr: read(&format!("{name}.err")),
    });
    let what = format!("{:?}, {room}", place.user);
    assert_told(&what, &full);
    assert_recovered(&what, &place.path(room).join("kept"), 0, &full, &next);
    full.status == 0
}

#[test]
fn nothing_runs_where_records_cannot_be_written() {
    for place in Place::each() {
        assert_eq!(place.ringfence(&NEXT).status, 0);
        let runs = place.home().join("runs");
        let before = names(&runs);
        let refused = match place.user {
            User::Root => {
                let script = format!(
                    "mount --bind home/runs home/runs && mount -o remount,bind,ro home/runs && exec {} run -- echo RAN",
                    binary().display()
                );
                outcome(place.command("/usr/bin/unshare").args(["-m", "bash", "-c", &script]).output().unwrap())
            }
            User::Ordinary => {
                fs::set_permissions(&runs, fs::Permissions::from_mode(0o500)).unwrap();
                let refused = place.ringfence(&["run", "--", "echo", "RAN"]);
                fs::set_permissions(&runs, fs::Permissions::from_mode(0o700)).unwrap();
                refused
            }
        };
        assert_eq!((refused.status, refused.stdout.as_str()), (125, ""), "{refused:?}");
        assert!(refused.stderr.contains("/runs/") && refused.stderr.contains("hint: set RINGFENCE_HOME"), "{refused:?}");
        assert_eq!(names(&runs), before);
        assert_eq!(place.ringfence(&NEXT).stdout, "NEXT\n");
        assert_nothing_is_left(&place.home());
    }
}
