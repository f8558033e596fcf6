//! One budget shared by all sessions of a run.

use provost_core::{
    lifecycle::State,
    run::{
        LandMode, PullRequestChecks, ReviewMode, RunCommand, RunEnding, RunFailureCause,
        RunRejection, RunSpec, RunStage,
    },
    session::{Budget, StreamSignal},
    verdict::CheckEnd,
};

use super::kit::{
    TestRun, comment, finding, landing_spec, merge_step, reviewed_spec, run_spec, triage_result,
    triaged_spec,
};

fn token_budget(tokens: u64) -> Budget {
    Budget { tokens: Some(tokens), turns: None }
}

fn raise(harness: &mut TestRun, tokens: u64) {
    harness.apply(RunCommand::RaiseBudget { tokens: Some(tokens), turns: None });
}

#[test]
fn session_gets_the_remaining_budget() {
    let budget = Budget { tokens: Some(100), turns: Some(9) };
    let mut harness = TestRun::open(RunSpec { budget, ..triaged_spec() });
    assert_eq!(harness.session(1).spending.budget, budget);
    harness.start().use_tokens(30).finish_session("old", Some(triage_result("it")));
    assert_eq!(harness.session(2).spending.budget, Budget { tokens: Some(70), turns: Some(8) });
    harness.start().use_tokens(20).finish_work("new");
    assert_eq!((harness.run.usage.total(), harness.run.turns), (50, 2));
    let end = harness.run.sessions[1].end.as_ref().unwrap();
    assert_eq!((end.usage.total(), end.turns), (20, 1));
}

#[test]
fn exhausted_budget_fails_the_run() {
    let mut harness = TestRun::open(RunSpec { budget: token_budget(100), ..run_spec() });
    let id = harness.live_session();
    harness
        .start()
        .signal(StreamSignal::TurnStarted { turn: None })
        .use_tokens(100)
        .end_session(id);
    assert_eq!(
        (harness.ending(), harness.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Budget))
    );
    let expected = "its session ended as failed (budget): 100 of 100 tokens are used";
    assert_eq!(harness.outcome().detail, expected);
}

#[test]
fn exhausted_budget_starts_no_further_session() {
    let spec =
        RunSpec { budget: token_budget(100), ..reviewed_spec(ReviewMode::Report, ReviewMode::Off) };
    let mut harness = TestRun::open(spec);
    harness.start().use_tokens(99).finish_work("new");
    assert_eq!(harness.run.stage, RunStage::TaskReview);
    let mut harness = TestRun::open(RunSpec {
        budget: Budget { tokens: None, turns: Some(1) },
        ..reviewed_spec(ReviewMode::Report, ReviewMode::Off)
    });
    harness.finish_work("new");
    assert_eq!(
        (harness.ending(), harness.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Budget))
    );
    assert_eq!(harness.outcome().detail, "1 turns are used");
    assert_eq!(harness.run.sessions.len(), 1);
}

#[test]
fn exhausted_budget_starts_no_second_review() {
    let spec = RunSpec {
        budget: Budget { tokens: None, turns: Some(2) },
        ..reviewed_spec(ReviewMode::Repair, ReviewMode::Off)
    };
    let mut harness = TestRun::open(spec);
    harness.finish_work("new").finish_review("mended", vec![finding("slow")]);
    assert_eq!(
        (harness.ending(), harness.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Budget))
    );
    assert_eq!(harness.run.sessions.len(), 2);
}

#[test]
fn landing_needs_no_budget() {
    let mut harness = TestRun::open(RunSpec {
        budget: Budget { tokens: None, turns: Some(1) },
        ..landing_spec(LandMode::Merge)
    });
    harness.finish_work("new");
    assert_eq!(harness.pending_effects(), ["land-1-0"]);
    harness.apply(RunCommand::TargetMoved { step: 0, merge: merge_step("merged", &[]) });
    harness.finish_check("merged", &CheckEnd::Exit(0));
    assert_eq!(harness.pending_effects(), ["land-1-1"], "checks cost nothing either");
    let mut harness = TestRun::open(RunSpec {
        budget: Budget { tokens: None, turns: Some(1) },
        ..landing_spec(LandMode::Merge)
    });
    harness.finish_work("new");
    harness.apply(RunCommand::TargetMoved { step: 0, merge: merge_step("merged", &["a.rs"]) });
    harness.apply(RunCommand::LandingAborted { attempt: 1, pull: None });
    assert_eq!(harness.outcome().cause, Some(RunFailureCause::Budget), "an agent does");
}

#[test]
fn raised_budget_reaches_live_session() {
    let budget = Budget { tokens: Some(100), turns: Some(5) };
    let mut harness = TestRun::open(RunSpec { budget, ..triaged_spec() });
    harness.start().use_tokens(30).finish_session("old", Some(triage_result("it")));
    harness.apply(RunCommand::RaiseBudget { tokens: Some(150), turns: Some(8) });
    assert_eq!(harness.session(2).spending.budget, Budget { tokens: Some(120), turns: Some(7) });
    assert_eq!(harness.run.budget, Budget { tokens: Some(150), turns: Some(8) });
}

