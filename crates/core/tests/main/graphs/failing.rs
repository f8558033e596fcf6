//! Failed tasks: retries, tasks that continue without them, and resuming.

use provost_core::{
    ids::SessionId,
    lifecycle::{self, ClaimKind, State},
    run::{Cause, Command, Ending, ReviewMode, RunSpec},
    session::{self, Signal},
    verdict::CheckEnd,
};

use super::kit::{RunBench, given, id, with};
use crate::kit::snapshot;

/// A run with one task and a time limit of one second.
fn hurried(retries: u32) -> RunBench {
    let mut spec = with(given(&[("a", &[])]), |all| all.retries = retries);
    spec.bounds.time_limit_ms = Some(1_000);
    RunBench::open(spec)
}

/// Lets the agent work until its time limit.
fn overruns(bench: &mut RunBench) -> SessionId {
    let id = bench.live();
    bench.start().signal(Signal::TurnStarted { turn: None }).end_session(id);
    id
}

fn cause(bench: &RunBench, id: SessionId) -> Option<lifecycle::Cause> {
    let found = bench.run.sessions.iter().find(|one| one.id == id);
    found.and_then(|one| one.end.as_ref()).and_then(|end| end.cause)
}

#[test]
fn what_took_too_long_is_begun_again_in_the_same_conversation() {
    let mut bench = hurried(1);
    let first = overruns(&mut bench);
    assert_eq!(cause(&bench, first), Some(lifecycle::Cause::Timeout));
    assert_eq!((bench.count("run.task_retried"), bench.word("a")), (1, "starting"));
    assert_eq!(bench.run.errand(1).unwrap().to, None, "its worktree stays where it is");
    bench.brings("a");
    assert_eq!(bench.live(), first);
    assert!(bench.instruction().starts_with("The work was interrupted before it was done"));
    bench.works("a1").comes_in("a").landed("a1");
    assert_eq!(bench.ending(), Ending::Succeeded);
}

#[test]
fn what_was_refuted_to_the_last_is_begun_again_by_another_agent() {
    let mut bench = RunBench::open(given(&[("a", &[])]));
    let first = bench.live();
    bench.start().turn(ClaimKind::Completed, None).verify("bad", CheckEnd::Exit(1));
    bench.end_session(first);
    assert_eq!(cause(&bench, first), Some(lifecycle::Cause::Verification));
    assert_ne!(bench.live(), first);
    assert!(bench.instruction().contains("## Report of the previous agent of its work"));
    assert!(bench.instruction().starts_with("Do the task below"));
    assert_eq!(bench.task("a").retries, 1);
}

#[test]
fn another_agent_is_told_to_begin_though_the_one_before_was_interrupted_once() {
    let mut bench = hurried(2);
    overruns(&mut bench);
    bench.brings("a");
    let first = bench.live();
    bench.start().turn(ClaimKind::Completed, None).verify("bad", CheckEnd::Exit(1));
    bench.end_session(first);
    assert_ne!(bench.live(), first);
    let told = bench.instruction();
    assert!(told.starts_with("Do the task below"), "it has nothing of that work: {told}");
}

#[test]
fn what_the_agent_gave_up_is_not_tried_again() {
    let mut bench = RunBench::open(given(&[("a", &[])]));
    bench.fails();
    assert_eq!(bench.count("run.task_retried"), 0);
    assert_eq!((bench.ending(), bench.outcome().cause), (Ending::Failed, Some(Cause::Tasks)));
}

#[test]
fn what_a_person_ended_is_not_tried_again() {
    let mut bench = RunBench::open(given(&[("a", &[])]));
    let id = bench.live();
    bench.start().say(session::Command::Cancel { because: "no".to_owned() }).end_session(id);
    assert_eq!(bench.state(1), State::Cancelled);
    assert_eq!((bench.count("run.task_retried"), bench.ending()), (0, Ending::Failed));
}

#[test]
fn a_task_is_tried_so_often_and_no_more() {
    for retries in 0..3 {
        let mut bench = RunBench::open(with(given(&[("a", &[])]), |all| all.retries = retries));
        for _ in 0..=retries {
            let id = bench.live();
            bench.start().turn(ClaimKind::Completed, None).verify("bad", CheckEnd::Exit(1));
            bench.end_session(id);
        }
        assert_eq!(bench.ending(), Ending::Failed);
        assert_eq!(bench.run.sessions.len() as u32, retries + 1);
    }
}

#[test]
fn work_that_changed_nothing_is_none() {
    let spec = RunSpec { checks: Vec::new(), ..given(&[("a", &[])]) };
    let mut bench = RunBench::open(with(spec, |all| all.retries = 0));
    bench.works("old").head("old");
    assert_eq!((bench.ending(), bench.outcome().cause), (Ending::Failed, Some(Cause::Tasks)));
    assert!(bench.outcome().detail.ends_with("a: nothing was changed"));
}

#[test]
fn what_is_independent_of_a_failed_task_goes_on_and_is_merged() {
    let tasks: [(&str, &[&str]); 4] =
        [("bad", &[]), ("never", &["bad"]), ("a", &[]), ("b", &["a"])];
    let mut bench = RunBench::open(given(&tasks));
    bench.on("bad").fails();
    assert_eq!((bench.word("bad"), bench.at_work()), ("failed", vec!["a".to_owned()]));
    bench.on("a").works("a1").comes_in("a").brings("b").on("b").works("b1");
    assert!(!bench.run.is_sealed());
    bench.comes_in("b");
    assert_eq!((bench.ending(), bench.outcome().cause), (Ending::Failed, Some(Cause::Tasks)));
    let detail = &bench.outcome().detail;
    assert!(
        detail.starts_with("2 of 4 tasks are merged; bad: its session ended as failed"),
        "{detail}"
    );
    assert_eq!(bench.outcome().head.as_ref().unwrap().tree.0, "b1", "it ends with what is merged");
    assert_eq!(bench.word("never"), "waiting");
}

