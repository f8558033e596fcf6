//! Observations outside a protocol: records, and signals inferred from a terminal.

use provost_core::{
    lifecycle::{ClaimKind, Flag, State},
    request::{AgentRequest, ApprovalScope, RequestKind, RequestReply, RequestStatus},
    session::{
        DeliveryStatus, InputBlocked, ProcessExit, RecordSignal, RecordSource, ReportBody,
        Reporter, ScreenHint, ScreenSource, SendMode, SessionCommand, SessionEffect,
        SessionRejection, SessionSpec, SignalKind, StreamSignal, TurnEnd, TypingState,
        enter_retry_key,
    },
};

use super::kit::*;
use crate::kit::TestSession;

#[test]
fn terminal_without_instruction_stays_idle() {
    let mut harness = TestSession::running(terminal_spec());
    harness.advance_clock(3_600_000);
    assert_eq!(harness.state(), State::Idle);
    assert!(harness.session.current_launch().is_some_and(|launch| launch.stop.is_none()));
    assert!(harness.session.attempt().result_requested.is_none());
}

#[test]
fn turn_in_two_records_counts_once() {
    let mut harness = TestSession::running(terminal_spec());
    let launch = harness.launch();
    let begin = RecordSignal::TurnStarted { turn: Some("a".to_owned()) };
    harness.apply(SessionCommand::RecordRead {
        launch,
        by: RecordSource::Hook,
        place: 0,
        what: begin.clone(),
    });
    assert_eq!((harness.state(), harness.session.spending.turns), (State::Working, 1));
    harness.record(10, begin);
    assert_eq!(harness.session.spending.turns, 1);
    harness.end_turn(20, "a");
    assert_eq!(harness.state(), State::Idle);
    let end = RecordSignal::TurnEnded {
        turn: Some("a".to_owned()),
        end: TurnEnd::Interrupted,
        says: None,
    };
    let late = SessionCommand::RecordRead { launch, by: RecordSource::Hook, place: 0, what: end };
    assert_eq!(harness.try_apply(late), Err(SessionRejection::NothingNew));
    let before = RecordSignal::TurnStarted { turn: Some("b".to_owned()) };
    let read =
        SessionCommand::RecordRead { launch, by: RecordSource::Rollout, place: 20, what: before };
    assert_eq!(harness.try_apply(read), Err(SessionRejection::NothingNew), "that place was read");
}

#[test]
fn end_of_other_turn_is_ignored() {
    let mut harness = TestSession::running(terminal_spec());
    harness.begin_turn(10, "ours").end_turn(20, "hidden");
    assert_eq!(harness.state(), State::Working);
    harness.end_turn(30, "ours");
    assert_eq!(harness.state(), State::Idle);
}

#[test]
fn screen_signals_do_not_end_turn_or_reset_silence() {
    let mut harness = TestSession::running(terminal_spec());
    harness.begin_turn(10, "a");
    let shown =
        [ScreenHint::Finished, ScreenHint::AtPrompt, ScreenHint::Working, ScreenHint::Finished];
    for (place, what) in (20..).zip(shown) {
        harness.advance_clock(60_000).show(ScreenSource::Osc, place, what);
        assert_eq!(harness.state(), State::Working);
    }
    let (at, due) = harness.session.deadline().expect("the window runs");
    assert_eq!(due, provost_core::session::DeadlineKind::Silence(harness.launch()));
    assert_eq!(at, harness.now.mono_ms + 60_000, "it began with the turn");
}

#[test]
fn repeated_screen_signal_is_not_recorded() {
    let mut harness = TestSession::running(terminal_spec());
    harness.show(ScreenSource::Title, 10, ScreenHint::Working);
    let launch = harness.launch();
    let again =
        |place, what| SessionCommand::ScreenHinted { launch, by: ScreenSource::Title, place, what };
    assert_eq!(
        harness.try_apply(again(20, ScreenHint::Working)),
        Err(SessionRejection::NothingNew)
    );
    assert_eq!(
        harness.try_apply(again(10, ScreenHint::Finished)),
        Err(SessionRejection::NothingNew)
    );
    assert_eq!(harness.try_apply(again(30, ScreenHint::Finished)), Ok(()));
}

