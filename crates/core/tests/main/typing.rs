//! Typing into terminals: which answer, in which order, how often, and when input is given up.

use provost_core::{
    lifecycle::State,
    request::{AgentRequest, ApprovalScope, RequestKind, RequestReply, RequestStatus},
    session::{
        AgentInterface, AgentMessage, DeliveryStatus, Event, InputBlocked, ProcessExit,
        RecordSignal, RecordSource, ScreenHint, ScreenSource, SessionCommand, SessionEffect,
        SessionRejection, SessionSpec, StreamSignal, TurnEnd, TypingState, check_typeable,
        enter_retry_key, literal_text, pasteable_text,
    },
};

use crate::interfaces;
use crate::{
    kit::TestSession,
    rng::Rng,
    watched::SessionWatch,
    watching::{
        WatchSignals, approval, first_message_fate, input_blocked, pending_delivery, send,
        terminal_spec, typed_hello,
    },
};

fn approval_request(native: &str) -> AgentRequest {
    AgentRequest { native: native.to_owned(), ..approval() }
}

fn approve(bench: &mut TestSession, no: usize) {
    let (request, revision) = (bench.session.requests[no].id, bench.session.requests[no].revision);
    bench.apply(SessionCommand::Answer {
        request,
        revision,
        reply: RequestReply::Approve(ApprovalScope::Once),
    });
}

fn set_viewers(bench: &mut TestSession, people: u32) {
    let launch = bench.launch();
    bench.apply(SessionCommand::ViewersChanged { launch, people });
}

fn send_interrupt(bench: &mut TestSession) {
    bench.apply(SessionCommand::Interrupt { key: "leave".to_owned(), text: None });
}

fn presses(bench: &TestSession) -> bool {
    bench.session.effects().iter().any(|effect| matches!(effect, SessionEffect::PressAgain { .. }))
}

fn typing_state(bench: &TestSession) -> Option<TypingState> {
    bench.session.messages[0].typed.map(|typed| typed.state)
}

fn loss_reason(bench: &TestSession, no: usize) -> String {
    let fate = &bench.session.messages[no].status;
    let DeliveryStatus::Undeliverable { reason } = fate else { panic!("{fate:?}") };
    reason.clone()
}

/// A session whose request was answered while a viewer is attached.
fn answered_while_attended() -> TestSession {
    let mut bench = TestSession::running(terminal_spec());
    bench.begin_turn(10, "a").record(20, RecordSignal::RequestOpened(approval_request("one")));
    bench.show(ScreenSource::Osc, 30, ScreenHint::ShowsRequest(approval()));
    bench.show(ScreenSource::Screen, 40, ScreenHint::ShowsRequest(approval()));
    set_viewers(&mut bench, 1);
    approve(&mut bench, 0);
    assert_eq!(
        (input_blocked(&bench), pending_delivery(&bench)),
        (Some(InputBlocked::Attended), None)
    );
    bench
}

#[test]
fn waiting_answer_is_lost_if_settled_at_screen() {
    let mut bench = answered_while_attended();
    bench.show(ScreenSource::Osc, 50, ScreenHint::Working);
    assert!(loss_reason(&bench, 0).contains("settled at the agent's screen"));
    bench.record(60, RecordSignal::RequestOpened(approval_request("two")));
    bench.show(ScreenSource::Osc, 70, ScreenHint::ShowsRequest(approval()));
    bench.show(ScreenSource::Screen, 80, ScreenHint::Working);
    bench.show(ScreenSource::Screen, 90, ScreenHint::ShowsRequest(approval()));
    set_viewers(&mut bench, 0);
    assert_eq!(pending_delivery(&bench), None, "the second was not answered");
    let request = bench.session.requests[0].id;
    let late = SessionCommand::Answer { request, revision: 1, reply: RequestReply::Deny };
    let refused = bench.try_apply(late).unwrap_err();
    assert!(refused.to_string().contains("settled at the agent's screen"), "{refused}");
}

