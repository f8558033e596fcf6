//! A cancelled run stays cancelled in every stage, and is sealed only when nothing of it is running.

use provost_core::{
    lifecycle::{ClaimKind, State},
    run::{
        LandMode, LandingState, PullRequest, PullRequestChecks, ReviewMode, RunCommand, RunEnding,
        RunRejection, RunSpec, RunStage,
    },
    verdict::CheckEnd,
};

use super::kit::{
    TestRun, comment, landed, landing_spec, merge_step, pull_requested, reviewed_spec,
    triage_result, triaged_spec, unchecked_spec,
};
use crate::kit::snapshot;

/// Cancels while a session is live: the run waits for the session's end and is sealed with it.
fn cancel_with_a_live_session(harness: &mut TestRun) {
    let id = harness.live_session();
    let no = harness.last_session().no;
    harness.start().cancel();
    assert_eq!(harness.state(no), State::Cancelled, "the live session is cancelled at once");
    assert!(!harness.run.is_sealed(), "its process is not known to be gone");
    let again = harness.try_apply(RunCommand::Cancel { because: "again".to_owned() });
    assert_eq!(again, Ok(()));
    assert_eq!(harness.try_apply(RunCommand::Resume), Err(RunRejection::StillActive));
    harness.end_session(id);
    let attempt = harness.session(no).attempt();
    assert_eq!(attempt.cancelled.as_deref(), Some("its run was cancelled: enough"));
}

fn assert_cancelled(harness: &mut TestRun) {
    assert_eq!((harness.ending(), harness.outcome().cause), (RunEnding::Cancelled, None));
    assert_eq!(harness.outcome().detail, "enough");
    assert!(harness.pending_effects().is_empty());
    assert_eq!(harness.hooks().last().map(String::as_str), Some("run.cancelled"));
    let sealed = harness.outcome().clone();
    let again = harness.try_apply(RunCommand::Cancel { because: "again".to_owned() });
    assert_eq!(again, Ok(()), "it is already cancelled");
    for late in [
        landed("new"),
        pull_requested("new"),
        RunCommand::LandingFailed { attempt: 1, reason: "late".to_owned() },
        RunCommand::LandingAborted { attempt: 1, pull: None },
        RunCommand::TargetMoved { step: 0, merge: merge_step("merged", &[]) },
        harness.pull_seen(PullRequestChecks::Failed, &[comment("late", "late")]),
    ] {
        assert!(harness.try_apply(late.clone()).is_err(), "{late:?}");
    }
    harness.advance_clock(100_000);
    assert_eq!(harness.outcome(), &sealed);
}

#[test]
fn cancelled_since_is_the_seal_time() {
    let mut harness = TestRun::open(triaged_spec());
    let (id, opened) = (harness.live_session(), harness.run.since);
    harness.start().advance_clock(5_000).cancel();
    assert_eq!(harness.run.state().as_str(), "stopping");
    assert_eq!(harness.run.since.mono_ms, opened.mono_ms + 5_000);
    harness.advance_clock(2_000).end_session(id);
    assert_eq!(harness.run.state().as_str(), "cancelled");
    assert_eq!(harness.run.since, harness.outcome().at);
    assert!(harness.run.since.mono_ms >= opened.mono_ms + 7_000);
}

#[test]
fn run_reason_names_wait_and_outcome() {
    let mut harness = TestRun::open(triaged_spec());
    let id = harness.live_session();
    let reason = |harness: &TestRun| {
        let reason = harness.run.reason(|id| harness.sessions.get(&id));
        (reason.text, reason.session)
    };
    let waits = "it waits for its session of the stage triage";
    assert_eq!(reason(&harness), (waits.to_owned(), Some(id)));
    harness.start().cancel();
    let stopping = "it was cancelled: enough; its sessions are being stopped";
    assert_eq!(reason(&harness), (stopping.to_owned(), Some(id)));
    harness.end_session(id);
    assert_eq!(reason(&harness), ("it was cancelled: enough".to_owned(), None));
}

#[test]
fn cancel_in_triage() {
    let mut harness = TestRun::open(triaged_spec());
    cancel_with_a_live_session(&mut harness);
    assert_cancelled(&mut harness);
    assert_eq!((harness.run.stage, harness.outcome().head.clone()), (RunStage::Triage, None));
}

#[test]
fn cancel_at_work() {
    let mut harness = TestRun::open(triaged_spec());
    harness.finish_session("old", Some(triage_result("it")));
    cancel_with_a_live_session(&mut harness);
    assert_cancelled(&mut harness);
    assert_eq!(harness.run.stage, RunStage::Work);
}

#[test]
fn cancel_while_head_is_committed() {
    let mut harness = TestRun::open(unchecked_spec());
    harness.finish_work("-");
    let late = harness.head_taken("new");
    harness.cancel();
    assert!(harness.try_apply(late).is_err());
    assert_cancelled(&mut harness);
}

#[test]
fn cancel_in_review() {
    for (task, whole) in
        [(ReviewMode::Report, ReviewMode::Off), (ReviewMode::Off, ReviewMode::Repair)]
    {
        let mut harness = TestRun::open(reviewed_spec(task, whole));
        harness.finish_work("new");
        cancel_with_a_live_session(&mut harness);
        assert_cancelled(&mut harness);
        assert_eq!(harness.outcome().head, Some(snapshot("new")), "every byte of work is kept");
    }
}

