//! Messages: stored, offered, accepted, acknowledged; never lost, never handled twice.

use provost_core::team::{
    Event, MAX_KEYS_KEPT, MAX_OFFERS, MAX_SETTLED_KEPT, MAX_TEXT, MAX_WAITING, MemberLabels,
    MemberRole, MessageEvent, MessageStatus, MessageTrust, NewMessage, Priority, Recipient,
    TeamActor, TeamCommand, TeamMessageKind, TeamRejection,
};

use super::kit::{A_REASON, TestTeam, lease_of, member, post};

fn changed(command: TeamCommand, change: impl FnOnce(&mut NewMessage)) -> TeamCommand {
    let TeamCommand::Post(mut post) = command else { panic!("it is a post") };
    change(&mut post);
    TeamCommand::Post(post)
}

#[test]
fn message_runs_from_stored_to_acknowledged() {
    let mut team = TestTeam::paired();
    let no = team.post(&member("boss"), "hand", "first");
    assert_eq!(*team.message_status(no), MessageStatus::Stored);
    let (taken, lease) = team.next("hand").expect("it waits");
    assert_eq!((taken, lease), (no, 1));
    assert_eq!(team.message_status(no).as_str(), "offered");
    team.apply(&member("hand"), TeamCommand::Accept { no, lease, polls: 3 });
    let Some(Event::Message(MessageEvent::MessageAccepted(accepted))) = team.events.last() else {
        panic!("accepted")
    };
    assert_eq!((accepted.kind, accepted.polls), (TeamMessageKind::Instruction, 3));
    assert_eq!(accepted.role.map(|role| role.as_str()), Some("worker"));
    assert_eq!(accepted.lease.delivery.as_str(), "pull");
    team.apply(&member("hand"), TeamCommand::Acknowledge { no, lease, note: None });
    assert_eq!(
        *team.message_status(no),
        MessageStatus::Acknowledged { by: "hand".to_owned(), lease: 1 }
    );
    assert_eq!(team.next("hand"), None);
}

#[test]
fn repeated_key_is_ignored() {
    let mut team = TestTeam::paired();
    team.post(&member("boss"), "hand", "first");
    assert_eq!(team.reject(&member("boss"), post("hand", "first")), TeamRejection::NothingNew);
    assert_eq!(team.task.messages.len(), 1);
}

#[test]
fn d2_expired_lease_redelivers_with_mark() {
    let mut team = TestTeam::paired();
    let no = team.post(&member("boss"), "hand", "first");
    team.take("hand");
    team.advance_clock(99);
    assert_eq!(team.message_status(no).as_str(), "accepted", "its lease is not over");
    team.advance_clock(1);
    assert_eq!(*team.message_status(no), MessageStatus::Stored);
    assert!(team.message(no).redelivered);
    assert_eq!(team.message(no).key, "first");
    let (again, lease) = team.take("hand");
    assert_eq!((again, lease), (no, 2));
}

#[test]
fn d2_unaccepted_offer_comes_back() {
    let mut team = TestTeam::paired();
    let no = team.post(&member("boss"), "hand", "first");
    team.next("hand").expect("it waits");
    team.advance_clock(9);
    assert_eq!(team.message_status(no).as_str(), "offered");
    team.advance_clock(1);
    assert_eq!(*team.message_status(no), MessageStatus::Stored);
}

#[test]
fn late_consumer_cannot_acknowledge() {
    let mut team = TestTeam::paired();
    let no = team.post(&member("boss"), "hand", "first");
    let (_, old) = team.take("hand");
    team.advance_clock(100);
    let late = TeamCommand::Acknowledge { no, lease: old, note: None };
    assert_eq!(
        team.reject(&member("hand"), late.clone()),
        TeamRejection::MessageIs { no, status: "stored" }
    );
    let (_, new) = team.take("hand");
    assert_eq!(team.reject(&member("hand"), late), TeamRejection::StaleLease(no));
    team.apply(&member("hand"), TeamCommand::Acknowledge { no, lease: new, note: None });
    let again = TeamCommand::Acknowledge { no, lease: new, note: None };
    assert_eq!(team.reject(&member("hand"), again), TeamRejection::NothingNew);
}

