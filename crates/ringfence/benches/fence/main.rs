//! How long a run takes, beside the peers that this machine has, in one interleaved run: `make bench`. Nothing here is a test: it prints.
//!
//! `BENCH_ROUNDS` says how often each is timed alone (default 100).
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a benchmark may stop, and starts what it measures")]

mod alone;
mod crowd;
mod peers;
mod ready;

use std::path::{Path, PathBuf};

/// A benchmark's own folders: one on a memory file system, one on the disk on which it was built.
struct Places {
    memory: tempfile::TempDir,
    disk: tempfile::TempDir,
}

fn main() {
    // `cargo test` also starts benchmarks, to see that they start.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let folder = |at: &Path| tempfile::Builder::new().prefix("ringfence-bench-").tempdir_in(at).unwrap();
    let places = Places { memory: folder(Path::new("/dev/shm")), disk: folder(Path::new(env!("CARGO_TARGET_TMPDIR"))) };
    println!("{}\n", machine());
    let rounds = std::env::var("BENCH_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(100);
    for (title, program) in [("/bin/true", vec!["/bin/true"]), ("python3 -c 'print(1)'", vec!["/usr/bin/python3", "-c", "print(1)"])] {
        let contestants = peers::all(&places, &program);
        println!("## {title}, one at a time, {rounds} rounds\n");
        alone::run(&contestants, rounds);
        for workers in [2, 8, 32] {
            println!("## {title}, {workers} at once\n");
            crowd::run(&contestants, workers);
        }
    }
    ready::run(places.memory.path(), rounds);
}

fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let model = read("/proc/cpuinfo")
        .lines()
        .find_map(|line| Some(line.strip_prefix("model name")?.trim_start_matches(['\t', ' ', ':']).to_owned()));
    let user = if rustix::process::geteuid().is_root() { "root" } else { "an ordinary user" };
    format!(
        "Linux {}, {} processors ({}), as {user}",
        read("/proc/sys/kernel/osrelease").trim(),
        std::thread::available_parallelism().map_or(0, usize::from),
        model.unwrap_or_else(|| "of unknown make".into()),
    )
}

/// The binary that is measured.
fn binary() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_ringfence"))
}
