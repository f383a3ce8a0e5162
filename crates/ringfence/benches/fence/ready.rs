//! Sandboxes that stand ready: a command in one, and what very many of them hold.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ringfence_isolation::{
    Capture, Command as Inside, Creation, EmptySandbox, Host, Identity, Image, OsText, Plan, Sandbox, SandboxSpec, Stdin, Streams, compile,
    lease_identity,
};
use ringfence_policy::{Capabilities, Profile, UserName, shipped};

use crate::alone::quantile;

/// How many stand idle at once.
const IDLE: usize = 200;

/// Measures both.
pub(crate) fn run(folder: &Path, rounds: usize) {
    let (host, image) = (Host::look(), Image::of_host(&folder.join("images")).unwrap());
    println!("## /bin/true in a sandbox that stands ready, {rounds} rounds\n");
    exec(&mut make(&host, &image, 0), rounds);
    println!("## {IDLE} idle sandboxes\n");
    let standing: Vec<Sandbox<'_>> = (0..IDLE).map(|number| make(&host, &image, number)).collect();
    let private: Vec<u64> = standing.iter().map(|sandbox| private_kib(sandbox.init().as_raw_nonzero().get())).collect();
    let (mean, most) = (private.iter().sum::<u64>() / IDLE as u64, private.iter().max().unwrap());
    println!("private memory of each, its init: {mean} KiB in the mean, {most} KiB at most\n");
}

/// What the default profile grants.
fn granted() -> Capabilities {
    let text = shipped().iter().find(|s| s.name == "data-analysis").unwrap().text;
    Profile::parse("data-analysis", text).unwrap().bound
}

/// The plan of a run of the default profile without inputs.
pub(crate) fn default_plan(host: &Host, image: &Image, identity: Identity) -> Plan {
    compile(&SandboxSpec {
        capabilities: &granted(),
        cgroups: &host.cgroups,
        identity,
        user: &UserName::default(),
        image,
        inputs: None,
        input_folders: Vec::new(),
        project: None,
        has_writable_union: host.has_writable_union(),
        disk: None,
        doors: &ringfence_isolation::Doors::default(),
    })
}

fn make(host: &Host, image: &Image, number: usize) -> Sandbox<'static> {
    let lease = lease_identity().unwrap();
    let plan = default_plan(host, image, lease.identity);
    let run = format!("bench-{}-{number}", std::process::id());
    let empty = EmptySandbox::begin(&run, &host.cgroups, &plan.group_limits, lease).unwrap();
    let creation = Creation { plan: &plan, limits: &granted().limits, memory_grade: host.memory_grade(), cancel: None };
    empty.build(creation, &mut |_, _| Ok(())).unwrap().stand().unwrap()
}

fn exec(sandbox: &mut Sandbox<'_>, rounds: usize) {
    let (mut inside, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        inside.push(timed(|| {
            let command = Inside::new(vec![OsText::from("/bin/true")], Vec::new());
            let streams = Streams { stdin: Stdin::Empty, stdout: Capture::keeping(), stderr: Capture::keeping() };
            let id = sandbox.start(&command, streams, false).unwrap();
            sandbox.wait(id).unwrap();
        }));
        bare.push(timed(|| {
            let status = Command::new("/bin/true").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
            assert!(status.success());
        }));
    }
    let median = |times: &mut Vec<Duration>| {
        times.sort_unstable();
        quantile(times, 0.5).as_secs_f64() * 1e3
    };
    let (inside, bare) = (median(&mut inside), median(&mut bare));
    println!("inside {inside:.2} ms, bare fork+exec {bare:.2} ms (medians): ratio {:.2}\n", inside / bare);
}

fn timed(work: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    work();
    begun.elapsed()
}

/// Pages that nobody else has, of one process.
fn private_kib(pid: i32) -> u64 {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let lines = rollup.lines().filter(|line| line.starts_with("Private_Clean:") || line.starts_with("Private_Dirty:"));
    lines.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).sum()
}
