//! Answers to requests on a screen: which one is typed, and in which order with interrupts.

use super::typing::*;
use provost_core::{
    lifecycle::State,
    request::{AgentRequest, ApprovalScope, RequestKind, RequestReply, RequestStatus},
    session::{
        DeliveryStatus, Event, InputBlocked, InputEvent, ProcessExit, RecordSignal, RecordSource,
        ScreenHint, ScreenSource, SessionCommand, SessionRejection, StreamSignal, TurnEnd,
        TypingState,
    },
};

use crate::{
    input::kit::{
        WatchSignals, approval, first_message_fate, input_blocked, pending_delivery, send,
        terminal_spec,
    },
    kit::TestSession,
};

/// A session whose request was answered while a viewer is attached.
fn answered_while_attended() -> TestSession {
    let mut harness = TestSession::running(terminal_spec());
    harness.begin_turn(10, "a").record(20, RecordSignal::RequestOpened(approval_request("one")));
    harness.show(ScreenSource::Osc, 30, ScreenHint::ShowsRequest(approval()));
    harness.show(ScreenSource::Screen, 40, ScreenHint::ShowsRequest(approval()));
    set_viewers(&mut harness, 1);
    approve(&mut harness, 0);
    assert_eq!(
        (input_blocked(&harness), pending_delivery(&harness)),
        (Some(InputBlocked::Attended), None)
    );
    harness
}

#[test]
fn waiting_answer_is_lost_if_settled_at_screen() {
    let mut harness = answered_while_attended();
    harness.show(ScreenSource::Osc, 50, ScreenHint::Working);
    assert!(loss_reason(&harness, 0).contains("settled at the agent's screen"));
    harness.record(60, RecordSignal::RequestOpened(approval_request("two")));
    harness.show(ScreenSource::Osc, 70, ScreenHint::ShowsRequest(approval()));
    harness.show(ScreenSource::Screen, 80, ScreenHint::Working);
    harness.show(ScreenSource::Screen, 90, ScreenHint::ShowsRequest(approval()));
    set_viewers(&mut harness, 0);
    assert_eq!(pending_delivery(&harness), None, "the second was not answered");
    let request = harness.session.requests[0].id;
    let late = SessionCommand::Answer { request, revision: 1, reply: RequestReply::Deny };
    let refused = harness.try_apply(late).unwrap_err();
    assert!(refused.to_string().contains("settled at the agent's screen"), "{refused}");
}

#[test]
fn record_loses_waiting_answer_confirms_typed_one() {
    let mut harness = answered_while_attended();
    harness.record(50, RecordSignal::Continued);
    assert!(matches!(first_message_fate(&harness), DeliveryStatus::Undeliverable { .. }));
    let mut harness = answered_while_attended();
    set_viewers(&mut harness, 0);
    let key = pending_delivery(&harness).expect("it is seen to ask");
    harness.signal(StreamSignal::InputWritten { key }).advance_clock(3_000);
    assert_eq!(typing_state(&harness), Some(TypingState::Unconfirmed));
    harness.record(50, RecordSignal::Continued);
    assert!(matches!(first_message_fate(&harness), DeliveryStatus::Delivered { .. }));
}

#[test]
fn answer_is_typed_for_newest_request_only() {
    let mut harness = answered_while_attended();
    harness.record(50, RecordSignal::RequestOpened(approval_request("two")));
    set_viewers(&mut harness, 0);
    assert_eq!(pending_delivery(&harness), None);
    let launch = harness.session.current_launch().expect("it runs");
    let why = harness.session.input_blocked(launch, &harness.session.input.messages[0]);
    assert_eq!(why, Some(InputBlocked::OtherRequestOpen));
    approve(&mut harness, 1);
    assert_eq!(
        input_blocked(&harness),
        Some(InputBlocked::OtherRequestOpen),
        "it is unknown which of the two is shown"
    );
    harness.record(60, RecordSignal::Continued);
    assert!(!loss_reason(&harness, 0).is_empty() && !loss_reason(&harness, 1).is_empty());
}

#[test]
fn answer_to_revised_request_is_lost() {
    let mut harness = answered_while_attended();
    harness.record(50, RecordSignal::RequestOpened(approval_request("one")));
    assert_eq!(harness.session.requests[0].revision, 2);
    assert!(loss_reason(&harness, 0).contains("asked again"));
    approve(&mut harness, 0);
    set_viewers(&mut harness, 0);
    assert_eq!(pending_delivery(&harness).as_deref(), Some("answer-1-2"));
}

#[test]
fn early_policy_answer_does_not_duplicate_request() {
    let mut harness = TestSession::running(terminal_spec());
    harness.begin_turn(10, "a").record(20, RecordSignal::RequestOpened(approval()));
    approve(&mut harness, 0);
    harness.show(ScreenSource::Osc, 30, ScreenHint::ShowsRequest(approval()));
    harness.show(ScreenSource::Screen, 40, ScreenHint::ShowsRequest(approval()));
    assert_eq!(harness.session.requests.len(), 1);
    assert_eq!(pending_delivery(&harness).as_deref(), Some("answer-1-1"));
}

#[test]
fn answer_for_ended_process_is_lost() {
    let mut harness = answered_while_attended();
    harness.end(ProcessExit::Exit(0)).settle();
    assert!(loss_reason(&harness, 0).contains("ended"));
}