#[test]
fn unaccepted_message_cannot_be_acknowledged() {
    let mut team = TestTeam::paired();
    let no = team.post(&member("boss"), "hand", "first");
    let (_, lease) = team.next("hand").expect("it waits");
    let early = TeamCommand::Acknowledge { no, lease, note: None };
    let why = TeamRejection::MessageIs { no, status: "offered" };
    assert_eq!(team.reject(&member("hand"), early), why);
}

#[test]
fn d4_second_consumer_gets_the_next_message() {
    let mut team = TestTeam::paired();
    let first = team.post(&member("boss"), "hand", "first");
    let second = team.post(&member("boss"), "hand", "second");
    assert_eq!(team.next("hand").map(|(no, _)| no), Some(first));
    assert_eq!(team.next("hand").map(|(no, _)| no), Some(second));
    assert_eq!(team.next("hand"), None);
}

#[test]
fn messages_are_ordered_by_priority_then_age() {
    let mut team = TestTeam::paired();
    for (key, priority) in [
        ("a", Priority::Low),
        ("b", Priority::Normal),
        ("c", Priority::High),
        ("d", Priority::High),
    ] {
        let command = changed(post("hand", key), |post| post.priority = priority);
        team.apply(&member("boss"), command);
    }
    let order: Vec<u32> = (0..4).map(|_| team.handle("hand")).collect();
    assert_eq!(order, [3, 4, 2, 1]);
}

#[test]
fn unclaimed_message_expires_leased_does_not() {
    let mut team = TestTeam::paired();
    for key in ["a", "b"] {
        let command = changed(post("hand", key), |post| post.expires_in_ms = Some(50));
        team.apply(&member("boss"), command);
    }
    let (held, lease) = team.take("hand");
    team.advance_clock(50);
    assert_eq!(*team.message_status(2), MessageStatus::Expired);
    team.apply(&member("hand"), TeamCommand::Acknowledge { no: held, lease, note: None });
    assert_eq!(team.next("hand"), None);
}

#[test]
fn unhandled_message_is_dead_lettered_and_requeued() {
    let mut team = TestTeam::paired();
    let no = team.post(&member("boss"), "hand", "first");
    for _ in 0..MAX_OFFERS {
        team.next("hand").expect("it is offered again");
        team.advance_clock(10);
    }
    assert_eq!(team.message_status(no).as_str(), "dead");
    assert_eq!(team.next("hand"), None);
    team.apply(
        &TeamActor::Operator,
        TeamCommand::Requeue { no, because: A_REASON.to_owned(), to: None },
    );
    assert_eq!(team.handle("hand"), no);
}

#[test]
fn only_waiting_messages_can_be_cancelled() {
    let mut team = TestTeam::paired();
    let held = team.post(&member("boss"), "hand", "a");
    let waits = team.post(&member("boss"), "hand", "b");
    team.take("hand");
    let cancel = |no| TeamCommand::CancelMessage { no, because: A_REASON.to_owned() };
    let why = TeamRejection::MessageIs { no: held, status: "accepted" };
    assert_eq!(team.reject(&member("boss"), cancel(held)), why);
    team.apply(&member("boss"), cancel(waits));
    assert_eq!(team.next("hand"), None);
}

#[test]
fn released_message_is_offered_again() {
    let mut team = TestTeam::paired();
    let no = team.post(&member("boss"), "hand", "a");
    let (_, lease) = team.take("hand");
    team.apply(&member("hand"), TeamCommand::Release { no, lease, reason: A_REASON.to_owned() });
    assert_eq!(team.handle("hand"), no);
}

#[test]
fn member_cannot_take_messages_of_another() {
    let mut team = TestTeam::paired();
    let no = team.post(&TeamActor::Operator, "hand", "a");
    let command = TeamCommand::Next { consumer: "hand".to_owned() };
    assert_eq!(
        team.reject(&member("eye"), command),
        TeamRejection::NotRecipient("hand".to_owned())
    );
    let (_, lease) = team.next("hand").expect("it waits");
    let steal = TeamCommand::Accept { no, lease, polls: 0 };
    assert_eq!(team.reject(&member("eye"), steal), TeamRejection::NotRecipient("hand".to_owned()));
}

