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
    TestRun, landed, landing_spec, merge_step, pull_requested, remark, reviewed_spec,
    triage_result, triaged_spec, unchecked_spec,
};
use crate::kit::snapshot;

/// Cancels while a session is live: the run waits for the session's end and is sealed with it.
fn cancel_with_a_live_session(bench: &mut TestRun) {
    let id = bench.live_session();
    let no = bench.last_session().no;
    bench.start().cancel();
    assert_eq!(bench.state(no), State::Cancelled, "the live session is cancelled at once");
    assert!(!bench.run.is_sealed(), "its process is not known to be gone");
    let again = bench.try_apply(RunCommand::Cancel { because: "again".to_owned() });
    assert_eq!(again, Ok(()));
    assert_eq!(bench.try_apply(RunCommand::Resume), Err(RunRejection::StillActive));
    bench.end_session(id);
    let attempt = bench.session(no).attempt();
    assert_eq!(attempt.cancelled.as_deref(), Some("its run was cancelled: enough"));
}

fn assert_cancelled(bench: &mut TestRun) {
    assert_eq!((bench.ending(), bench.outcome().cause), (RunEnding::Cancelled, None));
    assert_eq!(bench.outcome().detail, "enough");
    assert!(bench.pending_effects().is_empty());
    assert_eq!(bench.hooks().last().map(String::as_str), Some("run.cancelled"));
    let sealed = bench.outcome().clone();
    let again = bench.try_apply(RunCommand::Cancel { because: "again".to_owned() });
    assert_eq!(again, Ok(()), "it is already cancelled");
    for late in [
        landed("new"),
        pull_requested("new"),
        RunCommand::LandingFailed { attempt: 1, reason: "late".to_owned() },
        RunCommand::LandingAborted { attempt: 1, pull: None },
        RunCommand::TargetMoved { step: 0, merge: merge_step("merged", &[]) },
        bench.pull_seen(PullRequestChecks::Failed, &[remark("late", "late")]),
    ] {
        assert!(bench.try_apply(late.clone()).is_err(), "{late:?}");
    }
    bench.advance_clock(100_000);
    assert_eq!(bench.outcome(), &sealed);
}

#[test]
fn cancelled_since_is_the_seal_time() {
    let mut bench = TestRun::open(triaged_spec());
    let (id, opened) = (bench.live_session(), bench.run.since);
    bench.start().advance_clock(5_000).cancel();
    assert_eq!(bench.run.state().as_str(), "stopping");
    assert_eq!(bench.run.since.mono_ms, opened.mono_ms + 5_000);
    bench.advance_clock(2_000).end_session(id);
    assert_eq!(bench.run.state().as_str(), "cancelled");
    assert_eq!(bench.run.since, bench.outcome().at);
    assert!(bench.run.since.mono_ms >= opened.mono_ms + 7_000);
}

#[test]
fn run_reason_names_wait_and_outcome() {
    let mut bench = TestRun::open(triaged_spec());
    let id = bench.live_session();
    let reason = |bench: &TestRun| {
        let reason = bench.run.reason(|id| bench.sessions.get(&id));
        (reason.text, reason.session)
    };
    let waits = "it waits for its session of the stage triage";
    assert_eq!(reason(&bench), (waits.to_owned(), Some(id)));
    bench.start().cancel();
    let stopping = "it was cancelled: enough; its sessions are being stopped";
    assert_eq!(reason(&bench), (stopping.to_owned(), Some(id)));
    bench.end_session(id);
    assert_eq!(reason(&bench), ("it was cancelled: enough".to_owned(), None));
}

#[test]
fn cancel_in_triage() {
    let mut bench = TestRun::open(triaged_spec());
    cancel_with_a_live_session(&mut bench);
    assert_cancelled(&mut bench);
    assert_eq!((bench.run.stage, bench.outcome().head.clone()), (RunStage::Triage, None));
}

#[test]
fn cancel_at_work() {
    let mut bench = TestRun::open(triaged_spec());
    bench.finish_session("old", Some(triage_result("it")));
    cancel_with_a_live_session(&mut bench);
    assert_cancelled(&mut bench);
    assert_eq!(bench.run.stage, RunStage::Work);
}

#[test]
fn cancel_while_head_is_committed() {
    let mut bench = TestRun::open(unchecked_spec());
    bench.finish_work("-");
    let late = bench.head_taken("new");
    bench.cancel();
    assert!(bench.try_apply(late).is_err());
    assert_cancelled(&mut bench);
}

#[test]
fn cancel_in_review() {
    for (task, whole) in
        [(ReviewMode::Report, ReviewMode::Off), (ReviewMode::Off, ReviewMode::Repair)]
    {
        let mut bench = TestRun::open(reviewed_spec(task, whole));
        bench.finish_work("new");
        cancel_with_a_live_session(&mut bench);
        assert_cancelled(&mut bench);
        assert_eq!(bench.outcome().head, Some(snapshot("new")), "every byte of work is kept");
    }
}

