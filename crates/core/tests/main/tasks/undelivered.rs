//! Messages that expire or are dead-lettered, and members that leave.

use provost_core::task::{
    Actor, Address, Allowance, Blocker, Command, Event, Kind, MAX_OFFERS, Message, Needs, Phase,
    Rejected, Role, Standing, Trust,
};

use super::kit::{A_REASON, Desk, member, post, task_spec};

/// Returns the news messages to a member.
fn told<'d>(desk: &'d Desk, to: &str) -> Vec<&'d str> {
    let news = |one: &&Message| one.kind == Kind::News && one.to.name() == to;
    let all = desk.task.messages.iter().map(AsRef::as_ref).filter(news);
    all.map(|message| message.text.as_str()).collect()
}

fn retire(name: &str, to: Option<&str>, dead_letter: bool) -> Command {
    let (name, because) = (name.to_owned(), A_REASON.to_owned());
    Command::Retire { name, because, to: to.map(str::to_owned), dead_letter }
}

fn requeue(no: u32, to: Option<&str>) -> Command {
    Command::Requeue { no, because: A_REASON.to_owned(), to: to.map(str::to_owned) }
}

#[test]
fn released_to_death_is_told_to_the_sender() {
    let mut desk = Desk::paired();
    let no = desk.post(&Actor::Operator, "hand", "a");
    for _ in 0..MAX_OFFERS {
        let (no, lease) = desk.take("hand");
        let reason = "cannot do it".to_owned();
        desk.done(&member("hand"), Command::Release { no, lease, reason });
    }
    desk.settle();
    assert_eq!(desk.standing(no).word(), "dead");
    for to in ["operator", "boss"] {
        let told = told(&desk, to);
        assert!(told.len() == 1 && told[0].contains("cannot do it"), "{to}: {told:?}");
    }
    desk.settle();
    assert_eq!(told(&desk, "boss").len(), 1, "once");
}

#[test]
fn expired_is_told_to_the_sender() {
    let mut desk = Desk::paired();
    let Command::Post(mut post) = post("hand", "a") else { panic!("a post") };
    post.expires_in_ms = Some(5);
    desk.done(&member("boss"), Command::Post(post));
    desk.wait(10);
    let told = told(&desk, "boss");
    assert!(told.len() == 1 && told[0].contains("it expired"), "{told:?}");
}

#[test]
fn without_a_manager_the_operator_is_told() {
    let mut desk = Desk::open(task_spec());
    desk.bind("hand", Role::Worker, None);
    desk.bind("arm", Role::Worker, None);
    desk.post(&member("arm"), "hand", "a");
    desk.done(&Actor::Operator, retire("hand", None, true));
    desk.settle();
    let (operator, arm) = (told(&desk, "operator"), told(&desk, "arm"));
    assert!(operator.len() == 1 && operator[0].contains("hand has left"), "{operator:?}");
    assert_eq!(arm.len(), 1, "its sender");
}

#[test]
fn retire_with_open_messages_is_refused() {
    let mut desk = Desk::paired();
    desk.post(&member("boss"), "hand", "a");
    let why = desk.refused(&Actor::Operator, retire("hand", None, false));
    assert_eq!(why, Rejected::MessagesOpen { member: "hand".to_owned(), count: 1 });
    let why = desk.refused(&Actor::Operator, retire("hand", Some("hand"), false));
    assert_eq!(why, Rejected::OwnSuccessor("hand".to_owned()));
    desk.handle("hand");
    desk.done(&Actor::Operator, retire("hand", None, false));
}

#[test]
fn retire_hands_over_also_what_was_accepted() {
    let mut desk = Desk::paired();
    desk.bind("arm", Role::Worker, None);
    let first = desk.post(&member("boss"), "hand", "a");
    let second = desk.post(&member("boss"), "hand", "b");
    desk.take("hand");
    desk.done(&Actor::Operator, retire("hand", Some("arm"), false));
    for (no, again) in [(first, true), (second, false)] {
        let message = desk.message(no);
        assert_eq!(message.to, Address::Member("arm".to_owned()));
        assert_eq!((message.standing.word(), message.redelivered), ("stored", again));
    }
    // The key still belongs to the handed-over message.
    assert_eq!(desk.refused(&member("boss"), post("arm", "a")), Rejected::KeyTaken("a".to_owned()));
    assert_eq!(desk.handle("arm"), first);
}