#[test]
fn message_size_and_count_limits_are_enforced() {
    let mut team = TestTeam::paired();
    let long = changed(post("hand", "long"), |post| post.text = "x".repeat(MAX_TEXT + 1));
    assert_eq!(team.reject(&member("boss"), long), TeamRejection::TooLong(MAX_TEXT + 1));
    let whole = changed(post("hand", "whole"), |post| post.text = "x".repeat(MAX_TEXT));
    team.apply(&member("boss"), whole);
    for n in 1..MAX_WAITING {
        team.post(&member("boss"), "hand", &format!("m{n}"));
    }
    let why = TeamRejection::InboxFull(MAX_WAITING, "hand".to_owned());
    assert_eq!(team.reject(&member("boss"), post("hand", "one more")), why);
    team.post(&member("boss"), "eye", "others have room");
}

#[test]
fn only_newest_finished_messages_are_kept() {
    let mut team = TestTeam::paired();
    for n in 0..MAX_SETTLED_KEPT + 5 {
        team.post(&member("boss"), "hand", &format!("m{n}"));
        team.handle("hand");
    }
    assert_eq!(team.task.messages.len(), MAX_SETTLED_KEPT);
    assert_eq!(team.task.messages[0].no, 6);
}

#[test]
fn worker_messages_are_claims_not_instructions() {
    let mut team = TestTeam::paired();
    let up = team.post(&member("hand"), "boss", "up");
    assert_eq!(
        (team.message(up).kind, team.message(up).trust),
        (TeamMessageKind::Report, MessageTrust::Untrusted)
    );
    let down = team.post(&member("boss"), "hand", "down");
    assert_eq!(team.message(down).trust, MessageTrust::Trusted);
    let person = team.post(&TeamActor::Operator, "boss", "person");
    assert_eq!(team.message(person).trust, MessageTrust::Trusted);
}

#[test]
fn pause_holds_back_messages_without_loss() {
    let mut team = TestTeam::paired();
    let no = team.post(&member("boss"), "hand", "a");
    team.apply(&TeamActor::Operator, TeamCommand::Pause { because: A_REASON.to_owned() });
    assert_eq!(team.next("hand"), None);
    team.apply(&TeamActor::Operator, TeamCommand::Resume);
    assert_eq!(team.handle("hand"), no);
}

#[test]
fn retired_member_messages_are_dead_lettered() {
    let mut team = TestTeam::paired();
    let no = team.post(&member("boss"), "hand", "a");
    let because = A_REASON.to_owned();
    team.apply(
        &TeamActor::Operator,
        TeamCommand::Retire { name: "hand".to_owned(), because, to: None, dead_letter: true },
    );
    assert_eq!(team.message_status(no).as_str(), "dead");
    let why = TeamRejection::NoMember { who: "hand".to_owned() };
    assert_eq!(team.reject(&TeamActor::Operator, post("hand", "b")), why);
}

#[test]
fn message_of_retired_member_cannot_be_requeued() {
    let mut team = TestTeam::paired();
    let no = team.post(&member("boss"), "hand", "a");
    let because = A_REASON.to_owned();
    let retire = TeamCommand::Retire {
        name: "hand".to_owned(),
        because: because.clone(),
        to: None,
        dead_letter: true,
    };
    team.apply(&TeamActor::Operator, retire);
    let why = TeamRejection::NoMember { who: "hand".to_owned() };
    assert_eq!(
        team.reject(&TeamActor::Operator, TeamCommand::Requeue { no, because, to: None }),
        why
    );
}

