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
    let mut harness = TestRun::open(planned_spec(&[
        ("slow", &[]),
        ("a", &[]),
        ("b", &["a"]),
        ("after-slow", &["slow"]),
    ]));
    assert_eq!(
        harness.working_names(),
        ["a", "slow"],
        "all that is ready, each in a worktree of its own"
    );
    harness.focus_task("slow").start();
    harness.focus_task("a").finish_work("a1").integrate_task("a").finish_worktree_move("b");
    assert_eq!(harness.working_names(), ["b", "slow"], "neither task waited");
    harness.focus_task("b").finish_work("b1").integrate_task("b");
    assert_eq!((harness.phase_name("b"), harness.phase_name("after-slow")), ("merged", "waiting"));
    assert_eq!(harness.run.head.as_ref().unwrap().tree.0, "b1");
    harness
        .focus_task("slow")
        .finish_work("s1")
        .merge_batch(&[("slow", "m2")])
        .check_merge("m2", PASSED)
        .integrate();
    harness
        .finish_worktree_move("after-slow")
        .focus_task("after-slow")
        .finish_work("s2")
        .integrate_task("after-slow")
        .land("s2");
    assert_eq!(harness.ending(), provost_core::run::RunEnding::Succeeded);
}

const PASSED: provost_core::verdict::CheckEnd = provost_core::verdict::CheckEnd::Exit(0);

#[test]
fn e20_unanswerable_session_does_not_block_others() {
    let mut spec = planned_spec(&[("a", &[]), ("b", &[]), ("c", &["b"])]);
    spec.answers = [("q".to_owned(), vec!["so".to_owned()])].into();
    let mut harness = TestRun::open(spec);
    harness.focus_task("a").start().signal(session::StreamSignal::TurnStarted { turn: None });
    let stop = session::SessionCommand::Stop;
    harness.apply_to_live(stop);
    let asked = crate::runs::kit::question_request("n", "q", "which?");
    harness.signal(session::StreamSignal::RequestOpened(asked));
    assert_eq!(
        harness.sessions[&harness.live_session()].open_requests().count(),
        1,
        "it ends, and hears nothing"
    );
    harness.focus_task("b").finish_work("b1").integrate_task("b");
    assert_eq!(harness.phase_name("b"), "merged");
    harness.finish_worktree_move("c");
    assert_eq!(harness.working_names(), ["a", "c"]);
}

#[test]
fn parallel_limit_is_respected() {
    let spec =
        with_planning(planned_spec(&[("a", &[]), ("b", &[]), ("c", &[])]), |all| all.parallel = 2);
    let mut harness = TestRun::open(spec);
    assert_eq!(harness.working_names(), ["a", "b"]);
    harness.focus_task("b").finish_work("b1");
    assert_eq!(harness.working_names(), ["a", "c"], "a finished task frees its slot");
    harness.integrate_task("b");
    assert_eq!(harness.working_names(), ["a", "c"]);
}

#[test]
fn merge_checks_do_not_use_agent_slots() {
    let spec = with_planning(planned_spec(&[("a", &[]), ("b", &[])]), |all| all.parallel = 1);
    let mut harness = TestRun::open(spec);
    harness.focus_task("a").finish_work("a1").merge_batch(&[("a", "m1")]);
    assert_eq!(harness.working_names(), ["b"]);
    assert_eq!(harness.run.agents_at_work(), 1);
    assert_eq!(harness.pending_effects(), ["verify-1"]);
}

#[test]
fn agents_of_other_runs_count_for_machine_limit() {
    let spec = with_planning(planned_spec(&[("a", &[]), ("b", &[]), ("c", &[])]), |all| {
        all.machine_parallel = 3
    });
    let mut harness = TestRun::open(spec.clone());
    assert_eq!(harness.working_names(), ["a", "b", "c"]);
    let full = RunSpec { planning: spec.planning.clone(), ..spec };
    let mut other = TestRun::open(with_planning(full, |all| all.machine_parallel = 1));
    assert_eq!(other.working_names(), ["a"]);
    other.agents_of_other_runs = 1;
    other.focus_task("a").finish_work("a1").integrate_task("a");
    assert!(other.working_names().is_empty(), "another run has the room");
    other.agents_of_other_runs = 0;
    other.advance();
    assert_eq!(other.working_names(), ["b"]);
    harness.agents_of_other_runs = 9;
    harness.focus_task("a").finish_work("a1");
    assert_eq!(harness.working_names(), ["b", "c"], "live sessions are not stopped");
}

