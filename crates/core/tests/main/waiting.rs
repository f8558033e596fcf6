//! Waiting for the user is not silence, and lasts until the answer is typed.

use provost_core::{
    lifecycle::{ClaimKind, State},
    request::{ApprovalScope, RequestReply, RequestStatus},
    session::{
        AgentMessageKind, DeadlineKind, DeliveryStatus, Event, ProcessExit, Reaction,
        ReactionTrigger, RecordSignal, ScreenHint, ScreenSource, SessionCommand, SessionSpec,
        StreamSignal,
    },
};

use crate::{
    kit::{TestSession, command_spec, question, spec},
    watching::{WatchSignals as _, approval, pending_delivery, terminal_spec},
};

/// Longer than any window of silence.
const LONG: u64 = 3_600_000;

fn answer(bench: &mut TestSession, reply: RequestReply) {
    let (request, revision) = (bench.session.requests[0].id, bench.session.requests[0].revision);
    bench.apply(SessionCommand::Answer { request, revision, reply });
}

fn silence_window(bench: &TestSession) -> Option<u64> {
    let (at, due) = bench.session.deadline()?;
    matches!(due, DeadlineKind::Silence(_)).then_some(at - bench.now.mono_ms)
}

#[test]
fn m06_waiting_for_answer_is_not_silence() {
    let mut bench = TestSession::running(spec());
    bench.signal(StreamSignal::TurnStarted { turn: Some("a".to_owned()) });
    bench.signal(StreamSignal::RequestOpened(question("q"))).advance_clock(LONG);
    assert_eq!((bench.state(), silence_window(&bench)), (State::NeedsInput, None));
    answer(&mut bench, RequestReply::Text("so".to_owned()));
    assert_eq!(silence_window(&bench), Some(bench.session.spec.bounds.stale_ms), "it begins now");
    bench.advance_clock(bench.session.spec.bounds.stale_ms - 1);
    assert_eq!(bench.state(), State::Working);
    bench.report_silence();
    assert_eq!(bench.state(), State::Stalled);
}

#[test]
fn m06_waiting_settled_at_screen_is_not_silence() {
    let mut bench = TestSession::running(terminal_spec());
    bench
        .begin_turn(10, "a")
        .show(ScreenSource::Screen, 20, ScreenHint::ShowsRequest(approval()))
        .advance_clock(LONG);
    bench.show(ScreenSource::Screen, 30, ScreenHint::Working);
    assert_eq!(bench.session.requests[0].status, RequestStatus::AnsweredElsewhere);
    assert_eq!(silence_window(&bench), Some(bench.session.spec.bounds.stale_ms));
}

/// A terminal that shows a request while a viewer is attached.
fn attended() -> TestSession {
    let mut bench = TestSession::running(terminal_spec());
    bench.begin_turn(10, "a").record(20, RecordSignal::RequestOpened(approval()));
    bench.show(ScreenSource::Screen, 30, ScreenHint::ShowsRequest(approval()));
    let launch = bench.launch();
    bench.apply(SessionCommand::ViewersChanged { launch, people: 1 });
    bench
}

#[test]
fn untyped_answer_keeps_session_needing_input() {
    let mut bench = attended();
    answer(&mut bench, RequestReply::Approve(ApprovalScope::Once));
    assert_eq!((bench.state(), pending_delivery(&bench)), (State::NeedsInput, None));
    assert!(bench.session.untyped_answer().is_some());
    bench.advance_clock(LONG);
    assert_eq!(
        (bench.state(), silence_window(&bench)),
        (State::NeedsInput, None),
        "and no window runs"
    );
    let launch = bench.launch();
    bench.apply(SessionCommand::ViewersChanged { launch, people: 0 });
    let key = pending_delivery(&bench).expect("no viewer blocks it");
    bench.signal(StreamSignal::InputWritten { key });
    assert_eq!(bench.state(), State::Working);
    assert_eq!(bench.session.current_launch().unwrap().stream.last_heard, bench.now);
}

