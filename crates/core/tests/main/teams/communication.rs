//! How sessions and members receive messages, and onboarding of members bound in mid-conversation.

use insta::assert_snapshot;
use provost_core::{
    session::{
        AgentChannel, AgentInterface, CommandStdin, ExternalAgent, OnFinish, ProcessExit,
        ReceiveMode, SessionSpec, StreamSignal, TeamMembership, TmuxPane,
    },
    team::{
        Communication, MemberMode, MemberRole, MessageStatus, MessageTrust, ProvostInvocation,
        Recipient, TeamActor, TeamCommand, TeamMessage, TeamMessageKind, build_handoff,
        build_heartbeats,
    },
};

use super::kit::{TestTeam, member, team_spec};
use crate::interfaces;
use crate::kit::{TURN_ENDED_OK, TestSession, spec};

fn spec_with(interface: AgentInterface) -> SessionSpec {
    let mut spec = SessionSpec { on_finish: OnFinish::Park, ..spec() };
    spec.agent.interface = interface;
    spec
}

fn adopted(pane: bool) -> SessionSpec {
    let pane = pane.then(|| TmuxPane { socket: "s".to_owned(), id: "%1".to_owned(), server: None });
    let adopted = ExternalAgent { pane, thread: Some("t".to_owned()), ..ExternalAgent::default() };
    SessionSpec { adopted: Some(Box::new(adopted)), ..spec_with(interfaces::screen()) }
}

fn communication_summary(harness: &TestSession) -> (&'static str, &'static str, bool, bool) {
    let how = Communication::for_session(&harness.session);
    assert_eq!((how.receive_command.as_ref(), how.via, how.note()), (None, None, None));
    (how.channel_kind(), how.receive.as_str(), how.can_push(), how.needs_wake())
}

#[test]
fn communication_of_every_session_kind() {
    let mut listens = spec_with(AgentInterface::command());
    listens.agent.input = CommandStdin::Open;
    let all = [
        (spec_with(interfaces::server()), ("protocol", "turns", true, false)),
        (spec_with(AgentInterface::json_lines()), ("protocol", "turns", true, false)),
        (spec_with(interfaces::screen()), ("terminal", "typed", true, false)),
        (spec_with(AgentInterface::terminal_command()), ("terminal", "nothing", false, false)),
        (spec_with(interfaces::one_shot()), ("once", "nothing", false, false)),
        (spec_with(AgentInterface::command()), ("pipe", "nothing", false, false)),
        (listens, ("pipe", "written", true, false)),
        (adopted(true), ("pane", "typed", true, false)),
        (adopted(false), ("watched", "nothing", false, false)),
    ];
    for (spec, expected) in all {
        // The answer is known as soon as the session is opened.
        assert_eq!(communication_summary(&TestSession::new(spec)), expected);
    }
}

#[test]
fn ended_session_receives_only_if_resumable() {
    let mut listens = spec_with(AgentInterface::command());
    listens.agent.input = CommandStdin::Open;
    for (spec, expected) in [
        (listens, ReceiveMode::Nothing),
        (spec_with(AgentInterface::json_lines()), ReceiveMode::Turns),
    ] {
        let mut harness = TestSession::running(spec);
        harness.end(ProcessExit::Exit(0));
        harness.settle();
        assert!(harness.sealed());
        assert_eq!(Communication::for_session(&harness.session).receive, expected);
    }
    let mut harness = TestSession::running(spec_with(interfaces::one_shot()));
    harness.signal(StreamSignal::Ready { thread: Some("t".to_owned()) });
    harness.signal(TURN_ENDED_OK).end(ProcessExit::Exit(0));
    harness.settle();
    assert_eq!(communication_summary(&harness), ("once", "turns", true, false));
}

/// A team with a manager and a worker whose existing session is bound now.
fn with_bound_worker(mut harness: TestSession) -> (TestTeam, TestSession) {
    harness
        .signal(StreamSignal::TurnStarted { turn: None })
        .signal(TURN_ENDED_OK)
        .signal(TURN_ENDED_OK);
    let mut team = TestTeam::open(team_spec());
    team.now = harness.now.mono_ms;
    team.sessions.insert(harness.session.id, harness.session.clone());
    team.bind("hand", MemberRole::Worker, Some(harness.session.id));
    team.bind("boss", MemberRole::Manager, None);
    team.advance();
    (team, harness)
}

fn messages_to_worker(team: &TestTeam) -> Vec<&TeamMessage> {
    let to_hand = Recipient::Member("hand".to_owned());
    team.task.messages.iter().filter(|message| message.to == to_hand).map(AsRef::as_ref).collect()
}

fn communication_of(team: &TestTeam, name: &str) -> Communication {
    let member = team.task.member(name).expect("it is bound");
    Communication::for_member(&team.task, member, &ProvostInvocation::default())
}

#[test]
fn member_without_session_pulls_by_command() {
    let how = communication_of(&TestTeam::paired(), "hand");
    assert_eq!((how.channel_kind(), how.receive), ("pull", ReceiveMode::Polls));
    assert_eq!((how.can_push(), how.needs_wake()), (false, true));
    let command = how.receive_command.expect("it asks");
    assert!(command.starts_with("provost team next -t 0"), "{command}");
    assert!(command.contains("--as hand"), "{command}");
}

