//! Regressions found by the laws, the model check and the simulator, each as its shortest reproduction.

use provost_core::{
    lifecycle::{ClaimKind, State},
    request::{RequestReply, RequestStatus},
    session::{
        AgentInterface, AttemptOpened, Cursor, DeliveryStatus, LaunchPhase, OnFinish, ProcessExit,
        SendMode, SessionCommand, SessionEffect, SessionRejection, StopStep, StoppedBy,
        StreamSignal, TurnEnd,
    },
    verdict::CheckEnd,
};

use crate::kit::{TestSession, checked_spec, question, spec};

#[test]
fn repeated_snapshot_does_not_confirm_itself() {
    let mut bench = TestSession::running(checked_spec());
    bench.claim(ClaimKind::Completed).end(ProcessExit::Exit(0));
    let taken = bench.snapshot_taken("new");
    bench.apply(taken.clone());
    assert_eq!(bench.try_apply(taken), Err(SessionRejection::NothingNew));
    bench.check("new", CheckEnd::Exit(0)).advance_clock(60_000);
    assert_eq!(bench.state(), State::Verifying, "the tree needs another snapshot");
}

#[test]
fn abandoned_launch_is_killed_when_it_starts() {
    let mut bench = TestSession::new(spec());
    bench.apply(SessionCommand::WorkPrepared { cwd: "/work".to_owned(), base: None });
    bench.apply(SessionCommand::Cancel { because: "no".to_owned() });
    bench.advance_clock(10_000).advance_clock(10_000).advance_clock(10_000);
    assert_eq!(bench.stop_step(), Some(StopStep::GivenUp));
    bench.advance_clock(5_000).start();
    let launch = bench.launch();
    assert!(bench.has_effect(&SessionEffect::StopLaunch(launch, StopStep::Kill)), "it is ended");
    bench.advance_clock(9_999);
    assert_eq!(bench.stop_step(), Some(StopStep::Kill), "it has its time");
    bench.advance_clock(1);
    assert_eq!(bench.stop_step(), Some(StopStep::GivenUp));
}

#[test]
fn late_start_resumes_stop_at_current_step() {
    let mut bench = TestSession::new(spec());
    bench.apply(SessionCommand::WorkPrepared { cwd: "/work".to_owned(), base: None });
    bench.apply(SessionCommand::Cancel { because: "no".to_owned() }).advance_clock(10_000).start();
    assert_eq!(bench.stop_step(), Some(StopStep::Terminate));
}

#[test]
fn question_from_older_launch_is_void() {
    let mut bench = TestSession::resumed();
    let old = bench.session.launches[0].id;
    let cursor = Cursor { offset: 500, skip: 0 };
    let state = bench.state();
    let late = StreamSignal::RequestOpened(question("late"));
    bench.apply(SessionCommand::Observed { launch: old, signal: late, cursor });
    assert_eq!(bench.state(), state);
    assert_eq!(bench.session.requests.last().unwrap().status, RequestStatus::Void);
}

#[test]
fn instruction_during_stop_gets_next_launch() {
    let mut bench = TestSession::running(spec());
    bench.claim(ClaimKind::Completed);
    bench
        .signal(StreamSignal::TurnEnded { turn: None, end: TurnEnd::Ok, usage: None, says: None })
        .advance_clock(50);
    assert!(bench.sealed() && bench.session.launches[0].stop.is_some());
    bench.apply(send("go on"));
    assert_eq!(bench.session.launches.len(), 1, "nothing is started beside a living process");
    bench.end_by(ProcessExit::Signal(15), StoppedBy::Provost);
    assert_eq!(bench.session.launches.len(), 2);
    assert_eq!(bench.session.current_launch().unwrap().phase, LaunchPhase::Pending);
    assert_eq!(bench.state(), State::Working);
}

