//! The crash matrix: the daemon dies before, during and after every commit of seven scenarios, and the outcome stays
//! the same. Then the holder and the agent are killed, with a different but defined outcome.
//!
//! By default a subset of the crash points is tried, spread over all of them and chosen by `PROVOST_SEED`. With
//! `PROVOST_DEEP=1`, all of them are.

mod crash_env;
mod graph;
mod kills;
mod normalized_ledger;
mod scenarios;

use std::thread;

use crash_env::CrashEnv;
use graph::GRAPH;
use normalized_ledger::NormalizedLedger;
use provost_testkit::{COMMIT_FAILPOINTS, Crash};
use scenarios::{CANCEL, COMMAND, CrashScenario, QUESTION, REWORK, RUN, WORK};

/// The number of crash points to try per scenario, unless all are tried.
const SUBSET: usize = 4;

/// The number of crash points to try for a run, which has more steps than a session.
const SUBSET_OF_RUN: usize = 12;

/// The number of crash points to try for a run with a plan, which takes longer.
const SUBSET_OF_GRAPH: usize = 6;

/// The number of runs played in parallel. Most of their time is spent waiting.
const LANES: usize = 4;

#[test]
fn plain_command_survives_daemon_crashes() {
    run_matrix(&COMMAND);
}

#[test]
fn verified_work_survives_daemon_crashes() {
    run_matrix(&WORK);
}

#[test]
fn answered_question_survives_daemon_crashes() {
    run_matrix(&QUESTION);
}

#[test]
fn cancelled_agent_survives_daemon_crashes() {
    run_matrix(&CANCEL);
}

#[test]
fn reworked_work_survives_daemon_crashes() {
    run_matrix(&REWORK);
}

#[test]
fn run_survives_daemon_crashes() {
    let (undisturbed, commits) = play_scenario(&RUN, None);
    let crashes = Crash::sample(commits, &COMMIT_FAILPOINTS, SUBSET_OF_RUN);
    let lane = crashes.len().div_ceil(LANES);
    let died: u64 = thread::scope(|scope| {
        let play = |crashes: &[Crash]| play_all(&RUN, &undisturbed, crashes);
        let lanes: Vec<_> = crashes
            .chunks(lane)
            .map(|crashes| scope.spawn(move || -> u64 { play(crashes) }))
            .collect();
        lanes.into_iter().map(|lane| lane.join().expect("every run succeeds")).sum()
    });
    assert!(died > 0, "no crash point of {} was reached", RUN.name);
}

/// Parallel tasks have no fixed order, so only the outcome is compared, by the scenario itself.
#[test]
fn task_graph_survives_daemon_crashes() {
    let (_, commits) = play_scenario(&GRAPH, None);
    let crashes = Crash::sample(commits, &COMMIT_FAILPOINTS, SUBSET_OF_GRAPH);
    let lane = crashes.len().div_ceil(LANES);
    let died: u64 = thread::scope(|scope| {
        let play = |crashes: &[Crash]| {
            crashes.iter().map(|crash| play_scenario(&GRAPH, Some(crash)).1).sum()
        };
        let lanes: Vec<_> = crashes
            .chunks(lane)
            .map(|crashes| scope.spawn(move || -> u64 { play(crashes) }))
            .collect();
        lanes.into_iter().map(|lane| lane.join().expect("every run succeeds")).sum()
    });
    assert!(died > 0, "no crash point of {} was reached", GRAPH.name);
}

fn run_matrix(scenario: &CrashScenario) {
    let (undisturbed, commits) = play_scenario(scenario, None);
    let crashes = Crash::sample(commits, &COMMIT_FAILPOINTS, SUBSET);
    let died = play_all(scenario, &undisturbed, &crashes);
    assert!(died > 0, "no crash point of {} was reached", scenario.name);
}

/// Plays a scenario with each of these crashes, and returns the number of daemons that crashed. A
/// daemon whose commits took place in fewer transactions does not reach a late crash point.
fn play_all(scenario: &CrashScenario, undisturbed: &NormalizedLedger, crashes: &[Crash]) -> u64 {
    let play = |crash| {
        let (disturbed, reached) = play_scenario(scenario, Some(crash));
        disturbed.assert_equals(undisturbed, &format!("{} with {crash}", scenario.name));
        u64::from(reached > 0)
    };
    crashes.iter().map(play).sum()
}

/// Plays a scenario. Returns its projection, and the number of commits (without a crash) or whether the daemon died
/// (with one).
fn play_scenario(scenario: &CrashScenario, crash: Option<&Crash>) -> (NormalizedLedger, u64) {
    let mut stage = CrashEnv::start(scenario, crash);
    let id = (scenario.play)(&mut stage);
    stage.wait_settled(&id, scenario.hooks);
    let reached = match crash {
        None => stage.count_commits(),
        Some(_) => u64::from(stage.daemon_died()),
    };
    let projection = NormalizedLedger::from_ledger(&stage, &id);
    (scenario.check)(&stage, &id);
    (projection, reached)
}
