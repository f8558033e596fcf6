//! Every known bug is found by the simulator within a few seeds.
//!
//! Needs the feature: `cargo test --release -p provost-sim --features seeded-bugs seeded`.

use provost_core::bugs::{Bug, switch};
use provost_sim::{Faults, simulate};

/// A bug that hides for longer than this would hide from the suite.
const SEEDS: u64 = 3_000;

#[test]
fn every_seeded_bug_is_found_within_3000_seeds() {
    let mut hidden = Vec::new();
    for bug in Bug::ALL {
        switch(Some(bug));
        let found = (0..SEEDS).find_map(|seed| Some((seed, simulate(seed, Faults::ALL).broken?)));
        switch(None);
        match found {
            Some((seed, broken)) => println!("{bug:?}: found after {} seeds: {broken}", seed + 1),
            None => hidden.push(bug),
        }
    }
    assert!(hidden.is_empty(), "not found within {SEEDS} seeds: {hidden:?}");
}

#[test]
fn without_a_seeded_bug_the_same_seeds_are_clean() {
    switch(None);
    let broken = (0..200).find_map(|seed| simulate(seed, Faults::ALL).broken);
    assert_eq!(broken, None);
}
