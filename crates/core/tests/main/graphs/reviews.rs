//! Reviews of single tasks, and heads of unchecked work.

use provost_core::{
    run::{Command, Ending, ReviewMode, RunSpec, Stage},
    session::Signal,
};

use super::kit::{RunBench, given, id};
use crate::{
    kit::snapshot,
    runs::kit::{finding, review},
};

fn reviewed(mode: ReviewMode) -> RunBench {
    let mut spec = given(&[("a", &[]), ("b", &[])]);
    spec.reviews.task = mode;
    RunBench::open(spec)
}

#[test]
fn each_task_is_reviewed_from_its_own_work_while_others_go_on() {
    let mut bench = reviewed(ReviewMode::Report);
    bench.on("a").works("a1");
    assert_eq!((bench.word("a"), bench.word("b")), ("review", "working"));
    let last = bench.last().clone();
    assert_eq!((last.stage, last.task), (Stage::TaskReview, Some(id("a"))));
    let told = bench.on("a").instruction().to_owned();
    assert!(told.contains("`git diff commit-of-old`") && told.contains("Do a."), "{told}");
    bench.reviews("a1", vec![finding("slow")]);
    assert_eq!(bench.word("a"), "queued", "a report is a report");
    assert_eq!(bench.run.open_findings().count(), 1);
    bench.on("b").works("b1").on("b");
    assert!(!bench.instruction().contains("slow"), "that is about another task");
}

#[test]
fn a_repairing_review_is_followed_by_another_as_often_as_was_said() {
    let mut bench = reviewed(ReviewMode::Repair);
    bench.on("a").works("a1").on("a").reviews("a2", vec![finding("slow")]);
    assert_eq!((bench.word("a"), bench.last().cycle), ("review", 2));
    assert_eq!(bench.task("a").head, Some(snapshot("a2")));
    bench.on("a").reviews("a3", vec![finding("slow")]);
    assert_eq!(bench.word("a"), "queued");
    bench.comes_in("a");
    assert_eq!(bench.run.head, Some(snapshot("a3")));
}

#[test]
fn a_repairing_review_that_found_nothing_is_the_last() {
    let mut bench = reviewed(ReviewMode::Repair);
    bench.on("a").works("a1").on("a").reviews("a1", Vec::new());
    assert_eq!(bench.word("a"), "queued");
}

#[test]
fn a_review_that_told_nothing_fails_its_task_only() {
    let mut bench = reviewed(ReviewMode::Report);
    bench.on("a").works("a1").on("a").does("a1", None);
    assert_eq!((bench.word("a"), bench.word("b")), ("failed", "working"));
    bench.on("b").works("b1").on("b").does("b1", Some(review(Vec::new()))).comes_in("b");
    assert_eq!(
        bench.outcome().detail,
        "1 of 2 tasks are merged; a: the review returned no findings"
    );
}

/// A finished task in review; work and review have a time limit of one second.
fn hurried(mode: ReviewMode) -> RunBench {
    let mut spec = given(&[("a", &[])]);
    (spec.reviews.task, spec.bounds.time_limit_ms) = (mode, Some(1_000));
    let mut bench = RunBench::open(spec);
    bench.works("a1");
    bench
}

/// Lets the reviewer exceed its time limit.
fn overruns(bench: &mut RunBench) {
    let id = bench.live();
    bench.start().signal(Signal::TurnStarted { turn: None }).end_session(id);
}

#[test]
fn a_reviewer_that_broke_down_is_followed_by_another_who_reviews_the_same_work() {
    let mut bench = hurried(ReviewMode::Repair);
    bench.reviews("a2", vec![finding("slow")]);
    let broken = bench.live();
    overruns(&mut bench);
    assert_eq!((bench.word("a"), bench.count("run.task_retried")), ("review", 1));
    assert_ne!(bench.live(), broken);
    let base = &bench.sessions[&bench.live()].spec.work;
    assert!(format!("{base:?}").contains("commit-of-a2"), "the fix is kept: {base:?}");
    assert_eq!(bench.task("a").workers.len(), 1, "the work is not done again");
    bench.reviews("a2", Vec::new());
    assert_eq!((bench.word("a"), bench.task("a").retries), ("queued", 1));
}