#[test]
fn terminal_questions_are_answered_at_screen_only() {
    for kind in [RequestKind::Dialog, RequestKind::Question] {
        let mut harness = TestSession::running(terminal_spec());
        harness.show(
            ScreenSource::Screen,
            10,
            ScreenHint::ShowsRequest(AgentRequest { kind, ..approval() }),
        );
        let request = harness.session.requests[0].id;
        let answers = RequestReply::Answers([("a".to_owned(), vec!["b".to_owned()])].into());
        for reply in [
            RequestReply::Text("1".to_owned()),
            answers,
            RequestReply::Deny,
            RequestReply::Approve(ApprovalScope::Once),
        ] {
            let refused = harness.try_apply(SessionCommand::Answer { request, revision: 1, reply });
            assert_eq!(refused, Err(SessionRejection::ScreenOnly(request)));
        }
        assert!(harness.session.input.messages.iter().all(|message| message.request.is_none()));
        assert_eq!(
            (harness.state(), harness.session.requests[0].status),
            (State::NeedsInput, RequestStatus::Open)
        );
    }
}

#[test]
fn request_of_ended_agent_is_not_at_a_screen() {
    let mut harness = TestSession::running(terminal_spec());
    let dialog = AgentRequest { kind: RequestKind::Dialog, ..approval() };
    harness.begin_turn(10, "a").record(20, RecordSignal::RequestOpened(dialog));
    harness.end(ProcessExit::Exit(0));
    let request = harness.session.requests[0].id;
    let deny = SessionCommand::Answer { request, revision: 1, reply: RequestReply::Deny };
    assert_eq!(harness.try_apply(deny), Err(SessionRejection::NotRunning));
    harness.apply(send("more", "go on"));
    assert_eq!(harness.session.launches.len(), 2, "what is said resumes it");
}

#[test]
fn interrupt_follows_the_pending_answer() {
    let mut harness = TestSession::running(terminal_spec());
    harness.begin_turn(10, "a").show(
        ScreenSource::Screen,
        20,
        ScreenHint::ShowsRequest(approval()),
    );
    send_interrupt(&mut harness);
    assert_eq!(pending_delivery(&harness), None, "the key would answer what it asks");
    approve(&mut harness, 0);
    assert_eq!(pending_delivery(&harness).as_deref(), Some("answer-1-1"));
    harness.signal(StreamSignal::InputWritten { key: "answer-1-1".to_owned() });
    assert_eq!(pending_delivery(&harness), None, "what was approved is not called off");
    harness.show(ScreenSource::Screen, 30, ScreenHint::Working);
    assert_eq!(pending_delivery(&harness).as_deref(), Some("leave"));
}

#[test]
fn interrupt_waits_only_for_later_approvals() {
    let hook = |harness: &mut TestSession, what| {
        let launch = harness.launch();
        harness.apply(SessionCommand::RecordRead {
            launch,
            by: RecordSource::Hook,
            place: 0,
            what,
        });
    };
    for approved_first in [false, true] {
        let mut harness = TestSession::running(terminal_spec());
        hook(&mut harness, RecordSignal::TurnStarted { turn: Some("a".to_owned()) });
        hook(&mut harness, RecordSignal::RequestOpened(approval()));
        harness.show(ScreenSource::Screen, 20, ScreenHint::ShowsRequest(approval()));
        if !approved_first {
            send_interrupt(&mut harness);
        }
        approve(&mut harness, 0);
        harness.signal(StreamSignal::InputWritten { key: "answer-1-1".to_owned() });
        harness.show(ScreenSource::Screen, 30, ScreenHint::Working);
        if approved_first {
            send_interrupt(&mut harness);
            assert_eq!(pending_delivery(&harness).as_deref(), Some("leave"));
            continue;
        }
        assert_eq!(pending_delivery(&harness), None, "it would call off what was approved");
        hook(&mut harness, RecordSignal::Continued);
        assert_eq!(pending_delivery(&harness).as_deref(), Some("leave"));
    }
}

#[test]
fn interrupt_waits_for_answer_until_it_is_lost() {
    let mut harness = answered_while_attended();
    send_interrupt(&mut harness);
    let launch = harness.session.current_launch().expect("it runs");
    let why = harness.session.input_blocked(launch, &harness.session.input.messages[1]);
    assert_eq!((why, pending_delivery(&harness)), (Some(InputBlocked::Attended), None));
    harness.show(ScreenSource::Osc, 50, ScreenHint::Working);
    set_viewers(&mut harness, 0);
    assert_eq!(pending_delivery(&harness).as_deref(), Some("leave"));
}

#[test]
fn protocol_interrupt_follows_the_answer() {
    let mut harness = TestSession::running(crate::kit::spec());
    harness.signal(StreamSignal::InputWritten { key: "instruction-1".to_owned() });
    harness.signal(StreamSignal::TurnStarted { turn: Some("u".to_owned()) });
    harness.signal(StreamSignal::RequestOpened(approval()));
    approve(&mut harness, 0);
    send_interrupt(&mut harness);
    assert_eq!(pending_delivery(&harness).as_deref(), Some("answer-1-1"));
    harness.signal(StreamSignal::InputWritten { key: "answer-1-1".to_owned() });
    assert_eq!(pending_delivery(&harness).as_deref(), Some("leave"));
}

#[test]
fn interrupted_turn_loses_untyped_answer() {
    let mut harness = answered_while_attended();
    let end = TurnEnd::Interrupted;
    harness.record(50, RecordSignal::TurnEnded { turn: Some("a".to_owned()), end, says: None });
    assert!(matches!(first_message_fate(&harness), DeliveryStatus::Undeliverable { .. }));
    assert_eq!(harness.session.requests[0].status, RequestStatus::Answered, "it left Open once");
    let lost = |event: &Event| matches!(event, Event::Input(InputEvent::MessageLost(_)));
    assert_eq!(harness.log.iter().filter(|(_, event)| lost(event)).count(), 1);
}
