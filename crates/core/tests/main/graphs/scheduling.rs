//! Task scheduling: when each task starts, and in which conversation.

use provost_core::{
    lifecycle::ClaimKind,
    run::{Command, HandedOver, RunSpec},
    session::{self, Driver},
};

use super::kit::{RunBench, given, id, with};
use crate::runs::kit::run_spec;

#[test]
fn e20_a_ready_task_begins_at_once_and_never_waits_for_an_unrelated_slow_one() {
    let mut bench = RunBench::open(given(&[
        ("slow", &[]),
        ("a", &[]),
        ("b", &["a"]),
        ("after-slow", &["slow"]),
    ]));
    assert_eq!(bench.at_work(), ["a", "slow"], "all that is ready, each in a worktree of its own");
    bench.on("slow").start();
    bench.on("a").works("a1").comes_in("a").brings("b");
    assert_eq!(bench.at_work(), ["b", "slow"], "neither task waited");
    bench.on("b").works("b1").comes_in("b");
    assert_eq!((bench.word("b"), bench.word("after-slow")), ("merged", "waiting"));
    assert_eq!(bench.run.head.as_ref().unwrap().tree.0, "b1");
    bench.on("slow").works("s1").merges(&[("slow", "m2")]).merge_is("m2", PASSED).integrates();
    bench.brings("after-slow").on("after-slow").works("s2").comes_in("after-slow").landed("s2");
    assert_eq!(bench.ending(), provost_core::run::Ending::Succeeded);
}

const PASSED: provost_core::verdict::CheckEnd = provost_core::verdict::CheckEnd::Exit(0);

#[test]
fn e20_a_session_that_takes_no_answer_keeps_nobody_else_waiting() {
    let mut spec = given(&[("a", &[]), ("b", &[]), ("c", &["b"])]);
    spec.answers = [("q".to_owned(), vec!["so".to_owned()])].into();
    let mut bench = RunBench::open(spec);
    bench.on("a").start().signal(session::Signal::TurnStarted { turn: None });
    let stop = session::Command::Stop;
    bench.say(stop);
    let asked = crate::runs::kit::asks("n", "q", "which?");
    bench.signal(session::Signal::Asked(asked));
    assert_eq!(
        bench.sessions[&bench.live()].open_requests().count(),
        1,
        "it ends, and hears nothing"
    );
    bench.on("b").works("b1").comes_in("b");
    assert_eq!(bench.word("b"), "merged");
    bench.brings("c");
    assert_eq!(bench.at_work(), ["a", "c"]);
}

#[test]
fn no_more_agents_work_than_were_allowed() {
    let spec = with(given(&[("a", &[]), ("b", &[]), ("c", &[])]), |all| all.parallel = 2);
    let mut bench = RunBench::open(spec);
    assert_eq!(bench.at_work(), ["a", "b"]);
    bench.on("b").works("b1");
    assert_eq!(bench.at_work(), ["a", "c"], "a finished task frees its slot");
    bench.comes_in("b");
    assert_eq!(bench.at_work(), ["a", "c"]);
}

#[test]
fn checks_of_what_was_merged_take_no_agents_place() {
    let spec = with(given(&[("a", &[]), ("b", &[])]), |all| all.parallel = 1);
    let mut bench = RunBench::open(spec);
    bench.on("a").works("a1").merges(&[("a", "m1")]);
    assert_eq!(bench.at_work(), ["b", "tasks"]);
    assert_eq!(bench.run.agents_at_work(), 1);
}

#[test]
fn agents_of_other_runs_count_for_the_machine() {
    let spec = with(given(&[("a", &[]), ("b", &[]), ("c", &[])]), |all| all.machine_parallel = 3);
    let mut bench = RunBench::open(spec.clone());
    assert_eq!(bench.at_work(), ["a", "b", "c"]);
    let full = RunSpec { planning: spec.planning.clone(), ..spec };
    let mut other = RunBench::open(with(full, |all| all.machine_parallel = 1));
    assert_eq!(other.at_work(), ["a"]);
    other.elsewhere = 1;
    other.on("a").works("a1").comes_in("a");
    assert!(other.at_work().is_empty(), "another run has the room");
    other.elsewhere = 0;
    other.follow();
    assert_eq!(other.at_work(), ["b"]);
    bench.elsewhere = 9;
    bench.on("a").works("a1");
    assert_eq!(bench.at_work(), ["b", "c"], "live sessions are not stopped");
}

