//! Typing into terminals: which answer, in which order, how often, and when input is given up.

use provost_core::{
    request::{AgentRequest, ApprovalScope, RequestReply},
    session::{
        AgentInterface, AgentMessage, DeliveryStatus, InputBlocked, RecordSignal, RecordSource,
        ScreenHint, ScreenSource, SessionCommand, SessionEffect, SessionRejection, SessionSpec,
        StreamSignal, TurnEnd, TypingState, check_typeable, enter_retry_key, literal_text,
        pasteable_text,
    },
};

use crate::interfaces;
use crate::{
    input::kit::{
        WatchSignals, approval, first_message_fate, input_blocked, pending_delivery, send,
        terminal_spec, typed_hello,
    },
    kit::TestSession,
    rng::Rng,
    watched::SessionWatch,
};

pub(crate) fn approval_request(native: &str) -> AgentRequest {
    AgentRequest { native: native.to_owned(), ..approval() }
}

pub(crate) fn approve(harness: &mut TestSession, no: usize) {
    let (request, revision) =
        (harness.session.requests[no].id, harness.session.requests[no].revision);
    harness.apply(SessionCommand::Answer {
        request,
        revision,
        reply: RequestReply::Approve(ApprovalScope::Once),
    });
}

pub(crate) fn set_viewers(harness: &mut TestSession, people: u32) {
    let launch = harness.launch();
    harness.apply(SessionCommand::ViewersChanged { launch, people });
}

pub(crate) fn send_interrupt(harness: &mut TestSession) {
    harness.apply(SessionCommand::Interrupt { key: "leave".to_owned(), text: None });
}

pub(crate) fn presses(harness: &TestSession) -> bool {
    harness
        .session
        .effects()
        .iter()
        .any(|effect| matches!(effect, SessionEffect::PressAgain { .. }))
}

pub(crate) fn typing_state(harness: &TestSession) -> Option<TypingState> {
    harness.session.input.messages[0].typed.map(|typed| typed.state)
}

pub(crate) fn loss_reason(harness: &TestSession, no: usize) -> String {
    let fate = &harness.session.input.messages[no].status;
    let DeliveryStatus::Undeliverable { reason } = fate else { panic!("{fate:?}") };
    reason.clone()
}

#[test]
fn enter_is_not_pressed_into_a_new_request() {
    let mut harness = typed_hello();
    harness
        .show(ScreenSource::Screen, 20, ScreenHint::ShowsRequest(approval()))
        .advance_clock(3_000);
    assert_eq!(
        (presses(&harness), typing_state(&harness)),
        (false, Some(TypingState::Unconfirmed))
    );
    let mut harness = typed_hello();
    harness.advance_clock(3_000);
    assert!(presses(&harness));
    harness.show(ScreenSource::Screen, 20, ScreenHint::ShowsRequest(approval()));
    assert_eq!(
        (presses(&harness), typing_state(&harness)),
        (false, Some(TypingState::Unconfirmed)),
        "it is called off"
    );
}

#[test]
fn enter_is_not_retried_after_turn_or_viewer() {
    let mut harness = typed_hello();
    harness.advance_clock(10).begin_turn(20, "a").advance_clock(3_000);
    assert_eq!(
        (presses(&harness), typing_state(&harness)),
        (false, Some(TypingState::Unconfirmed))
    );
    let mut harness = typed_and_attended();
    harness.advance_clock(3_000);
    assert_eq!(
        (presses(&harness), typing_state(&harness)),
        (false, Some(TypingState::Unconfirmed))
    );
    let mut harness = typed_hello();
    harness
        .advance_clock(10)
        .begin_turn(20, "a")
        .advance_clock(10)
        .end_turn(30, "a")
        .advance_clock(3_000);
    assert!(!presses(&harness), "the turn that took it is over");
}

#[test]
fn user_draft_blocks_typing() {
    let mut harness = TestSession::running(terminal_spec());
    harness.show(ScreenSource::Osc, 10, ScreenHint::AtPrompt).show(
        ScreenSource::Screen,
        20,
        ScreenHint::UnsentText,
    );
    harness.apply(send("one", "hello"));
    assert_eq!(
        (input_blocked(&harness), pending_delivery(&harness)),
        (Some(InputBlocked::UnsentText), None)
    );
    harness.show(ScreenSource::Screen, 30, ScreenHint::AtPrompt);
    assert_eq!(
        (input_blocked(&harness), pending_delivery(&harness).as_deref()),
        (None, Some("one"))
    );
}

