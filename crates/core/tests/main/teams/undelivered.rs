//! Messages that expire or are dead-lettered, and members that leave.

use provost_core::team::{
    BlockerWaiver, Event, EvidenceRequirement, FinishBlocker, FinishEvent, MAX_OFFERS, MemberRole,
    MessageStatus, MessageTrust, Recipient, TeamActor, TeamCommand, TeamMessage, TeamMessageKind,
    TeamPhase, TeamRejection,
};

use super::kit::{A_REASON, TestTeam, member, post, team_spec};

/// Returns the news messages to a member.
fn news_to<'d>(team: &'d TestTeam, to: &str) -> Vec<&'d str> {
    let news = |one: &&TeamMessage| one.kind == TeamMessageKind::News && one.to.name() == to;
    let all = team.task.messages.iter().map(AsRef::as_ref).filter(news);
    all.map(|message| message.text.as_str()).collect()
}

fn retire(name: &str, to: Option<&str>, dead_letter: bool) -> TeamCommand {
    let (name, because) = (name.to_owned(), A_REASON.to_owned());
    TeamCommand::Retire { name, because, to: to.map(str::to_owned), dead_letter }
}

fn requeue(no: u32, to: Option<&str>) -> TeamCommand {
    TeamCommand::Requeue { no, because: A_REASON.to_owned(), to: to.map(str::to_owned) }
}

#[test]
fn dead_letter_after_releases_notifies_sender() {
    let mut team = TestTeam::paired();
    let no = team.post(&TeamActor::Operator, "hand", "a");
    for _ in 0..MAX_OFFERS {
        let (no, lease) = team.take("hand");
        let reason = "cannot do it".to_owned();
        team.apply(&member("hand"), TeamCommand::Release { no, lease, reason });
    }
    team.advance();
    assert_eq!(team.message_status(no).as_str(), "dead");
    for to in ["operator", "boss"] {
        let messages = news_to(&team, to);
        assert!(messages.len() == 1 && messages[0].contains("cannot do it"), "{to}: {messages:?}");
    }
    team.advance();
    assert_eq!(news_to(&team, "boss").len(), 1, "once");
}

#[test]
fn expired_message_notifies_sender() {
    let mut team = TestTeam::paired();
    let TeamCommand::Post(mut post) = post("hand", "a") else { panic!("a post") };
    post.expires_in_ms = Some(5);
    team.apply(&member("boss"), TeamCommand::Post(post));
    team.advance_clock(10);
    let messages = news_to(&team, "boss");
    assert!(messages.len() == 1 && messages[0].contains("it expired"), "{messages:?}");
}

#[test]
fn dead_letter_without_manager_notifies_operator() {
    let mut team = TestTeam::open(team_spec());
    team.bind("hand", MemberRole::Worker, None);
    team.bind("arm", MemberRole::Worker, None);
    team.post(&member("arm"), "hand", "a");
    team.apply(&TeamActor::Operator, retire("hand", None, true));
    team.advance();
    let (operator, arm) = (news_to(&team, "operator"), news_to(&team, "arm"));
    assert!(operator.len() == 1 && operator[0].contains("hand has left"), "{operator:?}");
    assert_eq!(arm.len(), 1, "its sender");
}

#[test]
fn retire_with_open_messages_is_rejected() {
    let mut team = TestTeam::paired();
    team.post(&member("boss"), "hand", "a");
    let why = team.reject(&TeamActor::Operator, retire("hand", None, false));
    assert_eq!(why, TeamRejection::MessagesOpen { member: "hand".to_owned(), count: 1 });
    let why = team.reject(&TeamActor::Operator, retire("hand", Some("hand"), false));
    assert_eq!(why, TeamRejection::HandoverToSelf("hand".to_owned()));
    team.handle("hand");
    team.apply(&TeamActor::Operator, retire("hand", None, false));
}

#[test]
fn retire_hands_over_accepted_messages_too() {
    let mut team = TestTeam::paired();
    team.bind("arm", MemberRole::Worker, None);
    let first = team.post(&member("boss"), "hand", "a");
    let second = team.post(&member("boss"), "hand", "b");
    team.take("hand");
    team.apply(&TeamActor::Operator, retire("hand", Some("arm"), false));
    for (no, again) in [(first, true), (second, false)] {
        let message = team.message(no);
        assert_eq!(message.to, Recipient::Member("arm".to_owned()));
        assert_eq!((message.status.as_str(), message.redelivered), ("stored", again));
    }
    // The key still belongs to the handed-over message.
    assert_eq!(
        team.reject(&member("boss"), post("arm", "a")),
        TeamRejection::KeyTaken("a".to_owned())
    );
    assert_eq!(team.handle("arm"), first);
}

