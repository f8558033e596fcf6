//! Tool calls: each is recorded once and answered once, and the answer is delivered to the waiting agent.

use provost_core::{
    session::{
        Afterwards, Command, Effect, End, MAX_ANSWER, MessageFate, MessageKind, Rejected, Signal,
        Spec,
    },
    task::Call,
};

use crate::kit::{Bench, OVER, spec};

fn call(native: &str) -> Signal {
    Signal::Called { native: native.to_owned(), call: Box::new(Call::Look {}) }
}

fn answer(no: u32, text: &str) -> Command {
    Command::AnswerCall { no, ok: true, text: text.to_owned() }
}

fn calling() -> Bench {
    let mut bench = Bench::running(Spec { afterwards: Afterwards::Park, ..spec() });
    bench.signal(Signal::InputSeen { key: "instruction-1".to_owned() });
    bench.signal(Signal::TurnStarted { turn: None }).signal(call("a"));
    bench
}

#[test]
fn a_call_is_open_until_it_is_answered_and_the_answer_is_owed_to_the_agent() {
    let mut bench = calling();
    assert_eq!(bench.session.calls.open().map(|open| open.no), Some(1));
    bench.tell(answer(1, "the result"));
    assert_eq!(bench.session.calls.open(), None);
    assert_eq!(bench.try_tell(answer(1, "or so")), Err(Rejected::Nothing), "once");
    let (launch, message) = (bench.launch(), "call-1".to_owned());
    assert!(bench.session.effects().contains(&Effect::Deliver { launch, message }));
    bench.signal(Signal::InputSeen { key: "call-1".to_owned() });
    let said = bench.session.messages.last().expect("it was said");
    assert_eq!(
        (said.kind, &said.fate),
        (MessageKind::Returned, &MessageFate::Delivered { launch })
    );
}

#[test]
fn a_call_that_is_told_again_is_none() {
    let mut bench = calling();
    bench.tell(answer(1, "the result"));
    let events = bench.log.len();
    assert_eq!(bench.try_signal(call("a")), Err(Rejected::Nothing));
    assert_eq!(bench.log.len(), events);
    bench.signal(call("b"));
    assert_eq!(bench.session.calls.open().map(|open| open.no), Some(2));
}

#[test]
fn a_call_beside_the_stream_is_answered_where_it_was_made() {
    let mut bench = calling();
    bench.tell(answer(1, "the result"));
    let (launch, native, call) = (bench.launch(), "m".to_owned(), Box::new(Call::Look {}));
    bench.tell(Command::Called { launch, native, call });
    bench.tell(answer(2, "the result"));
    assert!(bench.session.messages.iter().all(|message| message.key != "call-2"));
}

#[test]
fn an_answer_whose_caller_died_goes_to_the_process_that_follows() {
    let mut bench = Bench::running(spec());
    bench.signal(Signal::TurnStarted { turn: None });
    bench.signal(Signal::Asked(crate::kit::question("q"))).signal(call("a"));
    bench.tell(answer(1, "the result"));
    bench.end(End::Exit(0));
    let waits = |bench: &Bench| {
        let answer = bench.session.messages.iter().find(|one| one.key == "call-1");
        answer.is_some_and(|one| one.fate == MessageFate::Queued)
    };
    assert!(waits(&bench));
    let request = bench.session.requests[0].id;
    let reply = provost_core::request::Reply::Text("yes".to_owned());
    bench.tell(Command::Answer { request, revision: 1, reply });
    bench.start();
    assert!(waits(&bench), "the answer is delivered to the next process");
    let returned = bench.session.messages.iter().find_map(|one| one.returned.clone());
    assert_ne!(returned.map(|returned| returned.launch), Some(bench.launch()));
}

#[test]
fn a_call_of_a_process_that_works_no_longer_is_not_carried_out() {
    let mut bench = Bench::resumed();
    let first = provost_core::ids::LaunchId { no: 1, ..bench.launch() };
    let call = Box::new(Call::Look {});
    let late = Command::Called { launch: first, native: "a".to_owned(), call };
    assert_eq!(bench.try_tell(late), Err(Rejected::Nothing));
}

#[test]
fn a_parked_agent_that_calls_is_answered_though_its_attempt_is_sealed() {
    let mut bench = calling();
    bench.tell(answer(1, "the result")).signal(Signal::InputSeen { key: "call-1".to_owned() });
    bench.claim(provost_core::lifecycle::ClaimKind::Completed);
    bench.signal(OVER);
    bench.settle();
    assert!(bench.sealed());
    bench.signal(Signal::TurnStarted { turn: None }).signal(call("b"));
    bench.tell(answer(2, "the result"));
    let (launch, message) = (bench.launch(), "call-2".to_owned());
    assert!(bench.session.effects().contains(&Effect::Deliver { launch, message }));
}

#[test]
fn a_long_answer_is_clipped_at_the_stated_limit() {
    let mut bench = calling();
    bench.tell(answer(1, &"ä".repeat(MAX_ANSWER)));
    let said = bench.session.messages.last().expect("it is queued");
    assert!(
        said.text.len() <= MAX_ANSWER && said.text.ends_with("bytes in total)"),
        "{}",
        said.text.len()
    );
}
