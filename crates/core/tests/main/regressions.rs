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
    let mut harness = TestSession::running(checked_spec());
    harness.claim(ClaimKind::Completed).end(ProcessExit::Exit(0));
    let taken = harness.snapshot_taken("new");
    harness.apply(taken.clone());
    assert_eq!(harness.try_apply(taken), Err(SessionRejection::NothingNew));
    harness.check("new", CheckEnd::Exit(0)).advance_clock(60_000);
    assert_eq!(harness.state(), State::Verifying, "the tree needs another snapshot");
}

#[test]
fn abandoned_launch_is_killed_when_it_starts() {
    let mut harness = TestSession::new(spec());
    harness.apply(SessionCommand::WorkPrepared { cwd: "/work".to_owned(), base: None });
    harness.apply(SessionCommand::Cancel { because: "no".to_owned() });
    harness.advance_clock(10_000).advance_clock(10_000).advance_clock(10_000);
    assert_eq!(harness.stop_step(), Some(StopStep::GivenUp));
    harness.advance_clock(5_000).start();
    let launch = harness.launch();
    assert!(harness.has_effect(&SessionEffect::StopLaunch(launch, StopStep::Kill)), "it is ended");
    harness.advance_clock(9_999);
    assert_eq!(harness.stop_step(), Some(StopStep::Kill), "it has its time");
    harness.advance_clock(1);
    assert_eq!(harness.stop_step(), Some(StopStep::GivenUp));
}

#[test]
fn late_start_resumes_stop_at_current_step() {
    let mut harness = TestSession::new(spec());
    harness.apply(SessionCommand::WorkPrepared { cwd: "/work".to_owned(), base: None });
    harness
        .apply(SessionCommand::Cancel { because: "no".to_owned() })
        .advance_clock(10_000)
        .start();
    assert_eq!(harness.stop_step(), Some(StopStep::Terminate));
}

#[test]
fn question_from_older_launch_is_void() {
    let mut harness = TestSession::resumed();
    let old = harness.session.launches[0].id;
    let cursor = Cursor { offset: 500, skip: 0 };
    let state = harness.state();
    let late = StreamSignal::RequestOpened(question("late"));
    harness.apply(SessionCommand::Observed { launch: old, signal: late, cursor });
    assert_eq!(harness.state(), state);
    assert_eq!(harness.session.requests.last().unwrap().status, RequestStatus::Void);
}

#[test]
fn instruction_during_stop_gets_next_launch() {
    let mut harness = TestSession::running(spec());
    harness.claim(ClaimKind::Completed);
    harness
        .signal(StreamSignal::TurnEnded { turn: None, end: TurnEnd::Ok, usage: None, says: None })
        .advance_clock(50);
    assert!(harness.sealed() && harness.session.launches[0].stop.is_some());
    harness.apply(send("go on"));
    assert_eq!(harness.session.launches.len(), 1, "nothing is started beside a living process");
    harness.end_by(ProcessExit::Signal(15), StoppedBy::Provost);
    assert_eq!(harness.session.launches.len(), 2);
    assert_eq!(harness.session.current_launch().unwrap().phase, LaunchPhase::Pending);
    assert_eq!(harness.state(), State::Working);
}

#[test]
fn no_launch_beside_unkillable_process() {
    let mut harness = TestSession::running(spec());
    harness
        .apply(SessionCommand::Cancel { because: "no".to_owned() })
        .advance_clock(10_000)
        .advance_clock(10_000)
        .advance_clock(10_000);
    harness.advance_clock(50);
    assert!(harness.sealed());
    harness.apply(send("again")).advance_clock(60_000);
    assert_eq!(harness.session.launches.len(), 1);
    assert_eq!(harness.state(), State::Failed);
}

