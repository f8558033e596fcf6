//! Task scheduling: when each task starts, and in which conversation.

use provost_core::{
    lifecycle::ClaimKind,
    run::{HandedOver, RunCommand, RunSpec},
    session::{self, AgentInterface},
};

use super::kit::{TestRun, id, planned_spec, with_planning};
use crate::runs::kit::run_spec;

#[test]
fn e20_ready_task_never_waits_for_unrelated_one() {
    let mut bench = TestRun::open(planned_spec(&[
        ("slow", &[]),
        ("a", &[]),
        ("b", &["a"]),
        ("after-slow", &["slow"]),
    ]));
    assert_eq!(
        bench.working_names(),
        ["a", "slow"],
        "all that is ready, each in a worktree of its own"
    );
    bench.focus_task("slow").start();
    bench.focus_task("a").finish_work("a1").integrate_task("a").finish_worktree_move("b");
    assert_eq!(bench.working_names(), ["b", "slow"], "neither task waited");
    bench.focus_task("b").finish_work("b1").integrate_task("b");
    assert_eq!((bench.phase_name("b"), bench.phase_name("after-slow")), ("merged", "waiting"));
    assert_eq!(bench.run.head.as_ref().unwrap().tree.0, "b1");
    bench
        .focus_task("slow")
        .finish_work("s1")
        .merge_batch(&[("slow", "m2")])
        .check_merge("m2", PASSED)
        .integrate();
    bench
        .finish_worktree_move("after-slow")
        .focus_task("after-slow")
        .finish_work("s2")
        .integrate_task("after-slow")
        .land("s2");
    assert_eq!(bench.ending(), provost_core::run::RunEnding::Succeeded);
}

const PASSED: provost_core::verdict::CheckEnd = provost_core::verdict::CheckEnd::Exit(0);

#[test]
fn e20_unanswerable_session_does_not_block_others() {
    let mut spec = planned_spec(&[("a", &[]), ("b", &[]), ("c", &["b"])]);
    spec.answers = [("q".to_owned(), vec!["so".to_owned()])].into();
    let mut bench = TestRun::open(spec);
    bench.focus_task("a").start().signal(session::StreamSignal::TurnStarted { turn: None });
    let stop = session::SessionCommand::Stop;
    bench.apply_to_live(stop);
    let asked = crate::runs::kit::question_request("n", "q", "which?");
    bench.signal(session::StreamSignal::RequestOpened(asked));
    assert_eq!(
        bench.sessions[&bench.live_session()].open_requests().count(),
        1,
        "it ends, and hears nothing"
    );
    bench.focus_task("b").finish_work("b1").integrate_task("b");
    assert_eq!(bench.phase_name("b"), "merged");
    bench.finish_worktree_move("c");
    assert_eq!(bench.working_names(), ["a", "c"]);
}

#[test]
fn parallel_limit_is_respected() {
    let spec =
        with_planning(planned_spec(&[("a", &[]), ("b", &[]), ("c", &[])]), |all| all.parallel = 2);
    let mut bench = TestRun::open(spec);
    assert_eq!(bench.working_names(), ["a", "b"]);
    bench.focus_task("b").finish_work("b1");
    assert_eq!(bench.working_names(), ["a", "c"], "a finished task frees its slot");
    bench.integrate_task("b");
    assert_eq!(bench.working_names(), ["a", "c"]);
}

#[test]
fn merge_checks_do_not_use_agent_slots() {
    let spec = with_planning(planned_spec(&[("a", &[]), ("b", &[])]), |all| all.parallel = 1);
    let mut bench = TestRun::open(spec);
    bench.focus_task("a").finish_work("a1").merge_batch(&[("a", "m1")]);
    assert_eq!(bench.working_names(), ["b", "tasks"]);
    assert_eq!(bench.run.agents_at_work(), 1);
}

#[test]
fn agents_of_other_runs_count_for_machine_limit() {
    let spec = with_planning(planned_spec(&[("a", &[]), ("b", &[]), ("c", &[])]), |all| {
        all.machine_parallel = 3
    });
    let mut bench = TestRun::open(spec.clone());
    assert_eq!(bench.working_names(), ["a", "b", "c"]);
    let full = RunSpec { planning: spec.planning.clone(), ..spec };
    let mut other = TestRun::open(with_planning(full, |all| all.machine_parallel = 1));
    assert_eq!(other.working_names(), ["a"]);
    other.agents_of_other_runs = 1;
    other.focus_task("a").finish_work("a1").integrate_task("a");
    assert!(other.working_names().is_empty(), "another run has the room");
    other.agents_of_other_runs = 0;
    other.advance();
    assert_eq!(other.working_names(), ["b"]);
    bench.agents_of_other_runs = 9;
    bench.focus_task("a").finish_work("a1");
    assert_eq!(bench.working_names(), ["b", "c"], "live sessions are not stopped");
}

