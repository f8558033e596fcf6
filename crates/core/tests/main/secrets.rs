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
    let mut bench = TestSession::running(spec());
    bench.signal(StreamSignal::RequestOpened(question_request(secret)));
    let request = bench.session.requests[0].id;
    bench.apply(SessionCommand::Answer {
        request,
        revision: 1,
        reply: RequestReply::Text("hunter2".to_owned()),
    });
    bench
}

fn lose_answer(bench: &mut TestSession) -> RequestStatus {
    let key = bench.session.messages.last().expect("an answer was queued").key.clone();
    bench.apply(SessionCommand::MessageLost { key: key.clone(), reason: "gone".to_owned() });
    let again = SessionCommand::MessageLost { key, reason: "gone".to_owned() };
    assert!(bench.try_apply(again).is_err(), "a message is lost once");
    bench.session.requests[0].status
}

#[test]
fn secret_text_is_in_no_event() {
    for secret in [true, false] {
        let bench = answered(secret);
        let written = bench.log.iter().any(|(_, event)| event.encode().contains("hunter2"));
        assert_eq!(written, !secret);
        let message = bench.session.messages.last().unwrap();
        assert_eq!(bench.session.is_secret(message), secret);
    }
}

#[test]
fn lost_secret_is_asked_again_as_new_revision() {
    let mut bench = answered(true);
    assert_eq!(lose_answer(&mut bench), RequestStatus::Open);
    assert_eq!(bench.session.requests.len(), 1);
    assert_eq!(bench.session.requests[0].revision, 2);
    let request = bench.session.requests[0].id;
    let stale =
        SessionCommand::Answer { request, revision: 1, reply: RequestReply::Text("x".to_owned()) };
    assert!(bench.try_apply(stale).is_err());
    bench.apply(SessionCommand::Answer {
        request,
        revision: 2,
        reply: RequestReply::Text("x".to_owned()),
    });
    assert_eq!(bench.session.requests[0].status, RequestStatus::Answered);
}

#[test]
fn only_the_lost_secret_is_asked_again() {
    let mut bench = TestSession::running(spec());
    bench.signal(StreamSignal::RequestOpened(AgentRequest {
        native: "open".to_owned(),
        ..question_request(false)
    }));
    bench.signal(StreamSignal::RequestOpened(question_request(true)));
    let request = bench.session.requests[1].id;
    bench.apply(SessionCommand::Answer {
        request,
        revision: 1,
        reply: RequestReply::Text("hunter2".to_owned()),
    });
    let message = bench.session.messages.last().unwrap().clone();
    assert!(bench.session.is_secret(&message));
    bench.apply(SessionCommand::MessageLost { key: message.key, reason: "gone".to_owned() });
    let again: Vec<(u32, u32)> =
        bench.session.open_requests().map(|r| (r.id.no, r.revision)).collect();
    assert_eq!(again, [(1, 1), (2, 2)]);
}

#[test]
fn lost_plain_answer_is_not_asked_again() {
    assert_eq!(lose_answer(&mut answered(false)), RequestStatus::Answered);
}
