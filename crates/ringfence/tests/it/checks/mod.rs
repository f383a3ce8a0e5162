//! The conformance list of hostile checks (`tests/data/checks.jsonl`), each answered by a test that carries its id: those that a program inside
//! can try ([`inside`], by `tests/data/probe.py`), and those that are decided on the host ([`on_the_host`] lists them; those that no older test held are in [`export`], [`evidence`], [`crash`] and [`serving`]).

mod crash;
mod evidence;
mod export;
mod inside;
mod on_the_host;
mod probe;
mod serving;

use std::collections::BTreeSet;

use serde::Deserialize;

/// One line of the list, or of the probe's own.
#[derive(Deserialize)]
struct Check {
    id: String,
    #[serde(default)]
    half: String,
}

/// The ids of one half of the list: `in-sandbox` or `host-side`.
fn listed(half: &str) -> BTreeSet<String> {
    let lines = include_str!("../../data/checks.jsonl").lines();
    let checks = lines.map(|line| serde_json::from_str::<Check>(line).unwrap());
    checks.filter(|check| check.half == half).map(|check| check.id).collect()
}