#[test]
fn hook_and_screen_approval_is_one_request() {
    let mut harness = TestSession::running(terminal_spec());
    harness.begin_turn(10, "a").record(20, RecordSignal::RequestOpened(approval()));
    harness.show(ScreenSource::Osc, 30, ScreenHint::ShowsRequest(approval()));
    assert_eq!((harness.state(), harness.session.requests.len()), (State::NeedsInput, 1));
    harness.show(ScreenSource::Osc, 40, ScreenHint::Working);
    assert_eq!(harness.session.requests[0].status, RequestStatus::AnsweredElsewhere);
    assert_eq!(harness.state(), State::Working);
}

#[test]
fn screen_does_not_settle_recorded_question() {
    let mut harness = TestSession::running(terminal_spec());
    let asked = AgentRequest { kind: RequestKind::Question, ..approval() };
    harness.begin_turn(10, "a").record(20, RecordSignal::RequestOpened(asked));
    harness.show(ScreenSource::Osc, 30, ScreenHint::Working).show(
        ScreenSource::Osc,
        40,
        ScreenHint::AtPrompt,
    );
    assert_eq!(harness.state(), State::NeedsInput);
    harness.record(50, RecordSignal::Continued);
    assert_eq!(harness.state(), State::Working);
}

#[test]
fn screen_dialog_needs_input_until_it_vanishes() {
    let mut harness = TestSession::running(terminal_spec());
    let dialog = AgentRequest { kind: RequestKind::Dialog, ..approval() };
    harness.show(ScreenSource::Screen, 10, ScreenHint::ShowsRequest(dialog));
    assert_eq!(harness.state(), State::NeedsInput);
    harness.show(ScreenSource::Screen, 20, ScreenHint::AtPrompt);
    assert_eq!(harness.state(), State::Idle);
}

#[test]
fn text_is_typed_at_an_empty_prompt_only() {
    let mut harness = TestSession::running(terminal_spec());
    harness.apply(send("one", "hello"));
    assert_eq!(input_blocked(&harness), Some(InputBlocked::NotAtPrompt));
    assert_eq!(pending_delivery(&harness), None);
    harness.begin_turn(10, "a").show(ScreenSource::Osc, 20, ScreenHint::AtPrompt);
    assert_eq!(
        input_blocked(&harness),
        Some(InputBlocked::TurnOpen),
        "a forged prompt unlocks nothing"
    );
    harness.end_turn(30, "a").show(ScreenSource::Screen, 40, ScreenHint::ShowsRequest(approval()));
    assert_eq!(input_blocked(&harness), Some(InputBlocked::RequestOpen));
    harness.show(ScreenSource::Screen, 50, ScreenHint::AtPrompt);
    let launch = harness.launch();
    harness.apply(SessionCommand::ViewersChanged { launch, people: 1 });
    assert_eq!(input_blocked(&harness), Some(InputBlocked::Attended));
    harness.apply(SessionCommand::ViewersChanged { launch, people: 0 });
    harness.apply(SessionCommand::ProcessSuspended { launch, suspended: true });
    assert_eq!(input_blocked(&harness), Some(InputBlocked::Suspended));
    harness.apply(SessionCommand::ProcessSuspended { launch, suspended: false });
    assert_eq!(
        (input_blocked(&harness), pending_delivery(&harness).as_deref()),
        (None, Some("one"))
    );
}

