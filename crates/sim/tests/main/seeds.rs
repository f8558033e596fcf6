//! Regression seeds that break a law when a rule is missing, named after the rule.
//!
//! Each one detected a bug of `provost_core::bugs` when it was added. Some of those bugs were real; 94244 is the
//! newest.

use provost_sim::{Faults, simulate};

#[test]
fn seed_659_holder_death_after_exit_blocks_no_check() {
    holds(659);
}

#[test]
fn seed_2294_failed_worktree_is_prepared_again() {
    holds(2294);
}

#[test]
fn seed_23504_accepted_work_completes_without_checks() {
    holds(23504);
}

#[test]
fn seed_15_repeated_snapshot_confirms_nothing() {
    holds(15);
}

#[test]
fn seed_618_older_launch_report_is_only_recorded() {
    holds(618);
}

#[test]
fn seed_205_late_receipt_counts_for_its_tree_only() {
    holds(205);
}

#[test]
fn seed_94244_stopped_run_frees_its_agent_slots() {
    holds(94_244);
}

#[test]
fn seed_37236_attended_agent_blocks_no_later_task() {
    holds(37_236);
}

#[test]
fn seed_2153_late_continuation_skips_next_loop() {
    holds(2153);
}

#[test]
fn seed_2913_messages_of_retired_member_do_not_return() {
    holds(2913);
}

#[test]
fn seed_1698_cancelled_and_renewed_effect_restarts() {
    holds(1698);
}

#[test]
fn seed_35033_failed_starts_wake_no_manager_forever() {
    holds(35_033);
}

fn holds(seed: u64) {
    assert_eq!(simulate(seed, Faults::ALL).broken, None);
}
