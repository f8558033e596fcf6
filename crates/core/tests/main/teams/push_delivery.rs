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
    let bench = TestSession::running(SessionSpec { on_finish: OnFinish::Park, ..spec() });
    let mut desk = TestTeam::open(team_spec());
    desk.bind("hand", MemberRole::Worker, Some(bench.session.id));
    desk.bind("boss", MemberRole::Manager, None);
    desk.apply(&member("boss"), TeamCommand::AcknowledgeContract { revision: 0 });
    (desk, bench)
}

/// Syncs the session into the team and the team's commands back into the session.
fn sync(desk: &mut TestTeam, bench: &mut TestSession) {
    desk.now = desk.now.max(bench.now.mono_ms);
    desk.sessions.insert(bench.session.id, bench.session.clone());
    desk.advance();
    bench.session = desk.sessions[&bench.session.id].clone();
    bench.advance();
    desk.sessions.insert(bench.session.id, bench.session.clone());
}

/// Ends the agent's turn and the turn that asks for its result.
fn end_turns(bench: &mut TestSession) {
    bench.signal(TURN_ENDED_OK).signal(TURN_ENDED_OK);
}

fn news(desk: &TestTeam) -> Vec<&str> {
    let to_boss = Recipient::Member("boss".to_owned());
    let all =
        desk.task.messages.iter().filter(|m| m.kind == TeamMessageKind::News && m.to == to_boss);
    all.map(|message| message.text.as_str()).collect()
}

#[test]
fn message_is_pushed_only_between_turns() {
    let (mut desk, mut bench) = with_working_session();
    bench.signal(StreamSignal::TurnStarted { turn: None });
    let no = desk.post(&member("boss"), "hand", "a");
    sync(&mut desk, &mut bench);
    assert_eq!(*desk.message_status(no), MessageStatus::Stored);
    end_turns(&mut bench);
    sync(&mut desk, &mut bench);
    let DeliveryMode::Push { session, key, .. } = &lease_of(desk.message_status(no)).delivery
    else {
        panic!("a push")
    };
    assert_eq!(*session, bench.session.id);
    let sent = bench.session.messages.iter().find(|sent| sent.key == *key).expect("it is queued");
    assert!(sent.text.contains("the text of a"), "{}", sent.text);
}

#[test]
fn d5_stopping_session_gets_no_messages() {
    let (mut desk, mut bench) = with_working_session();
    bench.apply(session::SessionCommand::Stop).signal(TURN_ENDED_OK);
    let no = desk.post(&member("boss"), "hand", "a");
    sync(&mut desk, &mut bench);
    assert_eq!(*desk.message_status(no), MessageStatus::Stored, "it waits");
}

#[test]
fn stopped_session_is_not_woken_until_resumed() {
    let (mut desk, mut bench) = with_working_session();
    let before = desk.post(&member("boss"), "hand", "a");
    bench
        .apply(session::SessionCommand::Stop)
        .signal(TURN_ENDED_OK)
        .end(ProcessExit::Signal(15))
        .settle();
    assert!(bench.sealed());
    let after = desk.post(&member("boss"), "hand", "b");
    sync(&mut desk, &mut bench);
    for no in [before, after] {
        assert_eq!(*desk.message_status(no), MessageStatus::Stored, "it waits");
    }
    let launches = bench.session.launches.len();
    bench.apply(send("go-on", SendMode::Continue));
    bench.start();
    bench.signal(StreamSignal::InputWritten { key: "instruction-2".to_owned() });
    bench.signal(StreamSignal::TurnStarted { turn: None });
    end_turns(&mut bench);
    sync(&mut desk, &mut bench);
    assert_eq!(bench.session.launches.len(), launches + 1);
    assert_eq!(desk.message_status(before).as_str(), "offered");
}