#[test]
fn instruction_is_typed_though_turn_is_expected() {
    let mut harness = TestSession::running(terminal_spec());
    harness.begin_turn(10, "a").end_turn(20, "a").show(
        ScreenSource::Screen,
        5,
        ScreenHint::AtPrompt,
    );
    harness.apply(SessionCommand::Report {
        from: Reporter::Operator,
        testimony: ReportBody::Claim { kind: ClaimKind::Completed, text: None },
    });
    harness.advance_clock(60_000);
    assert!(harness.session.attempt().is_sealed());
    harness.apply(send("next", "next instruction"));
    assert_eq!((harness.state(), harness.session.attempt().no), (State::Working, 2));
    assert_eq!(input_blocked(&harness), None, "no turn is open by its own record");
    assert_eq!(pending_delivery(&harness).as_deref(), Some("instruction-2"));
    harness.begin_turn(30, "b");
    harness.apply(send("more", "and more"));
    assert_eq!(input_blocked(&harness), Some(InputBlocked::TurnOpen));
    let (key, text) = ("other".to_owned(), "something else".to_owned());
    harness.apply(SessionCommand::Send { key, text, mode: SendMode::Supersede });
    assert_eq!(harness.session.attempt().no, 3);
    assert_eq!(
        input_blocked(&harness),
        Some(InputBlocked::TurnOpen),
        "the turn of before is still open"
    );
    harness.end_turn(40, "b");
    assert_eq!(input_blocked(&harness), None);
}

#[test]
fn rollout_not_hook_ends_a_turn() {
    let mut harness = TestSession::running(terminal_spec());
    let launch = harness.launch();
    let stop = |turn: &str| SessionCommand::RecordRead {
        launch,
        by: RecordSource::Hook,
        place: 0,
        what: RecordSignal::TurnEnded { turn: Some(turn.to_owned()), end: TurnEnd::Ok, says: None },
    };
    harness.begin_turn(10, "a");
    assert_eq!(harness.try_apply(stop("a")), Err(SessionRejection::NothingNew));
    assert_eq!(harness.state(), State::Working);
    harness.end_turn(20, "a");
    assert_eq!(harness.state(), State::Idle);
    // The oldest versions record no turns in the rollout; there, only the hook reports them.
    let mut old = TestSession::running(terminal_spec());
    let begin = RecordSignal::TurnStarted { turn: Some("a".to_owned()) };
    old.apply(SessionCommand::RecordRead { launch, by: RecordSource::Hook, place: 0, what: begin });
    old.apply(stop("a"));
    assert_eq!(old.state(), State::Idle);
}

#[test]
fn unchanged_screen_after_osc_idle_is_news() {
    let mut harness = TestSession::running(terminal_spec());
    harness.show(ScreenSource::Screen, 5, ScreenHint::AtPrompt).show(
        ScreenSource::Osc,
        7,
        ScreenHint::Finished,
    );
    harness.apply(send("k", "text"));
    assert_eq!(
        input_blocked(&harness),
        Some(InputBlocked::NotAtPrompt),
        "the screen was not read since"
    );
    harness.show(ScreenSource::Screen, 9, ScreenHint::AtPrompt);
    assert_eq!(input_blocked(&harness), None);
}

#[test]
fn unchanged_screen_after_osc_working_is_news() {
    let mut harness = TestSession::running(terminal_spec());
    harness.show(ScreenSource::Screen, 5, ScreenHint::AtPrompt).show(
        ScreenSource::Osc,
        7,
        ScreenHint::Working,
    );
    harness.apply(send("k", "text"));
    assert_eq!(input_blocked(&harness), Some(InputBlocked::NotAtPrompt));
    harness.show(ScreenSource::Screen, 9, ScreenHint::AtPrompt);
    assert_eq!(input_blocked(&harness), None);
    let launch = harness.launch();
    let again = SessionCommand::ScreenHinted {
        launch,
        by: ScreenSource::Screen,
        place: 11,
        what: ScreenHint::AtPrompt,
    };
    assert_eq!(
        harness.try_apply(again),
        Err(SessionRejection::NothingNew),
        "nothing was said between"
    );
}

#[test]
fn rollout_confirms_typed_text() {
    let mut harness = typed_hello();
    assert_eq!(
        *first_message_fate(&harness),
        DeliveryStatus::Queued,
        "it reached the terminal, not yet the agent"
    );
    assert_eq!(pending_delivery(&harness), None, "it is not typed twice");
    harness.record(20, RecordSignal::InputTaken { text: "something else".to_owned() });
    assert_eq!(*first_message_fate(&harness), DeliveryStatus::Queued);
    harness.record(30, RecordSignal::InputTaken { text: " hello \n".to_owned() });
    assert!(matches!(first_message_fate(&harness), DeliveryStatus::Delivered { .. }));
}