#[test]
fn undrawn_screen_blocks_typing() {
    let mut harness = TestSession::running(terminal_spec());
    harness
        .show(ScreenSource::Screen, 10, ScreenHint::Working)
        .begin_turn(20, "a")
        .end_turn(30, "a");
    harness.show(ScreenSource::Osc, 40, ScreenHint::AtPrompt).apply(send("one", "hello"));
    assert_eq!(input_blocked(&harness), Some(InputBlocked::NotAtPrompt));
    harness.show(ScreenSource::Screen, 50, ScreenHint::AtPrompt);
    assert_eq!(input_blocked(&harness), None);
}

#[test]
fn turn_possibly_by_user_is_not_a_compaction() {
    let compact = || SessionCommand::Compact { key: "compact".to_owned() };
    let ask_to_compact = |harness: &mut TestSession| {
        harness.show(ScreenSource::Osc, 10, ScreenHint::AtPrompt).apply(compact());
        harness.signal(StreamSignal::InputWritten { key: "compact".to_owned() }).advance_clock(10);
    };
    let mut harness = TestSession::running(terminal_spec());
    ask_to_compact(&mut harness);
    set_viewers(&mut harness, 1);
    harness.begin_turn(20, "a");
    assert!(harness.session.compacting().is_none());
    assert_eq!(harness.session.spending.turns, 1, "it is a turn of the work");
    harness.record(30, RecordSignal::Compacted);
    assert!(
        matches!(first_message_fate(&harness), DeliveryStatus::Delivered { .. }),
        "its record says so"
    );
    let mut harness = TestSession::running(terminal_spec());
    ask_to_compact(&mut harness);
    harness.begin_turn(20, "c");
    assert_eq!((harness.session.compacting().is_some(), harness.session.spending.turns), (true, 0));
}

/// "hello" was typed, and a viewer was attached afterwards.
fn typed_and_attended() -> TestSession {
    let mut harness = typed_hello();
    harness.advance_clock(10);
    set_viewers(&mut harness, 1);
    set_viewers(&mut harness, 0);
    harness.advance_clock(10);
    harness
}

#[test]
fn text_no_turn_took_is_lost_and_next_is_typed() {
    let mut harness = typed_hello();
    harness.apply(send("two", "and this"));
    harness.advance_clock(10).begin_turn(20, "a").advance_clock(10).end_turn(30, "a");
    assert!(loss_reason(&harness, 0).contains("transcript does not show it"));
    assert_eq!(pending_delivery(&harness).as_deref(), Some("two"));
}

#[test]
fn unconfirmed_text_is_lost_after_timeout() {
    let mut harness = typed_hello();
    harness.apply(send("two", "and this")).advance_clock(3_000);
    harness.signal(StreamSignal::InputWritten { key: enter_retry_key("one") }).advance_clock(3_000);
    assert_eq!(
        (first_message_fate(&harness), typing_state(&harness)),
        (&DeliveryStatus::Queued, Some(TypingState::Unconfirmed))
    );
    harness.advance_clock(29_999);
    assert_eq!(
        (first_message_fate(&harness), pending_delivery(&harness)),
        (&DeliveryStatus::Queued, None)
    );
    harness.advance_clock(1);
    assert!(loss_reason(&harness, 0).contains("transcript does not show it"));
    assert_eq!(pending_delivery(&harness).as_deref(), Some("two"));
}

#[test]
fn attended_text_is_lost_only_after_second_turn() {
    let mut harness = typed_and_attended();
    harness
        .begin_turn(20, "a")
        .advance_clock(10)
        .end_turn(30, "a")
        .advance_clock(10)
        .begin_turn(40, "b")
        .advance_clock(600_000);
    assert_eq!(
        (first_message_fate(&harness), typing_state(&harness)),
        (&DeliveryStatus::Queued, Some(TypingState::Unconfirmed))
    );
    harness.record(50, RecordSignal::InputTaken { text: "hello".to_owned() });
    assert!(matches!(first_message_fate(&harness), DeliveryStatus::Delivered { .. }));
    let mut harness = typed_and_attended();
    harness.begin_turn(20, "a").end_turn(30, "a").begin_turn(40, "b").end_turn(50, "b");
    assert!(matches!(first_message_fate(&harness), DeliveryStatus::Undeliverable { .. }));
}

