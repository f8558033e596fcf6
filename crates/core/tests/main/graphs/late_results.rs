//! Results that arrive late, twice, or from before a cancel are ignored.

use provost_core::{
    run::{RunCommand, RunEnding, RunFailureCause, RunRejection},
    verdict::CheckEnd,
};

use super::kit::{TestRun, planned_spec};
use crate::kit::snapshot;

fn assert_ignored(harness: &mut TestRun, late: &RunCommand) {
    let before = harness.log.len();
    assert_eq!(harness.try_apply(late.clone()), Err(RunRejection::NothingNew), "{late:?}");
    assert_eq!(harness.log.len(), before);
}

fn two_done() -> TestRun {
    let mut harness = TestRun::open(planned_spec(&[("a", &[]), ("b", &[]), ("c", &["a"])]));
    harness.focus_task("a").finish_work("a1").focus_task("b").finish_work("b1");
    harness
}

#[test]
fn merge_result_is_accepted_once_for_current_base() {
    let mut harness = two_done();
    let merged = harness.batch_merged(&[("a", "a1")], &[]);
    let RunCommand::BatchMerged { batch, links, conflicts, .. } = merged.clone() else {
        unreachable!()
    };
    let onto = snapshot("older");
    assert_ignored(&mut harness, &RunCommand::BatchMerged { batch, onto, links, conflicts });
    harness.apply(merged.clone());
    assert_ignored(&mut harness, &merged);
    harness.integrate();
    assert_ignored(&mut harness, &merged);
    assert_eq!(harness.count_events("run.batch_merged"), 1);
}

#[test]
fn branch_advances_once_to_verified_prefix() {
    let mut harness = two_done();
    harness.merge_batch(&[("a", "m1"), ("b", "m2")]);
    assert_ignored(&mut harness, &RunCommand::Integrated { batch: 1, len: 2 });
    harness.check_merge("m2", CheckEnd::Exit(1)).check_merge("m1", CheckEnd::Exit(0));
    let integrated = harness.integrated();
    assert_eq!(integrated, RunCommand::Integrated { batch: 1, len: 1 });
    assert_ignored(&mut harness, &RunCommand::Integrated { batch: 1, len: 2 });
    assert_ignored(&mut harness, &RunCommand::Integrated { batch: 1, len: 0 });
    harness.apply(integrated.clone());
    assert_ignored(&mut harness, &integrated);
    assert_eq!(harness.run.head, Some(snapshot("m1")));
}

#[test]
fn worktree_move_is_answered_once() {
    let mut harness = two_done();
    harness.integrate_task("a");
    let no = harness.worktree_move_no("c");
    let failed = RunCommand::WorktreeMoveFailed { no, reason: "late".to_owned() };
    harness.apply(RunCommand::WorktreeMoved { no });
    assert_ignored(&mut harness, &RunCommand::WorktreeMoved { no });
    assert_ignored(&mut harness, &failed);
    assert_ignored(&mut harness, &RunCommand::WorktreeMoved { no: no + 1 });
    assert_eq!(harness.count_events("run.handed_over"), 0);
}

#[test]
fn queue_results_after_cancel_are_ignored() {
    let mut harness = two_done();
    let merged = harness.batch_merged(&[("a", "a1")], &[]);
    harness.cancel().end_all();
    assert_ignored(&mut harness, &merged);
    assert_ignored(&mut harness, &RunCommand::QueueFailed { batch: 1, reason: "late".to_owned() });
    let mut harness = two_done();
    harness.merge_batch(&[("a", "a1")]);
    let integrated = harness.integrated();
    harness.cancel();
    assert_ignored(&mut harness, &integrated);
    harness.end_all().apply(RunCommand::Resume);
    assert_ignored(&mut harness, &integrated);
    assert_eq!(harness.run.head, None);
    harness.merge_batch(&[("a", "a1")]).integrate();
    assert_eq!(harness.phase_name("a"), "merged");
}

#[test]
fn worktree_move_from_before_resume_is_ignored() {
    let mut harness = two_done();
    harness.integrate_task("a").cancel().end_all().apply(RunCommand::Resume);
    assert_eq!(harness.worktree_move_no("c"), 2, "it is another");
    assert_ignored(&mut harness, &RunCommand::WorktreeMoved { no: 1 });
}

#[test]
fn queue_failure_ends_the_run() {
    let mut harness = two_done();
    assert_ignored(&mut harness, &RunCommand::QueueFailed { batch: 2, reason: "late".to_owned() });
    harness
        .apply(RunCommand::QueueFailed { batch: 1, reason: "no such branch".to_owned() })
        .end_all();
    assert_eq!(
        (harness.ending(), harness.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Queue))
    );
    assert_eq!(harness.outcome().detail, "no such branch");
}
