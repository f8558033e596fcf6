//! Interrupting a turn and compacting a conversation.

use provost_core::{
    lifecycle::{ClaimKind, Flag, State},
    session::{
        ContextUsage, ConversationEvent, DeadlineKind, DeliveryStatus, Event, ProcessExit,
        RecordSignal, SessionCommand, SessionEffect, SessionRejection, SessionSpec, StreamSignal,
        TurnEnd,
    },
};

use crate::interfaces;
use crate::kit::{TURN_ENDED_OK, TestSession, spec};

fn interrupt(text: Option<&str>) -> SessionCommand {
    SessionCommand::Interrupt { key: "leave".to_owned(), text: text.map(str::to_owned) }
}

fn compact() -> SessionCommand {
    SessionCommand::Compact { key: "compact".to_owned() }
}

/// A session whose agent received its instruction and is in a turn.
fn in_turn() -> TestSession {
    in_turn_with(spec())
}

fn in_turn_with(spec: SessionSpec) -> TestSession {
    let mut harness = TestSession::running(spec);
    harness.signal(StreamSignal::Ready { thread: Some("t".to_owned()) });
    input_seen(&mut harness, "instruction-1");
    harness.signal(StreamSignal::TurnStarted { turn: Some("u".to_owned()) });
    harness
}

fn input_seen(harness: &mut TestSession, key: &str) {
    harness.signal(StreamSignal::InputWritten { key: key.to_owned() });
}

fn pending_delivery(harness: &TestSession) -> Option<String> {
    harness.session.effects().into_iter().find_map(delivered_message)
}

/// Returns the key of the message that an effect delivers, if any.
pub(crate) fn delivered_message(effect: SessionEffect) -> Option<String> {
    if let SessionEffect::Deliver { message, .. } = effect { Some(message) } else { None }
}

fn turn_ended(end: TurnEnd) -> StreamSignal {
    StreamSignal::TurnEnded { turn: Some("u".to_owned()), end, usage: None, says: None }
}

/// Repeating a command whose request was given up does not request it again.
#[test]
fn control_key_is_used_once() {
    let mut harness = TestSession::running(spec());
    harness.apply(SessionCommand::Compact { key: "once".to_owned() });
    harness.apply(SessionCommand::MessageLost { key: "once".to_owned(), reason: "so".to_owned() });
    let again = harness.decide(&SessionCommand::Compact { key: "once".to_owned() });
    assert_eq!(again, Err(SessionRejection::NothingNew));
    harness.apply(SessionCommand::Compact { key: "twice".to_owned() });
    harness.signal(StreamSignal::TurnStarted { turn: None });
    let again = harness.decide(&SessionCommand::Interrupt { key: "once".to_owned(), text: None });
    assert_eq!(again, Err(SessionRejection::NothingNew));
}

#[test]
fn interrupted_session_waits_for_the_user() {
    let mut harness = in_turn();
    harness.apply(interrupt(None));
    assert_eq!(pending_delivery(&harness).as_deref(), Some("leave"));
    input_seen(&mut harness, "leave");
    harness.signal(turn_ended(TurnEnd::Interrupted));
    assert_eq!((harness.state(), harness.has_flag(Flag::Interrupted)), (State::Idle, true));
    assert_eq!(pending_delivery(&harness), None, "it is not asked for its result");
    assert_eq!(harness.session.deadline(), None, "it waits for the user");
    harness.apply(crate::kit::send("next", provost_core::session::SendMode::Continue));
    input_seen(&mut harness, "next");
    harness.signal(StreamSignal::TurnStarted { turn: None });
    assert!(!harness.has_flag(Flag::Interrupted));
    harness.signal(TURN_ENDED_OK);
    assert_eq!(pending_delivery(&harness).as_deref(), Some("result-1-0"));
}

#[test]
fn interrupt_text_follows_the_turn_before_result_query() {
    let mut harness = in_turn();
    harness.apply(interrupt(Some("do that instead")));
    input_seen(&mut harness, "leave");
    assert_eq!(pending_delivery(&harness), None, "it would be taken up in the turn that ends");
    harness.signal(turn_ended(TurnEnd::Interrupted));
    assert_eq!(pending_delivery(&harness).as_deref(), Some("leave-text"));
    assert_eq!(harness.state(), State::Working, "a turn is expected");
    input_seen(&mut harness, "leave-text");
    assert_eq!(pending_delivery(&harness), None);
}

