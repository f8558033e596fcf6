//! How sessions and members receive messages, and onboarding of members bound in mid-conversation.

use insta::assert_snapshot;
use provost_core::{
    session::{
        Adopted, Afterwards, Driver, End, Input, Line, Membership, Pane, Receive, Signal, Spec,
    },
    task::{
        Actor, Address, Caller, Command, Communication, Kind, Message, Role, Standing, Trust, Via,
        handoff, heartbeat,
    },
};

use super::kit::{Desk, member, task_spec};
use crate::kit::{Bench, OVER, spec};

fn driven(driver: Driver) -> Spec {
    let mut spec = Spec { afterwards: Afterwards::Park, ..spec() };
    spec.agent.driver = driver;
    spec
}

fn adopted(pane: bool) -> Spec {
    let pane = pane.then(|| Pane { socket: "s".to_owned(), id: "%1".to_owned(), server: None });
    let adopted = Adopted { pane, thread: Some("t".to_owned()), ..Adopted::default() };
    Spec { adopted: Some(Box::new(adopted)), ..driven(Driver::CodexTerminal) }
}

fn of(bench: &Bench) -> (&'static str, &'static str, bool, bool) {
    let how = Communication::of_session(&bench.session);
    assert_eq!((how.receive_command.as_ref(), how.via, how.note()), (None, None, None));
    (how.kind(), how.receive.word(), how.can_push(), how.needs_wake())
}

#[test]
fn every_session_says_how_it_is_reached() {
    let mut listens = driven(Driver::Command);
    listens.agent.input = Input::Open;
    let all = [
        (driven(Driver::Codex), ("app_server", "turns", true, false)),
        (driven(Driver::Jsonl), ("json_lines", "turns", true, false)),
        (driven(Driver::CodexTerminal), ("terminal", "typed", true, false)),
        (driven(Driver::Terminal), ("terminal", "nothing", false, false)),
        (driven(Driver::CodexExec), ("once", "nothing", false, false)),
        (driven(Driver::Command), ("pipe", "nothing", false, false)),
        (listens, ("pipe", "written", true, false)),
        (adopted(true), ("pane", "typed", true, false)),
        (adopted(false), ("watched", "nothing", false, false)),
    ];
    for (spec, expected) in all {
        // The answer is known as soon as the session is opened.
        assert_eq!(of(&Bench::new(spec)), expected);
    }
}

#[test]
fn what_has_ended_takes_nothing_unless_it_can_be_gone_on_with() {
    let mut listens = driven(Driver::Command);
    listens.agent.input = Input::Open;
    for (spec, expected) in [(listens, Receive::Nothing), (driven(Driver::Jsonl), Receive::Turns)] {
        let mut bench = Bench::running(spec);
        bench.end(End::Exit(0));
        bench.settle();
        assert!(bench.sealed());
        assert_eq!(Communication::of_session(&bench.session).receive, expected);
    }
    let mut bench = Bench::running(driven(Driver::CodexExec));
    bench.signal(Signal::Ready { thread: Some("t".to_owned()) });
    bench.signal(OVER).end(End::Exit(0));
    bench.settle();
    assert_eq!(of(&bench), ("once", "turns", true, false));
}

/// A team with a manager and a worker whose existing session is bound now.
fn bound(mut bench: Bench) -> (Desk, Bench) {
    bench.signal(Signal::TurnStarted { turn: None }).signal(OVER).signal(OVER);
    let mut desk = Desk::open(task_spec());
    desk.now = bench.now.mono_ms;
    desk.sessions.insert(bench.session.id, bench.session.clone());
    desk.bind("hand", Role::Worker, Some(bench.session.id));
    desk.bind("boss", Role::Manager, None);
    desk.settle();
    (desk, bench)
}

fn told(desk: &Desk) -> Vec<&Message> {
    let to_hand = Address::Member("hand".to_owned());
    desk.task.messages.iter().filter(|message| message.to == to_hand).map(AsRef::as_ref).collect()
}

fn reached(desk: &Desk, name: &str) -> Communication {
    let member = desk.task.member(name).expect("it is bound");
    Communication::of_member(&desk.task, member, &Caller::default())
}

#[test]
fn a_member_without_a_session_asks_by_a_command_that_is_told() {
    let how = reached(&Desk::paired(), "hand");
    assert_eq!((how.kind(), how.receive), ("pull", Receive::Asks));
    assert_eq!((how.can_push(), how.needs_wake()), (false, true));
    let command = how.receive_command.expect("it asks");
    assert!(command.starts_with("provost inbox next --task 0"), "{command}");
    assert!(command.contains("--as hand"), "{command}");
}

