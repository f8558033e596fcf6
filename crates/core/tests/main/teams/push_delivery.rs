//! Push delivery to sessions that Provost drives: messages are pushed while they idle, and their events are reported.

use provost_core::{
    ids::SessionId,
    limits::MAX_FAILED_STARTS,
    session::{
        self, AgentInterface, DeliveryStatus, OnFinish, ProcessExit, SendMode, SessionSpec,
        StreamSignal, TeamMembership,
    },
    team::{
        DeliveryMode, MAX_OFFERS, MemberRole, MessageStatus, MessageTrust, NewMessage, Recipient,
        TeamActor, TeamCommand, TeamMessageKind,
    },
};
use uuid::Uuid;

use super::kit::{A_REASON, TestTeam, lease_of, member, team_spec, template};
use crate::interfaces;
use crate::kit::{TURN_ENDED_OK, TestSession, question, send, snapshot, spec};

/// A team with a worker's running session and a manager who pulls its messages.
fn with_working_session() -> (TestTeam, TestSession) {
    let harness = TestSession::running(SessionSpec { on_finish: OnFinish::Park, ..spec() });
    let mut team = TestTeam::open(team_spec());
    team.bind("hand", MemberRole::Worker, Some(harness.session.id));
    team.bind("boss", MemberRole::Manager, None);
    team.apply(&member("boss"), TeamCommand::AcknowledgeContract { revision: 0 });
    (team, harness)
}

/// Syncs the session into the team and the team's commands back into the session.
fn sync(team: &mut TestTeam, harness: &mut TestSession) {
    team.now = team.now.max(harness.now.mono_ms);
    team.sessions.insert(harness.session.id, harness.session.clone());
    team.advance();
    harness.session = team.sessions[&harness.session.id].clone();
    harness.advance();
    team.sessions.insert(harness.session.id, harness.session.clone());
}

/// Ends the agent's turn and the turn that asks for its result.
fn end_turns(harness: &mut TestSession) {
    harness.signal(TURN_ENDED_OK).signal(TURN_ENDED_OK);
}

fn news(team: &TestTeam) -> Vec<&str> {
    let to_boss = Recipient::Member("boss".to_owned());
    let all =
        team.task.messages.iter().filter(|m| m.kind == TeamMessageKind::News && m.to == to_boss);
    all.map(|message| message.text.as_str()).collect()
}

#[test]
fn message_is_pushed_only_between_turns() {
    let (mut team, mut harness) = with_working_session();
    harness.signal(StreamSignal::TurnStarted { turn: None });
    let no = team.post(&member("boss"), "hand", "a");
    sync(&mut team, &mut harness);
    assert_eq!(*team.message_status(no), MessageStatus::Stored);
    end_turns(&mut harness);
    sync(&mut team, &mut harness);
    let DeliveryMode::Push { session, key, .. } = &lease_of(team.message_status(no)).delivery
    else {
        panic!("a push")
    };
    assert_eq!(*session, harness.session.id);
    let sent =
        harness.session.input.messages.iter().find(|sent| sent.key == *key).expect("it is queued");
    assert!(sent.text.contains("the text of a"), "{}", sent.text);
}

#[test]
fn d5_stopping_session_gets_no_messages() {
    let (mut team, mut harness) = with_working_session();
    harness.apply(session::SessionCommand::Stop).signal(TURN_ENDED_OK);
    let no = team.post(&member("boss"), "hand", "a");
    sync(&mut team, &mut harness);
    assert_eq!(*team.message_status(no), MessageStatus::Stored, "it waits");
}

#[test]
fn stopped_session_is_not_woken_until_resumed() {
    let (mut team, mut harness) = with_working_session();
    let before = team.post(&member("boss"), "hand", "a");
    harness
        .apply(session::SessionCommand::Stop)
        .signal(TURN_ENDED_OK)
        .end(ProcessExit::Signal(15))
        .settle();
    assert!(harness.sealed());
    let after = team.post(&member("boss"), "hand", "b");
    sync(&mut team, &mut harness);
    for no in [before, after] {
        assert_eq!(*team.message_status(no), MessageStatus::Stored, "it waits");
    }
    let launches = harness.session.launches.len();
    harness.apply(send("go-on", SendMode::Continue));
    harness.start();
    harness.signal(StreamSignal::InputWritten { key: "instruction-2".to_owned() });
    harness.signal(StreamSignal::TurnStarted { turn: None });
    end_turns(&mut harness);
    sync(&mut team, &mut harness);
    assert_eq!(harness.session.launches.len(), launches + 1);
    assert_eq!(team.message_status(before).as_str(), "offered");
}

