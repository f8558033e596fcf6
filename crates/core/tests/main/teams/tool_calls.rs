//! Tool calls of members: authorised by role, with the result of slow actions reported later.

use provost_core::{
    session::{AgentMessageKind, DeliveryStatus, OnFinish, SessionSpec, StreamSignal},
    team::{
        CheckSubject, Event, EvidenceRequirement, FinishEvent, JudgementKind, ManagerEvent,
        MemberCall, MemberRole, MessageChannel, MessageTrust, SendableKind, TeamAction, TeamActor,
        TeamCommand, TeamMessageKind, TeamRejection, TeamSpec,
    },
    verdict::CheckEnd,
};

use super::kit::{A_REASON, TestTeam, member, team_spec};
use crate::kit::{TURN_ENDED_OK, TestSession, receipt, spec};

/// A team with a worker that has a session and a manager without one.
fn with_sessions(task: TeamSpec) -> (TestTeam, TestSession) {
    let harness = TestSession::running(SessionSpec { on_finish: OnFinish::Park, ..spec() });
    let mut team = TestTeam::open(task);
    team.sessions.insert(harness.session.id, harness.session.clone());
    team.bind("hand", MemberRole::Worker, Some(harness.session.id));
    team.bind("boss", MemberRole::Manager, None);
    team.apply(&member("boss"), TeamCommand::AcknowledgeContract { revision: 0 });
    (team, harness)
}

fn send(to: &str, key: Option<&str>) -> MemberCall {
    MemberCall::Send {
        to: to.to_owned(),
        text: "some text".to_owned(),
        kind: SendableKind::Instruction,
        key: key.map(str::to_owned),
        correlation: None,
        steer: false,
    }
}

fn command(call: &MemberCall, name: &str) -> TeamCommand {
    call.to_command(name, "call-7").expect("it is well formed").expect("it asks for something")
}

#[test]
fn call_becomes_command_with_member_key() {
    let TeamCommand::Post(post) = command(&send("hand", Some("k")), "boss") else {
        panic!("a post")
    };
    assert_eq!((post.key.as_str(), post.channel), ("boss/k", MessageChannel::Tool));
    let TeamCommand::Post(post) = command(&send("hand", None), "boss") else { panic!("a post") };
    assert_eq!(post.key, "call-7");
    let look = MemberCall::Status {};
    assert_eq!(look.to_command("boss", "call-7"), Ok(None));
}

#[test]
fn d14_d22_worker_calls_are_limited_by_role() {
    let (team, _) = with_sessions(team_spec());
    let because = A_REASON.to_owned();
    let calls = [
        MemberCall::StopLoop { because: because.clone() },
        MemberCall::Finish { because: because.clone() },
        MemberCall::Interrupt { member: "boss".to_owned(), text: None },
        MemberCall::Compact { member: "boss".to_owned() },
        MemberCall::Continue {
            iteration: 2,
            to: "hand".to_owned(),
            text: because.clone(),
            key: None,
        },
        MemberCall::JudgeCriterion {
            criterion: 1,
            judgement: JudgementKind::Satisfy,
            because: Some(because),
        },
    ];
    for call in calls {
        let command = command(&call, "hand");
        let why = team.decide(&member("hand"), &command).expect_err("it may not");
        assert_eq!(why.code(), "not_for_role", "{call:?}");
        let kept = team.task.refusal_event(&member("hand"), &command, &why);
        let Some(Event::Manager(ManagerEvent::ActionRefused(kept))) = kept else {
            panic!("a refusal is kept")
        };
        assert_eq!((kept.by, kept.code.as_str()), (member("hand"), "not_for_role"));
        assert_eq!(Some(kept.action), command.action());
    }
}

#[test]
fn refusal_of_user_or_no_op_is_not_recorded() {
    let (team, _) = with_sessions(team_spec());
    let look = TeamCommand::StopLoop { because: A_REASON.to_owned() };
    let denied = TeamRejection::NotGranted(TeamAction::Loop);
    assert_eq!(team.task.refusal_event(&TeamActor::Operator, &look, &denied), None);
    assert_eq!(team.task.refusal_event(&member("boss"), &look, &TeamRejection::NothingNew), None);
    let kept = team.task.refusal_event(&member("boss"), &look, &denied);
    let Some(Event::Manager(ManagerEvent::ActionRefused(kept))) = kept else {
        panic!("a refusal is kept")
    };
    assert_eq!((kept.action, kept.code.as_str()), (TeamAction::Loop, "not_granted"));
}