#[test]
fn interrupt_overtakes_queued_messages_once() {
    let mut harness = in_turn();
    harness.apply(crate::kit::send("waits", provost_core::session::SendMode::Continue));
    harness.apply(interrupt(None));
    assert_eq!(pending_delivery(&harness).as_deref(), Some("leave"));
    assert_eq!(harness.decide(&interrupt(None)), Err(SessionRejection::NothingNew));
    input_seen(&mut harness, "leave");
    assert_eq!(harness.decide(&interrupt(None)), Err(SessionRejection::NothingNew));
}

#[test]
fn interrupt_after_turn_end_is_dropped() {
    let mut harness = in_turn();
    harness.apply(interrupt(None)).signal(turn_ended(TurnEnd::Ok));
    let fate = &harness.session.input.messages.iter().find(|m| m.key == "leave").unwrap().status;
    assert!(matches!(fate, DeliveryStatus::Undeliverable { .. }), "{fate:?}");
    assert_eq!(pending_delivery(&harness).as_deref(), Some("result-1-0"));
}

#[test]
fn rejected_interrupt_or_compaction_names_reason() {
    let mut idle = in_turn();
    idle.apply(interrupt(None));
    input_seen(&mut idle, "leave");
    idle.signal(turn_ended(TurnEnd::Interrupted));
    assert_eq!(idle.decide(&interrupt(None)), Err(SessionRejection::NoTurn));
    let plain = TestSession::running(crate::kit::command_spec());
    assert_eq!(
        plain.decide(&interrupt(None)),
        Err(SessionRejection::HasNoTurns("test".to_owned()))
    );
    assert_eq!(plain.decide(&compact()), Err(SessionRejection::CannotCompact("test".to_owned())));
    let mut gone = in_turn();
    gone.apply(SessionCommand::Cancel { because: "so".to_owned() });
    assert_eq!(gone.decide(&interrupt(None)), Err(SessionRejection::Cancelled));
    let mut stopped = in_turn();
    stopped.apply(SessionCommand::Stop);
    assert_eq!(stopped.decide(&compact()), Err(SessionRejection::Stopping));
    stopped.end(ProcessExit::Exit(0));
    assert_eq!(stopped.decide(&compact()), Err(SessionRejection::NotRunning));
}

#[test]
fn d09_compaction_waits_for_turn_end_and_is_not_work() {
    let mut harness = in_turn();
    harness.signal(StreamSignal::Context(ContextUsage { used: 90, window: 100 }));
    harness.apply(compact());
    assert_eq!(pending_delivery(&harness), None, "a turn is open");
    assert_eq!(harness.decide(&compact()), Err(SessionRejection::NothingNew));
    harness.signal(turn_ended(TurnEnd::Ok));
    assert_eq!(
        pending_delivery(&harness).as_deref(),
        Some("compact"),
        "before it is asked for its result"
    );
    input_seen(&mut harness, "compact");
    assert_eq!(pending_delivery(&harness), None, "nothing is said meanwhile");
    let turns = harness.session.spending.turns;
    harness
        .signal(StreamSignal::TurnStarted { turn: Some("c".to_owned()) })
        .signal(StreamSignal::Compacted);
    assert_eq!(
        (harness.session.conversation.context, harness.session.conversation.compactions),
        (None, 1)
    );
    harness.signal(StreamSignal::TurnEnded {
        turn: Some("c".to_owned()),
        end: TurnEnd::Error("no model".to_owned()),
        usage: None,
        says: None,
    });
    assert_eq!(harness.session.spending.turns, turns, "no turn was invented");
    assert_eq!(
        harness.session.attempt().claim_kind(),
        ClaimKind::None,
        "and no failure of the work"
    );
    assert_eq!(pending_delivery(&harness).as_deref(), Some("result-1-0"));
}

#[test]
fn d09_self_compaction_keeps_the_turn_open() {
    let mut harness = in_turn();
    harness.signal(StreamSignal::Compacted);
    assert_eq!((harness.state(), harness.session.conversation.compactions), (State::Working, 1));
    harness.signal(turn_ended(TurnEnd::Error("broken".to_owned())));
    assert_eq!(harness.session.attempt().claim_kind(), ClaimKind::Failed);
}

