//! How long clients of a server wait: a sandbox made until its first output, and a command in one that stands, beside a bare fork and exec of the same
//! program by the same number of threads; then 200 sessions at once. Nothing here is a test: it prints.
//!
//! `BENCH_ROUNDS` says how often each client does each (default 20).
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a benchmark may stop, and starts what it measures")]

mod client;

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

use client::{Client, Sandbox};

fn main() {
    // `cargo test` also starts benchmarks, to see that they start.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let rounds = std::env::var("BENCH_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(20);
    let server = Server::start();
    println!("{} processors; a debug build is slower", std::thread::available_parallelism().map_or(0, usize::from));
    for clients in [1, 8, 32] {
        execs(&server, clients, rounds);
        creates(&server, clients, rounds.min(10));
    }
    density(&server, 200);
}

/// A server of its own, on a home in memory.
struct Server {
    process: Child,
    _home: tempfile::TempDir,
    address: String,
    key: String,
}

impl Server {
    fn start() -> Self {
        let home = tempfile::Builder::new().prefix("ringfence-bench-").tempdir_in("/dev/shm").unwrap();
        let binary = PathBuf::from(env!("CARGO_BIN_EXE_ringfence"));
        let mut command = Command::new(binary);
        command.args(["serve", "--listen", "127.0.0.1:0", "--parked", "32"]).env("RINGFENCE_HOME", home.path().join("home"));
        let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let (mut key, mut address) = (String::new(), String::new());
        for line in lines.map_while(Result::ok) {
            if let Some(at) = line.find("e2b_") {
                key = line[at..].to_owned();
            }
            if let Some((_, rest)) = line.split_once("http://") {
                address = rest.to_owned();
                break;
            }
        }
        Self { process, _home: home, address, key }
    }

    fn client(&self) -> Client {
        Client::new(&self.address, &self.key)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let asked = Command::new("kill").arg(self.process.id().to_string()).status();
        if asked.is_ok() {
            self.process.wait().unwrap();
        }
    }
}

/// Something that is done again and again.
type Work = Box<dyn FnMut()>;

/// Rounds that all threads do of one kind before they do as many of the other: what else the machine does falls on both.
const TURN: usize = 10;

/// What each of some threads takes for each of its rounds, of each kind of work that one has.
fn timed<const KINDS: usize>(threads: usize, rounds: usize, work: impl Fn(usize) -> [Work; KINDS] + Sync) -> [Vec<Duration>; KINDS] {
    let times = [const { Mutex::new(Vec::new()) }; KINDS];
    let together = Barrier::new(threads);
    std::thread::scope(|scope| {
        for number in 0..threads {
            let (work, times, together) = (&work, &times, &together);
            scope.spawn(move || {
                let mut kinds = work(number);
                kinds.iter_mut().for_each(|once| once());
                for _ in 0..rounds.div_ceil(TURN) {
                    for (once, times) in kinds.iter_mut().zip(times) {
                        together.wait();
                        let own: Vec<Duration> = (0..TURN.min(rounds)).map(|_| timed_once(once)).collect();
                        times.lock().unwrap().extend(own);
                    }
                }
            });
        }
    });
    times.map(|times| times.into_inner().unwrap())
}

fn timed_once(once: &mut Work) -> Duration {
    let begun = Instant::now();
    once();
    begun.elapsed()
}

fn told(name: &str, mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    println!("  {name:<44} p50 {:7.2} ms   p95 {:7.2} ms", at(0.5), at(0.95));
    at(0.5)
}

/// A command in a sandbox that stands, beside the same without one.
fn execs(server: &Server, clients: usize, rounds: usize) {
    println!("\n{clients} clients, a command in a sandbox that stands ({rounds} rounds each)");
    for (title, argv) in [("/bin/true", vec!["/bin/true"]), ("bash -c 'echo hi'", vec!["/bin/bash", "-c", "echo hi"])] {
        let sandboxes: Vec<Mutex<Option<Sandbox>>> = (0..clients).map(|_| Mutex::new(Some(server.client().create()))).collect();
        // What the server makes ahead for those that come next is made by then.
        std::thread::sleep(Duration::from_secs(2));
        let [inside, bare] = timed(clients, rounds, |number| {
            let mut sandbox = sandboxes[number].lock().unwrap().take().unwrap();
            let (argv, same) = (argv.clone(), argv.clone());
            [Box::new(move || sandbox.exec(&argv)), Box::new(move || bare(&same))]
        });
        let (inside, bare) = (told(&format!("{title} by the server"), inside), told(&format!("{title} by fork and exec"), bare));
        println!("  ratio of medians {:.2}", inside / bare);
    }
}

/// The same without a sandbox.
fn bare(argv: &[&str]) {
    let output = Command::new(argv[0]).args(&argv[1..]).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success());
}

/// A sandbox made, and the first output of a command in it.
fn creates(server: &Server, clients: usize, rounds: usize) {
    println!("\n{clients} clients, a sandbox made and its first output ({rounds} rounds each)");
    let [times] = timed(clients, rounds, |_| {
        let client = server.client();
        [Box::new(move || {
            let mut sandbox = client.create();
            sandbox.exec(&["/bin/echo", "first"]);
            sandbox.kill();
        })]
    });
    told("create, first output, end", times);
}

/// Many that stand and wait.
fn density(server: &Server, most: usize) {
    let client = server.client();
    let begun = Instant::now();
    let mut sandboxes: Vec<Sandbox> = (0..most).map(|_| client.create()).collect();
    println!("\n{most} sessions stand after {:.1} s", begun.elapsed().as_secs_f64());
    let begun = Instant::now();
    sandboxes.iter_mut().for_each(|sandbox| sandbox.exec(&["/bin/true"]));
    println!("  a command in each, one after another: {:.2} ms each", begun.elapsed().as_secs_f64() * 1e3 / most as f64);
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.process.id())).unwrap();
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim().to_owned();
    println!("  the server: {} resident, {} threads", field("VmRSS:"), field("Threads:"));
    let ticks = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.process.id())).unwrap();
        let fields: Vec<u64> = stat.rsplit_once(')').unwrap().1.split_whitespace().skip(1).filter_map(|f| f.parse().ok()).collect();
        fields[10] + fields[11]
    };
    let before = ticks();
    std::thread::sleep(Duration::from_secs(5));
    println!("  while all wait it uses {:.1} per cent of a processor", (ticks() - before) as f64 / 5.0);
    sandboxes.into_iter().for_each(|mut sandbox| sandbox.kill());
}