#[test]
fn no_launch_beside_unkillable_process() {
    let mut bench = TestSession::running(spec());
    bench
        .apply(SessionCommand::Cancel { because: "no".to_owned() })
        .advance_clock(10_000)
        .advance_clock(10_000)
        .advance_clock(10_000);
    bench.advance_clock(50);
    assert!(bench.sealed());
    bench.apply(send("again")).advance_clock(60_000);
    assert_eq!(bench.session.launches.len(), 1);
    assert_eq!(bench.state(), State::Failed);
}

#[test]
fn messages_to_ended_agent_resume_it_once() {
    let mut bench = TestSession::running(spec());
    bench.signal(StreamSignal::InputWritten { key: "instruction-1".to_owned() });
    bench.claim(ClaimKind::NeedsInput).end(ProcessExit::Exit(0)).settle();
    assert_eq!(bench.state(), State::NeedsInput);
    bench.apply(send("use tabs")).apply(SessionCommand::Send {
        key: "send-2".to_owned(),
        text: "and spaces".to_owned(),
        mode: SendMode::Continue,
    });
    assert_eq!(bench.session.launches.len(), 2);
}

#[test]
fn message_with_known_key_is_not_requeued() {
    let mut bench = TestSession::running(spec());
    bench.apply(send("once"));
    assert_eq!(bench.try_apply(send("once")), Err(SessionRejection::NothingNew));
    let queued =
        bench.session.messages.iter().filter(|m| m.status == DeliveryStatus::Queued).count();
    assert_eq!(queued, 2, "the instruction and one message");
}

#[test]
fn instruction_after_worktree_removal_is_rejected() {
    let mut bench = TestSession::running(spec());
    assert_eq!(
        bench.try_apply(SessionCommand::WorkRemoved),
        Err(SessionRejection::NothingNew),
        "it is in use"
    );
    bench
        .claim(ClaimKind::Completed)
        .end(ProcessExit::Exit(0))
        .settle()
        .apply(SessionCommand::WorkRemoved);
    assert_eq!(bench.try_apply(send("more")), Err(SessionRejection::WorktreeRemoved(None)));
    assert_eq!(bench.state(), State::Completed);
    // A ledger written by an older version may contain it anyway.
    let opened = AttemptOpened { no: 2, instruction: Some("more".to_owned()) };
    bench.session.evolve(bench.now, &opened.into());
    bench.advance_clock(0).settle();
    assert_eq!(bench.state(), State::Failed);
}

#[test]
fn holder_death_after_exit_does_not_block_checks() {
    let mut bench = TestSession::running(checked_spec());
    let launch = bench.launch();
    bench.claim(ClaimKind::Completed);
    bench.apply(SessionCommand::ProcessEnded {
        launch,
        end: ProcessExit::Exit(0),
        by: StoppedBy::Itself,
    });
    bench.apply(SessionCommand::ProcessUnobserved {
        launch,
        why: "its holder was killed".to_owned(),
    });
    bench.verify("new", CheckEnd::Exit(0)).settle();
    assert_eq!(bench.state(), State::Succeeded);
    assert!(!bench.session.launches[0].is_followed());
}

#[test]
fn snapshot_voided_by_new_turn_gets_new_key() {
    let mut bench = TestSession::running(checked_spec());
    let over = StreamSignal::TurnEnded { turn: None, end: TurnEnd::Ok, usage: None, says: None };
    bench.claim(ClaimKind::Completed).signal(over.clone());
    let before = bench.session.effects();
    bench.signal(StreamSignal::TurnStarted { turn: None }).signal(over);
    let snapshots = |owed: &[SessionEffect]| {
        owed.iter()
            .find(|e| matches!(e, SessionEffect::TakeSnapshot { .. }))
            .map(SessionEffect::key)
    };
    assert_ne!(snapshots(&before), snapshots(&bench.session.effects()));
}

#[test]
fn evidence_counts_despite_interim_question() {
    let mut bench = TestSession::running(checked_spec());
    bench.claim(ClaimKind::Completed);
    bench.signal(StreamSignal::TurnEnded { turn: None, end: TurnEnd::Ok, usage: None, says: None });
    bench.snapshot("new");
    bench.signal(StreamSignal::RequestOpened(question("q")));
    bench.check("new", CheckEnd::Exit(0));
    bench.signal(StreamSignal::RequestWithdrawn { native: "q".to_owned() });
    bench.snapshot("new");
    assert_eq!(bench.state(), State::Succeeded);
}

