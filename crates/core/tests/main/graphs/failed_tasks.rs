//! Failed tasks: retries, tasks that continue without them, and resuming.

use provost_core::{
    ids::SessionId,
    lifecycle::{self, ClaimKind, State},
    run::{ReviewMode, RunCommand, RunEnding, RunFailureCause, RunSpec},
    session::{self, StreamSignal},
    verdict::CheckEnd,
};

use super::kit::{TestRun, id, planned_spec, with_planning};
use crate::kit::snapshot;

/// A run with one task and a time limit of one second.
fn with_one_second_limit(retries: u32) -> TestRun {
    let mut spec = with_planning(planned_spec(&[("a", &[])]), |all| all.retries = retries);
    spec.bounds.time_limit_ms = Some(1_000);
    TestRun::open(spec)
}

/// Lets the agent work until its time limit.
fn run_past_time_limit(harness: &mut TestRun) -> SessionId {
    let id = harness.live_session();
    harness.start().signal(StreamSignal::TurnStarted { turn: None }).end_session(id);
    id
}

fn cause(harness: &TestRun, id: SessionId) -> Option<lifecycle::Cause> {
    let found = harness.run.sessions.iter().find(|one| one.id == id);
    found.and_then(|one| one.end.as_ref()).and_then(|end| end.cause)
}

#[test]
fn timed_out_task_retries_in_same_conversation() {
    let mut harness = with_one_second_limit(1);
    let first = run_past_time_limit(&mut harness);
    assert_eq!(cause(&harness, first), Some(lifecycle::Cause::Timeout));
    assert_eq!(
        (harness.count_events("run.task_retried"), harness.phase_name("a")),
        (1, "starting")
    );
    assert_eq!(harness.run.worktree_move(1).unwrap().to, None, "its worktree stays where it is");
    harness.finish_worktree_move("a");
    assert_eq!(harness.live_session(), first);
    assert!(harness.instruction().starts_with("The work was interrupted before it was done"));
    harness.finish_work("a1").integrate_task("a").land("a1");
    assert_eq!(harness.ending(), RunEnding::Succeeded);
}

#[test]
fn refuted_task_is_retried_by_another_agent() {
    let mut harness = TestRun::open(planned_spec(&[("a", &[])]));
    let first = harness.live_session();
    harness.start().turn(ClaimKind::Completed, None).verify("bad", CheckEnd::Exit(1));
    harness.end_session(first);
    assert_eq!(cause(&harness, first), Some(lifecycle::Cause::Verification));
    assert_ne!(harness.live_session(), first);
    assert!(harness.instruction().contains("## Report of the previous agent"));
    assert!(harness.instruction().starts_with("Do the task below"));
    assert_eq!(harness.task("a").retries, 1);
}

#[test]
fn next_agent_starts_over_after_interrupted_one() {
    let mut harness = with_one_second_limit(2);
    run_past_time_limit(&mut harness);
    harness.finish_worktree_move("a");
    let first = harness.live_session();
    harness.start().turn(ClaimKind::Completed, None).verify("bad", CheckEnd::Exit(1));
    harness.end_session(first);
    assert_ne!(harness.live_session(), first);
    let instruction = harness.instruction();
    assert!(
        instruction.starts_with("Do the task below"),
        "it has nothing of that work: {instruction}"
    );
}

#[test]
fn task_given_up_by_agent_is_not_retried() {
    let mut harness = TestRun::open(planned_spec(&[("a", &[])]));
    harness.fail_session();
    assert_eq!(harness.count_events("run.task_retried"), 0);
    assert_eq!(
        (harness.ending(), harness.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Tasks))
    );
}

#[test]
fn task_cancelled_by_user_is_not_retried() {
    let mut harness = TestRun::open(planned_spec(&[("a", &[])]));
    let id = harness.live_session();
    harness
        .start()
        .apply_to_live(session::SessionCommand::Cancel { because: "no".to_owned() })
        .end_session(id);
    assert_eq!(harness.state(1), State::Cancelled);
    assert_eq!(
        (harness.count_events("run.task_retried"), harness.ending()),
        (0, RunEnding::Failed)
    );
}