#[test]
fn d5_pushed_message_is_consumed_and_not_pulled() {
    let (mut team, mut harness) = with_working_session();
    end_turns(&mut harness);
    let no = team.post(&member("boss"), "hand", "a");
    let second = team.post(&member("boss"), "hand", "b");
    sync(&mut team, &mut harness);
    assert_eq!(team.message_status(no).as_str(), "offered");
    assert_eq!(*team.message_status(second), MessageStatus::Stored, "one at a time");
    let DeliveryMode::Push { key, .. } = lease_of(team.message_status(no)).delivery.clone() else {
        panic!("a push")
    };
    let unsent: Vec<String> = harness
        .session
        .input
        .messages
        .iter()
        .filter(|sent| sent.status == DeliveryStatus::Queued)
        .map(|sent| sent.key.clone())
        .collect();
    for key in unsent {
        harness.signal(StreamSignal::InputWritten { key });
    }
    assert!(harness.session.input.messages.iter().any(|sent| sent.key == key));
    harness.signal(StreamSignal::TurnStarted { turn: None });
    sync(&mut team, &mut harness);
    assert_eq!(
        *team.message_status(no),
        MessageStatus::Acknowledged { by: "hand".to_owned(), lease: 1 }
    );
    let pulled = TeamCommand::Next { consumer: "hand".to_owned() };
    let events = team.apply(&member("hand"), pulled);
    assert_eq!(events.iter().find_map(super::kit::offered_lease).map(|(no, _)| no), Some(second));
}

#[test]
fn d6_turn_end_is_reported_to_manager_once() {
    let (mut team, mut harness) = with_working_session();
    sync(&mut team, &mut harness);
    let before = news(&team).len();
    harness.signal(StreamSignal::TurnStarted { turn: None });
    end_turns(&mut harness);
    sync(&mut team, &mut harness);
    sync(&mut team, &mut harness);
    assert_eq!(news(&team).len(), before + 1);
    let message = team.task.messages.iter().find(|message| message.kind == TeamMessageKind::News);
    assert_eq!(message.map(|message| message.trust), Some(MessageTrust::Untrusted));
}

#[test]
fn d6_question_and_exit_are_reported_once_each() {
    let (mut team, mut harness) = with_working_session();
    harness.signal(StreamSignal::TurnStarted { turn: None });
    harness.signal(StreamSignal::RequestOpened(question("q")));
    sync(&mut team, &mut harness);
    let asked = news(&team).len();
    assert_eq!(asked, 1);
    team.handle("boss");
    harness.end(ProcessExit::Signal(9));
    harness.settle();
    sync(&mut team, &mut harness);
    let messages: Vec<String> = news(&team).into_iter().map(str::to_owned).collect();
    assert_eq!(messages.len(), asked + 1, "{messages:?}");
    sync(&mut team, &mut harness);
    assert_eq!(news(&team).len(), messages.len());
}

#[test]
fn ended_session_gets_next_instruction() {
    let (mut team, mut harness) = with_working_session();
    harness.claim(provost_core::lifecycle::ClaimKind::Completed);
    harness.signal(TURN_ENDED_OK).end(ProcessExit::Exit(0));
    harness.settle();
    assert!(harness.sealed());
    let no = team.post(&member("boss"), "hand", "a");
    sync(&mut team, &mut harness);
    assert_eq!(harness.session.attempt().no, 2, "it began its next attempt");
    let DeliveryMode::Push { key, .. } = &lease_of(team.message_status(no)).delivery else {
        panic!("a push")
    };
    assert_eq!(key, "instruction-2");
    assert!(harness.session.input.messages.iter().any(|sent| sent.key == *key));
}

#[test]
fn d3_undelivered_push_is_retried_then_dead_lettered() {
    let (mut team, mut harness) = with_working_session();
    end_turns(&mut harness);
    let no = team.post(&member("boss"), "hand", "a");
    let reason = "the agent's input was closed".to_owned();
    for offer in 1..=MAX_OFFERS {
        sync(&mut team, &mut harness);
        let lease = lease_of(team.message_status(no)).clone();
        assert_eq!(lease.no, offer);
        let DeliveryMode::Push { key, .. } = lease.delivery else { panic!("a push") };
        harness.apply(session::SessionCommand::MessageLost { key, reason: reason.clone() });
    }
    sync(&mut team, &mut harness);
    assert_eq!(*team.message_status(no), MessageStatus::Dead { reason });
}