#[test]
fn manager_interrupt_reports_why_it_failed() {
    let (mut team, mut harness) = with_sessions(team_spec());
    harness.signal(StreamSignal::TurnStarted { turn: None });
    team.sessions.insert(harness.session.id, harness.session.clone());
    let call =
        MemberCall::Interrupt { member: "hand".to_owned(), text: Some("try it so".to_owned()) };
    team.apply(&member("boss"), command(&call, "boss"));
    let messages = &team.sessions[&harness.session.id].input.messages;
    let kinds: Vec<AgentMessageKind> =
        messages.iter().filter(|m| m.status == DeliveryStatus::Queued).map(|m| m.kind).collect();
    assert!(
        kinds.contains(&AgentMessageKind::Interrupt) && kinds.contains(&AgentMessageKind::Steer)
    );
    let steered =
        messages.iter().find(|m| m.kind == AgentMessageKind::Steer).map(|m| m.text.as_str());
    let head = "[provost message of team \"limits\": instruction from boss, who interrupted you]";
    assert_eq!(steered, Some(format!("{head}\ntry it so").as_str()));
    let again = team.reject(&member("boss"), command(&call, "boss"));
    assert_eq!(again, TeamRejection::NothingNew, "it leaves its turn already");
    harness.signal(TURN_ENDED_OK).signal(TURN_ENDED_OK);
    team.sessions.insert(harness.session.id, harness.session.clone());
    let why = team.reject(&member("boss"), command(&call, "boss"));
    assert_eq!(why.code(), "session_rejected", "{why}");
    let own = MemberCall::Interrupt { member: "boss".to_owned(), text: None };
    assert_eq!(team.reject(&member("boss"), command(&own, "boss")).code(), "session_rejected");
}

#[test]
fn check_result_is_sent_once_to_requester() {
    let (mut team, _) = with_sessions(team_spec());
    let no = team.criterion(EvidenceRequirement::Verified { check: "test".to_owned() });
    team.apply(&member("hand"), TeamCommand::Check { what: CheckSubject::Criterion(no) });
    let mut failed = receipt("tree", "test", CheckEnd::Exit(3));
    failed.tail = "two tests failed".to_owned();
    let done = TeamCommand::CheckDone { no: 1, receipt: Box::new(failed), compared: None };
    team.apply(&TeamActor::Provost, done.clone());
    assert_eq!(team.reject(&TeamActor::Provost, done), TeamRejection::NothingNew);
    let results: Vec<_> = team.task.messages.iter().filter(|m| m.to.name() == "hand").collect();
    let [results] = results.as_slice() else { panic!("{results:?}") };
    assert_eq!(
        (results.kind, results.trust, &results.from),
        (TeamMessageKind::News, MessageTrust::Untrusted, &TeamActor::Provost)
    );
    assert!(results.text.contains("`test` exited with 3"), "{}", results.text);
    assert!(results.text.contains("two tests failed"), "{}", results.text);
}

#[test]
fn finish_audit_result_is_sent_to_requester() {
    let checked = TeamSpec { checks: vec!["test".to_owned()], ..team_spec() };
    let (mut team, mut harness) = with_sessions(checked);
    let finish = || TeamCommand::Finish { because: A_REASON.to_owned(), allow: Vec::new() };
    let end = |end, no| {
        let receipt = Box::new(receipt("tree", "test", end));
        TeamCommand::CheckDone { no, receipt, compared: None }
    };
    let refused = team.apply(&member("boss"), finish());
    let [Event::Finish(FinishEvent::FinishRefused(refused))] = refused.as_slice() else {
        panic!("{refused:?}")
    };
    assert_eq!(refused.blockers[0].code(), "member_working");
    harness.signal(TURN_ENDED_OK).signal(TURN_ENDED_OK);
    team.sessions.insert(harness.session.id, harness.session.clone());
    team.apply(&member("boss"), finish());
    team.apply(&TeamActor::Provost, end(CheckEnd::Exit(1), 1));
    let results: Vec<_> =
        team.task.messages.iter().filter(|m| m.kind == TeamMessageKind::News).collect();
    let [results] = results.as_slice() else { panic!("{results:?}") };
    assert_eq!(results.to.name(), "boss");
    assert!(results.text.contains("check_failed"), "{}", results.text);
    // A manager with a session is notified of the successful finish too, although the team is done by then.
    let (from, to) = ("hand".to_owned(), "idle".to_owned());
    let handover = "the worker goes on elsewhere".to_owned();
    team.apply(&TeamActor::Operator, TeamCommand::Rotate { from, to, session: None, handover });
    team.bind("third", MemberRole::Manager, Some(harness.session.id));
    team.apply(&member("third"), TeamCommand::AcknowledgeContract { revision: 0 });
    team.apply(&member("third"), finish());
    team.apply(&TeamActor::Provost, end(CheckEnd::Exit(0), 2));
    assert_eq!(team.task.phase.as_str(), "done");
    let sent = &team.sessions[&harness.session.id].input.messages;
    assert!(sent.iter().any(|sent| sent.text.contains("the team is done")), "{sent:?}");
}