#[test]
fn an_errand_has_an_agents_place() {
    let spec = with(given(&[("a", &[]), ("b", &["a"]), ("c", &["a"])]), |all| all.parallel = 1);
    let mut bench = RunBench::open(spec);
    bench.on("a").works("a1").comes_in("a");
    assert_eq!((bench.word("b"), bench.word("c")), ("starting", "waiting"));
    assert_eq!(bench.run.agents_at_work(), 1);
}

#[test]
fn an_errand_of_a_run_that_was_stopped_keeps_no_room_from_other_runs() {
    let mut bench = RunBench::open(given(&[("a", &[]), ("b", &["a"]), ("slow", &[])]));
    bench.on("slow").start().on("a").works("a1").comes_in("a");
    assert_eq!((bench.word("b"), bench.run.agents_at_work()), ("starting", 2));
    bench.cancel();
    assert_eq!(bench.run.agents_at_work(), 1, "a live session keeps its slot until its end");
    bench.end_all();
    assert_eq!((bench.run.is_sealed(), bench.run.agents_at_work()), (true, 0));
    bench.tell(Command::Resume);
    assert_eq!((bench.word("b"), bench.run.agents_at_work()), ("starting", 2), "and has it again");
}

#[test]
fn r18_a_chain_keeps_one_conversation() {
    let mut bench = RunBench::open(given(&[("a", &[]), ("b", &["a"]), ("c", &["b"])]));
    let first = bench.live();
    bench.on("a").works("a1").comes_in("a");
    assert_eq!(bench.owed(), ["bring-1"], "its worktree is brought to what was merged");
    let to = bench.run.errand(1).unwrap().to.clone();
    assert_eq!(to, bench.run.head);
    bench.brings("b");
    assert_eq!(bench.live(), first);
    assert!(bench.instruction().starts_with("That is done, checked and merged"));
    assert!(bench.instruction().contains("b: Title of b\n\nDo b."));
    assert_eq!(bench.session(1).spec.task, Some(id("b")));
    bench.on("b").works("b1").comes_in("b").brings("c").on("c").works("c1").comes_in("c");
    assert_eq!((bench.run.sessions.len(), bench.count("run.handed_over")), (1, 0));
    assert_eq!(bench.session(1).attempts.len(), 3);
}

#[test]
fn r18_only_one_of_several_goes_on_with_a_conversation() {
    let mut bench = RunBench::open(given(&[("a", &[]), ("b", &["a"]), ("c", &["a"])]));
    bench.on("a").works("a1").comes_in("a");
    assert_eq!((bench.word("b"), bench.word("c")), ("starting", "working"));
    assert_eq!(bench.run.sessions.len(), 2);
    bench.brings("b");
    assert_eq!(bench.at_work(), ["b", "c"]);
}

#[test]
fn r18_where_a_conversation_cannot_go_on_the_hand_over_is_recorded_and_told() {
    let mut bench = RunBench::open(given(&[("a", &[]), ("b", &["a"])]));
    let first = bench.live();
    bench.on("a").works("a1").comes_in("a");
    bench.tell(Command::ErrandFailed { no: 1, reason: "its worktree is gone".to_owned() });
    let (task, from, reason) = (id("b"), first, "its worktree is gone".to_owned());
    let recorded = HandedOver { task, from, reason }.into();
    assert!(bench.log.iter().any(|(_, event)| *event == recorded));
    assert_ne!(bench.on("b").live(), first);
    let told = bench.instruction().to_owned();
    assert!(told.starts_with("Do the task below"), "{told}");
    assert!(told.contains("## Report of the previous agent of its work\n\nso"), "{told}");
    bench.works("b1").comes_in("b").landed("b1");
    assert_eq!(bench.ending(), provost_core::run::Ending::Succeeded);
}

