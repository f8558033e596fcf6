//! Turns that the agent starts by itself, messages refused because of them, and retried launches.

use provost_core::{
    lifecycle::{Cause, ClaimKind, Flag, Rule, State},
    session::{
        AgentInterface, AgentMessageKind, DeadlineKind, DeliveryStatus, LaunchReason, ProcessExit,
        SendMode, SessionCommand, SessionEffect, SessionSpec, StopStep, StoppedBy, StreamSignal,
        TurnEnd,
    },
};

use crate::interfaces;
use crate::kit::{TestSession, checked_spec, send, spec};

const BUSY: &str = "ActiveTurnOutputSchemaMismatch";

fn with(interface: AgentInterface, mut spec: SessionSpec) -> SessionSpec {
    spec.agent.interface = interface;
    spec
}

fn codex() -> SessionSpec {
    with(interfaces::server(), spec())
}

/// A session whose agent received its instruction and is in its first turn.
fn working() -> TestSession {
    let mut harness = TestSession::running(codex());
    ready(&mut harness);
    deliver(&mut harness);
    start_turn(&mut harness);
    harness
}

/// The same with a viewer attached, so that the agent is not asked for a result.
fn attended() -> TestSession {
    let mut harness = working();
    let launch = harness.launch();
    harness.apply(SessionCommand::ViewersChanged { launch, people: 1 });
    harness
}

fn ready(harness: &mut TestSession) {
    harness.signal(StreamSignal::Ready { thread: Some("t".to_owned()) });
}

fn start_turn(harness: &mut TestSession) {
    harness.signal(StreamSignal::TurnStarted { turn: Some("turn".to_owned()) });
}

fn set_goal(harness: &mut TestSession, active: bool) {
    harness.signal(StreamSignal::Goal { active });
}

fn turn_ended(end: TurnEnd) -> StreamSignal {
    StreamSignal::TurnEnded { turn: Some("turn".to_owned()), end, usage: None, says: None }
}

/// Delivers the next message and returns the key under which it was written.
fn deliver(harness: &mut TestSession) -> String {
    let key = next_delivery(harness).expect("a message is to be delivered");
    harness.signal(StreamSignal::InputWritten { key: key.clone() });
    key
}

fn next_delivery(harness: &TestSession) -> Option<String> {
    harness.session.effects().into_iter().find_map(|effect| {
        let SessionEffect::Deliver { message, .. } = effect else { return None };
        Some(message)
    })
}

fn refuse(harness: &mut TestSession, key: &str, reason: &str) {
    let busy = reason == BUSY;
    harness.signal(StreamSignal::MessageRefused {
        key: key.to_owned(),
        reason: reason.to_owned(),
        busy,
    });
}

fn result_asked(harness: &TestSession) -> bool {
    harness.session.attempt().result_requested.is_some()
}

#[test]
fn f4_2_result_is_asked_after_last_goal_turn() {
    let mut harness = working();
    set_goal(&mut harness, true);
    for _ in 0..3 {
        harness.signal(turn_ended(TurnEnd::Ok));
        assert_eq!((harness.state(), result_asked(&harness)), (State::Working, false));
        assert_eq!(next_delivery(&harness), None);
        start_turn(&mut harness);
    }
    set_goal(&mut harness, false);
    harness.signal(turn_ended(TurnEnd::Ok));
    assert!(result_asked(&harness));
}

#[test]
fn f4_2_goal_without_next_turn_times_out() {
    let mut harness = working();
    set_goal(&mut harness, true);
    harness.signal(turn_ended(TurnEnd::Ok));
    let due = harness.session.deadline();
    assert_eq!(due, Some((harness.now.mono_ms + 30_000, DeadlineKind::OwnTurn)));
    harness.advance_clock(29_999);
    assert!(!result_asked(&harness));
    harness.advance_clock(1);
    assert!(result_asked(&harness), "it is idle");
}

#[test]
fn f4_2_paused_or_interrupted_goal_starts_no_turn() {
    let mut harness = working();
    set_goal(&mut harness, true);
    harness.signal(turn_ended(TurnEnd::Ok));
    set_goal(&mut harness, false);
    assert!(result_asked(&harness), "the turn that was due does not come");
    let mut harness = working();
    set_goal(&mut harness, true);
    harness.signal(turn_ended(TurnEnd::Interrupted));
    assert!(harness.session.awaits_user(), "after an interrupt no turn begins by itself");
    assert!(!result_asked(&harness), "an interrupted turn is not finished");
}

#[test]
fn refused_message_does_not_cancel_the_turn_of_a_goal() {
    let mut harness = working();
    harness.apply(SessionCommand::Compact { key: "compact".to_owned() });
    set_goal(&mut harness, true);
    harness.signal(turn_ended(TurnEnd::Ok));
    refuse(&mut harness, "compact", "unknown method");
    assert_eq!(harness.session.deadline().map(|(_, due)| due), Some(DeadlineKind::OwnTurn));
    assert!(!result_asked(&harness));
}

