//! Messages: stored, offered, accepted, acknowledged; never lost, never handled twice.

use provost_core::team::{
    Event, MAX_KEYS_KEPT, MAX_OFFERS, MAX_SETTLED_KEPT, MAX_TEXT, MAX_WAITING, MemberLabels,
    MemberRole, MessageStatus, MessageTrust, NewMessage, Priority, Recipient, TeamActor,
    TeamCommand, TeamMessageKind, TeamRejection,
};

use super::kit::{A_REASON, TestTeam, lease_of, member, post};

fn changed(command: TeamCommand, change: impl FnOnce(&mut NewMessage)) -> TeamCommand {
    let TeamCommand::Post(mut post) = command else { panic!("it is a post") };
    change(&mut post);
    TeamCommand::Post(post)
}

#[test]
fn message_runs_from_stored_to_acknowledged() {
    let mut desk = TestTeam::paired();
    let no = desk.post(&member("boss"), "hand", "first");
    assert_eq!(*desk.message_status(no), MessageStatus::Stored);
    let (taken, lease) = desk.next("hand").expect("it waits");
    assert_eq!((taken, lease), (no, 1));
    assert_eq!(desk.message_status(no).as_str(), "offered");
    desk.apply(&member("hand"), TeamCommand::Accept { no, lease, polls: 3 });
    let Some(Event::MessageAccepted(accepted)) = desk.events.last() else { panic!("accepted") };
    assert_eq!((accepted.kind, accepted.polls), (TeamMessageKind::Instruction, 3));
    assert_eq!(accepted.role.map(|role| role.as_str()), Some("worker"));
    assert_eq!(accepted.lease.delivery.as_str(), "pull");
    desk.apply(&member("hand"), TeamCommand::Acknowledge { no, lease, note: None });
    assert_eq!(
        *desk.message_status(no),
        MessageStatus::Acknowledged { by: "hand".to_owned(), lease: 1 }
    );
    assert_eq!(desk.next("hand"), None);
}

#[test]
fn repeated_key_is_ignored() {
    let mut desk = TestTeam::paired();
    desk.post(&member("boss"), "hand", "first");
    assert_eq!(desk.reject(&member("boss"), post("hand", "first")), TeamRejection::NothingNew);
    assert_eq!(desk.task.messages.len(), 1);
}

#[test]
fn d2_expired_lease_redelivers_with_mark() {
    let mut desk = TestTeam::paired();
    let no = desk.post(&member("boss"), "hand", "first");
    desk.take("hand");
    desk.advance_clock(99);
    assert_eq!(desk.message_status(no).as_str(), "accepted", "its lease is not over");
    desk.advance_clock(1);
    assert_eq!(*desk.message_status(no), MessageStatus::Stored);
    assert!(desk.message(no).redelivered);
    assert_eq!(desk.message(no).key, "first");
    let (again, lease) = desk.take("hand");
    assert_eq!((again, lease), (no, 2));
}

#[test]
fn d2_unaccepted_offer_comes_back() {
    let mut desk = TestTeam::paired();
    let no = desk.post(&member("boss"), "hand", "first");
    desk.next("hand").expect("it waits");
    desk.advance_clock(9);
    assert_eq!(desk.message_status(no).as_str(), "offered");
    desk.advance_clock(1);
    assert_eq!(*desk.message_status(no), MessageStatus::Stored);
}

#[test]
fn late_consumer_cannot_acknowledge() {
    let mut desk = TestTeam::paired();
    let no = desk.post(&member("boss"), "hand", "first");
    let (_, old) = desk.take("hand");
    desk.advance_clock(100);
    let late = TeamCommand::Acknowledge { no, lease: old, note: None };
    assert_eq!(
        desk.reject(&member("hand"), late.clone()),
        TeamRejection::MessageIs { no, standing: "stored" }
    );
    let (_, new) = desk.take("hand");
    assert_eq!(desk.reject(&member("hand"), late), TeamRejection::StaleLease(no));
    desk.apply(&member("hand"), TeamCommand::Acknowledge { no, lease: new, note: None });
    let again = TeamCommand::Acknowledge { no, lease: new, note: None };
    assert_eq!(desk.reject(&member("hand"), again), TeamRejection::NothingNew);
}