#[test]
fn worktree_move_uses_an_agent_slot() {
    let spec = with_planning(planned_spec(&[("a", &[]), ("b", &["a"]), ("c", &["a"])]), |all| {
        all.parallel = 1
    });
    let mut bench = TestRun::open(spec);
    bench.focus_task("a").finish_work("a1").integrate_task("a");
    assert_eq!((bench.phase_name("b"), bench.phase_name("c")), ("starting", "waiting"));
    assert_eq!(bench.run.agents_at_work(), 1);
}

#[test]
fn worktree_move_of_stopped_run_frees_its_slot() {
    let mut bench = TestRun::open(planned_spec(&[("a", &[]), ("b", &["a"]), ("slow", &[])]));
    bench.focus_task("slow").start().focus_task("a").finish_work("a1").integrate_task("a");
    assert_eq!((bench.phase_name("b"), bench.run.agents_at_work()), ("starting", 2));
    bench.cancel();
    assert_eq!(bench.run.agents_at_work(), 1, "a live session keeps its slot until its end");
    bench.end_all();
    assert_eq!((bench.run.is_sealed(), bench.run.agents_at_work()), (true, 0));
    bench.apply(RunCommand::Resume);
    assert_eq!(
        (bench.phase_name("b"), bench.run.agents_at_work()),
        ("starting", 2),
        "and has it again"
    );
}

#[test]
fn r18_chain_keeps_one_conversation() {
    let mut bench = TestRun::open(planned_spec(&[("a", &[]), ("b", &["a"]), ("c", &["b"])]));
    let first = bench.live_session();
    bench.focus_task("a").finish_work("a1").integrate_task("a");
    assert_eq!(bench.pending_effects(), ["bring-1"], "its worktree is brought to what was merged");
    let to = bench.run.worktree_move(1).unwrap().to.clone();
    assert_eq!(to, bench.run.head);
    bench.finish_worktree_move("b");
    assert_eq!(bench.live_session(), first);
    assert!(bench.instruction().starts_with("That is done, checked and merged"));
    assert!(bench.instruction().contains("b: Title of b\n\nDo b."));
    assert_eq!(bench.session(1).spec.task, Some(id("b")));
    bench
        .focus_task("b")
        .finish_work("b1")
        .integrate_task("b")
        .finish_worktree_move("c")
        .focus_task("c")
        .finish_work("c1")
        .integrate_task("c");
    assert_eq!((bench.run.sessions.len(), bench.count_events("run.handed_over")), (1, 0));
    assert_eq!(bench.session(1).attempts.len(), 3);
}

#[test]
fn r18_only_one_successor_continues_conversation() {
    let mut bench = TestRun::open(planned_spec(&[("a", &[]), ("b", &["a"]), ("c", &["a"])]));
    bench.focus_task("a").finish_work("a1").integrate_task("a");
    assert_eq!((bench.phase_name("b"), bench.phase_name("c")), ("starting", "working"));
    assert_eq!(bench.run.sessions.len(), 2);
    bench.finish_worktree_move("b");
    assert_eq!(bench.working_names(), ["b", "c"]);
}

#[test]
fn r18_hand_over_is_recorded_and_explained() {
    let mut bench = TestRun::open(planned_spec(&[("a", &[]), ("b", &["a"])]));
    let first = bench.live_session();
    bench.focus_task("a").finish_work("a1").integrate_task("a");
    bench
        .apply(RunCommand::WorktreeMoveFailed { no: 1, reason: "its worktree is gone".to_owned() });
    let (task, from, reason) = (id("b"), first, "its worktree is gone".to_owned());
    let recorded = HandedOver { task, from, reason }.into();
    assert!(bench.log.iter().any(|(_, event)| *event == recorded));
    assert_ne!(bench.focus_task("b").live_session(), first);
    let told = bench.instruction().to_owned();
    assert!(told.starts_with("Do the task below"), "{told}");
    assert!(told.contains("## Report of the previous agent\n\nso"), "{told}");
    bench.finish_work("b1").integrate_task("b").land("b1");
    assert_eq!(bench.ending(), provost_core::run::RunEnding::Succeeded);
}

