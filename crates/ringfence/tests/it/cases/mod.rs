//! Cases from public bug reports of this field (`tests/data/cases.jsonl`): small inputs, each with the right outcome. Every one is played here as
//! both users, or is listed in [`elsewhere`] with the test that holds it or what it waits for.

mod elsewhere;
mod export;
mod harness;
mod judge;
mod play;
mod rig;

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use crate::support::{Place, User, side_by_side, sources, users};
use rig::{Rig, Shared};

/// One case, as far as it is played.
#[derive(Deserialize)]
struct Case {
    id: String,
    level: String,
    title: String,
    #[serde(default)]
    policy_fields: BTreeMap<String, Value>,
    #[serde(default)]
    rig: RigWords,
    setup: Option<String>,
    first_command: Option<String>,
    command: String,
    expected: String,
    #[serde(default)]
    checks: Vec<Vec<Value>>,
}

/// What happens on the host meanwhile.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct RigWords {
    /// The last part of the workspace's path.
    wsname: Option<String>,
    /// Further variables of the caller.
    xenv: BTreeMap<String, String>,
    /// A policy file to use, as it stands.
    raw_policy: Option<Value>,
    /// A process of the same user, to be left alone.
    hostproc: bool,
    /// The caller may make no namespaces.
    nested: bool,
    /// The caller has a terminal.
    pty: bool,
    /// The caller's standard input: `open` and silent, or `closed`.
    stdin: Option<String>,
    /// The caller has a connected socket on descriptors 9 and 200.
    passfd: Option<String>,
    /// The caller ignores SIGCHLD.
    sigchld: bool,
    kill9_at: Option<f64>,
    int_at: Option<f64>,
    during: Option<String>,
    during_at: f64,
    after: Option<String>,
}

fn cases() -> Vec<Case> {
    include_str!("../../data/cases.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect()
}

#[test]
fn every_case_has_the_right_outcome() {
    let (shared, cases) = (Shared::start(), cases());
    let played = cases.iter().filter(|case| !elsewhere::has(&case.id));
    let both: Vec<(&Case, User)> = played.flat_map(|case| users().into_iter().map(move |user| (case, user))).collect();
    let faults: Vec<String> = side_by_side(&both, 4, |(case, user)| faults(case, *user, &shared)).into_iter().flatten().collect();
    println!("{} cases played", both.len());
    assert!(faults.is_empty(), "{} of {} wrong:\n{}", faults.len(), both.len(), faults.join("\n"));
}

/// Cases whose command does no harm to a host where nothing holds it.
const HARMLESS: [&str; 22] = [
    "SBX-001", "SBX-003", "SBX-004", "SBX-006", "SBX-009", "SBX-012", "SBX-014", "SBX-015", "SBX-020", "SBX-043", "SBX-045", "SBX-046",
    "SBX-057", "SBX-085", "SBX-090", "SBX-091", "SBX-098", "SBX-100", "SBX-101", "SBX-140", "SBX-142", "SBX-143",
];

/// Some cases are races, which a host without a fence loses in one try out of a few.
const TRIES: usize = 20;

/// What cannot be told from a good outcome where there is no fence is no case.
#[test]
fn outside_the_rig_sees_what_it_looks_for() {
    let (shared, cases) = (Shared::start(), cases());
    let harmless: Vec<&Case> = cases.iter().filter(|case| HARMLESS.contains(&case.id.as_str())).collect();
    let unseen = side_by_side(&harmless, 2, |case| {
        let right = || {
            let rig = Rig::build(case, Place::new(User::Ordinary), &shared);
            let played = play::play_outside(case, &rig);
            judge::faults(case, &rig, &played).is_none().then(|| format!("{} {played:?}", case.id))
        };
        (0..TRIES).map_while(|_| right()).nth(TRIES - 1)
    });
    let unseen: Vec<String> = unseen.into_iter().flatten().collect();
    assert!(unseen.is_empty(), "right without a fence:\n{}", unseen.join("\n"));
}

/// What was wrong with the outcome of a case, if anything.
fn faults(case: &Case, user: User, shared: &Shared) -> Option<String> {
    let rig = Rig::build(case, Place::new(user), shared);
    let found = match case.level.as_str() {
        "export" => export::faults(case, &rig),
        _ => {
            let played = play::play(case, &rig);
            judge::faults(case, &rig, &played).map(|faults| format!("{faults:?} {played:?}"))
        }
    };
    found.map(|found| format!("{} as {user:?} ({}; {}): {found}", case.id, case.title, case.expected))
}

#[test]
fn no_case_is_forgotten_and_what_is_elsewhere_is_there() {
    let ids: BTreeSet<String> = cases().into_iter().map(|case| case.id).collect();
    let listed: Vec<&str> = elsewhere::ids().collect();
    assert_eq!(listed.iter().collect::<BTreeSet<_>>().len(), listed.len(), "one is listed twice");
    let unknown: Vec<&&str> = listed.iter().filter(|id| !ids.contains(**id)).collect();
    assert!(unknown.is_empty(), "listed and not among the cases: {unknown:?}");
    let sources = sources();
    let missing: Vec<_> = elsewhere::HELD.iter().filter(|(_, test)| !sources.contains(&format!("fn {test}("))).collect();
    assert!(missing.is_empty(), "no such test: {missing:?}");
}