#[test]
fn record_loses_waiting_answer_confirms_typed_one() {
    let mut bench = answered_while_attended();
    bench.record(50, RecordSignal::Continued);
    assert!(matches!(first_message_fate(&bench), DeliveryStatus::Undeliverable { .. }));
    let mut bench = answered_while_attended();
    set_viewers(&mut bench, 0);
    let key = pending_delivery(&bench).expect("it is seen to ask");
    bench.signal(StreamSignal::InputWritten { key }).advance_clock(3_000);
    assert_eq!(typing_state(&bench), Some(TypingState::Unconfirmed));
    bench.record(50, RecordSignal::Continued);
    assert!(matches!(first_message_fate(&bench), DeliveryStatus::Delivered { .. }));
}

#[test]
fn answer_is_typed_for_newest_request_only() {
    let mut bench = answered_while_attended();
    bench.record(50, RecordSignal::RequestOpened(approval_request("two")));
    set_viewers(&mut bench, 0);
    assert_eq!(pending_delivery(&bench), None);
    let launch = bench.session.current_launch().expect("it runs");
    let why = bench.session.input_blocked(launch, &bench.session.messages[0]);
    assert_eq!(why, Some(InputBlocked::OtherRequestOpen));
    approve(&mut bench, 1);
    assert_eq!(
        input_blocked(&bench),
        Some(InputBlocked::OtherRequestOpen),
        "it is unknown which of the two is shown"
    );
    bench.record(60, RecordSignal::Continued);
    assert!(!loss_reason(&bench, 0).is_empty() && !loss_reason(&bench, 1).is_empty());
}

#[test]
fn answer_to_revised_request_is_lost() {
    let mut bench = answered_while_attended();
    bench.record(50, RecordSignal::RequestOpened(approval_request("one")));
    assert_eq!(bench.session.requests[0].revision, 2);
    assert!(loss_reason(&bench, 0).contains("asked again"));
    approve(&mut bench, 0);
    set_viewers(&mut bench, 0);
    assert_eq!(pending_delivery(&bench).as_deref(), Some("answer-1-2"));
}

#[test]
fn early_policy_answer_does_not_duplicate_request() {
    let mut bench = TestSession::running(terminal_spec());
    bench.begin_turn(10, "a").record(20, RecordSignal::RequestOpened(approval()));
    approve(&mut bench, 0);
    bench.show(ScreenSource::Osc, 30, ScreenHint::ShowsRequest(approval()));
    bench.show(ScreenSource::Screen, 40, ScreenHint::ShowsRequest(approval()));
    assert_eq!(bench.session.requests.len(), 1);
    assert_eq!(pending_delivery(&bench).as_deref(), Some("answer-1-1"));
}

#[test]
fn answer_for_ended_process_is_lost() {
    let mut bench = answered_while_attended();
    bench.end(ProcessExit::Exit(0)).settle();
    assert!(loss_reason(&bench, 0).contains("ended"));
}

#[test]
fn terminal_questions_are_answered_at_screen_only() {
    for kind in [RequestKind::Dialog, RequestKind::Question] {
        let mut bench = TestSession::running(terminal_spec());
        bench.show(
            ScreenSource::Screen,
            10,
            ScreenHint::ShowsRequest(AgentRequest { kind, ..approval() }),
        );
        let request = bench.session.requests[0].id;
        let answers = RequestReply::Answers([("a".to_owned(), vec!["b".to_owned()])].into());
        for reply in [
            RequestReply::Text("1".to_owned()),
            answers,
            RequestReply::Deny,
            RequestReply::Approve(ApprovalScope::Once),
        ] {
            let refused = bench.try_apply(SessionCommand::Answer { request, revision: 1, reply });
            assert_eq!(refused, Err(SessionRejection::ScreenOnly(request)));
        }
        assert!(bench.session.messages.iter().all(|message| message.request.is_none()));
        assert_eq!(
            (bench.state(), bench.session.requests[0].status),
            (State::NeedsInput, RequestStatus::Open)
        );
    }
}

