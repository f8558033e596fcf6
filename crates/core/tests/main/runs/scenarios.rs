//! Scenarios of whole runs, from the first event to the seal.

use provost_core::{
    lifecycle::{ClaimKind, State},
    run::{
        LandingState, ReviewMode, RunCommand, RunEffect, RunEnding, RunFailureCause, RunSpec,
        RunStage,
    },
    session::{self, HookEnd, ManualOutcome},
    verdict::{CheckEnd, EmptyDiff},
};

use super::kit::{
    TestRun, finding, landed, review_result, reviewed_spec, run_spec, triage_result, triaged_spec,
    unchecked_spec,
};
use crate::kit::snapshot;

#[test]
fn run_passes_every_stage_and_succeeds() {
    let mut harness = TestRun::open(RunSpec {
        triage: true,
        ..reviewed_spec(ReviewMode::Report, ReviewMode::Repair)
    });
    harness.finish_session("old", Some(triage_result("limit it by address")));
    harness.finish_work("new").finish_review("new", vec![finding("slow")]);
    harness.finish_review("mended", Vec::new());
    assert_eq!(harness.pending_effects(), ["land-1-0"]);
    harness.land("mended");
    let stages = [
        RunStage::Triage,
        RunStage::Work,
        RunStage::TaskReview,
        RunStage::FinalReview,
        RunStage::Land,
    ];
    assert_eq!(harness.stages(), stages);
    assert_eq!((harness.ending(), harness.outcome().cause), (RunEnding::Succeeded, None));
    assert_eq!(harness.outcome().head, Some(snapshot("mended")));
    assert_eq!(harness.outcome().at, harness.now);
    let hooks = ["run.opened", "run.findings", "run.succeeded"];
    assert_eq!(harness.hooks(), hooks, "completion is announced after the last stage only");
    assert_eq!(harness.run.sessions.len(), 4);
}

#[test]
fn unchecked_work_is_committed_and_completes() {
    let mut harness = TestRun::open(unchecked_spec());
    harness.finish_work("-");
    assert_eq!(harness.pending_effects(), [format!("commit-{}", harness.run.id.session(1))]);
    assert_eq!(harness.run.stage, RunStage::Work, "the run waits until the work is committed");
    harness.take_head("new");
    assert_eq!(harness.run.stage, RunStage::Land);
    assert!(
        harness
            .try_apply(RunCommand::CommitFailed {
                session: harness.run.id.session(1),
                reason: "late".to_owned()
            })
            .is_err()
    );
    harness.land("new");
    assert_eq!(harness.ending(), RunEnding::Completed, "nothing was there to prove it by");
    assert_eq!(harness.run.sessions[0].end.as_ref().unwrap().head, Some(snapshot("new")));
}

#[test]
fn head_is_taken_once_from_its_session() {
    let mut harness = TestRun::open(unchecked_spec());
    harness.finish_work("-");
    let other = RunCommand::CommitRecorded {
        session: harness.run.id.session(7),
        head: snapshot("x"),
        caveats: Default::default(),
    };
    assert!(harness.try_apply(other).is_err());
    let again = harness.head_taken("new");
    harness.take_head("new");
    assert!(harness.try_apply(again).is_err(), "it is taken once");
}

#[test]
fn uncommittable_work_fails_the_run() {
    let mut harness = TestRun::open(unchecked_spec());
    harness.finish_work("-");
    let session = harness.run.id.session(1);
    harness.apply(RunCommand::CommitFailed { session, reason: "no room".to_owned() });
    assert_eq!(
        (harness.ending(), harness.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Work))
    );
    assert_eq!(harness.outcome().detail, "no room");
    assert!(harness.pending_effects().is_empty());
}

#[test]
fn empty_diff_fails_unless_accepted() {
    let mut harness = TestRun::open(unchecked_spec());
    harness.finish_work("-").take_head("old");
    assert_eq!(
        (harness.ending(), harness.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Work))
    );
    assert_eq!(harness.outcome().detail, "nothing was changed");
    let mut harness =
        TestRun::open(RunSpec { empty_diff: EmptyDiff::Accepted, ..unchecked_spec() });
    harness.finish_work("-").take_head("old").land("old");
    assert_eq!(harness.ending(), RunEnding::Completed);
}

#[test]
fn refuted_work_fails_run_with_session_outcome() {
    let mut harness = TestRun::open(run_spec());
    let id = harness.live_session();
    harness
        .start()
        .turn(ClaimKind::Completed, None)
        .verify("new", CheckEnd::Exit(1))
        .end_session(id);
    assert_eq!(harness.state(1), State::Failed);
    assert_eq!(
        (harness.ending(), harness.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Work))
    );
    let expected =
        "its session ended as failed (verification): the check `check` ended with exit 1";
    assert_eq!(harness.outcome().detail, expected);
    assert_eq!(harness.run.head, None, "refuted work does not become the head");
    assert_eq!(harness.run.proof, None);
}

