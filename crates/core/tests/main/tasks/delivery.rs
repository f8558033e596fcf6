//! Messages: stored, offered, accepted, acknowledged; never lost, never handled twice.

use provost_core::task::{
    Actor, Address, Command, Event, Kind, Labels, MAX_KEYS_KEPT, MAX_OFFERS, MAX_OVER_KEPT,
    MAX_TEXT, MAX_WAITING, Post, Priority, Rejected, Role, Standing, Trust,
};

use super::kit::{A_REASON, Desk, lease_of, member, post};

fn changed(command: Command, change: impl FnOnce(&mut Post)) -> Command {
    let Command::Post(mut post) = command else { panic!("it is a post") };
    change(&mut post);
    Command::Post(post)
}

#[test]
fn a_message_goes_from_stored_to_acknowledged_and_tells_who_took_it() {
    let mut desk = Desk::paired();
    let no = desk.post(&member("boss"), "hand", "first");
    assert_eq!(*desk.standing(no), Standing::Stored);
    let (taken, lease) = desk.next("hand").expect("it waits");
    assert_eq!((taken, lease), (no, 1));
    assert_eq!(desk.standing(no).word(), "offered");
    desk.done(&member("hand"), Command::Accept { no, lease, polls: 3 });
    let Some(Event::MessageAccepted(accepted)) = desk.events.last() else { panic!("accepted") };
    assert_eq!((accepted.kind, accepted.polls), (Kind::Instruction, 3));
    assert_eq!(accepted.role.map(|role| role.word()), Some("worker"));
    assert_eq!(accepted.lease.way.word(), "pull");
    desk.done(&member("hand"), Command::Acknowledge { no, lease, note: None });
    assert_eq!(*desk.standing(no), Standing::Acknowledged { by: "hand".to_owned(), lease: 1 });
    assert_eq!(desk.next("hand"), None);
}

#[test]
fn one_key_is_one_message() {
    let mut desk = Desk::paired();
    desk.post(&member("boss"), "hand", "first");
    assert_eq!(desk.refused(&member("boss"), post("hand", "first")), Rejected::Nothing);
    assert_eq!(desk.task.messages.len(), 1);
}

#[test]
fn d2_what_a_dead_consumer_took_comes_back_and_says_so() {
    let mut desk = Desk::paired();
    let no = desk.post(&member("boss"), "hand", "first");
    desk.take("hand");
    desk.wait(99);
    assert_eq!(desk.standing(no).word(), "accepted", "its lease is not over");
    desk.wait(1);
    assert_eq!(*desk.standing(no), Standing::Stored);
    assert!(desk.message(no).redelivered);
    assert_eq!(desk.message(no).key, "first");
    let (again, lease) = desk.take("hand");
    assert_eq!((again, lease), (no, 2));
}

#[test]
fn d2_what_was_offered_and_never_accepted_comes_back() {
    let mut desk = Desk::paired();
    let no = desk.post(&member("boss"), "hand", "first");
    desk.next("hand").expect("it waits");
    desk.wait(9);
    assert_eq!(desk.standing(no).word(), "offered");
    desk.wait(1);
    assert_eq!(*desk.standing(no), Standing::Stored);
}

#[test]
fn a_consumer_that_comes_back_too_late_handles_nothing() {
    let mut desk = Desk::paired();
    let no = desk.post(&member("boss"), "hand", "first");
    let (_, old) = desk.take("hand");
    desk.wait(100);
    let late = Command::Acknowledge { no, lease: old, note: None };
    assert_eq!(
        desk.refused(&member("hand"), late.clone()),
        Rejected::MessageIs { no, standing: "stored" }
    );
    let (_, new) = desk.take("hand");
    assert_eq!(desk.refused(&member("hand"), late), Rejected::StaleLease(no));
    desk.done(&member("hand"), Command::Acknowledge { no, lease: new, note: None });
    let again = Command::Acknowledge { no, lease: new, note: None };
    assert_eq!(desk.refused(&member("hand"), again), Rejected::Nothing);
}

