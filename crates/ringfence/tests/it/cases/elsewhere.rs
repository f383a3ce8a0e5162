//! The cases that are not played here: held by a test of their own, or waiting.

/// Held by a test of this project.
pub(super) const HELD: &[(&str, &str)] = &[
    ("SBX-039", "a_later_command_has_the_same_fence"),
    ("SBX-042", "a_grade_that_cannot_be_had_is_refused"),
    ("SBX-062", "output_before_a_time_limit_is_kept"),
    ("SBX-075", "a_limit_of_one_run_does_not_stick_to_the_next"),
    ("SBX-116", "a_name_is_resolved_once_and_what_was_checked_is_dialled"),
    ("SBX-122", "an_https_rule_passes_tls_for_its_name_and_nothing_else"),
    ("SBX-123", "no_spelling_leads_past_the_rules"),
    ("SBX-165", "sbx_165_a_patch_that_was_swapped_after_its_approval_is_refused"),
];

/// What cannot be played yet, or has no counterpart, and why.
pub(super) const WAITING: &[(&str, &[&str])] = &[(
    "there are no rules over paths of the host that could be nested: a run sees its workspace and its inputs, and nothing is written back",
    &["SBX-007"],
)];

pub(super) fn ids() -> impl Iterator<Item = &'static str> {
    HELD.iter().map(|(id, _)| *id).chain(WAITING.iter().flat_map(|(_, ids)| ids.iter().copied()))
}

pub(super) fn has(id: &str) -> bool {
    ids().any(|listed| listed == id)
}