#[test]
fn d3_message_queued_at_exit_is_next_instruction() {
    let (mut team, mut harness) = with_working_session();
    end_turns(&mut harness);
    let no = team.post(&member("boss"), "hand", "a");
    sync(&mut team, &mut harness);
    harness.end(ProcessExit::Exit(0));
    harness.settle();
    assert!(harness.sealed());
    sync(&mut team, &mut harness);
    let DeliveryMode::Push { key, .. } = lease_of(team.message_status(no)).delivery.clone() else {
        panic!("a push")
    };
    assert_eq!(key, "instruction-2");
}

#[test]
fn claim_is_sealed_before_next_push() {
    let (mut team, mut harness) = with_working_session();
    harness.claim(provost_core::lifecycle::ClaimKind::Completed);
    harness.signal(TURN_ENDED_OK);
    let no = team.post(&member("boss"), "hand", "a");
    sync(&mut team, &mut harness);
    assert_eq!(*team.message_status(no), MessageStatus::Stored, "the claim is not about it");
    harness.settle();
    sync(&mut team, &mut harness);
    assert_eq!(harness.session.attempt().no, 2);
}

/// An idle worker whose session was opened for the team.
fn idle_member() -> (TestTeam, TestSession) {
    idle_member_with(AgentInterface::json_lines())
}

fn idle_member_with(interface: AgentInterface) -> (TestTeam, TestSession) {
    let mut as_member = SessionSpec { on_finish: OnFinish::Park, ..spec() };
    as_member.agent.interface = interface;
    as_member.agent.settings.member = Some(TeamMembership { role: MemberRole::Worker });
    let mut harness = TestSession::running(as_member);
    harness.signal(StreamSignal::Ready { thread: Some("t".to_owned()) });
    harness.signal(StreamSignal::InputWritten { key: "instruction-1".to_owned() });
    harness.signal(StreamSignal::TurnStarted { turn: None }).signal(TURN_ENDED_OK);
    let mut team = TestTeam::open(team_spec());
    team.bind("hand", MemberRole::Worker, Some(harness.session.id));
    team.bind("boss", MemberRole::Manager, None);
    team.apply(&member("boss"), TeamCommand::AcknowledgeContract { revision: 0 });
    (team, harness)
}

#[test]
fn idle_member_is_neither_asked_nor_ended() {
    let (mut team, mut harness) = idle_member();
    for _ in 0..3 {
        harness.settle();
    }
    let state = harness.session.state();
    assert_eq!(state, provost_core::lifecycle::State::Idle, "it is not asked for a result");
    assert_eq!(harness.session.deadline(), None, "and nothing ends it");
    let no = team.post(&member("boss"), "hand", "a");
    sync(&mut team, &mut harness);
    assert_eq!(team.message_status(no).as_str(), "offered");
}

/// Posts two messages to a worker with a handshake and delivers the first.
fn first_of_two_delivered() -> (TestTeam, TestSession, [u32; 2]) {
    let (mut team, mut harness) = idle_member_with(interfaces::server());
    let both = ["a", "b"].map(|key| team.post(&member("boss"), "hand", key));
    sync(&mut team, &mut harness);
    let DeliveryMode::Push { key, .. } = lease_of(team.message_status(both[0])).delivery.clone()
    else {
        panic!("a push")
    };
    harness.signal(StreamSignal::InputWritten { key });
    sync(&mut team, &mut harness);
    (team, harness, both)
}

/// Codex merges a message into the expected turn if it arrives before that turn has begun.
#[test]
fn d5_next_push_waits_for_expected_turn() {
    let (mut team, mut harness, [first, second]) = first_of_two_delivered();
    let status = |team: &TestTeam| [first, second].map(|no| team.message_status(no).as_str());
    assert_eq!(status(&team), ["offered", "stored"], "its turn has yet to begin");
    harness.signal(StreamSignal::TurnStarted { turn: Some("turn".to_owned()) });
    sync(&mut team, &mut harness);
    assert_eq!(status(&team), ["acknowledged", "stored"], "it is at work");
    harness.signal(TURN_ENDED_OK);
    sync(&mut team, &mut harness);
    assert_eq!(status(&team), ["acknowledged", "offered"]);
}

