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
    let mut bench = TestSession::running(SessionSpec { on_finish: OnFinish::Park, ..spec() });
    bench.signal(StreamSignal::InputWritten { key: "instruction-1".to_owned() });
    bench.signal(StreamSignal::TurnStarted { turn: None }).signal(call("a"));
    bench
}

#[test]
fn call_is_open_until_answered_then_delivered() {
    let mut bench = calling();
    assert_eq!(bench.session.calls.open().map(|open| open.no), Some(1));
    bench.apply(answer(1, "the result"));
    assert_eq!(bench.session.calls.open(), None);
    assert_eq!(bench.try_apply(answer(1, "or so")), Err(SessionRejection::NothingNew), "once");
    let (launch, message) = (bench.launch(), "call-1".to_owned());
    assert!(bench.session.effects().contains(&SessionEffect::Deliver { launch, message }));
    bench.signal(StreamSignal::InputWritten { key: "call-1".to_owned() });
    let said = bench.session.messages.last().expect("it was said");
    assert_eq!(
        (said.kind, &said.status),
        (AgentMessageKind::Returned, &DeliveryStatus::Delivered { launch })
    );
}

#[test]
fn repeated_call_is_ignored() {
    let mut bench = calling();
    bench.apply(answer(1, "the result"));
    let events = bench.log.len();
    assert_eq!(bench.try_signal(call("a")), Err(SessionRejection::NothingNew));
    assert_eq!(bench.log.len(), events);
    bench.signal(call("b"));
    assert_eq!(bench.session.calls.open().map(|open| open.no), Some(2));
}

#[test]
fn call_outside_stream_is_not_answered_on_stream() {
    let mut bench = calling();
    bench.apply(answer(1, "the result"));
    let (launch, native, call) = (bench.launch(), "m".to_owned(), Box::new(MemberCall::Status {}));
    bench.apply(SessionCommand::ToolCalled { launch, native, call });
    bench.apply(answer(2, "the result"));
    assert!(bench.session.messages.iter().all(|message| message.key != "call-2"));
}

#[test]
fn answer_for_dead_caller_goes_to_next_process() {
    let mut bench = TestSession::running(spec());
    bench.signal(StreamSignal::TurnStarted { turn: None });
    bench.signal(StreamSignal::RequestOpened(crate::kit::question("q"))).signal(call("a"));
    bench.apply(answer(1, "the result"));
    bench.end(ProcessExit::Exit(0));
    let waits = |bench: &TestSession| {
        let answer = bench.session.messages.iter().find(|one| one.key == "call-1");
        answer.is_some_and(|one| one.status == DeliveryStatus::Queued)
    };
    assert!(waits(&bench));
    let request = bench.session.requests[0].id;
    let reply = provost_core::request::RequestReply::Text("yes".to_owned());
    bench.apply(SessionCommand::Answer { request, revision: 1, reply });
    bench.start();
    assert!(waits(&bench), "the answer is delivered to the next process");
    let returned = bench.session.messages.iter().find_map(|one| one.returned.clone());
    assert_ne!(returned.map(|returned| returned.launch), Some(bench.launch()));
}

#[test]
fn call_from_ended_process_is_rejected() {
    let mut bench = TestSession::resumed();
    let first = provost_core::ids::LaunchId { no: 1, ..bench.launch() };
    let call = Box::new(MemberCall::Status {});
    let late = SessionCommand::ToolCalled { launch: first, native: "a".to_owned(), call };
    assert_eq!(bench.try_apply(late), Err(SessionRejection::NothingNew));
}

#[test]
fn parked_agent_call_after_seal_is_answered() {
    let mut bench = calling();
    bench
        .apply(answer(1, "the result"))
        .signal(StreamSignal::InputWritten { key: "call-1".to_owned() });
    bench.claim(provost_core::lifecycle::ClaimKind::Completed);
    bench.signal(TURN_ENDED_OK);
    bench.settle();
    assert!(bench.sealed());
    bench.signal(StreamSignal::TurnStarted { turn: None }).signal(call("b"));
    bench.apply(answer(2, "the result"));
    let (launch, message) = (bench.launch(), "call-2".to_owned());
    assert!(bench.session.effects().contains(&SessionEffect::Deliver { launch, message }));
}

#[test]
fn long_call_answer_is_truncated_at_limit() {
    let mut bench = calling();
    bench.apply(answer(1, &"ä".repeat(MAX_ANSWER)));
    let said = bench.session.messages.last().expect("it is queued");
    assert!(
        said.text.len() <= MAX_ANSWER && said.text.ends_with("bytes in total)"),
        "{}",
        said.text.len()
    );
}