#[test]
fn who_is_bound_in_the_middle_of_its_conversation_is_told_its_part_once_and_acts_by_commands() {
    let (mut desk, _) = bound(Bench::running(driven(Driver::CodexTerminal)));
    desk.settle();
    let [only] = told(&desk)[..] else { panic!("once: {:?}", told(&desk)) };
    assert_eq!((only.kind, only.trust), (Kind::Instruction, Trust::Instructs));
    assert_eq!(only.from, Actor::Provost);
    for part in ["limit how often each caller may call", "as a turn", "provost send --task"] {
        assert!(only.text.contains(part), "{part}: {}", only.text);
    }
    assert!(!only.text.contains("provost_task_"), "{}", only.text);
    let how = reached(&desk, "hand");
    assert_eq!((how.line, how.receive), (Some(Line::Terminal), Receive::Typed));
    assert_eq!((how.via, how.receive_command), (Some(Via::Late), None));
    assert!(how.via.is_some_and(|via| via.word() == "commands"));
    let given = handoff(&desk.task, "hand", &Caller::default()).expect("it is bound");
    assert_eq!((given.heartbeat, given.via), (None, Via::Late), "Provost wakes it");
    let beats = heartbeat(&desk.task, &Caller::default()).expect("the manager asks");
    assert_eq!(beats.worker, None);
}

#[test]
fn what_a_late_worker_is_told() {
    let mut late = driven(Driver::CodexTerminal);
    late.agent.input = Input::Closed;
    let (desk, _) = bound(Bench::running(late));
    assert_snapshot!(told(&desk)[0].text);
}

#[test]
fn an_agent_that_knows_the_tools_is_told_its_part_with_them() {
    let mut as_member = driven(Driver::Codex);
    as_member.agent.settings.member = Some(Membership { role: Role::Worker });
    for spec in [as_member, driven(Driver::Jsonl)] {
        let mut bench = Bench::running(spec);
        bench.signal(Signal::Ready { thread: Some("t".to_owned()) });
        let (desk, _) = bound(bench);
        assert_eq!(told(&desk).len(), 1, "it was there for something else");
        assert!(told(&desk)[0].text.contains("provost_task_send"));
        assert_eq!(reached(&desk, "hand").via, Some(Via::Tools));
    }
}

#[test]
fn who_is_started_for_the_task_begins_with_its_part() {
    let mut as_member = driven(Driver::Codex);
    as_member.agent.settings.member = Some(Membership { role: Role::Worker });
    let bench = Bench::new(as_member);
    let mut desk = Desk::open(task_spec());
    desk.sessions.insert(bench.session.id, bench.session.clone());
    desk.bind("hand", Role::Worker, Some(bench.session.id));
    desk.settle();
    assert_eq!(told(&desk), Vec::<&Message>::new());
    let how = reached(&desk, "hand");
    assert_eq!((how.kind(), how.receive), ("app_server", Receive::Turns));
    assert_eq!((how.via, how.note()), (Some(Via::Tools), None));
}

#[test]
fn whom_somebody_else_started_asks_though_it_has_a_session() {
    for pane in [true, false] {
        let bench = Bench::new(adopted(pane));
        let mut desk = Desk::open(task_spec());
        desk.sessions.insert(bench.session.id, bench.session.clone());
        desk.bind("hand", Role::Worker, Some(bench.session.id));
        desk.settle();
        assert_eq!(told(&desk), Vec::<&Message>::new(), "nothing is typed to it by the task");
        let how = reached(&desk, "hand");
        assert_eq!((how.receive, how.needs_wake()), (Receive::Asks, true));
        assert!(how.receive_command.is_some());
        assert_eq!(how.kind(), if pane { "pane" } else { "watched" });
        let given = handoff(&desk.task, "hand", &Caller::default()).expect("it is bound");
        assert!(given.heartbeat.is_some());
    }
}

#[test]
fn who_takes_a_place_is_told_what_is_handed_over_and_not_the_part_of_who_left() {
    let (mut desk, bench) = bound(Bench::running(driven(Driver::CodexTerminal)));
    let mut next = bench.session;
    next.id = provost_core::ids::SessionId(uuid::Uuid::from_u128(9));
    desk.sessions.insert(next.id, next.clone());
    let waits = told(&desk)[0].no;
    // The session has not received it yet.
    desk.alter_messages(|message| message.standing = Standing::Stored);
    let rotate = Command::Rotate {
        from: "hand".to_owned(),
        to: "next".to_owned(),
        session: Some(next.id),
        handover: "the tests are written, the limit is not".to_owned(),
    };
    desk.done(&Actor::Operator, rotate);
    desk.settle();
    assert_eq!(desk.standing(waits).word(), "cancelled");
    let to_next = Address::Member("next".to_owned());
    let for_next: Vec<&Message> = desk
        .task
        .messages
        .iter()
        .filter(|message| message.to == to_next)
        .map(AsRef::as_ref)
        .collect();
    assert_eq!(for_next.len(), 1, "{for_next:?}");
    assert!(for_next[0].text.contains("You are next"), "{}", for_next[0].text);
    assert!(for_next[0].text.contains("the limit is not"), "{}", for_next[0].text);
}

#[test]
fn nobody_else_can_seem_to_have_told_a_member_its_part() {
    let mut desk = Desk::paired();
    desk.post(&member("boss"), "hand", "handoff-hand");
    let hand = desk.task.member("hand").expect("it is bound");
    assert!(!hand.handed);
}
