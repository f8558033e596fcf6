//! Review modes and the handling of findings.

use provost_core::{
    lifecycle::ClaimKind,
    result::Finding,
    run::{ReviewMode, ReviewModes, RunCommand, RunEnding, RunFailureCause, RunSpec, RunStage},
    verdict::CheckEnd,
};

use super::kit::{TestRun, finding, reviewed_spec, run_spec, triage_result};
use crate::kit::snapshot;

fn repaired(title: &str) -> Finding {
    Finding { repaired: true, ..finding(title) }
}

#[test]
fn report_review_runs_once_findings_stay_open() {
    let mut harness = TestRun::open(reviewed_spec(ReviewMode::Report, ReviewMode::Off));
    harness.finish_work("new").finish_review("new", vec![finding("slow"), repaired("typo")]);
    assert_eq!(harness.run.stage, RunStage::Land);
    let open: Vec<&str> = harness.run.open_findings().map(|one| one.title.as_str()).collect();
    assert_eq!(open, ["slow"]);
    assert_eq!(harness.run.head, Some(snapshot("new")), "a report does not change the work");
    harness.land("new");
    assert_eq!(harness.ending(), RunEnding::Succeeded, "findings are reported and refute nothing");
    assert_eq!(harness.hooks(), ["run.opened", "run.findings", "run.succeeded"]);
}

#[test]
fn repair_review_repeats_up_to_cycle_limit() {
    let mut harness = TestRun::open(reviewed_spec(ReviewMode::Repair, ReviewMode::Off));
    harness.finish_work("new").finish_review("mended", vec![repaired("slow")]);
    assert_eq!((harness.run.stage, harness.last_session().cycle), (RunStage::TaskReview, 2));
    assert_eq!(harness.session(3).spec.name, "limit-task_review-2");
    harness.finish_review("mended-2", vec![repaired("slower")]);
    assert_eq!(harness.run.stage, RunStage::Land, "twice is enough");
    harness.land("mended-2");
    assert_eq!(harness.ending(), RunEnding::Succeeded);
    assert_eq!(harness.run.reviews.len(), 2);
}

#[test]
fn repair_review_without_findings_is_last() {
    let mut harness = TestRun::open(reviewed_spec(ReviewMode::Repair, ReviewMode::Off));
    harness
        .finish_work("new")
        .finish_review("mended", vec![finding("slow")])
        .finish_review("mended", Vec::new());
    assert_eq!(harness.run.stage, RunStage::Land);
    assert_eq!(harness.run.open_findings().count(), 0, "the last review of the stage counts");
    let mut harness = TestRun::open(RunSpec {
        reviews: ReviewModes {
            plan: ReviewMode::Off,
            task: ReviewMode::Repair,
            whole: ReviewMode::Off,
            cycles: 0,
        },
        ..run_spec()
    });
    harness.finish_work("new").finish_review("mended", vec![finding("slow")]);
    assert_eq!((harness.run.stage, harness.run.open_findings().count()), (RunStage::Land, 1));
}

#[test]
fn open_findings_come_from_both_review_stages() {
    let mut harness = TestRun::open(reviewed_spec(ReviewMode::Report, ReviewMode::Report));
    harness
        .finish_work("new")
        .finish_review("new", vec![finding("one")])
        .finish_review("new", vec![finding("two")]);
    let open: Vec<&str> = harness.run.open_findings().map(|one| one.title.as_str()).collect();
    assert_eq!(open, ["one", "two"]);
    assert_eq!(harness.run.reviews[1].stage, RunStage::FinalReview);
}

