//! Push delivery to sessions that Provost drives: messages are pushed while they idle, and their events are reported.

use provost_core::{
    ids::SessionId,
    session::{self, Afterwards, Driver, End, Membership, MessageFate, SendMode, Signal, Spec},
    task::{Actor, Address, Command, Kind, MAX_OFFERS, Post, Role, Standing, Trust, Way},
};
use uuid::Uuid;

use super::kit::{A_REASON, Desk, lease_of, member, task_spec, template};
use crate::kit::{Bench, OVER, question, send, snapshot, spec};

/// A team with a worker's running session and a manager who pulls its messages.
fn working() -> (Desk, Bench) {
    let bench = Bench::running(Spec { afterwards: Afterwards::Park, ..spec() });
    let mut desk = Desk::open(task_spec());
    desk.bind("hand", Role::Worker, Some(bench.session.id));
    desk.bind("boss", Role::Manager, None);
    desk.done(&member("boss"), Command::AcknowledgeContract { revision: 0 });
    (desk, bench)
}

/// Syncs the session into the team and the team's commands back into the session.
fn meet(desk: &mut Desk, bench: &mut Bench) {
    desk.now = desk.now.max(bench.now.mono_ms);
    desk.sessions.insert(bench.session.id, bench.session.clone());
    desk.settle();
    bench.session = desk.sessions[&bench.session.id].clone();
    bench.advance();
    desk.sessions.insert(bench.session.id, bench.session.clone());
}

/// Ends the agent's turn and the turn that asks for its result.
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
    let Way::Push { session, key, .. } = &lease_of(desk.standing(no)).way else { panic!("a push") };
    assert_eq!(*session, bench.session.id);
    let sent = bench.session.messages.iter().find(|sent| sent.key == *key).expect("it is queued");
    assert!(sent.text.contains("the text of a"), "{}", sent.text);
}

#[test]
fn d5_a_session_that_is_being_stopped_is_given_nothing() {
    let (mut desk, mut bench) = working();
    bench.tell(session::Command::Stop).signal(OVER);
    let no = desk.post(&member("boss"), "hand", "a");
    meet(&mut desk, &mut bench);
    assert_eq!(*desk.standing(no), Standing::Stored, "it waits");
}