#[test]
fn request_of_ended_agent_is_not_at_a_screen() {
    let mut bench = TestSession::running(terminal_spec());
    let dialog = AgentRequest { kind: RequestKind::Dialog, ..approval() };
    bench.begin_turn(10, "a").record(20, RecordSignal::RequestOpened(dialog));
    bench.end(ProcessExit::Exit(0));
    let request = bench.session.requests[0].id;
    let deny = SessionCommand::Answer { request, revision: 1, reply: RequestReply::Deny };
    assert_eq!(bench.try_apply(deny), Err(SessionRejection::NotRunning));
    bench.apply(send("more", "go on"));
    assert_eq!(bench.session.launches.len(), 2, "what is said resumes it");
}

#[test]
fn interrupt_follows_the_pending_answer() {
    let mut bench = TestSession::running(terminal_spec());
    bench.begin_turn(10, "a").show(ScreenSource::Screen, 20, ScreenHint::ShowsRequest(approval()));
    send_interrupt(&mut bench);
    assert_eq!(pending_delivery(&bench), None, "the key would answer what it asks");
    approve(&mut bench, 0);
    assert_eq!(pending_delivery(&bench).as_deref(), Some("answer-1-1"));
    bench.signal(StreamSignal::InputWritten { key: "answer-1-1".to_owned() });
    assert_eq!(pending_delivery(&bench), None, "what was approved is not called off");
    bench.show(ScreenSource::Screen, 30, ScreenHint::Working);
    assert_eq!(pending_delivery(&bench).as_deref(), Some("leave"));
}

#[test]
fn interrupt_waits_only_for_later_approvals() {
    let hook = |bench: &mut TestSession, what| {
        let launch = bench.launch();
        bench.apply(SessionCommand::RecordRead { launch, by: RecordSource::Hook, place: 0, what });
    };
    for approved_first in [false, true] {
        let mut bench = TestSession::running(terminal_spec());
        hook(&mut bench, RecordSignal::TurnStarted { turn: Some("a".to_owned()) });
        hook(&mut bench, RecordSignal::RequestOpened(approval()));
        bench.show(ScreenSource::Screen, 20, ScreenHint::ShowsRequest(approval()));
        if !approved_first {
            send_interrupt(&mut bench);
        }
        approve(&mut bench, 0);
        bench.signal(StreamSignal::InputWritten { key: "answer-1-1".to_owned() });
        bench.show(ScreenSource::Screen, 30, ScreenHint::Working);
        if approved_first {
            send_interrupt(&mut bench);
            assert_eq!(pending_delivery(&bench).as_deref(), Some("leave"));
            continue;
        }
        assert_eq!(pending_delivery(&bench), None, "it would call off what was approved");
        hook(&mut bench, RecordSignal::Continued);
        assert_eq!(pending_delivery(&bench).as_deref(), Some("leave"));
    }
}

#[test]
fn interrupt_waits_for_answer_until_it_is_lost() {
    let mut bench = answered_while_attended();
    send_interrupt(&mut bench);
    let launch = bench.session.current_launch().expect("it runs");
    let why = bench.session.input_blocked(launch, &bench.session.messages[1]);
    assert_eq!((why, pending_delivery(&bench)), (Some(InputBlocked::Attended), None));
    bench.show(ScreenSource::Osc, 50, ScreenHint::Working);
    set_viewers(&mut bench, 0);
    assert_eq!(pending_delivery(&bench).as_deref(), Some("leave"));
}

#[test]
fn protocol_interrupt_follows_the_answer() {
    let mut bench = TestSession::running(crate::kit::spec());
    bench.signal(StreamSignal::InputWritten { key: "instruction-1".to_owned() });
    bench.signal(StreamSignal::TurnStarted { turn: Some("u".to_owned()) });
    bench.signal(StreamSignal::RequestOpened(approval()));
    approve(&mut bench, 0);
    send_interrupt(&mut bench);
    assert_eq!(pending_delivery(&bench).as_deref(), Some("answer-1-1"));
    bench.signal(StreamSignal::InputWritten { key: "answer-1-1".to_owned() });
    assert_eq!(pending_delivery(&bench).as_deref(), Some("leave"));
}

