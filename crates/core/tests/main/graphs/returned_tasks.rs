//! Tasks that the queue returns: conflicts with both sides, and tasks that break the merged checks.

use provost_core::{
    run::{MAX_RETURNS, RunCommand, RunEnding, RunFailureCause, RunStage, TaskReturn},
    verdict::CheckEnd,
};

use super::kit::{TestRun, id, planned_spec};
use crate::kit::snapshot;

const PASSED: CheckEnd = CheckEnd::Exit(0);
const REFUTED: CheckEnd = CheckEnd::Exit(1);

/// A run with two finished tasks in the merge queue.
fn two_done() -> TestRun {
    let mut bench = TestRun::open(planned_spec(&[("a", &[]), ("b", &[])]));
    bench.focus_task("a").finish_work("a1").focus_task("b").finish_work("b1");
    bench
}

#[test]
fn conflict_is_returned_to_its_agent_with_both_sides() {
    let mut bench = two_done();
    let worker = bench.task("b").worker.unwrap();
    bench.integrate_task("a").merge_with_conflicts(&[], &["b"]);
    assert_eq!(bench.phase_name("b"), "starting");
    let errand = bench.run.worktree_move(1).unwrap();
    assert_eq!((errand.session, errand.to.clone()), (worker, Some(snapshot("both-b"))));
    bench.finish_worktree_move("b").focus_task("b");
    assert_eq!(bench.live_session(), worker);
    assert!(bench.instruction().contains("- src/b.rs"), "{}", bench.instruction());
    bench.finish_work("b2");
    let mended = bench.task("b").resolved_merge.clone();
    assert_eq!(mended, Some((snapshot("b1").commit, snapshot("a1").commit)));
    bench.merge_batch(&[("b", "m")]).check_merge("m", PASSED).integrate().land("m");
    assert_eq!(bench.ending(), RunEnding::Succeeded);
}

#[test]
fn failing_batch_is_bisected_and_culprit_returned() {
    let names = ["a", "b", "c", "d"];
    let mut bench = TestRun::open(planned_spec(&[("a", &[]), ("b", &[]), ("c", &[]), ("d", &[])]));
    names.iter().for_each(|name| {
        bench.focus_task(name).finish_work(&format!("{name}1"));
    });
    bench.merge_batch(&[("a", "m1"), ("b", "m2"), ("c", "m3"), ("d", "m4")]);
    bench.check_merge("m4", REFUTED).check_merge("m2", PASSED).check_merge("m3", REFUTED);
    assert_eq!(bench.pending_effects(), ["integrate-1-1-2"], "what is good goes in");
    bench.integrate();
    assert_eq!(bench.run.head, Some(snapshot("m2")));
    let Some(TaskReturn::Breaks { merge, failed }) = &bench.task("c").returned else {
        panic!("c broke it")
    };
    assert_eq!((merge, failed[0].command.as_str()), (&snapshot("m3"), "check"));
    assert_eq!(
        (bench.phase_name("a"), bench.phase_name("b"), bench.phase_name("d")),
        ("merged", "merged", "queued")
    );
    bench.merge_batch(&[("d", "m5")]).check_merge("m5", PASSED).integrate();
    bench.finish_worktree_move("c").focus_task("c");
    assert!(bench.instruction().contains("The check `check` failed:"), "{}", bench.instruction());
    bench
        .finish_work("c2")
        .merge_batch(&[("c", "m6")])
        .check_merge("m6", PASSED)
        .integrate()
        .land("m6");
    assert_eq!(bench.ending(), RunEnding::Succeeded);
    assert_eq!(bench.run.graph.as_ref().unwrap().queue.checks, 5);
}

#[test]
fn task_returns_are_bounded() {
    let mut bench = two_done();
    bench.integrate_task("a");
    for no in 1..=MAX_RETURNS {
        bench
            .merge_with_conflicts(&[], &["b"])
            .finish_worktree_move("b")
            .focus_task("b")
            .finish_work(&format!("b{}", no + 1));
    }
    bench.merge_with_conflicts(&[], &["b"]);
    assert_eq!(
        (bench.ending(), bench.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Tasks))
    );
    let detail = "1 of 2 tasks are merged; b: it came back from the merge queue 3 times";
    assert_eq!(bench.outcome().detail, detail);
    bench.apply(RunCommand::Resume);
    assert_eq!((bench.phase_name("b"), bench.task("b").returns), ("starting", 0));
}

#[test]
fn returned_task_is_not_reviewed_again() {
    let mut spec = planned_spec(&[("a", &[]), ("b", &[])]);
    spec.reviews.task = provost_core::run::ReviewMode::Report;
    let mut bench = TestRun::open(spec);
    bench
        .focus_task("a")
        .finish_work("a1")
        .focus_task("a")
        .finish_review("a1", Vec::new())
        .integrate_task("a");
    bench.focus_task("b").finish_work("b1").focus_task("b").finish_review("b1", Vec::new());
    bench
        .merge_with_conflicts(&[], &["b"])
        .finish_worktree_move("b")
        .focus_task("b")
        .finish_work("b2");
    assert_eq!(bench.phase_name("b"), "queued");
}