#[test]
fn task_retries_are_bounded() {
    for retries in 0..3 {
        let mut harness =
            TestRun::open(with_planning(planned_spec(&[("a", &[])]), |all| all.retries = retries));
        for _ in 0..=retries {
            let id = harness.live_session();
            harness.start().turn(ClaimKind::Completed, None).verify("bad", CheckEnd::Exit(1));
            harness.end_session(id);
        }
        assert_eq!(harness.ending(), RunEnding::Failed);
        assert_eq!(harness.run.sessions.len() as u32, retries + 1);
    }
}

#[test]
fn empty_diff_fails_the_task() {
    let spec = RunSpec { checks: Vec::new(), ..planned_spec(&[("a", &[])]) };
    let mut harness = TestRun::open(with_planning(spec, |all| all.retries = 0));
    harness.finish_work("old").take_head("old");
    assert_eq!(
        (harness.ending(), harness.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Tasks))
    );
    assert!(harness.outcome().detail.ends_with("a: nothing was changed"));
}

#[test]
fn independent_tasks_continue_after_a_failure() {
    let tasks: [(&str, &[&str]); 4] =
        [("bad", &[]), ("never", &["bad"]), ("a", &[]), ("b", &["a"])];
    let mut harness = TestRun::open(planned_spec(&tasks));
    harness.focus_task("bad").fail_session();
    assert_eq!(
        (harness.phase_name("bad"), harness.working_names()),
        ("failed", vec!["a".to_owned()])
    );
    harness
        .focus_task("a")
        .finish_work("a1")
        .integrate_task("a")
        .finish_worktree_move("b")
        .focus_task("b")
        .finish_work("b1");
    assert!(!harness.run.is_sealed());
    harness.integrate_task("b");
    assert_eq!(
        (harness.ending(), harness.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Tasks))
    );
    let detail = &harness.outcome().detail;
    assert!(
        detail.starts_with("2 of 4 tasks are merged; bad: its session ended as failed"),
        "{detail}"
    );
    assert_eq!(
        harness.outcome().head.as_ref().unwrap().tree.0,
        "b1",
        "it ends with what is merged"
    );
    assert_eq!(harness.phase_name("never"), "waiting");
}

#[test]
fn failed_task_waits_for_pending_head_of_another() {
    let spec = RunSpec { checks: Vec::new(), ..planned_spec(&[("bad", &[]), ("a", &[])]) };
    let mut harness = TestRun::open(spec);
    harness.focus_task("a").finish_work("a1");
    assert_eq!(harness.pending_effects().len(), 1, "its head");
    harness.focus_task("bad").fail_session();
    assert!(!harness.run.is_sealed(), "{:?}", harness.run.attempt());
    harness.take_head("a1").integrate_task("a");
    assert_eq!(harness.ending(), RunEnding::Failed);
    assert!(harness.outcome().detail.starts_with("1 of 2 tasks are merged"));
}

#[test]
fn failed_task_waits_for_pending_review_of_another() {
    let mut spec = planned_spec(&[("bad", &[]), ("a", &[])]);
    spec.reviews.task = ReviewMode::Report;
    let mut harness = TestRun::open(with_planning(spec, |all| all.machine_parallel = 2));
    harness.agents_of_other_runs = 2;
    harness.focus_task("a").finish_work("a1").focus_task("bad").fail_session();
    assert!(!harness.run.is_sealed(), "there is no room for its reviewer yet");
    harness.agents_of_other_runs = 0;
    harness.advance();
    assert_eq!(harness.working_names(), ["a"]);
}