#[test]
fn enter_is_not_pressed_into_a_new_request() {
    let mut bench = typed_hello();
    bench.show(ScreenSource::Screen, 20, ScreenHint::ShowsRequest(approval())).advance_clock(3_000);
    assert_eq!((presses(&bench), typing_state(&bench)), (false, Some(TypingState::Unconfirmed)));
    let mut bench = typed_hello();
    bench.advance_clock(3_000);
    assert!(presses(&bench));
    bench.show(ScreenSource::Screen, 20, ScreenHint::ShowsRequest(approval()));
    assert_eq!(
        (presses(&bench), typing_state(&bench)),
        (false, Some(TypingState::Unconfirmed)),
        "it is called off"
    );
}

#[test]
fn enter_is_not_retried_after_turn_or_viewer() {
    let mut bench = typed_hello();
    bench.advance_clock(10).begin_turn(20, "a").advance_clock(3_000);
    assert_eq!((presses(&bench), typing_state(&bench)), (false, Some(TypingState::Unconfirmed)));
    let mut bench = typed_and_attended();
    bench.advance_clock(3_000);
    assert_eq!((presses(&bench), typing_state(&bench)), (false, Some(TypingState::Unconfirmed)));
    let mut bench = typed_hello();
    bench
        .advance_clock(10)
        .begin_turn(20, "a")
        .advance_clock(10)
        .end_turn(30, "a")
        .advance_clock(3_000);
    assert!(!presses(&bench), "the turn that took it is over");
}

#[test]
fn user_draft_blocks_typing() {
    let mut bench = TestSession::running(terminal_spec());
    bench.show(ScreenSource::Osc, 10, ScreenHint::AtPrompt).show(
        ScreenSource::Screen,
        20,
        ScreenHint::UnsentText,
    );
    bench.apply(send("one", "hello"));
    assert_eq!(
        (input_blocked(&bench), pending_delivery(&bench)),
        (Some(InputBlocked::UnsentText), None)
    );
    bench.show(ScreenSource::Screen, 30, ScreenHint::AtPrompt);
    assert_eq!((input_blocked(&bench), pending_delivery(&bench).as_deref()), (None, Some("one")));
}

#[test]
fn undrawn_screen_blocks_typing() {
    let mut bench = TestSession::running(terminal_spec());
    bench.show(ScreenSource::Screen, 10, ScreenHint::Working).begin_turn(20, "a").end_turn(30, "a");
    bench.show(ScreenSource::Osc, 40, ScreenHint::AtPrompt).apply(send("one", "hello"));
    assert_eq!(input_blocked(&bench), Some(InputBlocked::NotAtPrompt));
    bench.show(ScreenSource::Screen, 50, ScreenHint::AtPrompt);
    assert_eq!(input_blocked(&bench), None);
}

#[test]
fn turn_possibly_by_user_is_not_a_compaction() {
    let compact = || SessionCommand::Compact { key: "compact".to_owned() };
    let told = |bench: &mut TestSession| {
        bench.show(ScreenSource::Osc, 10, ScreenHint::AtPrompt).apply(compact());
        bench.signal(StreamSignal::InputWritten { key: "compact".to_owned() }).advance_clock(10);
    };
    let mut bench = TestSession::running(terminal_spec());
    told(&mut bench);
    set_viewers(&mut bench, 1);
    bench.begin_turn(20, "a");
    assert!(bench.session.compacting().is_none());
    assert_eq!(bench.session.turns, 1, "it is a turn of the work");
    bench.record(30, RecordSignal::Compacted);
    assert!(
        matches!(first_message_fate(&bench), DeliveryStatus::Delivered { .. }),
        "its record says so"
    );
    let mut bench = TestSession::running(terminal_spec());
    told(&mut bench);
    bench.begin_turn(20, "c");
    assert_eq!((bench.session.compacting().is_some(), bench.session.turns), (true, 0));
}

/// "hello" was typed, and a viewer was attached afterwards.
fn typed_and_attended() -> TestSession {
    let mut bench = typed_hello();
    bench.advance_clock(10);
    set_viewers(&mut bench, 1);
    set_viewers(&mut bench, 0);
    bench.advance_clock(10);
    bench
}

