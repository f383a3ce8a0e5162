//! Many at once, sustained: runs a second, in blocks that take turns.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::alone::once;
use crate::peers::{BARE, Contestant, PEER};

const BLOCKS: usize = 3;
/// How long a block goes on taking new runs.
const BLOCK: Duration = Duration::from_millis(1500);

/// Runs blocks of each of them, and prints the middle one. (An OCI runtime is left out: it wants a name for each container.)
pub(crate) fn run(contestants: &[Contestant], workers: usize) {
    let contestants: Vec<&Contestant> = contestants.iter().filter(|c| !["runc", "crun"].contains(&c.name)).collect();
    let mut rates: Vec<Vec<f64>> = vec![Vec::new(); contestants.len()];
    for _ in 0..BLOCKS {
        for (contestant, rates) in contestants.iter().zip(&mut rates) {
            rates.push(block(contestant, workers));
        }
    }
    rates.iter_mut().for_each(|rates| rates.sort_by(f64::total_cmp));
    let middle = |name: &str| contestants.iter().position(|c| c.name == name).map(|at| rates[at][BLOCKS / 2]);
    let (peer, bare) = (middle(PEER), middle(BARE));
    println!("| | runs a second | ratio to {PEER} | ratio to {BARE} |\n|---|---|---|---|");
    for (contestant, rates) in contestants.iter().zip(&rates) {
        let ratio = |to: Option<f64>| to.map_or("-".into(), |to| format!("{:.2}", rates[BLOCKS / 2] / to));
        println!("| {} | {:.0} | {} | {} |", contestant.name, rates[BLOCKS / 2], ratio(peer), ratio(bare));
    }
    println!();
}

fn block(contestant: &Contestant, workers: usize) -> f64 {
    let (begun, runs) = (Instant::now(), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while begun.elapsed() < BLOCK {
                    once(contestant);
                    runs.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    runs.into_inner() as f64 / begun.elapsed().as_secs_f64()
}
