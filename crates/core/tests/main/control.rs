//! Interrupting a turn and compacting a conversation.

use provost_core::{
    lifecycle::{ClaimKind, Flag, State},
    session::{
        ContextUsage, DeadlineKind, DeliveryStatus, Event, ProcessExit, RecordSignal,
        SessionCommand, SessionEffect, SessionRejection, SessionSpec, StreamSignal, TurnEnd,
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
    let mut bench = TestSession::running(spec);
    bench.signal(StreamSignal::Ready { thread: Some("t".to_owned()) });
    input_seen(&mut bench, "instruction-1");
    bench.signal(StreamSignal::TurnStarted { turn: Some("u".to_owned()) });
    bench
}

fn input_seen(bench: &mut TestSession, key: &str) {
    bench.signal(StreamSignal::InputWritten { key: key.to_owned() });
}

fn pending_delivery(bench: &TestSession) -> Option<String> {
    bench.session.effects().into_iter().find_map(delivered_message)
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
    let mut bench = TestSession::running(spec());
    bench.apply(SessionCommand::Compact { key: "once".to_owned() });
    bench.apply(SessionCommand::MessageLost { key: "once".to_owned(), reason: "so".to_owned() });
    let again = bench.decide(&SessionCommand::Compact { key: "once".to_owned() });
    assert_eq!(again, Err(SessionRejection::NothingNew));
    bench.apply(SessionCommand::Compact { key: "twice".to_owned() });
    bench.signal(StreamSignal::TurnStarted { turn: None });
    let again = bench.decide(&SessionCommand::Interrupt { key: "once".to_owned(), text: None });
    assert_eq!(again, Err(SessionRejection::NothingNew));
}

#[test]
fn interrupted_session_waits_for_the_user() {
    let mut bench = in_turn();
    bench.apply(interrupt(None));
    assert_eq!(pending_delivery(&bench).as_deref(), Some("leave"));
    input_seen(&mut bench, "leave");
    bench.signal(turn_ended(TurnEnd::Interrupted));
    assert_eq!((bench.state(), bench.has_flag(Flag::Interrupted)), (State::Idle, true));
    assert_eq!(pending_delivery(&bench), None, "it is not asked for its result");
    assert_eq!(bench.session.deadline(), None, "it waits for the user");
    bench.apply(crate::kit::send("next", provost_core::session::SendMode::Continue));
    input_seen(&mut bench, "next");
    bench.signal(StreamSignal::TurnStarted { turn: None });
    assert!(!bench.has_flag(Flag::Interrupted));
    bench.signal(TURN_ENDED_OK);
    assert_eq!(pending_delivery(&bench).as_deref(), Some("result-1-0"));
}

#[test]
fn interrupt_text_follows_the_turn_before_result_query() {
    let mut bench = in_turn();
    bench.apply(interrupt(Some("do that instead")));
    input_seen(&mut bench, "leave");
    assert_eq!(pending_delivery(&bench), None, "it would be taken up in the turn that ends");
    bench.signal(turn_ended(TurnEnd::Interrupted));
    assert_eq!(pending_delivery(&bench).as_deref(), Some("leave-text"));
    assert_eq!(bench.state(), State::Working, "a turn is expected");
    input_seen(&mut bench, "leave-text");
    assert_eq!(pending_delivery(&bench), None);
}

#[test]
fn interrupt_overtakes_queued_messages_once() {
    let mut bench = in_turn();
    bench.apply(crate::kit::send("waits", provost_core::session::SendMode::Continue));
    bench.apply(interrupt(None));
    assert_eq!(pending_delivery(&bench).as_deref(), Some("leave"));
    assert_eq!(bench.decide(&interrupt(None)), Err(SessionRejection::NothingNew));
    input_seen(&mut bench, "leave");
    assert_eq!(bench.decide(&interrupt(None)), Err(SessionRejection::NothingNew));
}

#[test]
fn interrupt_after_turn_end_is_dropped() {
    let mut bench = in_turn();
    bench.apply(interrupt(None)).signal(turn_ended(TurnEnd::Ok));
    let fate = &bench.session.messages.iter().find(|m| m.key == "leave").unwrap().status;
    assert!(matches!(fate, DeliveryStatus::Undeliverable { .. }), "{fate:?}");
    assert_eq!(pending_delivery(&bench).as_deref(), Some("result-1-0"));
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
    let mut bench = in_turn();
    bench.signal(StreamSignal::Context(ContextUsage { used: 90, window: 100 }));
    bench.apply(compact());
    assert_eq!(pending_delivery(&bench), None, "a turn is open");
    assert_eq!(bench.decide(&compact()), Err(SessionRejection::NothingNew));
    bench.signal(turn_ended(TurnEnd::Ok));
    assert_eq!(
        pending_delivery(&bench).as_deref(),
        Some("compact"),
        "before it is asked for its result"
    );
    input_seen(&mut bench, "compact");
    assert_eq!(pending_delivery(&bench), None, "nothing is said meanwhile");
    let turns = bench.session.turns;
    bench
        .signal(StreamSignal::TurnStarted { turn: Some("c".to_owned()) })
        .signal(StreamSignal::Compacted);
    assert_eq!((bench.session.context, bench.session.compactions), (None, 1));
    bench.signal(StreamSignal::TurnEnded {
        turn: Some("c".to_owned()),
        end: TurnEnd::Error("no model".to_owned()),
        usage: None,
        says: None,
    });
    assert_eq!(bench.session.turns, turns, "no turn was invented");
    assert_eq!(bench.session.attempt().claim_kind(), ClaimKind::None, "and no failure of the work");
    assert_eq!(pending_delivery(&bench).as_deref(), Some("result-1-0"));
}

#[test]
fn d09_self_compaction_keeps_the_turn_open() {
    let mut bench = in_turn();
    bench.signal(StreamSignal::Compacted);
    assert_eq!((bench.state(), bench.session.compactions), (State::Working, 1));
    bench.signal(turn_ended(TurnEnd::Error("broken".to_owned())));
    assert_eq!(bench.session.attempt().claim_kind(), ClaimKind::Failed);
}

#[test]
fn unconfirmed_compaction_times_out() {
    let mut bench = in_turn();
    bench.apply(compact()).signal(turn_ended(TurnEnd::Ok));
    input_seen(&mut bench, "compact");
    let (at, due) = bench.session.deadline().expect("it is waited for");
    assert_eq!(due, DeadlineKind::Compaction);
    bench.advance_clock(at - bench.now.mono_ms - 1);
    assert!(bench.session.compacting().is_some());
    bench.advance_clock(1);
    assert!(bench.session.compacting().is_none());
    assert!(bench.log.iter().any(|(_, event)| matches!(event, Event::CompactionFailed(_))));
    assert_eq!(pending_delivery(&bench).as_deref(), Some("result-1-0"));
}

#[test]
fn refused_compaction_unblocks_and_ended_work_skips_it() {
    let mut bench = in_turn();
    bench.apply(compact()).signal(turn_ended(TurnEnd::Ok));
    input_seen(&mut bench, "compact");
    bench.signal(StreamSignal::CompactionFailed { reason: "unknown method".to_owned() });
    assert_eq!(pending_delivery(&bench).as_deref(), Some("result-1-0"));
    let mut done = in_turn();
    done.apply(compact()).claim(ClaimKind::Completed).signal(turn_ended(TurnEnd::Ok));
    assert_eq!(pending_delivery(&done), None);
}

#[test]
fn terminal_compacts_at_prompt_confirmed_by_rollout() {
    let mut given = spec();
    (given.agent.interface, given.instruction) = (interfaces::screen(), None);
    let mut bench = TestSession::running(given);
    let launch = bench.launch();
    let hint = |place| SessionCommand::ScreenHinted {
        launch,
        by: provost_core::session::ScreenSource::Osc,
        place,
        what: provost_core::session::ScreenHint::AtPrompt,
    };
    bench.apply(compact());
    assert_eq!(pending_delivery(&bench), None, "it is not known to be at its prompt");
    bench.apply(hint(1));
    assert_eq!(pending_delivery(&bench).as_deref(), Some("compact"));
    input_seen(&mut bench, "compact");
    assert!(bench.session.compacting().is_none(), "typed is not taken");
    let by = provost_core::session::RecordSource::Rollout;
    let record = |place, what| SessionCommand::RecordRead { launch, by, place, what };
    bench.apply(record(1, RecordSignal::TurnStarted { turn: Some("c".to_owned()) }));
    assert!(bench.session.compacting().is_some_and(|asked| asked.turn));
    bench.apply(record(2, RecordSignal::Compacted));
    bench.apply(record(
        3,
        RecordSignal::TurnEnded { turn: Some("c".to_owned()), end: TurnEnd::Ok, says: None },
    ));
    assert_eq!((bench.session.turns, bench.session.compactions), (0, 1));
    assert!(bench.session.compacting().is_none());
}

#[test]
fn t04_terminal_interrupt_waits_for_open_question() {
    let mut given = spec();
    (given.agent.interface, given.instruction) = (interfaces::screen(), None);
    let mut bench = TestSession::running(given);
    let launch = bench.launch();
    let by = provost_core::session::RecordSource::Hook;
    let record = |what| SessionCommand::RecordRead { launch, by, place: 0, what };
    assert_eq!(bench.decide(&interrupt(None)), Err(SessionRejection::NoTurn));
    bench.apply(record(RecordSignal::TurnStarted { turn: Some("u".to_owned()) }));
    bench.apply(record(RecordSignal::RequestOpened(crate::kit::question("q"))));
    bench.apply(interrupt(Some("do that instead")));
    assert_eq!(pending_delivery(&bench), None, "the key would answer what it asks");
    bench.apply(record(RecordSignal::Continued));
    assert_eq!(pending_delivery(&bench).as_deref(), Some("leave"));
    input_seen(&mut bench, "leave");
    assert!(bench.session.launches[0].stream.interrupted);
    let end = TurnEnd::Interrupted;
    bench.apply(record(RecordSignal::TurnEnded { turn: Some("u".to_owned()), end, says: None }));
    assert_eq!(bench.state(), State::Idle, "interrupted is not done");
}
