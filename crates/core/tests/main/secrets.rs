//! Secret answers are never recorded, and are asked for again if they get lost in delivery.

use provost_core::{
    request::{
        AgentRequest, BlockingMode, RequestKind, RequestQuestion, RequestReply, RequestStatus,
    },
    session::{SessionCommand, StreamSignal},
};

use crate::kit::{TestSession, spec};

fn question_request(secret: bool) -> AgentRequest {
    let (id, text) = ("k".to_owned(), String::new());
    let question = RequestQuestion {
        id,
        header: text.clone(),
        question: text,
        options: Vec::new(),
        only_options: false,
        secret,
    };
    AgentRequest {
        native: "q".to_owned(),
        kind: RequestKind::Question,
        waiting: BlockingMode::Blocking,
        title: "Key?".to_owned(),
        questions: vec![question],
        subject: None,
    }
}

/// A session whose agent asked a question that was answered.
fn answered(secret: bool) -> TestSession {
    let mut harness = TestSession::running(spec());
    harness.signal(StreamSignal::RequestOpened(question_request(secret)));
    let request = harness.session.requests[0].id;
    harness.apply(SessionCommand::Answer {
        request,
        revision: 1,
        reply: RequestReply::Text("hunter2".to_owned()),
    });
    harness
}

fn lose_answer(harness: &mut TestSession) -> RequestStatus {
    let key = harness.session.input.messages.last().expect("an answer was queued").key.clone();
    harness.apply(SessionCommand::MessageLost { key: key.clone(), reason: "gone".to_owned() });
    let again = SessionCommand::MessageLost { key, reason: "gone".to_owned() };
    assert!(harness.try_apply(again).is_err(), "a message is lost once");
    harness.session.requests[0].status
}

#[test]
fn secret_text_is_in_no_event() {
    for secret in [true, false] {
        let harness = answered(secret);
        let written = harness.log.iter().any(|(_, event)| event.encode().contains("hunter2"));
        assert_eq!(written, !secret);
        let message = harness.session.input.messages.last().unwrap();
        assert_eq!(harness.session.is_secret(message), secret);
    }
}

#[test]
fn lost_secret_is_asked_again_as_new_revision() {
    let mut harness = answered(true);
    assert_eq!(lose_answer(&mut harness), RequestStatus::Open);
    assert_eq!(harness.session.requests.len(), 1);
    assert_eq!(harness.session.requests[0].revision, 2);
    let request = harness.session.requests[0].id;
    let stale =
        SessionCommand::Answer { request, revision: 1, reply: RequestReply::Text("x".to_owned()) };
    assert!(harness.try_apply(stale).is_err());
    harness.apply(SessionCommand::Answer {
        request,
        revision: 2,
        reply: RequestReply::Text("x".to_owned()),
    });
    assert_eq!(harness.session.requests[0].status, RequestStatus::Answered);
}

#[test]
fn only_the_lost_secret_is_asked_again() {
    let mut harness = TestSession::running(spec());
    harness.signal(StreamSignal::RequestOpened(AgentRequest {
        native: "open".to_owned(),
        ..question_request(false)
    }));
    harness.signal(StreamSignal::RequestOpened(question_request(true)));
    let request = harness.session.requests[1].id;
    harness.apply(SessionCommand::Answer {
        request,
        revision: 1,
        reply: RequestReply::Text("hunter2".to_owned()),
    });
    let message = harness.session.input.messages.last().unwrap().clone();
    assert!(harness.session.is_secret(&message));
    harness.apply(SessionCommand::MessageLost { key: message.key, reason: "gone".to_owned() });
    let again: Vec<(u32, u32)> =
        harness.session.open_requests().map(|r| (r.id.no, r.revision)).collect();
    assert_eq!(again, [(1, 1), (2, 2)]);
}

#[test]
fn lost_plain_answer_is_not_asked_again() {
    assert_eq!(lose_answer(&mut answered(false)), RequestStatus::Answered);
}