#[test]
fn worktree_move_uses_an_agent_slot() {
    let spec = with_planning(planned_spec(&[("a", &[]), ("b", &["a"]), ("c", &["a"])]), |all| {
        all.parallel = 1
    });
    let mut harness = TestRun::open(spec);
    harness.focus_task("a").finish_work("a1").integrate_task("a");
    assert_eq!((harness.phase_name("b"), harness.phase_name("c")), ("starting", "waiting"));
    assert_eq!(harness.run.agents_at_work(), 1);
}

#[test]
fn worktree_move_of_stopped_run_frees_its_slot() {
    let mut harness = TestRun::open(planned_spec(&[("a", &[]), ("b", &["a"]), ("slow", &[])]));
    harness.focus_task("slow").start().focus_task("a").finish_work("a1").integrate_task("a");
    assert_eq!((harness.phase_name("b"), harness.run.agents_at_work()), ("starting", 2));
    harness.cancel();
    assert_eq!(harness.run.agents_at_work(), 1, "a live session keeps its slot until its end");
    harness.end_all();
    assert_eq!((harness.run.is_sealed(), harness.run.agents_at_work()), (true, 0));
    harness.apply(RunCommand::Resume);
    assert_eq!(
        (harness.phase_name("b"), harness.run.agents_at_work()),
        ("starting", 2),
        "and has it again"
    );
}

#[test]
fn r18_chain_keeps_one_conversation() {
    let mut harness = TestRun::open(planned_spec(&[("a", &[]), ("b", &["a"]), ("c", &["b"])]));
    let first = harness.live_session();
    harness.focus_task("a").finish_work("a1").integrate_task("a");
    assert_eq!(
        harness.pending_effects(),
        ["move-worktree-1"],
        "its worktree is brought to what was merged"
    );
    let to = harness.run.worktree_move(1).unwrap().to.clone();
    assert_eq!(to, harness.run.head);
    harness.finish_worktree_move("b");
    assert_eq!(harness.live_session(), first);
    assert!(harness.instruction().starts_with("That task is done, checked and merged"));
    assert!(harness.instruction().contains("b: Title of b\n\nDo b."));
    assert_eq!(harness.session(1).spec.task, Some(id("b")));
    harness
        .focus_task("b")
        .finish_work("b1")
        .integrate_task("b")
        .finish_worktree_move("c")
        .focus_task("c")
        .finish_work("c1")
        .integrate_task("c");
    assert_eq!((harness.run.sessions.len(), harness.count_events("run.handed_over")), (1, 0));
    assert_eq!(harness.session(1).attempts.len(), 3);
}

#[test]
fn r18_only_one_successor_continues_conversation() {
    let mut harness = TestRun::open(planned_spec(&[("a", &[]), ("b", &["a"]), ("c", &["a"])]));
    harness.focus_task("a").finish_work("a1").integrate_task("a");
    assert_eq!((harness.phase_name("b"), harness.phase_name("c")), ("starting", "working"));
    assert_eq!(harness.run.sessions.len(), 2);
    harness.finish_worktree_move("b");
    assert_eq!(harness.working_names(), ["b", "c"]);
}

#[test]
fn r18_hand_over_is_recorded_and_explained() {
    let mut harness = TestRun::open(planned_spec(&[("a", &[]), ("b", &["a"])]));
    let first = harness.live_session();
    harness.focus_task("a").finish_work("a1").integrate_task("a");
    harness
        .apply(RunCommand::WorktreeMoveFailed { no: 1, reason: "its worktree is gone".to_owned() });
    let (task, from, reason) = (id("b"), first, "its worktree is gone".to_owned());
    let recorded = HandedOver { task, from, reason }.into();
    assert!(harness.log.iter().any(|(_, event)| *event == recorded));
    assert_ne!(harness.focus_task("b").live_session(), first);
    let instruction = harness.instruction().to_owned();
    assert!(instruction.starts_with("Do the task below"), "{instruction}");
    assert!(instruction.contains("## Report of the previous agent\n\nso"), "{instruction}");
    harness.finish_work("b1").integrate_task("b").land("b1");
    assert_eq!(harness.ending(), provost_core::run::RunEnding::Succeeded);
}

