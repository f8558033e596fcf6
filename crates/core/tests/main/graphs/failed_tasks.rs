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
fn run_past_time_limit(bench: &mut TestRun) -> SessionId {
    let id = bench.live_session();
    bench.start().signal(StreamSignal::TurnStarted { turn: None }).end_session(id);
    id
}

fn cause(bench: &TestRun, id: SessionId) -> Option<lifecycle::Cause> {
    let found = bench.run.sessions.iter().find(|one| one.id == id);
    found.and_then(|one| one.end.as_ref()).and_then(|end| end.cause)
}

#[test]
fn timed_out_task_retries_in_same_conversation() {
    let mut bench = with_one_second_limit(1);
    let first = run_past_time_limit(&mut bench);
    assert_eq!(cause(&bench, first), Some(lifecycle::Cause::Timeout));
    assert_eq!((bench.count_events("run.task_retried"), bench.phase_name("a")), (1, "starting"));
    assert_eq!(bench.run.worktree_move(1).unwrap().to, None, "its worktree stays where it is");
    bench.finish_worktree_move("a");
    assert_eq!(bench.live_session(), first);
    assert!(bench.instruction().starts_with("The work was interrupted before it was done"));
    bench.finish_work("a1").integrate_task("a").land("a1");
    assert_eq!(bench.ending(), RunEnding::Succeeded);
}

#[test]
fn refuted_task_is_retried_by_another_agent() {
    let mut bench = TestRun::open(planned_spec(&[("a", &[])]));
    let first = bench.live_session();
    bench.start().turn(ClaimKind::Completed, None).verify("bad", CheckEnd::Exit(1));
    bench.end_session(first);
    assert_eq!(cause(&bench, first), Some(lifecycle::Cause::Verification));
    assert_ne!(bench.live_session(), first);
    assert!(bench.instruction().contains("## Report of the previous agent"));
    assert!(bench.instruction().starts_with("Do the task below"));
    assert_eq!(bench.task("a").retries, 1);
}

#[test]
fn next_agent_starts_over_after_interrupted_one() {
    let mut bench = with_one_second_limit(2);
    run_past_time_limit(&mut bench);
    bench.finish_worktree_move("a");
    let first = bench.live_session();
    bench.start().turn(ClaimKind::Completed, None).verify("bad", CheckEnd::Exit(1));
    bench.end_session(first);
    assert_ne!(bench.live_session(), first);
    let told = bench.instruction();
    assert!(told.starts_with("Do the task below"), "it has nothing of that work: {told}");
}

#[test]
fn task_given_up_by_agent_is_not_retried() {
    let mut bench = TestRun::open(planned_spec(&[("a", &[])]));
    bench.fail_session();
    assert_eq!(bench.count_events("run.task_retried"), 0);
    assert_eq!(
        (bench.ending(), bench.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Tasks))
    );
}

#[test]
fn task_cancelled_by_user_is_not_retried() {
    let mut bench = TestRun::open(planned_spec(&[("a", &[])]));
    let id = bench.live_session();
    bench
        .start()
        .apply_to_live(session::SessionCommand::Cancel { because: "no".to_owned() })
        .end_session(id);
    assert_eq!(bench.state(1), State::Cancelled);
    assert_eq!((bench.count_events("run.task_retried"), bench.ending()), (0, RunEnding::Failed));
}

#[test]
fn task_retries_are_bounded() {
    for retries in 0..3 {
        let mut bench =
            TestRun::open(with_planning(planned_spec(&[("a", &[])]), |all| all.retries = retries));
        for _ in 0..=retries {
            let id = bench.live_session();
            bench.start().turn(ClaimKind::Completed, None).verify("bad", CheckEnd::Exit(1));
            bench.end_session(id);
        }
        assert_eq!(bench.ending(), RunEnding::Failed);
        assert_eq!(bench.run.sessions.len() as u32, retries + 1);
    }
}

#[test]
fn empty_diff_fails_the_task() {
    let spec = RunSpec { checks: Vec::new(), ..planned_spec(&[("a", &[])]) };
    let mut bench = TestRun::open(with_planning(spec, |all| all.retries = 0));
    bench.finish_work("old").take_head("old");
    assert_eq!(
        (bench.ending(), bench.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Tasks))
    );
    assert!(bench.outcome().detail.ends_with("a: nothing was changed"));
}

#[test]
fn independent_tasks_continue_after_a_failure() {
    let tasks: [(&str, &[&str]); 4] =
        [("bad", &[]), ("never", &["bad"]), ("a", &[]), ("b", &["a"])];
    let mut bench = TestRun::open(planned_spec(&tasks));
    bench.focus_task("bad").fail_session();
    assert_eq!((bench.phase_name("bad"), bench.working_names()), ("failed", vec!["a".to_owned()]));
    bench
        .focus_task("a")
        .finish_work("a1")
        .integrate_task("a")
        .finish_worktree_move("b")
        .focus_task("b")
        .finish_work("b1");
    assert!(!bench.run.is_sealed());
    bench.integrate_task("b");
    assert_eq!(
        (bench.ending(), bench.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Tasks))
    );
    let detail = &bench.outcome().detail;
    assert!(
        detail.starts_with("2 of 4 tasks are merged; bad: its session ended as failed"),
        "{detail}"
    );
    assert_eq!(bench.outcome().head.as_ref().unwrap().tree.0, "b1", "it ends with what is merged");
    assert_eq!(bench.phase_name("never"), "waiting");
}