#[test]
fn cancel_while_landing_waits_for_landing_result() {
    for land in [LandMode::Branch, LandMode::Merge, LandMode::Pr] {
        let mut harness = TestRun::open(landing_spec(land));
        harness.finish_work("new");
        assert_eq!(harness.pending_effects(), ["land-1-0"]);
        harness.cancel();
        assert!(!harness.run.is_sealed());
        assert_eq!(
            harness.pending_effects(),
            ["landed-1"],
            "nothing more may land, and it is asked what had"
        );
        assert!(harness.try_apply(RunCommand::LandingAborted { attempt: 2, pull: None }).is_err());
        harness.apply(RunCommand::LandingAborted { attempt: 1, pull: None });
        assert_cancelled(&mut harness);
    }
}

#[test]
fn cancel_after_landing_records_it_stays_cancelled() {
    let mut harness = TestRun::open(landing_spec(LandMode::Merge));
    harness.finish_work("new").cancel().land("new");
    assert!(matches!(&harness.run.landing, LandingState::Done(landed) if !landed.merged));
    assert_cancelled(&mut harness);
    harness.apply(RunCommand::Resume);
    assert_eq!(harness.ending(), RunEnding::Succeeded, "nothing is left to do");
}

#[test]
fn cancel_keeps_pull_request_opened_meanwhile() {
    let pull =
        PullRequest { number: 12, url: "u".to_owned(), commit: snapshot("new").commit, seen: None };
    let mut harness = TestRun::open(landing_spec(LandMode::Pr));
    harness.finish_work("new").cancel();
    harness.apply(RunCommand::LandingAborted { attempt: 1, pull: Some(pull.clone()) });
    assert_cancelled(&mut harness);
    assert_eq!(harness.run.landing, LandingState::Requested(pull));
    let mut harness = TestRun::open(landing_spec(LandMode::Pr));
    harness.finish_work("new").cancel().open_pull_request("new");
    assert!(!harness.run.is_sealed());
    harness.apply(RunCommand::LandingAborted { attempt: 1, pull: None });
    assert!(matches!(harness.run.landing, LandingState::Requested(_)), "it is not forgotten");
    assert_cancelled(&mut harness);
}

#[test]
fn cancel_while_pull_request_is_watched() {
    let mut harness = TestRun::open(landing_spec(LandMode::Pr));
    harness.finish_work("new").open_pull_request("new");
    assert_eq!(harness.pending_effects(), ["pull-1-0"]);
    let late = harness.pull_seen(PullRequestChecks::Passed, &[]);
    harness.cancel();
    assert!(harness.try_apply(late).is_err());
    harness.apply(RunCommand::LandingAborted { attempt: 1, pull: None });
    assert_cancelled(&mut harness);
}

#[test]
fn cancel_during_landing_step() {
    let mut harness = TestRun::open(landing_spec(LandMode::Merge));
    harness
        .finish_work("new")
        .apply(RunCommand::TargetMoved { step: 0, merge: merge_step("m", &["a"]) });
    cancel_with_a_live_session(&mut harness);
    assert!(!harness.run.is_sealed(), "it may have landed");
    harness.apply(RunCommand::LandingAborted { attempt: 1, pull: None });
    assert_cancelled(&mut harness);
}

#[test]
fn late_claim_or_verdict_keeps_cancelled() {
    let mut harness = TestRun::open(unchecked_spec());
    let id = harness.live_session();
    harness.start().cancel().turn(ClaimKind::Completed, None).end_session(id);
    assert_cancelled(&mut harness);
    let mut harness = TestRun::open(landing_spec(LandMode::Branch));
    let id = harness.live_session();
    harness.start().turn(ClaimKind::Completed, None).verify("new", CheckEnd::Exit(0));
    harness.cancel().end_session(id);
    assert_cancelled(&mut harness);
    assert_eq!(harness.run.head, None);
}

#[test]
fn failing_run_can_be_cancelled() {
    let mut harness = TestRun::open(landing_spec(LandMode::Pr));
    harness.finish_work("new").open_pull_request("new").see_pull(PullRequestChecks::Failed, &[]);
    assert_eq!(harness.pending_effects(), ["landed-1"], "it is asked whether something had landed");
    harness.cancel().apply(RunCommand::LandingAborted { attempt: 1, pull: None });
    assert_cancelled(&mut harness);
}

#[test]
fn cancelled_run_can_be_cancelled_again() {
    let mut harness = TestRun::open(unchecked_spec());
    let session = harness.live_session();
    harness.cancel().end_session(session);
    assert!(harness.run.is_sealed());
    let before = harness.run.clone();
    assert_eq!(harness.try_apply(RunCommand::Cancel { because: "again".to_owned() }), Ok(()));
    assert_eq!(harness.run, before);
}

#[test]
fn sealed_run_cannot_be_cancelled() {
    let mut harness = TestRun::open(RunSpec { land: LandMode::Branch, ..unchecked_spec() });
    harness.finish_work("-").take_head("new").land("new");
    let refused = harness.try_apply(RunCommand::Cancel { because: "late".to_owned() });
    assert_eq!(refused, Err(RunRejection::Sealed("completed")));
    assert_eq!(harness.try_apply(RunCommand::Resume), Err(RunRejection::NothingToResume));
}
