//! The broker as a CONNECT proxy, side by side with squid and tinyproxy: the same client, the same host, turns in one run.
//!
//! `cargo bench -p ringfence-egress --bench proxy` prints; nothing is asserted. BENCH_ROUNDS says how often each takes its turn.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a benchmark may stop, and starts what it measures")]

mod load;
mod peers;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use load::{Bulk, Upstream};
use peers::Peer;

/// What is measured, and how its numbers read.
const MEASURES: [(&str, &str); 7] = [
    ("tunnel and request, 1 connection", "requests/s"),
    ("tunnel and request, 32 connections", "requests/s"),
    ("request in an open tunnel, 1 connection", "requests/s"),
    ("request in an open tunnel, 32 connections", "requests/s"),
    ("bulk, 1 connection", "MB/s"),
    ("bulk, 32 connections", "MB/s"),
    ("median of tunnel and request, 1 connection", "µs"),
];

fn main() {
    if !std::env::args().any(|argument| argument == "--bench") {
        return; // built by `cargo test`, where it has nothing to say
    }
    let rounds: usize = std::env::var("BENCH_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(5);
    let (web, bulk) = (Upstream::start(), Bulk::start());
    let peers = Peer::start_all(&[web.address, bulk.address]);
    let mut numbers: BTreeMap<(usize, usize), Vec<f64>> = BTreeMap::new();
    for _ in 0..rounds {
        for (at, peer) in peers.iter().enumerate() {
            for (measure, number) in turn(peer.address, &web, &bulk).into_iter().enumerate() {
                numbers.entry((measure, at)).or_default().push(number);
            }
        }
    }
    print(&peers, &numbers);
}

/// Every measure once.
fn turn(proxy: Option<SocketAddr>, web: &Upstream, bulk: &Bulk) -> Vec<f64> {
    let mut numbers = vec![
        load::tunnels(proxy, web.address, 1),
        load::tunnels(proxy, web.address, 32),
        load::requests(proxy, web.address, 1),
        load::requests(proxy, web.address, 32),
        load::bytes(proxy, bulk.address, 1),
        load::bytes(proxy, bulk.address, 32),
    ];
    numbers.push(load::latency(proxy, web.address));
    numbers
}

fn median(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

fn print(peers: &[Peer], numbers: &BTreeMap<(usize, usize), Vec<f64>>) {
    print!("| {:<44}", "median of the rounds");
    peers.iter().for_each(|peer| print!("| {:>10} ", peer.name));
    println!("| ours ÷ squid |");
    println!("|{}|", vec!["---"; peers.len() + 2].join("|"));
    let squid = peers.iter().position(|peer| peer.name == "squid");
    let ours = peers.iter().position(|peer| peer.name == "ringfence");
    for (measure, (name, unit)) in MEASURES.iter().enumerate() {
        let of = |at: usize| median(&numbers[&(measure, at)]);
        print!("| {:<44}", format!("{name}, {unit}"));
        (0..peers.len()).for_each(|at| print!("| {:>10.0} ", of(at)));
        match (ours, squid) {
            (Some(ours), Some(squid)) => println!("| {:>12.2} |", of(ours) / of(squid)),
            _ => println!("| {:>12} |", "–"),
        }
    }
    if let (Some(ours), Some(direct)) = (ours, peers.iter().position(|peer| peer.name == "direct")) {
        let of = |at: usize| median(&numbers[&(MEASURES.len() - 1, at)]);
        println!("\nadded to a connection and a request, median: {:.0} µs", of(ours) - of(direct));
    }
}