#[test]
fn dead_letter_is_readdressed_with_requeue() {
    let mut team = TestTeam::paired();
    let no = team.post(&member("boss"), "hand", "a");
    team.apply(&TeamActor::Operator, retire("hand", None, true));
    team.advance();
    let no_member = TeamRejection::NoMember { who: "hand".to_owned() };
    assert_eq!(team.reject(&TeamActor::Operator, requeue(no, None)), no_member);
    team.bind("arm", MemberRole::Worker, None);
    assert_eq!(team.task.dead_letters().count(), 1);
    team.apply(&TeamActor::Operator, requeue(no, Some("arm")));
    assert_eq!(team.task.dead_letters().count(), 0);
    assert_eq!(team.handle("arm"), no);
}

#[test]
fn requeue_keeps_worker_message_a_claim() {
    let mut team = TestTeam::paired();
    team.bind("arm", MemberRole::Worker, None);
    let no = team.post(&member("hand"), "boss", "a");
    team.apply(&TeamActor::Operator, retire("boss", None, true));
    team.apply(&TeamActor::Operator, requeue(no, Some("arm")));
    assert_eq!(team.message(no).trust, MessageTrust::Untrusted);
}

#[test]
fn cancelled_dead_letter_is_settled() {
    let mut team = TestTeam::paired();
    let no = team.post(&member("boss"), "hand", "a");
    team.apply(&TeamActor::Operator, retire("hand", None, true));
    assert_eq!(team.task.dead_letters().count(), 1);
    team.apply(
        &TeamActor::Operator,
        TeamCommand::CancelMessage { no, because: A_REASON.to_owned() },
    );
    assert_eq!(team.task.dead_letters().count(), 0);
}

#[test]
fn burying_member_is_not_notified() {
    let mut team = TestTeam::paired();
    let no = team.post(&TeamActor::Operator, "hand", "a");
    team.apply(&member("boss"), TeamCommand::DeadLetter { no, reason: A_REASON.to_owned() });
    team.advance();
    assert_eq!((news_to(&team, "operator").len(), news_to(&team, "boss").len()), (1, 0));
    assert_eq!(team.task.dead_letters().count(), 0, "it was laid aside on purpose");
}

#[test]
fn open_instruction_blocks_finish() {
    let mut team = TestTeam::paired();
    team.criterion(EvidenceRequirement::Asserted);
    team.apply(&TeamActor::Operator, satisfied());
    let no = team.post(&member("boss"), "hand", "a");
    let finish = |allow: &[BlockerWaiver]| TeamCommand::Finish {
        because: A_REASON.to_owned(),
        allow: allow.to_vec(),
    };
    let refused = team.apply(&member("boss"), finish(&[]));
    let open =
        FinishBlocker::InstructionOpen { member: "hand".to_owned(), messages: vec![no], count: 1 };
    assert!(
        matches!(&refused[..], [Event::Finish(FinishEvent::FinishRefused(e))] if e.blockers == [open.clone()])
    );
    let (_, lease) = team.take("hand");
    let refused = team.apply(&member("boss"), finish(&[]));
    assert!(
        matches!(&refused[..], [Event::Finish(FinishEvent::FinishRefused(_))]),
        "accepted is open, too"
    );
    // Only the operator may allow it, and the allowance is recorded.
    let allow = [BlockerWaiver::InstructionOpen];
    let why = team.reject(&member("boss"), finish(&allow));
    assert_eq!(why, TeamRejection::OperatorAllows(allow.to_vec()));
    team.apply(&TeamActor::Operator, finish(&allow));
    assert_eq!(team.task.phase, TeamPhase::Done { because: A_REASON.to_owned() });
    assert_eq!(team.task.allowed, [open]);
    assert_eq!(team.message_status(no).as_str(), "cancelled", "lease {lease} is settled");
}

fn satisfied() -> TeamCommand {
    let text = "read aloud with the support team".to_owned();
    let evidence =
        provost_core::team::CriterionEvidence::Asserted { text, by: "operator".to_owned() };
    let judgement = provost_core::team::CriterionJudgement::Satisfy { evidence };
    TeamCommand::Judge { no: 1, judgement }
}

#[test]
fn key_with_other_terms_is_a_conflict() {
    let mut team = TestTeam::paired();
    team.post(&member("boss"), "hand", "a");
    assert_eq!(team.reject(&member("boss"), post("hand", "a")), TeamRejection::NothingNew);
    let change = |change: fn(&mut provost_core::team::NewMessage)| {
        let TeamCommand::Post(mut post) = post("hand", "a") else { panic!("a post") };
        change(&mut post);
        TeamCommand::Post(post)
    };
    for other in [
        change(|post| post.priority = provost_core::team::Priority::High),
        change(|post| post.kind = TeamMessageKind::Note),
        change(|post| post.expires_in_ms = Some(1_000)),
        change(|post| post.correlation = Some("c".to_owned())),
        change(|post| post.steer = true),
    ] {
        let why = team.reject(&member("boss"), other);
        assert_eq!(why, TeamRejection::KeyTaken("a".to_owned()));
    }
    let status = team.message_status(1).clone();
    assert_eq!(status, MessageStatus::Stored);
}