#[test]
fn d5_pushed_message_is_consumed_and_not_pulled() {
    let (mut desk, mut bench) = with_working_session();
    end_turns(&mut bench);
    let no = desk.post(&member("boss"), "hand", "a");
    let second = desk.post(&member("boss"), "hand", "b");
    sync(&mut desk, &mut bench);
    assert_eq!(desk.message_status(no).as_str(), "offered");
    assert_eq!(*desk.message_status(second), MessageStatus::Stored, "one at a time");
    let DeliveryMode::Push { key, .. } = lease_of(desk.message_status(no)).delivery.clone() else {
        panic!("a push")
    };
    let unsent: Vec<String> = bench
        .session
        .messages
        .iter()
        .filter(|sent| sent.status == DeliveryStatus::Queued)
        .map(|sent| sent.key.clone())
        .collect();
    for key in unsent {
        bench.signal(StreamSignal::InputWritten { key });
    }
    assert!(bench.session.messages.iter().any(|sent| sent.key == key));
    bench.signal(StreamSignal::TurnStarted { turn: None });
    sync(&mut desk, &mut bench);
    assert_eq!(
        *desk.message_status(no),
        MessageStatus::Acknowledged { by: "hand".to_owned(), lease: 1 }
    );
    let pulled = TeamCommand::Next { consumer: "hand".to_owned() };
    let events = desk.apply(&member("hand"), pulled);
    assert_eq!(events.iter().find_map(super::kit::offered_lease).map(|(no, _)| no), Some(second));
}

#[test]
fn d6_turn_end_is_reported_to_manager_once() {
    let (mut desk, mut bench) = with_working_session();
    sync(&mut desk, &mut bench);
    let before = news(&desk).len();
    bench.signal(StreamSignal::TurnStarted { turn: None });
    end_turns(&mut bench);
    sync(&mut desk, &mut bench);
    sync(&mut desk, &mut bench);
    assert_eq!(news(&desk).len(), before + 1);
    let message = desk.task.messages.iter().find(|message| message.kind == TeamMessageKind::News);
    assert_eq!(message.map(|message| message.trust), Some(MessageTrust::Untrusted));
}

#[test]
fn d6_question_and_exit_are_reported_once_each() {
    let (mut desk, mut bench) = with_working_session();
    bench.signal(StreamSignal::TurnStarted { turn: None });
    bench.signal(StreamSignal::RequestOpened(question("q")));
    sync(&mut desk, &mut bench);
    let asked = news(&desk).len();
    assert_eq!(asked, 1);
    desk.handle("boss");
    bench.end(ProcessExit::Signal(9));
    bench.settle();
    sync(&mut desk, &mut bench);
    let told: Vec<String> = news(&desk).into_iter().map(str::to_owned).collect();
    assert_eq!(told.len(), asked + 1, "{told:?}");
    sync(&mut desk, &mut bench);
    assert_eq!(news(&desk).len(), told.len());
}

#[test]
fn ended_session_gets_next_instruction() {
    let (mut desk, mut bench) = with_working_session();
    bench.claim(provost_core::lifecycle::ClaimKind::Completed);
    bench.signal(TURN_ENDED_OK).end(ProcessExit::Exit(0));
    bench.settle();
    assert!(bench.sealed());
    let no = desk.post(&member("boss"), "hand", "a");
    sync(&mut desk, &mut bench);
    assert_eq!(bench.session.attempt().no, 2, "it began its next attempt");
    let DeliveryMode::Push { key, .. } = &lease_of(desk.message_status(no)).delivery else {
        panic!("a push")
    };
    assert_eq!(key, "instruction-2");
    assert!(bench.session.messages.iter().any(|sent| sent.key == *key));
}

#[test]
fn d3_undelivered_push_is_retried_then_dead_lettered() {
    let (mut desk, mut bench) = with_working_session();
    end_turns(&mut bench);
    let no = desk.post(&member("boss"), "hand", "a");
    let reason = "the agent's input was closed".to_owned();
    for offer in 1..=MAX_OFFERS {
        sync(&mut desk, &mut bench);
        let lease = lease_of(desk.message_status(no)).clone();
        assert_eq!(lease.no, offer);
        let DeliveryMode::Push { key, .. } = lease.delivery else { panic!("a push") };
        bench.apply(session::SessionCommand::MessageLost { key, reason: reason.clone() });
    }
    sync(&mut desk, &mut bench);
    assert_eq!(*desk.message_status(no), MessageStatus::Dead { reason });
}

#[test]
fn d3_message_queued_at_exit_is_next_instruction() {
    let (mut desk, mut bench) = with_working_session();
    end_turns(&mut bench);
    let no = desk.post(&member("boss"), "hand", "a");
    sync(&mut desk, &mut bench);
    bench.end(ProcessExit::Exit(0));
    bench.settle();
    assert!(bench.sealed());
    sync(&mut desk, &mut bench);
    let DeliveryMode::Push { key, .. } = lease_of(desk.message_status(no)).delivery.clone() else {
        panic!("a push")
    };
    assert_eq!(key, "instruction-2");
}

