//! Results that arrive late, twice, or from before a cancel are ignored.

use provost_core::{
    run::{RunCommand, RunEnding, RunFailureCause, RunRejection},
    verdict::CheckEnd,
};

use super::kit::{TestRun, planned_spec};
use crate::kit::snapshot;

fn assert_ignored(bench: &mut TestRun, late: &RunCommand) {
    let before = bench.log.len();
    assert_eq!(bench.try_apply(late.clone()), Err(RunRejection::NothingNew), "{late:?}");
    assert_eq!(bench.log.len(), before);
}

fn two_done() -> TestRun {
    let mut bench = TestRun::open(planned_spec(&[("a", &[]), ("b", &[]), ("c", &["a"])]));
    bench.focus_task("a").finish_work("a1").focus_task("b").finish_work("b1");
    bench
}

#[test]
fn merge_result_is_accepted_once_for_current_base() {
    let mut bench = two_done();
    let merged = bench.batch_merged(&[("a", "a1")], &[]);
    let RunCommand::BatchMerged { batch, links, conflicts, .. } = merged.clone() else {
        unreachable!()
    };
    let onto = snapshot("older");
    assert_ignored(&mut bench, &RunCommand::BatchMerged { batch, onto, links, conflicts });
    bench.apply(merged.clone());
    assert_ignored(&mut bench, &merged);
    bench.integrate();
    assert_ignored(&mut bench, &merged);
    assert_eq!(bench.count_events("run.batch_merged"), 1);
}

#[test]
fn branch_advances_once_to_verified_prefix() {
    let mut bench = two_done();
    bench.merge_batch(&[("a", "m1"), ("b", "m2")]);
    assert_ignored(&mut bench, &RunCommand::Integrated { batch: 1, len: 2 });
    bench.check_merge("m2", CheckEnd::Exit(1)).check_merge("m1", CheckEnd::Exit(0));
    let integrated = bench.integrated();
    assert_eq!(integrated, RunCommand::Integrated { batch: 1, len: 1 });
    assert_ignored(&mut bench, &RunCommand::Integrated { batch: 1, len: 2 });
    assert_ignored(&mut bench, &RunCommand::Integrated { batch: 1, len: 0 });
    bench.apply(integrated.clone());
    assert_ignored(&mut bench, &integrated);
    assert_eq!(bench.run.head, Some(snapshot("m1")));
}

#[test]
fn worktree_move_is_answered_once() {
    let mut bench = two_done();
    bench.integrate_task("a");
    let no = bench.worktree_move_no("c");
    let failed = RunCommand::WorktreeMoveFailed { no, reason: "late".to_owned() };
    bench.apply(RunCommand::WorktreeMoved { no });
    assert_ignored(&mut bench, &RunCommand::WorktreeMoved { no });
    assert_ignored(&mut bench, &failed);
    assert_ignored(&mut bench, &RunCommand::WorktreeMoved { no: no + 1 });
    assert_eq!(bench.count_events("run.handed_over"), 0);
}

#[test]
fn queue_results_after_cancel_are_ignored() {
    let mut bench = two_done();
    let merged = bench.batch_merged(&[("a", "a1")], &[]);
    bench.cancel().end_all();
    assert_ignored(&mut bench, &merged);
    assert_ignored(&mut bench, &RunCommand::QueueFailed { batch: 1, reason: "late".to_owned() });
    let mut bench = two_done();
    bench.merge_batch(&[("a", "a1")]);
    let integrated = bench.integrated();
    bench.cancel();
    assert_ignored(&mut bench, &integrated);
    bench.end_all().apply(RunCommand::Resume);
    assert_ignored(&mut bench, &integrated);
    assert_eq!(bench.run.head, None);
    bench.merge_batch(&[("a", "a1")]).integrate();
    assert_eq!(bench.phase_name("a"), "merged");
}

#[test]
fn worktree_move_from_before_resume_is_ignored() {
    let mut bench = two_done();
    bench.integrate_task("a").cancel().end_all().apply(RunCommand::Resume);
    assert_eq!(bench.worktree_move_no("c"), 2, "it is another");
    assert_ignored(&mut bench, &RunCommand::WorktreeMoved { no: 1 });
}

#[test]
fn queue_failure_ends_the_run() {
    let mut bench = two_done();
    assert_ignored(&mut bench, &RunCommand::QueueFailed { batch: 2, reason: "late".to_owned() });
    bench
        .apply(RunCommand::QueueFailed { batch: 1, reason: "no such branch".to_owned() })
        .end_all();
    assert_eq!(
        (bench.ending(), bench.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Queue))
    );
    assert_eq!(bench.outcome().detail, "no such branch");
}