#[test]
fn successor_inherits_messages() {
    let mut team = TestTeam::paired();
    let held = team.post(&member("boss"), "hand", "a");
    let waits = team.post(&member("boss"), "hand", "b");
    let (_, lease) = team.take("hand");
    team.apply(
        &TeamActor::Operator,
        TeamCommand::Rotate {
            from: "hand".to_owned(),
            to: "second".to_owned(),
            session: None,
            handover: "half of the limits are in, the tests are red".to_owned(),
        },
    );
    assert_eq!(team.message(held).to, Recipient::Member("second".to_owned()));
    assert!(team.message(held).redelivered && !team.message(waits).redelivered);
    let late = TeamCommand::Acknowledge { no: held, lease, note: None };
    assert_eq!(
        team.reject(&member("hand"), late),
        TeamRejection::NoMember { who: "hand".to_owned() }
    );
    let onboarding = team.handle("second");
    assert!(team.message(onboarding).text.starts_with("half of the limits"), "first of all");
    assert_eq!([team.handle("second"), team.handle("second")], [held, waits]);
    let name = TeamCommand::Bind {
        name: "hand".to_owned(),
        role: provost_core::team::MemberRole::Worker,
        session: None,
        labels: Default::default(),
    };
    assert_eq!(
        team.reject(&TeamActor::Operator, name),
        TeamRejection::NameTaken("hand".to_owned())
    );
}

#[test]
fn d21_labels_do_not_affect_delivery() {
    let mut team = TestTeam::paired();
    let labels = provost_core::team::MemberLabels {
        thread: Some("wrong".to_owned()),
        title: Some("hand".to_owned()),
    };
    let before = team.post(&member("boss"), "hand", "a");
    team.apply(&TeamActor::Operator, TeamCommand::Label { name: "hand".to_owned(), labels });
    assert_eq!(team.handle("hand"), before);
}

#[test]
fn lease_has_a_deadline() {
    let mut team = TestTeam::paired();
    let no = team.post(&member("boss"), "hand", "a");
    team.now = 5;
    team.next("hand").expect("it waits");
    assert_eq!(lease_of(team.message_status(no)).until_ms, Some(15));
    assert_eq!(team.task.deadline(), Some(15));
    team.apply(&member("hand"), TeamCommand::Accept { no, lease: 1, polls: 0 });
    assert_eq!(team.task.deadline(), Some(105));
}

#[test]
fn key_is_per_sender_and_for_one_text() {
    let mut team = TestTeam::paired();
    let no = team.post(&member("boss"), "hand", "first");
    assert_eq!(team.post(&member("eye"), "hand", "first"), no + 1, "another says something else");
    assert_eq!(team.reject(&member("boss"), post("hand", "first")), TeamRejection::NothingNew);
    for other in [
        changed(post("hand", "first"), |post| post.text.push('!')),
        changed(post("hand", "first"), |post| post.to = Recipient::Member("eye".to_owned())),
    ] {
        let why = team.reject(&member("boss"), other);
        assert_eq!(why, TeamRejection::KeyTaken("first".to_owned()));
    }
}

#[test]
fn lease_before_requeue_is_stale() {
    let mut team = TestTeam::paired();
    let no = team.post(&member("boss"), "hand", "first");
    let (_, old) = team.take("hand");
    let reason = A_REASON.to_owned();
    team.apply(&member("boss"), TeamCommand::DeadLetter { no, reason: reason.clone() });
    team.apply(&member("boss"), TeamCommand::Requeue { no, because: reason, to: None });
    let (_, new) = team.take("hand");
    assert!(new > old && team.message(no).redelivered);
    let late = TeamCommand::Acknowledge { no, lease: old, note: None };
    assert_eq!(team.reject(&member("hand"), late.clone()), TeamRejection::StaleLease(no));
    team.apply(&member("hand"), TeamCommand::Acknowledge { no, lease: new, note: None });
    assert_eq!(team.reject(&member("hand"), late), TeamRejection::StaleLease(no), "afterwards too");
    let again = TeamCommand::Acknowledge { no, lease: new, note: None };
    assert_eq!(team.reject(&member("hand"), again), TeamRejection::NothingNew);
}

#[test]
fn unknown_lease_is_rejected() {
    let mut team = TestTeam::paired();
    let no = team.post(&member("boss"), "hand", "first");
    team.take("hand");
    let forged = TeamCommand::Acknowledge { no, lease: 9, note: None };
    assert_eq!(team.reject(&member("hand"), forged), TeamRejection::NoLease { no, lease: 9 });
}

#[test]
fn message_released_too_often_is_dead_lettered() {
    let mut team = TestTeam::paired();
    let no = team.post(&member("boss"), "hand", "first");
    for _ in 0..MAX_OFFERS {
        let (no, lease) = team.take("hand");
        let reason = A_REASON.to_owned();
        team.apply(&member("hand"), TeamCommand::Release { no, lease, reason });
    }
    assert_eq!(*team.message_status(no), MessageStatus::Dead { reason: A_REASON.to_owned() });
}

