//! Which test holds each check that is decided on the host, and what the others wait for.

use std::collections::BTreeSet;

use crate::support::sources;

/// Checks, and the tests that hold them.
const HELD: &[(&str, &[&str])] = &[
    ("XA-03", &["a_file_swapped_for_a_symlink_never_leaks_the_bait", "a_folder_swapped_for_a_symlink_never_leaks_the_bait"]),
    ("XA-05", &["hard_links_leave_as_the_files_they_are", "xa_05_a_hard_link_is_no_way_to_write_what_was_given"]),
    ("XA-07", &["a_sparse_file_of_64_gib_is_refused_alone_and_not_read"]),
    ("XA-09", &["the_byte_limit_holds_to_the_byte", "a_broken_total_refuses_the_whole_export"]),
    ("XA-10", &["a_file_that_grows_leaves_with_the_bytes_that_were_hashed"]),
    ("XA-11", &["odd_names_leave_as_they_are", "xa_11_12_14_15_what_a_hostile_program_leaves_is_exported_plain_or_refused"]),
    ("XA-12", &["names_that_differ_in_case_alone_both_leave", "xa_11_12_14_15_what_a_hostile_program_leaves_is_exported_plain_or_refused"]),
    ("XA-14", &["xa_11_12_14_15_what_a_hostile_program_leaves_is_exported_plain_or_refused"]), // nothing is unpacked, ever
    ("XA-15", &["of_a_mode_only_the_executable_bit_leaves", "xa_11_12_14_15_what_a_hostile_program_leaves_is_exported_plain_or_refused"]),
    ("XA-17", &["what_was_not_named_does_not_leave"]),
    ("XA-19", &["xa_19_clean_up_follows_no_link"]),
    ("XA-20", &["nothing_survives_from_one_run_to_the_next", "xa_20_nothing_survives_a_run_that_was_killed"]),
    ("XA-21", &["xa_21_what_cannot_be_opened_is_cleaned_up"]),
    ("XA-22", &["xa_22_artifacts_of_one_name_are_both_kept", "out_never_overwrites_without_force_and_follows_no_link"]),
    (
        "PK-01",
        &[
            "pk_01_an_index_that_the_program_names_itself_is_not_reached",
            "pk_01_an_index_that_cargo_is_told_of_inside_is_not_reached",
            "pk_01_no_request_is_passed_on_to_another_place",
        ],
    ),
    (
        "PK-03",
        &[
            "pk_03_a_script_of_a_package_does_not_run_inside",
            "pk_03_install_scripts_do_not_run_unless_they_are_allowed",
            "pk_03_scripts_that_only_the_tarball_tells_of_are_found",
        ],
    ),
    (
        "PK-06",
        &[
            "pk_06_a_look_alike_name_is_refused",
            "pk_06_a_name_and_a_version_that_are_not_listed_are_refused_with_the_rule",
            "pk_06_a_crate_that_is_not_listed_is_refused_with_the_rule",
        ],
    ),
    (
        "PK-07",
        &[
            "pk_07_an_unpinned_child_of_a_pinned_parent_is_refused",
            "pk_07_a_child_outside_the_lock_is_refused",
            "pk_07_a_requirements_file_with_hashes_pins_what_is_installed",
        ],
    ),
    ("PK-08", &["pk_08_a_version_younger_than_the_least_age_is_refused_until_the_clock_has_moved"]),
    ("PK-09", &["pk_09_a_poisoned_cache_file_is_fetched_anew", "pk_09_two_runs_share_what_is_kept_and_neither_can_alter_it"]),
    (
        "PK-10",
        &[
            "pk_10_a_wheel_that_leads_out_of_its_folder_is_refused",
            "pk_10_a_bomb_and_a_crowd_are_refused_without_being_unpacked",
            "pk_10_a_tarball_that_does_more_than_unpack_is_refused",
        ],
    ),
    ("PK-14", &["pk_14_a_slow_or_endless_file_is_stopped_at_its_limits", "pk_14_a_slow_or_endless_page_is_stopped_at_its_limits"]),
    ("PK-15", &["pk_15_each_of_13_packages_inside_is_on_record_as_it_is_on_disk"]),
    ("EV-01", &["a_changed_byte_anywhere_is_found", "every_changed_byte_of_either_file_is_found"]),
    ("EV-02", &["cuts_swaps_and_repeats_are_found"]),
    ("EV-03", &["cuts_swaps_and_repeats_are_found"]),
    ("EV-05", &["a_chain_built_anew_without_the_key_is_found"]),
    ("EV-06", &["ev_06_records_that_were_put_back_or_taken_away_are_found"]),
    ("EV-10", &["a_full_or_read_only_home_stops_everything"]),
    ("EV-11", &["a_clock_that_was_set_back_changes_no_order"]),
    ("EV-12", &["ev_12_the_same_run_twice_has_the_same_digests"]),
    ("EV-14", &["ev_14_a_line_that_looks_like_evidence_is_output"]),
    ("EV-15", &["an_untouched_record_verifies_here_and_elsewhere_with_the_public_key_alone", "openssl_verifies_the_signature"]),
    // Approvals are those of promotions; a call of a tool will be asked about in the same way.
    ("GW-08", &["gw_08_what_was_altered_is_not_what_was_agreed_to", "gw_08_what_somebody_wrote_into_the_store_moves_nothing"]),
    ("GW-09", &["pr_07_twenty_who_ask_and_apply_at_once_make_one_change"]),
    (
        "GW-10",
        &[
            "gw_10_what_nobody_decided_in_time_is_over_and_stays_so_whatever_the_clock_says",
            "gw_10_a_yes_that_nobody_used_in_time_is_used_up",
            "a_no_takes_a_yes_back_until_it_is_used_and_is_final",
        ],
    ),
    ("GW-11", &["gw_11_of_a_yes_and_a_no_at_once_one_is_the_verdict"]),
    ("GW-12", &["gw_12_an_agent_inside_decides_nothing", "gw_12_the_owner_and_who_asked_are_barred_where_the_target_says_so"]),
    ("GW-13", &["gw_13_two_are_two_persons_who_still_have_the_right", "gw_13_who_is_retired_between_decision_and_effect_does_not_count"]),
    ("PR-04", &["pr_04_what_a_reviewer_could_miss_is_said_first"]),
    ("PR-05", &["pr_05_an_artifact_that_was_altered_after_its_approval_is_not_applied"]),
    ("PR-06", &["pr_06_a_branch_that_moved_since_the_tests_makes_it_stale"]),
    ("PR-07", &["pr_07_twenty_who_ask_and_apply_at_once_make_one_change", "pr_07_after_kills_at_any_moment_a_promotion_took_effect_once"]),
    ("PR-09", &["pr_09_what_a_check_prints_is_data"]),
    ("PR-10", &["pr_10_a_push_whose_answer_is_lost_is_settled_by_asking", "pr_10_a_push_that_breaks_off_stays_open_and_goes_on"]),
    ("PR-11", &["pr_11_who_has_no_right_on_the_target_decides_nothing"]),
    ("PR-12", &["pr_12_what_was_applied_is_taken_back_by_a_promotion_of_its_own"]),
    ("PR-13", &["pr_13_nothing_of_the_workspaces_repository_runs_on_the_host"]),
    ("PK-12", &["a_pinned_image_is_exactly_that_or_the_run_is_refused"]),
    ("CR-01", &["after_a_kill_at_any_moment_nothing_is_lost_or_left", "after_a_kill_at_every_step_nothing_is_lost_or_left"]),
    (
        "CR-02",
        &[
            "pr_07_after_kills_at_any_moment_a_promotion_took_effect_once",
            "pr_07_after_a_kill_at_every_step_of_applying_it_took_effect_once",
        ],
    ),
    ("CR-05", &["a_seal_that_a_power_cut_left_incomplete_is_made_anew"]),
    ("CR-06", &["no_room_at_any_step_of_a_run_is_told_and_leaves_nothing", "little_room_of_any_size_is_told_and_leaves_nothing"]),
    ("CR-07", &["a_lost_or_damaged_index_is_made_anew"]),
    ("CR-10", &["after_a_kill_at_any_moment_nothing_is_lost_or_left", "cr_11_a_number_that_passed_to_another_process_is_not_killed"]),
    ("CR-11", &["cr_11_a_number_that_passed_to_another_process_is_not_killed"]),
    ("CR-12", &["a_sweep_leaves_the_runs_of_living_processes_alone"]),
    ("CR-13", &["cr_13_a_killed_supervisor_takes_everything_along"]),
    ("CR-14", &["a_stopped_launcher_cannot_extend_a_run"]),
    ("CR-15", &["very_many_runs_leave_nothing_and_take_no_more"]),
    ("CR-16", &["cr_16_twenty_runs_that_are_told_to_stop_are_all_on_record"]),
    ("XA-16", &["xa_16_a_path_that_leads_out_of_the_workspace_is_refused_told_of_and_not_read"]),
    (
        "SV-01",
        &["nothing_but_health_and_the_description_is_told_without_a_key", "sv_01_every_path_of_e2b_needs_a_key_or_the_token_of_a_sandbox"],
    ),
    // Its cookies wait for a console: no answer sets one, which `Rig::check` sees of every answer of the server's tests.
    ("SV-04", &["sv_04_a_page_of_another_origin_changes_nothing", "a_page_of_somebody_elses_cannot_ask"]),
    ("SV-05", &["sv_05_a_name_of_somebody_elses_reaches_no_path", "a_page_of_somebody_elses_cannot_ask"]),
    (
        "SV-07",
        &[
            "sv_07_no_parameter_of_a_path_opens_anything_outside_the_store",
            "sv_07_a_path_in_a_query_leads_into_the_sandbox_and_never_out",
            "a_name_in_a_path_leads_nowhere_else",
        ],
    ),
    ("SV-09", &["a_message_that_has_two_readings_is_refused_and_ends_the_connection"]),
    (
        "SV-10",
        &[
            "sv_10_two_hundred_clients_of_a_byte_a_second_hold_up_nobody_and_are_given_up",
            "slow_heads_and_bodies_are_given_up_and_hold_up_nobody",
        ],
    ),
    ("SV-11", &["sv_11_no_body_makes_a_server_grow", "all_bodies_together_have_room_for_so_much"]),
    (
        "SV-13",
        &["sv_13_of_a_thousand_wrong_keys_all_are_counted_and_none_is_written_down", "wrong_keys_are_slowed_down_and_right_ones_are_not"],
    ),
    // Keys and the tokens of sandboxes; logging out, roles and cookies wait for a console.
    (
        "SV-14",
        &[
            "sv_14_a_key_that_was_withdrawn_opens_nothing_on_a_connection_that_it_opened",
            "sv_14_the_token_of_a_sandbox_that_is_over_opens_nothing",
            "a_revoked_key_opens_nothing_from_then_on",
        ],
    ),
    ("SV-15", &["sv_15_no_word_of_a_client_ends_a_line_of_an_answer", "sv_15_a_name_that_a_program_gave_ends_no_line_either"]),
    (
        "SV-16",
        &["sv_16_what_is_wrong_with_a_request_is_told_without_what_is_ours", "sv_16_what_fails_on_our_side_is_told_to_the_operator_alone"],
    ),
    (
        "SV-17",
        &["sv_17_every_filter_takes_words_of_sql_as_words", "sv_17_so_does_every_filter_of_e2b_and_every_other_word_that_is_looked_up"],
    ),
    (
        "SV-19",
        &[
            "sv_19_what_a_server_keeps_is_its_owners_alone_whatever_the_umask",
            "sv_19_a_server_does_not_start_where_others_can_use_what_it_keeps",
        ],
    ),
    (
        "SV-20",
        &[
            "sv_20_a_server_that_is_told_nothing_listens_on_loopback_alone",
            "sv_20_no_public_address_is_listened_on_without_tls_and_none_without_keys",
        ],
    ),
];