#[test]
fn claim_is_sealed_before_next_push() {
    let (mut desk, mut bench) = with_working_session();
    bench.claim(provost_core::lifecycle::ClaimKind::Completed);
    bench.signal(TURN_ENDED_OK);
    let no = desk.post(&member("boss"), "hand", "a");
    sync(&mut desk, &mut bench);
    assert_eq!(*desk.message_status(no), MessageStatus::Stored, "the claim is not about it");
    bench.settle();
    sync(&mut desk, &mut bench);
    assert_eq!(bench.session.attempt().no, 2);
}

/// An idle worker whose session was opened for the team.
fn idle_member() -> (TestTeam, TestSession) {
    idle_member_with(AgentInterface::json_lines())
}

fn idle_member_with(interface: AgentInterface) -> (TestTeam, TestSession) {
    let mut as_member = SessionSpec { on_finish: OnFinish::Park, ..spec() };
    as_member.agent.interface = interface;
    as_member.agent.settings.member = Some(TeamMembership { role: MemberRole::Worker });
    let mut bench = TestSession::running(as_member);
    bench.signal(StreamSignal::Ready { thread: Some("t".to_owned()) });
    bench.signal(StreamSignal::InputWritten { key: "instruction-1".to_owned() });
    bench.signal(StreamSignal::TurnStarted { turn: None }).signal(TURN_ENDED_OK);
    let mut desk = TestTeam::open(team_spec());
    desk.bind("hand", MemberRole::Worker, Some(bench.session.id));
    desk.bind("boss", MemberRole::Manager, None);
    desk.apply(&member("boss"), TeamCommand::AcknowledgeContract { revision: 0 });
    (desk, bench)
}

#[test]
fn idle_member_is_neither_asked_nor_ended() {
    let (mut desk, mut bench) = idle_member();
    for _ in 0..3 {
        bench.settle();
    }
    let state = bench.session.state();
    assert_eq!(state, provost_core::lifecycle::State::Idle, "it is not asked for a result");
    assert_eq!(bench.session.deadline(), None, "and nothing ends it");
    let no = desk.post(&member("boss"), "hand", "a");
    sync(&mut desk, &mut bench);
    assert_eq!(desk.message_status(no).as_str(), "offered");
}

/// Posts two messages to a worker with a handshake and delivers the first.
fn first_of_two_delivered() -> (TestTeam, TestSession, [u32; 2]) {
    let (mut desk, mut bench) = idle_member_with(interfaces::server());
    let both = ["a", "b"].map(|key| desk.post(&member("boss"), "hand", key));
    sync(&mut desk, &mut bench);
    let DeliveryMode::Push { key, .. } = lease_of(desk.message_status(both[0])).delivery.clone()
    else {
        panic!("a push")
    };
    bench.signal(StreamSignal::InputWritten { key });
    sync(&mut desk, &mut bench);
    (desk, bench, both)
}

/// Codex merges a message into the expected turn if it arrives before that turn has begun.
#[test]
fn d5_next_push_waits_for_expected_turn() {
    let (mut desk, mut bench, [first, second]) = first_of_two_delivered();
    let standing = |desk: &TestTeam| [first, second].map(|no| desk.message_status(no).as_str());
    assert_eq!(standing(&desk), ["offered", "stored"], "its turn has yet to begin");
    bench.signal(StreamSignal::TurnStarted { turn: Some("turn".to_owned()) });
    sync(&mut desk, &mut bench);
    assert_eq!(standing(&desk), ["acknowledged", "stored"], "it is at work");
    bench.signal(TURN_ENDED_OK);
    sync(&mut desk, &mut bench);
    assert_eq!(standing(&desk), ["acknowledged", "offered"]);
}

#[test]
fn d3_push_is_repeated_if_worker_dies_before_turn() {
    let (mut desk, mut bench, [first, second]) = first_of_two_delivered();
    bench.end(ProcessExit::Signal(9));
    sync(&mut desk, &mut bench);
    assert_eq!(bench.session.launches.len(), 2, "it has something to go on with");
    let told = bench.session.messages.last().expect("it gets a continuation message");
    assert!(told.text.contains("the text of a"), "{}", told.text);
    // The same holds if it dies again.
    bench.start();
    bench.end(ProcessExit::Signal(9));
    let told = bench.session.messages.last().expect("it gets a continuation message");
    assert!(told.text.contains("the text of a"), "{}", told.text);
    bench.start();
    bench.signal(StreamSignal::Ready { thread: Some("t".to_owned()) });
    sync(&mut desk, &mut bench);
    assert_eq!(desk.message_status(first).as_str(), "offered", "no turn began with it yet");
    bench.signal(StreamSignal::TurnStarted { turn: None });
    sync(&mut desk, &mut bench);
    assert_eq!(desk.message_status(first).as_str(), "acknowledged");
    assert_eq!(desk.message_status(second).as_str(), "stored");
}

