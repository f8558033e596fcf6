//! The simulator finds every seeded bug within a few seeds.
//!
//! Needs the feature: `cargo test --release -p provost-sim --features seeded-bugs seeded`.

use std::{ops::Range, thread};

use provost_sim::{Faults, simulate};

use crate::{
    bugs::{self, Bug, with_bug},
    depth::is_deep,
};

/// A bug that hides for longer than this would hide from the suite.
const SEEDS: u64 = 2_000;

/// The number of seeds that a usual run searches, from the recorded seed of each bug.
const WINDOW: u64 = 50;

const WORKERS: usize = 2;

/// Returns a seed that finds the bug. When stories change, run the test with `PROVOST_DEEP=1` and record the seeds
/// that it prints.
fn recorded_seed(bug: Bug) -> u64 {
    match bug {
        Bug::SealIgnoresPendingCheck => 0,
        Bug::LateClaimApplied => 0,
        Bug::EvidenceOfAnotherTree => 266,
        Bug::FenceRemoved => 155,
        Bug::CancelOverwrittenByClaim => 35,
        Bug::HookKeyReused => 3,
        Bug::OutcomeAnnouncedTwice => 1,
        Bug::SettleSkipped => 0,
        Bug::WaitingCounted => 34,
        Bug::KillSkipped => 4,
        Bug::LinesFoldedTwice => 0,
        Bug::ConfirmationSkipped => 4,
        Bug::LostTreeForgotten => 215,
        Bug::SnapshotConfirmsItself => 26,
        Bug::SlotIgnored => 538,
        Bug::SealedWhileLanding => 0,
        Bug::SealedWhilePreparing => 66,
        Bug::LateLookTaken => 88,
        Bug::ProofOutlivesCommit => 168,
        Bug::DecisionLost => 4,
        Bug::RunCancelOverwritten => 96,
        Bug::RunHookKeyReused => 4,
        Bug::BudgetOverdrawn => 4,
        Bug::TaskBegunTooEarly => 4,
        Bug::ParallelIgnored => 4,
        Bug::RefutedMergeTaken => 700,
        Bug::ConversationShared => 756,
        Bug::LateIntegrationTaken => 1156,
        Bug::LateVerificationTaken => 552,
        Bug::QueueForgotten => 580,
        Bug::StoppedMoveCounted => 36,
        Bug::WorktreeTakenFromAgent => 60,
        Bug::StaleLeaseTaken => 161,
        Bug::LeaseNeverEnds => 17,
        Bug::PushComesBack => 9,
        Bug::WrittenIsBegun => 201,
        Bug::KeyStoredTwice => 9,
        Bug::GivenNewsChanged => 17,
        Bug::LossNotReported => 9,
        Bug::GateForgotten => 153,
        Bug::WaitSkipsState => 25,
        Bug::EndNotNoticed => 473,
        Bug::UndeliveredNotReported => 17,
        Bug::OutlivedGitIgnored => 88,
        Bug::LeftWhileLanding => 168,
        Bug::ShortageFailsLaunch => 7,
        Bug::ShortageNeverRetried => 7,
        Bug::OwnTurnIgnored => 26,
        Bug::RefusalFailsAttempt => 197,
    }
}

/// Returns the seeds that must find the bug. A deep run ignores the recorded ones.
fn window(bug: Bug) -> Range<u64> {
    if is_deep() {
        return 0..SEEDS;
    }
    let first = recorded_seed(bug).min(SEEDS - WINDOW);
    first..first + WINDOW
}

/// Returns the law that a seed finds broken by a bug, and that holds without it.
fn finds(bug: &'static Bug, seed: u64) -> Option<String> {
    let broken = with_bug(bug, || simulate(seed, Faults::ALL).broken)?;
    simulate(seed, Faults::ALL).broken.is_none().then_some(broken)
}

/// Searches for the bugs of one worker, and returns those that stay hidden.
#[expect(clippy::print_stdout, reason = "the seeds found are recorded from this output")]
fn search(worker: usize) -> Vec<String> {
    let mut hidden = Vec::new();
    for bug in bugs::ALL.iter().skip(worker).step_by(WORKERS) {
        let mut seeds = window(*bug);
        match seeds.find_map(|seed| Some((seed, finds(bug, seed)?))) {
            Some((seed, broken)) => println!("{bug:?}: found by seed {seed}: {broken}"),
            None => hidden.push(format!("{bug:?} in {:?}", window(*bug))),
        }
    }
    hidden
}

#[test]
fn every_seeded_bug_is_found_within_2000_seeds() {
    let hidden: Vec<String> = thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|no| scope.spawn(move || search(no))).collect();
        let join =
            |worker: thread::ScopedJoinHandle<'_, _>| worker.join().expect("a worker panicked");
        workers.into_iter().flat_map(join).collect()
    });
    assert!(hidden.is_empty(), "not found: {}", hidden.join(", "));
}
