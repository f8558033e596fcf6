//! Regression seeds that break a law when a rule is missing, named after the rule.
//!
//! Each one detected a bug of `provost_core::bugs` when it was added. Some of those bugs were real; 94244 is the
//! newest.

use provost_sim::{Faults, simulate};

#[test]
fn seed_659_a_holder_that_dies_between_the_exit_and_the_end_of_its_tree_leaves_no_check_waiting() {
    holds(659);
}

#[test]
fn seed_2294_a_place_that_failed_and_is_owed_again_in_one_commit_is_prepared_again() {
    holds(2294);
}

#[test]
fn seed_23504_work_that_a_person_accepted_is_completed_though_its_checks_did_not_run() {
    holds(23504);
}

#[test]
fn seed_15_a_snapshot_told_twice_does_not_confirm_itself() {
    holds(15);
}

#[test]
fn seed_618_a_report_of_an_older_launch_is_recorded_only() {
    holds(618);
}

#[test]
fn seed_205_a_late_receipt_is_evidence_for_its_own_tree_only() {
    holds(205);
}

#[test]
fn seed_94244_an_errand_of_a_run_that_was_stopped_keeps_no_room_from_other_runs() {
    holds(94_244);
}

#[test]
fn seed_37236_an_agent_with_a_person_at_its_screen_holds_up_no_task_after_its_own() {
    holds(37_236);
}

#[test]
fn seed_2153_a_continuation_that_arrives_late_begins_nothing_of_the_next_loop() {
    holds(2153);
}

#[test]
fn seed_2913_what_was_for_somebody_who_left_does_not_come_back_to_wait_for_ever() {
    holds(2913);
}

#[test]
fn seed_1698_effect_given_up_and_owed_again_in_one_commit_is_begun_anew() {
    holds(1698);
}

fn holds(seed: u64) {
    assert_eq!(simulate(seed, Faults::ALL).broken, None);
}