#[test]
fn resume_restarts_failed_tasks_keeps_merged() {
    let mut harness = TestRun::open(planned_spec(&[("bad", &[]), ("never", &["bad"]), ("a", &[])]));
    let first = harness.focus_task("bad").live_session();
    harness.fail_session().focus_task("a").finish_work("a1").integrate_task("a");
    assert_eq!(harness.ending(), RunEnding::Failed);
    harness.apply(RunCommand::Resume);
    assert_eq!((harness.phase_name("a"), harness.phase_name("bad")), ("merged", "starting"));
    harness.finish_worktree_move("bad");
    assert_eq!(harness.live_session(), first, "in the same conversation");
    harness
        .focus_task("bad")
        .finish_work("b1")
        .merge_batch(&[("bad", "m")])
        .check_merge("m", CheckEnd::Exit(0));
    harness
        .integrate()
        .finish_worktree_move("never")
        .focus_task("never")
        .finish_work("n1")
        .integrate_task("never")
        .land("n1");
    assert_eq!(harness.ending(), RunEnding::Succeeded);
    assert_eq!(harness.count_events("run.integrated"), 3, "nothing is merged twice");
}

#[test]
fn resume_continues_from_every_queue_phase() {
    type Reach = fn(&mut TestRun);
    let reach: [(&str, Reach); 4] = [
        ("queued", |_| {}),
        ("merged together", |harness| {
            harness.merge_batch(&[("a", "m1"), ("b", "m2")]);
        }),
        ("met", |harness| {
            harness.merge_with_conflicts(&[("a", "m1")], &["b"]);
        }),
        ("proved", |harness| {
            harness.merge_batch(&[("a", "m1"), ("b", "m2")]).check_merge("m2", CheckEnd::Exit(0));
        }),
    ];
    for (place, reach) in reach {
        let mut harness = TestRun::open(planned_spec(&[("a", &[]), ("b", &[]), ("c", &[])]));
        harness.focus_task("a").finish_work("a1").focus_task("b").finish_work("b1");
        reach(&mut harness);
        harness.cancel().end_all();
        assert_eq!(harness.ending(), RunEnding::Cancelled, "{place}");
        harness.apply(RunCommand::Resume);
        let waits = &harness.run.graph.as_ref().unwrap().queue.waiting;
        let again = harness.phase_name("b") == "starting";
        assert!(waits.len() == 2 || (again && waits.len() == 1), "{place}: {waits:?}");
        assert_eq!(harness.count_events("run.integrated"), 0, "{place}");
        harness.merge_batch(&[("a", "m1")]).check_merge("m1", CheckEnd::Exit(0)).integrate();
        assert_eq!(harness.phase_name("a"), "merged", "{place}");
    }
}

#[test]
fn resume_restarts_review_without_redoing_work() {
    let mut spec = planned_spec(&[("a", &[])]);
    spec.reviews.task = ReviewMode::Report;
    let mut harness = TestRun::open(spec);
    harness.finish_work("a1");
    assert_eq!(harness.phase_name("a"), "review");
    harness.start().cancel().end_all().apply(RunCommand::Resume);
    assert_eq!((harness.phase_name("a"), harness.run.sessions.len()), ("review", 3));
    harness.focus_task("a").finish_review("a1", Vec::new()).integrate_task("a").land("a1");
    assert_eq!(harness.ending(), RunEnding::Succeeded);
}

#[test]
fn unmergeable_work_fails_only_its_task() {
    let mut harness = TestRun::open(planned_spec(&[("a", &[]), ("b", &[]), ("c", &["b"])]));
    harness.focus_task("a").finish_work("a1").focus_task("b").finish_work("b1");
    let unfit = |harness: &TestRun, name: &str| {
        let merged = harness.batch_merged(&[], &[]);
        let RunCommand::BatchMerged { batch, .. } = merged else { panic!("a merge was answered") };
        RunCommand::TaskUnmergeable { batch, task: id(name), reason: "no such object".to_owned() }
    };
    let report = unfit(&harness, "b");
    assert!(harness.try_apply(unfit(&harness, "c")).is_err(), "it does not wait to be merged");
    harness.apply(report.clone());
    assert_eq!((harness.phase_name("a"), harness.phase_name("b")), ("queued", "failed"));
    assert!(harness.try_apply(report).is_err(), "it was reported before");
    harness.integrate_task("a");
    assert_eq!(
        (harness.ending(), harness.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Tasks))
    );
    assert_eq!(harness.outcome().detail, "1 of 3 tasks are merged; b: no such object");
    assert_eq!(harness.run.head, Some(snapshot("a1")));
}