#[test]
fn text_no_turn_took_is_lost_and_next_is_typed() {
    let mut bench = typed_hello();
    bench.apply(send("two", "and this"));
    bench.advance_clock(10).begin_turn(20, "a").advance_clock(10).end_turn(30, "a");
    assert!(loss_reason(&bench, 0).contains("transcript does not show it"));
    assert_eq!(pending_delivery(&bench).as_deref(), Some("two"));
}

#[test]
fn unconfirmed_text_is_lost_after_timeout() {
    let mut bench = typed_hello();
    bench.apply(send("two", "and this")).advance_clock(3_000);
    bench.signal(StreamSignal::InputWritten { key: enter_retry_key("one") }).advance_clock(3_000);
    assert_eq!(
        (first_message_fate(&bench), typing_state(&bench)),
        (&DeliveryStatus::Queued, Some(TypingState::Unconfirmed))
    );
    bench.advance_clock(29_999);
    assert_eq!(
        (first_message_fate(&bench), pending_delivery(&bench)),
        (&DeliveryStatus::Queued, None)
    );
    bench.advance_clock(1);
    assert!(loss_reason(&bench, 0).contains("transcript does not show it"));
    assert_eq!(pending_delivery(&bench).as_deref(), Some("two"));
}

#[test]
fn attended_text_is_lost_only_after_second_turn() {
    let mut bench = typed_and_attended();
    bench
        .begin_turn(20, "a")
        .advance_clock(10)
        .end_turn(30, "a")
        .advance_clock(10)
        .begin_turn(40, "b")
        .advance_clock(600_000);
    assert_eq!(
        (first_message_fate(&bench), typing_state(&bench)),
        (&DeliveryStatus::Queued, Some(TypingState::Unconfirmed))
    );
    bench.record(50, RecordSignal::InputTaken { text: "hello".to_owned() });
    assert!(matches!(first_message_fate(&bench), DeliveryStatus::Delivered { .. }));
    let mut bench = typed_and_attended();
    bench.begin_turn(20, "a").end_turn(30, "a").begin_turn(40, "b").end_turn(50, "b");
    assert!(matches!(first_message_fate(&bench), DeliveryStatus::Undeliverable { .. }));
}

#[test]
fn answer_and_interrupt_skip_unconfirmed_text() {
    let mut bench = typed_hello();
    bench.advance_clock(10).begin_turn(20, "a").advance_clock(3_000);
    assert_eq!(typing_state(&bench), Some(TypingState::Unconfirmed));
    bench.show(ScreenSource::Screen, 30, ScreenHint::ShowsRequest(approval()));
    approve(&mut bench, 0);
    let key = pending_delivery(&bench).expect("it is seen to ask");
    bench.signal(StreamSignal::InputWritten { key }).show(
        ScreenSource::Screen,
        40,
        ScreenHint::Working,
    );
    send_interrupt(&mut bench);
    assert_eq!(pending_delivery(&bench).as_deref(), Some("leave"));
}

#[test]
fn control_characters_are_ignored_when_confirming() {
    let mut bench = TestSession::running(terminal_spec());
    bench
        .show(ScreenSource::Osc, 10, ScreenHint::AtPrompt)
        .apply(send("one", "ring\u{7} the\r\nbell\u{9b}"));
    bench.signal(StreamSignal::InputWritten { key: "one".to_owned() });
    bench.record(20, RecordSignal::InputTaken { text: "ring the\nbell".to_owned() });
    assert!(matches!(first_message_fate(&bench), DeliveryStatus::Delivered { .. }));
}

#[test]
fn unconfirmed_instruction_times_out() {
    let spec = SessionSpec { instruction: Some("do it".to_owned()), ..terminal_spec() };
    let mut bench = TestSession::running(spec);
    bench.apply(send("two", "and this")).begin_turn(10, "a").end_turn(20, "a");
    bench.show(ScreenSource::Osc, 30, ScreenHint::AtPrompt).advance_clock(30_000);
    assert!(matches!(first_message_fate(&bench), DeliveryStatus::Undeliverable { .. }));
    assert_eq!(pending_delivery(&bench).as_deref(), Some("two"));
}

