//! Ten thousand seeds: no law is broken, everything reachable is visited, and crashes change no ending.

use std::{collections::BTreeSet, thread};

use provost_core::{
    lifecycle::{Activity, ClaimKind, Process, Rule, State},
    session::Event,
};
use provost_sim::{Cell, Coverage, Faults, simulate};

/// How many seeds one run of the suite tells.
const SEEDS: u64 = 10_000;

/// How many certain stories are told with and without crashes.
const STORIES: u64 = 2_000;

const WORKERS: u64 = 2;

#[test]
fn ten_thousand_seeds() {
    let told: Vec<(Coverage, Vec<String>)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|no| scope.spawn(move || tell(no))).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    let mut coverage = Coverage::default();
    let mut broken = Vec::new();
    for (visited, failures) in told {
        coverage.merge(&visited);
        broken.extend(failures);
    }
    assert!(broken.is_empty(), "{} seeds failed:\n{}", broken.len(), broken.join("\n"));
    everything_was_visited(&coverage);
}

fn tell(worker: u64) -> (Coverage, Vec<String>) {
    let (mut coverage, mut broken) = (Coverage::default(), Vec::new());
    for seed in (worker..SEEDS).step_by(WORKERS as usize) {
        let report = simulate(seed, Faults::ALL);
        coverage.merge(&report.coverage);
        broken.extend(report.broken);
    }
    (coverage, broken)
}

#[test]
fn a_crash_anywhere_changes_no_ending() {
    let mut crashes = 0;
    for seed in 0..STORIES {
        let calm = simulate(seed, Faults::NONE);
        let crashed = simulate(seed, Faults::CRASHES);
        assert_eq!(calm.broken, None);
        assert_eq!(crashed.broken, None);
        assert_eq!(calm.outcomes, crashed.outcomes, "seed {seed}");
        crashes += crashed.crashes;
    }
    assert!(crashes > STORIES, "the engine died {crashes} times in {STORIES} stories");
}

#[test]
fn the_same_seed_tells_the_same_story() {
    for seed in 0..50 {
        let (once, twice) = (simulate(seed, Faults::ALL), simulate(seed, Faults::ALL));
        assert_eq!(
            (once.events, once.steps, once.crashes),
            (twice.events, twice.steps, twice.crashes)
        );
        assert_eq!(once.outcomes, twice.outcomes);
    }
}

fn everything_was_visited(coverage: &Coverage) {
    let kinds: BTreeSet<&str> = Event::KINDS.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(Vec::from_iter(kinds.difference(&coverage.kinds)), Vec::<&&str>::new(), "kinds");
    let states: BTreeSet<&str> = State::ALL.iter().map(|state| state.word()).collect();
    assert_eq!(Vec::from_iter(states.difference(&coverage.states)), Vec::<&&str>::new(), "states");
    let rules: BTreeSet<&str> = Rule::ALL.iter().map(|rule| rule.word()).collect();
    assert_eq!(Vec::from_iter(rules.difference(&coverage.rules)), Vec::<&&str>::new(), "rules");
    let missing: Vec<Cell> = cells().into_iter().filter(|c| !coverage.cells.contains(c)).collect();
    let unexplained: Vec<&Cell> = missing.iter().filter(|c| unreachable(**c).is_none()).collect();
    assert!(unexplained.is_empty(), "{} cells unvisited: {unexplained:?}", unexplained.len());
    let visited: Vec<&Cell> =
        coverage.cells.iter().filter(|c| unreachable(**c).is_some()).collect();
    assert!(visited.is_empty(), "said to be unreachable, yet visited: {visited:?}");
    println!("{} of 240 cells visited, {} unreachable", coverage.cells.len(), missing.len());
}

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for claim in ClaimKind::ALL {
        for process in Process::ALL {
            for activity in Activity::ALL {
                for verification in ["none", "passed", "failed"] {
                    cells.push([claim.word(), process.word(), activity.word(), verification]);
                }
            }
        }
    }
    cells
}

/// Why a cell of the table cannot be reached by any session.
fn unreachable(_cell: Cell) -> Option<&'static str> {
    None
}