#[test]
fn refuted_repair_keeps_head_and_proof() {
    let mut harness = TestRun::open(reviewed_spec(ReviewMode::Repair, ReviewMode::Off));
    harness.finish_work("new");
    let proof = harness.run.proof.clone().expect("the work was proved");
    assert!(proof.is_for(&snapshot("new")) && !proof.is_for(&snapshot("mended")));
    let id = harness.live_session();
    harness
        .start()
        .turn(ClaimKind::Completed, Some(super::kit::review_result(vec![finding("slow")])));
    harness.verify("broken", CheckEnd::Exit(1)).end_session(id);
    assert_eq!(
        (harness.ending(), harness.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Review))
    );
    assert_eq!(
        harness.run.head,
        Some(snapshot("new")),
        "a refuted repair does not become the head"
    );
    assert!(harness.run.proof.is_some());
}

#[test]
fn unchecked_repair_is_committed_without_proof() {
    let mut harness = TestRun::open(RunSpec {
        checks: Vec::new(),
        ..reviewed_spec(ReviewMode::Repair, ReviewMode::Off)
    });
    harness.finish_work("-").take_head("new").finish_review("-", Vec::new());
    assert_eq!(harness.pending_effects(), [format!("commit-{}", harness.run.id.session(2))]);
    assert_eq!(harness.run.stage, RunStage::TaskReview);
    harness.take_head("mended").land("mended");
    assert_eq!(harness.ending(), RunEnding::Completed);
    assert_eq!(harness.outcome().head, Some(snapshot("mended")));
}

#[test]
fn uncommittable_repair_fails_the_run() {
    let mut harness = TestRun::open(RunSpec {
        checks: Vec::new(),
        ..reviewed_spec(ReviewMode::Repair, ReviewMode::Off)
    });
    harness.finish_work("-").take_head("new").finish_review("-", Vec::new());
    let session = harness.run.id.session(2);
    harness.apply(RunCommand::CommitFailed { session, reason: "index.lock".to_owned() });
    assert_eq!(
        (harness.outcome().cause, harness.outcome().detail.as_str()),
        (Some(RunFailureCause::Review), "index.lock")
    );
}

#[test]
fn review_without_findings_result_fails() {
    let mut harness = TestRun::open(reviewed_spec(ReviewMode::Report, ReviewMode::Off));
    harness.finish_work("new").finish_work("new");
    assert_eq!(
        (harness.ending(), harness.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Review))
    );
    assert_eq!(harness.outcome().detail, "the review returned no findings");
    let mut harness = TestRun::open(reviewed_spec(ReviewMode::Report, ReviewMode::Off));
    harness.finish_work("new").finish_session("new", Some(triage_result("it")));
    assert_eq!(
        harness.outcome().cause,
        Some(RunFailureCause::Review),
        "a triage result is not a review"
    );
    let mut harness = TestRun::open(reviewed_spec(ReviewMode::Report, ReviewMode::Off));
    harness.finish_work("new").fail_session();
    assert_eq!(harness.outcome().cause, Some(RunFailureCause::Review));
}

#[test]
fn disabled_reviews_are_skipped() {
    for (task, whole, reviewing) in [
        (ReviewMode::Off, ReviewMode::Report, RunStage::FinalReview),
        (ReviewMode::Report, ReviewMode::Off, RunStage::TaskReview),
    ] {
        let mut harness = TestRun::open(reviewed_spec(task, whole));
        harness.finish_work("new");
        assert_eq!(harness.run.stage, reviewing);
        harness.finish_review("new", Vec::new());
        assert_eq!(harness.run.stage, RunStage::Land);
    }
    assert_eq!(ReviewModes::default().mode_for(RunStage::TaskReview), ReviewMode::Report);
    assert_eq!(ReviewModes::default().mode_for(RunStage::FinalReview), ReviewMode::Off);
    for stage in [RunStage::Intake, RunStage::Triage, RunStage::Work, RunStage::Land] {
        let all = ReviewModes {
            plan: ReviewMode::Off,
            task: ReviewMode::Repair,
            whole: ReviewMode::Repair,
            cycles: 1,
        };
        assert_eq!(all.mode_for(stage), ReviewMode::Off);
    }
}
