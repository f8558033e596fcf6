//! Turns that the agent starts by itself, messages refused because of them, and retried launches.

use provost_core::{
    lifecycle::{Cause, ClaimKind, Flag, Rule, State},
    session::{
        Command, Driver, Due, Effect, End, EndedBy, LaunchWhy, MessageFate, MessageKind, SendMode,
        Signal, Spec, StopStep, TurnEnd,
    },
};

use crate::kit::{Bench, checked, send, spec};

const BUSY: &str = "ActiveTurnOutputSchemaMismatch";

fn with(driver: Driver, mut spec: Spec) -> Spec {
    spec.agent.driver = driver;
    spec
}

fn codex() -> Spec {
    with(Driver::Codex, spec())
}

/// A session whose agent received its instruction and is in its first turn.
fn working() -> Bench {
    let mut bench = Bench::running(codex());
    ready(&mut bench);
    deliver(&mut bench);
    turn(&mut bench);
    bench
}

/// The same with a viewer attached, so that the agent is not asked for a result.
fn attended() -> Bench {
    let mut bench = working();
    let launch = bench.launch();
    bench.tell(Command::PeopleAttached { launch, people: 1 });
    bench
}

fn ready(bench: &mut Bench) {
    bench.signal(Signal::Ready { thread: Some("t".to_owned()) });
}

fn turn(bench: &mut Bench) {
    bench.signal(Signal::TurnStarted { turn: Some("turn".to_owned()) });
}

fn goal(bench: &mut Bench, active: bool) {
    bench.signal(Signal::Goal { active });
}

fn over(end: TurnEnd) -> Signal {
    Signal::TurnEnded { turn: Some("turn".to_owned()), end, usage: None, says: None }
}

/// Delivers the next message and returns the key under which it was written.
fn deliver(bench: &mut Bench) -> String {
    let key = next(bench).expect("a message is to be delivered");
    bench.signal(Signal::InputSeen { key: key.clone() });
    key
}

fn next(bench: &Bench) -> Option<String> {
    bench.session.effects().into_iter().find_map(|effect| {
        let Effect::Deliver { message, .. } = effect else { return None };
        Some(message)
    })
}

fn refuse(bench: &mut Bench, key: &str, reason: &str) {
    let busy = reason == BUSY;
    bench.signal(Signal::MessageRefused { key: key.to_owned(), reason: reason.to_owned(), busy });
}

fn asked(bench: &Bench) -> bool {
    bench.session.attempt().result_asked.is_some()
}

#[test]
fn f4_2_result_is_asked_after_the_last_turn_of_a_goal() {
    let mut bench = working();
    goal(&mut bench, true);
    for _ in 0..3 {
        bench.signal(over(TurnEnd::Ok));
        assert_eq!((bench.state(), asked(&bench)), (State::Working, false));
        assert_eq!(next(&bench), None);
        turn(&mut bench);
    }
    goal(&mut bench, false);
    bench.signal(over(TurnEnd::Ok));
    assert!(asked(&bench));
}

#[test]
fn f4_2_goal_without_a_next_turn_is_waited_for_so_long() {
    let mut bench = working();
    goal(&mut bench, true);
    bench.signal(over(TurnEnd::Ok));
    let due = bench.session.deadline();
    assert_eq!(due, Some((bench.now.mono_ms + 30_000, Due::OwnTurn)));
    bench.pass(29_999);
    assert!(!asked(&bench));
    bench.pass(1);
    assert!(asked(&bench), "it is idle");
}

#[test]
fn f4_2_goal_that_is_paused_or_interrupted_begins_no_turn() {
    let mut bench = working();
    goal(&mut bench, true);
    bench.signal(over(TurnEnd::Ok));
    goal(&mut bench, false);
    assert!(asked(&bench), "the turn that was due does not come");
    let mut bench = working();
    goal(&mut bench, true);
    bench.signal(over(TurnEnd::Interrupted));
    assert!(bench.session.awaits_user(), "after an interrupt no turn begins by itself");
    assert!(!asked(&bench), "an interrupted turn is not finished");
}

#[test]
fn f4_2_goal_set_at_rest_begins_a_turn() {
    let mut bench = attended();
    bench.signal(over(TurnEnd::Ok));
    assert_eq!(bench.state(), State::Idle);
    goal(&mut bench, true);
    assert_eq!(bench.session.deadline().map(|(_, due)| due), Some(Due::OwnTurn));
    assert_eq!(bench.state(), State::Working);
}

