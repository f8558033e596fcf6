//! Tasks that the queue returns: conflicts with both sides, and tasks that break the merged checks.

use provost_core::{
    run::{MAX_RETURNS, RunCommand, RunEnding, RunFailureCause, TaskReturn},
    verdict::CheckEnd,
};

use super::kit::{TestRun, id, planned_spec};
use crate::kit::snapshot;

const PASSED: CheckEnd = CheckEnd::Exit(0);
const REFUTED: CheckEnd = CheckEnd::Exit(1);

/// A run with two finished tasks in the merge queue.
fn two_done() -> TestRun {
    let mut harness = TestRun::open(planned_spec(&[("a", &[]), ("b", &[])]));
    harness.focus_task("a").finish_work("a1").focus_task("b").finish_work("b1");
    harness
}

#[test]
fn conflict_is_returned_to_its_agent_with_both_sides() {
    let mut harness = two_done();
    let worker = harness.task("b").worker.unwrap();
    harness.integrate_task("a").merge_with_conflicts(&[], &["b"]);
    assert_eq!(harness.phase_name("b"), "starting");
    let worktree_move = harness.run.worktree_move(1).unwrap();
    assert_eq!(
        (worktree_move.session, worktree_move.to.clone()),
        (worker, Some(snapshot("both-b")))
    );
    harness.finish_worktree_move("b").focus_task("b");
    assert_eq!(harness.live_session(), worker);
    assert!(harness.instruction().contains("- src/b.rs"), "{}", harness.instruction());
    harness.finish_work("b2");
    let resolved = harness.task("b").resolved_merge.clone();
    assert_eq!(resolved, Some((snapshot("b1").commit, snapshot("a1").commit)));
    harness.merge_batch(&[("b", "m")]).check_merge("m", PASSED).integrate().land("m");
    assert_eq!(harness.ending(), RunEnding::Succeeded);
}

#[test]
fn failing_batch_is_bisected_and_culprit_returned() {
    let names = ["a", "b", "c", "d"];
    let mut harness =
        TestRun::open(planned_spec(&[("a", &[]), ("b", &[]), ("c", &[]), ("d", &[])]));
    names.iter().for_each(|name| {
        harness.focus_task(name).finish_work(&format!("{name}1"));
    });
    harness.merge_batch(&[("a", "m1"), ("b", "m2"), ("c", "m3"), ("d", "m4")]);
    harness.check_merge("m4", REFUTED).check_merge("m2", PASSED).check_merge("m3", REFUTED);
    assert_eq!(harness.pending_effects(), ["integrate-1-1-2"], "what is good goes in");
    harness.integrate();
    assert_eq!(harness.run.head, Some(snapshot("m2")));
    let Some(TaskReturn::Breaks { merge, failed }) = &harness.task("c").returned else {
        panic!("c broke it")
    };
    assert_eq!((merge, failed[0].command.as_str()), (&snapshot("m3"), "check"));
    assert_eq!(
        (harness.phase_name("a"), harness.phase_name("b"), harness.phase_name("d")),
        ("merged", "merged", "queued")
    );
    harness.merge_batch(&[("d", "m5")]).check_merge("m5", PASSED).integrate();
    harness.finish_worktree_move("c").focus_task("c");
    assert!(
        harness.instruction().contains("The check `check` failed:"),
        "{}",
        harness.instruction()
    );
    harness
        .finish_work("c2")
        .merge_batch(&[("c", "m6")])
        .check_merge("m6", PASSED)
        .integrate()
        .land("m6");
    assert_eq!(harness.ending(), RunEnding::Succeeded);
    assert_eq!(harness.run.graph.as_ref().unwrap().queue.checks, 5);
}

#[test]
fn task_returns_are_bounded() {
    let mut harness = two_done();
    harness.integrate_task("a");
    for no in 1..=MAX_RETURNS {
        harness
            .merge_with_conflicts(&[], &["b"])
            .finish_worktree_move("b")
            .focus_task("b")
            .finish_work(&format!("b{}", no + 1));
    }
    harness.merge_with_conflicts(&[], &["b"]);
    assert_eq!(
        (harness.ending(), harness.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Tasks))
    );
    let detail = "1 of 2 tasks are merged; b: it came back from the merge queue 3 times";
    assert_eq!(harness.outcome().detail, detail);
    harness.apply(RunCommand::Resume);
    assert_eq!((harness.phase_name("b"), harness.task("b").returns), ("starting", 0));
}

#[test]
fn returned_task_is_not_reviewed_again() {
    let mut spec = planned_spec(&[("a", &[]), ("b", &[])]);
    spec.reviews.task = provost_core::run::ReviewMode::Report;
    let mut harness = TestRun::open(spec);
    harness
        .focus_task("a")
        .finish_work("a1")
        .focus_task("a")
        .finish_review("a1", Vec::new())
        .integrate_task("a");
    harness.focus_task("b").finish_work("b1").focus_task("b").finish_review("b1", Vec::new());
    harness
        .merge_with_conflicts(&[], &["b"])
        .finish_worktree_move("b")
        .focus_task("b")
        .finish_work("b2");
    assert_eq!(harness.phase_name("b"), "queued");
}

#[test]
fn conflicting_task_is_first_in_next_batch() {
    let mut harness = TestRun::open(planned_spec(&[("a", &[]), ("b", &[]), ("c", &[])]));
    ["a", "b", "c"].iter().for_each(|name| {
        harness.focus_task(name).finish_work(&format!("{name}1"));
    });
    harness.merge_batch(&[("a", "m1"), ("c", "m2")]);
    assert_eq!(harness.run.graph.as_ref().unwrap().queue.waiting, [id("b")]);
    harness.check_merge("m2", PASSED).integrate().merge_with_conflicts(&[], &["b"]);
    assert_eq!(harness.phase_name("b"), "starting");
}