#[test]
fn unaccepted_message_cannot_be_acknowledged() {
    let mut desk = TestTeam::paired();
    let no = desk.post(&member("boss"), "hand", "first");
    let (_, lease) = desk.next("hand").expect("it waits");
    let early = TeamCommand::Acknowledge { no, lease, note: None };
    let why = TeamRejection::MessageIs { no, standing: "offered" };
    assert_eq!(desk.reject(&member("hand"), early), why);
}

#[test]
fn d4_second_consumer_gets_the_next_message() {
    let mut desk = TestTeam::paired();
    let first = desk.post(&member("boss"), "hand", "first");
    let second = desk.post(&member("boss"), "hand", "second");
    assert_eq!(desk.next("hand").map(|(no, _)| no), Some(first));
    assert_eq!(desk.next("hand").map(|(no, _)| no), Some(second));
    assert_eq!(desk.next("hand"), None);
}

#[test]
fn messages_are_ordered_by_priority_then_age() {
    let mut desk = TestTeam::paired();
    for (key, priority) in [
        ("a", Priority::Low),
        ("b", Priority::Normal),
        ("c", Priority::High),
        ("d", Priority::High),
    ] {
        let command = changed(post("hand", key), |post| post.priority = priority);
        desk.apply(&member("boss"), command);
    }
    let order: Vec<u32> = (0..4).map(|_| desk.handle("hand")).collect();
    assert_eq!(order, [3, 4, 2, 1]);
}

#[test]
fn unclaimed_message_expires_leased_does_not() {
    let mut desk = TestTeam::paired();
    for key in ["a", "b"] {
        let command = changed(post("hand", key), |post| post.expires_in_ms = Some(50));
        desk.apply(&member("boss"), command);
    }
    let (held, lease) = desk.take("hand");
    desk.advance_clock(50);
    assert_eq!(*desk.message_status(2), MessageStatus::Expired);
    desk.apply(&member("hand"), TeamCommand::Acknowledge { no: held, lease, note: None });
    assert_eq!(desk.next("hand"), None);
}

#[test]
fn unhandled_message_is_dead_lettered_and_requeued() {
    let mut desk = TestTeam::paired();
    let no = desk.post(&member("boss"), "hand", "first");
    for _ in 0..MAX_OFFERS {
        desk.next("hand").expect("it is offered again");
        desk.advance_clock(10);
    }
    assert_eq!(desk.message_status(no).as_str(), "dead");
    assert_eq!(desk.next("hand"), None);
    desk.apply(
        &TeamActor::Operator,
        TeamCommand::Requeue { no, because: A_REASON.to_owned(), to: None },
    );
    assert_eq!(desk.handle("hand"), no);
}

#[test]
fn only_waiting_messages_can_be_cancelled() {
    let mut desk = TestTeam::paired();
    let held = desk.post(&member("boss"), "hand", "a");
    let waits = desk.post(&member("boss"), "hand", "b");
    desk.take("hand");
    let cancel = |no| TeamCommand::CancelMessage { no, because: A_REASON.to_owned() };
    let why = TeamRejection::MessageIs { no: held, standing: "accepted" };
    assert_eq!(desk.reject(&member("boss"), cancel(held)), why);
    desk.apply(&member("boss"), cancel(waits));
    assert_eq!(desk.next("hand"), None);
}

#[test]
fn released_message_is_offered_again() {
    let mut desk = TestTeam::paired();
    let no = desk.post(&member("boss"), "hand", "a");
    let (_, lease) = desk.take("hand");
    desk.apply(&member("hand"), TeamCommand::Release { no, lease, reason: A_REASON.to_owned() });
    assert_eq!(desk.handle("hand"), no);
}

#[test]
fn member_cannot_take_messages_of_another() {
    let mut desk = TestTeam::paired();
    let no = desk.post(&TeamActor::Operator, "hand", "a");
    let command = TeamCommand::Next { consumer: "hand".to_owned() };
    assert_eq!(
        desk.reject(&member("eye"), command),
        TeamRejection::NotRecipient("hand".to_owned())
    );
    let (_, lease) = desk.next("hand").expect("it waits");
    let steal = TeamCommand::Accept { no, lease, polls: 0 };
    assert_eq!(desk.reject(&member("eye"), steal), TeamRejection::NotRecipient("hand".to_owned()));
}