#[test]
fn unconfirmed_text_gets_one_enter_then_waits() {
    let mut harness = typed_hello();
    harness.advance_clock(2_999);
    assert_eq!(
        harness.session.input.messages[0].typed.map(|typed| typed.state),
        Some(TypingState::Typed)
    );
    harness.advance_clock(1);
    let (launch, message) = (harness.launch(), "one".to_owned());
    let press = SessionEffect::PressAgain { launch, message };
    assert!(harness.session.effects().contains(&press));
    harness.signal(StreamSignal::InputWritten { key: enter_retry_key("one") });
    assert!(!harness.session.effects().contains(&press));
    harness.advance_clock(3_000);
    assert_eq!(*first_message_fate(&harness), DeliveryStatus::Queued);
    assert!(harness.session.input.messages[0].unconfirmed_reason.is_some());
    assert_eq!(pending_delivery(&harness), None, "it may already be at the prompt");
}

#[test]
fn command_line_instruction_is_confirmed_late() {
    let instruction = Some("do it".to_owned());
    let mut harness = TestSession::running(SessionSpec { instruction, ..terminal_spec() });
    assert_eq!(pending_delivery(&harness), None);
    harness.advance_clock(60_000);
    assert_eq!(*first_message_fate(&harness), DeliveryStatus::Queued);
    harness.record(10, RecordSignal::InputTaken { text: "do it".to_owned() });
    assert!(matches!(first_message_fate(&harness), DeliveryStatus::Delivered { .. }));
}

#[test]
fn answer_is_typed_and_confirmed_by_next_screen() {
    let mut harness = TestSession::running(terminal_spec());
    harness.begin_turn(10, "a").show(
        ScreenSource::Screen,
        20,
        ScreenHint::ShowsRequest(approval()),
    );
    let request = harness.session.requests[0].id;
    harness.apply(SessionCommand::Answer {
        request,
        revision: 1,
        reply: RequestReply::Approve(ApprovalScope::Once),
    });
    let key = pending_delivery(&harness).expect("it is seen to ask");
    harness.signal(StreamSignal::InputWritten { key });
    harness.show(ScreenSource::Screen, 30, ScreenHint::Working);
    assert!(matches!(first_message_fate(&harness), DeliveryStatus::Delivered { .. }));
}

#[test]
fn answer_waits_until_request_is_drawn() {
    let mut harness = TestSession::running(terminal_spec());
    harness.begin_turn(10, "a").record(20, RecordSignal::RequestOpened(approval()));
    harness.show(ScreenSource::Osc, 30, ScreenHint::ShowsRequest(approval()));
    let request = harness.session.requests[0].id;
    harness.apply(SessionCommand::Answer {
        request,
        revision: 1,
        reply: RequestReply::Approve(ApprovalScope::Once),
    });
    assert_eq!(
        input_blocked(&harness),
        Some(InputBlocked::RequestNotShown),
        "a key would go elsewhere"
    );
    harness.show(ScreenSource::Screen, 40, ScreenHint::ShowsRequest(approval()));
    let key = pending_delivery(&harness).expect("it is drawn now");
    harness.signal(StreamSignal::InputWritten { key });
    harness.show(ScreenSource::Title, 50, ScreenHint::Working);
    assert_eq!(
        *first_message_fate(&harness),
        DeliveryStatus::Queued,
        "the title never showed a question"
    );
    harness.show(ScreenSource::Osc, 60, ScreenHint::Working);
    assert!(matches!(first_message_fate(&harness), DeliveryStatus::Delivered { .. }));
}

#[test]
fn interrupt_waits_for_undrawn_request() {
    let mut harness = TestSession::running(terminal_spec());
    harness.begin_turn(10, "a").record(20, RecordSignal::RequestOpened(approval()));
    let request = harness.session.open_requests().next().unwrap().id;
    harness.apply(SessionCommand::Interrupt { key: "leave".to_owned(), text: None });
    assert_eq!(pending_delivery(&harness), None);
    harness.apply(SessionCommand::Answer {
        request,
        revision: 1,
        reply: RequestReply::Approve(ApprovalScope::Once),
    });
    assert_eq!(pending_delivery(&harness), None, "neither the answer nor what would call it off");
    harness.show(ScreenSource::Screen, 5, ScreenHint::ShowsRequest(approval()));
    assert!(pending_delivery(&harness).is_some_and(|key| key.starts_with("answer")));
}