#[test]
fn run_outcome_names_session_failure() {
    let mut harness = TestRun::open(run_spec());
    let id = harness.live_session();
    let reason = "the branch is taken".to_owned();
    harness.apply_to_live(session::SessionCommand::WorkFailed { reason }).end_session(id);
    let expected = "its session ended as failed (launch): the branch is taken";
    assert_eq!(harness.outcome().detail, expected);
    let mut harness = TestRun::open(run_spec());
    let id = harness.live_session();
    harness.start().turn(ClaimKind::Completed, None);
    let no = harness.sessions[&id].attempt().verifying.taken + 1;
    let reason = "the disk is full".to_owned();
    harness
        .apply_to_live(session::SessionCommand::SnapshotFailed { attempt: 1, no, reason })
        .end_session(id);
    let expected = "the work could not be committed: the disk is full";
    assert!(harness.outcome().detail.ends_with(expected), "{}", harness.outcome().detail);
}

#[test]
fn triage_without_result_fails() {
    let mut harness = TestRun::open(triaged_spec());
    harness.finish_work("old");
    assert_eq!(
        (harness.ending(), harness.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Triage))
    );
    assert_eq!(harness.outcome().detail, "triage returned no result");
    let mut harness = TestRun::open(triaged_spec());
    harness.finish_session("old", Some(review_result(Vec::new())));
    assert_eq!(
        harness.outcome().cause,
        Some(RunFailureCause::Triage),
        "a review is not a triage result"
    );
    let mut harness = TestRun::open(triaged_spec());
    harness.fail_session();
    assert_eq!(harness.outcome().cause, Some(RunFailureCause::Triage));
    let expected = "its session ended as failed (self_reported): it said: so";
    assert_eq!(harness.outcome().detail, expected);
}

#[test]
fn acceptance_without_proof_is_not_success() {
    let mut harness = TestRun::open(run_spec());
    harness.start().apply_to_live(provost_core::session::SessionCommand::Resolve {
        to: ManualOutcome::Accepted,
        because: "I say so".to_owned(),
    });
    harness.end_session(harness.run.id.session(1)).take_head("new").land("new");
    assert_eq!(harness.state(1), State::Accepted);
    assert_eq!(harness.ending(), RunEnding::Completed, "users accept, only checks prove");
}

#[test]
fn landing_before_last_stage_is_rejected() {
    let mut harness = TestRun::open(reviewed_spec(ReviewMode::Report, ReviewMode::Off));
    assert!(harness.try_apply(landed("new")).is_err());
    harness.finish_work("new");
    assert_eq!(harness.run.stage, RunStage::TaskReview);
    assert!(harness.try_apply(landed("new")).is_err());
    let failed = RunCommand::LandingFailed { attempt: 1, reason: String::new() };
    assert!(harness.try_apply(failed).is_err());
    assert_eq!(harness.run.landing, LandingState::Open);
}

#[test]
fn hooks_run_once_and_report_is_written_once() {
    let mut harness = TestRun::open(run_spec());
    harness.finish_work("new").land("new");
    assert!(!harness.run.is_closed());
    for hook in harness.run.hooks.clone() {
        let done = RunCommand::HookFinished { key: hook.key, end: HookEnd::Exit(0) };
        assert!(harness.run.effects().contains(&RunEffect::RunHook(hook.key)));
        harness.apply(done.clone());
        assert!(harness.try_apply(done).is_err(), "it ran once");
    }
    assert_eq!(harness.run.effects(), [RunEffect::WriteReport { attempt: 1 }]);
    let written = |attempt| RunCommand::ReportWritten { attempt, failure: None, changed: None };
    assert!(harness.try_apply(written(2)).is_err());
    harness.apply(written(1));
    assert!(harness.try_apply(written(1)).is_err());
    assert!(harness.run.is_closed());
}

#[test]
fn unconfigured_run_hook_does_not_fire() {
    let mut harness = TestRun::open(RunSpec { hooks: Default::default(), ..run_spec() });
    harness.finish_work("new").land("new");
    assert_eq!(harness.hooks(), Vec::<String>::new());
    assert!(harness.run.hooks_fired.is_empty());
}

#[test]
fn run_effect_keys_are_directory_names() {
    let mut harness = TestRun::open(run_spec());
    assert_eq!(harness.run.effects()[0].key(), "h1-run.opened");
    harness.finish_work("new").land("new");
    let keys: Vec<String> = harness.run.effects().iter().map(RunEffect::key).collect();
    assert_eq!(keys, ["h1-run.opened", "h1-run.succeeded", "summary-1"]);
    assert_eq!(RunEffect::WatchPullRequest { attempt: 2, change: 3 }.key(), "pull-2-3");
    assert_eq!(RunEffect::CheckLanded { attempt: 2 }.key(), "landed-2");
}