/// D2, D3: a message that was only written to the pipe of an agent that then died is not handled.
#[test]
fn d3_unstarted_push_returns_as_next_instruction() {
    let (mut desk, mut bench) = idle_member();
    let no = desk.post(&member("boss"), "hand", "a");
    sync(&mut desk, &mut bench);
    let DeliveryMode::Push { key, .. } = lease_of(desk.message_status(no)).delivery.clone() else {
        panic!("a push")
    };
    bench.signal(StreamSignal::InputWritten { key });
    sync(&mut desk, &mut bench);
    assert_eq!(desk.message_status(no).as_str(), "offered", "it was written, and no turn began");
    bench.end(ProcessExit::Signal(9));
    bench.settle();
    assert!(bench.sealed());
    sync(&mut desk, &mut bench);
    let lease = lease_of(desk.message_status(no)).clone();
    assert_eq!((bench.session.attempt().no, lease.no), (2, 2), "it is offered again");
    bench.start();
    let DeliveryMode::Push { key, .. } = lease.delivery else { panic!("a push") };
    bench.signal(StreamSignal::InputWritten { key });
    sync(&mut desk, &mut bench);
    assert_eq!(desk.message_status(no).as_str(), "offered");
    bench.signal(StreamSignal::TurnStarted { turn: None });
    sync(&mut desk, &mut bench);
    assert_eq!(desk.message_status(no).as_str(), "acknowledged");
    assert!(desk.task.message(no).is_some_and(|message| message.redelivered));
}

#[test]
fn agent_without_turns_acknowledges_on_write() {
    let (mut desk, mut bench) = with_working_session();
    bench.claim(provost_core::lifecycle::ClaimKind::Completed);
    bench.signal(TURN_ENDED_OK).end(ProcessExit::Exit(0)).settle();
    let no = desk.post(&member("boss"), "hand", "a");
    sync(&mut desk, &mut bench);
    bench.start();
    bench.signal(StreamSignal::InputWritten { key: "instruction-2".to_owned() });
    sync(&mut desk, &mut bench);
    assert_eq!(bench.session.turns, 0);
    assert_eq!(desk.message_status(no).as_str(), "acknowledged");
}

#[test]
fn only_steering_messages_reach_an_open_turn() {
    let (mut desk, mut bench) = idle_member();
    bench.signal(StreamSignal::TurnStarted { turn: None });
    let waits = desk.post(&member("boss"), "hand", "a");
    sync(&mut desk, &mut bench);
    let TeamCommand::Post(post) = super::kit::post("hand", "b") else { panic!("a post") };
    desk.apply(&member("boss"), TeamCommand::Post(Box::new(NewMessage { steer: true, ..*post })));
    sync(&mut desk, &mut bench);
    let steered = desk.task.messages_stored;
    assert_eq!(
        (desk.message_status(waits).as_str(), desk.message_status(steered).as_str()),
        ("stored", "offered")
    );
}

#[test]
fn lost_process_is_reported_once_then_woken_by_message() {
    let (mut desk, mut bench) = idle_member();
    sync(&mut desk, &mut bench);
    desk.handle("boss");
    let before = news(&desk).len();
    bench.signal(StreamSignal::TurnStarted { turn: None });
    bench.end(ProcessExit::Signal(9));
    sync(&mut desk, &mut bench);
    sync(&mut desk, &mut bench);
    let told: Vec<&str> = news(&desk).into_iter().skip(before).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("its process was lost: it was killed by signal 9"), "{told:?}");
    bench.settle();
    let no = desk.post(&member("boss"), "hand", "a");
    sync(&mut desk, &mut bench);
    assert_eq!(bench.session.attempt().no, 2);
    assert_eq!(desk.message_status(no).as_str(), "offered");
}

