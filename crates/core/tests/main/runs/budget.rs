//! One budget shared by all sessions of a run.

use provost_core::{
    lifecycle::State,
    run::{Cause, Command, Ending, LandMode, PullChecks, Rejected, ReviewMode, RunSpec, Stage},
    session::{Budget, Signal},
    verdict::CheckEnd,
};

use super::kit::{
    RunBench, finding, landing_by, merge_step, remark, reviewed, run_spec, triaged, understood,
};

fn tokens(tokens: u64) -> Budget {
    Budget { tokens: Some(tokens), turns: None }
}

fn raise(bench: &mut RunBench, tokens: u64) {
    bench.tell(Command::RaiseBudget { tokens: Some(tokens), turns: None });
}

#[test]
fn a_session_may_use_what_those_before_it_left() {
    let budget = Budget { tokens: Some(100), turns: Some(9) };
    let mut bench = RunBench::open(RunSpec { budget, ..triaged() });
    assert_eq!(bench.session(1).budget, budget);
    bench.start().uses(30).does("old", Some(understood("it")));
    assert_eq!(bench.session(2).budget, Budget { tokens: Some(70), turns: Some(8) });
    bench.start().uses(20).works("new");
    assert_eq!((bench.run.usage.total(), bench.run.turns), (50, 2));
    let end = bench.run.sessions[1].end.as_ref().unwrap();
    assert_eq!((end.usage.total(), end.turns), (20, 1));
}

#[test]
fn a_session_that_used_up_the_budget_ends_the_run_for_it() {
    let mut bench = RunBench::open(RunSpec { budget: tokens(100), ..run_spec() });
    let id = bench.live();
    bench.start().signal(Signal::TurnStarted { turn: None }).uses(100).end_session(id);
    assert_eq!((bench.ending(), bench.outcome().cause), (Ending::Failed, Some(Cause::Budget)));
    let told = "its session ended as failed (budget): 100 of 100 tokens are used";
    assert_eq!(bench.outcome().detail, told);
}

#[test]
fn what_is_used_up_by_good_work_lets_no_other_session_begin() {
    let spec = RunSpec { budget: tokens(100), ..reviewed(ReviewMode::Report, ReviewMode::Off) };
    let mut bench = RunBench::open(spec);
    bench.start().uses(99).works("new");
    assert_eq!(bench.run.stage, Stage::TaskReview);
    let mut bench = RunBench::open(RunSpec {
        budget: Budget { tokens: None, turns: Some(1) },
        ..reviewed(ReviewMode::Report, ReviewMode::Off)
    });
    bench.works("new");
    assert_eq!((bench.ending(), bench.outcome().cause), (Ending::Failed, Some(Cause::Budget)));
    assert_eq!(bench.outcome().detail, "1 turns are used");
    assert_eq!(bench.run.sessions.len(), 1);
}

#[test]
fn another_look_is_not_begun_on_a_budget_that_is_used_up() {
    let spec = RunSpec {
        budget: Budget { tokens: None, turns: Some(2) },
        ..reviewed(ReviewMode::Repair, ReviewMode::Off)
    };
    let mut bench = RunBench::open(spec);
    bench.works("new").reviews("mended", vec![finding("slow")]);
    assert_eq!((bench.ending(), bench.outcome().cause), (Ending::Failed, Some(Cause::Budget)));
    assert_eq!(bench.run.sessions.len(), 2);
}

#[test]
fn landing_costs_nothing() {
    let mut bench = RunBench::open(RunSpec {
        budget: Budget { tokens: None, turns: Some(1) },
        ..landing_by(LandMode::Merge)
    });
    bench.works("new");
    assert_eq!(bench.owed(), ["land-1-0"]);
    bench.tell(Command::TargetMoved { step: 0, merge: merge_step("merged", &[]) });
    bench.is_checked("merged", CheckEnd::Exit(0));
    assert_eq!(bench.owed(), ["land-1-1"], "checks cost nothing either");
    let mut bench = RunBench::open(RunSpec {
        budget: Budget { tokens: None, turns: Some(1) },
        ..landing_by(LandMode::Merge)
    });
    bench.works("new");
    bench.tell(Command::TargetMoved { step: 0, merge: merge_step("merged", &["a.rs"]) });
    bench.tell(Command::LandOver { leg: 1, pull: None });
    assert_eq!(bench.outcome().cause, Some(Cause::Budget), "an agent does");
}

#[test]
fn a_raised_budget_reaches_the_session_that_works() {
    let budget = Budget { tokens: Some(100), turns: Some(5) };
    let mut bench = RunBench::open(RunSpec { budget, ..triaged() });
    bench.start().uses(30).does("old", Some(understood("it")));
    bench.tell(Command::RaiseBudget { tokens: Some(150), turns: Some(8) });
    assert_eq!(bench.session(2).budget, Budget { tokens: Some(120), turns: Some(7) });
    assert_eq!(bench.run.budget, Budget { tokens: Some(150), turns: Some(8) });
}