#[test]
fn late_turn_start_keeps_open_request() {
    let mut harness = TestSession::running(terminal_spec());
    harness.show(ScreenSource::Screen, 10, ScreenHint::ShowsRequest(approval()));
    assert_eq!(harness.state(), State::NeedsInput);
    harness.begin_turn(20, "a");
    assert_eq!(harness.state(), State::NeedsInput, "it is still on the screen");
    harness.show(ScreenSource::Screen, 30, ScreenHint::Working);
    assert_eq!(harness.state(), State::Working);
}

#[test]
fn stale_screen_does_not_settle_approval() {
    let mut harness = TestSession::running(terminal_spec());
    harness.begin_turn(10, "a").record(20, RecordSignal::RequestOpened(approval()));
    harness.show(ScreenSource::Osc, 30, ScreenHint::ShowsRequest(approval()));
    harness.show(ScreenSource::Screen, 40, ScreenHint::Working);
    assert_eq!(harness.state(), State::NeedsInput, "its question is yet to be drawn");
    harness.show(ScreenSource::Osc, 50, ScreenHint::Working);
    assert_eq!(harness.state(), State::Working);
}

#[test]
fn stale_screen_does_not_settle_inferred_request() {
    let mut harness = TestSession::running(terminal_spec());
    harness.begin_turn(10, "a").show(ScreenSource::Osc, 20, ScreenHint::ShowsRequest(approval()));
    harness.show(ScreenSource::Screen, 30, ScreenHint::Working);
    assert_eq!(harness.state(), State::NeedsInput, "its question is yet to be drawn");
    harness.show(ScreenSource::Screen, 40, ScreenHint::ShowsRequest(approval()));
    assert_eq!(harness.session.requests.len(), 1);
    harness.show(ScreenSource::Screen, 50, ScreenHint::Working);
    assert_eq!(harness.state(), State::Working);
}

#[test]
fn answer_overtakes_blocked_text() {
    let mut harness = TestSession::running(terminal_spec());
    harness.begin_turn(10, "a").show(
        ScreenSource::Screen,
        20,
        ScreenHint::ShowsRequest(approval()),
    );
    harness.apply(send("one", "hello"));
    assert_eq!(pending_delivery(&harness), None);
    let request = harness.session.requests[0].id;
    harness.apply(SessionCommand::Answer { request, revision: 1, reply: RequestReply::Deny });
    assert_eq!(pending_delivery(&harness).as_deref(), Some("answer-1-1"));
}

#[test]
fn unconfirmed_answer_gets_no_enter_retry() {
    let mut harness = TestSession::running(terminal_spec());
    harness.begin_turn(10, "a").show(
        ScreenSource::Screen,
        20,
        ScreenHint::ShowsRequest(approval()),
    );
    let request = harness.session.requests[0].id;
    harness.apply(SessionCommand::Answer { request, revision: 1, reply: RequestReply::Deny });
    let key = pending_delivery(&harness).expect("it is seen to ask");
    harness.signal(StreamSignal::InputWritten { key }).advance_clock(3_000);
    let presses = |effect: &SessionEffect| matches!(effect, SessionEffect::PressAgain { .. });
    assert!(!harness.session.effects().iter().any(presses));
    assert!(harness.session.input.messages[0].unconfirmed_reason.is_some());
}

#[test]
fn answer_to_undrawn_request_is_blocked() {
    let mut harness = TestSession::running(terminal_spec());
    harness.begin_turn(10, "a").record(20, RecordSignal::RequestOpened(approval()));
    let request = harness.session.requests[0].id;
    harness.apply(SessionCommand::Answer { request, revision: 1, reply: RequestReply::Deny });
    assert_eq!(input_blocked(&harness), Some(InputBlocked::RequestNotShown));
    assert_eq!(pending_delivery(&harness), None);
}

