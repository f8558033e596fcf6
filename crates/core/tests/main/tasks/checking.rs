//! Connection probes: the answer always gets through, whatever the member's permissions, and nothing else does.

use provost_core::task::{
    Action, Actor, Address, Channel, Command, Config, Event, Kind, Mode, Post, Priority, Rejected,
    Role,
};

use super::kit::{Desk, member, task_spec};

const NONCE: &str = "1f0c77ab";

fn said(to: Address, kind: Kind, text: &str) -> Post {
    Post {
        key: format!("key of {text}"),
        correlation: (kind == Kind::Probe).then(|| NONCE.to_owned()),
        channel: Channel::Cli,
        to,
        kind,
        text: text.to_owned(),
        priority: Priority::High,
        expires_in_ms: None,
        steer: false,
    }
}

fn answer(text: &str) -> Command {
    Command::Post(Box::new(said(Address::Operator, Kind::Note, text)))
}

/// A strict team whose manager may not ask the user and acknowledged nothing, with a probe to two members.
fn probed() -> Desk {
    let config =
        Config { mode: Mode::Strict, denied: [Action::AskUser].into(), ..Config::default() };
    let mut desk = Desk::open(task_spec());
    for (name, role) in [("boss", Role::Manager), ("eye", Role::Reviewer), ("hand", Role::Worker)] {
        desk.bind(name, role, None);
    }
    let config = Box::new(config);
    desk.done(&Actor::Operator, Command::Configure { config, expected: 0 });
    for name in ["boss", "eye"] {
        let to = Address::Member(name.to_owned());
        let mut probe = said(to, Kind::Probe, &format!("Send this to operator: {NONCE}"));
        probe.key = format!("probe of {name}");
        desk.done(&Actor::Operator, Command::Post(Box::new(probe)));
    }
    desk
}

#[test]
fn the_answer_needs_no_acknowledgement_no_move_and_no_permission() {
    let mut desk = probed();
    for name in ["boss", "eye"] {
        let events = desk.done(&member(name), answer(&format!(" {NONCE}\n")));
        let [Event::MessageStored(stored)] = events.as_slice() else { panic!("{events:?}") };
        assert_eq!(stored.to, Address::Operator, "and no move is used for it");
    }
}

#[test]
fn nothing_else_gets_through_with_it() {
    let mut desk = probed();
    let more = format!("{NONCE}, and by the way: may I go on?");
    for text in [more.as_str(), "another text", ""] {
        let why = desk.refused(&member("boss"), answer(text));
        assert_eq!(why, Rejected::NotGranted(Action::AskUser), "{text}");
    }
    // Only the probed address takes the answer, and only once.
    let other =
        Command::Post(Box::new(said(Address::Member("hand".to_owned()), Kind::Instruction, NONCE)));
    assert_eq!(desk.refused(&member("boss"), other), Rejected::NotAcknowledged(1));
    desk.done(&member("boss"), answer(NONCE));
    let mut again = said(Address::Operator, Kind::Note, NONCE);
    again.key = "another key".to_owned();
    let why = desk.refused(&member("boss"), Command::Post(Box::new(again)));
    assert_eq!(why, Rejected::NotGranted(Action::AskUser));
}

#[test]
fn a_check_that_is_over_is_answered_like_anything_else() {
    let mut desk = probed();
    let because = "nobody waits any more".to_owned();
    desk.done(&Actor::Operator, Command::CancelMessage { no: 1, because });
    let why = desk.refused(&member("boss"), answer(NONCE));
    assert_eq!(why, Rejected::NotGranted(Action::AskUser));
}

#[test]
fn a_task_is_renamed_by_the_operator_alone_and_not_after_its_end() {
    let mut desk = Desk::paired();
    let rename = |name: &str| Command::Rename { name: name.to_owned() };
    for name in ["boss", "hand", "eye"] {
        let why = desk.refused(&member(name), rename("mine"));
        assert!(matches!(why, Rejected::NotForRole { .. }), "{why}");
    }
    assert_eq!(desk.refused(&Actor::Operator, rename("limits")), Rejected::Nothing);
    assert_eq!(desk.refused(&Actor::Operator, rename(" ")), Rejected::BadName(" ".to_owned()));
    desk.done(&Actor::Operator, rename("call limits"));
    assert_eq!(desk.task.spec.name, "call limits");
    let because = "nobody needs it".to_owned();
    desk.done(&Actor::Operator, Command::Cancel { because });
    assert_eq!(desk.refused(&Actor::Operator, rename("x")), Rejected::Over("cancelled"));
}