#[test]
fn a_failed_task_does_not_end_the_run_while_the_work_of_another_is_being_committed() {
    let spec = RunSpec { checks: Vec::new(), ..given(&[("bad", &[]), ("a", &[])]) };
    let mut bench = RunBench::open(spec);
    bench.on("a").works("a1");
    assert_eq!(bench.owed().len(), 1, "its head");
    bench.on("bad").fails();
    assert!(!bench.run.is_sealed(), "{:?}", bench.run.leg());
    bench.head("a1").comes_in("a");
    assert_eq!(bench.ending(), Ending::Failed);
    assert!(bench.outcome().detail.starts_with("1 of 2 tasks are merged"));
}

#[test]
fn a_failed_task_does_not_end_the_run_while_another_waits_for_a_reviewer() {
    let mut spec = given(&[("bad", &[]), ("a", &[])]);
    spec.reviews.task = ReviewMode::Report;
    let mut bench = RunBench::open(with(spec, |all| all.machine_parallel = 2));
    bench.elsewhere = 2;
    bench.on("a").works("a1").on("bad").fails();
    assert!(!bench.run.is_sealed(), "there is no room for its reviewer yet");
    bench.elsewhere = 0;
    bench.follow();
    assert_eq!(bench.at_work(), ["a"]);
}

#[test]
fn a_resume_begins_failed_tasks_anew_and_keeps_what_is_merged() {
    let mut bench = RunBench::open(given(&[("bad", &[]), ("never", &["bad"]), ("a", &[])]));
    let first = bench.on("bad").live();
    bench.fails().on("a").works("a1").comes_in("a");
    assert_eq!(bench.ending(), Ending::Failed);
    bench.tell(Command::Resume);
    assert_eq!((bench.word("a"), bench.word("bad")), ("merged", "starting"));
    bench.brings("bad");
    assert_eq!(bench.live(), first, "in the same conversation");
    bench.on("bad").works("b1").merges(&[("bad", "m")]).merge_is("m", CheckEnd::Exit(0));
    bench.integrates().brings("never").on("never").works("n1").comes_in("never").landed("n1");
    assert_eq!(bench.ending(), Ending::Succeeded);
    assert_eq!(bench.count("run.integrated"), 3, "nothing is merged twice");
}

#[test]
fn a_resume_goes_on_at_every_place_of_the_queue() {
    type Reach = fn(&mut RunBench);
    let reach: [(&str, Reach); 4] = [
        ("queued", |_| {}),
        ("merged together", |bench| {
            bench.merges(&[("a", "m1"), ("b", "m2")]);
        }),
        ("met", |bench| {
            bench.conflicts(&[("a", "m1")], &["b"]);
        }),
        ("proved", |bench| {
            bench.merges(&[("a", "m1"), ("b", "m2")]).merge_is("m2", CheckEnd::Exit(0));
        }),
    ];
    for (place, reach) in reach {
        let mut bench = RunBench::open(given(&[("a", &[]), ("b", &[]), ("c", &[])]));
        bench.on("a").works("a1").on("b").works("b1");
        reach(&mut bench);
        bench.cancel().end_all();
        assert_eq!(bench.ending(), Ending::Cancelled, "{place}");
        bench.tell(Command::Resume);
        let waits = &bench.run.graph.as_ref().unwrap().queue.waiting;
        let again = bench.word("b") == "starting";
        assert!(waits.len() == 2 || (again && waits.len() == 1), "{place}: {waits:?}");
        assert_eq!(bench.count("run.integrated"), 0, "{place}");
        bench.merges(&[("a", "m1")]).merge_is("m1", CheckEnd::Exit(0)).integrates();
        assert_eq!(bench.word("a"), "merged", "{place}");
    }
}

#[test]
fn a_review_that_was_ended_begins_anew_without_the_work_being_done_again() {
    let mut spec = given(&[("a", &[])]);
    spec.reviews.task = ReviewMode::Report;
    let mut bench = RunBench::open(spec);
    bench.works("a1");
    assert_eq!(bench.word("a"), "review");
    bench.start().cancel().end_all().tell(Command::Resume);
    assert_eq!((bench.word("a"), bench.run.sessions.len()), ("review", 3));
    bench.on("a").reviews("a1", Vec::new()).comes_in("a").landed("a1");
    assert_eq!(bench.ending(), Ending::Succeeded);
}

#[test]
fn work_that_cannot_be_merged_fails_its_task_and_nothing_else() {
    let mut bench = RunBench::open(given(&[("a", &[]), ("b", &[]), ("c", &["b"])]));
    bench.on("a").works("a1").on("b").works("b1");
    let unfit = |bench: &RunBench, name: &str| {
        let owed = bench.batch_merged(&[], &[]);
        let Command::BatchMerged { batch, .. } = owed else { panic!("a merge was answered") };
        Command::TaskUnfit { batch, task: id(name), reason: "no such object".to_owned() }
    };
    let told = unfit(&bench, "b");
    assert!(bench.try_tell(unfit(&bench, "c")).is_err(), "it does not wait to be merged");
    bench.tell(told.clone());
    assert_eq!((bench.word("a"), bench.word("b")), ("queued", "failed"));
    assert!(bench.try_tell(told).is_err(), "it was reported before");
    bench.comes_in("a");
    assert_eq!((bench.ending(), bench.outcome().cause), (Ending::Failed, Some(Cause::Tasks)));
    assert_eq!(bench.outcome().detail, "1 of 3 tasks are merged; b: no such object");
    assert_eq!(bench.run.head, Some(snapshot("a1")));
}
