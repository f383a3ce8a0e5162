//! Promotions whose process is killed at any moment, alone or with all that it started: asked again each comes to its end, took effect once or not at
//! all, and says so truly. `RINGFENCE_PROMOTION_KILLS` says how often, `RINGFENCE_SEED` at which moments; `make soak` has the numbers.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::rig::Rig;
use crate::faults::{Fault, calls, faulty};
use crate::left::names;
use crate::support::{User, binary, count, eventually, spread, users};

/// Numbers that are the same each time (SplitMix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below
    }

    /// A moment of something that takes so long, or a little after it.
    fn moment(&mut self, whole: Duration) -> Duration {
        whole * self.roll(1000) as u32 * 11 / 10 / 1000
    }
}

/// How a process is killed.
#[derive(Debug, Clone, Copy)]
enum Kill {
    /// It alone: what it started goes on for a while.
    Alone,
    /// With everything that it started.
    Whole,
}

impl Kill {
    fn at(self, mut child: Child) {
        let pid = Pid::from_child(&child);
        if matches!(self, Self::Whole) {
            // While it stands still it starts nothing more.
            kill_process(pid, Signal::STOP).unwrap_or_default();
            for descendant in descendants(child.id()).into_iter().filter_map(|pid| Pid::from_raw(pid as i32)) {
                kill_process(descendant, Signal::KILL).unwrap_or_default();
            }
        }
        kill_process(pid, Signal::KILL).unwrap_or_default();
        child.wait().unwrap();
    }
}

/// Every process that one started, and those that they started.
fn descendants(of: u32) -> Vec<u32> {
    let parent = |pid: u32| -> Option<u32> {
        let status = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        status.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
    };
    let all: Vec<(u32, u32)> =
        names("/proc".as_ref()).iter().filter_map(|name| name.parse().ok()).filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let mut found = vec![of];
    for at in 0.. {
        let Some(one) = found.get(at).copied() else { break };
        found.extend(all.iter().filter(|(_, parent)| *parent == one).map(|(pid, _)| *pid));
    }
    found.split_off(1)
}

/// A place in which promotions are killed.
struct Victim {
    rig: Rig,
    target: &'static str,
    /// How long asking takes, and how long applying.
    whole: [Duration; 2],
    number: u64,
    kills: u64,
    interrupted: u64,
}

impl Victim {
    fn new(user: User, target: &'static str) -> Self {
        let rig = Rig::with(user, "checks = [\"true\"]\n", "checks = [\"true\"]\n");
        let mut victim = Self { rig, target, whole: [Duration::ZERO; 2], number: 0, kills: 0, interrupted: 0 };
        let digest = victim.artifact();
        let begun = Instant::now();
        let asked = victim.rig.promote(&digest, target);
        victim.whole[0] = begun.elapsed();
        let begun = Instant::now();
        assert_eq!(victim.rig.approve(&Rig::approval(&asked), "anna").status, 0);
        victim.whole[1] = begun.elapsed();
        victim
    }