#[test]
fn what_was_not_accepted_cannot_be_acknowledged() {
    let mut desk = Desk::paired();
    let no = desk.post(&member("boss"), "hand", "first");
    let (_, lease) = desk.next("hand").expect("it waits");
    let early = Command::Acknowledge { no, lease, note: None };
    let why = Rejected::MessageIs { no, standing: "offered" };
    assert_eq!(desk.refused(&member("hand"), early), why);
}

#[test]
fn d4_who_comes_second_gets_the_next_one() {
    let mut desk = Desk::paired();
    let first = desk.post(&member("boss"), "hand", "first");
    let second = desk.post(&member("boss"), "hand", "second");
    assert_eq!(desk.next("hand").map(|(no, _)| no), Some(first));
    assert_eq!(desk.next("hand").map(|(no, _)| no), Some(second));
    assert_eq!(desk.next("hand"), None);
}

#[test]
fn what_matters_more_comes_first_and_equals_in_their_order() {
    let mut desk = Desk::paired();
    for (key, priority) in [
        ("a", Priority::Low),
        ("b", Priority::Normal),
        ("c", Priority::High),
        ("d", Priority::High),
    ] {
        let command = changed(post("hand", key), |post| post.priority = priority);
        desk.done(&member("boss"), command);
    }
    let order: Vec<u32> = (0..4).map(|_| desk.handle("hand")).collect();
    assert_eq!(order, [3, 4, 2, 1]);
}

#[test]
fn what_nobody_took_in_time_expires_and_what_is_held_does_not() {
    let mut desk = Desk::paired();
    for key in ["a", "b"] {
        let command = changed(post("hand", key), |post| post.expires_in_ms = Some(50));
        desk.done(&member("boss"), command);
    }
    let (held, lease) = desk.take("hand");
    desk.wait(50);
    assert_eq!(*desk.standing(2), Standing::Expired);
    desk.done(&member("hand"), Command::Acknowledge { no: held, lease, note: None });
    assert_eq!(desk.next("hand"), None);
}

#[test]
fn a_message_that_nobody_ever_handles_is_laid_aside_and_can_be_offered_again() {
    let mut desk = Desk::paired();
    let no = desk.post(&member("boss"), "hand", "first");
    for _ in 0..MAX_OFFERS {
        desk.next("hand").expect("it is offered again");
        desk.wait(10);
    }
    assert_eq!(desk.standing(no).word(), "dead");
    assert_eq!(desk.next("hand"), None);
    desk.done(&Actor::Operator, Command::Requeue { no, because: A_REASON.to_owned(), to: None });
    assert_eq!(desk.handle("hand"), no);
}

#[test]
fn what_is_held_is_not_cancelled_and_what_waits_is() {
    let mut desk = Desk::paired();
    let held = desk.post(&member("boss"), "hand", "a");
    let waits = desk.post(&member("boss"), "hand", "b");
    desk.take("hand");
    let cancel = |no| Command::CancelMessage { no, because: A_REASON.to_owned() };
    let why = Rejected::MessageIs { no: held, standing: "accepted" };
    assert_eq!(desk.refused(&member("boss"), cancel(held)), why);
    desk.done(&member("boss"), cancel(waits));
    assert_eq!(desk.next("hand"), None);
}

#[test]
fn what_is_given_back_is_offered_to_the_next_who_asks() {
    let mut desk = Desk::paired();
    let no = desk.post(&member("boss"), "hand", "a");
    let (_, lease) = desk.take("hand");
    desk.done(&member("hand"), Command::Release { no, lease, reason: A_REASON.to_owned() });
    assert_eq!(desk.handle("hand"), no);
}

#[test]
fn nobody_takes_what_is_for_another() {
    let mut desk = Desk::paired();
    let no = desk.post(&Actor::Operator, "hand", "a");
    let command = Command::Next { consumer: "hand".to_owned() };
    assert_eq!(desk.refused(&member("eye"), command), Rejected::NotYours("hand".to_owned()));
    let (_, lease) = desk.next("hand").expect("it waits");
    let steal = Command::Accept { no, lease, polls: 0 };
    assert_eq!(desk.refused(&member("eye"), steal), Rejected::NotYours("hand".to_owned()));
}