#[test]
fn a_session_that_the_operator_stopped_is_woken_by_no_message_until_it_goes_on() {
    let (mut desk, mut bench) = working();
    let before = desk.post(&member("boss"), "hand", "a");
    bench.tell(session::Command::Stop).signal(OVER).end(End::Signal(15)).settle();
    assert!(bench.sealed());
    let after = desk.post(&member("boss"), "hand", "b");
    meet(&mut desk, &mut bench);
    for no in [before, after] {
        assert_eq!(*desk.standing(no), Standing::Stored, "it waits");
    }
    let launches = bench.session.launches.len();
    bench.tell(send("go-on", SendMode::Continue));
    bench.start();
    bench.signal(Signal::InputSeen { key: "instruction-2".to_owned() });
    bench.signal(Signal::TurnStarted { turn: None });
    rest(&mut bench);
    meet(&mut desk, &mut bench);
    assert_eq!(bench.session.launches.len(), launches + 1);
    assert_eq!(desk.standing(before).word(), "offered");
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
    assert_eq!(*desk.standing(no), Standing::Acknowledged { by: "hand".to_owned(), lease: 1 });
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
    desk.handle("boss");
    bench.end(End::Signal(9));
    bench.settle();
    meet(&mut desk, &mut bench);
    let told: Vec<String> = news(&desk).into_iter().map(str::to_owned).collect();
    assert_eq!(told.len(), asked + 1, "{told:?}");
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
fn d3_a_message_that_never_reached_its_session_is_given_again_and_after_so_often_laid_aside() {
    let (mut desk, mut bench) = working();
    rest(&mut bench);
    let no = desk.post(&member("boss"), "hand", "a");
    let reason = "the agent's input was closed".to_owned();
    for offer in 1..=MAX_OFFERS {
        meet(&mut desk, &mut bench);
        let lease = lease_of(desk.standing(no)).clone();
        assert_eq!(lease.no, offer);
        let Way::Push { key, .. } = lease.way else { panic!("a push") };
        bench.tell(session::Command::MessageLost { key, reason: reason.clone() });
    }
    meet(&mut desk, &mut bench);
    assert_eq!(*desk.standing(no), Standing::Dead { reason });
}

#[test]
fn d3_a_message_that_waits_in_a_session_which_ends_is_its_next_instruction() {
    let (mut desk, mut bench) = working();
    rest(&mut bench);
    let no = desk.post(&member("boss"), "hand", "a");
    meet(&mut desk, &mut bench);
    bench.end(End::Exit(0));
    bench.settle();
    assert!(bench.sealed());
    meet(&mut desk, &mut bench);
    let Way::Push { key, .. } = lease_of(desk.standing(no)).way.clone() else { panic!("a push") };
    assert_eq!(key, "instruction-2");
}

#[test]
fn a_claimed_end_is_sealed_before_the_next_message_is_given() {
    let (mut desk, mut bench) = working();
    bench.claim(provost_core::lifecycle::ClaimKind::Completed);
    bench.signal(OVER);
    let no = desk.post(&member("boss"), "hand", "a");
    meet(&mut desk, &mut bench);
    assert_eq!(*desk.standing(no), Standing::Stored, "the claim is not about it");
    bench.settle();
    meet(&mut desk, &mut bench);
    assert_eq!(bench.session.attempt().no, 2);
}

/// An idle worker whose session was opened for the team.
fn member_at_rest() -> (Desk, Bench) {
    member_of(Driver::Jsonl)
}

fn member_of(driver: Driver) -> (Desk, Bench) {
    let mut as_member = Spec { afterwards: Afterwards::Park, ..spec() };
    as_member.agent.driver = driver;
    as_member.agent.settings.member = Some(Membership { role: Role::Worker });
    let mut bench = Bench::running(as_member);
    bench.signal(Signal::Ready { thread: Some("t".to_owned()) });
    bench.signal(Signal::InputSeen { key: "instruction-1".to_owned() });
    bench.signal(Signal::TurnStarted { turn: None }).signal(OVER);
    let mut desk = Desk::open(task_spec());
    desk.bind("hand", Role::Worker, Some(bench.session.id));
    desk.bind("boss", Role::Manager, None);
    desk.done(&member("boss"), Command::AcknowledgeContract { revision: 0 });
    (desk, bench)
}

#[test]
fn a_member_rests_for_as_long_as_nobody_needs_it() {
    let (mut desk, mut bench) = member_at_rest();
    for _ in 0..3 {
        bench.settle();
    }
    let state = bench.session.state();
    assert_eq!(state, provost_core::lifecycle::State::Idle, "it is not asked for a result");
    assert_eq!(bench.session.deadline(), None, "and nothing ends it");
    let no = desk.post(&member("boss"), "hand", "a");
    meet(&mut desk, &mut bench);
    assert_eq!(desk.standing(no).word(), "offered");
}

/// Posts two messages to a Codex worker and delivers the first.
fn given_the_first_of_two() -> (Desk, Bench, [u32; 2]) {
    let (mut desk, mut bench) = member_of(Driver::Codex);
    let both = ["a", "b"].map(|key| desk.post(&member("boss"), "hand", key));
    meet(&mut desk, &mut bench);
    let Way::Push { key, .. } = lease_of(desk.standing(both[0])).way.clone() else {
        panic!("a push")
    };
    bench.signal(Signal::InputSeen { key });
    meet(&mut desk, &mut bench);
    (desk, bench, both)
}

/// Codex merges a message into the expected turn if it arrives before that turn has begun.
#[test]
fn d5_a_message_is_not_given_before_the_turn_of_the_one_before_is_over_though_it_has_yet_to_begin()
{
    let (mut desk, mut bench, [first, second]) = given_the_first_of_two();
    let standing = |desk: &Desk| [first, second].map(|no| desk.standing(no).word());
    assert_eq!(standing(&desk), ["offered", "stored"], "its turn has yet to begin");
    bench.signal(Signal::TurnStarted { turn: Some("turn".to_owned()) });
    meet(&mut desk, &mut bench);
    assert_eq!(standing(&desk), ["acknowledged", "stored"], "it is at work");
    bench.signal(OVER);
    meet(&mut desk, &mut bench);
    assert_eq!(standing(&desk), ["acknowledged", "offered"]);
}

#[test]
fn d3_a_worker_that_dies_before_the_turn_of_its_message_begins_is_told_it_again() {
    let (mut desk, mut bench, [first, second]) = given_the_first_of_two();
    bench.end(End::Signal(9));
    meet(&mut desk, &mut bench);
    assert_eq!(bench.session.launches.len(), 2, "it has something to go on with");
    let told = bench.session.messages.last().expect("it gets a continuation message");
    assert!(told.text.contains("the text of a"), "{}", told.text);
    // The same holds if it dies again.
    bench.start();
    bench.end(End::Signal(9));
    let told = bench.session.messages.last().expect("it gets a continuation message");
    assert!(told.text.contains("the text of a"), "{}", told.text);
    bench.start();
    bench.signal(Signal::Ready { thread: Some("t".to_owned()) });
    meet(&mut desk, &mut bench);
    assert_eq!(desk.standing(first).word(), "offered", "no turn began with it yet");
    bench.signal(Signal::TurnStarted { turn: None });
    meet(&mut desk, &mut bench);
    assert_eq!(desk.standing(first).word(), "acknowledged");
    assert_eq!(desk.standing(second).word(), "stored");
}

/// D2, D3: a message that was only written to the pipe of an agent that then died is not handled.
#[test]
fn d3_what_no_process_began_with_comes_back_and_is_the_next_instruction() {
    let (mut desk, mut bench) = member_at_rest();
    let no = desk.post(&member("boss"), "hand", "a");
    meet(&mut desk, &mut bench);
    let Way::Push { key, .. } = lease_of(desk.standing(no)).way.clone() else { panic!("a push") };
    bench.signal(Signal::InputSeen { key });
    meet(&mut desk, &mut bench);
    assert_eq!(desk.standing(no).word(), "offered", "it was written, and no turn began");
    bench.end(End::Signal(9));
    bench.settle();
    assert!(bench.sealed());
    meet(&mut desk, &mut bench);
    let lease = lease_of(desk.standing(no)).clone();
    assert_eq!((bench.session.attempt().no, lease.no), (2, 2), "it is offered again");
    bench.start();
    let Way::Push { key, .. } = lease.way else { panic!("a push") };
    bench.signal(Signal::InputSeen { key });
    meet(&mut desk, &mut bench);
    assert_eq!(desk.standing(no).word(), "offered");
    bench.signal(Signal::TurnStarted { turn: None });
    meet(&mut desk, &mut bench);
    assert_eq!(desk.standing(no).word(), "acknowledged");
    assert!(desk.task.message(no).is_some_and(|message| message.redelivered));
}

#[test]
fn an_agent_that_tells_of_no_turns_has_what_was_written_to_it() {
    let (mut desk, mut bench) = working();
    bench.claim(provost_core::lifecycle::ClaimKind::Completed);
    bench.signal(OVER).end(End::Exit(0)).settle();
    let no = desk.post(&member("boss"), "hand", "a");
    meet(&mut desk, &mut bench);
    bench.start();
    bench.signal(Signal::InputSeen { key: "instruction-2".to_owned() });
    meet(&mut desk, &mut bench);
    assert_eq!(bench.session.turns, 0);
    assert_eq!(desk.standing(no).word(), "acknowledged");
}

#[test]
fn a_message_may_reach_a_turn_where_that_was_asked_for_and_no_other_does() {
    let (mut desk, mut bench) = member_at_rest();
    bench.signal(Signal::TurnStarted { turn: None });
    let waits = desk.post(&member("boss"), "hand", "a");
    meet(&mut desk, &mut bench);
    let Command::Post(post) = super::kit::post("hand", "b") else { panic!("a post") };
    desk.done(&member("boss"), Command::Post(Box::new(Post { steer: true, ..*post })));
    meet(&mut desk, &mut bench);
    let steered = desk.task.messages_stored;
    assert_eq!((desk.standing(waits).word(), desk.standing(steered).word()), ("stored", "offered"));
}

#[test]
fn a_lost_process_is_told_to_the_manager_once_and_a_member_at_rest_is_woken_by_its_next_message() {
    let (mut desk, mut bench) = member_at_rest();
    meet(&mut desk, &mut bench);
    desk.handle("boss");
    let before = news(&desk).len();
    bench.signal(Signal::TurnStarted { turn: None });
    bench.end(End::Signal(9));
    meet(&mut desk, &mut bench);
    meet(&mut desk, &mut bench);
    let told: Vec<&str> = news(&desk).into_iter().skip(before).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("its process was lost: it was killed by signal 9"), "{told:?}");
    bench.settle();
    let no = desk.post(&member("boss"), "hand", "a");
    meet(&mut desk, &mut bench);
    assert_eq!(bench.session.attempt().no, 2);
    assert_eq!(desk.standing(no).word(), "offered");
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

#[test]
fn a_push_that_is_confirmed_after_its_loop_ended_begins_nothing_of_the_next_one() {
    let (mut desk, mut bench) = working();
    rest(&mut bench);
    let begin = |desk: &mut Desk| {
        desk.begin_loop(template(3));
        for required in template(3).evidence {
            let (shown, _) = super::kit::fitting(&required.proof, "one");
            let name = required.name;
            desk.done(&Actor::Provost, Command::Show { iteration: 1, name, shown });
        }
    };
    begin(&mut desk);
    let no = desk.continues(2).expect("its evidence is there");
    meet(&mut desk, &mut bench);
    assert_eq!(desk.standing(no).word(), "offered");
    desk.done(&Actor::Operator, Command::StopLoop { because: A_REASON.to_owned() });
    begin(&mut desk);
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
    meet(&mut desk, &mut bench);
    assert_eq!(desk.standing(no).word(), "dead");
    assert_eq!(desk.task.looped.as_ref().map(|looped| looped.iteration), Some(1));
}