#[test]
fn d3_push_is_repeated_if_worker_dies_before_turn() {
    let (mut team, mut harness, [first, second]) = first_of_two_delivered();
    harness.end(ProcessExit::Signal(9));
    sync(&mut team, &mut harness);
    assert_eq!(harness.session.launches.len(), 2, "it has something to go on with");
    let message = harness.session.input.messages.last().expect("it gets a continuation message");
    assert!(message.text.contains("the text of a"), "{}", message.text);
    // The same holds if it dies again.
    harness.start();
    harness.end(ProcessExit::Signal(9));
    let message = harness.session.input.messages.last().expect("it gets a continuation message");
    assert!(message.text.contains("the text of a"), "{}", message.text);
    harness.start();
    harness.signal(StreamSignal::Ready { thread: Some("t".to_owned()) });
    sync(&mut team, &mut harness);
    assert_eq!(team.message_status(first).as_str(), "offered", "no turn began with it yet");
    harness.signal(StreamSignal::TurnStarted { turn: None });
    sync(&mut team, &mut harness);
    assert_eq!(team.message_status(first).as_str(), "acknowledged");
    assert_eq!(team.message_status(second).as_str(), "stored");
}

/// D2, D3: a message that was only written to the pipe of an agent that then died is not handled.
#[test]
fn d3_unstarted_push_returns_as_next_instruction() {
    let (mut team, mut harness) = idle_member();
    let no = team.post(&member("boss"), "hand", "a");
    sync(&mut team, &mut harness);
    let DeliveryMode::Push { key, .. } = lease_of(team.message_status(no)).delivery.clone() else {
        panic!("a push")
    };
    harness.signal(StreamSignal::InputWritten { key });
    sync(&mut team, &mut harness);
    assert_eq!(team.message_status(no).as_str(), "offered", "it was written, and no turn began");
    harness.end(ProcessExit::Signal(9));
    harness.settle();
    assert!(harness.sealed());
    sync(&mut team, &mut harness);
    let lease = lease_of(team.message_status(no)).clone();
    assert_eq!((harness.session.attempt().no, lease.no), (2, 2), "it is offered again");
    harness.start();
    let DeliveryMode::Push { key, .. } = lease.delivery else { panic!("a push") };
    harness.signal(StreamSignal::InputWritten { key });
    sync(&mut team, &mut harness);
    assert_eq!(team.message_status(no).as_str(), "offered");
    harness.signal(StreamSignal::TurnStarted { turn: None });
    sync(&mut team, &mut harness);
    assert_eq!(team.message_status(no).as_str(), "acknowledged");
    assert!(team.task.message(no).is_some_and(|message| message.redelivered));
}

#[test]
fn agent_without_turns_acknowledges_on_write() {
    let (mut team, mut harness) = with_working_session();
    harness.claim(provost_core::lifecycle::ClaimKind::Completed);
    harness.signal(TURN_ENDED_OK).end(ProcessExit::Exit(0)).settle();
    let no = team.post(&member("boss"), "hand", "a");
    sync(&mut team, &mut harness);
    harness.start();
    harness.signal(StreamSignal::InputWritten { key: "instruction-2".to_owned() });
    sync(&mut team, &mut harness);
    assert_eq!(harness.session.spending.turns, 0);
    assert_eq!(team.message_status(no).as_str(), "acknowledged");
}

#[test]
fn only_steering_messages_reach_an_open_turn() {
    let (mut team, mut harness) = idle_member();
    harness.signal(StreamSignal::TurnStarted { turn: None });
    let waits = team.post(&member("boss"), "hand", "a");
    sync(&mut team, &mut harness);
    let TeamCommand::Post(post) = super::kit::post("hand", "b") else { panic!("a post") };
    team.apply(&member("boss"), TeamCommand::Post(Box::new(NewMessage { steer: true, ..*post })));
    sync(&mut team, &mut harness);
    let steered = team.task.messages_stored;
    assert_eq!(
        (team.message_status(waits).as_str(), team.message_status(steered).as_str()),
        ("stored", "offered")
    );
}

#[test]
fn lost_process_is_reported_once_then_woken_by_message() {
    let (mut team, mut harness) = idle_member();
    sync(&mut team, &mut harness);
    team.handle("boss");
    let before = news(&team).len();
    harness.signal(StreamSignal::TurnStarted { turn: None });
    harness.end(ProcessExit::Signal(9));
    sync(&mut team, &mut harness);
    sync(&mut team, &mut harness);
    let messages: Vec<&str> = news(&team).into_iter().skip(before).collect();
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert!(
        messages[0].contains("its process was lost: it was killed by signal 9"),
        "{messages:?}"
    );
    harness.settle();
    let no = team.post(&member("boss"), "hand", "a");
    sync(&mut team, &mut harness);
    assert_eq!(harness.session.attempt().no, 2);
    assert_eq!(team.message_status(no).as_str(), "offered");
}