#[test]
fn unconfirmed_compaction_times_out() {
    let mut harness = in_turn();
    harness.apply(compact()).signal(turn_ended(TurnEnd::Ok));
    input_seen(&mut harness, "compact");
    let (at, due) = harness.session.deadline().expect("it is waited for");
    assert_eq!(due, DeadlineKind::Compaction);
    harness.advance_clock(at - harness.now.mono_ms - 1);
    assert!(harness.session.compacting().is_some());
    harness.advance_clock(1);
    assert!(harness.session.compacting().is_none());
    assert!(harness.log.iter().any(|(_, event)| matches!(
        event,
        Event::Conversation(ConversationEvent::CompactionFailed(_))
    )));
    assert_eq!(pending_delivery(&harness).as_deref(), Some("result-1-0"));
}

#[test]
fn refused_compaction_unblocks_and_ended_work_skips_it() {
    let mut harness = in_turn();
    harness.apply(compact()).signal(turn_ended(TurnEnd::Ok));
    input_seen(&mut harness, "compact");
    harness.signal(StreamSignal::CompactionFailed { reason: "unknown method".to_owned() });
    assert_eq!(pending_delivery(&harness).as_deref(), Some("result-1-0"));
    let mut done = in_turn();
    done.apply(compact()).claim(ClaimKind::Completed).signal(turn_ended(TurnEnd::Ok));
    assert_eq!(pending_delivery(&done), None);
}

#[test]
fn refused_compaction_does_not_end_an_unnamed_turn() {
    let mut harness = in_turn();
    harness.apply(compact()).signal(StreamSignal::TurnStarted { turn: None });
    let (key, reason) = ("compact".to_owned(), "busy".to_owned());
    harness.signal(StreamSignal::MessageRefused { key, reason, busy: false });
    assert_eq!(harness.state(), State::Working, "the agent reported a turn");
    assert_eq!(pending_delivery(&harness), None, "its result is requested after the turn");
}

#[test]
fn terminal_compacts_at_prompt_confirmed_by_rollout() {
    let mut given = spec();
    (given.agent.interface, given.instruction) = (interfaces::screen(), None);
    let mut harness = TestSession::running(given);
    let launch = harness.launch();
    let hint = |place| SessionCommand::ScreenHinted {
        launch,
        by: provost_core::session::ScreenSource::Osc,
        place,
        what: provost_core::session::ScreenHint::AtPrompt,
    };
    harness.apply(compact());
    assert_eq!(pending_delivery(&harness), None, "it is not known to be at its prompt");
    harness.apply(hint(1));
    assert_eq!(pending_delivery(&harness).as_deref(), Some("compact"));
    input_seen(&mut harness, "compact");
    assert!(harness.session.compacting().is_none(), "typed is not taken");
    let by = provost_core::session::RecordSource::Rollout;
    let record = |place, what| SessionCommand::RecordRead { launch, by, place, what };
    harness.apply(record(1, RecordSignal::TurnStarted { turn: Some("c".to_owned()) }));
    assert!(harness.session.compacting().is_some_and(|asked| asked.turn));
    harness.apply(record(2, RecordSignal::Compacted));
    harness.apply(record(
        3,
        RecordSignal::TurnEnded { turn: Some("c".to_owned()), end: TurnEnd::Ok, says: None },
    ));
    assert_eq!((harness.session.spending.turns, harness.session.conversation.compactions), (0, 1));
    assert!(harness.session.compacting().is_none());
}

#[test]
fn t04_terminal_interrupt_waits_for_open_question() {
    let mut given = spec();
    (given.agent.interface, given.instruction) = (interfaces::screen(), None);
    let mut harness = TestSession::running(given);
    let launch = harness.launch();
    let by = provost_core::session::RecordSource::Hook;
    let record = |what| SessionCommand::RecordRead { launch, by, place: 0, what };
    assert_eq!(harness.decide(&interrupt(None)), Err(SessionRejection::NoTurn));
    harness.apply(record(RecordSignal::TurnStarted { turn: Some("u".to_owned()) }));
    harness.apply(record(RecordSignal::RequestOpened(crate::kit::question("q"))));
    harness.apply(interrupt(Some("do that instead")));
    assert_eq!(pending_delivery(&harness), None, "the key would answer what it asks");
    harness.apply(record(RecordSignal::Continued));
    assert_eq!(pending_delivery(&harness).as_deref(), Some("leave"));
    input_seen(&mut harness, "leave");
    assert!(harness.session.launches[0].stream.interrupted);
    let end = TurnEnd::Interrupted;
    harness.apply(record(RecordSignal::TurnEnded { turn: Some("u".to_owned()), end, says: None }));
    assert_eq!(harness.state(), State::Idle, "interrupted is not done");
}