#[test]
fn cancel_while_landing_waits_for_landing_result() {
    for land in [LandMode::Branch, LandMode::Merge, LandMode::Pr] {
        let mut bench = TestRun::open(landing_spec(land));
        bench.finish_work("new");
        assert_eq!(bench.pending_effects(), ["land-1-0"]);
        bench.cancel();
        assert!(!bench.run.is_sealed());
        assert_eq!(
            bench.pending_effects(),
            ["landed-1"],
            "nothing more may land, and it is asked what had"
        );
        assert!(bench.try_apply(RunCommand::LandingAborted { attempt: 2, pull: None }).is_err());
        bench.apply(RunCommand::LandingAborted { attempt: 1, pull: None });
        assert_cancelled(&mut bench);
    }
}

#[test]
fn cancel_after_landing_records_it_stays_cancelled() {
    let mut bench = TestRun::open(landing_spec(LandMode::Merge));
    bench.finish_work("new").cancel().land("new");
    assert!(matches!(&bench.run.landing, LandingState::Done(landed) if !landed.merged));
    assert_cancelled(&mut bench);
    bench.apply(RunCommand::Resume);
    assert_eq!(bench.ending(), RunEnding::Succeeded, "nothing is left to do");
}

#[test]
fn cancel_keeps_pull_request_opened_meanwhile() {
    let pull =
        PullRequest { number: 12, url: "u".to_owned(), commit: snapshot("new").commit, seen: None };
    let mut bench = TestRun::open(landing_spec(LandMode::Pr));
    bench.finish_work("new").cancel();
    bench.apply(RunCommand::LandingAborted { attempt: 1, pull: Some(pull.clone()) });
    assert_cancelled(&mut bench);
    assert_eq!(bench.run.landing, LandingState::Requested(pull));
    let mut bench = TestRun::open(landing_spec(LandMode::Pr));
    bench.finish_work("new").cancel().open_pull_request("new");
    assert!(!bench.run.is_sealed());
    bench.apply(RunCommand::LandingAborted { attempt: 1, pull: None });
    assert!(matches!(bench.run.landing, LandingState::Requested(_)), "it is not forgotten");
    assert_cancelled(&mut bench);
}

#[test]
fn cancel_while_pull_request_is_watched() {
    let mut bench = TestRun::open(landing_spec(LandMode::Pr));
    bench.finish_work("new").open_pull_request("new");
    assert_eq!(bench.pending_effects(), ["pull-1-0"]);
    let late = bench.pull_seen(PullRequestChecks::Passed, &[]);
    bench.cancel();
    assert!(bench.try_apply(late).is_err());
    bench.apply(RunCommand::LandingAborted { attempt: 1, pull: None });
    assert_cancelled(&mut bench);
}

#[test]
fn cancel_during_landing_step() {
    let mut bench = TestRun::open(landing_spec(LandMode::Merge));
    bench
        .finish_work("new")
        .apply(RunCommand::TargetMoved { step: 0, merge: merge_step("m", &["a"]) });
    cancel_with_a_live_session(&mut bench);
    assert!(!bench.run.is_sealed(), "it may have landed");
    bench.apply(RunCommand::LandingAborted { attempt: 1, pull: None });
    assert_cancelled(&mut bench);
}

#[test]
fn late_claim_or_verdict_keeps_cancelled() {
    let mut bench = TestRun::open(unchecked_spec());
    let id = bench.live_session();
    bench.start().cancel().turn(ClaimKind::Completed, None).end_session(id);
    assert_cancelled(&mut bench);
    let mut bench = TestRun::open(landing_spec(LandMode::Branch));
    let id = bench.live_session();
    bench.start().turn(ClaimKind::Completed, None).verify("new", CheckEnd::Exit(0));
    bench.cancel().end_session(id);
    assert_cancelled(&mut bench);
    assert_eq!(bench.run.head, None);
}

#[test]
fn failing_run_can_be_cancelled() {
    let mut bench = TestRun::open(landing_spec(LandMode::Pr));
    bench.finish_work("new").open_pull_request("new").see_pull(PullRequestChecks::Failed, &[]);
    assert_eq!(bench.pending_effects(), ["landed-1"], "it is asked whether something had landed");
    bench.cancel().apply(RunCommand::LandingAborted { attempt: 1, pull: None });
    assert_cancelled(&mut bench);
}

#[test]
fn cancelled_run_can_be_cancelled_again() {
    let mut bench = TestRun::open(unchecked_spec());
    let session = bench.live_session();
    bench.cancel().end_session(session);
    assert!(bench.run.is_sealed());
    let before = bench.run.clone();
    assert_eq!(bench.try_apply(RunCommand::Cancel { because: "again".to_owned() }), Ok(()));
    assert_eq!(bench.run, before);
}

#[test]
fn sealed_run_cannot_be_cancelled() {
    let mut bench = TestRun::open(RunSpec { land: LandMode::Branch, ..unchecked_spec() });
    bench.finish_work("-").take_head("new").land("new");
    let refused = bench.try_apply(RunCommand::Cancel { because: "late".to_owned() });
    assert_eq!(refused, Err(RunRejection::Sealed("completed")));
    assert_eq!(bench.try_apply(RunCommand::Resume), Err(RunRejection::NothingToResume));
}