#[test]
fn message_size_and_count_limits_are_enforced() {
    let mut desk = TestTeam::paired();
    let long = changed(post("hand", "long"), |post| post.text = "x".repeat(MAX_TEXT + 1));
    assert_eq!(desk.reject(&member("boss"), long), TeamRejection::TooLong(MAX_TEXT + 1));
    let whole = changed(post("hand", "whole"), |post| post.text = "x".repeat(MAX_TEXT));
    desk.apply(&member("boss"), whole);
    for n in 1..MAX_WAITING {
        desk.post(&member("boss"), "hand", &format!("m{n}"));
    }
    let why = TeamRejection::InboxFull(MAX_WAITING, "hand".to_owned());
    assert_eq!(desk.reject(&member("boss"), post("hand", "one more")), why);
    desk.post(&member("boss"), "eye", "others have room");
}

#[test]
fn only_newest_finished_messages_are_kept() {
    let mut desk = TestTeam::paired();
    for n in 0..MAX_SETTLED_KEPT + 5 {
        desk.post(&member("boss"), "hand", &format!("m{n}"));
        desk.handle("hand");
    }
    assert_eq!(desk.task.messages.len(), MAX_SETTLED_KEPT);
    assert_eq!(desk.task.messages[0].no, 6);
}

#[test]
fn worker_messages_are_claims_not_instructions() {
    let mut desk = TestTeam::paired();
    let up = desk.post(&member("hand"), "boss", "up");
    assert_eq!(
        (desk.message(up).kind, desk.message(up).trust),
        (TeamMessageKind::Report, MessageTrust::Untrusted)
    );
    let down = desk.post(&member("boss"), "hand", "down");
    assert_eq!(desk.message(down).trust, MessageTrust::Trusted);
    let person = desk.post(&TeamActor::Operator, "boss", "person");
    assert_eq!(desk.message(person).trust, MessageTrust::Trusted);
}

#[test]
fn pause_holds_back_messages_without_loss() {
    let mut desk = TestTeam::paired();
    let no = desk.post(&member("boss"), "hand", "a");
    desk.apply(&TeamActor::Operator, TeamCommand::Pause { because: A_REASON.to_owned() });
    assert_eq!(desk.next("hand"), None);
    desk.apply(&TeamActor::Operator, TeamCommand::Resume);
    assert_eq!(desk.handle("hand"), no);
}

#[test]
fn retired_member_messages_are_dead_lettered() {
    let mut desk = TestTeam::paired();
    let no = desk.post(&member("boss"), "hand", "a");
    let because = A_REASON.to_owned();
    desk.apply(
        &TeamActor::Operator,
        TeamCommand::Retire { name: "hand".to_owned(), because, to: None, dead_letter: true },
    );
    assert_eq!(desk.message_status(no).as_str(), "dead");
    let why = TeamRejection::NoMember { who: "hand".to_owned() };
    assert_eq!(desk.reject(&TeamActor::Operator, post("hand", "b")), why);
}

#[test]
fn message_of_retired_member_cannot_be_requeued() {
    let mut desk = TestTeam::paired();
    let no = desk.post(&member("boss"), "hand", "a");
    let because = A_REASON.to_owned();
    let retire = TeamCommand::Retire {
        name: "hand".to_owned(),
        because: because.clone(),
        to: None,
        dead_letter: true,
    };
    desk.apply(&TeamActor::Operator, retire);
    let why = TeamRejection::NoMember { who: "hand".to_owned() };
    assert_eq!(
        desk.reject(&TeamActor::Operator, TeamCommand::Requeue { no, because, to: None }),
        why
    );
}

#[test]
fn successor_inherits_messages() {
    let mut desk = TestTeam::paired();
    let held = desk.post(&member("boss"), "hand", "a");
    let waits = desk.post(&member("boss"), "hand", "b");
    let (_, lease) = desk.take("hand");
    desk.apply(
        &TeamActor::Operator,
        TeamCommand::Rotate {
            from: "hand".to_owned(),
            to: "second".to_owned(),
            session: None,
            handover: "half of the limits are in, the tests are red".to_owned(),
        },
    );
    assert_eq!(desk.message(held).to, Recipient::Member("second".to_owned()));
    assert!(desk.message(held).redelivered && !desk.message(waits).redelivered);
    let late = TeamCommand::Acknowledge { no: held, lease, note: None };
    assert_eq!(
        desk.reject(&member("hand"), late),
        TeamRejection::NoMember { who: "hand".to_owned() }
    );
    let told = desk.handle("second");
    assert!(desk.message(told).text.starts_with("half of the limits"), "first of all");
    assert_eq!([desk.handle("second"), desk.handle("second")], [held, waits]);
    let name = TeamCommand::Bind {
        name: "hand".to_owned(),
        role: provost_core::team::MemberRole::Worker,
        session: None,
        labels: Default::default(),
    };
    assert_eq!(
        desk.reject(&TeamActor::Operator, name),
        TeamRejection::NameTaken("hand".to_owned())
    );
}

