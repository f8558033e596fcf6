//! Reviews of single tasks, and heads of unchecked work.

use provost_core::{
    run::{ReviewMode, RunCommand, RunEnding, RunSpec, RunStage},
    session::StreamSignal,
};

use super::kit::{TestRun, id, planned_spec};
use crate::{
    kit::snapshot,
    runs::kit::{finding, review_result},
};

fn reviewed(mode: ReviewMode) -> TestRun {
    let mut spec = planned_spec(&[("a", &[]), ("b", &[])]);
    spec.reviews.task = mode;
    TestRun::open(spec)
}

#[test]
fn task_is_reviewed_while_others_continue() {
    let mut harness = reviewed(ReviewMode::Report);
    harness.focus_task("a").finish_work("a1");
    assert_eq!((harness.phase_name("a"), harness.phase_name("b")), ("review", "working"));
    let last = harness.last_session().clone();
    assert_eq!((last.stage, last.task), (RunStage::TaskReview, Some(id("a"))));
    let instruction = harness.focus_task("a").instruction().to_owned();
    assert!(
        instruction.contains("`git diff commit-of-old`") && instruction.contains("Do a."),
        "{instruction}"
    );
    harness.finish_review("a1", vec![finding("slow")]);
    assert_eq!(harness.phase_name("a"), "queued", "a report is a report");
    assert_eq!(harness.run.open_findings().count(), 1);
    harness.focus_task("b").finish_work("b1").focus_task("b");
    assert!(!harness.instruction().contains("slow"), "that is about another task");
}

#[test]
fn repairing_review_repeats_up_to_cycle_limit() {
    let mut harness = reviewed(ReviewMode::Repair);
    harness
        .focus_task("a")
        .finish_work("a1")
        .focus_task("a")
        .finish_review("a2", vec![finding("slow")]);
    assert_eq!((harness.phase_name("a"), harness.last_session().cycle), ("review", 2));
    assert_eq!(harness.task("a").head, Some(snapshot("a2")));
    harness.focus_task("a").finish_review("a3", vec![finding("slow")]);
    assert_eq!(harness.phase_name("a"), "queued");
    harness.integrate_task("a");
    assert_eq!(harness.run.head, Some(snapshot("a3")));
}

#[test]
fn repairing_review_without_findings_is_last() {
    let mut harness = reviewed(ReviewMode::Repair);
    harness.focus_task("a").finish_work("a1").focus_task("a").finish_review("a1", Vec::new());
    assert_eq!(harness.phase_name("a"), "queued");
}

#[test]
fn review_without_result_fails_only_its_task() {
    let mut harness = reviewed(ReviewMode::Report);
    harness.focus_task("a").finish_work("a1").focus_task("a").finish_session("a1", None);
    assert_eq!((harness.phase_name("a"), harness.phase_name("b")), ("failed", "working"));
    harness
        .focus_task("b")
        .finish_work("b1")
        .focus_task("b")
        .finish_session("b1", Some(review_result(Vec::new())))
        .integrate_task("b");
    assert_eq!(
        harness.outcome().detail,
        "1 of 2 tasks are merged; a: the review returned no findings"
    );
}

/// A finished task in review; work and review have a time limit of one second.
fn reviewed_with_one_second_limit(mode: ReviewMode) -> TestRun {
    let mut spec = planned_spec(&[("a", &[])]);
    (spec.reviews.task, spec.bounds.time_limit_ms) = (mode, Some(1_000));
    let mut harness = TestRun::open(spec);
    harness.finish_work("a1");
    harness
}

/// Lets the reviewer exceed its time limit.
fn run_past_time_limit(harness: &mut TestRun) {
    let id = harness.live_session();
    harness.start().signal(StreamSignal::TurnStarted { turn: None }).end_session(id);
}

#[test]
fn failed_reviewer_is_replaced_on_same_work() {
    let mut harness = reviewed_with_one_second_limit(ReviewMode::Repair);
    harness.finish_review("a2", vec![finding("slow")]);
    let broken = harness.live_session();
    run_past_time_limit(&mut harness);
    assert_eq!((harness.phase_name("a"), harness.count_events("run.task_retried")), ("review", 1));
    assert_ne!(harness.live_session(), broken);
    let base = &harness.sessions[&harness.live_session()].spec.work;
    assert!(format!("{base:?}").contains("commit-of-a2"), "the fix is kept: {base:?}");
    assert_eq!(harness.task("a").workers.len(), 1, "the work is not done again");
    harness.finish_review("a2", Vec::new());
    assert_eq!((harness.phase_name("a"), harness.task("a").retries), ("queued", 1));
}

#[test]
fn failed_reviews_share_the_retry_limit() {
    let mut harness = reviewed_with_one_second_limit(ReviewMode::Report);
    for reviews in 1..=2 {
        assert_eq!(harness.phase_name("a"), "review", "review {reviews}");
        run_past_time_limit(&mut harness);
    }
    assert_eq!((harness.phase_name("a"), harness.ending()), ("failed", RunEnding::Failed));
    assert!(harness.outcome().detail.contains("(timeout)"), "{}", harness.outcome().detail);
}

#[test]
fn unchecked_work_is_committed_before_merge() {
    let spec = RunSpec { checks: Vec::new(), ..planned_spec(&[("a", &[]), ("b", &[])]) };
    let mut harness = TestRun::open(spec);
    harness.focus_task("a").finish_work("a1").focus_task("b").finish_work("b1");
    assert_eq!(harness.pending_effects().len(), 2, "both heads are taken");
    let of_b = harness.task("b").session().unwrap();
    let taken = RunCommand::CommitRecorded {
        session: of_b,
        head: snapshot("b1"),
        caveats: Default::default(),
    };
    harness.apply(taken.clone());
    assert!(harness.try_apply(taken).is_err(), "once");
    assert_eq!((harness.phase_name("a"), harness.phase_name("b")), ("working", "queued"));
    harness.merge_batch(&[("b", "b1")]).integrate();
    assert_eq!(harness.count_events("run.batch_verified"), 1, "nothing is to be checked");
    harness.take_head("a1").merge_batch(&[("a", "m")]).integrate().land("m");
    assert_eq!(harness.ending(), RunEnding::Completed, "nothing was there to prove it by");
}

#[test]
fn uncommittable_work_is_retried_then_fails() {
    let spec = RunSpec { checks: Vec::new(), ..planned_spec(&[("a", &[])]) };
    let mut harness = TestRun::open(spec);
    for _ in 0..2 {
        let session = harness.finish_work("a1").task("a").session().unwrap();
        harness.apply(RunCommand::CommitFailed { session, reason: "index.lock".to_owned() });
        if harness.phase_name("a") == "starting" {
            harness.finish_worktree_move("a");
        }
    }
    assert_eq!(harness.ending(), RunEnding::Failed);
    assert!(harness.outcome().detail.ends_with("a: index.lock"), "{}", harness.outcome().detail);
}

#[test]
fn final_review_starts_from_merged_head() {
    let mut spec = planned_spec(&[("a", &[])]);
    spec.reviews.whole = ReviewMode::Repair;
    let mut harness = TestRun::open(spec);
    harness.finish_work("a1").integrate_task("a");
    assert_eq!(
        (harness.run.stage, harness.working_names()),
        (RunStage::FinalReview, vec!["final_review".to_owned()])
    );
    harness.finish_review("a2", Vec::new()).land("a2");
    assert_eq!(
        (harness.ending(), harness.run.head.clone()),
        (RunEnding::Succeeded, Some(snapshot("a2")))
    );
}
