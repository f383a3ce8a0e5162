//! Cases about approvals and patches from public bug reports of agent harnesses, by their ids. What they ask of a promotion is held here; what they ask
//! of a model's tool calls waits for the gateway and the harness.

use std::collections::BTreeSet;

use crate::support::sources;

/// What each is about, and the tests that hold it.
const HELD: &[(&str, &str, &[&str])] = &[
    (
        "O01",
        "an approval given in another process than the one that asked is used once",
        &["a_fix_is_tested_approved_and_applied_as_it_was_tested"],
    ),
    (
        "O02",
        "a failure after an approval does not burn it",
        &["a_branch_or_a_repository_that_is_gone_is_named_and_may_come_back", "a_folder_that_cannot_be_written_is_told_and_gone_on_with"],
    ),
    ("O06", "two approvals at once are never swapped", &["o_06_a_yes_to_one_and_a_no_to_another_are_never_swapped"]),
    (
        "O16",
        "an approver sees what will happen, and a change after that makes it void",
        &["sbx_165_a_patch_that_was_swapped_after_its_approval_is_refused"],
    ),
    ("O22", "line ends are kept or the patch is refused", &["line_ends_are_kept_byte_for_byte_or_the_patch_is_refused"]),
    (
        "O23",
        "links, writes through them and submodules are refused",
        &["what_git_apply_lets_through_is_refused_by_name", "a_write_through_a_link_of_the_branch_is_refused"],
    ),
    ("O24", "an agent's last use moves only by a run on record", &["what_was_granted_stands_beside_what_was_used"]),
];

/// What waits, and for what.
const WAITING: &[(&str, &[&str])] = &[
    (
        "there is no model loop yet: turns, pauses inside a script, histories and compaction",
        &["O03", "O05", "O07", "O08", "O09", "O10", "O19"],
    ),
    ("there is no gateway yet: calls of tools, with arguments that a rule or an approval is about", &["O04", "O17", "O18", "O20", "O21"]),
    ("there are no traces yet", &["O11", "O12", "O13", "O14", "O15"]),
];

#[test]
fn every_case_of_a_harness_is_held_or_waits_for_something() {
    let waiting = WAITING.iter().flat_map(|(_, ids)| ids.iter().copied());
    let here: Vec<&str> = HELD.iter().map(|(id, _, _)| *id).chain(waiting).collect();
    let all: BTreeSet<String> = (1..=24).map(|number| format!("O{number:02}")).collect();
    assert_eq!(here.iter().map(|id| (*id).to_owned()).collect::<BTreeSet<_>>(), all);
    assert_eq!(here.len(), all.len(), "one is here twice");
}

#[test]
fn the_tests_that_hold_the_cases_of_a_harness_are_there() {
    let sources = sources();
    let named = HELD.iter().flat_map(|(id, _, tests)| tests.iter().map(move |test| (id, test)));
    let missing: Vec<_> = named.filter(|(_, test)| !sources.contains(&format!("fn {test}("))).collect();
    assert!(missing.is_empty(), "no such test: {missing:?}");
}
