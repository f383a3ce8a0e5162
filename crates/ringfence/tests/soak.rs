//! Very many runs in one process, by two workers side by side: at the end it holds as many descriptors, as much memory and as few traces on the host as
//! at the start. `RINGFENCE_SOAK` says how many runs; `make soak` takes 10,000. As root it runs a second time as an ordinary user.
//!
//! This test has a `main` of its own: it measures its own process, and starts itself again as another user.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "a test may stop, and starts what it tests")]

#[path = "it/left.rs"]
#[allow(dead_code, reason = "shared with the other tests, which use more of it")]
mod left;
#[path = "it/support.rs"]
#[allow(dead_code, reason = "shared with the other tests, which use more of it")]
mod support;

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use ringfence_control::{Attachments, InputRequest, OutputTo, Progress, RunRequest, Runner, Settings, find_profile};
use ringfence_evidence::RunEnd;
use ringfence_isolation::OsText;
use ringfence_policy::{AgentId, Limits};
use ringfence_store::Home;

const NAME: &str = "very_many_runs_leave_nothing_and_take_no_more";
const WORKERS: usize = 2;

fn main() {
    let is_wanted = |word: String| word.starts_with('-') || NAME.contains(&word);
    if !std::env::args().skip(1).all(is_wanted) {
        return;
    }
    println!("\nrunning 1 test");
    let again = std::env::var_os("RINGFENCE_SOAK_AGAIN").is_some();
    soak();
    if support::is_root() && !again {
        as_ordinary_user();
    }
    println!("test {NAME} ... ok\n");
}

/// The same program once more, from a place that every user can reach.
fn as_ordinary_user() {
    let folder = support::Place::new(support::User::Ordinary);
    let program = folder.path("soak");
    fs::copy("/proc/self/exe", &program).unwrap();
    let mut command = Command::new(&program);
    command.env("RINGFENCE_SOAK_AGAIN", "1").uid(support::ORDINARY).gid(support::ORDINARY).current_dir("/");
    assert!(command.status().unwrap().success());
}

fn soak() {
    let runs = support::count("RINGFENCE_SOAK", 500);
    let folder = tempfile::Builder::new().prefix("ringfence-soak-").tempdir_in("/dev/shm").unwrap();
    let place = folder.path();
    fs::create_dir(place.join("project")).unwrap();
    fs::write(place.join("project/file"), "one\n").unwrap();
    let home = Home::open(&place.join("home")).unwrap();
    let settings = Settings::load(&home.settings(), true).unwrap();
    let runner = Runner::open(home.clone(), settings).unwrap();

    work(&runner, &home, place, runs.div_ceil(5)); // what is made once is made, and memory has found its size
    let (before, begun) = (Held::look(home.root()), Instant::now());
    work(&runner, &home, place, runs);
    let (after, seconds) = (Held::look(home.root()), begun.elapsed().as_secs_f64());

    println!("uid {}: {runs} runs in {seconds:.0} s by {WORKERS} workers", rustix::process::geteuid().as_raw());
    println!("  before {}\n  after  {}", before.line(), after.line());
    after.assert_no_more_than(&before);
    let records = left::runs(home.root());
    records.iter().for_each(|run| drop(left::sealed_end(home.root(), run)));
    assert_eq!(records.len() as u64, runs + runs.div_ceil(5));
    println!("  {} records verify, nothing left", records.len());
}

/// What this process holds, and what its runs have left.
#[derive(Debug)]
struct Held {
    descriptors: usize,
    children: usize,
    memory_kb: u64,
    left: Vec<String>,
    host: left::Host,
}

impl Held {
    fn look(home: &Path) -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let children = |task: &String| fs::read_to_string(format!("/proc/self/task/{task}/children")).unwrap().split_whitespace().count();
        Self {
            descriptors: left::names(Path::new("/proc/self/fd")).len(),
            children: left::names(Path::new("/proc/self/task")).iter().map(children).sum(),
            memory_kb: memory.trim().trim_end_matches(" kB").parse().unwrap(),
            left: left::left_of(home),
            host: left::Host::look(),
        }
    }

    fn line(&self) -> String {
        let Self { descriptors, children, memory_kb, left, host } = self;
        format!("{descriptors} descriptors, {children} children, {memory_kb} KiB, {} left, {host}", left.len())
    }

    fn assert_no_more_than(&self, before: &Self) {
        assert_eq!((self.descriptors, self.children), (before.descriptors, before.children));
        assert_eq!(self.left, Vec::<String>::new());
        support::eventually("a host as before", || left::Host::look() == before.host);
        assert!(self.memory_kb * 100 < before.memory_kb * 105, "memory grew from {} to {} KiB", before.memory_kb, self.memory_kb);
    }
}

fn work(runner: &Runner, home: &Home, place: &Path, runs: u64) {
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= runs {
                        return;
                    }
                    one(runner, home, place, number);
                }
            });
        }
    });
}

/// One run: mostly the plainest, else with a project, an input and an export, or a limit that ends it.
fn one(runner: &Runner, home: &Home, place: &Path, number: u64) {
    let mut request = request(home, &["true"]);
    let mut artifacts = 0;
    let mut end = RunEnd::Exited { code: 0 };
    match number % 50 {
        0..10 => {
            request.project = Some(place.join("project"));
            request.exports = vec!["changes.patch".parse().unwrap()];
            request.command = words(&["bash", "-c", "echo two >> file"]);
            artifacts = 1;
        }
        10..15 => {
            request.inputs = vec![InputRequest { path: place.join("project/file"), name: "file".into() }];
            request.exports = vec!["out/*".parse().unwrap()];
            request.command = words(&["bash", "-c", "mkdir out; cp /inputs/file out/a; echo b > out/b; ln -s a out/c"]);
            artifacts = 2;
        }
        15 => {
            request.limits = limits("wall=1s");
            request.command = words(&["bash", "-c", "setsid sleep 50 & sleep 50"]);
            end = RunEnd::Limit { limit: "wall".into() };
        }
        _ => {}
    }
    let attachments = Attachments { output: OutputTo::Report, progress: &mut Silent, cancel: None };
    let report = runner.run(&request, attachments).unwrap();
    assert_eq!((&report.end, report.artifacts.len()), (&end, artifacts), "run {number}: {report:?}");
}

fn words(words: &[&str]) -> Vec<OsText> {
    words.iter().map(|word| OsText::from(*word)).collect()
}

fn limits(text: &str) -> Limits {
    let mut limits = Limits::default();
    limits.parse_and_set(text).unwrap();
    limits
}

fn request(home: &Home, command: &[&str]) -> RunRequest {
    RunRequest {
        profile: find_profile(home, "data-analysis").unwrap(),
        agent: AgentId::local(),
        inputs: Vec::new(),
        project: None,
        reveal: Vec::new(),
        environment: Vec::new(),
        without_network: false,
        destinations: Vec::new(),
        limits: limits("wall=30s"), // one that hangs is found
        exports: Vec::new(),
        tier: None,
        storage: None,
        state: None,
        from: None,
        sensitivity: None,
        command: words(command),
        has_stdin: false,
        stdin: None,
        tenant: None,
        handed_over: None,
        known_secrets: Vec::new(),
        homes: Vec::new(),
    }
}

struct Silent;

impl Progress for Silent {
    fn tell(&mut self, _: &str, _: u64) {}

    fn warn(&mut self, _: &str) {}
}
