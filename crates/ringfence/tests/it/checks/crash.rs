//! Checks of crashes (CR) that no older test held.

use std::fs;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{Place, binary, eventually, sleepers};

fn asleep(place: &Place, mark: &str) -> Child {
    let script = format!("(setsid sleep {mark} &); sleep {mark}");
    place.command(binary()).args(["run", "--quiet", "--", "bash", "-c", &script]).stderr(Stdio::null()).spawn().unwrap()
}

/// The mark of a dead run names a process number that now is somebody else's.
#[test]
fn cr_11_a_number_that_passed_to_another_process_is_not_killed() {
    for place in Place::each() {
        let mark = format!("73.1{}", 1 + place.user as u8);
        let mut run = asleep(&place, &mark);
        eventually("start of the sleepers", || sleepers(&mark).len() == 2);
        kill_process(Pid::from_child(&run), Signal::KILL).unwrap();
        run.wait().unwrap();
        // No number passes to another process within one tick of the clock that starts are told by.
        std::thread::sleep(Duration::from_millis(20));
        let mut other = place.command("/bin/sleep").arg("600").spawn().unwrap();
        let live = fs::read_dir(place.home().join("live")).unwrap().next().unwrap().unwrap().path();
        let mut traces: Value = serde_json::from_str(&fs::read_to_string(&live).unwrap()).unwrap();
        traces["pid"] = other.id().into();
        fs::write(&live, traces.to_string()).unwrap();
        assert_eq!(place.ringfence(&["run", "--", "true"]).status, 0);
        assert!(other.try_wait().unwrap().is_none(), "a stranger was killed");
        other.kill().unwrap();
        other.wait().unwrap();
        place.assert_clean();
    }
}

#[test]
fn cr_13_a_killed_supervisor_takes_everything_along() {
    for place in Place::each() {
        let mark = format!("73.3{}", 1 + place.user as u8);
        let mut run = asleep(&place, &mark);
        eventually("start of the sleepers", || sleepers(&mark).len() == 2);
        let killed_at = Instant::now();
        kill_process(Pid::from_child(&run), Signal::KILL).unwrap();
        run.wait().unwrap();
        eventually("death of the tree", || sleepers(&mark).is_empty());
        assert!(killed_at.elapsed() < Duration::from_secs(1), "{:?}", killed_at.elapsed());
        assert_eq!(place.ringfence(&["run", "--", "true"]).status, 0);
        place.assert_clean();
    }
}

#[test]
fn cr_16_twenty_runs_that_are_told_to_stop_are_all_on_record() {
    for place in Place::each() {
        assert_eq!(place.ringfence(&["run", "--", "true"]).status, 0);
        let mark = format!("73.6{}", 1 + place.user as u8);
        let mut runs: Vec<Child> = (0..20).map(|_| asleep(&place, &mark)).collect();
        (1..=20).for_each(|count| eventually("start of one more", || sleepers(&mark).len() >= 2 * count));
        runs.iter().for_each(|run| kill_process(Pid::from_child(run), Signal::TERM).unwrap());
        let statuses: Vec<_> = runs.iter_mut().map(|run| run.wait().unwrap().code()).collect();
        assert_eq!(statuses, [Some(143); 20]);
        place.assert_clean();
        for run in fs::read_dir(place.home().join("runs")).unwrap().flatten() {
            assert_eq!(place.ringfence(&["evidence", "verify", run.file_name().to_str().unwrap()]).status, 0);
        }
    }
}
