//! Waiting for the user is not silence, and lasts until the answer is typed.

use provost_core::{
    lifecycle::{ClaimKind, State},
    request::{ApprovalScope, RequestReply, RequestStatus},
    session::{
        AgentMessageKind, DeadlineKind, DeliveryStatus, Event, InputEvent, ProcessExit, Reaction,
        ReactionTrigger, RecordSignal, ScreenHint, ScreenSource, SessionCommand, SessionSpec,
        StreamSignal,
    },
};

use crate::{
    input::kit::{WatchSignals as _, approval, pending_delivery, terminal_spec},
    kit::{TestSession, command_spec, question, spec},
};

/// Longer than any window of silence.
const LONG: u64 = 3_600_000;

fn answer(harness: &mut TestSession, reply: RequestReply) {
    let (request, revision) =
        (harness.session.requests[0].id, harness.session.requests[0].revision);
    harness.apply(SessionCommand::Answer { request, revision, reply });
}

fn silence_window(harness: &TestSession) -> Option<u64> {
    let (at, due) = harness.session.deadline()?;
    matches!(due, DeadlineKind::Silence(_)).then_some(at - harness.now.mono_ms)
}

#[test]
fn m06_waiting_for_answer_is_not_silence() {
    let mut harness = TestSession::running(spec());
    harness.signal(StreamSignal::TurnStarted { turn: Some("a".to_owned()) });
    harness.signal(StreamSignal::RequestOpened(question("q"))).advance_clock(LONG);
    assert_eq!((harness.state(), silence_window(&harness)), (State::NeedsInput, None));
    answer(&mut harness, RequestReply::Text("so".to_owned()));
    assert_eq!(
        silence_window(&harness),
        Some(harness.session.spec.bounds.stale_ms),
        "it begins now"
    );
    harness.advance_clock(harness.session.spec.bounds.stale_ms - 1);
    assert_eq!(harness.state(), State::Working);
    harness.report_silence();
    assert_eq!(harness.state(), State::Stalled);
}

#[test]
fn m06_waiting_settled_at_screen_is_not_silence() {
    let mut harness = TestSession::running(terminal_spec());
    harness
        .begin_turn(10, "a")
        .show(ScreenSource::Screen, 20, ScreenHint::ShowsRequest(approval()))
        .advance_clock(LONG);
    harness.show(ScreenSource::Screen, 30, ScreenHint::Working);
    assert_eq!(harness.session.requests[0].status, RequestStatus::AnsweredElsewhere);
    assert_eq!(silence_window(&harness), Some(harness.session.spec.bounds.stale_ms));
}

/// A terminal that shows a request while a viewer is attached.
fn attended() -> TestSession {
    let mut harness = TestSession::running(terminal_spec());
    harness.begin_turn(10, "a").record(20, RecordSignal::RequestOpened(approval()));
    harness.show(ScreenSource::Screen, 30, ScreenHint::ShowsRequest(approval()));
    let launch = harness.launch();
    harness.apply(SessionCommand::ViewersChanged { launch, people: 1 });
    harness
}

#[test]
fn untyped_answer_keeps_session_needing_input() {
    let mut harness = attended();
    answer(&mut harness, RequestReply::Approve(ApprovalScope::Once));
    assert_eq!((harness.state(), pending_delivery(&harness)), (State::NeedsInput, None));
    assert!(harness.session.untyped_answer().is_some());
    harness.advance_clock(LONG);
    assert_eq!(
        (harness.state(), silence_window(&harness)),
        (State::NeedsInput, None),
        "and no window runs"
    );
    let launch = harness.launch();
    harness.apply(SessionCommand::ViewersChanged { launch, people: 0 });
    let key = pending_delivery(&harness).expect("no viewer blocks it");
    harness.signal(StreamSignal::InputWritten { key });
    assert_eq!(harness.state(), State::Working);
    assert_eq!(harness.session.current_launch().unwrap().stream.last_heard, harness.now);
}

#[test]
fn answer_to_vanished_request_does_not_block() {
    let mut harness = attended();
    answer(&mut harness, RequestReply::Approve(ApprovalScope::Once));
    harness.show(ScreenSource::Screen, 40, ScreenHint::Working);
    assert_eq!((harness.state(), harness.session.untyped_answer()), (State::Working, None));
}

/// A spec with a reaction that nudges a quiet agent.
fn nudging_spec(spec: SessionSpec) -> SessionSpec {
    let act = provost_core::session::ReactionAction::Nudge { text: "go on".to_owned() };
    let wake = Reaction {
        name: "wake".into(),
        on: ReactionTrigger::Quiet,
        after_ms: 100,
        act,
        times: 1,
        total: 9,
    };
    SessionSpec { reactions: vec![wake], ..spec }
}

