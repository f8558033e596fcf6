//! Seeds that once broke a law, by the name of what they found.

use provost_sim::{Faults, simulate};

#[test]
fn seed_134_a_holder_that_dies_between_the_exit_and_the_end_of_its_tree_leaves_no_check_waiting() {
    holds(134);
}

#[test]
fn seed_1261_a_process_that_could_not_be_looked_at_is_seen_again_after_a_restart() {
    holds(1261);
}

fn holds(seed: u64) {
    assert_eq!(simulate(seed, Faults::ALL).broken, None);
}
