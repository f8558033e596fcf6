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
    let mut bench = TestRun::open(RunSpec {
        triage: true,
        ..reviewed_spec(ReviewMode::Report, ReviewMode::Repair)
    });
    bench.finish_session("old", Some(triage_result("limit it by address")));
    bench.finish_work("new").finish_review("new", vec![finding("slow")]);
    bench.finish_review("mended", Vec::new());
    assert_eq!(bench.pending_effects(), ["land-1-0"]);
    bench.land("mended");
    let stages = [
        RunStage::Triage,
        RunStage::Work,
        RunStage::TaskReview,
        RunStage::FinalReview,
        RunStage::Land,
    ];
    assert_eq!(bench.stages(), stages);
    assert_eq!((bench.ending(), bench.outcome().cause), (RunEnding::Succeeded, None));
    assert_eq!(bench.outcome().head, Some(snapshot("mended")));
    assert_eq!(bench.outcome().at, bench.now);
    let hooks = ["run.opened", "run.findings", "run.succeeded"];
    assert_eq!(bench.hooks(), hooks, "completion is announced after the last stage only");
    assert_eq!(bench.run.sessions.len(), 4);
}

#[test]
fn unchecked_work_is_committed_and_completes() {
    let mut bench = TestRun::open(unchecked_spec());
    bench.finish_work("-");
    assert_eq!(bench.pending_effects(), [format!("head-{}", bench.run.id.session(1))]);
    assert_eq!(bench.run.stage, RunStage::Work, "the run waits until the work is committed");
    bench.take_head("new");
    assert_eq!(bench.run.stage, RunStage::Land);
    assert!(
        bench
            .try_apply(RunCommand::CommitFailed {
                session: bench.run.id.session(1),
                reason: "late".to_owned()
            })
            .is_err()
    );
    bench.land("new");
    assert_eq!(bench.ending(), RunEnding::Completed, "nothing was there to prove it by");
    assert_eq!(bench.run.sessions[0].end.as_ref().unwrap().head, Some(snapshot("new")));
}

#[test]
fn head_is_taken_once_from_its_session() {
    let mut bench = TestRun::open(unchecked_spec());
    bench.finish_work("-");
    let other = RunCommand::CommitRecorded {
        session: bench.run.id.session(7),
        head: snapshot("x"),
        caveats: Default::default(),
    };
    assert!(bench.try_apply(other).is_err());
    let again = bench.head_taken("new");
    bench.take_head("new");
    assert!(bench.try_apply(again).is_err(), "it is taken once");
}

#[test]
fn uncommittable_work_fails_the_run() {
    let mut bench = TestRun::open(unchecked_spec());
    bench.finish_work("-");
    let session = bench.run.id.session(1);
    bench.apply(RunCommand::CommitFailed { session, reason: "no room".to_owned() });
    assert_eq!(
        (bench.ending(), bench.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Work))
    );
    assert_eq!(bench.outcome().detail, "no room");
    assert!(bench.pending_effects().is_empty());
}

#[test]
fn empty_diff_fails_unless_accepted() {
    let mut bench = TestRun::open(unchecked_spec());
    bench.finish_work("-").take_head("old");
    assert_eq!(
        (bench.ending(), bench.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Work))
    );
    assert_eq!(bench.outcome().detail, "nothing was changed");
    let mut bench = TestRun::open(RunSpec { empty_diff: EmptyDiff::Accepted, ..unchecked_spec() });
    bench.finish_work("-").take_head("old").land("old");
    assert_eq!(bench.ending(), RunEnding::Completed);
}

#[test]
fn refuted_work_fails_run_with_session_outcome() {
    let mut bench = TestRun::open(run_spec());
    let id = bench.live_session();
    bench.start().turn(ClaimKind::Completed, None).verify("new", CheckEnd::Exit(1)).end_session(id);
    assert_eq!(bench.state(1), State::Failed);
    assert_eq!(
        (bench.ending(), bench.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Work))
    );
    let told = "its session ended as failed (verification): the check `check` ended with exit 1";
    assert_eq!(bench.outcome().detail, told);
    assert_eq!(bench.run.head, None, "refuted work does not become the head");
    assert_eq!(bench.run.proof, None);
}

