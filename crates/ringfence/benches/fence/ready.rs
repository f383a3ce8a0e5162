//! Sandboxes that stand ready: a command in one, and what very many of them hold.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ringfence_isolation::{
    Capture, Command as Inside, Creation, EmptySandbox, Host, HostImage, OsText, Plan, Sandbox, SandboxSpec, Streams, compile,
    lease_identity,
};
use ringfence_policy::{Capabilities, Profile, shipped};

use crate::alone::quantile;

/// How many stand idle at once.
const IDLE: usize = 200;

/// Measures both.
pub(crate) fn run(folder: &Path, rounds: usize) {
    let text = shipped().iter().find(|s| s.name == "data-analysis").unwrap().text;
    let capabilities = Profile::parse("data-analysis", text).unwrap().bound;
    let (host, image) = (Host::look(), HostImage::prepare(&folder.join("images")).unwrap());
    println!("## /bin/true in a sandbox that stands ready, {rounds} rounds\n");
    exec(&mut make(&host, &image, &capabilities, 0), rounds);
    println!("## {IDLE} idle sandboxes\n");
    let standing: Vec<Sandbox<'_>> = (0..IDLE).map(|number| make(&host, &image, &capabilities, number)).collect();
    let inits: Vec<i32> = standing.iter().map(|sandbox| sandbox.init().as_raw_nonzero().get()).collect();
    let private: Vec<u64> = inits.iter().map(|pid| private_kib(*pid)).collect();
    println!(
        "private memory of each init: {} KiB in the mean, {} KiB at most\n",
        private.iter().sum::<u64>() / IDLE as u64,
        private.iter().max().unwrap()
    );
}

fn make(host: &Host, image: &HostImage, capabilities: &Capabilities, number: usize) -> Sandbox<'static> {
    let lease = lease_identity().unwrap();
    let plan: Plan = compile(&SandboxSpec {
        capabilities,
        cgroups: &host.cgroups,
        identity: lease.identity,
        image,
        inputs: None,
        input_folders: Vec::new(),
        project: None,
        has_writable_union: host.has_writable_union(),
        disk: None,
    });
    let run = format!("bench-{}-{number}", std::process::id());
    let empty = EmptySandbox::begin(&run, &host.cgroups, &plan.group_limits, lease).unwrap();
    let creation = Creation { plan: &plan, limits: &capabilities.limits, memory_grade: host.memory_grade(), cancel: None };
    empty.build(creation, &mut |_, _| Ok(())).unwrap().stand().unwrap()
}

fn exec(sandbox: &mut Sandbox<'_>, rounds: usize) {
    let (mut inside, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        inside.push(timed(|| {
            let command = Inside { argv: vec![OsText::from("/bin/true")], environment: Vec::new() };
            let streams = Streams { stdin: None, stdout: Capture::keeping(), stderr: Capture::keeping() };
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
