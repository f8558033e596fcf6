//! Compares the outcome of an approved or denied item with the answer.

use provost_core::{
    lifecycle::Flag,
    request::{AgentRequest, ApprovalScope, RequestKind, RequestReply},
    session::{
        Event, ProcessExit, RequestEvent, SendMode, SessionCommand, SessionRejection, StoppedBy,
        StreamSignal,
    },
};

use crate::kit::{TestSession, question, send, spec};

/// A session with an open approval request.
fn with_approval_request() -> TestSession {
    let mut harness = TestSession::running(spec());
    let asked = AgentRequest { kind: RequestKind::Approval, ..question("a") };
    harness
        .signal(StreamSignal::TurnStarted { turn: None })
        .signal(StreamSignal::RequestOpened(asked));
    harness
}

fn answered(reply: RequestReply) -> TestSession {
    let mut harness = with_approval_request();
    let request = harness.session.requests[0].id;
    harness.apply(SessionCommand::Answer { request, revision: 1, reply });
    harness.signal(StreamSignal::InputWritten { key: "answer-1-1".to_owned() });
    harness
}

fn item_finished(done: bool) -> StreamSignal {
    StreamSignal::ItemFinished { native: "a".to_owned(), done }
}

fn is_flagged(harness: &TestSession) -> bool {
    harness.has_flag(Flag::AnswerOverridden)
}

#[test]
fn outcome_contradicting_the_answer_is_flagged() {
    for (reply, done, flagged) in [
        (RequestReply::Deny, true, true),
        (RequestReply::Deny, false, false),
        (RequestReply::Approve(ApprovalScope::Once), false, true),
        (RequestReply::Approve(ApprovalScope::Session), true, false),
    ] {
        let mut harness = answered(reply.clone());
        let result = harness.try_signal(item_finished(done));
        assert_eq!(result.is_ok(), flagged, "{reply:?}, done: {done}");
        assert_eq!(is_flagged(&harness), flagged, "{reply:?}, done: {done}");
        let otherwise = harness.session.requests[0].contradicted_by_outcome;
        assert_eq!(otherwise, flagged.then_some(done), "{reply:?}, done: {done}");
    }
}

#[test]
fn contradiction_is_recorded_once_for_own_answers() {
    let nothing = Err(SessionRejection::NothingNew);
    let mut harness = with_approval_request();
    assert_eq!(harness.try_signal(item_finished(true)), nothing, "it was not answered here");
    let mut harness = answered(RequestReply::Deny);
    let another = StreamSignal::ItemFinished { native: "another".to_owned(), done: true };
    assert_eq!(harness.try_signal(another), nothing);
    assert_eq!(harness.try_signal(item_finished(true)), Ok(()));
    assert_eq!(harness.try_signal(item_finished(true)), nothing);
    let contradictions = harness
        .log
        .iter()
        .filter(|(_, e)| matches!(e, Event::Request(RequestEvent::RequestContradicted(_))));
    assert_eq!(contradictions.count(), 1);
}

#[test]
fn contradiction_flag_does_not_reach_next_attempt() {
    let mut harness = answered(RequestReply::Deny);
    harness.signal(item_finished(true));
    assert!(is_flagged(&harness));
    harness.exit(ProcessExit::Exit(1), StoppedBy::Itself).settle();
    assert!(harness.sealed() && is_flagged(&harness));
    harness.apply(send("k", SendMode::Continue));
    assert!(!harness.sealed() && !is_flagged(&harness));
}
