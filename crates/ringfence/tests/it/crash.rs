//! Processes that are killed: nothing is left after the next start, and the record says what happened.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Place, User, binary, eventually, sleepers};

#[test]
fn after_a_kill_at_any_point_the_next_start_leaves_nothing() {
    for place in Place::each() {
        place.write("p/file", "content");
        place.ringfence(&["run", "--", "true"]);
        let mark = if place.user == User::Root { "67.111" } else { "67.222" };
        for point in 0..20u64 {
            let mut child = place
                .command(binary())
                .args(["run", "--project", "p", "--input", "p/file", "--export", "x", "--", "bash", "-c"])
                .arg(format!("(setsid sleep {mark} &); echo x > x; sleep 0.02"))
                .stderr(std::process::Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(Duration::from_millis(point * point / 6));
            kill_process(Pid::from_child(&child), Signal::KILL).unwrap_or_default();
            child.wait().unwrap();
            eventually("death of the tree", || sleepers(mark).is_empty());
        }
        assert_eq!(place.ringfence(&["run", "--", "true"]).status, 0);
        place.assert_clean();
        let runs: Vec<String> =
            std::fs::read_dir(place.home().join("runs")).unwrap().flatten().filter_map(|e| e.file_name().into_string().ok()).collect();
        for run in &runs {
            let verified = place.ringfence(&["evidence", "verify", run]);
            assert_eq!(verified.status, 0, "{run}: {verified:?}");
        }
        let listed = place.ringfence(&["evidence", "ls", "--json"]).stdout;
        assert!(listed.contains("interrupted"), "no run was caught in the middle: {listed}");
    }
}

#[test]
fn a_stopped_launcher_cannot_extend_a_run() {
    for place in Place::each() {
        let mut child = place
            .command(binary())
            .args(["run", "--limit", "wall=1s", "--", "sleep", "71.5"])
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        eventually("start of the sleeper", || sleepers("71.5").len() == 1);
        kill_process(Pid::from_child(&child), Signal::STOP).unwrap();
        eventually("end by init's own clock", || sleepers("71.5").is_empty());
        kill_process(Pid::from_child(&child), Signal::CONT).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(124));
        place.assert_clean();
    }
}

#[test]
fn a_sweep_leaves_the_runs_of_living_processes_alone() {
    for place in Place::each() {
        let mut child = place.command(binary()).args(["run", "--quiet", "--", "sleep", "1.23"]).spawn().unwrap();
        eventually("start of the sleeper", || sleepers("1.23").len() == 1);
        assert_eq!(place.ringfence(&["run", "--", "true"]).status, 0);
        assert_eq!(child.wait().unwrap().code(), Some(0));
        place.assert_clean();
    }
}

#[test]
fn one_damaged_record_is_put_aside_and_stops_nobody() {
    for place in Place::each() {
        let mut child = place.command(binary()).args(["run", "--", "sleep", "73.5"]).stderr(std::process::Stdio::null()).spawn().unwrap();
        eventually("start of the sleeper", || sleepers("73.5").len() == 1);
        kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
        child.wait().unwrap();
        let run = std::fs::read_dir(place.home().join("live")).unwrap().next().unwrap().unwrap().file_name();
        let events = place.home().join("runs").join(&run).join("events.jsonl");
        let mut text = std::fs::read_to_string(&events).unwrap();
        text.push_str("garbage\n");
        std::fs::write(&events, text).unwrap();
        let next = place.ringfence(&["run", "--", "true"]);
        assert!(next.status == 0 && next.stderr.contains("does not read"), "{next:?}");
        assert!(place.home().join("damaged").join(&run).exists() && events.exists());
        let after = place.ringfence(&["run", "--", "true"]);
        assert!(after.status == 0 && !after.stderr.contains("does not read"), "{after:?}");
    }
}