#[test]
fn d21_labels_do_not_affect_delivery() {
    let mut desk = TestTeam::paired();
    let labels = provost_core::team::MemberLabels {
        thread: Some("wrong".to_owned()),
        title: Some("hand".to_owned()),
    };
    let before = desk.post(&member("boss"), "hand", "a");
    desk.apply(&TeamActor::Operator, TeamCommand::Label { name: "hand".to_owned(), labels });
    assert_eq!(desk.handle("hand"), before);
}

#[test]
fn lease_has_a_deadline() {
    let mut desk = TestTeam::paired();
    let no = desk.post(&member("boss"), "hand", "a");
    desk.now = 5;
    desk.next("hand").expect("it waits");
    assert_eq!(lease_of(desk.message_status(no)).until_ms, Some(15));
    assert_eq!(desk.task.deadline(), Some(15));
    desk.apply(&member("hand"), TeamCommand::Accept { no, lease: 1, polls: 0 });
    assert_eq!(desk.task.deadline(), Some(105));
}

#[test]
fn key_is_per_sender_and_for_one_text() {
    let mut desk = TestTeam::paired();
    let no = desk.post(&member("boss"), "hand", "first");
    assert_eq!(desk.post(&member("eye"), "hand", "first"), no + 1, "another says something else");
    assert_eq!(desk.reject(&member("boss"), post("hand", "first")), TeamRejection::NothingNew);
    for other in [
        changed(post("hand", "first"), |post| post.text.push('!')),
        changed(post("hand", "first"), |post| post.to = Recipient::Member("eye".to_owned())),
    ] {
        let why = desk.reject(&member("boss"), other);
        assert_eq!(why, TeamRejection::KeyTaken("first".to_owned()));
    }
}

#[test]
fn lease_before_requeue_is_stale() {
    let mut desk = TestTeam::paired();
    let no = desk.post(&member("boss"), "hand", "first");
    let (_, old) = desk.take("hand");
    let reason = A_REASON.to_owned();
    desk.apply(&member("boss"), TeamCommand::DeadLetter { no, reason: reason.clone() });
    desk.apply(&member("boss"), TeamCommand::Requeue { no, because: reason, to: None });
    let (_, new) = desk.take("hand");
    assert!(new > old && desk.message(no).redelivered);
    let late = TeamCommand::Acknowledge { no, lease: old, note: None };
    assert_eq!(desk.reject(&member("hand"), late.clone()), TeamRejection::StaleLease(no));
    desk.apply(&member("hand"), TeamCommand::Acknowledge { no, lease: new, note: None });
    assert_eq!(desk.reject(&member("hand"), late), TeamRejection::StaleLease(no), "afterwards too");
    let again = TeamCommand::Acknowledge { no, lease: new, note: None };
    assert_eq!(desk.reject(&member("hand"), again), TeamRejection::NothingNew);
}

#[test]
fn unknown_lease_is_rejected() {
    let mut desk = TestTeam::paired();
    let no = desk.post(&member("boss"), "hand", "first");
    desk.take("hand");
    let forged = TeamCommand::Acknowledge { no, lease: 9, note: None };
    assert_eq!(desk.reject(&member("hand"), forged), TeamRejection::NoLease { no, lease: 9 });
}

#[test]
fn message_released_too_often_is_dead_lettered() {
    let mut desk = TestTeam::paired();
    let no = desk.post(&member("boss"), "hand", "first");
    for _ in 0..MAX_OFFERS {
        let (no, lease) = desk.take("hand");
        let reason = A_REASON.to_owned();
        desk.apply(&member("hand"), TeamCommand::Release { no, lease, reason });
    }
    assert_eq!(*desk.message_status(no), MessageStatus::Dead { reason: A_REASON.to_owned() });
}