#[test]
fn reviews_that_break_down_are_begun_again_as_often_as_work_is() {
    let mut bench = hurried(ReviewMode::Report);
    for reviews in 1..=2 {
        assert_eq!(bench.word("a"), "review", "review {reviews}");
        overruns(&mut bench);
    }
    assert_eq!((bench.word("a"), bench.ending()), ("failed", Ending::Failed));
    assert!(bench.outcome().detail.contains("(timeout)"), "{}", bench.outcome().detail);
}

#[test]
fn work_that_nobody_checks_is_committed_before_it_is_merged() {
    let spec = RunSpec { checks: Vec::new(), ..given(&[("a", &[]), ("b", &[])]) };
    let mut bench = RunBench::open(spec);
    bench.on("a").works("a1").on("b").works("b1");
    assert_eq!(bench.owed().len(), 2, "both heads are taken");
    let of_b = bench.task("b").session().unwrap();
    let taken =
        Command::HeadTaken { session: of_b, head: snapshot("b1"), caveats: Default::default() };
    bench.tell(taken.clone());
    assert!(bench.try_tell(taken).is_err(), "once");
    assert_eq!((bench.word("a"), bench.word("b")), ("working", "queued"));
    bench.merges(&[("b", "b1")]).integrates();
    assert_eq!(bench.count("run.prefix_proved"), 1, "nothing is to be checked");
    bench.head("a1").merges(&[("a", "m")]).integrates().landed("m");
    assert_eq!(bench.ending(), Ending::Completed, "nothing was there to prove it by");
}

#[test]
fn what_cannot_be_committed_is_tried_again_and_then_fails() {
    let spec = RunSpec { checks: Vec::new(), ..given(&[("a", &[])]) };
    let mut bench = RunBench::open(spec);
    for _ in 0..2 {
        let session = bench.works("a1").task("a").session().unwrap();
        bench.tell(Command::HeadFailed { session, reason: "index.lock".to_owned() });
        if bench.word("a") == "starting" {
            bench.brings("a");
        }
    }
    assert_eq!(bench.ending(), Ending::Failed);
    assert!(bench.outcome().detail.ends_with("a: index.lock"), "{}", bench.outcome().detail);
}

#[test]
fn a_check_that_a_person_accepts_moves_no_head_by_itself() {
    let mut bench = RunBench::open(given(&[("a", &[]), ("b", &[])]));
    bench.on("a").works("a1").merges(&[("a", "m1")]);
    let checking = bench.run.live().find(|one| one.stage == Stage::Tasks).unwrap().id;
    let (to, because) = (provost_core::session::Resolve::Accepted, "I looked".to_owned());
    bench.say_to(checking, provost_core::session::Command::Resolve { to, because });
    bench.end_session(checking);
    assert_eq!(bench.owed(), ["integrate-1-1-1"]);
    assert_eq!(bench.run.head, None);
    bench.integrates();
    assert_eq!(bench.run.head, Some(snapshot("m1")));
    assert!(bench.run.proof.is_none(), "an acceptance by the user is not a proof");
}

#[test]
fn the_whole_is_reviewed_from_what_was_merged() {
    let mut spec = given(&[("a", &[])]);
    spec.reviews.whole = ReviewMode::Repair;
    let mut bench = RunBench::open(spec);
    bench.works("a1").comes_in("a");
    assert_eq!(
        (bench.run.stage, bench.at_work()),
        (Stage::FinalReview, vec!["final_review".to_owned()])
    );
    bench.reviews("a2", Vec::new()).landed("a2");
    assert_eq!((bench.ending(), bench.run.head.clone()), (Ending::Succeeded, Some(snapshot("a2"))));
}
