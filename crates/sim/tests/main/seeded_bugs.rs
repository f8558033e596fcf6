//! The simulator finds every seeded bug within a few seeds.
//!
//! Needs the feature: `cargo test --release -p provost-sim --features seeded-bugs seeded`.

use provost_core::bugs::{Bug, switch};
use provost_sim::{Faults, simulate};

/// A bug that hides for longer than this would hide from the suite.
const SEEDS: u64 = 2_000;

/// Most bugs are found within these first seeds.
const FIRST: u64 = 40;
/// Seeds that find the others at once. When stories change, all seeds are searched again; then replace these
/// by those that the test prints.
const FINDERS: [u64; 19] = [
    105, 124, 153, 161, 176, 177, 188, 197, 201, 296, 316, 328, 336, 480, 538, 580, 676, 829, 1717,
];

/// Returns all seeds, starting with those that are likely to find a bug.
fn search_order() -> impl Iterator<Item = u64> {
    (0..FIRST).chain(FINDERS).chain(FIRST..SEEDS)
}

/// Returns the law that a seed finds broken by a bug, and that holds without it.
fn finds(bug: Bug, seed: u64) -> Option<(u64, String)> {
    switch(Some(bug));
    let broken = simulate(seed, Faults::ALL).broken;
    switch(None);
    let broken = broken?;
    simulate(seed, Faults::ALL).broken.is_none().then_some((seed, broken))
}

#[test]
fn every_seeded_bug_is_found_within_2000_seeds() {
    let mut hidden = Vec::new();
    for bug in Bug::ALL {
        match search_order().find_map(|seed| finds(bug, seed)) {
            Some((seed, broken)) => println!("{bug:?}: found by seed {seed}: {broken}"),
            None => hidden.push(bug),
        }
    }
    assert!(hidden.is_empty(), "not found within {SEEDS} seeds: {hidden:?}");
}

#[test]
fn same_seeds_without_bugs_are_clean() {
    switch(None);
    let broken = (0..200).chain(FINDERS).find_map(|seed| simulate(seed, Faults::ALL).broken);
    assert_eq!(broken, None);
}