#[test]
fn budget_cannot_be_lowered() {
    let budget = Budget { tokens: Some(100), turns: None };
    let mut harness = TestRun::open(RunSpec { budget, ..run_spec() });
    for (tokens, turns) in [(Some(100), None), (Some(99), None), (None, Some(3))] {
        let refused = harness.try_apply(RunCommand::RaiseBudget { tokens, turns });
        let left = "100 tokens, no limit on turns".to_owned();
        assert_eq!(refused, Err(RunRejection::BudgetNotRaised(left)), "{tokens:?} {turns:?}");
    }
    raise(&mut harness, 101);
    assert_eq!(harness.run.budget.tokens, Some(101));
    let mut harness =
        TestRun::open(RunSpec { budget: Budget { tokens: None, turns: Some(4) }, ..run_spec() });
    assert!(harness.try_apply(RunCommand::RaiseBudget { tokens: None, turns: Some(4) }).is_err());
    harness.apply(RunCommand::RaiseBudget { tokens: None, turns: Some(5) });
    assert_eq!(harness.run.budget, Budget { tokens: None, turns: Some(5) });
}

#[test]
fn raised_budget_resumes_same_conversation() {
    let mut harness = TestRun::open(RunSpec { budget: token_budget(100), ..run_spec() });
    let id = harness.live_session();
    harness
        .start()
        .signal(StreamSignal::TurnStarted { turn: None })
        .use_tokens(120)
        .end_session(id);
    let refused = harness.try_apply(RunCommand::Resume);
    assert_eq!(refused, Err(RunRejection::BudgetUsedUp("120 tokens are used".to_owned())));
    raise(&mut harness, 200);
    harness.apply(RunCommand::Resume);
    assert_eq!(harness.live_session(), id, "it is the same conversation");
    assert_eq!(harness.session(1).spending.budget.tokens, Some(200));
    harness.start().use_tokens(30).finish_work("new");
    assert_eq!(harness.run.usage.total(), 150, "nothing is counted twice");
    assert_eq!(harness.run.sessions[0].counted.usage.total(), 150);
}

#[test]
fn resumed_session_budget_includes_counted_turns() {
    let budget = Budget { tokens: Some(100), turns: Some(5) };
    let mut harness = TestRun::open(RunSpec { budget, ..run_spec() });
    let id = harness.live_session();
    harness
        .start()
        .signal(StreamSignal::TurnStarted { turn: None })
        .use_tokens(120)
        .end_session(id);
    harness
        .apply(RunCommand::RaiseBudget { tokens: Some(200), turns: Some(9) })
        .apply(RunCommand::Resume);
    assert_eq!((harness.live_session(), harness.run.turns), (id, 1));
    assert_eq!(
        harness.session(1).spending.budget.turns,
        Some(9),
        "eight are left, and one it took before"
    );
}

#[test]
fn resumed_session_excludes_usage_of_others() {
    let spec = RunSpec {
        budget: token_budget(100),
        land: LandMode::Pr,
        ..reviewed_spec(ReviewMode::Report, ReviewMode::Off)
    };
    let mut harness = TestRun::open(spec);
    harness.start().use_tokens(50).finish_work("new");
    harness.start().use_tokens(40).finish_review("new", Vec::new());
    harness
        .open_pull_request("new")
        .see_pull(PullRequestChecks::Passed, &[comment("r1", "mend it")]);
    assert_eq!(harness.live_session(), harness.run.id.session(1));
    assert_eq!(
        harness.session(1).spending.budget.tokens,
        Some(100),
        "its own budget would let it use 50"
    );
    let id = harness.live_session();
    harness.start().signal(StreamSignal::TurnStarted { turn: None }).use_tokens(9);
    assert_eq!(harness.state(1), State::Working);
    harness.use_tokens(1);
    assert_eq!(harness.state(1), State::Cancelled);
    harness.end_session(id).apply(RunCommand::LandingAborted { attempt: 1, pull: None });
    assert_eq!(
        (harness.ending(), harness.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Budget))
    );
    assert_eq!(harness.run.usage.total(), 100);
}

#[test]
fn claimed_work_is_not_stopped_for_budget() {
    let spec = RunSpec {
        budget: token_budget(100),
        land: LandMode::Pr,
        ..reviewed_spec(ReviewMode::Report, ReviewMode::Off)
    };
    let mut harness = TestRun::open(spec);
    harness.start().use_tokens(50).finish_work("new");
    harness.start().use_tokens(40).finish_review("new", Vec::new());
    harness
        .open_pull_request("new")
        .see_pull(PullRequestChecks::Passed, &[comment("r1", "mend it")]);
    harness.start().turn(provost_core::lifecycle::ClaimKind::Completed, None).use_tokens(20);
    assert_ne!(harness.state(1), State::Cancelled);
    let id = harness.live_session();
    harness.verify("mended", CheckEnd::Exit(0)).end_session(id);
    assert_eq!(harness.pending_effects(), ["land-1-1"]);
}

#[test]
fn run_without_budget_is_unlimited() {
    let mut harness = TestRun::open(run_spec());
    harness.start().use_tokens(1 << 40).finish_work("new");
    assert_eq!(harness.run.stage, RunStage::Land);
    assert_eq!(harness.session(1).spending.budget, Budget::default());
}
