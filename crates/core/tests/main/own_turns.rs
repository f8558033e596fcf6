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
    let mut bench = TestSession::running(codex());
    ready(&mut bench);
    deliver(&mut bench);
    start_turn(&mut bench);
    bench
}

/// The same with a viewer attached, so that the agent is not asked for a result.
fn attended() -> TestSession {
    let mut bench = working();
    let launch = bench.launch();
    bench.apply(SessionCommand::ViewersChanged { launch, people: 1 });
    bench
}

fn ready(bench: &mut TestSession) {
    bench.signal(StreamSignal::Ready { thread: Some("t".to_owned()) });
}

fn start_turn(bench: &mut TestSession) {
    bench.signal(StreamSignal::TurnStarted { turn: Some("turn".to_owned()) });
}

fn set_goal(bench: &mut TestSession, active: bool) {
    bench.signal(StreamSignal::Goal { active });
}

fn turn_ended(end: TurnEnd) -> StreamSignal {
    StreamSignal::TurnEnded { turn: Some("turn".to_owned()), end, usage: None, says: None }
}

/// Delivers the next message and returns the key under which it was written.
fn deliver(bench: &mut TestSession) -> String {
    let key = next_delivery(bench).expect("a message is to be delivered");
    bench.signal(StreamSignal::InputWritten { key: key.clone() });
    key
}

fn next_delivery(bench: &TestSession) -> Option<String> {
    bench.session.effects().into_iter().find_map(|effect| {
        let SessionEffect::Deliver { message, .. } = effect else { return None };
        Some(message)
    })
}

fn refuse(bench: &mut TestSession, key: &str, reason: &str) {
    let busy = reason == BUSY;
    bench.signal(StreamSignal::MessageRefused {
        key: key.to_owned(),
        reason: reason.to_owned(),
        busy,
    });
}

fn result_asked(bench: &TestSession) -> bool {
    bench.session.attempt().result_requested.is_some()
}

#[test]
fn f4_2_result_is_asked_after_last_goal_turn() {
    let mut bench = working();
    set_goal(&mut bench, true);
    for _ in 0..3 {
        bench.signal(turn_ended(TurnEnd::Ok));
        assert_eq!((bench.state(), result_asked(&bench)), (State::Working, false));
        assert_eq!(next_delivery(&bench), None);
        start_turn(&mut bench);
    }
    set_goal(&mut bench, false);
    bench.signal(turn_ended(TurnEnd::Ok));
    assert!(result_asked(&bench));
}

#[test]
fn f4_2_goal_without_next_turn_times_out() {
    let mut bench = working();
    set_goal(&mut bench, true);
    bench.signal(turn_ended(TurnEnd::Ok));
    let due = bench.session.deadline();
    assert_eq!(due, Some((bench.now.mono_ms + 30_000, DeadlineKind::OwnTurn)));
    bench.advance_clock(29_999);
    assert!(!result_asked(&bench));
    bench.advance_clock(1);
    assert!(result_asked(&bench), "it is idle");
}

#[test]
fn f4_2_paused_or_interrupted_goal_starts_no_turn() {
    let mut bench = working();
    set_goal(&mut bench, true);
    bench.signal(turn_ended(TurnEnd::Ok));
    set_goal(&mut bench, false);
    assert!(result_asked(&bench), "the turn that was due does not come");
    let mut bench = working();
    set_goal(&mut bench, true);
    bench.signal(turn_ended(TurnEnd::Interrupted));
    assert!(bench.session.awaits_user(), "after an interrupt no turn begins by itself");
    assert!(!result_asked(&bench), "an interrupted turn is not finished");
}

#[test]
fn f4_2_goal_set_while_idle_starts_a_turn() {
    let mut bench = attended();
    bench.signal(turn_ended(TurnEnd::Ok));
    assert_eq!(bench.state(), State::Idle);
    set_goal(&mut bench, true);
    assert_eq!(bench.session.deadline().map(|(_, due)| due), Some(DeadlineKind::OwnTurn));
    assert_eq!(bench.state(), State::Working);
}

