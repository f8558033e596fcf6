//! The crash matrix: the daemon dies before, during and after every commit of seven scenarios, and the outcome stays
//! the same. Then the holder and the agent are killed, with a different but defined outcome.
//!
//! By default a subset of the crash points is tried, spread over all of them and chosen by `PROVOST_SEED`. With
//! `PROVOST_DEEP=1`, all of them are.

mod graph;
mod kills;
mod record;
mod scenarios;
mod stage;

use std::thread;

use graph::GRAPH;
use provost_testkit::{COMMIT_PLACES, Crash};
use record::Projection;
use scenarios::{CANCEL, COMMAND, QUESTION, REWORK, RUN, Scenario, WORK};
use stage::Stage;

/// Number of crash points tried per scenario, unless all are.
const SUBSET: usize = 4;

/// The same for a run, which has all steps of a session and more.
const SUBSET_OF_RUN: usize = 12;

/// The same for a run with a plan, which takes longer.
const SUBSET_OF_GRAPH: usize = 6;

/// Number of runs played in parallel: they mostly wait.
const LANES: usize = 4;

#[test]
fn a_plain_command_ends_the_same_whenever_the_daemon_dies() {
    matrix(&COMMAND);
}

#[test]
fn verified_work_ends_the_same_whenever_the_daemon_dies() {
    matrix(&WORK);
}

#[test]
fn an_answered_question_ends_the_same_whenever_the_daemon_dies() {
    matrix(&QUESTION);
}

#[test]
fn a_cancelled_agent_ends_the_same_whenever_the_daemon_dies() {
    matrix(&CANCEL);
}

#[test]
fn reworked_work_ends_the_same_whenever_the_daemon_dies() {
    matrix(&REWORK);
}

#[test]
fn a_run_ends_the_same_whenever_the_daemon_dies() {
    let (undisturbed, commits) = run(&RUN, None);
    let crashes = Crash::some(commits, &COMMIT_PLACES, SUBSET_OF_RUN);
    let lane = crashes.len().div_ceil(LANES);
    thread::scope(|scope| {
        for crashes in crashes.chunks(lane) {
            scope.spawn(|| play_all(&RUN, &undisturbed, crashes));
        }
    });
}

/// Parallel tasks have no order among them, so only the outcome is compared, by the scenario itself.
#[test]
fn a_graph_of_tasks_ends_the_same_whenever_the_daemon_dies() {
    let (_, commits) = run(&GRAPH, None);
    let crashes = Crash::some(commits, &COMMIT_PLACES, SUBSET_OF_GRAPH);
    let lane = crashes.len().div_ceil(LANES);
    let died: u64 = thread::scope(|scope| {
        let play = |crashes: &[Crash]| crashes.iter().map(|crash| run(&GRAPH, Some(crash)).1).sum();
        let lanes: Vec<_> = crashes
            .chunks(lane)
            .map(|crashes| scope.spawn(move || -> u64 { play(crashes) }))
            .collect();
        lanes.into_iter().map(|lane| lane.join().expect("every run succeeds")).sum()
    });
    assert!(died > 0, "no crash point of {} was reached", GRAPH.name);
}

fn matrix(scenario: &Scenario) {
    let (undisturbed, commits) = run(scenario, None);
    play_all(scenario, &undisturbed, &Crash::some(commits, &COMMIT_PLACES, SUBSET));
}

fn play_all(scenario: &Scenario, undisturbed: &Projection, crashes: &[Crash]) {
    let mut died = 0;
    for crash in crashes {
        let (disturbed, reached) = run(scenario, Some(crash));
        disturbed.is(undisturbed, &format!("{} with {crash}", scenario.name));
        died += u64::from(reached > 0);
    }
    assert!(died > 0, "no crash point of {} was reached", scenario.name);
}

/// Plays a scenario. Returns its projection, and the number of commits (without a crash) or whether the daemon died
/// (with one).
fn run(scenario: &Scenario, crash: Option<&Crash>) -> (Projection, u64) {
    let mut stage = Stage::set(scenario, crash);
    let id = (scenario.play)(&mut stage);
    stage.settled(&id, scenario.hooks);
    let reached = match crash {
        None => stage.commits(),
        Some(_) => u64::from(stage.daemon_died()),
    };
    let projection = Projection::of(&stage, &id);
    (scenario.check)(&stage, &id);
    (projection, reached)
}
