//! What a program inside tries, one test for each id, as root and as an ordinary user. The probe runs once for all of them; a control outside any
//! sandbox shows that it sees what it looks for.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use super::probe::{self, Outcomes};
use crate::support::{Place, User, outcome, users};

/// Checks that cannot be decided, and why. No other may be skipped.
const SKIPPED: [(&str, &str); 1] =
    [("NET-18", "an allowed name is reachable: the default profile grants none; where one is granted, `network::probed` decides it")];

macro_rules! checks {
    ($($name:ident)*) => {
        const NAMES: &[&str] = &[$(stringify!($name)),*];
        $(#[test] fn $name() { assert_contained(stringify!($name)); })*
    };
}

checks! {
    fs_01 fs_02 fs_03 fs_04 fs_05 fs_08 fs_09 fs_10 fs_12 fs_14 fs_15 fs_16 fs_17 fs_20 fs_23 fs_24 fs_26
    ps_03 ps_04 ps_05 ps_07 ps_08 ps_09 ps_10 ps_12 ps_13 ps_14 ps_15 ps_16 ps_17 ps_18 ps_21 ps_23 ps_24 ps_27 ps_28 ps_30
    ks_02 ks_03 ks_04 ks_05 ks_06 ks_07 ks_08 ks_09 ks_10 ks_11 ks_13 ks_17 ks_18 ks_20 ks_21 ks_22 ks_24 ks_25 ks_28 ks_29 ks_31
    rx_01 rx_03 rx_04 rx_06 rx_07 rx_09 rx_12 rx_13 rx_14 rx_15 rx_17 rx_18 rx_20 rx_21 rx_22
    net_01 net_02 net_03 net_04 net_06 net_08 net_11 net_13 net_14 net_15 net_17 net_18 net_19
    se_02 se_03 se_04 se_05 se_07 se_08 se_09
}

/// The id of the list for the name of a test.
fn id(name: &str) -> String {
    name.to_uppercase().replace('_', "-")
}

/// What the probe said inside, for each kind of user, by one round of sandboxes for all tests here.
fn answers() -> &'static [(User, Outcomes)] {
    static ANSWERS: OnceLock<Vec<(User, Outcomes)>> = OnceLock::new();
    ANSWERS.get_or_init(|| users().into_iter().map(|user| (user, probe::inside(user))).collect())
}

fn assert_contained(name: &str) {
    let id = id(name);
    let wanted = if SKIPPED.iter().any(|(skipped, _)| *skipped == id) { "skipped" } else { "contained" };
    for (user, outcomes) in answers() {
        let outcome = outcomes.get(&id).unwrap_or_else(|| panic!("{id} as {user:?}: no outcome"));
        assert_eq!(outcome.word, wanted, "{id} as {user:?}: {}", outcome.detail);
    }
}

#[test]
fn every_check_of_the_list_is_one_of_the_probe_and_has_a_test() {
    let place = Place::new(User::Ordinary);
    let probe = place.write("probe.py", include_str!("../../data/probe.py"));
    let listing = outcome(place.command("/usr/bin/python3").arg(probe).arg("--list").output().unwrap()).stdout;
    let ids = |line: &str| serde_json::from_str::<super::Check>(line).unwrap().id;
    let (listed, probed) = (super::listed("in-sandbox"), listing.lines().map(ids).collect::<BTreeSet<_>>());
    assert_eq!(listed, probed);
    assert_eq!(listed, NAMES.iter().map(|name| id(name)).collect());
}

/// A check that does not say "escaped" where nothing holds it back proves nothing. Some never can: what the host's own kernel lacks or refuses.
#[test]
fn outside_the_probe_sees_what_it_looks_for() {
    for user in users() {
        let outcomes = probe::outside(user);
        let with =
            |word: &str| outcomes.iter().filter(|(_, o)| o.word == word).map(|(id, o)| format!("{id} {}", o.detail)).collect::<Vec<_>>();
        let (escaped, contained) = (with("escaped").len(), with("contained"));
        let share = 100 * escaped / (escaped + contained.len()).max(1);
        println!("{user:?}: {escaped} escaped, {} contained, {} skipped outside", contained.len(), with("skipped").len());
        let wanted = if user == User::Root { 85 } else { 70 };
        assert!(share >= wanted, "{share} % as {user:?}; not seen: {contained:#?}");
    }
}