#[test]
fn f4_2_refused_result_query_is_asked_again() {
    // Whether the blocking turn was seen before or after the refusal.
    for seen_first in [false, true] {
        let mut bench = working();
        bench.signal(turn_ended(TurnEnd::Ok));
        let key = deliver(&mut bench);
        if seen_first {
            start_turn(&mut bench);
        }
        refuse(&mut bench, &key, BUSY);
        assert_eq!((bench.state(), bench.session.claim()), (State::Working, ClaimKind::None));
        assert!(!result_asked(&bench) && next_delivery(&bench).is_none());
        if !seen_first {
            start_turn(&mut bench);
        }
        bench.signal(turn_ended(TurnEnd::Ok));
        let again = deliver(&mut bench);
        assert!(result_asked(&bench) && again != key, "{again}");
        start_turn(&mut bench);
        bench.claim(ClaimKind::Completed).signal(turn_ended(TurnEnd::Ok)).settle();
        assert_eq!((bench.state(), bench.sealed()), (State::Completed, true));
    }
}

#[test]
fn f4_2_refused_message_is_sent_after_the_turn() {
    let mut bench = working();
    bench.apply(send("more", SendMode::Continue));
    let key = deliver(&mut bench);
    refuse(&mut bench, &key, BUSY);
    assert_eq!(next_delivery(&bench), None, "a turn is in its way");
    bench.signal(turn_ended(TurnEnd::Ok));
    assert!(!result_asked(&bench), "the agent has yet to hear of it");
    let again = next_delivery(&bench).expect("it is sent again");
    assert_ne!(again, key, "the holder writes a key once");
    let stale = bench.try_signal(StreamSignal::InputWritten { key });
    assert!(stale.is_err(), "the first writing is read again after a restart");
    deliver(&mut bench);
    let sent = bench.session.messages.iter().find(|m| m.kind == AgentMessageKind::Steer).cloned();
    let sent = sent.expect("it was sent");
    assert_eq!(sent.text, "the text of more");
    start_turn(&mut bench);
    bench.signal(turn_ended(TurnEnd::Ok));
    assert!(result_asked(&bench));
}

#[test]
fn f4_2_invalid_message_is_lost_and_not_repeated() {
    let mut bench = attended();
    bench.signal(turn_ended(TurnEnd::Ok));
    bench.apply(send("more", SendMode::Continue));
    let key = deliver(&mut bench);
    assert_eq!(bench.state(), State::Working, "its turn is expected");
    refuse(&mut bench, &key, "too long");
    let fate = &bench.session.messages.last().expect("it was sent").status;
    assert_eq!(*fate, DeliveryStatus::Undeliverable { reason: "too long".to_owned() });
    assert_eq!((bench.state(), bench.session.claim()), (State::Idle, ClaimKind::None));
}

#[test]
fn f4_2_always_refused_instruction_fails_launch() {
    let mut bench = TestSession::running(codex());
    ready(&mut bench);
    let key = deliver(&mut bench);
    refuse(&mut bench, &key, "too long");
    assert_eq!((bench.state(), bench.cause()), (State::Failed, Some(Cause::Launch)));
    let mut bench = TestSession::running(codex());
    ready(&mut bench);
    let mut refusals = 0;
    while bench.session.attempt().stopped.is_none() {
        let key = deliver(&mut bench);
        refuse(&mut bench, &key, BUSY);
        refusals += 1;
        bench.advance_clock(30_000);
    }
    assert_eq!((refusals, bench.cause()), (5, Some(Cause::Launch)));
}

#[test]
fn f4_1_unreachable_launch_is_retried_once() {
    let mut bench = TestSession::running(codex());
    let unreachable = || StreamSignal::Unreachable { reason: "connection reset".to_owned() };
    bench.signal(unreachable());
    assert_eq!(bench.stop_step(), Some(StopStep::Terminate), "nothing runs beside the next launch");
    assert_eq!(bench.session.launches.len(), 1);
    bench.end_by(ProcessExit::Signal(15), StoppedBy::Provost);
    assert_eq!(bench.session.launches[1].why, LaunchReason::Retry);
    bench.start();
    assert_eq!(bench.state(), State::Working);
    bench.signal(unreachable()).end(ProcessExit::Exit(1)).settle();
    assert_eq!((bench.state(), bench.cause()), (State::Failed, Some(Cause::Launch)));
    assert_eq!(bench.session.launches.len(), 2, "once for each attempt");
}