#[test]
fn messages_to_ended_agent_resume_it_once() {
    let mut harness = TestSession::running(spec());
    harness.signal(StreamSignal::InputWritten { key: "instruction-1".to_owned() });
    harness.claim(ClaimKind::NeedsInput).end(ProcessExit::Exit(0)).settle();
    assert_eq!(harness.state(), State::NeedsInput);
    harness.apply(send("use tabs")).apply(SessionCommand::Send {
        key: "send-2".to_owned(),
        text: "and spaces".to_owned(),
        mode: SendMode::Continue,
    });
    assert_eq!(harness.session.launches.len(), 2);
}

#[test]
fn message_with_known_key_is_not_requeued() {
    let mut harness = TestSession::running(spec());
    harness.apply(send("once"));
    assert_eq!(harness.try_apply(send("once")), Err(SessionRejection::NothingNew));
    let queued = harness
        .session
        .input
        .messages
        .iter()
        .filter(|m| m.status == DeliveryStatus::Queued)
        .count();
    assert_eq!(queued, 2, "the instruction and one message");
}

#[test]
fn instruction_after_worktree_removal_is_rejected() {
    let mut harness = TestSession::running(spec());
    assert_eq!(
        harness.try_apply(SessionCommand::WorkRemoved),
        Err(SessionRejection::NothingNew),
        "it is in use"
    );
    harness
        .claim(ClaimKind::Completed)
        .end(ProcessExit::Exit(0))
        .settle()
        .apply(SessionCommand::WorkRemoved);
    assert_eq!(harness.try_apply(send("more")), Err(SessionRejection::WorktreeRemoved(None)));
    assert_eq!(harness.state(), State::Completed);
    // A ledger written by an older version may contain it anyway.
    let opened = AttemptOpened { no: 2, instruction: Some("more".to_owned()) };
    harness.session.evolve(harness.now, &opened.into());
    harness.advance_clock(0).settle();
    assert_eq!(harness.state(), State::Failed);
}

#[test]
fn holder_death_after_exit_does_not_block_checks() {
    let mut harness = TestSession::running(checked_spec());
    let launch = harness.launch();
    harness.claim(ClaimKind::Completed);
    harness.apply(SessionCommand::ProcessEnded {
        launch,
        end: ProcessExit::Exit(0),
        by: StoppedBy::Itself,
    });
    harness.apply(SessionCommand::ProcessUnobserved {
        launch,
        why: "its holder was killed".to_owned(),
    });
    harness.verify("new", CheckEnd::Exit(0)).settle();
    assert_eq!(harness.state(), State::Succeeded);
    assert!(!harness.session.launches[0].is_followed());
}

#[test]
fn snapshot_voided_by_new_turn_gets_new_key() {
    let mut harness = TestSession::running(checked_spec());
    let over = StreamSignal::TurnEnded { turn: None, end: TurnEnd::Ok, usage: None, says: None };
    harness.claim(ClaimKind::Completed).signal(over.clone());
    let before = harness.session.effects();
    harness.signal(StreamSignal::TurnStarted { turn: None }).signal(over);
    let snapshots = |effects: &[SessionEffect]| {
        effects
            .iter()
            .find(|e| matches!(e, SessionEffect::TakeSnapshot { .. }))
            .map(SessionEffect::key)
    };
    assert_ne!(snapshots(&before), snapshots(&harness.session.effects()));
}

#[test]
fn evidence_counts_despite_interim_question() {
    let mut harness = TestSession::running(checked_spec());
    harness.claim(ClaimKind::Completed);
    harness.signal(StreamSignal::TurnEnded {
        turn: None,
        end: TurnEnd::Ok,
        usage: None,
        says: None,
    });
    harness.snapshot("new");
    harness.signal(StreamSignal::RequestOpened(question("q")));
    harness.check("new", CheckEnd::Exit(0));
    harness.signal(StreamSignal::RequestWithdrawn { native: "q".to_owned() });
    harness.snapshot("new");
    assert_eq!(harness.state(), State::Succeeded);
}

