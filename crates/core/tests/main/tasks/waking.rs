//! Sessions that Provost drives: what is for them is given to them when they rest, and what happens to them is told.

use provost_core::{
    ids::SessionId,
    session::{self, Afterwards, End, MessageFate, Signal, Spec},
    task::{Actor, Address, Command, Kind, Role, Standing, Trust, Way},
};
use uuid::Uuid;

use super::kit::{A_REASON, Desk, lease_of, member, task_spec, template};
use crate::kit::{Bench, OVER, question, snapshot, spec};

/// A worker's session at work, and a desk whose worker it is, with a manager that asks for its messages.
fn working() -> (Desk, Bench) {
    let bench = Bench::running(Spec { afterwards: Afterwards::Park, ..spec() });
    let mut desk = Desk::open(task_spec());
    desk.bind("hand", Role::Worker, Some(bench.session.id));
    desk.bind("boss", Role::Manager, None);
    desk.done(&member("boss"), Command::AcknowledgeContract { revision: 0 });
    (desk, bench)
}

/// Lets the task see the session, and the session what the task said to it.
fn meet(desk: &mut Desk, bench: &mut Bench) {
    desk.now = desk.now.max(bench.now.mono_ms);
    desk.sessions.insert(bench.session.id, bench.session.clone());
    desk.settle();
    bench.session = desk.sessions[&bench.session.id].clone();
    bench.advance();
    desk.sessions.insert(bench.session.id, bench.session.clone());
}

/// The agent ends its turn, is asked for its result, and ends that turn too.
fn rest(bench: &mut Bench) {
    bench.signal(OVER).signal(OVER);
}

fn news(desk: &Desk) -> Vec<&str> {
    let to_boss = Address::Member("boss".to_owned());
    let all = desk.task.messages.iter().filter(|m| m.kind == Kind::News && m.to == to_boss);
    all.map(|message| message.text.as_str()).collect()
}

#[test]
fn nothing_is_said_into_a_turn_and_the_next_thing_when_it_is_over() {
    let (mut desk, mut bench) = working();
    bench.signal(Signal::TurnStarted { turn: None });
    let no = desk.post(&member("boss"), "hand", "a");
    meet(&mut desk, &mut bench);
    assert_eq!(*desk.standing(no), Standing::Stored);
    rest(&mut bench);
    meet(&mut desk, &mut bench);
    let Way::Push { session, key } = &lease_of(desk.standing(no)).way else { panic!("a push") };
    assert_eq!(*session, bench.session.id);
    let sent = bench.session.messages.iter().find(|sent| sent.key == *key).expect("it is queued");
    assert!(sent.text.contains("the text of a"), "{}", sent.text);
}

#[test]
fn d5_what_was_given_to_a_session_is_consumed_by_it_and_never_pulled_again() {
    let (mut desk, mut bench) = working();
    rest(&mut bench);
    let no = desk.post(&member("boss"), "hand", "a");
    let second = desk.post(&member("boss"), "hand", "b");
    meet(&mut desk, &mut bench);
    assert_eq!(desk.standing(no).word(), "offered");
    assert_eq!(*desk.standing(second), Standing::Stored, "one at a time");
    let Way::Push { key, .. } = lease_of(desk.standing(no)).way.clone() else { panic!("a push") };
    let unsent: Vec<String> = bench
        .session
        .messages
        .iter()
        .filter(|sent| sent.fate == MessageFate::Queued)
        .map(|sent| sent.key.clone())
        .collect();
    for key in unsent {
        bench.signal(Signal::InputSeen { key });
    }
    assert!(bench.session.messages.iter().any(|sent| sent.key == key));
    bench.signal(Signal::TurnStarted { turn: None });
    meet(&mut desk, &mut bench);
    assert_eq!(*desk.standing(no), Standing::Acknowledged { by: "hand".to_owned() });
    let pulled = Command::Next { consumer: "hand".to_owned() };
    let events = desk.done(&member("hand"), pulled);
    assert_eq!(events.iter().find_map(super::kit::offered).map(|(no, _)| no), Some(second));
}