#[test]
fn a_budget_is_only_raised() {
    let budget = Budget { tokens: Some(100), turns: None };
    let mut bench = RunBench::open(RunSpec { budget, ..run_spec() });
    for (tokens, turns) in [(Some(100), None), (Some(99), None), (None, Some(3))] {
        let refused = bench.try_tell(Command::RaiseBudget { tokens, turns });
        let told = "100 tokens, unlimited turns".to_owned();
        assert_eq!(refused, Err(Rejected::BudgetNotRaised(told)), "{tokens:?} {turns:?}");
    }
    raise(&mut bench, 101);
    assert_eq!(bench.run.budget.tokens, Some(101));
    let mut bench =
        RunBench::open(RunSpec { budget: Budget { tokens: None, turns: Some(4) }, ..run_spec() });
    assert!(bench.try_tell(Command::RaiseBudget { tokens: None, turns: Some(4) }).is_err());
    bench.tell(Command::RaiseBudget { tokens: None, turns: Some(5) });
    assert_eq!(bench.run.budget, Budget { tokens: None, turns: Some(5) });
}

#[test]
fn a_run_whose_budget_is_used_up_is_resumed_once_it_was_raised_in_the_same_conversation() {
    let mut bench = RunBench::open(RunSpec { budget: tokens(100), ..run_spec() });
    let id = bench.live();
    bench.start().signal(Signal::TurnStarted { turn: None }).uses(120).end_session(id);
    let refused = bench.try_tell(Command::Resume);
    assert_eq!(refused, Err(Rejected::UsedUp("120 tokens are used".to_owned())));
    raise(&mut bench, 200);
    bench.tell(Command::Resume);
    assert_eq!(bench.live(), id, "it is the same conversation");
    assert_eq!(bench.session(1).budget.tokens, Some(200));
    bench.start().uses(30).works("new");
    assert_eq!(bench.run.usage.total(), 150, "nothing is counted twice");
    assert_eq!(bench.run.sessions[0].counted.0.total(), 150);
}

#[test]
fn turns_that_were_counted_when_a_session_ended_are_part_of_what_it_may_take_in_all() {
    let budget = Budget { tokens: Some(100), turns: Some(5) };
    let mut bench = RunBench::open(RunSpec { budget, ..run_spec() });
    let id = bench.live();
    bench.start().signal(Signal::TurnStarted { turn: None }).uses(120).end_session(id);
    bench.tell(Command::RaiseBudget { tokens: Some(200), turns: Some(9) }).tell(Command::Resume);
    assert_eq!((bench.live(), bench.run.turns), (id, 1));
    assert_eq!(bench.session(1).budget.turns, Some(9), "eight are left, and one it took before");
}

#[test]
fn a_session_taken_up_again_may_not_use_what_others_used_meanwhile() {
    let spec = RunSpec {
        budget: tokens(100),
        land: LandMode::Pr,
        ..reviewed(ReviewMode::Report, ReviewMode::Off)
    };
    let mut bench = RunBench::open(spec);
    bench.start().uses(50).works("new");
    bench.start().uses(40).reviews("new", Vec::new());
    bench.requested("new").sees(PullChecks::Passed, &[remark("r1", "mend it")]);
    assert_eq!(bench.live(), bench.run.id.session(1));
    assert_eq!(bench.session(1).budget.tokens, Some(100), "its own budget would let it use 50");
    let id = bench.live();
    bench.start().signal(Signal::TurnStarted { turn: None }).uses(9);
    assert_eq!(bench.state(1), State::Working);
    bench.uses(1);
    assert_eq!(bench.state(1), State::Cancelled);
    bench.end_session(id).tell(Command::LandOver { leg: 1, pull: None });
    assert_eq!((bench.ending(), bench.outcome().cause), (Ending::Failed, Some(Cause::Budget)));
    assert_eq!(bench.run.usage.total(), 100);
}

#[test]
fn what_was_claimed_is_not_stopped_for_the_budget() {
    let spec = RunSpec {
        budget: tokens(100),
        land: LandMode::Pr,
        ..reviewed(ReviewMode::Report, ReviewMode::Off)
    };
    let mut bench = RunBench::open(spec);
    bench.start().uses(50).works("new");
    bench.start().uses(40).reviews("new", Vec::new());
    bench.requested("new").sees(PullChecks::Passed, &[remark("r1", "mend it")]);
    bench.start().turn(provost_core::lifecycle::ClaimKind::Completed, None).uses(20);
    assert_ne!(bench.state(1), State::Cancelled);
    let id = bench.live();
    bench.verify("mended", CheckEnd::Exit(0)).end_session(id);
    assert_eq!(bench.owed(), ["land-1-1"]);
}

#[test]
fn prompts_of_a_run_without_a_budget_are_bounded_by_nothing() {
    let mut bench = RunBench::open(run_spec());
    bench.start().uses(1 << 40).works("new");
    assert_eq!(bench.run.stage, Stage::Land);
    assert_eq!(bench.session(1).budget, Budget::default());
}
