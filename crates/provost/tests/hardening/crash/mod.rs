//! The crash matrix: the daemon dies before, during and after every commit of five scenarios, and the end is
//! the same. Then the holder and the agent are killed, whose end is another one, and a defined one.
//!
//! By default a subset of the passages is run, spread over all of them and chosen by `PROVOST_SEED`; with
//! `PROVOST_DEEP=1` every one.

mod kills;
mod record;
mod scenarios;
mod stage;

use record::Projection;
use scenarios::{CANCEL, COMMAND, QUESTION, REWORK, Scenario, WORK};
use stage::{Crash, Stage};

/// Before the transaction, with all its rows written, and after it is durable.
const PLACES: [&str; 3] = ["commit.before", "ledger.appendstaged", "commit.after"];

/// How many passages of a scenario are tried unless all are.
const SUBSET: usize = 6;

/// More commits than any scenario has: a bound for the loop, never reached.
const MOST_COMMITS: u64 = 100;

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

fn matrix(scenario: &Scenario) {
    let (undisturbed, commits) = run(scenario, None);
    let mut died = 0;
    for crash in crashes(commits) {
        let (disturbed, reached) = run(scenario, Some(&crash));
        disturbed.is(&undisturbed, &format!("{} with {crash}", scenario.name));
        died += u64::from(reached > 0);
    }
    assert!(died > 0, "no passage of {} was reached", scenario.name);
}

/// Plays a scenario. Gives what it left, and how many commits it took (undisturbed) or whether the daemon
/// died (disturbed).
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

/// Every passage, or some that are spread evenly over all.
fn crashes(commits: u64) -> Vec<Crash> {
    let last = commits.min(MOST_COMMITS);
    let all: Vec<Crash> =
        (1..=last).flat_map(|nth| PLACES.map(|place| Crash { place, nth })).collect();
    if stage::deep() {
        return all;
    }
    // A step that is no multiple of three comes to each place in turn.
    let step = (all.len() / SUBSET).max(1);
    let step = if step.is_multiple_of(3) { step + 1 } else { step };
    all.into_iter().skip(stage::seed() % step).step_by(step).collect()
}