#[test]
fn message_during_start_is_typed() {
    let mut bench = TestSession::new(terminal_spec());
    bench.apply(SessionCommand::WorkPrepared { cwd: "/work".to_owned(), base: None });
    let launch = bench.launch();
    assert!(bench.has_effect(&SessionEffect::StartLaunch(launch)), "with what was said before");
    bench.apply(send("one", "hello"));
    bench.start();
    assert_eq!(bench.session.command_line_message(launch), None);
    bench.show(ScreenSource::Osc, 10, ScreenHint::AtPrompt);
    assert_eq!(pending_delivery(&bench).as_deref(), Some("one"));
}

#[test]
fn instruction_before_start_is_on_command_line() {
    let mut bench =
        TestSession::new(SessionSpec { instruction: Some("do it".to_owned()), ..terminal_spec() });
    bench.apply(SessionCommand::WorkPrepared { cwd: "/work".to_owned(), base: None });
    bench.apply(send("two", "and this"));
    bench.start();
    let given = bench.session.command_line_message(bench.launch()).expect("it is given");
    assert_eq!(
        (given.text.as_str(), given.typed.map(|t| t.state)),
        ("do it", Some(TypingState::CommandLine))
    );
    assert_eq!(input_blocked(&bench), Some(InputBlocked::EarlierInputUnconfirmed));
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
        let mut bench = TestSession::running(terminal_spec());
        assert_eq!(
            bench.try_apply(send("one", text)),
            Err(SessionRejection::RunsAsShellCommand('!'))
        );
        bench.begin_turn(10, "a");
        let leave =
            SessionCommand::Interrupt { key: "leave".to_owned(), text: Some(text.to_owned()) };
        assert_eq!(bench.try_apply(leave), Err(SessionRejection::RunsAsShellCommand('!')));
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

#[test]
fn interrupted_turn_loses_untyped_answer() {
    let mut bench = answered_while_attended();
    let end = TurnEnd::Interrupted;
    bench.record(50, RecordSignal::TurnEnded { turn: Some("a".to_owned()), end, says: None });
    assert!(matches!(first_message_fate(&bench), DeliveryStatus::Undeliverable { .. }));
    assert_eq!(bench.session.requests[0].status, RequestStatus::Answered, "it left Open once");
    let lost = |event: &Event| matches!(event, Event::MessageLost(_));
    assert_eq!(bench.log.iter().filter(|(_, event)| lost(event)).count(), 1);
}

/// Returns a random event of a terminal session.
fn random_event(bench: &TestSession, rng: &mut Rng, place: u64) -> SessionCommand {
    let launch = bench.launch();
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
        _ => match bench.session.open_requests().last() {
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
fn write_pending(bench: &mut TestSession) {
    let pressed = bench.session.effects().into_iter().find_map(|effect| {
        if let SessionEffect::PressAgain { message, .. } = effect {
            Some(enter_retry_key(&message))
        } else {
            None
        }
    });
    if let Some(key) = pressed.or_else(|| pending_delivery(bench)) {
        bench.signal(StreamSignal::InputWritten { key });
    }
}

#[test]
fn typing_laws_hold_in_random_order() {
    let mut seen = [0, 0, 0];
    for seed in 0..3_000 {
        let (mut rng, mut bench) = (Rng::new(seed), TestSession::running(terminal_spec()));
        let watch = SessionWatch::start(&bench.session);
        for step in 0..60 {
            let command = random_event(&bench, &mut rng, 10 + step);
            // Late or repeated commands are rejected, as they should be.
            bench.try_apply(command).ok();
            bench.advance_clock(rng.pick(&[0, 5, 5, 300, 3_000]));
            let told = watch.check_settled(&bench.session, bench.now);
            assert_eq!(told, Ok(()), "seed {seed}: {:#?}", bench.log);
            seen[0] += usize::from(pending_delivery(&bench).is_some());
            seen[1] += usize::from(presses(&bench));
            if rng.percent(60) {
                write_pending(&mut bench);
            }
        }
        let lost = |m: &&AgentMessage| matches!(m.status, DeliveryStatus::Undeliverable { .. });
        seen[2] += bench.session.messages.iter().filter(lost).count();
    }
    assert!(seen.iter().all(|times| *times > 300), "the stories are about nothing: {seen:?}");
}