#[test]
fn dead_letter_is_readdressed_with_requeue() {
    let mut desk = Desk::paired();
    let no = desk.post(&member("boss"), "hand", "a");
    desk.done(&Actor::Operator, retire("hand", None, true));
    desk.settle();
    let nobody = Rejected::NoMember { who: "hand".to_owned() };
    assert_eq!(desk.refused(&Actor::Operator, requeue(no, None)), nobody);
    desk.bind("arm", Role::Worker, None);
    assert_eq!(desk.task.dead_letters().count(), 1);
    desk.done(&Actor::Operator, requeue(no, Some("arm")));
    assert_eq!(desk.task.dead_letters().count(), 0);
    assert_eq!(desk.handle("arm"), no);
}

#[test]
fn word_of_a_worker_gains_nothing_by_another_reader() {
    let mut desk = Desk::paired();
    desk.bind("arm", Role::Worker, None);
    let no = desk.post(&member("hand"), "boss", "a");
    desk.done(&Actor::Operator, retire("boss", None, true));
    desk.done(&Actor::Operator, requeue(no, Some("arm")));
    assert_eq!(desk.message(no).trust, Trust::Claims);
}

#[test]
fn cancelled_dead_letter_is_settled() {
    let mut desk = Desk::paired();
    let no = desk.post(&member("boss"), "hand", "a");
    desk.done(&Actor::Operator, retire("hand", None, true));
    assert_eq!(desk.task.dead_letters().count(), 1);
    desk.done(&Actor::Operator, Command::CancelMessage { no, because: A_REASON.to_owned() });
    assert_eq!(desk.task.dead_letters().count(), 0);
}

#[test]
fn burier_is_not_told_what_it_did() {
    let mut desk = Desk::paired();
    let no = desk.post(&Actor::Operator, "hand", "a");
    desk.done(&member("boss"), Command::Bury { no, reason: A_REASON.to_owned() });
    desk.settle();
    assert_eq!((told(&desk, "operator").len(), told(&desk, "boss").len()), (1, 0));
    assert_eq!(desk.task.dead_letters().count(), 0, "it was laid aside on purpose");
}

#[test]
fn finish_is_refused_while_an_instruction_is_open() {
    let mut desk = Desk::paired();
    desk.criterion(Needs::Asserted);
    desk.done(&Actor::Operator, satisfied());
    let no = desk.post(&member("boss"), "hand", "a");
    let finish = |allow: &[Allowance]| Command::Finish {
        because: A_REASON.to_owned(),
        allow: allow.to_vec(),
    };
    let refused = desk.done(&member("boss"), finish(&[]));
    let open = Blocker::InstructionOpen { member: "hand".to_owned(), messages: vec![no], count: 1 };
    assert!(matches!(&refused[..], [Event::FinishRefused(e)] if e.blockers == [open.clone()]));
    let (_, lease) = desk.take("hand");
    let refused = desk.done(&member("boss"), finish(&[]));
    assert!(matches!(&refused[..], [Event::FinishRefused(_)]), "accepted is open, too");
    // Only the operator may allow it, and the allowance is recorded.
    let allow = [Allowance::InstructionOpen];
    let why = desk.refused(&member("boss"), finish(&allow));
    assert_eq!(why, Rejected::OperatorAllows(allow.to_vec()));
    desk.done(&Actor::Operator, finish(&allow));
    assert_eq!(desk.task.phase, Phase::Done { because: A_REASON.to_owned() });
    assert_eq!(desk.task.allowed, [open]);
    assert_eq!(desk.standing(no).word(), "cancelled", "lease {lease} is settled");
}

fn satisfied() -> Command {
    let text = "read aloud with the support team".to_owned();
    let evidence = provost_core::task::Evidence::Asserted { text, by: "operator".to_owned() };
    let judgement = provost_core::task::Judgement::Satisfy { evidence };
    Command::Judge { no: 1, judgement }
}

#[test]
fn key_with_other_terms_is_a_conflict() {
    let mut desk = Desk::paired();
    desk.post(&member("boss"), "hand", "a");
    assert_eq!(desk.refused(&member("boss"), post("hand", "a")), Rejected::Nothing);
    let change = |change: fn(&mut provost_core::task::Post)| {
        let Command::Post(mut post) = post("hand", "a") else { panic!("a post") };
        change(&mut post);
        Command::Post(post)
    };
    for other in [
        change(|post| post.priority = provost_core::task::Priority::High),
        change(|post| post.kind = Kind::Note),
        change(|post| post.expires_in_ms = Some(1_000)),
        change(|post| post.correlation = Some("c".to_owned())),
        change(|post| post.steer = true),
    ] {
        let why = desk.refused(&member("boss"), other);
        assert_eq!(why, Rejected::KeyTaken("a".to_owned()));
    }
    let standing = desk.standing(1).clone();
    assert_eq!(standing, Standing::Stored);
}
