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
fn pending_delivery(harness: &TestSession) -> Option<String> {
    harness.session.effects().into_iter().find_map(|effect| {
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
    let mut harness = TestSession::new(spec());
    harness.apply(send("first", SendMode::Continue));
    harness.apply(SessionCommand::WorkPrepared {
        cwd: "/work".to_owned(),
        base: Some(snapshot("old")),
    });
    assert_eq!(pending_delivery(&harness), None, "no process is running yet");
    harness.start();
    for key in ["instruction-1", "first"] {
        assert_eq!(pending_delivery(&harness).as_deref(), Some(key));
        harness.signal(input_seen(key));
    }
    assert_eq!(pending_delivery(&harness), None);
}

#[test]
fn stopping_agent_gets_no_messages() {
    let mut harness = TestSession::running(spec());
    assert!(pending_delivery(&harness).is_some());
    harness.apply(SessionCommand::Stop);
    assert_eq!(pending_delivery(&harness), None);
}

#[test]
fn message_settles_once_and_drops_its_text() {
    let mut harness = TestSession::running(spec());
    harness.apply(send("a", SendMode::Continue)).apply(send("b", SendMode::Continue));
    harness.signal(input_seen("a")).apply(message_lost("b"));
    let observed = SessionCommand::Observed {
        launch: harness.launch(),
        signal: input_seen("a"),
        cursor: harness.session.launches[0].cursor,
    };
    assert_eq!(harness.try_apply(observed), Err(SessionRejection::NothingNew));
    assert_eq!(harness.try_apply(message_lost("a")), Err(SessionRejection::NothingNew));
    assert_eq!(harness.try_apply(message_lost("b")), Err(SessionRejection::NothingNew));
    let fates: Vec<(&DeliveryStatus, &str)> =
        harness.session.input.messages.iter().map(|m| (&m.status, m.text.as_str())).collect();
    let launch = harness.launch();
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
    let mut harness = TestSession::running(spec());
    let cursor = harness.session.launches[0].cursor;
    let forged =
        SessionCommand::Observed { launch: harness.launch(), signal: input_seen("forged"), cursor };
    assert_eq!(harness.try_apply(forged), Err(SessionRejection::NothingNew));
}

#[test]
fn full_queue_rejects_until_drained() {
    let mut harness = TestSession::running(spec());
    for no in 1..MAX_QUEUED {
        harness.apply(send(&no.to_string(), SendMode::Continue));
    }
    let more = send("one more", SendMode::Continue);
    assert_eq!(harness.try_apply(more.clone()), Err(SessionRejection::QueueFull(MAX_QUEUED)));
    harness.signal(input_seen("instruction-1")).apply(more);
}

#[test]
fn plain_command_takes_input_only_while_open() {
    let takes_none = Err(SessionRejection::TakesNoInstruction("test".to_owned()));
    let steer = send("a", SendMode::Continue);
    let mut deaf = TestSession::running(command_spec());
    assert_eq!(deaf.try_apply(steer.clone()), takes_none);

    let mut harness = TestSession::new(command_with_open_input());
    assert_eq!(harness.try_apply(steer.clone()), Err(SessionRejection::NotRunning));
    harness.apply(SessionCommand::WorkPrepared { cwd: "/work".to_owned(), base: None });
    harness.start();
    harness.apply(steer);
    assert_eq!(harness.try_apply(send("b", SendMode::Supersede)), takes_none, "it has no next one");
    harness.exit(ProcessExit::Exit(0), StoppedBy::Itself);
    assert_eq!(harness.try_apply(send("c", SendMode::Continue)), Err(SessionRejection::NotRunning));
    harness.settle();
    assert_eq!(harness.try_apply(send("d", SendMode::Continue)), takes_none);
}

#[test]
fn listens_with_protocol_or_open_input() {
    assert!(spec().agent.accepts_input());
    assert!(command_with_open_input().agent.accepts_input());
    assert!(!command_spec().agent.accepts_input());
}

#[test]
fn cancelled_session_rejects_messages() {
    let mut harness = TestSession::running(spec());
    harness.apply(SessionCommand::Cancel { because: "no".to_owned() });
    assert_eq!(harness.try_apply(send("a", SendMode::Continue)), Err(SessionRejection::Cancelled));
}

#[test]
fn message_after_seal_opens_next_attempt() {
    for mode in [SendMode::Continue, SendMode::Supersede] {
        let mut harness = TestSession::running(spec());
        harness
            .claim(ClaimKind::Completed)
            .end(ProcessExit::Exit(0))
            .settle()
            .apply(send("more", mode));
        let attempt = harness.session.attempt();
        assert_eq!((attempt.no, attempt.instruction.as_deref()), (2, Some("the text of more")));
        let message = harness.session.input.messages.last().unwrap();
        assert_eq!((message.key.as_str(), message.attempt), ("instruction-2", 2));
        let first = harness.session.attempts[0].sealed.as_ref().unwrap();
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
    let mut harness = TestSession::running(spec());
    harness.apply(SessionCommand::Stop);
    let message = send("a", SendMode::Continue);
    assert_eq!(harness.try_apply(message.clone()), Err(SessionRejection::StoppedFirst));
    harness.end_by(ProcessExit::Signal(15), StoppedBy::Provost);
    assert_eq!(
        harness.try_apply(message.clone()),
        Err(SessionRejection::StoppedFirst),
        "its end is not sealed"
    );
    harness.settle();
    assert!(harness.sealed() && harness.session.input.messages.iter().all(|m| m.key != "a"));
    harness.apply(message);
    assert_eq!(harness.session.attempt().no, 2, "it continues with that");

    let mut waiting = TestSession::running(spec());
    waiting.claim(ClaimKind::NeedsInput).signal(TURN_ENDED_OK).apply(SessionCommand::Stop);
    waiting
        .end_by(ProcessExit::Signal(15), StoppedBy::Provost)
        .apply(send("b", SendMode::Continue));
    assert_eq!(waiting.session.launches[1].why, LaunchReason::Answer);
}

#[test]
fn queued_messages_are_lost_at_seal() {
    let mut harness = TestSession::running(spec());
    harness
        .apply(send("a", SendMode::Continue))
        .claim(ClaimKind::Completed)
        .end(ProcessExit::Exit(0));
    harness.settle();
    assert!(harness.sealed());
    let lost = |m: &provost_core::session::AgentMessage| {
        m.status == DeliveryStatus::Undeliverable { reason: "the session ended first".to_owned() }
    };
    assert!(harness.session.input.messages.iter().all(lost));
}