#[test]
fn f4_2_goal_set_while_idle_starts_a_turn() {
    let mut harness = attended();
    harness.signal(turn_ended(TurnEnd::Ok));
    assert_eq!(harness.state(), State::Idle);
    set_goal(&mut harness, true);
    assert_eq!(harness.session.deadline().map(|(_, due)| due), Some(DeadlineKind::OwnTurn));
    assert_eq!(harness.state(), State::Working);
}

#[test]
fn f4_2_refused_result_query_is_asked_again() {
    // Whether the blocking turn was seen before or after the refusal.
    for seen_first in [false, true] {
        let mut harness = working();
        harness.signal(turn_ended(TurnEnd::Ok));
        let key = deliver(&mut harness);
        if seen_first {
            start_turn(&mut harness);
        }
        refuse(&mut harness, &key, BUSY);
        assert_eq!((harness.state(), harness.session.claim()), (State::Working, ClaimKind::None));
        assert!(!result_asked(&harness) && next_delivery(&harness).is_none());
        if !seen_first {
            start_turn(&mut harness);
        }
        harness.signal(turn_ended(TurnEnd::Ok));
        let again = deliver(&mut harness);
        assert!(result_asked(&harness) && again != key, "{again}");
        start_turn(&mut harness);
        harness.claim(ClaimKind::Completed).signal(turn_ended(TurnEnd::Ok)).settle();
        assert_eq!((harness.state(), harness.sealed()), (State::Completed, true));
    }
}

#[test]
fn f4_2_refused_message_is_sent_after_the_turn() {
    let mut harness = working();
    harness.apply(send("more", SendMode::Continue));
    let key = deliver(&mut harness);
    refuse(&mut harness, &key, BUSY);
    assert_eq!(next_delivery(&harness), None, "a turn is in its way");
    harness.signal(turn_ended(TurnEnd::Ok));
    assert!(!result_asked(&harness), "the agent has yet to hear of it");
    let again = next_delivery(&harness).expect("it is sent again");
    assert_ne!(again, key, "the holder writes a key once");
    let stale = harness.try_signal(StreamSignal::InputWritten { key });
    assert!(stale.is_err(), "the first writing is read again after a restart");
    deliver(&mut harness);
    let sent =
        harness.session.input.messages.iter().find(|m| m.kind == AgentMessageKind::Steer).cloned();
    let sent = sent.expect("it was sent");
    assert_eq!(sent.text, "the text of more");
    start_turn(&mut harness);
    harness.signal(turn_ended(TurnEnd::Ok));
    assert!(result_asked(&harness));
}

#[test]
fn f4_2_invalid_message_is_lost_and_not_repeated() {
    let mut harness = attended();
    harness.signal(turn_ended(TurnEnd::Ok));
    harness.apply(send("more", SendMode::Continue));
    let key = deliver(&mut harness);
    assert_eq!(harness.state(), State::Working, "its turn is expected");
    refuse(&mut harness, &key, "too long");
    let fate = &harness.session.input.messages.last().expect("it was sent").status;
    assert_eq!(*fate, DeliveryStatus::Undeliverable { reason: "too long".to_owned() });
    assert_eq!((harness.state(), harness.session.claim()), (State::Idle, ClaimKind::None));
}

#[test]
fn f4_2_always_refused_instruction_fails_launch() {
    let mut harness = TestSession::running(codex());
    ready(&mut harness);
    let key = deliver(&mut harness);
    refuse(&mut harness, &key, "too long");
    assert_eq!((harness.state(), harness.cause()), (State::Failed, Some(Cause::Launch)));
    let mut harness = TestSession::running(codex());
    ready(&mut harness);
    let mut refusals = 0;
    while harness.session.attempt().stopped.is_none() {
        let key = deliver(&mut harness);
        refuse(&mut harness, &key, BUSY);
        refusals += 1;
        harness.advance_clock(30_000);
    }
    assert_eq!((refusals, harness.cause()), (5, Some(Cause::Launch)));
}

#[test]
fn f4_1_unreachable_launch_is_retried_once() {
    let mut harness = TestSession::running(codex());
    let unreachable = || StreamSignal::Unreachable { reason: "connection reset".to_owned() };
    harness.signal(unreachable());
    assert_eq!(
        harness.stop_step(),
        Some(StopStep::Terminate),
        "nothing runs beside the next launch"
    );
    assert_eq!(harness.session.launches.len(), 1);
    harness.end_by(ProcessExit::Signal(15), StoppedBy::Provost);
    assert_eq!(harness.session.launches[1].why, LaunchReason::Retry);
    harness.start();
    assert_eq!(harness.state(), State::Working);
    harness.signal(unreachable()).end(ProcessExit::Exit(1)).settle();
    assert_eq!((harness.state(), harness.cause()), (State::Failed, Some(Cause::Launch)));
    assert_eq!(harness.session.launches.len(), 2, "once for each attempt");
}