#[test]
fn f4_2_refused_question_is_no_failure_and_is_asked_again() {
    // Whether the blocking turn was seen before or after the refusal.
    for seen_first in [false, true] {
        let mut bench = working();
        bench.signal(over(TurnEnd::Ok));
        let key = deliver(&mut bench);
        if seen_first {
            turn(&mut bench);
        }
        refuse(&mut bench, &key, BUSY);
        assert_eq!((bench.state(), bench.session.claim()), (State::Working, ClaimKind::None));
        assert!(!asked(&bench) && next(&bench).is_none());
        if !seen_first {
            turn(&mut bench);
        }
        bench.signal(over(TurnEnd::Ok));
        let again = deliver(&mut bench);
        assert!(asked(&bench) && again != key, "{again}");
        turn(&mut bench);
        bench.claim(ClaimKind::Completed).signal(over(TurnEnd::Ok)).settle();
        assert_eq!((bench.state(), bench.sealed()), (State::Completed, true));
    }
}

#[test]
fn f4_2_refused_message_is_sent_after_the_turn() {
    let mut bench = working();
    bench.tell(send("more", SendMode::Continue));
    let key = deliver(&mut bench);
    refuse(&mut bench, &key, BUSY);
    assert_eq!(next(&bench), None, "a turn is in its way");
    bench.signal(over(TurnEnd::Ok));
    assert!(!asked(&bench), "the agent has yet to hear of it");
    let again = next(&bench).expect("it is sent again");
    assert_ne!(again, key, "the holder writes a key once");
    let stale = bench.try_signal(Signal::InputSeen { key });
    assert!(stale.is_err(), "the first writing is read again after a restart");
    deliver(&mut bench);
    let sent = bench.session.messages.iter().find(|m| m.kind == MessageKind::Steer).cloned();
    let sent = sent.expect("it was sent");
    assert_eq!(sent.text, "the text of more");
    turn(&mut bench);
    bench.signal(over(TurnEnd::Ok));
    assert!(asked(&bench));
}

#[test]
fn f4_2_message_refused_for_itself_is_lost_and_not_repeated() {
    let mut bench = attended();
    bench.signal(over(TurnEnd::Ok));
    bench.tell(send("more", SendMode::Continue));
    let key = deliver(&mut bench);
    assert_eq!(bench.state(), State::Working, "its turn is expected");
    refuse(&mut bench, &key, "too long");
    let fate = &bench.session.messages.last().expect("it was sent").fate;
    assert_eq!(*fate, MessageFate::Undeliverable { reason: "too long".to_owned() });
    assert_eq!((bench.state(), bench.session.claim()), (State::Idle, ClaimKind::None));
}

#[test]
fn f4_2_instruction_that_is_always_refused_fails_the_launch() {
    let mut bench = Bench::running(codex());
    ready(&mut bench);
    let key = deliver(&mut bench);
    refuse(&mut bench, &key, "too long");
    assert_eq!((bench.state(), bench.cause()), (State::Failed, Some(Cause::Launch)));
    let mut bench = Bench::running(codex());
    ready(&mut bench);
    let mut refusals = 0;
    while bench.session.attempt().stopped.is_none() {
        let key = deliver(&mut bench);
        refuse(&mut bench, &key, BUSY);
        refusals += 1;
        bench.pass(30_000);
    }
    assert_eq!((refusals, bench.cause()), (5, Some(Cause::Launch)));
}

#[test]
fn f4_1_launch_that_was_not_reached_is_repeated_once() {
    let mut bench = Bench::running(codex());
    let unreachable = || Signal::Unreachable { reason: "connection reset".to_owned() };
    bench.signal(unreachable());
    assert_eq!(bench.step(), Some(StopStep::Terminate), "nothing runs beside the next launch");
    assert_eq!(bench.session.launches.len(), 1);
    bench.end_by(End::Signal(15), EndedBy::Provost);
    assert_eq!(bench.session.launches[1].why, LaunchWhy::Retry);
    bench.start();
    assert_eq!(bench.state(), State::Working);
    bench.signal(unreachable()).end(End::Exit(1)).settle();
    assert_eq!((bench.state(), bench.cause()), (State::Failed, Some(Cause::Launch)));
    assert_eq!(bench.session.launches.len(), 2, "once for each attempt");
}