#[test]
fn failed_task_waits_for_pending_head_of_another() {
    let spec = RunSpec { checks: Vec::new(), ..planned_spec(&[("bad", &[]), ("a", &[])]) };
    let mut bench = TestRun::open(spec);
    bench.focus_task("a").finish_work("a1");
    assert_eq!(bench.pending_effects().len(), 1, "its head");
    bench.focus_task("bad").fail_session();
    assert!(!bench.run.is_sealed(), "{:?}", bench.run.attempt());
    bench.take_head("a1").integrate_task("a");
    assert_eq!(bench.ending(), RunEnding::Failed);
    assert!(bench.outcome().detail.starts_with("1 of 2 tasks are merged"));
}

#[test]
fn failed_task_waits_for_pending_review_of_another() {
    let mut spec = planned_spec(&[("bad", &[]), ("a", &[])]);
    spec.reviews.task = ReviewMode::Report;
    let mut bench = TestRun::open(with_planning(spec, |all| all.machine_parallel = 2));
    bench.agents_of_other_runs = 2;
    bench.focus_task("a").finish_work("a1").focus_task("bad").fail_session();
    assert!(!bench.run.is_sealed(), "there is no room for its reviewer yet");
    bench.agents_of_other_runs = 0;
    bench.advance();
    assert_eq!(bench.working_names(), ["a"]);
}

#[test]
fn resume_restarts_failed_tasks_keeps_merged() {
    let mut bench = TestRun::open(planned_spec(&[("bad", &[]), ("never", &["bad"]), ("a", &[])]));
    let first = bench.focus_task("bad").live_session();
    bench.fail_session().focus_task("a").finish_work("a1").integrate_task("a");
    assert_eq!(bench.ending(), RunEnding::Failed);
    bench.apply(RunCommand::Resume);
    assert_eq!((bench.phase_name("a"), bench.phase_name("bad")), ("merged", "starting"));
    bench.finish_worktree_move("bad");
    assert_eq!(bench.live_session(), first, "in the same conversation");
    bench
        .focus_task("bad")
        .finish_work("b1")
        .merge_batch(&[("bad", "m")])
        .check_merge("m", CheckEnd::Exit(0));
    bench
        .integrate()
        .finish_worktree_move("never")
        .focus_task("never")
        .finish_work("n1")
        .integrate_task("never")
        .land("n1");
    assert_eq!(bench.ending(), RunEnding::Succeeded);
    assert_eq!(bench.count_events("run.integrated"), 3, "nothing is merged twice");
}

#[test]
fn resume_continues_from_every_queue_phase() {
    type Reach = fn(&mut TestRun);
    let reach: [(&str, Reach); 4] = [
        ("queued", |_| {}),
        ("merged together", |bench| {
            bench.merge_batch(&[("a", "m1"), ("b", "m2")]);
        }),
        ("met", |bench| {
            bench.merge_with_conflicts(&[("a", "m1")], &["b"]);
        }),
        ("proved", |bench| {
            bench.merge_batch(&[("a", "m1"), ("b", "m2")]).check_merge("m2", CheckEnd::Exit(0));
        }),
    ];
    for (place, reach) in reach {
        let mut bench = TestRun::open(planned_spec(&[("a", &[]), ("b", &[]), ("c", &[])]));
        bench.focus_task("a").finish_work("a1").focus_task("b").finish_work("b1");
        reach(&mut bench);
        bench.cancel().end_all();
        assert_eq!(bench.ending(), RunEnding::Cancelled, "{place}");
        bench.apply(RunCommand::Resume);
        let waits = &bench.run.graph.as_ref().unwrap().queue.waiting;
        let again = bench.phase_name("b") == "starting";
        assert!(waits.len() == 2 || (again && waits.len() == 1), "{place}: {waits:?}");
        assert_eq!(bench.count_events("run.integrated"), 0, "{place}");
        bench.merge_batch(&[("a", "m1")]).check_merge("m1", CheckEnd::Exit(0)).integrate();
        assert_eq!(bench.phase_name("a"), "merged", "{place}");
    }
}

#[test]
fn resume_restarts_review_without_redoing_work() {
    let mut spec = planned_spec(&[("a", &[])]);
    spec.reviews.task = ReviewMode::Report;
    let mut bench = TestRun::open(spec);
    bench.finish_work("a1");
    assert_eq!(bench.phase_name("a"), "review");
    bench.start().cancel().end_all().apply(RunCommand::Resume);
    assert_eq!((bench.phase_name("a"), bench.run.sessions.len()), ("review", 3));
    bench.focus_task("a").finish_review("a1", Vec::new()).integrate_task("a").land("a1");
    assert_eq!(bench.ending(), RunEnding::Succeeded);
}

#[test]
fn unmergeable_work_fails_only_its_task() {
    let mut bench = TestRun::open(planned_spec(&[("a", &[]), ("b", &[]), ("c", &["b"])]));
    bench.focus_task("a").finish_work("a1").focus_task("b").finish_work("b1");
    let unfit = |bench: &TestRun, name: &str| {
        let owed = bench.batch_merged(&[], &[]);
        let RunCommand::BatchMerged { batch, .. } = owed else { panic!("a merge was answered") };
        RunCommand::TaskUnmergeable { batch, task: id(name), reason: "no such object".to_owned() }
    };
    let told = unfit(&bench, "b");
    assert!(bench.try_apply(unfit(&bench, "c")).is_err(), "it does not wait to be merged");
    bench.apply(told.clone());
    assert_eq!((bench.phase_name("a"), bench.phase_name("b")), ("queued", "failed"));
    assert!(bench.try_apply(told).is_err(), "it was reported before");
    bench.integrate_task("a");
    assert_eq!(
        (bench.ending(), bench.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Tasks))
    );
    assert_eq!(bench.outcome().detail, "1 of 3 tasks are merged; b: no such object");
    assert_eq!(bench.run.head, Some(snapshot("a1")));
}