#[test]
fn command_active_after_silence_is_rechecked() {
    let mut spec = checked_spec();
    spec.agent.interface = AgentInterface::command();
    spec.on_finish = OnFinish::Park;
    let mut harness = TestSession::running(spec);
    let launch = harness.launch();
    harness.claim(ClaimKind::Completed).advance_clock(300_000);
    let heard_ms = harness.session.launches[0].stream.last_heard.mono_ms;
    harness.apply(SessionCommand::Silence { launch, heard_ms }).verify("new", CheckEnd::Exit(0));
    assert_eq!(harness.state(), State::Succeeded);
    let heard_ms = harness.now.mono_ms;
    harness.apply(SessionCommand::Silence { launch, heard_ms }).advance_clock(300_000);
    harness.apply(SessionCommand::Silence { launch, heard_ms });
    assert_eq!(harness.state(), State::Verifying);
}

#[test]
fn unkillable_idle_agent_fails() {
    let mut harness = TestSession::running(spec());
    let over = StreamSignal::TurnEnded { turn: None, end: TurnEnd::Ok, usage: None, says: None };
    harness.signal(over.clone()).signal(over).advance_clock(10_000).advance_clock(10_000).settle();
    assert_eq!((harness.state(), harness.sealed()), (State::Failed, true));
}

#[test]
fn answer_to_earlier_revision_is_rejected() {
    let mut harness = TestSession::running(spec());
    harness
        .signal(StreamSignal::RequestOpened(question("q")))
        .signal(StreamSignal::RequestOpened(question("q")));
    let id = harness.session.requests[0].id;
    let answer = |revision| SessionCommand::Answer {
        request: id,
        revision,
        reply: RequestReply::Text("yes".to_owned()),
    };
    let refused = SessionRejection::RequestRevision { id, now: 2, given: 1 };
    assert_eq!(harness.try_apply(answer(1)), Err(refused));
    harness.apply(answer(2));
}

#[test]
fn checks_wait_for_question_and_descendants() {
    let checks = |harness: &TestSession| {
        harness.session.effects().iter().any(|e| matches!(e, SessionEffect::TakeSnapshot { .. }))
    };
    let mut harness = TestSession::running(checked_spec());
    harness.claim(ClaimKind::Completed).signal(StreamSignal::RequestOpened(question("q")));
    harness.signal(StreamSignal::TurnEnded {
        turn: None,
        end: TurnEnd::Ok,
        usage: None,
        says: None,
    });
    assert!(!checks(&harness) && !harness.session.wants_verdict(), "a question is open");
    harness.signal(StreamSignal::RequestWithdrawn { native: "q".to_owned() });
    assert!(checks(&harness));
    let launch = harness.launch();
    harness.apply(SessionCommand::ProcessEnded {
        launch,
        end: ProcessExit::Exit(0),
        by: StoppedBy::Itself,
    });
    assert!(!checks(&harness), "its descendants may still write");
    harness.apply(SessionCommand::ProcessTreeGone { launch, leftovers: 0, verified: true });
    assert!(checks(&harness));
}

#[test]
fn moving_tree_disputes_only_ended_work() {
    let mut spec = checked_spec();
    spec.bounds.snapshots = 0;
    let mut harness = TestSession::running(spec);
    harness.claim(ClaimKind::Completed);
    harness.signal(StreamSignal::TurnEnded {
        turn: None,
        end: TurnEnd::Ok,
        usage: None,
        says: None,
    });
    harness.snapshot("one");
    harness.check("one", CheckEnd::Exit(0));
    harness.snapshot("two");
    assert_eq!(harness.state(), State::Disputed);
    harness.claim(ClaimKind::NeedsInput);
    assert_eq!(harness.state(), State::NeedsInput);
}

fn send(text: &str) -> SessionCommand {
    SessionCommand::Send {
        key: "send-1".to_owned(),
        text: text.to_owned(),
        mode: SendMode::Continue,
    }
}