#[test]
fn failed_worktree_move_hands_conflict_to_new_agent() {
    let mut harness = two_done();
    let worker = harness.task("b").worker;
    harness.integrate_task("a").merge_with_conflicts(&[], &["b"]);
    harness.apply(RunCommand::WorktreeMoveFailed { no: 1, reason: "it is gone".to_owned() });
    assert_ne!(harness.task("b").worker, worker);
    assert_eq!(harness.task("b").base, Some(snapshot("both-b")));
    assert!(harness.focus_task("b").instruction().contains("- src/b.rs"));
    harness.finish_work("b2").merge_batch(&[("b", "m")]).check_merge("m", PASSED).integrate();
    assert_eq!(harness.phase_name("b"), "merged");
}

#[test]
fn remerged_work_clears_resolved_conflict() {
    let mut harness = two_done();
    harness
        .integrate_task("a")
        .merge_with_conflicts(&[], &["b"])
        .finish_worktree_move("b")
        .focus_task("b")
        .finish_work("b2");
    assert!(harness.task("b").resolved_merge.is_some());
    harness
        .merge_batch(&[("b", "m")])
        .check_merge("m", REFUTED)
        .finish_worktree_move("b")
        .focus_task("b")
        .finish_work("b3");
    assert_eq!(harness.task("b").resolved_merge, None, "it descends from the merge that broke");
}

#[test]
fn verified_tree_is_not_rechecked() {
    let mut harness = two_done();
    harness.merge_batch(&[("a", "a1")]);
    assert_eq!(harness.count_events("run.batch_verified"), 1);
    assert_eq!(harness.pending_effects(), ["integrate-1-1-1"]);
    harness.integrate();
    assert!(harness.run.proof.as_ref().unwrap().is_for(&snapshot("a1")));
}

#[test]
fn repeatedly_unfinished_checks_end_the_run() {
    let mut harness = two_done();
    harness.merge_batch(&[("a", "m1"), ("b", "m2")]);
    let unknown = || CheckEnd::Unfinished("power".to_owned());
    harness.check_merge("m2", unknown()).check_merge("m2", unknown()).check_merge("m2", unknown());
    assert_eq!(
        (harness.ending(), harness.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Queue))
    );
    assert_eq!(harness.run.head, None, "nothing is proved, and nothing went in");
}

#[test]
fn conflicts_in_same_file_are_fixed_in_turn() {
    let mut harness = TestRun::open(planned_spec(&[("a", &[]), ("b", &[]), ("c", &[])]));
    harness
        .focus_task("a")
        .finish_work("a1")
        .integrate_task("a")
        .focus_task("b")
        .finish_work("b1")
        .focus_task("c")
        .finish_work("c1");
    let RunCommand::BatchMerged { batch, onto, links, mut conflicts } =
        harness.batch_merged(&[], &["b", "c"])
    else {
        panic!("a merge was answered")
    };
    conflicts.iter_mut().for_each(|met| met.files = vec!["shared".to_owned()]);
    harness.apply(RunCommand::BatchMerged { batch, onto, links, conflicts });
    assert_eq!(
        (harness.phase_name("b"), harness.phase_name("c")),
        ("starting", "queued"),
        "c waits for b"
    );
    harness.finish_worktree_move("b").focus_task("b").finish_work("b2");
    assert_eq!(harness.phase_name("c"), "queued", "the fix of b is not merged yet");
    harness.merge_batch(&[("b", "m1")]).check_merge("m1", PASSED);
    harness.integrate();
    assert_eq!(harness.task("c").returns, 0, "it is merged with what b left first");
    harness.merge_with_conflicts(&[], &["c"]);
    assert_eq!((harness.phase_name("c"), harness.task("c").returns), ("starting", 1));
}

#[test]
fn check_of_other_tree_does_not_verify_merge() {
    let mut spec = planned_spec(&[("a", &[]), ("b", &[])]);
    spec.setup = Some("make".to_owned());
    let mut harness = TestRun::open(spec);
    harness
        .focus_task("a")
        .finish_work("a1")
        .focus_task("b")
        .finish_work("b1")
        .merge_batch(&[("a", "a1"), ("b", "m")]);
    assert!(!harness.run.is_live(), "nothing changes what was merged");
    for _ in 0..3 {
        harness.check_merge("m-and-more", CheckEnd::Exit(0));
        assert!(harness.pending_effects().iter().all(|key| !key.starts_with("integrate")));
    }
    assert_eq!(
        (harness.ending(), harness.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Queue))
    );
    assert_eq!(harness.run.head, None, "nothing of it is on the branch");
}

#[test]
fn queue_check_opens_no_session() {
    let mut harness = two_done();
    let before = harness.run.sessions.len();
    harness.merge_batch(&[("a", "a1"), ("b", "m")]);
    assert_eq!(harness.pending_effects(), ["verify-1"]);
    assert_eq!((harness.run.sessions.len(), harness.sessions.len()), (before, before));
    let verification = harness.run.verification(1).expect("it is pending");
    assert_eq!((verification.snapshot, verification.checks), (snapshot("m"), vec!["check".into()]));
    assert_eq!(verification.base, Some(harness.run.spec.target.base.commit.clone()));
    harness.check_merge("m", PASSED).integrate();
    assert_eq!(harness.run.sessions.len(), before);
    assert!(harness.run.proof.as_ref().is_some_and(|proof| proof.is_for(&snapshot("m"))));
}