#[test]
fn f4_1_repeated_launch_gets_the_instruction() {
    let mut bench = Bench::running(codex());
    bench.end(End::Exit(1));
    assert_eq!(bench.session.launches[1].why, LaunchWhy::Retry);
    bench.start();
    ready(&mut bench);
    assert_eq!(deliver(&mut bench), "instruction-1");
}

#[test]
fn f4_1_agent_that_answered_or_was_stopped_is_not_launched_again() {
    let mut bench = Bench::running(codex());
    bench.signal(Signal::Refused { reason: "too old".to_owned() }).end(End::Exit(1)).settle();
    assert_eq!((bench.session.launches.len(), bench.cause()), (1, Some(Cause::Launch)));
    let mut bench = Bench::running(codex());
    bench.tell(Command::Stop).end_by(End::Signal(15), EndedBy::Provost).settle();
    assert_eq!(bench.session.launches.len(), 1);
    let mut bench = Bench::running(codex());
    bench.tell(Command::Cancel { because: String::new() });
    bench.signal(Signal::Unreachable { reason: String::new() }).end(End::Exit(1)).settle();
    assert_eq!((bench.session.launches.len(), bench.state()), (1, State::Cancelled));
}

fn limit(bench: &Bench) -> Signal {
    let until = u64::try_from(bench.now.wall_ms).expect("later than 1970") + 60_000;
    over(TurnEnd::Limited { until_ms: Some(until), detail: "used up".to_owned() })
}

/// A one-shot session that exited at a usage limit.
fn exited_at_limit(spec: Spec) -> Bench {
    let mut bench = Bench::running(with(Driver::CodexExec, spec));
    ready(&mut bench);
    turn(&mut bench);
    let limited = limit(&bench);
    bench.signal(limited).end(End::Exit(1));
    bench
}

#[test]
fn f4_3_once_a_usage_limit_is_waited_for_and_resumed() {
    let mut bench = exited_at_limit(checked());
    let judged = bench.session.judgement();
    assert_eq!((judged.state, judged.rule), (State::Working, Rule::Limited));
    assert!(judged.has(Flag::Limited));
    let proves = |effect: &Effect| matches!(effect, Effect::TakeSnapshot { .. });
    assert!(!bench.session.effects().iter().any(proves), "the work is not over");
    bench.pass(59_999);
    assert_eq!(bench.session.launches.len(), 1);
    bench.pass(bench.session.spec.bounds.limit_jitter_ms + 1);
    assert_eq!(bench.session.launches[1].why, LaunchWhy::Limit);
    assert!(bench.session.one_shot_text().contains("used up"));
    bench.start();
    assert_eq!(bench.session.one_shot_text(), "do it", "the limit message was sent once");
    assert_eq!(next(&bench), None, "nothing can be said to it while it runs");
    turn(&mut bench);
    bench.claim(ClaimKind::Completed).signal(over(TurnEnd::Ok)).end(End::Exit(0));
    assert_eq!(bench.state(), State::Verifying);
}

#[test]
fn f4_3_once_a_limit_that_passes_before_the_exit_is_resumed_too() {
    let mut bench = Bench::running(with(Driver::CodexExec, spec()));
    ready(&mut bench);
    turn(&mut bench);
    let limited = limit(&bench);
    bench.signal(limited).pass(120_000);
    assert_eq!(next(&bench), None);
    bench.end(End::Exit(1));
    assert_eq!(bench.session.launches[1].why, LaunchWhy::Limit);
}

#[test]
fn f4_3_once_a_cancelled_wait_is_over() {
    let mut bench = exited_at_limit(spec());
    bench.tell(Command::Cancel { because: String::new() }).settle();
    assert_eq!((bench.state(), bench.sealed()), (State::Cancelled, true));
    bench.pass(1_000_000);
    assert_eq!(bench.session.launches.len(), 1);
    bench.tell(send("again", SendMode::Continue)).start();
    ready(&mut bench);
    turn(&mut bench);
    bench.claim(ClaimKind::Completed).signal(over(TurnEnd::Ok)).end(End::Exit(0)).settle();
    assert_eq!(bench.state(), State::Completed, "the old limit is not the new attempt's");
}