#[test]
fn r18_plain_command_is_followed_by_new_session() {
    let mut spec = planned_spec(&[("a", &[]), ("b", &["a"])]);
    spec.agent.interface = AgentInterface::command();
    spec.agent.settings.questions = false;
    let mut harness = TestRun::open(RunSpec { checks: run_spec().checks, ..spec });
    let first = harness.live_session();
    harness.start().turn(provost_core::lifecycle::ClaimKind::Completed, None);
    let launch = harness.sessions[&first].launches.last().unwrap().id;
    let (end, by) = (session::ProcessExit::Exit(0), session::StoppedBy::Itself);
    harness
        .apply_to_live(session::SessionCommand::ProcessEnded { launch, end, by })
        .signal(session::StreamSignal::Closed);
    harness.apply_to_live(session::SessionCommand::ProcessTreeGone {
        launch,
        leftovers: 0,
        verified: true,
    });
    harness.verify("a1", PASSED).end_session(first);
    harness.integrate_task("a").finish_worktree_move("b");
    assert_eq!(harness.count_events("run.handed_over"), 1);
    assert_ne!(harness.live_session(), first);
    assert_eq!(harness.working_names(), ["b"]);
}

#[test]
fn r18_handed_over_task_keeps_its_session_on_resume() {
    let mut harness = TestRun::open(planned_spec(&[("a", &[]), ("b", &["a"])]));
    harness.focus_task("a").finish_work("a1").integrate_task("a");
    harness
        .apply(RunCommand::WorktreeMoveFailed { no: 1, reason: "its worktree is gone".to_owned() });
    let second = harness.focus_task("b").live_session();
    harness.start().cancel().end_session(second).apply(RunCommand::Resume);
    assert_eq!(
        harness
            .run
            .worktree_move(2)
            .map(|worktree_move| (worktree_move.session, worktree_move.to.clone())),
        Some((second, None))
    );
    harness.finish_worktree_move("b");
    assert_eq!(harness.live_session(), second);
    assert!(
        harness.instruction().starts_with("The work was interrupted before it was done: cancelled")
    );
}

#[test]
fn r18_conversation_continues_on_raised_budget() {
    let mut spec = planned_spec(&[("a", &[]), ("b", &["a"])]);
    spec.budget.tokens = Some(100);
    let mut harness = TestRun::open(spec);
    let first = harness.live_session();
    harness
        .start()
        .signal(session::StreamSignal::TurnStarted { turn: None })
        .use_tokens(100)
        .end_session(first);
    harness
        .apply(RunCommand::RaiseBudget { tokens: Some(300), turns: None })
        .apply(RunCommand::Resume);
    harness.finish_worktree_move("a");
    assert_eq!((harness.live_session(), harness.count_events("run.handed_over")), (first, 0));
}

/// A chain of two tasks; the first is merged while its agent is still being stopped.
fn merged_while_agent_ends() -> TestRun {
    let mut harness = TestRun::open(planned_spec(&[("a", &[]), ("b", &["a"])]));
    harness
        .start()
        .turn(ClaimKind::Completed, None)
        .verify("a1", PASSED)
        .advance_clock(50)
        .integrate_task("a");
    harness
}

#[test]
fn worktree_is_untouched_until_its_agent_ended() {
    let mut harness = merged_while_agent_ends();
    assert_eq!((harness.phase_name("a"), harness.phase_name("b")), ("merged", "waiting"));
    assert!(
        harness.pending_effects().is_empty(),
        "nothing is brought anywhere: {:?}",
        harness.pending_effects()
    );
    let first = harness.run.id.session(1);
    harness.end_session(first);
    assert_eq!(
        (harness.phase_name("b"), harness.pending_effects()),
        ("starting", vec!["move-worktree-1".to_owned()])
    );
    harness.finish_worktree_move("b");
    assert_eq!(harness.live_session(), first, "in the same conversation");
}

#[test]
fn unkillable_agent_keeps_worktree_and_hands_over() {
    let mut harness = merged_while_agent_ends();
    (0..4).for_each(|_| {
        harness.advance_clock(20_000);
    });
    assert_eq!(
        (
            harness.count_events("run.handed_over"),
            harness.count_events("run.worktree_move_requested")
        ),
        (1, 0)
    );
    assert_ne!(harness.focus_task("b").live_session(), harness.run.id.session(1));
    assert_eq!(harness.task("b").hand_overs[0].1, "its agent could not be stopped");
}

#[test]
fn task_waiting_for_conversation_blocks_no_other() {
    let tasks: [(&str, &[&str]); 3] = [("a", &[]), ("b", &["a"]), ("c", &["a"])];
    let mut harness = TestRun::open(planned_spec(&tasks));
    harness
        .start()
        .turn(ClaimKind::Completed, None)
        .verify("a1", PASSED)
        .advance_clock(50)
        .integrate_task("a");
    assert_eq!(
        (harness.phase_name("b"), harness.working_names()),
        ("waiting", vec!["c".to_owned()])
    );
}