#[test]
fn answer_and_interrupt_skip_unconfirmed_text() {
    let mut harness = typed_hello();
    harness.advance_clock(10).begin_turn(20, "a").advance_clock(3_000);
    assert_eq!(typing_state(&harness), Some(TypingState::Unconfirmed));
    harness.show(ScreenSource::Screen, 30, ScreenHint::ShowsRequest(approval()));
    approve(&mut harness, 0);
    let key = pending_delivery(&harness).expect("it is seen to ask");
    harness.signal(StreamSignal::InputWritten { key }).show(
        ScreenSource::Screen,
        40,
        ScreenHint::Working,
    );
    send_interrupt(&mut harness);
    assert_eq!(pending_delivery(&harness).as_deref(), Some("leave"));
}

#[test]
fn control_characters_are_ignored_when_confirming() {
    let mut harness = TestSession::running(terminal_spec());
    harness
        .show(ScreenSource::Osc, 10, ScreenHint::AtPrompt)
        .apply(send("one", "ring\u{7} the\r\nbell\u{9b}"));
    harness.signal(StreamSignal::InputWritten { key: "one".to_owned() });
    harness.record(20, RecordSignal::InputTaken { text: "ring the\nbell".to_owned() });
    assert!(matches!(first_message_fate(&harness), DeliveryStatus::Delivered { .. }));
}

#[test]
fn unconfirmed_instruction_times_out() {
    let spec = SessionSpec { instruction: Some("do it".to_owned()), ..terminal_spec() };
    let mut harness = TestSession::running(spec);
    harness.apply(send("two", "and this")).begin_turn(10, "a").end_turn(20, "a");
    harness.show(ScreenSource::Osc, 30, ScreenHint::AtPrompt).advance_clock(30_000);
    assert!(matches!(first_message_fate(&harness), DeliveryStatus::Undeliverable { .. }));
    assert_eq!(pending_delivery(&harness).as_deref(), Some("two"));
}

#[test]
fn message_during_start_is_typed() {
    let mut harness = TestSession::new(terminal_spec());
    harness.apply(SessionCommand::WorkPrepared { cwd: "/work".to_owned(), base: None });
    let launch = harness.launch();
    assert!(harness.has_effect(&SessionEffect::StartLaunch(launch)), "with what was said before");
    harness.apply(send("one", "hello"));
    harness.start();
    assert_eq!(harness.session.command_line_message(launch), None);
    harness.show(ScreenSource::Osc, 10, ScreenHint::AtPrompt);
    assert_eq!(pending_delivery(&harness).as_deref(), Some("one"));
}

#[test]
fn instruction_before_start_is_on_command_line() {
    let mut harness =
        TestSession::new(SessionSpec { instruction: Some("do it".to_owned()), ..terminal_spec() });
    harness.apply(SessionCommand::WorkPrepared { cwd: "/work".to_owned(), base: None });
    harness.apply(send("two", "and this"));
    harness.start();
    let given = harness.session.command_line_message(harness.launch()).expect("it is given");
    assert_eq!(
        (given.text.as_str(), given.typed.map(|t| t.state)),
        ("do it", Some(TypingState::CommandLine))
    );
    assert_eq!(input_blocked(&harness), Some(InputBlocked::EarlierInputUnconfirmed));
}

#[test]
fn composer_text_is_escaped_to_be_literal() {
    let literal = |text: &str| literal_text(interfaces::screen().composer(), text);
    assert_eq!(literal("/compact the file"), " /compact the file");
    assert_eq!(literal("look at @src"), "look at @src ");
    assert_eq!(literal("$HOME"), "$HOME ");
    assert_eq!(literal("mail a@b.c and /x"), "mail a@b.c and /x");
    assert_eq!(literal("@one\nis it"), "@one\nis it");
    assert_eq!(literal_text(AgentInterface::terminal_command().composer(), "/x @y"), "/x @y");
    assert_eq!(pasteable_text("a\x1b[201~\r\nb\rc\t"), "a[201~\nb\nc\t");
}