#[test]
fn run_outcome_names_session_failure() {
    let mut bench = TestRun::open(run_spec());
    let id = bench.live_session();
    let reason = "the branch is taken".to_owned();
    bench.apply_to_live(session::SessionCommand::WorkFailed { reason }).end_session(id);
    let told = "its session ended as failed (launch): the branch is taken";
    assert_eq!(bench.outcome().detail, told);
    let mut bench = TestRun::open(run_spec());
    let id = bench.live_session();
    bench.start().turn(ClaimKind::Completed, None);
    let no = bench.sessions[&id].attempt().verifying.taken + 1;
    let reason = "the disk is full".to_owned();
    bench
        .apply_to_live(session::SessionCommand::SnapshotFailed { attempt: 1, no, reason })
        .end_session(id);
    let told = "the work could not be committed: the disk is full";
    assert!(bench.outcome().detail.ends_with(told), "{}", bench.outcome().detail);
}

#[test]
fn triage_without_result_fails() {
    let mut bench = TestRun::open(triaged_spec());
    bench.finish_work("old");
    assert_eq!(
        (bench.ending(), bench.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Triage))
    );
    assert_eq!(bench.outcome().detail, "triage returned no result");
    let mut bench = TestRun::open(triaged_spec());
    bench.finish_session("old", Some(review_result(Vec::new())));
    assert_eq!(
        bench.outcome().cause,
        Some(RunFailureCause::Triage),
        "a review is not a triage result"
    );
    let mut bench = TestRun::open(triaged_spec());
    bench.fail_session();
    assert_eq!(bench.outcome().cause, Some(RunFailureCause::Triage));
    let told = "its session ended as failed (self_reported): it said: so";
    assert_eq!(bench.outcome().detail, told);
}

#[test]
fn acceptance_without_proof_is_not_success() {
    let mut bench = TestRun::open(run_spec());
    bench.start().apply_to_live(provost_core::session::SessionCommand::Resolve {
        to: ManualOutcome::Accepted,
        because: "I say so".to_owned(),
    });
    bench.end_session(bench.run.id.session(1)).take_head("new").land("new");
    assert_eq!(bench.state(1), State::Accepted);
    assert_eq!(bench.ending(), RunEnding::Completed, "users accept, only checks prove");
}

#[test]
fn landing_before_last_stage_is_rejected() {
    let mut bench = TestRun::open(reviewed_spec(ReviewMode::Report, ReviewMode::Off));
    assert!(bench.try_apply(landed("new")).is_err());
    bench.finish_work("new");
    assert_eq!(bench.run.stage, RunStage::TaskReview);
    assert!(bench.try_apply(landed("new")).is_err());
    let failed = RunCommand::LandingFailed { attempt: 1, reason: String::new() };
    assert!(bench.try_apply(failed).is_err());
    assert_eq!(bench.run.landing, LandingState::Open);
}

#[test]
fn hooks_run_once_and_report_is_written_once() {
    let mut bench = TestRun::open(run_spec());
    bench.finish_work("new").land("new");
    assert!(!bench.run.is_closed());
    for hook in bench.run.hooks.clone() {
        let done = RunCommand::HookFinished { key: hook.key, end: HookEnd::Exit(0) };
        assert!(bench.run.effects().contains(&RunEffect::RunHook(hook.key)));
        bench.apply(done.clone());
        assert!(bench.try_apply(done).is_err(), "it ran once");
    }
    assert_eq!(bench.run.effects(), [RunEffect::WriteReport { attempt: 1 }]);
    let written = |leg| RunCommand::ReportWritten { attempt: leg, failure: None, changed: None };
    assert!(bench.try_apply(written(2)).is_err());
    bench.apply(written(1));
    assert!(bench.try_apply(written(1)).is_err());
    assert!(bench.run.is_closed());
}

#[test]
fn unconfigured_run_hook_does_not_fire() {
    let mut bench = TestRun::open(RunSpec { hooks: Default::default(), ..run_spec() });
    bench.finish_work("new").land("new");
    assert_eq!(bench.hooks(), Vec::<String>::new());
    assert!(bench.run.hooks_fired.is_empty());
}

#[test]
fn run_effect_keys_are_directory_names() {
    let mut bench = TestRun::open(run_spec());
    assert_eq!(bench.run.effects()[0].key(), "h1-run.opened");
    bench.finish_work("new").land("new");
    let keys: Vec<String> = bench.run.effects().iter().map(RunEffect::key).collect();
    assert_eq!(keys, ["h1-run.opened", "h1-run.succeeded", "card-1"]);
    assert_eq!(RunEffect::WatchPullRequest { attempt: 2, change: 3 }.key(), "pull-2-3");
    assert_eq!(RunEffect::CheckLanded { attempt: 2 }.key(), "landed-2");
}
