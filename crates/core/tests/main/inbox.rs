//! Messages to an agent: queued, delivered in order, or reported as lost.

use provost_core::{
    lifecycle::{ClaimKind, State},
    limits::MAX_QUEUED,
    session::{
        CommandStdin, DeliveryStatus, LaunchReason, ProcessExit, SendMode, SessionCommand,
        SessionEffect, SessionRejection, SessionSpec, StoppedBy, StreamSignal,
    },
};

use crate::kit::{TURN_ENDED_OK, TestSession, command_spec, send, snapshot, spec};

fn input_seen(key: &str) -> StreamSignal {
    StreamSignal::InputWritten { key: key.to_owned() }
}

fn message_lost(key: &str) -> SessionCommand {
    SessionCommand::MessageLost { key: key.to_owned(), reason: "gone".to_owned() }
}

/// Returns the key of the message to deliver next.
fn pending_delivery(bench: &TestSession) -> Option<String> {
    bench.session.effects().into_iter().find_map(|effect| {
        let SessionEffect::Deliver { message, .. } = effect else { return None };
        Some(message)
    })
}

/// A plain command with an open standard input.
fn command_with_open_input() -> SessionSpec {
    let mut spec = command_spec();
    spec.agent.input = CommandStdin::Open;
    spec
}

#[test]
fn messages_are_delivered_in_order() {
    let mut bench = TestSession::new(spec());
    bench.apply(send("first", SendMode::Continue));
    bench.apply(SessionCommand::WorkPrepared {
        cwd: "/work".to_owned(),
        base: Some(snapshot("old")),
    });
    assert_eq!(pending_delivery(&bench), None, "no process is running yet");
    bench.start();
    for key in ["instruction-1", "first"] {
        assert_eq!(pending_delivery(&bench).as_deref(), Some(key));
        bench.signal(input_seen(key));
    }
    assert_eq!(pending_delivery(&bench), None);
}

#[test]
fn stopping_agent_gets_no_messages() {
    let mut bench = TestSession::running(spec());
    assert!(pending_delivery(&bench).is_some());
    bench.apply(SessionCommand::Stop);
    assert_eq!(pending_delivery(&bench), None);
}

#[test]
fn message_settles_once_and_drops_its_text() {
    let mut bench = TestSession::running(spec());
    bench.apply(send("a", SendMode::Continue)).apply(send("b", SendMode::Continue));
    bench.signal(input_seen("a")).apply(message_lost("b"));
    let observed = SessionCommand::Observed {
        launch: bench.launch(),
        signal: input_seen("a"),
        cursor: bench.session.launches[0].cursor,
    };
    assert_eq!(bench.try_apply(observed), Err(SessionRejection::NothingNew));
    assert_eq!(bench.try_apply(message_lost("a")), Err(SessionRejection::NothingNew));
    assert_eq!(bench.try_apply(message_lost("b")), Err(SessionRejection::NothingNew));
    let fates: Vec<(&DeliveryStatus, &str)> =
        bench.session.messages.iter().map(|m| (&m.status, m.text.as_str())).collect();
    let launch = bench.launch();
    assert_eq!(
        fates,
        [
            (&DeliveryStatus::Queued, "do it"),
            (&DeliveryStatus::Delivered { launch }, ""),
            (&DeliveryStatus::Undeliverable { reason: "gone".to_owned() }, ""),
        ]
    );
}

#[test]
fn receipt_for_unqueued_message_is_ignored() {
    let mut bench = TestSession::running(spec());
    let cursor = bench.session.launches[0].cursor;
    let forged =
        SessionCommand::Observed { launch: bench.launch(), signal: input_seen("forged"), cursor };
    assert_eq!(bench.try_apply(forged), Err(SessionRejection::NothingNew));
}

#[test]
fn full_queue_rejects_until_drained() {
    let mut bench = TestSession::running(spec());
    for no in 1..MAX_QUEUED {
        bench.apply(send(&no.to_string(), SendMode::Continue));
    }
    let more = send("one more", SendMode::Continue);
    assert_eq!(bench.try_apply(more.clone()), Err(SessionRejection::QueueFull(MAX_QUEUED)));
    bench.signal(input_seen("instruction-1")).apply(more);
}