#[test]
fn r18_an_agent_that_takes_no_further_instruction_is_followed_by_another() {
    let mut spec = given(&[("a", &[]), ("b", &["a"])]);
    spec.agent.driver = Driver::Command;
    spec.agent.settings.questions = false;
    let mut bench = RunBench::open(RunSpec { checks: run_spec().checks, ..spec });
    let first = bench.live();
    bench.start().turn(provost_core::lifecycle::ClaimKind::Completed, None);
    let launch = bench.sessions[&first].launches.last().unwrap().id;
    let (end, by) = (session::End::Exit(0), session::EndedBy::Itself);
    bench.say(session::Command::ProcessEnded { launch, end, by }).signal(session::Signal::Closed);
    bench.say(session::Command::TreeGone { launch, leftovers: 0, verified: true });
    bench.verify("a1", PASSED).end_session(first);
    bench.comes_in("a").brings("b");
    assert_eq!(bench.count("run.handed_over"), 1);
    assert_ne!(bench.live(), first);
    assert_eq!(bench.at_work(), ["b"]);
}

#[test]
fn r18_after_a_resume_a_task_that_was_handed_over_keeps_its_own_conversation() {
    let mut bench = RunBench::open(given(&[("a", &[]), ("b", &["a"])]));
    bench.on("a").works("a1").comes_in("a");
    bench.tell(Command::ErrandFailed { no: 1, reason: "its worktree is gone".to_owned() });
    let second = bench.on("b").live();
    bench.start().cancel().end_session(second).tell(Command::Resume);
    assert_eq!(
        bench.run.errand(2).map(|errand| (errand.session, errand.to.clone())),
        Some((second, None))
    );
    bench.brings("b");
    assert_eq!(bench.live(), second);
    assert!(
        bench.instruction().starts_with("The work was interrupted before it was done: cancelled")
    );
}

#[test]
fn r18_a_conversation_goes_on_on_a_budget_that_was_raised() {
    let mut spec = given(&[("a", &[]), ("b", &["a"])]);
    spec.budget.tokens = Some(100);
    let mut bench = RunBench::open(spec);
    let first = bench.live();
    bench.start().signal(session::Signal::TurnStarted { turn: None }).uses(100).end_session(first);
    bench.tell(Command::RaiseBudget { tokens: Some(300), turns: None }).tell(Command::Resume);
    bench.brings("a");
    assert_eq!((bench.live(), bench.count("run.handed_over")), (first, 0));
}

/// A chain of two tasks; the first is merged while its agent is still being stopped.
fn ending() -> RunBench {
    let mut bench = RunBench::open(given(&[("a", &[]), ("b", &["a"])]));
    bench.start().turn(ClaimKind::Completed, None).verify("a1", PASSED).pass(50).comes_in("a");
    bench
}

#[test]
fn a_worktree_is_not_touched_before_the_agent_is_gone_that_worked_there() {
    let mut bench = ending();
    assert_eq!((bench.word("a"), bench.word("b")), ("merged", "waiting"));
    assert!(bench.owed().is_empty(), "nothing is brought anywhere: {:?}", bench.owed());
    let first = bench.run.id.session(1);
    bench.end_session(first);
    assert_eq!((bench.word("b"), bench.owed()), ("starting", vec!["bring-1".to_owned()]));
    bench.brings("b");
    assert_eq!(bench.live(), first, "in the same conversation");
}

#[test]
fn an_agent_that_cannot_be_ended_keeps_its_worktree_and_another_takes_over() {
    let mut bench = ending();
    (0..4).for_each(|_| {
        bench.pass(20_000);
    });
    assert_eq!((bench.count("run.handed_over"), bench.count("run.errand_owed")), (1, 0));
    assert_ne!(bench.on("b").live(), bench.run.id.session(1));
    assert_eq!(bench.task("b").hand_overs[0].1, "its agent could not be stopped");
}

#[test]
fn a_task_whose_conversation_is_waited_for_keeps_no_other_waiting() {
    let tasks: [(&str, &[&str]); 3] = [("a", &[]), ("b", &["a"]), ("c", &["a"])];
    let mut bench = RunBench::open(given(&tasks));
    bench.start().turn(ClaimKind::Completed, None).verify("a1", PASSED).pass(50).comes_in("a");
    assert_eq!((bench.word("b"), bench.at_work()), ("waiting", vec!["c".to_owned()]));
}
