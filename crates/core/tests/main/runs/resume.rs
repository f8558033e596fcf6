//! Run attempts: a resume continues the remaining work, in the same conversation if possible.

use provost_core::{
    ids::SessionId,
    lifecycle::State,
    run::{LandMode, ReviewMode, RunCommand, RunEnding, RunFailureCause, RunSpec, RunStage},
    session::{self, AgentInterface, ManualOutcome},
};

use super::kit::{
    TestRun, landing_spec, merge_step, reviewed_spec, run_spec, triage_result, triaged_spec,
    unchecked_spec,
};

fn cancel_live_session(bench: &mut TestRun) -> SessionId {
    let id = bench.live_session();
    bench.start().cancel().end_session(id);
    id
}

#[test]
fn resume_keeps_conversation_and_worktree() {
    let mut bench = TestRun::open(triaged_spec());
    bench.finish_session("old", Some(triage_result("it")));
    let id = cancel_live_session(&mut bench);
    bench.apply(RunCommand::Resume);
    assert_eq!((bench.run.attempt().no, bench.run.stage), (2, RunStage::Work));
    assert_eq!(bench.live_session(), id);
    assert_eq!(
        (bench.last_session().no, bench.last_session().attempt, bench.last_session().cycle),
        (2, 2, 1)
    );
    assert_eq!(bench.session(2).attempts.len(), 2);
    assert!(
        bench
            .instruction()
            .starts_with("The work was interrupted before it was done: cancelled (enough).")
    );
    bench.finish_work("new").land("new");
    assert_eq!(bench.ending(), RunEnding::Succeeded);
    assert_eq!(
        bench.run.attempts[0].sealed.as_ref().unwrap().ending,
        RunEnding::Cancelled,
        "it stays"
    );
    let hooks = ["run.opened", "run.cancelled", "run.succeeded"];
    assert_eq!(bench.hooks(), hooks);
}

#[test]
fn each_run_attempt_writes_its_own_report() {
    let mut bench = TestRun::open(run_spec());
    cancel_live_session(&mut bench);
    bench.apply(RunCommand::Resume);
    cancel_live_session(&mut bench);
    let cards = bench.run.effects().into_iter().map(|effect| effect.key());
    let cards: Vec<String> = cards.filter(|key| key.starts_with("card")).collect();
    assert_eq!(cards, ["card-1", "card-2"]);
    assert_eq!(bench.run.hooks_fired.values().copied().max(), Some(2), "each is announced");
}

#[test]
fn stages_without_conversation_restart() {
    let mut bench = TestRun::open(triaged_spec());
    cancel_live_session(&mut bench);
    bench.apply(RunCommand::Resume);
    assert_eq!((bench.run.stage, bench.last_session().no), (RunStage::Triage, 2));
    let mut bench = TestRun::open(reviewed_spec(ReviewMode::Report, ReviewMode::Off));
    bench.finish_work("new");
    cancel_live_session(&mut bench);
    bench.apply(RunCommand::Resume);
    assert_eq!(
        (bench.run.stage, bench.last_session().no, bench.last_session().cycle),
        (RunStage::TaskReview, 3, 1)
    );
}

#[test]
fn failed_run_can_be_resumed() {
    let mut bench = TestRun::open(run_spec());
    bench.fail_session();
    assert_eq!(bench.outcome().cause, Some(RunFailureCause::Work));
    bench.apply(RunCommand::Resume).finish_work("new").land("new");
    assert_eq!(bench.ending(), RunEnding::Succeeded);
}

#[test]
fn uncommitted_work_is_retried_on_resume() {
    let mut bench = TestRun::open(unchecked_spec());
    bench.finish_work("-");
    let session = bench.run.id.session(1);
    bench.apply(RunCommand::CommitFailed { session, reason: "no room".to_owned() });
    bench.apply(RunCommand::Resume).finish_work("-").take_head("new").land("new");
    assert_eq!(bench.ending(), RunEnding::Completed);
}

#[test]
fn unresumable_session_is_replaced() {
    let mut bench = TestRun::open(run_spec());
    let id = cancel_live_session(&mut bench);
    bench.apply_to_session(id, session::SessionCommand::WorkRemoved);
    bench.apply(RunCommand::Resume);
    assert_eq!((bench.last_session().no, bench.session(2).attempts.len()), (2, 1));
    let mut spec = run_spec();
    spec.agent.interface = AgentInterface::command();
    let mut bench = TestRun::open(spec);
    cancel_live_session(&mut bench);
    bench.apply(RunCommand::Resume);
    assert_eq!(bench.last_session().no, 2, "a command takes no second instruction");
}

#[test]
fn user_work_on_session_is_kept_on_resume() {
    let mut bench = TestRun::open(run_spec());
    let id = cancel_live_session(&mut bench);
    let send = session::SessionCommand::Send {
        key: "mine".to_owned(),
        text: "try this".to_owned(),
        mode: session::SendMode::Continue,
    };
    bench.user_sessions.insert(id);
    bench.apply_to_session(id, send);
    assert_eq!(bench.ending(), RunEnding::Cancelled, "the run has ended");
    let because = "done".to_owned();
    bench.apply_to_session(
        id,
        session::SessionCommand::Resolve { to: ManualOutcome::Accepted, because },
    );
    bench.user_sessions.clear();
    bench.apply(RunCommand::Resume);
    assert_eq!(bench.live_session(), id);
    assert_eq!(bench.session(1).attempts.len(), 3);
}

#[test]
fn unresolved_merge_restarts_on_resume() {
    let mut bench = TestRun::open(landing_spec(LandMode::Merge));
    bench
        .finish_work("new")
        .apply(RunCommand::TargetMoved { step: 0, merge: merge_step("m", &["a"]) });
    bench.fail_session().apply(RunCommand::LandingAborted { attempt: 1, pull: None });
    assert_eq!(bench.outcome().cause, Some(RunFailureCause::Landing));
    bench.apply(RunCommand::Resume);
    assert_eq!(
        (bench.run.stage, bench.last_session().no, bench.last_session().cycle),
        (RunStage::Land, 3, 1)
    );
    bench.finish_work("mended");
    assert_eq!(bench.pending_effects(), ["land-2-1"]);
    bench.land("mended");
    assert_eq!(bench.ending(), RunEnding::Succeeded);
}

#[test]
fn resume_resets_the_merge_limit() {
    let mut bench = TestRun::open(RunSpec { land: LandMode::Merge, ..unchecked_spec() });
    bench.finish_work("-").take_head("new");
    for step in 0..5 {
        bench.apply(RunCommand::TargetMoved { step, merge: merge_step(&format!("m{step}"), &[]) });
    }
    bench.apply(RunCommand::TargetMoved { step: 5, merge: merge_step("m5", &[]) });
    assert_eq!(bench.outcome().cause, Some(RunFailureCause::Landing));
    assert_eq!(
        bench.outcome().detail,
        "the branch moved 5 times while the work was being merged with it"
    );
    bench.apply(RunCommand::Resume);
    bench.apply(RunCommand::TargetMoved { step: 5, merge: merge_step("m5", &[]) });
    assert_eq!(bench.pending_effects(), ["land-2-6"]);
}

#[test]
fn live_run_cannot_be_resumed() {
    let mut bench = TestRun::open(run_spec());
    assert!(bench.try_apply(RunCommand::Resume).is_err());
    bench.start().cancel();
    assert!(bench.try_apply(RunCommand::Resume).is_err());
    assert_eq!(bench.state(1), State::Cancelled);
    assert_eq!(bench.run.attempts.len(), 1);
}
