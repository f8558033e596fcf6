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

fn cancel_live_session(harness: &mut TestRun) -> SessionId {
    let id = harness.live_session();
    harness.start().cancel().end_session(id);
    id
}

#[test]
fn resume_keeps_conversation_and_worktree() {
    let mut harness = TestRun::open(triaged_spec());
    harness.finish_session("old", Some(triage_result("it")));
    let id = cancel_live_session(&mut harness);
    harness.apply(RunCommand::Resume);
    assert_eq!((harness.run.attempt().no, harness.run.stage), (2, RunStage::Work));
    assert_eq!(harness.live_session(), id);
    assert_eq!(
        (harness.last_session().no, harness.last_session().attempt, harness.last_session().cycle),
        (2, 2, 1)
    );
    assert_eq!(harness.session(2).attempts.len(), 2);
    assert!(
        harness
            .instruction()
            .starts_with("The work was interrupted before it was done: cancelled (enough).")
    );
    harness.finish_work("new").land("new");
    assert_eq!(harness.ending(), RunEnding::Succeeded);
    assert_eq!(
        harness.run.attempts[0].sealed.as_ref().unwrap().ending,
        RunEnding::Cancelled,
        "it stays"
    );
    let hooks = ["run.opened", "run.cancelled", "run.succeeded"];
    assert_eq!(harness.hooks(), hooks);
}

#[test]
fn each_run_attempt_writes_its_own_report() {
    let mut harness = TestRun::open(run_spec());
    cancel_live_session(&mut harness);
    harness.apply(RunCommand::Resume);
    cancel_live_session(&mut harness);
    let reports = harness.run.effects().into_iter().map(|effect| effect.key());
    let reports: Vec<String> = reports.filter(|key| key.starts_with("summary")).collect();
    assert_eq!(reports, ["summary-1", "summary-2"]);
    assert_eq!(harness.run.hooks_fired.values().copied().max(), Some(2), "each is announced");
}

#[test]
fn stages_without_conversation_restart() {
    let mut harness = TestRun::open(triaged_spec());
    cancel_live_session(&mut harness);
    harness.apply(RunCommand::Resume);
    assert_eq!((harness.run.stage, harness.last_session().no), (RunStage::Triage, 2));
    let mut harness = TestRun::open(reviewed_spec(ReviewMode::Report, ReviewMode::Off));
    harness.finish_work("new");
    cancel_live_session(&mut harness);
    harness.apply(RunCommand::Resume);
    assert_eq!(
        (harness.run.stage, harness.last_session().no, harness.last_session().cycle),
        (RunStage::TaskReview, 3, 1)
    );
}

#[test]
fn failed_run_can_be_resumed() {
    let mut harness = TestRun::open(run_spec());
    harness.fail_session();
    assert_eq!(harness.outcome().cause, Some(RunFailureCause::Work));
    harness.apply(RunCommand::Resume).finish_work("new").land("new");
    assert_eq!(harness.ending(), RunEnding::Succeeded);
}

#[test]
fn uncommitted_work_is_retried_on_resume() {
    let mut harness = TestRun::open(unchecked_spec());
    harness.finish_work("-");
    let session = harness.run.id.session(1);
    harness.apply(RunCommand::CommitFailed { session, reason: "no room".to_owned() });
    harness.apply(RunCommand::Resume).finish_work("-").take_head("new").land("new");
    assert_eq!(harness.ending(), RunEnding::Completed);
}

#[test]
fn unresumable_session_is_replaced() {
    let mut harness = TestRun::open(run_spec());
    let id = cancel_live_session(&mut harness);
    harness.apply_to_session(id, session::SessionCommand::WorkRemoved);
    harness.apply(RunCommand::Resume);
    assert_eq!((harness.last_session().no, harness.session(2).attempts.len()), (2, 1));
    let mut spec = run_spec();
    spec.agent.interface = AgentInterface::command();
    let mut harness = TestRun::open(spec);
    cancel_live_session(&mut harness);
    harness.apply(RunCommand::Resume);
    assert_eq!(harness.last_session().no, 2, "a command takes no second instruction");
}

#[test]
fn user_work_on_session_is_kept_on_resume() {
    let mut harness = TestRun::open(run_spec());
    let id = cancel_live_session(&mut harness);
    let send = session::SessionCommand::Send {
        key: "mine".to_owned(),
        text: "try this".to_owned(),
        mode: session::SendMode::Continue,
    };
    harness.user_sessions.insert(id);
    harness.apply_to_session(id, send);
    assert_eq!(harness.ending(), RunEnding::Cancelled, "the run has ended");
    let because = "done".to_owned();
    harness.apply_to_session(
        id,
        session::SessionCommand::Resolve { to: ManualOutcome::Accepted, because },
    );
    harness.user_sessions.clear();
    harness.apply(RunCommand::Resume);
    assert_eq!(harness.live_session(), id);
    assert_eq!(harness.session(1).attempts.len(), 3);
}

#[test]
fn unresolved_merge_restarts_on_resume() {
    let mut harness = TestRun::open(landing_spec(LandMode::Merge));
    harness
        .finish_work("new")
        .apply(RunCommand::TargetMoved { step: 0, merge: merge_step("m", &["a"]) });
    harness.fail_session().apply(RunCommand::LandingAborted { attempt: 1, pull: None });
    assert_eq!(harness.outcome().cause, Some(RunFailureCause::Landing));
    harness.apply(RunCommand::Resume);
    assert_eq!(
        (harness.run.stage, harness.last_session().no, harness.last_session().cycle),
        (RunStage::Land, 3, 1)
    );
    harness.finish_work("mended");
    assert_eq!(harness.pending_effects(), ["land-2-1"]);
    harness.land("mended");
    assert_eq!(harness.ending(), RunEnding::Succeeded);
}

#[test]
fn resume_resets_the_merge_limit() {
    let mut harness = TestRun::open(RunSpec { land: LandMode::Merge, ..unchecked_spec() });
    harness.finish_work("-").take_head("new");
    for step in 0..5 {
        harness
            .apply(RunCommand::TargetMoved { step, merge: merge_step(&format!("m{step}"), &[]) });
    }
    harness.apply(RunCommand::TargetMoved { step: 5, merge: merge_step("m5", &[]) });
    assert_eq!(harness.outcome().cause, Some(RunFailureCause::Landing));
    assert_eq!(
        harness.outcome().detail,
        "the branch moved 5 times while the work was being merged with it"
    );
    harness.apply(RunCommand::Resume);
    harness.apply(RunCommand::TargetMoved { step: 5, merge: merge_step("m5", &[]) });
    assert_eq!(harness.pending_effects(), ["land-2-6"]);
}

#[test]
fn live_run_cannot_be_resumed() {
    let mut harness = TestRun::open(run_spec());
    assert!(harness.try_apply(RunCommand::Resume).is_err());
    harness.start().cancel();
    assert!(harness.try_apply(RunCommand::Resume).is_err());
    assert_eq!(harness.state(1), State::Cancelled);
    assert_eq!(harness.run.attempts.len(), 1);
}