#[test]
fn answer_to_vanished_request_does_not_block() {
    let mut bench = attended();
    answer(&mut bench, RequestReply::Approve(ApprovalScope::Once));
    bench.show(ScreenSource::Screen, 40, ScreenHint::Working);
    assert_eq!((bench.state(), bench.session.untyped_answer()), (State::Working, None));
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
    let mut bench = TestSession::running(nudging_spec(terminal_spec()));
    bench.begin_turn(10, "a").show(ScreenSource::Osc, 20, ScreenHint::AtPrompt).advance_clock(100);
    let launch = bench.launch();
    let heard_ms = bench.session.launch(launch).expect("it runs").stream.last_heard.mono_ms;
    bench.apply(SessionCommand::Silence { launch, heard_ms });
    let said = bench.session.messages.last().expect("it is nudged");
    assert_eq!((said.kind, &said.status), (AgentMessageKind::Nudge, &DeliveryStatus::Queued));
    bench
}

fn dropped_nudge_reason(bench: &TestSession) -> Option<&str> {
    bench.log.iter().find_map(|(_, event)| {
        let Event::MessageLost(e) = event else { return None };
        e.key.starts_with("nudge-").then_some(e.reason.as_str())
    })
}

#[test]
fn nudge_is_dropped_when_turn_ends_first() {
    let mut bench = nudged();
    bench.advance_clock(50);
    assert_eq!(
        (dropped_nudge_reason(&bench), pending_delivery(&bench)),
        (None, None),
        "it waits as long as the silence"
    );
    bench.end_turn(30, "a");
    assert_eq!(dropped_nudge_reason(&bench), Some("its occasion ended first"));
    assert_eq!(pending_delivery(&bench), None, "nothing is typed when the turn is over");
}

#[test]
fn nudge_is_dropped_when_agent_is_active_again() {
    let mut bench = nudged();
    bench.record(30, RecordSignal::Progress(provost_core::session::Progress { done: 1, total: 2 }));
    assert!(dropped_nudge_reason(&bench).is_some());
    let launch = bench.launch();
    bench.advance_clock(100);
    let heard_ms = bench.session.launch(launch).unwrap().stream.last_heard.mono_ms;
    bench.apply(SessionCommand::Silence { launch, heard_ms });
    let waits =
        bench.session.messages.iter().filter(|m| m.status == DeliveryStatus::Queued).count();
    assert_eq!(waits, 1, "another silence is another occasion");
}

#[test]
fn nudge_in_delivery_is_not_dropped() {
    let mut bench = TestSession::running(nudging_spec(spec()));
    bench.signal(StreamSignal::Ready { thread: Some("t".to_owned()) });
    bench.signal(StreamSignal::InputWritten { key: "instruction-1".to_owned() });
    bench.signal(StreamSignal::TurnStarted { turn: Some("u".to_owned()) }).advance_clock(100);
    let launch = bench.launch();
    let heard_ms = bench.session.launch(launch).unwrap().stream.last_heard.mono_ms;
    bench.apply(SessionCommand::Silence { launch, heard_ms });
    let key = pending_delivery(&bench).expect("an agent with a protocol gets it at once");
    bench.signal(StreamSignal::Progress(provost_core::session::Progress { done: 1, total: 2 }));
    assert_eq!(dropped_nudge_reason(&bench), None);
    bench.signal(StreamSignal::InputWritten { key });
    let said = bench.session.messages.last().unwrap();
    assert!(matches!(said.status, DeliveryStatus::Delivered { .. }));
}

#[test]
fn f6_w14_command_needs_input_until_next_report() {
    let mut bench = TestSession::running(command_spec());
    bench.claim(ClaimKind::NeedsInput).advance_clock(LONG);
    assert_eq!(
        (bench.state(), silence_window(&bench)),
        (State::NeedsInput, None),
        "no silence of its own"
    );
    bench.claim(ClaimKind::Working);
    assert_eq!(bench.state(), State::Working);
    bench.claim(ClaimKind::NeedsInput).claim(ClaimKind::Completed);
    assert_eq!(bench.state(), State::Finishing, "its process has yet to end");
    bench.claim(ClaimKind::NeedsInput).end(ProcessExit::Exit(0));
    assert_eq!(bench.state(), State::NeedsInput);
}

#[test]
fn f6_w14_open_turn_overrides_needs_input_claim() {
    let mut bench = TestSession::running(spec());
    bench.signal(StreamSignal::TurnStarted { turn: Some("a".to_owned()) });
    bench.claim(ClaimKind::NeedsInput);
    assert_eq!(bench.state(), State::Working);
}