#[test]
fn too_long_and_too_many_are_refused_with_the_limit() {
    let mut desk = Desk::paired();
    let long = changed(post("hand", "long"), |post| post.text = "x".repeat(MAX_TEXT + 1));
    assert_eq!(desk.refused(&member("boss"), long), Rejected::TooLong(MAX_TEXT + 1));
    let whole = changed(post("hand", "whole"), |post| post.text = "x".repeat(MAX_TEXT));
    desk.done(&member("boss"), whole);
    for n in 1..MAX_WAITING {
        desk.post(&member("boss"), "hand", &format!("m{n}"));
    }
    let why = Rejected::Full(MAX_WAITING, "hand".to_owned());
    assert_eq!(desk.refused(&member("boss"), post("hand", "one more")), why);
    desk.post(&member("boss"), "eye", "others have room");
}

#[test]
fn only_the_newest_that_are_over_are_remembered() {
    let mut desk = Desk::paired();
    for n in 0..MAX_OVER_KEPT + 5 {
        desk.post(&member("boss"), "hand", &format!("m{n}"));
        desk.handle("hand");
    }
    assert_eq!(desk.task.messages.len(), MAX_OVER_KEPT);
    assert_eq!(desk.task.messages[0].no, 6);
}

#[test]
fn what_a_worker_says_instructs_nobody() {
    let mut desk = Desk::paired();
    let up = desk.post(&member("hand"), "boss", "up");
    assert_eq!((desk.message(up).kind, desk.message(up).trust), (Kind::Report, Trust::Claims));
    let down = desk.post(&member("boss"), "hand", "down");
    assert_eq!(desk.message(down).trust, Trust::Instructs);
    let person = desk.post(&Actor::Operator, "boss", "person");
    assert_eq!(desk.message(person).trust, Trust::Instructs);
}

#[test]
fn a_pause_delivers_nothing_and_loses_nothing() {
    let mut desk = Desk::paired();
    let no = desk.post(&member("boss"), "hand", "a");
    desk.done(&Actor::Operator, Command::Pause { because: A_REASON.to_owned() });
    assert_eq!(desk.next("hand"), None);
    desk.done(&Actor::Operator, Command::GoOn);
    assert_eq!(desk.handle("hand"), no);
}

#[test]
fn who_leaves_leaves_no_message_behind_unseen() {
    let mut desk = Desk::paired();
    let no = desk.post(&member("boss"), "hand", "a");
    let because = A_REASON.to_owned();
    desk.done(
        &Actor::Operator,
        Command::Retire { name: "hand".to_owned(), because, to: None, dead_letter: true },
    );
    assert_eq!(desk.standing(no).word(), "dead");
    let why = Rejected::NoMember { who: "hand".to_owned() };
    assert_eq!(desk.refused(&Actor::Operator, post("hand", "b")), why);
}

#[test]
fn what_was_for_somebody_who_left_does_not_come_back_to_wait_for_nobody() {
    let mut desk = Desk::paired();
    let no = desk.post(&member("boss"), "hand", "a");
    let because = A_REASON.to_owned();
    let retire = Command::Retire {
        name: "hand".to_owned(),
        because: because.clone(),
        to: None,
        dead_letter: true,
    };
    desk.done(&Actor::Operator, retire);
    let why = Rejected::NoMember { who: "hand".to_owned() };
    assert_eq!(desk.refused(&Actor::Operator, Command::Requeue { no, because, to: None }), why);
}

#[test]
fn who_takes_a_place_takes_its_messages() {
    let mut desk = Desk::paired();
    let held = desk.post(&member("boss"), "hand", "a");
    let waits = desk.post(&member("boss"), "hand", "b");
    let (_, lease) = desk.take("hand");
    desk.done(
        &Actor::Operator,
        Command::Rotate {
            from: "hand".to_owned(),
            to: "second".to_owned(),
            session: None,
            handover: "half of the limits are in, the tests are red".to_owned(),
        },
    );
    assert_eq!(desk.message(held).to, Address::Member("second".to_owned()));
    assert!(desk.message(held).redelivered && !desk.message(waits).redelivered);
    let late = Command::Acknowledge { no: held, lease, note: None };
    assert_eq!(desk.refused(&member("hand"), late), Rejected::NoMember { who: "hand".to_owned() });
    let told = desk.handle("second");
    assert!(desk.message(told).text.starts_with("half of the limits"), "first of all");
    assert_eq!([desk.handle("second"), desk.handle("second")], [held, waits]);
    let name = Command::Bind {
        name: "hand".to_owned(),
        role: provost_core::task::Role::Worker,
        session: None,
        labels: Default::default(),
    };
    assert_eq!(desk.refused(&Actor::Operator, name), Rejected::NameTaken("hand".to_owned()));
}

