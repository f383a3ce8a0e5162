//! ringfence killed at any moment of a run, and at every step by which it changes something: after the next command no accepted run is lost, every
//! record verifies, and nothing is left. `RINGFENCE_KILLS` says how often; `make soak` tries every step.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ringfence_evidence::RunEnd;
use rustix::process::{Pid, Signal, kill_process};

use crate::faults::{Fault, calls, faulty};
use crate::left::{Host, assert_nothing_is_left, open_runs, processes, runs, sealed_end};
use crate::support::{Place, binary, count, eventually, spread, users};

/// A home in which runs are killed.
struct Victim {
    place: Place,
    /// The binary by a name of its own, so that its processes can be told from those of other tests.
    program: PathBuf,
    mark: String,
    storage: &'static str,
    before: Host,
    kills: usize,
    /// How often one command more was needed.
    again: usize,
    interrupted: BTreeSet<String>,
}

impl Victim {
    fn new(place: Place, number: u32, storage: &'static str) -> Self {
        place.write("p/file", "content");
        let program = place.folder("bin").join("ringfence");
        fs::hard_link(binary(), &program).unwrap();
        assert_eq!(place.ringfence(&["run", "--", "true"]).status, 0);
        let mark = format!("{}.{number}", 100_000 + std::process::id());
        Self { place, program, mark, storage, before: Host::look(), kills: 0, again: 0, interrupted: BTreeSet::new() }
    }

    fn arguments(&self) -> Vec<String> {
        let script = format!("(setsid sleep {} &); echo x > x; sleep 0.01", self.mark);
        let words =
            ["run", "--project", "p", "--input", "p/file", "--export", "x", "--export", "changes.patch", "--", "bash", "-c", &script];
        let (run, rest) = words.split_at(1);
        [run, &["--storage", self.storage], rest].concat().into_iter().map(str::to_owned).collect()
    }

    fn command(&self) -> Command {
        let mut command = self.place.command(&self.program);
        command.args(self.arguments()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// The time that a whole run takes: the middle one of three.
    fn whole_run(&self) -> Duration {
        let mut times = [(); 3].map(|()| {
            let begun = Instant::now();
            assert!(self.command().status().unwrap().success());
            begun.elapsed()
        });
        times.sort();
        times[1]
    }

    /// After a kill: nothing of the run lives, and the next command ends what was accepted and takes away what was left.
    fn look_after(&mut self, what: &str) {
        self.kills += 1;
        let home = self.place.home();
        let open = open_runs(&home);
        eventually("death of the tree", || processes(&self.program, &self.mark).is_empty());
        self.next_commands(&open);
        for run in &open {
            assert!(runs(&home).contains(run), "{what}: an accepted run is lost: {run}");
            if matches!(sealed_end(&home, run), RunEnd::Failed { step, .. } if step == "interrupted") {
                self.interrupted.insert(run.clone());
            }
        }
        assert_nothing_is_left(&home);
    }

    /// The next command, and more of them where a process that is just dying still held the lock of its run.
    fn next_commands(&mut self, open: &BTreeSet<String>) {
        let give_up_at = Instant::now() + Duration::from_secs(10);
        loop {
            let next = self.place.ringfence(&["run", "--quiet", "--", "true"]);
            assert_eq!((next.status, next.stderr.as_str()), (0, ""), "{next:?}");
            if open.is_disjoint(&open_runs(&self.place.home())) || Instant::now() > give_up_at {
                return;
            }
            self.again += 1;
        }
    }

    /// At the end: every record there is verifies, and the host is as it was.
    fn finish(self, what: &str) {
        let home = self.place.home();
        let all = runs(&home);
        all.iter().for_each(|run| drop(sealed_end(&home, run)));
        eventually("a host as before", || Host::look() == self.before);
        println!(
            "{:?}: {} kills {what}: {} runs interrupted, {} records verify, 0 lost, nothing left, {} by a second command",
            self.place.user,
            self.kills,
            self.interrupted.len(),
            all.len(),
            self.again
        );
        assert!(!self.interrupted.is_empty(), "no run was caught in the middle");
    }
}

/// The moments are spread over a whole run and a little more, each a bit off its place.
#[test]
fn after_a_kill_at_any_moment_nothing_is_lost_or_left() {
    kill_at_moments("memory", 111);
}

/// The same with a disk that has to be made, mounted and taken away.
#[test]
fn after_a_kill_at_any_moment_nothing_is_left_of_a_disk() {
    kill_at_moments("disk", 555);
}

fn kill_at_moments(storage: &'static str, first: u32) {
    let kills = count("RINGFENCE_KILLS", 20);
    for (number, place) in Place::each().into_iter().enumerate() {
        let mut victim = Victim::new(place, number as u32 + first, storage);
        let whole = victim.whole_run() * 11 / 10;
        for kill in 0..kills {
            let mut child = victim.command().spawn().unwrap();
            let moment = whole * (kill * 97 % kills) as u32 / kills as u32 + whole * (kill % 7) as u32 / (7 * kills as u32);
            std::thread::sleep(moment);
            kill_process(Pid::from_child(&child), Signal::KILL).unwrap_or_default();
            child.wait().unwrap();
            victim.look_after(&format!("{moment:?}"));
        }
        victim.finish(&format!("over {} ms", whole.as_millis()));
    }
}

#[test]
fn after_a_kill_at_every_step_nothing_is_lost_or_left() {
    let kills = count("RINGFENCE_KILLS", 20);
    for (number, place) in Place::each().into_iter().enumerate() {
        let mut victim = Victim::new(place, number as u32 + 333, "memory");
        let arguments = victim.arguments();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        // The second time: from then on the artifact is in the store already.
        let [_, steps] = [(); 2].map(|()| calls(&victim.place, false, &arguments));
        for step in spread(steps, kills) {
            let mut command = faulty(&victim.place, Fault::Kill(step), &arguments);
            let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
            // How often output is read, and so how many steps there are at the end, differs by a few.
            assert!(status.code().is_none() || step + 5 > steps, "step {step} of {steps} was not reached");
            victim.look_after(&format!("step {step} of {steps}"));
        }
        victim.finish(&format!("at {steps} steps"));
    }
}

/// A home that is only half made is made whole by the next command.
#[test]
fn after_a_kill_at_a_step_of_the_first_use_nothing_is_lost_or_left() {
    let kills = count("RINGFENCE_KILLS", 20) / 2;
    for user in users() {
        let steps = calls(&Place::new(user), false, &["run", "--", "true"]);
        for step in spread(steps, kills) {
            let place = Place::new(user);
            let killed = faulty(&place, Fault::Kill(step), &["run", "--", "true"]).stderr(Stdio::null()).status().unwrap();
            assert!(killed.code().is_none() || step + 5 > steps, "step {step} of {steps} was not reached");
            let open = open_runs(&place.home());
            let next = place.ringfence(&["run", "--quiet", "--", "true"]);
            assert_eq!((next.status, next.stderr.as_str()), (0, ""), "step {step} of {steps}: {next:?}");
            open.iter().for_each(|run| drop(sealed_end(&place.home(), run)));
            assert_nothing_is_left(&place.home());
        }
        println!("{user:?}: {kills} kills at {steps} steps of a first use: nothing lost, nothing left");
    }
}