#[test]
fn driven_manager_is_woken_by_news() {
    let (mut desk, mut worker) = with_working_session();
    let mut manager = TestSession::new(SessionSpec { on_finish: OnFinish::Park, ..spec() });
    manager.session.id = SessionId(Uuid::from_u128(8));
    let base = Some(snapshot("old"));
    manager.apply(session::SessionCommand::WorkPrepared { cwd: "/work".to_owned(), base });
    manager.start();
    end_turns(&mut manager);
    desk.bind("second", MemberRole::Manager, Some(manager.session.id));
    desk.sessions.insert(manager.session.id, manager.session.clone());
    worker.signal(StreamSignal::TurnStarted { turn: None });
    end_turns(&mut worker);
    sync(&mut desk, &mut worker);
    let told = &desk.sessions[&manager.session.id].messages;
    assert!(told.iter().any(|sent| sent.text.contains("hand (worker)")), "{told:?}");
}

/// Fails to prepare the worktree of the open attempt, and seals the attempt.
fn fail_start(bench: &mut TestSession) {
    let reason = "no such repository".to_owned();
    bench.apply(session::SessionCommand::WorkFailed { reason }).settle();
    assert!(bench.sealed());
}

#[test]
fn news_does_not_restart_agent_that_cannot_start() {
    let (mut desk, mut worker) = with_working_session();
    let mut manager = TestSession::new(spec());
    manager.session.id = SessionId(Uuid::from_u128(8));
    fail_start(&mut manager);
    desk.sessions.insert(manager.session.id, manager.session.clone());
    desk.bind("second", MemberRole::Manager, Some(manager.session.id));
    for _ in 0..2 * MAX_OFFERS {
        worker.signal(StreamSignal::TurnStarted { turn: None });
        end_turns(&mut worker);
        sync(&mut desk, &mut worker);
        sync(&mut desk, &mut manager);
        if !manager.sealed() {
            fail_start(&mut manager);
        }
    }
    assert_eq!(manager.session.attempts.len(), MAX_FAILED_STARTS);
    let to_second = Recipient::Member("second".to_owned());
    let mut open = desk.task.messages.iter().filter(|message| message.to == to_second);
    assert!(open.any(|message| message.status == MessageStatus::Stored), "its news waits");

    let no = desk.post(&TeamActor::Operator, "second", "a");
    sync(&mut desk, &mut manager);
    assert_eq!(desk.message_status(no).as_str(), "offered");
    assert_eq!(manager.session.attempts.len(), MAX_FAILED_STARTS + 1);
}

#[test]
fn gate_blocks_pushed_continuation() {
    let (mut desk, mut bench) = with_working_session();
    end_turns(&mut bench);
    desk.begin_loop(template(3));
    let shows: Vec<_> = template(3).evidence;
    for required in &shows {
        let (shown, _) = super::kit::matching_evidence(&required.proof, "one");
        let name = required.name.clone();
        desk.apply(&TeamActor::Provost, TeamCommand::Show { iteration: 1, name, shown });
    }
    let no = desk.continue_loop(2).expect("its evidence is there");
    desk.apply(&TeamActor::Operator, TeamCommand::StopLoop { because: A_REASON.to_owned() });
    sync(&mut desk, &mut bench);
    assert_eq!(desk.message_status(no).as_str(), "dead");
    assert!(bench.session.messages.iter().all(|sent| !sent.text.contains("go on")));
}

#[test]
fn push_confirmed_after_loop_end_starts_nothing() {
    let (mut desk, mut bench) = with_working_session();
    end_turns(&mut bench);
    let begin = |desk: &mut TestTeam| {
        desk.begin_loop(template(3));
        for required in template(3).evidence {
            let (shown, _) = super::kit::matching_evidence(&required.proof, "one");
            let name = required.name;
            desk.apply(&TeamActor::Provost, TeamCommand::Show { iteration: 1, name, shown });
        }
    };
    begin(&mut desk);
    let no = desk.continue_loop(2).expect("its evidence is there");
    sync(&mut desk, &mut bench);
    assert_eq!(desk.message_status(no).as_str(), "offered");
    desk.apply(&TeamActor::Operator, TeamCommand::StopLoop { because: A_REASON.to_owned() });
    begin(&mut desk);
    let unsent: Vec<String> = bench
        .session
        .messages
        .iter()
        .filter(|sent| sent.status == DeliveryStatus::Queued)
        .map(|sent| sent.key.clone())
        .collect();
    for key in unsent {
        bench.signal(StreamSignal::InputWritten { key });
    }
    sync(&mut desk, &mut bench);
    assert_eq!(desk.message_status(no).as_str(), "dead");
    assert_eq!(desk.task.loop_state.as_ref().map(|looped| looped.iteration), Some(1));
}
