//! Decisions reach every task, and review comments of a pull request are fixed on the merged work.

use provost_core::{
    lifecycle::ClaimKind,
    request::RequestReply,
    run::{LandMode, PullRequestChecks, RunSpec},
    session::StreamSignal,
    verdict::CheckEnd,
};

use super::kit::{TestRun, planned_spec};
use crate::{
    kit::snapshot,
    runs::kit::{comment, question_request},
};

#[test]
fn r21_decision_reaches_later_tasks() {
    let mut harness = TestRun::open(planned_spec(&[("a", &[]), ("b", &["a"]), ("c", &["a"])]));
    harness.start().signal(StreamSignal::RequestOpened(question_request(
        "n1",
        "db",
        "Which database?",
    )));
    harness
        .answer(RequestReply::Text("SQLite".to_owned()))
        .finish_work("a1")
        .integrate_task("a")
        .finish_worktree_move("b");
    for name in ["b", "c"] {
        let instruction = harness.focus_task(name).instruction();
        assert!(
            instruction.contains("- Which database?\n  Decided: SQLite"),
            "{name}: {instruction}"
        );
    }
}

#[test]
fn r21_decision_answers_same_question_of_live_tasks() {
    let mut harness = TestRun::open(planned_spec(&[("a", &[]), ("b", &[])]));
    harness.focus_task("b").start().signal(StreamSignal::RequestOpened(question_request(
        "n2",
        "db",
        "Which database?",
    )));
    let of_b = harness.live_session();
    assert_eq!(harness.sessions[&of_b].open_requests().count(), 1);
    harness.focus_task("a").start().signal(StreamSignal::RequestOpened(question_request(
        "n1",
        "db",
        "Which database?",
    )));
    harness.answer(RequestReply::Text("SQLite".to_owned()));
    assert_eq!(harness.sessions[&of_b].open_requests().count(), 0, "both have the one answer");
    assert_eq!(harness.run.decisions.len(), 1);
}

/// Returns the texts of the decision messages that a task's session got.
fn decision_messages(harness: &TestRun, name: &str) -> Vec<String> {
    let session = &harness.sessions[&harness.task(name).session().expect("the task has a session")];
    let messages = session.input.messages.iter().filter(|one| one.key.starts_with("decision-"));
    messages.map(|one| one.text.clone()).collect()
}

#[test]
fn r21_decision_is_sent_once_to_live_tasks() {
    let mut harness = TestRun::open(planned_spec(&[("a", &[]), ("b", &[]), ("c", &[])]));
    harness.focus_task("c").start();
    harness.focus_task("b").start().signal(StreamSignal::TurnStarted { turn: None });
    harness.focus_task("a").start().signal(StreamSignal::RequestOpened(question_request(
        "n1",
        "db",
        "Which database?",
    )));
    assert!(decision_messages(&harness, "b").is_empty());
    harness.answer(RequestReply::Text("SQLite".to_owned())).advance_clock(1).advance_clock(1);
    for name in ["b", "c"] {
        let [text] = &decision_messages(&harness, name)[..] else {
            panic!("{name}: {:?}", decision_messages(&harness, name))
        };
        assert!(text.contains("- Which database?\n  Decided: SQLite"), "{text}");
    }
    assert!(decision_messages(&harness, "a").is_empty(), "it has the answer");
    harness.focus_task("a").signal(StreamSignal::RequestOpened(question_request(
        "n2",
        "os",
        "Which system?",
    )));
    harness.answer(RequestReply::Text("Linux".to_owned()));
    assert_eq!(decision_messages(&harness, "b").len(), 2, "each by itself");
}

#[test]
fn r21_decision_skips_waiting_or_done_tasks() {
    let mut harness = TestRun::open(planned_spec(&[("a", &[]), ("b", &[]), ("c", &[])]));
    harness.focus_task("b").start().signal(StreamSignal::RequestOpened(question_request(
        "n2",
        "os",
        "Which system?",
    )));
    harness.focus_task("c").start().turn(ClaimKind::Completed, None);
    harness.focus_task("a").start().signal(StreamSignal::RequestOpened(question_request(
        "n1",
        "db",
        "Which database?",
    )));
    harness.answer(RequestReply::Text("SQLite".to_owned()));
    assert!(
        decision_messages(&harness, "b").is_empty() && decision_messages(&harness, "c").is_empty()
    );
    harness.focus_task("b").answer(RequestReply::Text("Linux".to_owned()));
    assert_eq!(
        decision_messages(&harness, "b").len(),
        1,
        "the decision is sent once it works again"
    );
}