#[test]
fn d21_labels_change_nothing_about_delivery() {
    let mut desk = Desk::paired();
    let labels = provost_core::task::Labels {
        thread: Some("wrong".to_owned()),
        title: Some("hand".to_owned()),
    };
    let before = desk.post(&member("boss"), "hand", "a");
    desk.done(&Actor::Operator, Command::Label { name: "hand".to_owned(), labels });
    assert_eq!(desk.handle("hand"), before);
}

#[test]
fn a_lease_says_until_when() {
    let mut desk = Desk::paired();
    let no = desk.post(&member("boss"), "hand", "a");
    desk.now = 5;
    desk.next("hand").expect("it waits");
    assert_eq!(lease_of(desk.standing(no)).until_ms, Some(15));
    assert_eq!(desk.task.deadline(), Some(15));
    desk.done(&member("hand"), Command::Accept { no, lease: 1, polls: 0 });
    assert_eq!(desk.task.deadline(), Some(105));
}

#[test]
fn a_key_is_its_senders_own_and_names_one_text() {
    let mut desk = Desk::paired();
    let no = desk.post(&member("boss"), "hand", "first");
    assert_eq!(desk.post(&member("eye"), "hand", "first"), no + 1, "another says something else");
    assert_eq!(desk.refused(&member("boss"), post("hand", "first")), Rejected::Nothing);
    for other in [
        changed(post("hand", "first"), |post| post.text.push('!')),
        changed(post("hand", "first"), |post| post.to = Address::Member("eye".to_owned())),
    ] {
        let why = desk.refused(&member("boss"), other);
        assert_eq!(why, Rejected::KeyTaken("first".to_owned()));
    }
}

#[test]
fn a_lease_from_before_a_message_was_offered_anew_is_nobodys() {
    let mut desk = Desk::paired();
    let no = desk.post(&member("boss"), "hand", "first");
    let (_, old) = desk.take("hand");
    let reason = A_REASON.to_owned();
    desk.done(&member("boss"), Command::Bury { no, reason: reason.clone() });
    desk.done(&member("boss"), Command::Requeue { no, because: reason, to: None });
    let (_, new) = desk.take("hand");
    assert!(new > old && desk.message(no).redelivered);
    let late = Command::Acknowledge { no, lease: old, note: None };
    assert_eq!(desk.refused(&member("hand"), late.clone()), Rejected::StaleLease(no));
    desk.done(&member("hand"), Command::Acknowledge { no, lease: new, note: None });
    assert_eq!(desk.refused(&member("hand"), late), Rejected::StaleLease(no), "afterwards too");
    let again = Command::Acknowledge { no, lease: new, note: None };
    assert_eq!(desk.refused(&member("hand"), again), Rejected::Nothing);
}

#[test]
fn a_lease_that_nobody_was_given_is_called_that() {
    let mut desk = Desk::paired();
    let no = desk.post(&member("boss"), "hand", "first");
    desk.take("hand");
    let forged = Command::Acknowledge { no, lease: 9, note: None };
    assert_eq!(desk.refused(&member("hand"), forged), Rejected::NoLease { no, lease: 9 });
}

#[test]
fn what_is_given_back_too_often_is_laid_aside() {
    let mut desk = Desk::paired();
    let no = desk.post(&member("boss"), "hand", "first");
    for _ in 0..MAX_OFFERS {
        let (no, lease) = desk.take("hand");
        let reason = A_REASON.to_owned();
        desk.done(&member("hand"), Command::Release { no, lease, reason });
    }
    assert_eq!(*desk.standing(no), Standing::Dead { reason: A_REASON.to_owned() });
}