#[test]
fn driven_manager_is_woken_by_news() {
    let (mut team, mut worker) = with_working_session();
    let mut manager = TestSession::new(SessionSpec { on_finish: OnFinish::Park, ..spec() });
    manager.session.id = SessionId(Uuid::from_u128(8));
    let base = Some(snapshot("old"));
    manager.apply(session::SessionCommand::WorkPrepared { cwd: "/work".to_owned(), base });
    manager.start();
    end_turns(&mut manager);
    team.bind("second", MemberRole::Manager, Some(manager.session.id));
    team.sessions.insert(manager.session.id, manager.session.clone());
    worker.signal(StreamSignal::TurnStarted { turn: None });
    end_turns(&mut worker);
    sync(&mut team, &mut worker);
    let messages = &team.sessions[&manager.session.id].input.messages;
    assert!(messages.iter().any(|sent| sent.text.contains("hand (worker)")), "{messages:?}");
}

/// Fails to prepare the worktree of the open attempt, and seals the attempt.
fn fail_start(harness: &mut TestSession) {
    let reason = "no such repository".to_owned();
    harness.apply(session::SessionCommand::WorkFailed { reason }).settle();
    assert!(harness.sealed());
}

#[test]
fn news_does_not_restart_agent_that_cannot_start() {
    let (mut team, mut worker) = with_working_session();
    let mut manager = TestSession::new(spec());
    manager.session.id = SessionId(Uuid::from_u128(8));
    fail_start(&mut manager);
    team.sessions.insert(manager.session.id, manager.session.clone());
    team.bind("second", MemberRole::Manager, Some(manager.session.id));
    for _ in 0..2 * MAX_OFFERS {
        worker.signal(StreamSignal::TurnStarted { turn: None });
        end_turns(&mut worker);
        sync(&mut team, &mut worker);
        sync(&mut team, &mut manager);
        if !manager.sealed() {
            fail_start(&mut manager);
        }
    }
    assert_eq!(manager.session.attempts.len(), MAX_FAILED_STARTS);
    let to_second = Recipient::Member("second".to_owned());
    let mut open = team.task.messages.iter().filter(|message| message.to == to_second);
    assert!(open.any(|message| message.status == MessageStatus::Stored), "its news waits");

    let no = team.post(&TeamActor::Operator, "second", "a");
    sync(&mut team, &mut manager);
    assert_eq!(team.message_status(no).as_str(), "offered");
    assert_eq!(manager.session.attempts.len(), MAX_FAILED_STARTS + 1);
}

#[test]
fn gate_blocks_pushed_continuation() {
    let (mut team, mut harness) = with_working_session();
    end_turns(&mut harness);
    team.begin_loop(template(3));
    let shows: Vec<_> = template(3).evidence;
    for required in &shows {
        let (shown, _) = super::kit::matching_evidence(&required.proof, "one");
        let name = required.name.clone();
        team.apply(&TeamActor::Provost, TeamCommand::Show { iteration: 1, name, shown });
    }
    let no = team.continue_loop(2).expect("its evidence is there");
    team.apply(&TeamActor::Operator, TeamCommand::StopLoop { because: A_REASON.to_owned() });
    sync(&mut team, &mut harness);
    assert_eq!(team.message_status(no).as_str(), "dead");
    assert!(harness.session.input.messages.iter().all(|sent| !sent.text.contains("go on")));
}

#[test]
fn push_confirmed_after_loop_end_starts_nothing() {
    let (mut team, mut harness) = with_working_session();
    end_turns(&mut harness);
    let begin = |team: &mut TestTeam| {
        team.begin_loop(template(3));
        for required in template(3).evidence {
            let (shown, _) = super::kit::matching_evidence(&required.proof, "one");
            let name = required.name;
            team.apply(&TeamActor::Provost, TeamCommand::Show { iteration: 1, name, shown });
        }
    };
    begin(&mut team);
    let no = team.continue_loop(2).expect("its evidence is there");
    sync(&mut team, &mut harness);
    assert_eq!(team.message_status(no).as_str(), "offered");
    team.apply(&TeamActor::Operator, TeamCommand::StopLoop { because: A_REASON.to_owned() });
    begin(&mut team);
    let unsent: Vec<String> = harness
        .session
        .input
        .messages
        .iter()
        .filter(|sent| sent.status == DeliveryStatus::Queued)
        .map(|sent| sent.key.clone())
        .collect();
    for key in unsent {
        harness.signal(StreamSignal::InputWritten { key });
    }
    sync(&mut team, &mut harness);
    assert_eq!(team.message_status(no).as_str(), "dead");
    assert_eq!(team.task.loop_state.as_ref().map(|looped| looped.iteration), Some(1));
}