#[test]
fn r18_plain_command_is_followed_by_new_session() {
    let mut spec = planned_spec(&[("a", &[]), ("b", &["a"])]);
    spec.agent.interface = AgentInterface::command();
    spec.agent.settings.questions = false;
    let mut bench = TestRun::open(RunSpec { checks: run_spec().checks, ..spec });
    let first = bench.live_session();
    bench.start().turn(provost_core::lifecycle::ClaimKind::Completed, None);
    let launch = bench.sessions[&first].launches.last().unwrap().id;
    let (end, by) = (session::ProcessExit::Exit(0), session::StoppedBy::Itself);
    bench
        .apply_to_live(session::SessionCommand::ProcessEnded { launch, end, by })
        .signal(session::StreamSignal::Closed);
    bench.apply_to_live(session::SessionCommand::ProcessTreeGone {
        launch,
        leftovers: 0,
        verified: true,
    });
    bench.verify("a1", PASSED).end_session(first);
    bench.integrate_task("a").finish_worktree_move("b");
    assert_eq!(bench.count_events("run.handed_over"), 1);
    assert_ne!(bench.live_session(), first);
    assert_eq!(bench.working_names(), ["b"]);
}

#[test]
fn r18_handed_over_task_keeps_its_session_on_resume() {
    let mut bench = TestRun::open(planned_spec(&[("a", &[]), ("b", &["a"])]));
    bench.focus_task("a").finish_work("a1").integrate_task("a");
    bench
        .apply(RunCommand::WorktreeMoveFailed { no: 1, reason: "its worktree is gone".to_owned() });
    let second = bench.focus_task("b").live_session();
    bench.start().cancel().end_session(second).apply(RunCommand::Resume);
    assert_eq!(
        bench.run.worktree_move(2).map(|errand| (errand.session, errand.to.clone())),
        Some((second, None))
    );
    bench.finish_worktree_move("b");
    assert_eq!(bench.live_session(), second);
    assert!(
        bench.instruction().starts_with("The work was interrupted before it was done: cancelled")
    );
}

#[test]
fn r18_conversation_continues_on_raised_budget() {
    let mut spec = planned_spec(&[("a", &[]), ("b", &["a"])]);
    spec.budget.tokens = Some(100);
    let mut bench = TestRun::open(spec);
    let first = bench.live_session();
    bench
        .start()
        .signal(session::StreamSignal::TurnStarted { turn: None })
        .use_tokens(100)
        .end_session(first);
    bench
        .apply(RunCommand::RaiseBudget { tokens: Some(300), turns: None })
        .apply(RunCommand::Resume);
    bench.finish_worktree_move("a");
    assert_eq!((bench.live_session(), bench.count_events("run.handed_over")), (first, 0));
}

/// A chain of two tasks; the first is merged while its agent is still being stopped.
fn merged_while_agent_ends() -> TestRun {
    let mut bench = TestRun::open(planned_spec(&[("a", &[]), ("b", &["a"])]));
    bench
        .start()
        .turn(ClaimKind::Completed, None)
        .verify("a1", PASSED)
        .advance_clock(50)
        .integrate_task("a");
    bench
}

#[test]
fn worktree_is_untouched_until_its_agent_ended() {
    let mut bench = merged_while_agent_ends();
    assert_eq!((bench.phase_name("a"), bench.phase_name("b")), ("merged", "waiting"));
    assert!(
        bench.pending_effects().is_empty(),
        "nothing is brought anywhere: {:?}",
        bench.pending_effects()
    );
    let first = bench.run.id.session(1);
    bench.end_session(first);
    assert_eq!(
        (bench.phase_name("b"), bench.pending_effects()),
        ("starting", vec!["bring-1".to_owned()])
    );
    bench.finish_worktree_move("b");
    assert_eq!(bench.live_session(), first, "in the same conversation");
}

#[test]
fn unkillable_agent_keeps_worktree_and_hands_over() {
    let mut bench = merged_while_agent_ends();
    (0..4).for_each(|_| {
        bench.advance_clock(20_000);
    });
    assert_eq!(
        (bench.count_events("run.handed_over"), bench.count_events("run.worktree_move_requested")),
        (1, 0)
    );
    assert_ne!(bench.focus_task("b").live_session(), bench.run.id.session(1));
    assert_eq!(bench.task("b").hand_overs[0].1, "its agent could not be stopped");
}

#[test]
fn task_waiting_for_conversation_blocks_no_other() {
    let tasks: [(&str, &[&str]); 3] = [("a", &[]), ("b", &["a"]), ("c", &["a"])];
    let mut bench = TestRun::open(planned_spec(&tasks));
    bench
        .start()
        .turn(ClaimKind::Completed, None)
        .verify("a1", PASSED)
        .advance_clock(50)
        .integrate_task("a");
    assert_eq!((bench.phase_name("b"), bench.working_names()), ("waiting", vec!["c".to_owned()]));
}
