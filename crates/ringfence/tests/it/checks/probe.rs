//! Runs the probe amid bait, inside sandboxes and once outside, and settles what only the host can tell.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::{Place, User, binary, outcome, side_by_side};

/// What came of a check, and the probe's own words about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) word: String,
    pub(super) detail: String,
}

pub(super) type Outcomes = BTreeMap<String, Outcome>;

/// The limits in force, and the same in the probe's words. Shared memory counts as memory; the kernel's own limit on pipes holds at about 72 MiB
/// with 1024 open files.
const LIMITS: [&str; 6] = ["memory=128MiB", "processes=64", "disk=32MiB", "files=2048", "output=1MiB", "open-files=1024"];
const SETTINGS: &str =
    "mem_mb=128 pids=64 disk_mb=32 inodes=2048 tmp_mb=32 shm_mb=32 out_mb=1 nofile=1024 sysv_mb=128 pipes_mb=72 wall_s=2";

/// Checks that may get the whole sandbox killed, so that each has one of its own.
const ALONE: [&str; 9] = ["RX-01", "RX-03", "RX-04", "RX-07", "RX-09", "RX-13", "RX-17", "RX-18", "RX-21"];

/// Everything, by the probe inside of sandboxes in the default profile.
pub(super) fn inside(user: User) -> Outcomes {
    let home = Place::new(user);
    let jobs: Vec<Option<&str>> = std::iter::once(None).chain(ALONE.map(Some)).collect();
    side_by_side(&jobs, 2, |job| match job {
        None => together(&home),
        Some(id) => alone(&home, id),
    })
    .into_iter()
    .flatten()
    .collect()
}

/// Everything that is harmless without a sandbox, by the probe outside of any.
pub(super) fn outside(user: User) -> Outcomes {
    let place = Place::new(user);
    // Where the bait has no network of its own, the addresses of a metadata service and of a stranger would be the real ones.
    let left_out = if user == User::Root { "none" } else { "NET-08,NET-11" };
    let mut command = amid_bait(&place);
    command.arg("/usr/bin/python3");
    command.args(probe(&place.path("probe.py"), &place.path("amid/bait.json"), &["--unsandboxed", "--skip", left_out]));
    let output = outcome(command.output().unwrap());
    settled(&place, answers(&output.stdout), &Value::Null)
}

fn together(home: &Place) -> Outcomes {
    let place = Place::new(home.user);
    let report = in_a_sandbox(&place, home, "wall=90s", &["--no-solo"]);
    settled(&place, answers(report["stdout"].as_str().unwrap()), &report)
}

/// One check; where the probe did not live to tell, the limit that ended it tells.
fn alone(home: &Place, id: &str) -> Outcomes {
    let place = Place::new(home.user);
    let wall = if id == "RX-18" { "wall=2s" } else { "wall=20s" };
    let report = in_a_sandbox(&place, home, wall, &["--only", id]);
    let mut answers = answers(report["stdout"].as_str().unwrap());
    if report["end"]["kind"] == "limit" {
        let detail = format!("ended by the {} limit", report["end"]["limit"]);
        answers.entry(id.to_owned()).or_insert(Outcome { word: "contained".into(), detail });
    }
    settled(&place, answers, &report)
}

/// The report of a run of the probe. All share a home: its first run makes an image, which takes a second.
fn in_a_sandbox(place: &Place, home: &Place, wall: &str, options: &[&str]) -> Value {
    let mut command = amid_bait(place);
    command.env("RINGFENCE_HOME", home.home()).arg(binary()).args([
        "run",
        "--json",
        "--input",
        "probe.py",
        "--input",
        "amid/bait.json",
        "--limit",
        wall,
    ]);
    command.args(LIMITS.iter().flat_map(|limit| ["--limit", limit])).args(["--", "python3"]);
    command.args(probe(Path::new("/inputs/probe.py"), Path::new("/inputs/bait.json"), options));
    let output = outcome(command.output().unwrap());
    serde_json::from_str(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"))
}

/// The bait, with room for a command to run amid it.
fn amid_bait(place: &Place) -> Command {
    let script = place.write("bait.py", include_str!("../../data/bait.py"));
    place.write("probe.py", include_str!("../../data/probe.py"));
    let amid = place.folder("amid");
    let mut command = place.command("/usr/bin/python3");
    command.arg(script).arg(amid);
    command
}

fn probe(script: &Path, bait: &Path, options: &[&str]) -> Vec<String> {
    let mut arguments = vec![script.display().to_string(), "--canary".into(), format!("@{}", bait.display())];
    arguments.extend(SETTINGS.split(' ').flat_map(|setting| ["--set".to_owned(), setting.to_owned()]));
    arguments.extend(options.iter().map(|option| (*option).to_owned()));
    arguments
}

/// The probe's lines; what else a check printed is no answer.
fn answers(stdout: &str) -> Outcomes {
    let lines = stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines
        .filter_map(|line| {
            let text = |field: &str| Some(line[field].as_str()?.to_owned());
            Some((text("id")?, Outcome { word: text("outcome")?, detail: text("detail").unwrap_or_default() }))
        })
        .collect()
}

/// What the probe left to the host: whether a file came to be there, and how much output was kept.
fn settled(place: &Place, mut answers: Outcomes, report: &Value) -> Outcomes {
    for (id, outcome) in answers.iter_mut().filter(|(_, outcome)| outcome.word == "hostcheck") {
        let has_escaped = match id.as_str() {
            "FS-03" => place.path("amid/writable").read_dir().unwrap().next().is_some(),
            "RX-09" => report["stdout"].as_str().is_none_or(|kept| kept.len() > (1 << 20) + 4096),
            other => panic!("nothing here looks at {other}"),
        };
        outcome.word = if has_escaped { "escaped" } else { "contained" }.into();
    }
    answers
}