/// A session whose nudge waits for the end of a turn.
fn nudged() -> TestSession {
    let mut harness = TestSession::running(nudging_spec(terminal_spec()));
    harness
        .begin_turn(10, "a")
        .show(ScreenSource::Osc, 20, ScreenHint::AtPrompt)
        .advance_clock(100);
    let launch = harness.launch();
    let heard_ms = harness.session.launch(launch).expect("it runs").stream.last_heard.mono_ms;
    harness.apply(SessionCommand::Silence { launch, heard_ms });
    let nudge = harness.session.input.messages.last().expect("it is nudged");
    assert_eq!((nudge.kind, &nudge.status), (AgentMessageKind::Nudge, &DeliveryStatus::Queued));
    harness
}

fn dropped_nudge_reason(harness: &TestSession) -> Option<&str> {
    harness.log.iter().find_map(|(_, event)| {
        let Event::Input(InputEvent::MessageLost(e)) = event else { return None };
        e.key.starts_with("nudge-").then_some(e.reason.as_str())
    })
}

#[test]
fn nudge_is_dropped_when_turn_ends_first() {
    let mut harness = nudged();
    harness.advance_clock(50);
    assert_eq!(
        (dropped_nudge_reason(&harness), pending_delivery(&harness)),
        (None, None),
        "it waits as long as the silence"
    );
    harness.end_turn(30, "a");
    assert_eq!(dropped_nudge_reason(&harness), Some("its occasion ended first"));
    assert_eq!(pending_delivery(&harness), None, "nothing is typed when the turn is over");
}

#[test]
fn nudge_is_dropped_when_agent_is_active_again() {
    let mut harness = nudged();
    harness
        .record(30, RecordSignal::Progress(provost_core::session::Progress { done: 1, total: 2 }));
    assert!(dropped_nudge_reason(&harness).is_some());
    let launch = harness.launch();
    harness.advance_clock(100);
    let heard_ms = harness.session.launch(launch).unwrap().stream.last_heard.mono_ms;
    harness.apply(SessionCommand::Silence { launch, heard_ms });
    let waits = harness
        .session
        .input
        .messages
        .iter()
        .filter(|m| m.status == DeliveryStatus::Queued)
        .count();
    assert_eq!(waits, 1, "another silence is another occasion");
}

#[test]
fn nudge_in_delivery_is_not_dropped() {
    let mut harness = TestSession::running(nudging_spec(spec()));
    harness.signal(StreamSignal::Ready { thread: Some("t".to_owned()) });
    harness.signal(StreamSignal::InputWritten { key: "instruction-1".to_owned() });
    harness.signal(StreamSignal::TurnStarted { turn: Some("u".to_owned()) }).advance_clock(100);
    let launch = harness.launch();
    let heard_ms = harness.session.launch(launch).unwrap().stream.last_heard.mono_ms;
    harness.apply(SessionCommand::Silence { launch, heard_ms });
    let key = pending_delivery(&harness).expect("an agent with a protocol gets it at once");
    harness.signal(StreamSignal::Progress(provost_core::session::Progress { done: 1, total: 2 }));
    assert_eq!(dropped_nudge_reason(&harness), None);
    harness.signal(StreamSignal::InputWritten { key });
    let nudge = harness.session.input.messages.last().unwrap();
    assert!(matches!(nudge.status, DeliveryStatus::Delivered { .. }));
}

#[test]
fn f6_w14_command_needs_input_until_next_report() {
    let mut harness = TestSession::running(command_spec());
    harness.claim(ClaimKind::NeedsInput).advance_clock(LONG);
    assert_eq!(
        (harness.state(), silence_window(&harness)),
        (State::NeedsInput, None),
        "no silence of its own"
    );
    harness.claim(ClaimKind::Working);
    assert_eq!(harness.state(), State::Working);
    harness.claim(ClaimKind::NeedsInput).claim(ClaimKind::Completed);
    assert_eq!(harness.state(), State::Finishing, "its process has yet to end");
    harness.claim(ClaimKind::NeedsInput).end(ProcessExit::Exit(0));
    assert_eq!(harness.state(), State::NeedsInput);
}

#[test]
fn f6_w14_open_turn_overrides_needs_input_claim() {
    let mut harness = TestSession::running(spec());
    harness.signal(StreamSignal::TurnStarted { turn: Some("a".to_owned()) });
    harness.claim(ClaimKind::NeedsInput);
    assert_eq!(harness.state(), State::Working);
}