    /// Something to promote that was not there before.
    fn artifact(&mut self) -> String {
        self.number += 1;
        let number = self.number;
        match self.target {
            "main" => self.rig.patch(&format!("seq {number} 3000 > file-{number}.txt")),
            // Long enough that a file which is half written is seen.
            _ => self.rig.artifact(&["--export", "report.md"], &format!("seq {number} 60000 > report.md")),
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.rig.place.command(binary());
        command.args(arguments).process_group(0).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn kill(&mut self, arguments: &[&str], moment: Duration, kill: Kill) {
        let mut child = self.command(arguments).spawn().unwrap();
        std::thread::sleep(moment);
        self.kills += 1;
        self.interrupted += u64::from(child.try_wait().unwrap().is_none());
        kill.at(child);
        self.unlock(kill);
    }

    /// A git of the repository that is killed leaves its lock, and says to whoever comes next that it is to be removed by hand.
    fn unlock(&self, kill: Kill) {
        if matches!(kill, Kill::Whole) {
            self.rig.shell("find app.git -name '*.lock' -delete");
        }
    }

    /// What the target holds: how many commits and the tip's tree, or the file.
    fn held(&self) -> (String, String) {
        match self.target {
            "main" => (self.rig.shell("git -C app.git rev-list --count main"), self.rig.shell("git -C app.git rev-parse main^{tree}")),
            _ => (String::new(), self.rig.shell("sha256sum < reports/report.md | cut -c1-64")),
        }
    }

    /// What it is to hold by the record.
    fn promised(report: &Value) -> String {
        let result = &report["result"];
        let id = result["tree"].as_str().or_else(|| result["sha256"].as_str().map(|digest| digest.trim_start_matches("sha256:")));
        format!("{}\n", id.unwrap_or_default())
    }

    /// A promotion says that it took effect if, and only if, it did.
    fn assert_true(&self, what: &str, id: &str, before: &(String, String)) -> Value {
        let report = self.rig.show(&serde_json::json!({ "promotion": id }));
        let held = self.held();
        match report["state"].as_str().unwrap() {
            "applied" => assert_eq!(held.1, Self::promised(&report), "{what}: {report}"),
            "checking" | "waiting" => assert_eq!(&held, before, "{what}: {report}"),
            other => panic!("{what}: {other}: {report}"),
        }
        report
    }

    /// Asks again until there is nothing more to do, and looks at everything.
    fn bring_to_its_end(&self, what: &str, digest: &str, before: &(String, String)) {
        let asked = self.rig.promote(digest, self.target);
        let id = asked["promotion"].as_str().unwrap();
        if asked["state"] == "waiting" {
            let approved = self.rig.approve(&Rig::approval(&asked), "anna");
            assert_eq!(approved.status, 0, "{what}: {approved:?}");
        }
        let report = self.assert_true(what, id, before);
        assert_eq!(report["state"], "applied", "{what}: {report}");
        if self.target == "main" {
            let [now, then]: [u64; 2] = [&self.held().0, &before.0].map(|count| count.trim().parse().unwrap());
            assert_eq!(now, then + 1, "{what}: one commit");
        }
        assert_eq!(self.rig.promote(digest, self.target)["promotion"], id, "{what}: asked again it is the same");
        self.assert_whole(what, &report);
    }

    /// The repository is sound, nothing is left anywhere, and the evidence verifies.
    fn assert_whole(&self, what: &str, report: &Value) {
        let sound = self.rig.try_shell("git -C app.git fsck --strict --no-progress --no-dangling");
        assert_eq!((sound.status, sound.stdout.as_str()), (0, ""), "{what}: {sound:?}");
        let reports = names(&self.rig.place.path("reports"));
        assert!(reports.iter().all(|name| name == "report.md"), "{what}: {reports:?}");
        self.rig.assert_verifies(report);
        // Processes that were just killed may hold on to their runs for a moment: the next command takes those away.
        eventually(&format!("{what}: nothing left"), || {
            self.rig.place.ringfence(&["promotion", "ls"]);
            ["work", "live"].iter().all(|folder| names(&self.rig.place.home().join(folder)).is_empty())
        });
    }
}

fn one_promotion(victim: &mut Victim, dice: &mut Dice, seed: u64) {
    let digest = victim.artifact();
    let before = victim.held();
    let what = format!("RINGFENCE_SEED={seed}, {:?}, {}, promotion {}", victim.rig.place.user, victim.target, victim.number);
    let how = |dice: &mut Dice| if dice.roll(2) == 0 { Kill::Alone } else { Kill::Whole };
    let promote = ["promote", &digest, "--to", victim.target];
    let [asking, applying] = victim.whole;
    for _ in 0..2 {
        let (moment, kill) = (dice.moment(asking), how(dice));
        victim.kill(&promote, moment, kill);
    }
    let asked = victim.rig.promote(&digest, victim.target);
    let (id, approval) = (asked["promotion"].as_str().unwrap(), Rig::approval(&asked));
    for again in 0..3 {
        let (moment, kill) = (dice.moment(applying), how(dice));
        // After the first the word of the person may be on record already: then whoever asks goes on.
        let decide = ["approval", "approve", &approval, "--as", "anna"];
        let is_decided = victim.assert_true(&what, id, &before)["approvals"][0]["state"] != "pending";
        victim.kill(if is_decided { &promote } else { &decide }, moment, kill);
        victim.assert_true(&format!("{what}, kill {again} of the applying ({kill:?} at {moment:?})"), id, &before);
    }
    victim.bring_to_its_end(&what, &digest, &before);
}

#[test]
fn pr_07_after_kills_at_any_moment_a_promotion_took_effect_once() {
    let (kills, seed) = (count("RINGFENCE_PROMOTION_KILLS", 40), count("RINGFENCE_SEED", 20_261_130));
    let mut dice = Dice(seed);
    let mut victims: Vec<Victim> =
        users().into_iter().flat_map(|user| ["main", "reports"].map(|target| Victim::new(user, target))).collect();
    let all = victims.len();
    for number in 0..(kills as usize).div_ceil(5).max(all) {
        one_promotion(&mut victims[number % all], &mut dice, seed);
    }
    let sum = |of: fn(&Victim) -> u64| victims.iter().map(of).sum::<u64>();
    let (kills, interrupted) = (sum(|victim| victim.kills), sum(|victim| victim.interrupted));
    println!(
        "{kills} kills over {} promotions, {interrupted} of them in the middle: each took effect once",
        sum(|victim| victim.number - 1)
    );
    assert!(interrupted > kills / 2, "most are meant to hit: {interrupted} of {kills}");
}

/// The same at chosen steps of the decision that applies it, one after the other.
#[test]
fn pr_07_after_a_kill_at_every_step_of_applying_it_took_effect_once() {
    let most = count("RINGFENCE_PROMOTION_KILLS", 16);
    for target in ["main", "reports"] {
        let mut victim = Victim::new(User::Ordinary, target);
        let digest = victim.artifact();
        let approval = Rig::approval(&victim.rig.promote(&digest, target));
        let steps = calls(&victim.rig.place, false, &["approval", "approve", &approval, "--as", "anna"]);
        for step in spread(steps, most) {
            let digest = victim.artifact();
            let before = victim.held();
            let approval = Rig::approval(&victim.rig.promote(&digest, target));
            let mut killed = faulty(&victim.rig.place, Fault::Kill(step), &["approval", "approve", &approval, "--as", "anna"]);
            let status = killed.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
            // How often it waits is not the same each time, so that the last steps may not be there.
            assert!(status.code().is_none() || step + steps / 6 > steps, "step {step} of {steps} was not reached");
            victim.bring_to_its_end(&format!("{target}, step {step} of {steps}"), &digest, &before);
        }
        println!("{target}: killed at {} of the {steps} steps of applying: each took effect once", spread(steps, most).len());
    }
}