#[test]
fn d6_the_end_of_a_turn_reaches_the_manager_once_without_anyone_asking() {
    let (mut desk, mut bench) = working();
    meet(&mut desk, &mut bench);
    let before = news(&desk).len();
    bench.signal(Signal::TurnStarted { turn: None });
    rest(&mut bench);
    meet(&mut desk, &mut bench);
    meet(&mut desk, &mut bench);
    assert_eq!(news(&desk).len(), before + 1);
    let message = desk.task.messages.iter().find(|message| message.kind == Kind::News);
    assert_eq!(message.map(|message| message.trust), Some(Trust::Claims));
}

#[test]
fn d6_a_question_and_an_end_are_told_each_once() {
    let (mut desk, mut bench) = working();
    bench.signal(Signal::TurnStarted { turn: None });
    bench.signal(Signal::Asked(question("q")));
    meet(&mut desk, &mut bench);
    let asked = news(&desk).len();
    assert_eq!(asked, 1);
    bench.end(End::Signal(9));
    bench.settle();
    meet(&mut desk, &mut bench);
    let told: Vec<String> = news(&desk).into_iter().map(str::to_owned).collect();
    assert!(told.len() > asked, "{told:?}");
    meet(&mut desk, &mut bench);
    assert_eq!(news(&desk).len(), told.len());
}

#[test]
fn a_session_that_ended_is_given_its_next_instruction() {
    let (mut desk, mut bench) = working();
    bench.claim(provost_core::lifecycle::ClaimKind::Completed);
    bench.signal(OVER).end(End::Exit(0));
    bench.settle();
    assert!(bench.sealed());
    let no = desk.post(&member("boss"), "hand", "a");
    meet(&mut desk, &mut bench);
    assert_eq!(bench.session.attempt().no, 2, "it began its next attempt");
    let Way::Push { key, .. } = &lease_of(desk.standing(no)).way else { panic!("a push") };
    assert_eq!(key, "instruction-2");
    assert!(bench.session.messages.iter().any(|sent| sent.key == *key));
}

#[test]
fn d3_a_message_whose_session_lost_it_is_laid_aside_and_shown() {
    let (mut desk, mut bench) = working();
    rest(&mut bench);
    let no = desk.post(&member("boss"), "hand", "a");
    meet(&mut desk, &mut bench);
    let Way::Push { key, .. } = lease_of(desk.standing(no)).way.clone() else { panic!("a push") };
    let reason = "the agent's input was closed".to_owned();
    bench.tell(session::Command::MessageLost { key, reason: reason.clone() });
    meet(&mut desk, &mut bench);
    assert_eq!(*desk.standing(no), Standing::Dead { reason });
}

#[test]
fn a_manager_that_provost_drives_is_woken() {
    let (mut desk, mut worker) = working();
    let mut manager = Bench::new(Spec { afterwards: Afterwards::Park, ..spec() });
    manager.session.id = SessionId(Uuid::from_u128(8));
    let base = Some(snapshot("old"));
    manager.tell(session::Command::WorkPrepared { cwd: "/work".to_owned(), base });
    manager.start();
    rest(&mut manager);
    desk.bind("second", Role::Manager, Some(manager.session.id));
    desk.sessions.insert(manager.session.id, manager.session.clone());
    worker.signal(Signal::TurnStarted { turn: None });
    rest(&mut worker);
    meet(&mut desk, &mut worker);
    let told = &desk.sessions[&manager.session.id].messages;
    assert!(told.iter().any(|sent| sent.text.contains("hand (worker)")), "{told:?}");
}

#[test]
fn a_gate_bars_what_is_pushed_as_well() {
    let (mut desk, mut bench) = working();
    rest(&mut bench);
    desk.begin_loop(template(3));
    let shows: Vec<_> = template(3).evidence;
    for required in &shows {
        let (shown, _) = super::kit::fitting(&required.proof, "one");
        let name = required.name.clone();
        desk.done(&Actor::Provost, Command::Show { iteration: 1, name, shown });
    }
    let no = desk.continues(2).expect("its evidence is there");
    desk.done(&Actor::Operator, Command::StopLoop { because: A_REASON.to_owned() });
    meet(&mut desk, &mut bench);
    assert_eq!(desk.standing(no).word(), "dead");
    assert!(bench.session.messages.iter().all(|sent| !sent.text.contains("go on")));
}
