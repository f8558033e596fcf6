//! One budget shared by parallel sessions.

use provost_core::{
    lifecycle::State,
    run::{Cause, Command, Ending, RunSpec},
    session::{Budget, Signal},
};

use super::kit::{RunBench, given};

fn bench(tokens: u64) -> RunBench {
    let budget = Budget { tokens: Some(tokens), turns: None };
    RunBench::open(RunSpec { budget, ..given(&[("a", &[]), ("b", &[])]) })
}

#[test]
fn what_all_use_together_is_what_counts() {
    let mut bench = bench(100);
    bench.on("a").start().signal(Signal::TurnStarted { turn: None }).uses(60);
    bench.on("b").start().signal(Signal::TurnStarted { turn: None }).uses(39);
    assert_eq!((bench.state(1), bench.state(2)), (State::Working, State::Working));
    bench.uses(1);
    assert_eq!((bench.state(1), bench.state(2)), (State::Cancelled, State::Cancelled));
    bench.end_all();
    assert_eq!((bench.ending(), bench.outcome().cause), (Ending::Failed, Some(Cause::Budget)));
    assert_eq!(bench.run.usage.total(), 100);
}

#[test]
fn what_one_used_is_not_counted_twice_once_it_ended() {
    let mut bench = bench(100);
    bench.on("a").start().uses(60).works("a1");
    bench.on("b").start().signal(Signal::TurnStarted { turn: None }).uses(39);
    assert_eq!(bench.state(2), State::Working);
    bench.uses(1);
    assert_eq!(bench.state(2), State::Cancelled);
}

#[test]
fn a_raised_budget_reaches_all_that_work() {
    let mut bench = bench(100);
    bench.on("a").start().uses(60).on("b").start().uses(30);
    bench.tell(Command::RaiseBudget { tokens: Some(200), turns: None });
    assert_eq!(bench.session(1).budget.tokens, Some(170), "less what the other used");
    assert_eq!(bench.session(2).budget.tokens, Some(140));
    bench.on("a").signal(Signal::TurnStarted { turn: None }).uses(109);
    assert_eq!(bench.state(1), State::Working);
    bench.uses(1);
    assert_eq!(bench.state(1), State::Failed);
}

#[test]
fn turns_that_others_take_are_counted_as_tokens_are() {
    let budget = Budget { tokens: None, turns: Some(10) };
    let mut bench = RunBench::open(RunSpec { budget, ..given(&[("a", &[]), ("b", &[])]) });
    bench.on("a").start().turns(2).on("b").start().turns(1);
    bench.tell(Command::RaiseBudget { tokens: None, turns: Some(20) });
    assert_eq!(bench.session(1).budget.turns, Some(19), "less the one of the other");
    assert_eq!(bench.session(2).budget.turns, Some(18), "less the two of the other");
}

#[test]
fn no_task_begins_on_a_budget_that_is_used_up() {
    let budget = Budget { tokens: None, turns: Some(1) };
    let mut bench = RunBench::open(RunSpec { budget, ..given(&[("a", &[]), ("b", &["a"])]) });
    bench.works("a1").comes_in("a");
    assert_eq!((bench.ending(), bench.outcome().cause), (Ending::Failed, Some(Cause::Budget)));
    assert_eq!(bench.outcome().head.as_ref().unwrap().tree.0, "a1");
}