#[test]
fn suspended_process_is_not_stalled() {
    let mut harness = TestSession::running(terminal_spec());
    let launch = harness.launch();
    harness.begin_turn(10, "a").apply(SessionCommand::ProcessSuspended { launch, suspended: true });
    assert!(harness.has_flag(Flag::Suspended));
    assert_eq!(harness.session.deadline(), None, "nothing is expected of it");
    harness.apply(SessionCommand::ProcessSuspended { launch, suspended: false });
    assert!(!harness.has_flag(Flag::Suspended));
    assert!(harness.session.deadline().is_some());
}

#[test]
fn retrying_keeps_the_silence_window() {
    let mut harness = TestSession::running(terminal_spec());
    harness.begin_turn(10, "a").advance_clock(200_000);
    let detail = "Reconnecting".to_owned();
    harness.show(ScreenSource::Screen, 20, ScreenHint::Retrying { detail });
    assert!(harness.has_flag(Flag::Retrying));
    assert_eq!(harness.session.deadline().map(|(at, _)| at), Some(harness.now.mono_ms + 100_000));
}

#[test]
fn last_signal_of_each_source_is_kept() {
    let mut harness = TestSession::running(terminal_spec());
    harness.begin_turn(10, "a").show(ScreenSource::Title, 20, ScreenHint::Working);
    let watch = &harness.session.current_launch().expect("it runs").watch;
    let record = watch.records.get(&RecordSource::Rollout).expect("it spoke");
    assert_eq!((record.said, record.place), (SignalKind::TurnStarted, 10));
    let hint = watch.hints.get(&ScreenSource::Title).expect("it showed");
    assert_eq!((hint.said, hint.place), (SignalKind::Working, 20));
}

#[test]
fn screen_signal_after_exit_is_ignored() {
    let mut harness = TestSession::running(terminal_spec());
    harness
        .begin_turn(10, "a")
        .show(ScreenSource::Osc, 20, ScreenHint::Working)
        .end(ProcessExit::Signal(9));
    assert_eq!(harness.state(), State::Failed);
    let launch = harness.launch();
    let what = ScreenHint::AtPrompt;
    let late = SessionCommand::ScreenHinted { launch, by: ScreenSource::Osc, place: 30, what };
    assert_eq!(harness.try_apply(late), Err(SessionRejection::NothingNew));
}

#[test]
fn lasting_contradiction_is_shown_without_effect() {
    let mut harness = TestSession::running(terminal_spec());
    let launch = harness.launch();
    let started = RecordSignal::TurnStarted { turn: Some("u".to_owned()) };
    harness.apply(SessionCommand::RecordRead {
        launch,
        by: RecordSource::Rollout,
        place: 1,
        what: started,
    });
    let by = ScreenSource::Osc;
    harness.apply(SessionCommand::ScreenHinted { launch, by, place: 1, what: ScreenHint::Working });
    let found =
        |harness: &TestSession| harness.session.launches[0].contradiction(harness.now.mono_ms);
    harness.advance_clock(10_000);
    assert_eq!(found(&harness), None);
    harness.apply(SessionCommand::ScreenHinted {
        launch,
        by,
        place: 2,
        what: ScreenHint::AtPrompt,
    });
    harness.advance_clock(1_999);
    assert_eq!(found(&harness), None, "one source is often later than the other");
    harness.advance_clock(1);
    let contradiction = found(&harness).expect("it lasts");
    assert_eq!(
        (contradiction.shows, contradiction.by, contradiction.in_turn),
        (SignalKind::AtPrompt, by, true)
    );
    assert_eq!(harness.state(), State::Working);
    let ended =
        RecordSignal::TurnEnded { turn: Some("u".to_owned()), end: TurnEnd::Ok, says: None };
    harness.apply(SessionCommand::RecordRead {
        launch,
        by: RecordSource::Rollout,
        place: 2,
        what: ended,
    });
    assert_eq!(found(&harness), None);
    harness.apply(SessionCommand::ScreenHinted { launch, by, place: 3, what: ScreenHint::Working });
    harness.advance_clock(2_000);
    assert_eq!(found(&harness).map(|contradiction| contradiction.in_turn), Some(false));
    assert_eq!(harness.state(), State::Idle);
}
