//! Tool calls: each is recorded once and answered once, and the answer is delivered to the waiting agent.

use provost_core::{
    session::{
        AgentMessageKind, DeliveryStatus, MAX_ANSWER, OnFinish, ProcessExit, SessionCommand,
        SessionEffect, SessionRejection, SessionSpec, StreamSignal,
    },
    team::MemberCall,
};

use crate::kit::{TURN_ENDED_OK, TestSession, spec};

fn call(native: &str) -> StreamSignal {
    StreamSignal::ToolCalled { native: native.to_owned(), call: Box::new(MemberCall::Status {}) }
}

fn answer(no: u32, text: &str) -> SessionCommand {
    SessionCommand::AnswerCall { no, ok: true, text: text.to_owned() }
}

fn calling() -> TestSession {
    let mut harness = TestSession::running(SessionSpec { on_finish: OnFinish::Park, ..spec() });
    harness.signal(StreamSignal::InputWritten { key: "instruction-1".to_owned() });
    harness.signal(StreamSignal::TurnStarted { turn: None }).signal(call("a"));
    harness
}

#[test]
fn call_is_open_until_answered_then_delivered() {
    let mut harness = calling();
    assert_eq!(harness.session.calls.open().map(|open| open.no), Some(1));
    harness.apply(answer(1, "the result"));
    assert_eq!(harness.session.calls.open(), None);
    assert_eq!(harness.try_apply(answer(1, "or so")), Err(SessionRejection::NothingNew), "once");
    let (launch, message) = (harness.launch(), "call-1".to_owned());
    assert!(harness.session.effects().contains(&SessionEffect::Deliver { launch, message }));
    harness.signal(StreamSignal::InputWritten { key: "call-1".to_owned() });
    let reply = harness.session.input.messages.last().expect("it was said");
    assert_eq!(
        (reply.kind, &reply.status),
        (AgentMessageKind::Returned, &DeliveryStatus::Delivered { launch })
    );
}

#[test]
fn repeated_call_is_ignored() {
    let mut harness = calling();
    harness.apply(answer(1, "the result"));
    let events = harness.log.len();
    assert_eq!(harness.try_signal(call("a")), Err(SessionRejection::NothingNew));
    assert_eq!(harness.log.len(), events);
    harness.signal(call("b"));
    assert_eq!(harness.session.calls.open().map(|open| open.no), Some(2));
}

#[test]
fn call_outside_stream_is_not_answered_on_stream() {
    let mut harness = calling();
    harness.apply(answer(1, "the result"));
    let (launch, native, call) =
        (harness.launch(), "m".to_owned(), Box::new(MemberCall::Status {}));
    harness.apply(SessionCommand::ToolCalled { launch, native, call });
    harness.apply(answer(2, "the result"));
    assert!(harness.session.input.messages.iter().all(|message| message.key != "call-2"));
}

#[test]
fn answer_for_dead_caller_goes_to_next_process() {
    let mut harness = TestSession::running(spec());
    harness.signal(StreamSignal::TurnStarted { turn: None });
    harness.signal(StreamSignal::RequestOpened(crate::kit::question("q"))).signal(call("a"));
    harness.apply(answer(1, "the result"));
    harness.end(ProcessExit::Exit(0));
    let waits = |harness: &TestSession| {
        let answer = harness.session.input.messages.iter().find(|one| one.key == "call-1");
        answer.is_some_and(|one| one.status == DeliveryStatus::Queued)
    };
    assert!(waits(&harness));
    let request = harness.session.requests[0].id;
    let reply = provost_core::request::RequestReply::Text("yes".to_owned());
    harness.apply(SessionCommand::Answer { request, revision: 1, reply });
    harness.start();
    assert!(waits(&harness), "the answer is delivered to the next process");
    let returned = harness.session.input.messages.iter().find_map(|one| one.returned.clone());
    assert_ne!(returned.map(|returned| returned.launch), Some(harness.launch()));
}

#[test]
fn call_from_ended_process_is_rejected() {
    let mut harness = TestSession::resumed();
    let first = provost_core::ids::LaunchId { no: 1, ..harness.launch() };
    let call = Box::new(MemberCall::Status {});
    let late = SessionCommand::ToolCalled { launch: first, native: "a".to_owned(), call };
    assert_eq!(harness.try_apply(late), Err(SessionRejection::NothingNew));
}

#[test]
fn parked_agent_call_after_seal_is_answered() {
    let mut harness = calling();
    harness
        .apply(answer(1, "the result"))
        .signal(StreamSignal::InputWritten { key: "call-1".to_owned() });
    harness.claim(provost_core::lifecycle::ClaimKind::Completed);
    harness.signal(TURN_ENDED_OK);
    harness.settle();
    assert!(harness.sealed());
    harness.signal(StreamSignal::TurnStarted { turn: None }).signal(call("b"));
    harness.apply(answer(2, "the result"));
    let (launch, message) = (harness.launch(), "call-2".to_owned());
    assert!(harness.session.effects().contains(&SessionEffect::Deliver { launch, message }));
}

#[test]
fn long_call_answer_is_truncated_at_limit() {
    let mut harness = calling();
    harness.apply(answer(1, &"ä".repeat(MAX_ANSWER)));
    let reply = harness.session.input.messages.last().expect("it is queued");
    assert!(
        reply.text.len() <= MAX_ANSWER && reply.text.ends_with("bytes in total)"),
        "{}",
        reply.text.len()
    );
}