#[test]
fn shell_escape_or_empty_text_is_rejected() {
    for text in ["!rm -rf /", " \n!ls", "\u{7}!ls"] {
        assert_eq!(
            check_typeable(&interfaces::screen(), text),
            Err(SessionRejection::RunsAsShellCommand('!')),
            "{text:?}"
        );
        let mut harness = TestSession::running(terminal_spec());
        assert_eq!(
            harness.try_apply(send("one", text)),
            Err(SessionRejection::RunsAsShellCommand('!'))
        );
        harness.begin_turn(10, "a");
        let leave =
            SessionCommand::Interrupt { key: "leave".to_owned(), text: Some(text.to_owned()) };
        assert_eq!(harness.try_apply(leave), Err(SessionRejection::RunsAsShellCommand('!')));
    }
    assert_eq!(
        check_typeable(&interfaces::screen(), "\u{7}\n "),
        Err(SessionRejection::NothingToType)
    );
    assert_eq!(check_typeable(&AgentInterface::terminal_command(), "!ls"), Ok(()));
    assert_eq!(
        check_typeable(&interfaces::server(), "!ls"),
        Ok(()),
        "its protocol has no composer"
    );
    assert_eq!(check_typeable(&interfaces::screen(), "Run this: !ls"), Ok(()));
}

/// Returns a random event of a terminal session.
fn random_event(harness: &TestSession, rng: &mut Rng, place: u64) -> SessionCommand {
    let launch = harness.launch();
    let hinted = |by, what| SessionCommand::ScreenHinted { launch, by, place, what };
    let recorded = |by, what| SessionCommand::RecordRead { launch, by, place, what };
    let screen = rng.pick(&[ScreenSource::Osc, ScreenSource::Screen, ScreenSource::Screen]);
    let record = rng.pick(&[RecordSource::Hook, RecordSource::Rollout]);
    let turn = Some(format!("turn-{}", place / 8));
    match rng.below(20) {
        0..=2 => hinted(screen, ScreenHint::AtPrompt),
        3 => hinted(screen, ScreenHint::UnsentText),
        4 | 5 => hinted(screen, ScreenHint::ShowsRequest(approval())),
        6 | 7 => hinted(screen, ScreenHint::Working),
        8 => recorded(record, RecordSignal::TurnStarted { turn }),
        9 => recorded(record, RecordSignal::TurnEnded { turn: None, end: TurnEnd::Ok, says: None }),
        10 => recorded(
            record,
            RecordSignal::RequestOpened(approval_request(rng.pick(&["one", "two"]))),
        ),
        11 if rng.percent(50) => recorded(record, RecordSignal::Continued),
        12 if rng.percent(50) => {
            SessionCommand::ViewersChanged { launch, people: rng.below(2) as u32 }
        }
        13 => SessionCommand::Interrupt { key: format!("leave-{place}"), text: None },
        14 if rng.percent(20) => SessionCommand::Compact { key: format!("compact-{place}") },
        15 => send(&format!("send-{place}"), "hello"),
        _ => match harness.session.open_requests().last() {
            Some(open) if rng.percent(40) => {
                let reply =
                    rng.pick(&[RequestReply::Approve(ApprovalScope::Once), RequestReply::Deny]);
                SessionCommand::Answer { request: open.id, revision: open.revision, reply }
            }
            Some(_) | None => SessionCommand::Tick,
        },
    }
}

/// Lets the holder write the pending input, as its journal shows.
fn write_pending(harness: &mut TestSession) {
    let pressed = harness.session.effects().into_iter().find_map(|effect| {
        if let SessionEffect::PressAgain { message, .. } = effect {
            Some(enter_retry_key(&message))
        } else {
            None
        }
    });
    if let Some(key) = pressed.or_else(|| pending_delivery(harness)) {
        harness.signal(StreamSignal::InputWritten { key });
    }
}

#[test]
fn typing_laws_hold_in_random_order() {
    let mut seen = [0, 0, 0];
    for seed in 0..3_000 {
        let (mut rng, mut harness) = (Rng::new(seed), TestSession::running(terminal_spec()));
        let watch = SessionWatch::start(&harness.session);
        for step in 0..60 {
            let command = random_event(&harness, &mut rng, 10 + step);
            // Late or repeated commands are rejected, as they should be.
            harness.try_apply(command).ok();
            harness.advance_clock(rng.pick(&[0, 5, 5, 300, 3_000]));
            let settled = watch.check_settled(&harness.session, harness.now);
            assert_eq!(settled, Ok(()), "seed {seed}: {:#?}", harness.log);
            seen[0] += usize::from(pending_delivery(&harness).is_some());
            seen[1] += usize::from(presses(&harness));
            if rng.percent(60) {
                write_pending(&mut harness);
            }
        }
        let lost = |m: &&AgentMessage| matches!(m.status, DeliveryStatus::Undeliverable { .. });
        seen[2] += harness.session.input.messages.iter().filter(lost).count();
    }
    assert!(seen.iter().all(|times| *times > 300), "the stories are about nothing: {seen:?}");
}