#[test]
fn reserved_member_names_are_rejected() {
    let mut desk = TestTeam::paired();
    for name in ["operator", "Provost", "POLICY"] {
        let (name, labels) = (name.to_owned(), MemberLabels::default());
        let command = TeamCommand::Bind {
            name: name.clone(),
            role: MemberRole::Worker,
            session: None,
            labels,
        };
        // The error says that the name is reserved, not that another member has it.
        assert_eq!(desk.reject(&TeamActor::Operator, command), TeamRejection::NameReserved(name));
    }
}

#[test]
fn key_is_known_after_message_eviction() {
    let mut desk = TestTeam::paired();
    let first = desk.post(&member("boss"), "hand", "first");
    desk.handle("hand");
    for n in 0..MAX_SETTLED_KEPT {
        desk.post(&member("boss"), "hand", &format!("n{n}"));
        desk.handle("hand");
    }
    assert_eq!(desk.task.message(first), None, "it is forgotten");
    let stored = desk.task.messages_stored;
    assert_eq!(desk.reject(&member("boss"), post("hand", "first")), TeamRejection::NothingNew);
    let other = changed(post("hand", "first"), |post| post.text = "something else".to_owned());
    let taken = TeamRejection::KeyTaken("first".to_owned());
    assert_eq!(desk.reject(&member("boss"), other), taken);
    // Keys are per sender: the operator may use the same one.
    desk.post(&TeamActor::Operator, "hand", "first");
    assert_eq!(desk.task.messages_stored, stored + 1);
}

#[test]
fn only_newest_keys_are_kept() {
    let mut desk = TestTeam::paired();
    for n in 0..MAX_SETTLED_KEPT + MAX_KEYS_KEPT + 3 {
        desk.post(&member("boss"), "hand", &format!("n{n}"));
        desk.handle("hand");
    }
    assert_eq!(desk.task.evicted.len(), MAX_KEYS_KEPT);
    let oldest = desk.task.evicted.first().map(|sent| sent.key.clone());
    assert_eq!(oldest.as_deref(), Some("n3"));
}

#[test]
fn many_expired_leases_return_in_one_step() {
    let mut desk = TestTeam::paired();
    for n in 0..3_000 {
        let (to, key) = (if n % 3 == 0 { "hand" } else { "eye" }, format!("n{n}"));
        if desk.try_apply(&member("boss"), post(to, &key)).is_ok() {
            desk.take(to);
        }
    }
    let held = desk.task.messages.len();
    assert!(held > 1_500, "{held} are held");
    desk.now += 200;
    let steps = desk.events.len();
    // `settle` panics after a hundred steps.
    desk.advance();
    assert_eq!(desk.events.len(), steps + held);
    let waits = |standing: &MessageStatus| *standing == MessageStatus::Stored;
    assert!(desk.task.messages.iter().all(|message| waits(&message.status)));
}

#[test]
fn unknown_lease_of_handled_message_is_rejected() {
    let mut desk = TestTeam::paired();
    desk.post(&member("boss"), "hand", "a");
    let no = desk.handle("hand");
    let acknowledge = |lease| TeamCommand::Acknowledge { no, lease, note: None };
    assert_eq!(desk.reject(&member("hand"), acknowledge(1)), TeamRejection::NothingNew);
    let why = TeamRejection::NoLease { no, lease: 99 };
    assert_eq!(desk.reject(&member("hand"), acknowledge(99)), why);
}

#[test]
fn handover_is_delivered_first_to_successor() {
    let mut desk = TestTeam::paired();
    let mut urgent = post("hand", "urgent");
    if let TeamCommand::Post(post) = &mut urgent {
        post.priority = Priority::High;
    }
    desk.apply(&member("boss"), urgent);
    let (from, to, session) = ("hand".to_owned(), "fresh".to_owned(), None);
    let handover = "the tests of one caller are there".to_owned();
    let rotate = TeamCommand::Rotate { from, to, session, handover: handover.clone() };
    desk.apply(&TeamActor::Operator, rotate);
    let (no, _) = desk.next("fresh").expect("there is a message");
    assert_eq!(desk.message(no).text, handover);
}