#[test]
fn conflicting_task_is_first_in_next_batch() {
    let mut bench = TestRun::open(planned_spec(&[("a", &[]), ("b", &[]), ("c", &[])]));
    ["a", "b", "c"].iter().for_each(|name| {
        bench.focus_task(name).finish_work(&format!("{name}1"));
    });
    bench.merge_batch(&[("a", "m1"), ("c", "m2")]);
    assert_eq!(bench.run.graph.as_ref().unwrap().queue.waiting, [id("b")]);
    bench.check_merge("m2", PASSED).integrate().merge_with_conflicts(&[], &["b"]);
    assert_eq!(bench.phase_name("b"), "starting");
}

#[test]
fn failed_worktree_move_hands_conflict_to_new_agent() {
    let mut bench = two_done();
    let worker = bench.task("b").worker;
    bench.integrate_task("a").merge_with_conflicts(&[], &["b"]);
    bench.apply(RunCommand::WorktreeMoveFailed { no: 1, reason: "it is gone".to_owned() });
    assert_ne!(bench.task("b").worker, worker);
    assert_eq!(bench.task("b").base, Some(snapshot("both-b")));
    assert!(bench.focus_task("b").instruction().contains("- src/b.rs"));
    bench.finish_work("b2").merge_batch(&[("b", "m")]).check_merge("m", PASSED).integrate();
    assert_eq!(bench.phase_name("b"), "merged");
}

#[test]
fn remerged_work_clears_resolved_conflict() {
    let mut bench = two_done();
    bench
        .integrate_task("a")
        .merge_with_conflicts(&[], &["b"])
        .finish_worktree_move("b")
        .focus_task("b")
        .finish_work("b2");
    assert!(bench.task("b").resolved_merge.is_some());
    bench
        .merge_batch(&[("b", "m")])
        .check_merge("m", REFUTED)
        .finish_worktree_move("b")
        .focus_task("b")
        .finish_work("b3");
    assert_eq!(bench.task("b").resolved_merge, None, "it descends from the merge that broke");
}

#[test]
fn verified_tree_is_not_rechecked() {
    let mut bench = two_done();
    bench.merge_batch(&[("a", "a1")]);
    assert_eq!(bench.count_events("run.batch_verified"), 1);
    assert_eq!(bench.pending_effects(), ["integrate-1-1-1"]);
    bench.integrate();
    assert!(bench.run.proof.as_ref().unwrap().is_for(&snapshot("a1")));
}

#[test]
fn repeatedly_unfinished_checks_end_the_run() {
    let mut bench = two_done();
    bench.merge_batch(&[("a", "m1"), ("b", "m2")]);
    let unknown = || CheckEnd::Unfinished("power".to_owned());
    bench.check_merge("m2", unknown()).check_merge("m2", unknown()).check_merge("m2", unknown());
    assert_eq!(
        (bench.ending(), bench.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Queue))
    );
    assert_eq!(bench.run.head, None, "nothing is proved, and nothing went in");
}

#[test]
fn conflicts_in_same_file_are_fixed_in_turn() {
    let mut bench = TestRun::open(planned_spec(&[("a", &[]), ("b", &[]), ("c", &[])]));
    bench
        .focus_task("a")
        .finish_work("a1")
        .integrate_task("a")
        .focus_task("b")
        .finish_work("b1")
        .focus_task("c")
        .finish_work("c1");
    let RunCommand::BatchMerged { batch, onto, links, mut conflicts } =
        bench.batch_merged(&[], &["b", "c"])
    else {
        panic!("a merge was answered")
    };
    conflicts.iter_mut().for_each(|met| met.files = vec!["shared".to_owned()]);
    bench.apply(RunCommand::BatchMerged { batch, onto, links, conflicts });
    assert_eq!(
        (bench.phase_name("b"), bench.phase_name("c")),
        ("starting", "queued"),
        "c waits for b"
    );
    bench.finish_worktree_move("b").focus_task("b").finish_work("b2");
    assert_eq!(bench.phase_name("c"), "queued", "the fix of b is not merged yet");
    bench.merge_batch(&[("b", "m1")]).check_merge("m1", PASSED);
    bench.integrate();
    assert_eq!(bench.task("c").returns, 0, "it is merged with what b left first");
    bench.merge_with_conflicts(&[], &["c"]);
    assert_eq!((bench.phase_name("c"), bench.task("c").returns), ("starting", 1));
}

#[test]
fn check_of_other_tree_does_not_verify_merge() {
    let mut spec = planned_spec(&[("a", &[]), ("b", &[])]);
    spec.setup = Some("make".to_owned());
    let mut bench = TestRun::open(spec);
    bench
        .focus_task("a")
        .finish_work("a1")
        .focus_task("b")
        .finish_work("b1")
        .merge_batch(&[("a", "a1"), ("b", "m")]);
    let checking = bench.run.live().find(|one| one.stage == RunStage::Tasks).unwrap().id;
    assert_eq!(bench.sessions[&checking].spec.setup, None, "nothing changes what was merged");
    for _ in 0..3 {
        bench.check_merge("m-and-more", CheckEnd::Exit(0));
        assert!(bench.pending_effects().iter().all(|owed| !owed.starts_with("integrate")));
    }
    assert_eq!(
        (bench.ending(), bench.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Queue))
    );
    assert_eq!(bench.run.head, None, "nothing of it is on the branch");
}
