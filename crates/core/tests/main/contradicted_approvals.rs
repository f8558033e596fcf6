//! Compares the outcome of an approved or denied item with the answer.

use provost_core::{
    lifecycle::Flag,
    request::{AgentRequest, ApprovalScope, RequestKind, RequestReply},
    session::{
        Event, ProcessExit, SendMode, SessionCommand, SessionRejection, StoppedBy, StreamSignal,
    },
};

use crate::kit::{TestSession, question, send, spec};

/// A session with an open approval request.
fn with_approval_request() -> TestSession {
    let mut bench = TestSession::running(spec());
    let asked = AgentRequest { kind: RequestKind::Approval, ..question("a") };
    bench
        .signal(StreamSignal::TurnStarted { turn: None })
        .signal(StreamSignal::RequestOpened(asked));
    bench
}

fn answered(reply: RequestReply) -> TestSession {
    let mut bench = with_approval_request();
    let request = bench.session.requests[0].id;
    bench.apply(SessionCommand::Answer { request, revision: 1, reply });
    bench.signal(StreamSignal::InputWritten { key: "answer-1-1".to_owned() });
    bench
}

fn item_finished(done: bool) -> StreamSignal {
    StreamSignal::ItemFinished { native: "a".to_owned(), done }
}

fn is_flagged(bench: &TestSession) -> bool {
    bench.has_flag(Flag::AnswerOverridden)
}

#[test]
fn outcome_contradicting_the_answer_is_flagged() {
    for (reply, done, flagged) in [
        (RequestReply::Deny, true, true),
        (RequestReply::Deny, false, false),
        (RequestReply::Approve(ApprovalScope::Once), false, true),
        (RequestReply::Approve(ApprovalScope::Session), true, false),
    ] {
        let mut bench = answered(reply.clone());
        let told = bench.try_signal(item_finished(done));
        assert_eq!(told.is_ok(), flagged, "{reply:?}, done: {done}");
        assert_eq!(is_flagged(&bench), flagged, "{reply:?}, done: {done}");
        let otherwise = bench.session.requests[0].contradicted_by_outcome;
        assert_eq!(otherwise, flagged.then_some(done), "{reply:?}, done: {done}");
    }
}

#[test]
fn contradiction_is_recorded_once_for_own_answers() {
    let nothing = Err(SessionRejection::NothingNew);
    let mut bench = with_approval_request();
    assert_eq!(bench.try_signal(item_finished(true)), nothing, "it was not answered here");
    let mut bench = answered(RequestReply::Deny);
    let another = StreamSignal::ItemFinished { native: "another".to_owned(), done: true };
    assert_eq!(bench.try_signal(another), nothing);
    assert_eq!(bench.try_signal(item_finished(true)), Ok(()));
    assert_eq!(bench.try_signal(item_finished(true)), nothing);
    let told = bench.log.iter().filter(|(_, e)| matches!(e, Event::RequestContradicted(_)));
    assert_eq!(told.count(), 1);
}

#[test]
fn contradiction_flag_does_not_reach_next_attempt() {
    let mut bench = answered(RequestReply::Deny);
    bench.signal(item_finished(true));
    assert!(is_flagged(&bench));
    bench.exit(ProcessExit::Exit(1), StoppedBy::Itself).settle();
    assert!(bench.sealed() && is_flagged(&bench));
    bench.apply(send("k", SendMode::Continue));
    assert!(!bench.sealed() && !is_flagged(&bench));
}