#[test]
fn f4_1_retried_launch_gets_the_instruction() {
    let mut bench = TestSession::running(codex());
    bench.end(ProcessExit::Exit(1));
    assert_eq!(bench.session.launches[1].why, LaunchReason::Retry);
    bench.start();
    ready(&mut bench);
    assert_eq!(deliver(&mut bench), "instruction-1");
}

#[test]
fn f4_1_answered_or_stopped_agent_is_not_relaunched() {
    let mut bench = TestSession::running(codex());
    bench
        .signal(StreamSignal::Refused { reason: "too old".to_owned() })
        .end(ProcessExit::Exit(1))
        .settle();
    assert_eq!((bench.session.launches.len(), bench.cause()), (1, Some(Cause::Launch)));
    let mut bench = TestSession::running(codex());
    bench.apply(SessionCommand::Stop).end_by(ProcessExit::Signal(15), StoppedBy::Provost).settle();
    assert_eq!(bench.session.launches.len(), 1);
    let mut bench = TestSession::running(codex());
    bench.apply(SessionCommand::Cancel { because: String::new() });
    bench
        .signal(StreamSignal::Unreachable { reason: String::new() })
        .end(ProcessExit::Exit(1))
        .settle();
    assert_eq!((bench.session.launches.len(), bench.state()), (1, State::Cancelled));
}

fn limit(bench: &TestSession) -> StreamSignal {
    let until = u64::try_from(bench.now.wall_ms).expect("later than 1970") + 60_000;
    turn_ended(TurnEnd::Limited { until_ms: Some(until), detail: "used up".to_owned() })
}

/// A one-shot session that exited at a usage limit.
fn exited_at_limit(spec: SessionSpec) -> TestSession {
    let mut bench = TestSession::running(with(interfaces::one_shot(), spec));
    ready(&mut bench);
    start_turn(&mut bench);
    let limited = limit(&bench);
    bench.signal(limited).end(ProcessExit::Exit(1));
    bench
}

#[test]
fn f4_3_one_shot_usage_limit_waits_then_resumes() {
    let mut bench = exited_at_limit(checked_spec());
    let judged = bench.session.judgement();
    assert_eq!((judged.state, judged.rule), (State::Working, Rule::Limited));
    assert!(judged.has(Flag::Limited));
    let proves = |effect: &SessionEffect| matches!(effect, SessionEffect::TakeSnapshot { .. });
    assert!(!bench.session.effects().iter().any(proves), "the work is not over");
    bench.advance_clock(59_999);
    assert_eq!(bench.session.launches.len(), 1);
    bench.advance_clock(bench.session.spec.bounds.limit_jitter_ms + 1);
    assert_eq!(bench.session.launches[1].why, LaunchReason::Limit);
    assert!(bench.session.one_shot_text().contains("used up"));
    bench.start();
    assert_eq!(bench.session.one_shot_text(), "do it", "the limit message was sent once");
    assert_eq!(next_delivery(&bench), None, "nothing can be said to it while it runs");
    start_turn(&mut bench);
    bench.claim(ClaimKind::Completed).signal(turn_ended(TurnEnd::Ok)).end(ProcessExit::Exit(0));
    assert_eq!(bench.state(), State::Verifying);
}

#[test]
fn f4_3_one_shot_limit_over_before_exit_resumes() {
    let mut bench = TestSession::running(with(interfaces::one_shot(), spec()));
    ready(&mut bench);
    start_turn(&mut bench);
    let limited = limit(&bench);
    bench.signal(limited).advance_clock(120_000);
    assert_eq!(next_delivery(&bench), None);
    bench.end(ProcessExit::Exit(1));
    assert_eq!(bench.session.launches[1].why, LaunchReason::Limit);
}

#[test]
fn f4_3_one_shot_cancelled_wait_ends() {
    let mut bench = exited_at_limit(spec());
    bench.apply(SessionCommand::Cancel { because: String::new() }).settle();
    assert_eq!((bench.state(), bench.sealed()), (State::Cancelled, true));
    bench.advance_clock(1_000_000);
    assert_eq!(bench.session.launches.len(), 1);
    bench.apply(send("again", SendMode::Continue)).start();
    ready(&mut bench);
    start_turn(&mut bench);
    bench
        .claim(ClaimKind::Completed)
        .signal(turn_ended(TurnEnd::Ok))
        .end(ProcessExit::Exit(0))
        .settle();
    assert_eq!(bench.state(), State::Completed, "the old limit is not the new attempt's");
}
