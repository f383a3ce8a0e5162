//! One at a time, in turns, so that whatever the machine does meanwhile meets all of them.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::peers::{BARE, Contestant, PEER};

/// Between two of them: the kernel takes namespaces down after their end, and that is not for the next one to pay. (What all of it costs is in the
/// runs a second.)
const PAUSE: Duration = Duration::from_millis(15);

/// Times each of them, and prints the table.
pub(crate) fn run(contestants: &[Contestant], rounds: usize) {
    let mut times: Vec<Vec<Duration>> = vec![Vec::new(); contestants.len()];
    for round in 0..rounds + 2 {
        for (contestant, times) in contestants.iter().zip(&mut times) {
            std::thread::sleep(PAUSE);
            let time = once(contestant);
            // The first rounds fill caches, and ringfence's home.
            if round >= 2 {
                times.push(time);
            }
        }
    }
    times.iter_mut().for_each(|times| times.sort_unstable());
    let median_of = |name: &str| contestants.iter().position(|c| c.name == name).map(|at| quantile(&times[at], 0.5));
    let (peer, bare) = (median_of(PEER), median_of(BARE));
    println!("| | median ms | p95 | p99 | least | ratio to {PEER} | ratio to {BARE} |\n|---|---|---|---|---|---|---|");
    for (contestant, times) in contestants.iter().zip(&times) {
        let median = quantile(times, 0.5);
        let ratio = |to: Option<Duration>| to.map_or("-".into(), |to| format!("{:.2}", median.as_secs_f64() / to.as_secs_f64()));
        let row = [median, quantile(times, 0.95), quantile(times, 0.99), times[0]].map(|time| format!("{:.2}", time.as_secs_f64() * 1e3));
        println!("| {} | {} | {} | {} |", contestant.name, row.join(" | "), ratio(peer), ratio(bare));
    }
    println!();
}

/// From before its start to after its end.
pub(crate) fn once(contestant: &Contestant) -> Duration {
    let mut command = Command::new(&contestant.argv[0]);
    command.args(&contestant.argv[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.envs(contestant.home.iter().map(|home| ("RINGFENCE_HOME", home)));
    let begun = Instant::now();
    let status = command.status().unwrap();
    let time = begun.elapsed();
    assert!(status.success(), "{} ended with {status}", contestant.name);
    time
}

/// Of sorted times.
pub(crate) fn quantile(sorted: &[Duration], part: f64) -> Duration {
    sorted[((sorted.len() - 1) as f64 * part) as usize]
}