#[test]
fn reserved_member_names_are_rejected() {
    let mut team = TestTeam::paired();
    for name in ["operator", "Provost", "POLICY"] {
        let (name, labels) = (name.to_owned(), MemberLabels::default());
        let command = TeamCommand::Bind {
            name: name.clone(),
            role: MemberRole::Worker,
            session: None,
            labels,
        };
        // The error says that the name is reserved, not that another member has it.
        assert_eq!(team.reject(&TeamActor::Operator, command), TeamRejection::NameReserved(name));
    }
}

#[test]
fn key_is_known_after_message_eviction() {
    let mut team = TestTeam::paired();
    let first = team.post(&member("boss"), "hand", "first");
    team.handle("hand");
    for n in 0..MAX_SETTLED_KEPT {
        team.post(&member("boss"), "hand", &format!("n{n}"));
        team.handle("hand");
    }
    assert_eq!(team.task.message(first), None, "it is forgotten");
    let stored = team.task.messages_stored;
    assert_eq!(team.reject(&member("boss"), post("hand", "first")), TeamRejection::NothingNew);
    let other = changed(post("hand", "first"), |post| post.text = "something else".to_owned());
    let taken = TeamRejection::KeyTaken("first".to_owned());
    assert_eq!(team.reject(&member("boss"), other), taken);
    // Keys are per sender: the operator may use the same one.
    team.post(&TeamActor::Operator, "hand", "first");
    assert_eq!(team.task.messages_stored, stored + 1);
}

#[test]
fn only_newest_keys_are_kept() {
    let mut team = TestTeam::paired();
    for n in 0..MAX_SETTLED_KEPT + MAX_KEYS_KEPT + 3 {
        team.post(&member("boss"), "hand", &format!("n{n}"));
        team.handle("hand");
    }
    assert_eq!(team.task.evicted.len(), MAX_KEYS_KEPT);
    let oldest = team.task.evicted.first().map(|sent| sent.key.clone());
    assert_eq!(oldest.as_deref(), Some("n3"));
}

#[test]
fn many_expired_leases_return_in_one_step() {
    let mut team = TestTeam::paired();
    for n in 0..3_000 {
        let (to, key) = (if n % 3 == 0 { "hand" } else { "eye" }, format!("n{n}"));
        if team.try_apply(&member("boss"), post(to, &key)).is_ok() {
            team.take(to);
        }
    }
    let held = team.task.messages.len();
    assert!(held > 1_500, "{held} are held");
    team.now += 200;
    let steps = team.events.len();
    // `settle` panics after a hundred steps.
    team.advance();
    assert_eq!(team.events.len(), steps + held);
    let waits = |status: &MessageStatus| *status == MessageStatus::Stored;
    assert!(team.task.messages.iter().all(|message| waits(&message.status)));
}

#[test]
fn unknown_lease_of_handled_message_is_rejected() {
    let mut team = TestTeam::paired();
    team.post(&member("boss"), "hand", "a");
    let no = team.handle("hand");
    let acknowledge = |lease| TeamCommand::Acknowledge { no, lease, note: None };
    assert_eq!(team.reject(&member("hand"), acknowledge(1)), TeamRejection::NothingNew);
    let why = TeamRejection::NoLease { no, lease: 99 };
    assert_eq!(team.reject(&member("hand"), acknowledge(99)), why);
}

#[test]
fn handover_is_delivered_first_to_successor() {
    let mut team = TestTeam::paired();
    let mut urgent = post("hand", "urgent");
    if let TeamCommand::Post(post) = &mut urgent {
        post.priority = Priority::High;
    }
    team.apply(&member("boss"), urgent);
    let (from, to, session) = ("hand".to_owned(), "fresh".to_owned(), None);
    let handover = "the tests of one caller are there".to_owned();
    let rotate = TeamCommand::Rotate { from, to, session, handover: handover.clone() };
    team.apply(&TeamActor::Operator, rotate);
    let (no, _) = team.next("fresh").expect("there is a message");
    assert_eq!(team.message(no).text, handover);
}
