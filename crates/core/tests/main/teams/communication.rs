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

fn communication_summary(bench: &TestSession) -> (&'static str, &'static str, bool, bool) {
    let how = Communication::for_session(&bench.session);
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
        let mut bench = TestSession::running(spec);
        bench.end(ProcessExit::Exit(0));
        bench.settle();
        assert!(bench.sealed());
        assert_eq!(Communication::for_session(&bench.session).receive, expected);
    }
    let mut bench = TestSession::running(spec_with(interfaces::one_shot()));
    bench.signal(StreamSignal::Ready { thread: Some("t".to_owned()) });
    bench.signal(TURN_ENDED_OK).end(ProcessExit::Exit(0));
    bench.settle();
    assert_eq!(communication_summary(&bench), ("once", "turns", true, false));
}

/// A team with a manager and a worker whose existing session is bound now.
fn with_bound_worker(mut bench: TestSession) -> (TestTeam, TestSession) {
    bench
        .signal(StreamSignal::TurnStarted { turn: None })
        .signal(TURN_ENDED_OK)
        .signal(TURN_ENDED_OK);
    let mut desk = TestTeam::open(team_spec());
    desk.now = bench.now.mono_ms;
    desk.sessions.insert(bench.session.id, bench.session.clone());
    desk.bind("hand", MemberRole::Worker, Some(bench.session.id));
    desk.bind("boss", MemberRole::Manager, None);
    desk.advance();
    (desk, bench)
}

fn messages_to_worker(desk: &TestTeam) -> Vec<&TeamMessage> {
    let to_hand = Recipient::Member("hand".to_owned());
    desk.task.messages.iter().filter(|message| message.to == to_hand).map(AsRef::as_ref).collect()
}

fn communication_of(desk: &TestTeam, name: &str) -> Communication {
    let member = desk.task.member(name).expect("it is bound");
    Communication::for_member(&desk.task, member, &ProvostInvocation::default())
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
    let (mut desk, _) = with_bound_worker(TestSession::running(spec_with(interfaces::screen())));
    desk.advance();
    let [only] = messages_to_worker(&desk)[..] else {
        panic!("once: {:?}", messages_to_worker(&desk))
    };
    assert_eq!((only.kind, only.trust), (TeamMessageKind::Instruction, MessageTrust::Trusted));
    assert_eq!(only.from, TeamActor::Provost);
    for part in ["limit how often each caller may call", "as turns", "provost team send -t"] {
        assert!(only.text.contains(part), "{part}: {}", only.text);
    }
    assert!(!only.text.contains("provost_team_"), "{}", only.text);
    let how = communication_of(&desk, "hand");
    assert_eq!((how.line, how.receive), (Some(AgentChannel::Terminal), ReceiveMode::Typed));
    assert_eq!((how.via, how.receive_command), (Some(MemberMode::CommandsPushed), None));
    assert!(how.via.is_some_and(|via| via.as_str() == "commands"));
    let given =
        build_handoff(&desk.task, "hand", &ProvostInvocation::default()).expect("it is bound");
    assert_eq!(
        (given.heartbeat, given.via),
        (None, MemberMode::CommandsPushed),
        "Provost wakes it"
    );
    let beats =
        build_heartbeats(&desk.task, &ProvostInvocation::default()).expect("the manager asks");
    assert_eq!(beats.worker, None);
}

#[test]
fn late_worker_contract() {
    let mut late = spec_with(interfaces::screen());
    late.agent.input = CommandStdin::Closed;
    let (desk, _) = with_bound_worker(TestSession::running(late));
    assert_snapshot!(messages_to_worker(&desk)[0].text);
}

#[test]
fn late_member_with_tools_is_onboarded_with_tools() {
    let mut as_member = spec_with(interfaces::server());
    as_member.agent.settings.member = Some(TeamMembership { role: MemberRole::Worker });
    for spec in [as_member, spec_with(AgentInterface::json_lines())] {
        let mut bench = TestSession::running(spec);
        bench.signal(StreamSignal::Ready { thread: Some("t".to_owned()) });
        let (desk, _) = with_bound_worker(bench);
        assert_eq!(messages_to_worker(&desk).len(), 1, "it was there for something else");
        assert!(messages_to_worker(&desk)[0].text.contains("provost_team_send"));
        assert_eq!(communication_of(&desk, "hand").via, Some(MemberMode::Tools));
    }
}

#[test]
fn session_started_for_team_needs_no_onboarding() {
    let mut as_member = spec_with(interfaces::server());
    as_member.agent.settings.member = Some(TeamMembership { role: MemberRole::Worker });
    let bench = TestSession::new(as_member);
    let mut desk = TestTeam::open(team_spec());
    desk.sessions.insert(bench.session.id, bench.session.clone());
    desk.bind("hand", MemberRole::Worker, Some(bench.session.id));
    desk.advance();
    assert_eq!(messages_to_worker(&desk), Vec::<&TeamMessage>::new());
    let how = communication_of(&desk, "hand");
    assert_eq!((how.channel_kind(), how.receive), ("protocol", ReceiveMode::Turns));
    assert_eq!((how.via, how.note()), (Some(MemberMode::Tools), None));
}

#[test]
fn adopted_member_pulls_its_messages() {
    for pane in [true, false] {
        let bench = TestSession::new(adopted(pane));
        let mut desk = TestTeam::open(team_spec());
        desk.sessions.insert(bench.session.id, bench.session.clone());
        desk.bind("hand", MemberRole::Worker, Some(bench.session.id));
        desk.advance();
        assert_eq!(
            messages_to_worker(&desk),
            Vec::<&TeamMessage>::new(),
            "nothing is typed to it by the task"
        );
        let how = communication_of(&desk, "hand");
        assert_eq!((how.receive, how.needs_wake()), (ReceiveMode::Polls, true));
        assert!(how.receive_command.is_some());
        assert_eq!(how.channel_kind(), if pane { "pane" } else { "watched" });
        let given =
            build_handoff(&desk.task, "hand", &ProvostInvocation::default()).expect("it is bound");
        assert!(given.heartbeat.is_some());
    }
}

#[test]
fn successor_gets_handover_not_old_onboarding() {
    let (mut desk, bench) =
        with_bound_worker(TestSession::running(spec_with(interfaces::screen())));
    let mut next = bench.session;
    next.id = provost_core::ids::SessionId(uuid::Uuid::from_u128(9));
    desk.sessions.insert(next.id, next.clone());
    let waits = messages_to_worker(&desk)[0].no;
    // The session has not received it yet.
    desk.alter_messages(|message| message.status = MessageStatus::Stored);
    let rotate = TeamCommand::Rotate {
        from: "hand".to_owned(),
        to: "next".to_owned(),
        session: Some(next.id),
        handover: "the tests are written, the limit is not".to_owned(),
    };
    desk.apply(&TeamActor::Operator, rotate);
    desk.advance();
    assert_eq!(desk.message_status(waits).as_str(), "cancelled");
    let to_next = Recipient::Member("next".to_owned());
    let for_next: Vec<&TeamMessage> = desk
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
    let mut desk = TestTeam::paired();
    desk.post(&member("boss"), "hand", "handoff-hand");
    let hand = desk.task.member("hand").expect("it is bound");
    assert!(!hand.onboarded);
}
