//! Processes that are stopped, or killed beside living ones. (Kills at every moment and step are in `kills`.)

use std::os::unix::process::CommandExt;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::support::{Place, binary, eventually, sleepers};

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

/// What a power cut can leave: the mark of the run, with a statement or the end of the events not written.
#[test]
fn a_seal_that_a_power_cut_left_incomplete_is_made_anew() {
    for place in Place::each() {
        for cut in [": > statement.dsse.json", "head -c 100 statement.dsse.json > s; mv s statement.dsse.json"] {
            let run = place.report(&[], &["true"]).0["run"].as_str().unwrap().to_owned();
            let script = format!("cd '{}/runs/{run}' && {cut} && touch ../../live/{run}", place.home().display());
            assert!(place.command("/bin/sh").args(["-c", &script]).status().unwrap().success());
            assert_eq!(place.ringfence(&["evidence", "verify", &run]).status, 1, "{cut}");
            assert_eq!(place.ringfence(&["run", "--", "true"]).status, 0);
            let verified = place.ringfence(&["evidence", "verify", &run]);
            assert_eq!(verified.status, 0, "{cut}: {verified:?}");
            place.assert_clean();
        }
    }
}

/// A whole statement that does not fit the events is evidence of what is missing: nobody signs anything else in its place.
#[test]
fn a_signed_statement_is_never_replaced() {
    for place in Place::each() {
        let run = place.report(&[], &["true"]).0["run"].as_str().unwrap().to_owned();
        let script =
            format!("cd '{}/runs/{run}' && sed -i '$d' events.jsonl && sha256sum * && touch ../../live/{run}", place.home().display());
        let before = place.command("/bin/sh").args(["-c", &script]).output().unwrap().stdout;
        let next = place.ringfence(&["run", "--", "true"]);
        assert!(next.status == 0 && next.stderr.contains(&run) && next.stderr.contains("damaged"), "{next:?}");
        let after = place
            .command("/bin/sh")
            .args(["-c", &format!("cd '{}/runs/{run}' && sha256sum *", place.home().display())])
            .output()
            .unwrap()
            .stdout;
        assert_eq!(String::from_utf8_lossy(&after), String::from_utf8_lossy(&before));
    }
}

/// A caller's group is told to stop as a whole, by Ctrl-C or when a terminal goes: that is for the supervisor alone to act upon.
#[test]
fn a_stop_for_the_whole_process_group_at_any_moment_is_an_interruption() {
    for place in Place::each() {
        assert_eq!(place.ringfence(&["run", "--", "true"]).status, 0);
        let mut interrupted = 0;
        for moment in 0..40 {
            let mut child = place.command(binary()).args(["run", "--quiet", "--", "true"]).process_group(0).spawn().unwrap();
            std::thread::sleep(std::time::Duration::from_micros(1500 + 700 * moment));
            kill_process_group(Pid::from_child(&child), Signal::TERM).unwrap_or_default();
            match child.wait().unwrap().code() {
                Some(143) => interrupted += 1,
                Some(0) => {}
                None => {} // before it watched for signals at all
                other => panic!("it ended with {other:?} after a stop at {moment}"),
            }
        }
        assert!(interrupted > 0, "none was caught in the middle");
        assert_eq!(place.ringfence(&["run", "--", "true"]).status, 0);
        place.assert_clean();
    }
}