#[test]
fn r21_secret_decision_is_not_sent() {
    let mut harness = TestRun::open(planned_spec(&[("a", &[]), ("b", &[])]));
    harness.focus_task("b").start();
    let mut asked = question_request("n1", "key", "Which key?");
    asked.questions[0].secret = true;
    harness.focus_task("a").start().signal(StreamSignal::RequestOpened(asked));
    harness.answer(RequestReply::Text("hush".to_owned()));
    assert_eq!((harness.run.decisions.len(), decision_messages(&harness, "b").len()), (1, 0));
}

/// A run with two merged tasks and an open pull request.
fn with_pull_request() -> TestRun {
    let mut harness =
        TestRun::open(RunSpec { land: LandMode::Pr, ..planned_spec(&[("a", &[]), ("b", &[])]) });
    harness
        .focus_task("a")
        .finish_work("a1")
        .focus_task("b")
        .finish_work("b1")
        .merge_batch(&[("a", "a1"), ("b", "both")]);
    harness.check_merge("both", CheckEnd::Exit(0)).integrate().open_pull_request("both");
    harness
}

#[test]
fn review_comments_are_fixed_on_the_merged_head() {
    let mut harness = with_pull_request();
    harness.see_pull(PullRequestChecks::Passed, &[comment("r1", "mend it")]);
    let last = harness.last_session();
    assert_eq!(last.no, 3, "no existing worktree has all of the work");
    let provost_core::session::WorkLocation::Worktree { base, .. } = &harness.session(3).spec.work
    else {
        panic!("it needs a worktree to fix anything")
    };
    assert_eq!(base, &Some(snapshot("both").commit));
    assert!(harness.instruction().contains("> mend it"));
}

#[test]
fn review_comments_go_to_agent_of_newest_work() {
    let spec = RunSpec { land: LandMode::Pr, ..planned_spec(&[("a", &[]), ("b", &["a"])]) };
    let mut harness = TestRun::open(spec);
    harness
        .finish_work("a1")
        .integrate_task("a")
        .finish_worktree_move("b")
        .finish_work("b1")
        .integrate_task("b")
        .open_pull_request("b1");
    harness.see_pull(PullRequestChecks::Passed, &[comment("r1", "mend it")]);
    assert_eq!(
        harness.last_session().no,
        1,
        "it continues in the conversation that has all of the work"
    );
    harness.finish_work("b2").open_pull_request("b2");
    assert_eq!(harness.run.head, Some(snapshot("b2")));
}

#[test]
fn review_comments_need_a_session_with_all_checks() {
    let mut spec = RunSpec { land: LandMode::Pr, ..planned_spec(&[("a", &[]), ("b", &["a"])]) };
    let mut tasks = spec.planning.given.take().expect("a plan is given").tasks().to_vec();
    tasks[0].checks = vec!["own".to_owned()];
    spec.planning.given = Some(provost_core::plan::Plan::new(tasks).expect("it is one"));
    let mut harness = TestRun::open(spec);
    harness
        .focus_task("a")
        .finish_work("a1")
        .integrate_task("a")
        .finish_worktree_move("b")
        .focus_task("b")
        .finish_work("b1");
    let worker = harness.task("b").worker.expect("it was worked on");
    harness
        .merge_batch(&[("b", "b1")])
        .check_merge("b1", CheckEnd::Exit(0))
        .integrate()
        .open_pull_request("b1");
    harness.see_pull(PullRequestChecks::Passed, &[comment("r1", "mend it")]);
    assert_ne!(harness.last_session().id, worker, "it is checked for its own task alone");
    let spec = &harness.sessions[&harness.last_session().id].spec;
    assert_eq!(spec.checks, ["check", "own"]);
}
