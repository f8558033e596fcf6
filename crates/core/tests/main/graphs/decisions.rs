//! Decisions reach every task, and review comments of a pull request are fixed on the merged work.

use provost_core::{
    lifecycle::ClaimKind,
    request::Reply,
    run::{LandMode, PullChecks, RunSpec},
    session::Signal,
    verdict::CheckEnd,
};

use super::kit::{RunBench, given};
use crate::{
    kit::snapshot,
    runs::kit::{asks, remark},
};

#[test]
fn r21_what_one_task_was_answered_reaches_those_that_begin_later() {
    let mut bench = RunBench::open(given(&[("a", &[]), ("b", &["a"]), ("c", &["a"])]));
    bench.start().signal(Signal::Asked(asks("n1", "db", "Which database?")));
    bench.answer(Reply::Text("SQLite".to_owned())).works("a1").comes_in("a").brings("b");
    for name in ["b", "c"] {
        let told = bench.on(name).instruction();
        assert!(told.contains("- Which database?\n  Decided: SQLite"), "{name}: {told}");
    }
}

#[test]
fn r21_what_was_decided_is_not_asked_again_also_by_those_at_work() {
    let mut bench = RunBench::open(given(&[("a", &[]), ("b", &[])]));
    bench.on("b").start().signal(Signal::Asked(asks("n2", "db", "Which database?")));
    let of_b = bench.live();
    assert_eq!(bench.sessions[&of_b].open_requests().count(), 1);
    bench.on("a").start().signal(Signal::Asked(asks("n1", "db", "Which database?")));
    bench.answer(Reply::Text("SQLite".to_owned()));
    assert_eq!(bench.sessions[&of_b].open_requests().count(), 0, "both have the one answer");
    assert_eq!(bench.run.decisions.len(), 1);
}

/// Returns the texts of the decision messages that a task's session got.
fn told(bench: &RunBench, name: &str) -> Vec<String> {
    let session = &bench.sessions[&bench.task(name).session().expect("the task has a session")];
    let told = session.messages.iter().filter(|one| one.key.starts_with("decision-"));
    told.map(|one| one.text.clone()).collect()
}

#[test]
fn r21_what_is_decided_while_others_work_is_told_to_them_once() {
    let mut bench = RunBench::open(given(&[("a", &[]), ("b", &[]), ("c", &[])]));
    bench.on("c").start();
    bench.on("b").start().signal(Signal::TurnStarted { turn: None });
    bench.on("a").start().signal(Signal::Asked(asks("n1", "db", "Which database?")));
    assert!(told(&bench, "b").is_empty());
    bench.answer(Reply::Text("SQLite".to_owned())).pass(1).pass(1);
    for name in ["b", "c"] {
        let [text] = &told(&bench, name)[..] else { panic!("{name}: {:?}", told(&bench, name)) };
        assert!(text.contains("- Which database?\n  Decided: SQLite"), "{text}");
    }
    assert!(told(&bench, "a").is_empty(), "it has the answer");
    bench.on("a").signal(Signal::Asked(asks("n2", "os", "Which system?")));
    bench.answer(Reply::Text("Linux".to_owned()));
    assert_eq!(told(&bench, "b").len(), 2, "each by itself");
}

#[test]
fn r21_who_waits_for_a_person_or_has_done_is_not_disturbed_by_a_decision() {
    let mut bench = RunBench::open(given(&[("a", &[]), ("b", &[]), ("c", &[])]));
    bench.on("b").start().signal(Signal::Asked(asks("n2", "os", "Which system?")));
    bench.on("c").start().turn(ClaimKind::Completed, None);
    bench.on("a").start().signal(Signal::Asked(asks("n1", "db", "Which database?")));
    bench.answer(Reply::Text("SQLite".to_owned()));
    assert!(told(&bench, "b").is_empty() && told(&bench, "c").is_empty());
    bench.on("b").answer(Reply::Text("Linux".to_owned()));
    assert_eq!(told(&bench, "b").len(), 1, "the decision is sent once it works again");
}

#[test]
fn r21_of_a_secret_nothing_is_told() {
    let mut bench = RunBench::open(given(&[("a", &[]), ("b", &[])]));
    bench.on("b").start();
    let mut asked = asks("n1", "key", "Which key?");
    asked.questions[0].secret = true;
    bench.on("a").start().signal(Signal::Asked(asked));
    bench.answer(Reply::Text("hush".to_owned()));
    assert_eq!((bench.run.decisions.len(), told(&bench, "b").len()), (1, 0));
}

/// A run with two merged tasks and an open pull request.
fn requested() -> RunBench {
    let mut bench =
        RunBench::open(RunSpec { land: LandMode::Pr, ..given(&[("a", &[]), ("b", &[])]) });
    bench.on("a").works("a1").on("b").works("b1").merges(&[("a", "a1"), ("b", "both")]);
    bench.merge_is("both", CheckEnd::Exit(0)).integrates().requested("both");
    bench
}

#[test]
fn what_a_pull_request_is_told_is_mended_on_all_that_was_merged() {
    let mut bench = requested();
    bench.sees(PullChecks::Passed, &[remark("r1", "mend it")]);
    let last = bench.last();
    assert_eq!(last.no, 4, "no existing worktree has all of the work");
    let provost_core::session::Work::Worktree { base, .. } = &bench.session(4).spec.work else {
        panic!("it needs a worktree to fix anything")
    };
    assert_eq!(base, &Some(snapshot("both").commit));
    assert!(bench.instruction().contains("> mend it"));
}

#[test]
fn what_a_pull_request_is_told_goes_to_the_agent_whose_work_is_the_newest() {
    let spec = RunSpec { land: LandMode::Pr, ..given(&[("a", &[]), ("b", &["a"])]) };
    let mut bench = RunBench::open(spec);
    bench.works("a1").comes_in("a").brings("b").works("b1").comes_in("b").requested("b1");
    bench.sees(PullChecks::Passed, &[remark("r1", "mend it")]);
    assert_eq!(bench.last().no, 1, "it continues in the conversation that has all of the work");
    bench.works("b2").requested("b2");
    assert_eq!(bench.run.head, Some(snapshot("b2")));
}

#[test]
fn remarks_are_not_taken_up_where_the_checks_of_another_task_would_not_be_run() {
    let mut spec = RunSpec { land: LandMode::Pr, ..given(&[("a", &[]), ("b", &["a"])]) };
    let mut tasks = spec.planning.given.take().expect("a plan is given").tasks().to_vec();
    tasks[0].checks = vec!["own".to_owned()];
    spec.planning.given = Some(provost_core::plan::Plan::new(tasks).expect("it is one"));
    let mut bench = RunBench::open(spec);
    bench.on("a").works("a1").comes_in("a").brings("b").on("b").works("b1");
    let worker = bench.task("b").worker.expect("it was worked on");
    bench.merges(&[("b", "b1")]).merge_is("b1", CheckEnd::Exit(0)).integrates().requested("b1");
    bench.sees(PullChecks::Passed, &[remark("r1", "mend it")]);
    assert_ne!(bench.last().id, worker, "it is checked for its own task alone");
    let spec = &bench.sessions[&bench.last().id].spec;
    assert_eq!(spec.checks, ["check", "own"]);
}