#[test]
fn plain_command_takes_input_only_while_open() {
    let takes_none = Err(SessionRejection::TakesNoInstruction("test".to_owned()));
    let steer = send("a", SendMode::Continue);
    let mut deaf = TestSession::running(command_spec());
    assert_eq!(deaf.try_apply(steer.clone()), takes_none);

    let mut bench = TestSession::new(command_with_open_input());
    assert_eq!(bench.try_apply(steer.clone()), Err(SessionRejection::NotRunning));
    bench.apply(SessionCommand::WorkPrepared { cwd: "/work".to_owned(), base: None });
    bench.start();
    bench.apply(steer);
    assert_eq!(bench.try_apply(send("b", SendMode::Supersede)), takes_none, "it has no next one");
    bench.exit(ProcessExit::Exit(0), StoppedBy::Itself);
    assert_eq!(bench.try_apply(send("c", SendMode::Continue)), Err(SessionRejection::NotRunning));
    bench.settle();
    assert_eq!(bench.try_apply(send("d", SendMode::Continue)), takes_none);
}

#[test]
fn listens_with_protocol_or_open_input() {
    assert!(spec().agent.accepts_input());
    assert!(command_with_open_input().agent.accepts_input());
    assert!(!command_spec().agent.accepts_input());
}

#[test]
fn cancelled_session_rejects_messages() {
    let mut bench = TestSession::running(spec());
    bench.apply(SessionCommand::Cancel { because: "no".to_owned() });
    assert_eq!(bench.try_apply(send("a", SendMode::Continue)), Err(SessionRejection::Cancelled));
}

#[test]
fn message_after_seal_opens_next_attempt() {
    for mode in [SendMode::Continue, SendMode::Supersede] {
        let mut bench = TestSession::running(spec());
        bench
            .claim(ClaimKind::Completed)
            .end(ProcessExit::Exit(0))
            .settle()
            .apply(send("more", mode));
        let attempt = bench.session.attempt();
        assert_eq!((attempt.no, attempt.instruction.as_deref()), (2, Some("the text of more")));
        let message = bench.session.messages.last().unwrap();
        assert_eq!((message.key.as_str(), message.attempt), ("instruction-2", 2));
        let first = bench.session.attempts[0].sealed.as_ref().unwrap();
        assert_eq!(first.judgement.state, State::Completed, "what ended was not superseded");
    }
}

#[test]
fn message_resumes_only_agent_needing_input() {
    let steer = send("a", SendMode::Continue);
    let mut ended = TestSession::running(spec());
    ended.end(ProcessExit::Exit(0)).apply(steer.clone());
    assert_eq!(ended.session.launches.len(), 1);

    let mut waiting = TestSession::running(spec());
    waiting.claim(ClaimKind::NeedsInput).signal(TURN_ENDED_OK).apply(steer);
    assert_eq!((waiting.state(), waiting.session.launches.len()), (State::NeedsInput, 1));

    waiting.end(ProcessExit::Exit(0)).apply(send("b", SendMode::Continue));
    assert_eq!(waiting.session.launches[1].why, LaunchReason::Answer);
}

#[test]
fn message_during_stop_is_rejected_until_sealed() {
    let mut bench = TestSession::running(spec());
    bench.apply(SessionCommand::Stop);
    let said = send("a", SendMode::Continue);
    assert_eq!(bench.try_apply(said.clone()), Err(SessionRejection::StoppedFirst));
    bench.end_by(ProcessExit::Signal(15), StoppedBy::Provost);
    assert_eq!(
        bench.try_apply(said.clone()),
        Err(SessionRejection::StoppedFirst),
        "its end is not sealed"
    );
    bench.settle();
    assert!(bench.sealed() && bench.session.messages.iter().all(|m| m.key != "a"));
    bench.apply(said);
    assert_eq!(bench.session.attempt().no, 2, "it continues with that");

    let mut waiting = TestSession::running(spec());
    waiting.claim(ClaimKind::NeedsInput).signal(TURN_ENDED_OK).apply(SessionCommand::Stop);
    waiting
        .end_by(ProcessExit::Signal(15), StoppedBy::Provost)
        .apply(send("b", SendMode::Continue));
    assert_eq!(waiting.session.launches[1].why, LaunchReason::Answer);
}

#[test]
fn queued_messages_are_lost_at_seal() {
    let mut bench = TestSession::running(spec());
    bench
        .apply(send("a", SendMode::Continue))
        .claim(ClaimKind::Completed)
        .end(ProcessExit::Exit(0));
    bench.settle();
    assert!(bench.sealed());
    let lost = |m: &provost_core::session::AgentMessage| {
        m.status == DeliveryStatus::Undeliverable { reason: "the session ended first".to_owned() }
    };
    assert!(bench.session.messages.iter().all(lost));
}