#[test]
fn f4_1_retried_launch_gets_the_instruction() {
    let mut harness = TestSession::running(codex());
    harness.end(ProcessExit::Exit(1));
    assert_eq!(harness.session.launches[1].why, LaunchReason::Retry);
    harness.start();
    ready(&mut harness);
    assert_eq!(deliver(&mut harness), "instruction-1");
}

#[test]
fn f4_1_answered_or_stopped_agent_is_not_relaunched() {
    let mut harness = TestSession::running(codex());
    harness
        .signal(StreamSignal::Refused { reason: "too old".to_owned() })
        .end(ProcessExit::Exit(1))
        .settle();
    assert_eq!((harness.session.launches.len(), harness.cause()), (1, Some(Cause::Launch)));
    let mut harness = TestSession::running(codex());
    harness
        .apply(SessionCommand::Stop)
        .end_by(ProcessExit::Signal(15), StoppedBy::Provost)
        .settle();
    assert_eq!(harness.session.launches.len(), 1);
    let mut harness = TestSession::running(codex());
    harness.apply(SessionCommand::Cancel { because: String::new() });
    harness
        .signal(StreamSignal::Unreachable { reason: String::new() })
        .end(ProcessExit::Exit(1))
        .settle();
    assert_eq!((harness.session.launches.len(), harness.state()), (1, State::Cancelled));
}

fn limit(harness: &TestSession) -> StreamSignal {
    let until = u64::try_from(harness.now.wall_ms).expect("later than 1970") + 60_000;
    turn_ended(TurnEnd::Limited { until_ms: Some(until), detail: "used up".to_owned() })
}

/// A one-shot session that exited at a usage limit.
fn exited_at_limit(spec: SessionSpec) -> TestSession {
    let mut harness = TestSession::running(with(interfaces::one_shot(), spec));
    ready(&mut harness);
    start_turn(&mut harness);
    let limited = limit(&harness);
    harness.signal(limited).end(ProcessExit::Exit(1));
    harness
}

#[test]
fn f4_3_one_shot_usage_limit_waits_then_resumes() {
    let mut harness = exited_at_limit(checked_spec());
    let judged = harness.session.judgement();
    assert_eq!((judged.state, judged.rule), (State::Working, Rule::Limited));
    assert!(judged.has(Flag::Limited));
    let proves = |effect: &SessionEffect| matches!(effect, SessionEffect::TakeSnapshot { .. });
    assert!(!harness.session.effects().iter().any(proves), "the work is not over");
    harness.advance_clock(59_999);
    assert_eq!(harness.session.launches.len(), 1);
    harness.advance_clock(harness.session.spec.bounds.limit_jitter_ms + 1);
    assert_eq!(harness.session.launches[1].why, LaunchReason::Limit);
    assert!(harness.session.one_shot_text().contains("used up"));
    harness.start();
    assert_eq!(harness.session.one_shot_text(), "do it", "the limit message was sent once");
    assert_eq!(next_delivery(&harness), None, "nothing can be said to it while it runs");
    start_turn(&mut harness);
    harness.claim(ClaimKind::Completed).signal(turn_ended(TurnEnd::Ok)).end(ProcessExit::Exit(0));
    assert_eq!(harness.state(), State::Verifying);
}

#[test]
fn f4_3_one_shot_limit_over_before_exit_resumes() {
    let mut harness = TestSession::running(with(interfaces::one_shot(), spec()));
    ready(&mut harness);
    start_turn(&mut harness);
    let limited = limit(&harness);
    harness.signal(limited).advance_clock(120_000);
    assert_eq!(next_delivery(&harness), None);
    harness.end(ProcessExit::Exit(1));
    assert_eq!(harness.session.launches[1].why, LaunchReason::Limit);
}

#[test]
fn f4_3_one_shot_cancelled_wait_ends() {
    let mut harness = exited_at_limit(spec());
    harness.apply(SessionCommand::Cancel { because: String::new() }).settle();
    assert_eq!((harness.state(), harness.sealed()), (State::Cancelled, true));
    harness.advance_clock(1_000_000);
    assert_eq!(harness.session.launches.len(), 1);
    harness.apply(send("again", SendMode::Continue)).start();
    ready(&mut harness);
    start_turn(&mut harness);
    harness
        .claim(ClaimKind::Completed)
        .signal(turn_ended(TurnEnd::Ok))
        .end(ProcessExit::Exit(0))
        .settle();
    assert_eq!(harness.state(), State::Completed, "the old limit is not the new attempt's");
}