#[test]
fn no_member_passes_for_provost_or_for_whoever_commands_it() {
    let mut desk = Desk::paired();
    for name in ["operator", "Provost", "POLICY"] {
        let (name, labels) = (name.to_owned(), Labels::default());
        let command =
            Command::Bind { name: name.clone(), role: Role::Worker, session: None, labels };
        // The error says that the name is reserved, not that another member has it.
        assert_eq!(desk.refused(&Actor::Operator, command), Rejected::NameReserved(name));
    }
}

#[test]
fn a_key_is_still_known_after_its_message_is_forgotten() {
    let mut desk = Desk::paired();
    let first = desk.post(&member("boss"), "hand", "first");
    desk.handle("hand");
    for n in 0..MAX_OVER_KEPT {
        desk.post(&member("boss"), "hand", &format!("n{n}"));
        desk.handle("hand");
    }
    assert_eq!(desk.task.message(first), None, "it is forgotten");
    let stored = desk.task.messages_stored;
    assert_eq!(desk.refused(&member("boss"), post("hand", "first")), Rejected::Nothing);
    let other = changed(post("hand", "first"), |post| post.text = "something else".to_owned());
    let taken = Rejected::KeyTaken("first".to_owned());
    assert_eq!(desk.refused(&member("boss"), other), taken);
    // Keys are per sender: the operator may use the same one.
    desk.post(&Actor::Operator, "hand", "first");
    assert_eq!(desk.task.messages_stored, stored + 1);
}

#[test]
fn only_the_newest_keys_are_remembered_and_none_of_provost() {
    let mut desk = Desk::paired();
    for n in 0..MAX_OVER_KEPT + MAX_KEYS_KEPT + 3 {
        desk.post(&member("boss"), "hand", &format!("n{n}"));
        desk.handle("hand");
    }
    assert_eq!(desk.task.forgotten.len(), MAX_KEYS_KEPT);
    let oldest = desk.task.forgotten.first().map(|sent| sent.key.clone());
    assert_eq!(oldest.as_deref(), Some("n3"));
}

#[test]
fn thousands_of_leases_that_end_in_one_moment_are_one_step() {
    let mut desk = Desk::paired();
    for n in 0..3_000 {
        let (to, key) = (if n % 3 == 0 { "hand" } else { "eye" }, format!("n{n}"));
        if desk.does(&member("boss"), post(to, &key)).is_ok() {
            desk.take(to);
        }
    }
    let held = desk.task.messages.len();
    assert!(held > 1_500, "{held} are held");
    desk.now += 200;
    let steps = desk.events.len();
    // `settle` panics after a hundred steps.
    desk.settle();
    assert_eq!(desk.events.len(), steps + held);
    let waits = |standing: &Standing| *standing == Standing::Stored;
    assert!(desk.task.messages.iter().all(|message| waits(&message.standing)));
}

#[test]
fn a_lease_that_was_never_given_is_told_as_that_also_of_what_is_handled() {
    let mut desk = Desk::paired();
    desk.post(&member("boss"), "hand", "a");
    let no = desk.handle("hand");
    let acknowledge = |lease| Command::Acknowledge { no, lease, note: None };
    assert_eq!(desk.refused(&member("hand"), acknowledge(1)), Rejected::Nothing);
    let why = Rejected::NoLease { no, lease: 99 };
    assert_eq!(desk.refused(&member("hand"), acknowledge(99)), why);
}

#[test]
fn whoever_takes_anothers_place_is_told_first_what_it_has_to_know() {
    let mut desk = Desk::paired();
    let mut urgent = post("hand", "urgent");
    if let Command::Post(post) = &mut urgent {
        post.priority = Priority::High;
    }
    desk.done(&member("boss"), urgent);
    let (from, to, session) = ("hand".to_owned(), "fresh".to_owned(), None);
    let handover = "the tests of one caller are there".to_owned();
    let rotate = Command::Rotate { from, to, session, handover: handover.clone() };
    desk.done(&Actor::Operator, rotate);
    let (no, _) = desk.next("fresh").expect("there is a message");
    assert_eq!(desk.message(no).text, handover);
}
