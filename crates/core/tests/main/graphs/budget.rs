//! One budget shared by parallel sessions.

use provost_core::{
    lifecycle::State,
    run::{RunCommand, RunEnding, RunFailureCause, RunSpec},
    session::{Budget, StreamSignal},
};

use super::kit::{TestRun, planned_spec};

fn harness(tokens: u64) -> TestRun {
    let budget = Budget { tokens: Some(tokens), turns: None };
    TestRun::open(RunSpec { budget, ..planned_spec(&[("a", &[]), ("b", &[])]) })
}

#[test]
fn parallel_sessions_share_one_budget() {
    let mut harness = harness(100);
    harness.focus_task("a").start().signal(StreamSignal::TurnStarted { turn: None }).use_tokens(60);
    harness.focus_task("b").start().signal(StreamSignal::TurnStarted { turn: None }).use_tokens(39);
    assert_eq!((harness.state(1), harness.state(2)), (State::Working, State::Working));
    harness.use_tokens(1);
    assert_eq!((harness.state(1), harness.state(2)), (State::Cancelled, State::Cancelled));
    harness.end_all();
    assert_eq!(
        (harness.ending(), harness.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Budget))
    );
    assert_eq!(harness.run.usage.total(), 100);
}

#[test]
fn usage_of_ended_session_counts_once() {
    let mut harness = harness(100);
    harness.focus_task("a").start().use_tokens(60).finish_work("a1");
    harness.focus_task("b").start().signal(StreamSignal::TurnStarted { turn: None }).use_tokens(39);
    assert_eq!(harness.state(2), State::Working);
    harness.use_tokens(1);
    assert_eq!(harness.state(2), State::Cancelled);
}

#[test]
fn raised_budget_reaches_all_live_sessions() {
    let mut harness = harness(100);
    harness.focus_task("a").start().use_tokens(60).focus_task("b").start().use_tokens(30);
    harness.apply(RunCommand::RaiseBudget { tokens: Some(200), turns: None });
    assert_eq!(harness.session(1).spending.budget.tokens, Some(170), "less what the other used");
    assert_eq!(harness.session(2).spending.budget.tokens, Some(140));
    harness.focus_task("a").signal(StreamSignal::TurnStarted { turn: None }).use_tokens(109);
    assert_eq!(harness.state(1), State::Working);
    harness.use_tokens(1);
    assert_eq!(harness.state(1), State::Failed);
}

#[test]
fn turns_of_other_sessions_count() {
    let budget = Budget { tokens: None, turns: Some(10) };
    let mut harness = TestRun::open(RunSpec { budget, ..planned_spec(&[("a", &[]), ("b", &[])]) });
    harness.focus_task("a").start().run_turns(2).focus_task("b").start().run_turns(1);
    harness.apply(RunCommand::RaiseBudget { tokens: None, turns: Some(20) });
    assert_eq!(harness.session(1).spending.budget.turns, Some(19), "less the one of the other");
    assert_eq!(harness.session(2).spending.budget.turns, Some(18), "less the two of the other");
}

#[test]
fn exhausted_budget_starts_no_task() {
    let budget = Budget { tokens: None, turns: Some(1) };
    let mut harness =
        TestRun::open(RunSpec { budget, ..planned_spec(&[("a", &[]), ("b", &["a"])]) });
    harness.finish_work("a1").integrate_task("a");
    assert_eq!(
        (harness.ending(), harness.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Budget))
    );
    assert_eq!(harness.outcome().head.as_ref().unwrap().tree.0, "a1");
}