#[test]
fn command_active_after_silence_is_rechecked() {
    let mut spec = checked_spec();
    spec.agent.interface = AgentInterface::command();
    spec.on_finish = OnFinish::Park;
    let mut bench = TestSession::running(spec);
    let launch = bench.launch();
    bench.claim(ClaimKind::Completed).advance_clock(300_000);
    let heard_ms = bench.session.launches[0].stream.last_heard.mono_ms;
    bench.apply(SessionCommand::Silence { launch, heard_ms }).verify("new", CheckEnd::Exit(0));
    assert_eq!(bench.state(), State::Succeeded);
    let heard_ms = bench.now.mono_ms;
    bench.apply(SessionCommand::Silence { launch, heard_ms }).advance_clock(300_000);
    bench.apply(SessionCommand::Silence { launch, heard_ms });
    assert_eq!(bench.state(), State::Verifying);
}

#[test]
fn unkillable_idle_agent_fails() {
    let mut bench = TestSession::running(spec());
    let over = StreamSignal::TurnEnded { turn: None, end: TurnEnd::Ok, usage: None, says: None };
    bench.signal(over.clone()).signal(over).advance_clock(10_000).advance_clock(10_000).settle();
    assert_eq!((bench.state(), bench.sealed()), (State::Failed, true));
}

#[test]
fn answer_to_earlier_revision_is_rejected() {
    let mut bench = TestSession::running(spec());
    bench
        .signal(StreamSignal::RequestOpened(question("q")))
        .signal(StreamSignal::RequestOpened(question("q")));
    let id = bench.session.requests[0].id;
    let answer = |revision| SessionCommand::Answer {
        request: id,
        revision,
        reply: RequestReply::Text("yes".to_owned()),
    };
    let refused = SessionRejection::RequestRevision { id, now: 2, given: 1 };
    assert_eq!(bench.try_apply(answer(1)), Err(refused));
    bench.apply(answer(2));
}

#[test]
fn checks_wait_for_question_and_descendants() {
    let checks = |bench: &TestSession| {
        bench.session.effects().iter().any(|e| matches!(e, SessionEffect::TakeSnapshot { .. }))
    };
    let mut bench = TestSession::running(checked_spec());
    bench.claim(ClaimKind::Completed).signal(StreamSignal::RequestOpened(question("q")));
    bench.signal(StreamSignal::TurnEnded { turn: None, end: TurnEnd::Ok, usage: None, says: None });
    assert!(!checks(&bench) && !bench.session.wants_verdict(), "a question is open");
    bench.signal(StreamSignal::RequestWithdrawn { native: "q".to_owned() });
    assert!(checks(&bench));
    let launch = bench.launch();
    bench.apply(SessionCommand::ProcessEnded {
        launch,
        end: ProcessExit::Exit(0),
        by: StoppedBy::Itself,
    });
    assert!(!checks(&bench), "its descendants may still write");
    bench.apply(SessionCommand::ProcessTreeGone { launch, leftovers: 0, verified: true });
    assert!(checks(&bench));
}

#[test]
fn moving_tree_disputes_only_ended_work() {
    let mut spec = checked_spec();
    spec.bounds.snapshots = 0;
    let mut bench = TestSession::running(spec);
    bench.claim(ClaimKind::Completed);
    bench.signal(StreamSignal::TurnEnded { turn: None, end: TurnEnd::Ok, usage: None, says: None });
    bench.snapshot("one");
    bench.check("one", CheckEnd::Exit(0));
    bench.snapshot("two");
    assert_eq!(bench.state(), State::Disputed);
    bench.claim(ClaimKind::NeedsInput);
    assert_eq!(bench.state(), State::NeedsInput);
}

fn send(text: &str) -> SessionCommand {
    SessionCommand::Send {
        key: "send-1".to_owned(),
        text: text.to_owned(),
        mode: SendMode::Continue,
    }
}
