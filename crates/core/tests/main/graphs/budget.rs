//! One budget shared by parallel sessions.

use provost_core::{
    lifecycle::State,
    run::{RunCommand, RunEnding, RunFailureCause, RunSpec},
    session::{Budget, StreamSignal},
};

use super::kit::{TestRun, planned_spec};

fn bench(tokens: u64) -> TestRun {
    let budget = Budget { tokens: Some(tokens), turns: None };
    TestRun::open(RunSpec { budget, ..planned_spec(&[("a", &[]), ("b", &[])]) })
}

#[test]
fn parallel_sessions_share_one_budget() {
    let mut bench = bench(100);
    bench.focus_task("a").start().signal(StreamSignal::TurnStarted { turn: None }).use_tokens(60);
    bench.focus_task("b").start().signal(StreamSignal::TurnStarted { turn: None }).use_tokens(39);
    assert_eq!((bench.state(1), bench.state(2)), (State::Working, State::Working));
    bench.use_tokens(1);
    assert_eq!((bench.state(1), bench.state(2)), (State::Cancelled, State::Cancelled));
    bench.end_all();
    assert_eq!(
        (bench.ending(), bench.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Budget))
    );
    assert_eq!(bench.run.usage.total(), 100);
}

#[test]
fn usage_of_ended_session_counts_once() {
    let mut bench = bench(100);
    bench.focus_task("a").start().use_tokens(60).finish_work("a1");
    bench.focus_task("b").start().signal(StreamSignal::TurnStarted { turn: None }).use_tokens(39);
    assert_eq!(bench.state(2), State::Working);
    bench.use_tokens(1);
    assert_eq!(bench.state(2), State::Cancelled);
}

#[test]
fn raised_budget_reaches_all_live_sessions() {
    let mut bench = bench(100);
    bench.focus_task("a").start().use_tokens(60).focus_task("b").start().use_tokens(30);
    bench.apply(RunCommand::RaiseBudget { tokens: Some(200), turns: None });
    assert_eq!(bench.session(1).budget.tokens, Some(170), "less what the other used");
    assert_eq!(bench.session(2).budget.tokens, Some(140));
    bench.focus_task("a").signal(StreamSignal::TurnStarted { turn: None }).use_tokens(109);
    assert_eq!(bench.state(1), State::Working);
    bench.use_tokens(1);
    assert_eq!(bench.state(1), State::Failed);
}

#[test]
fn turns_of_other_sessions_count() {
    let budget = Budget { tokens: None, turns: Some(10) };
    let mut bench = TestRun::open(RunSpec { budget, ..planned_spec(&[("a", &[]), ("b", &[])]) });
    bench.focus_task("a").start().run_turns(2).focus_task("b").start().run_turns(1);
    bench.apply(RunCommand::RaiseBudget { tokens: None, turns: Some(20) });
    assert_eq!(bench.session(1).budget.turns, Some(19), "less the one of the other");
    assert_eq!(bench.session(2).budget.turns, Some(18), "less the two of the other");
}

#[test]
fn exhausted_budget_starts_no_task() {
    let budget = Budget { tokens: None, turns: Some(1) };
    let mut bench = TestRun::open(RunSpec { budget, ..planned_spec(&[("a", &[]), ("b", &["a"])]) });
    bench.finish_work("a1").integrate_task("a");
    assert_eq!(
        (bench.ending(), bench.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Budget))
    );
    assert_eq!(bench.outcome().head.as_ref().unwrap().tree.0, "a1");
}