#[test]
fn late_member_is_onboarded_once_with_commands() {
    let (mut team, _) = with_bound_worker(TestSession::running(spec_with(interfaces::screen())));
    team.advance();
    let [only] = messages_to_worker(&team)[..] else {
        panic!("once: {:?}", messages_to_worker(&team))
    };
    assert_eq!((only.kind, only.trust), (TeamMessageKind::Instruction, MessageTrust::Trusted));
    assert_eq!(only.from, TeamActor::Provost);
    for part in ["limit how often each caller may call", "as turns", "provost team send -t"] {
        assert!(only.text.contains(part), "{part}: {}", only.text);
    }
    assert!(!only.text.contains("provost_team_"), "{}", only.text);
    let how = communication_of(&team, "hand");
    assert_eq!((how.line, how.receive), (Some(AgentChannel::Terminal), ReceiveMode::Typed));
    assert_eq!((how.via, how.receive_command), (Some(MemberMode::CommandsPushed), None));
    assert!(how.via.is_some_and(|via| via.as_str() == "commands"));
    let given =
        build_handoff(&team.task, "hand", &ProvostInvocation::default()).expect("it is bound");
    assert_eq!(
        (given.heartbeat, given.via),
        (None, MemberMode::CommandsPushed),
        "Provost wakes it"
    );
    let beats =
        build_heartbeats(&team.task, &ProvostInvocation::default()).expect("the manager asks");
    assert_eq!(beats.worker, None);
}

#[test]
fn late_worker_contract() {
    let mut late = spec_with(interfaces::screen());
    late.agent.input = CommandStdin::Closed;
    let (team, _) = with_bound_worker(TestSession::running(late));
    assert_snapshot!(messages_to_worker(&team)[0].text);
}

#[test]
fn late_member_with_tools_is_onboarded_with_tools() {
    let mut as_member = spec_with(interfaces::server());
    as_member.agent.settings.member = Some(TeamMembership { role: MemberRole::Worker });
    for spec in [as_member, spec_with(AgentInterface::json_lines())] {
        let mut harness = TestSession::running(spec);
        harness.signal(StreamSignal::Ready { thread: Some("t".to_owned()) });
        let (team, _) = with_bound_worker(harness);
        assert_eq!(messages_to_worker(&team).len(), 1, "it was there for something else");
        assert!(messages_to_worker(&team)[0].text.contains("provost_team_send"));
        assert_eq!(communication_of(&team, "hand").via, Some(MemberMode::Tools));
    }
}

#[test]
fn session_started_for_team_needs_no_onboarding() {
    let mut as_member = spec_with(interfaces::server());
    as_member.agent.settings.member = Some(TeamMembership { role: MemberRole::Worker });
    let harness = TestSession::new(as_member);
    let mut team = TestTeam::open(team_spec());
    team.sessions.insert(harness.session.id, harness.session.clone());
    team.bind("hand", MemberRole::Worker, Some(harness.session.id));
    team.advance();
    assert_eq!(messages_to_worker(&team), Vec::<&TeamMessage>::new());
    let how = communication_of(&team, "hand");
    assert_eq!((how.channel_kind(), how.receive), ("protocol", ReceiveMode::Turns));
    assert_eq!((how.via, how.note()), (Some(MemberMode::Tools), None));
}

#[test]
fn adopted_member_pulls_its_messages() {
    for pane in [true, false] {
        let harness = TestSession::new(adopted(pane));
        let mut team = TestTeam::open(team_spec());
        team.sessions.insert(harness.session.id, harness.session.clone());
        team.bind("hand", MemberRole::Worker, Some(harness.session.id));
        team.advance();
        assert_eq!(
            messages_to_worker(&team),
            Vec::<&TeamMessage>::new(),
            "nothing is typed to it by the task"
        );
        let how = communication_of(&team, "hand");
        assert_eq!((how.receive, how.needs_wake()), (ReceiveMode::Polls, true));
        assert!(how.receive_command.is_some());
        assert_eq!(how.channel_kind(), if pane { "pane" } else { "watched" });
        let given =
            build_handoff(&team.task, "hand", &ProvostInvocation::default()).expect("it is bound");
        assert!(given.heartbeat.is_some());
    }
}

#[test]
fn successor_gets_handover_not_old_onboarding() {
    let (mut team, harness) =
        with_bound_worker(TestSession::running(spec_with(interfaces::screen())));
    let mut next = harness.session;
    next.id = provost_core::ids::SessionId(uuid::Uuid::from_u128(9));
    team.sessions.insert(next.id, next.clone());
    let waits = messages_to_worker(&team)[0].no;
    // The session has not received it yet.
    team.alter_messages(|message| message.status = MessageStatus::Stored);
    let rotate = TeamCommand::Rotate {
        from: "hand".to_owned(),
        to: "next".to_owned(),
        session: Some(next.id),
        handover: "the tests are written, the limit is not".to_owned(),
    };
    team.apply(&TeamActor::Operator, rotate);
    team.advance();
    assert_eq!(team.message_status(waits).as_str(), "cancelled");
    let to_next = Recipient::Member("next".to_owned());
    let for_next: Vec<&TeamMessage> = team
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
fn forged_onboarding_key_has_no_effect() {
    let mut team = TestTeam::paired();
    team.post(&member("boss"), "hand", "handoff-hand");
    let hand = team.task.member("hand").expect("it is bound");
    assert!(!hand.onboarded);
}
