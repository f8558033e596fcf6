//! Secret answers are never recorded, and are asked for again if they get lost in delivery.

use provost_core::{
    request::{Asked, Fate, Question, Reply, RequestKind, Waiting},
    session::{Command, Signal},
};

use crate::kit::{Bench, spec};

fn asked(secret: bool) -> Asked {
    let (id, text) = ("k".to_owned(), String::new());
    let question = Question {
        id,
        header: text.clone(),
        question: text,
        options: Vec::new(),
        only_options: false,
        secret,
    };
    Asked {
        native: "q".to_owned(),
        kind: RequestKind::Question,
        waiting: Waiting::Blocking,
        title: "Key?".to_owned(),
        questions: vec![question],
        subject: None,
    }
}

/// A session whose agent asked a question that was answered.
fn answered(secret: bool) -> Bench {
    let mut bench = Bench::running(spec());
    bench.signal(Signal::Asked(asked(secret)));
    let request = bench.session.requests[0].id;
    bench.tell(Command::Answer { request, revision: 1, reply: Reply::Text("hunter2".to_owned()) });
    bench
}

fn lose(bench: &mut Bench) -> Fate {
    let key = bench.session.messages.last().expect("an answer was queued").key.clone();
    bench.tell(Command::MessageLost { key: key.clone(), reason: "gone".to_owned() });
    let again = Command::MessageLost { key, reason: "gone".to_owned() };
    assert!(bench.try_tell(again).is_err(), "a message is lost once");
    bench.session.requests[0].fate
}

#[test]
fn the_text_of_a_secret_is_in_no_event() {
    for secret in [true, false] {
        let bench = answered(secret);
        let written = bench.log.iter().any(|(_, event)| event.encode().contains("hunter2"));
        assert_eq!(written, !secret);
        let message = bench.session.messages.last().unwrap();
        assert_eq!(bench.session.is_secret(message), secret);
    }
}

#[test]
fn a_lost_secret_is_asked_for_again_under_a_new_revision() {
    let mut bench = answered(true);
    assert_eq!(lose(&mut bench), Fate::Open);
    assert_eq!(bench.session.requests.len(), 1);
    assert_eq!(bench.session.requests[0].revision, 2);
    let request = bench.session.requests[0].id;
    let stale = Command::Answer { request, revision: 1, reply: Reply::Text("x".to_owned()) };
    assert!(bench.try_tell(stale).is_err());
    bench.tell(Command::Answer { request, revision: 2, reply: Reply::Text("x".to_owned()) });
    assert_eq!(bench.session.requests[0].fate, Fate::Answered);
}

#[test]
fn one_secret_among_several_questions_is_the_one_asked_for_again() {
    let mut bench = Bench::running(spec());
    bench.signal(Signal::Asked(Asked { native: "open".to_owned(), ..asked(false) }));
    bench.signal(Signal::Asked(asked(true)));
    let request = bench.session.requests[1].id;
    bench.tell(Command::Answer { request, revision: 1, reply: Reply::Text("hunter2".to_owned()) });
    let message = bench.session.messages.last().unwrap().clone();
    assert!(bench.session.is_secret(&message));
    bench.tell(Command::MessageLost { key: message.key, reason: "gone".to_owned() });
    let again: Vec<(u32, u32)> =
        bench.session.open_requests().map(|r| (r.id.no, r.revision)).collect();
    assert_eq!(again, [(1, 1), (2, 2)]);
}

#[test]
fn an_open_answer_that_was_lost_is_not_asked_for_again() {
    assert_eq!(lose(&mut answered(false)), Fate::Answered);
}