/// Checks whose subject is not there, or that are not tried yet, and why.
const WAITING: &[(&str, &[&str])] = &[
    (
        "there is no gateway yet",
        &["GW-02", "GW-03", "GW-04", "GW-05", "GW-06", "GW-07", "GW-17", "GW-19", "GW-21", "GW-24", "GW-25", "GW-27"],
    ),
    (
        "there is no console yet, whose pages would show names, output and artifacts: answers are JSON, event streams, or attachments that no browser shows",
        &["SV-06"],
    ),
    ("there are no workers yet", &["MN-02", "MN-03", "MN-05", "MN-06", "MN-08", "MN-09", "MN-11", "MN-12", "MN-14"]),
];

#[test]
fn every_check_on_the_host_is_held_or_waits_for_something() {
    let waiting = WAITING.iter().flat_map(|(_, ids)| ids.iter());
    let here: Vec<&str> = HELD.iter().map(|(id, _)| id).chain(waiting).copied().collect();
    let ids: BTreeSet<String> = here.iter().map(|id| (*id).to_owned()).collect();
    assert_eq!(ids.len(), here.len(), "one is here twice");
    assert_eq!(ids, super::listed("host-side"));
}

#[test]
fn the_tests_that_hold_them_are_there() {
    let sources = sources();
    let named = HELD.iter().flat_map(|(id, tests)| tests.iter().map(move |test| (id, test)));
    let missing: Vec<_> =
        named.filter(|(_, test)| !sources.contains(&format!("fn {test}(")) && !sources.contains(&format!("\"{test}\";"))).collect();
    assert!(missing.is_empty(), "no such test: {missing:?}");
}
