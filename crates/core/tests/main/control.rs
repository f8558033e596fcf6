//! Interrupting a turn and compacting a conversation.

use provost_core::{
    lifecycle::{ClaimKind, Flag, State},
    session::{
        Command, Context, Driver, Due, Effect, End, Event, MessageFate, Recorded, Rejected, Signal,
        Spec, TurnEnd,
    },
};

use crate::kit::{Bench, OVER, spec};

fn interrupt(text: Option<&str>) -> Command {
    Command::Interrupt { key: "leave".to_owned(), text: text.map(str::to_owned) }
}

fn compact() -> Command {
    Command::Compact { key: "compact".to_owned() }
}

/// A session whose agent received its instruction and is in a turn.
fn at_work() -> Bench {
    at_work_of(spec())
}

fn at_work_of(spec: Spec) -> Bench {
    let mut bench = Bench::running(spec);
    bench.signal(Signal::Ready { thread: Some("t".to_owned()) });
    taken(&mut bench, "instruction-1");
    bench.signal(Signal::TurnStarted { turn: Some("u".to_owned()) });
    bench
}

fn taken(bench: &mut Bench, key: &str) {
    bench.signal(Signal::InputSeen { key: key.to_owned() });
}

fn delivery(bench: &Bench) -> Option<String> {
    bench.session.effects().into_iter().find_map(delivered)
}

/// Returns the key of the message that an effect delivers, if any.
pub(crate) fn delivered(effect: Effect) -> Option<String> {
    if let Effect::Deliver { message, .. } = effect { Some(message) } else { None }
}

fn ended(end: TurnEnd) -> Signal {
    Signal::TurnEnded { turn: Some("u".to_owned()), end, usage: None, says: None }
}

/// Repeating a command whose request was given up does not request it again.
#[test]
fn a_key_is_of_one_compaction_and_of_one_interrupt() {
    let mut bench = Bench::running(spec());
    bench.tell(Command::Compact { key: "once".to_owned() });
    bench.tell(Command::MessageLost { key: "once".to_owned(), reason: "so".to_owned() });
    let again = bench.decide(&Command::Compact { key: "once".to_owned() });
    assert_eq!(again, Err(Rejected::Nothing));
    bench.tell(Command::Compact { key: "twice".to_owned() });
    bench.signal(Signal::TurnStarted { turn: None });
    let again = bench.decide(&Command::Interrupt { key: "once".to_owned(), text: None });
    assert_eq!(again, Err(Rejected::Nothing));
}

#[test]
fn whoever_interrupts_a_turn_says_how_it_goes_on_and_nobody_else() {
    let mut bench = at_work();
    bench.tell(interrupt(None));
    assert_eq!(delivery(&bench).as_deref(), Some("leave"));
    taken(&mut bench, "leave");
    bench.signal(ended(TurnEnd::Interrupted));
    assert_eq!((bench.state(), bench.has(Flag::Interrupted)), (State::Idle, true));
    assert_eq!(delivery(&bench), None, "it is not asked for its result");
    assert_eq!(bench.session.deadline(), None, "it waits for the user");
    bench.tell(crate::kit::send("next", provost_core::session::SendMode::Continue));
    taken(&mut bench, "next");
    bench.signal(Signal::TurnStarted { turn: None });
    assert!(!bench.has(Flag::Interrupted));
    bench.signal(OVER);
    assert_eq!(delivery(&bench).as_deref(), Some("result-1-0"));
}

#[test]
fn what_is_said_with_an_interrupt_is_said_after_the_turn_and_overtakes_the_question_for_the_result()
{
    let mut bench = at_work();
    bench.tell(interrupt(Some("do that instead")));
    taken(&mut bench, "leave");
    assert_eq!(delivery(&bench), None, "it would be taken up in the turn that ends");
    bench.signal(ended(TurnEnd::Interrupted));
    assert_eq!(delivery(&bench).as_deref(), Some("leave-text"));
    assert_eq!(bench.state(), State::Working, "a turn is expected");
    taken(&mut bench, "leave-text");
    assert_eq!(delivery(&bench), None);
}

#[test]
fn an_interrupt_overtakes_what_waits_and_comes_once() {
    let mut bench = at_work();
    bench.tell(crate::kit::send("waits", provost_core::session::SendMode::Continue));
    bench.tell(interrupt(None));
    assert_eq!(delivery(&bench).as_deref(), Some("leave"));
    assert_eq!(bench.decide(&interrupt(None)), Err(Rejected::Nothing));
    taken(&mut bench, "leave");
    assert_eq!(bench.decide(&interrupt(None)), Err(Rejected::Nothing));
}

#[test]
fn an_interrupt_that_comes_after_the_turn_is_dropped_and_holds_nothing() {
    let mut bench = at_work();
    bench.tell(interrupt(None)).signal(ended(TurnEnd::Ok));
    let fate = &bench.session.messages.iter().find(|m| m.key == "leave").unwrap().fate;
    assert!(matches!(fate, MessageFate::Undeliverable { .. }), "{fate:?}");
    assert_eq!(delivery(&bench).as_deref(), Some("result-1-0"));
}

#[test]
fn what_cannot_be_interrupted_says_why() {
    let mut idle = at_work();
    idle.tell(interrupt(None));
    taken(&mut idle, "leave");
    idle.signal(ended(TurnEnd::Interrupted));
    assert_eq!(idle.decide(&interrupt(None)), Err(Rejected::NoTurn));
    let plain = Bench::running(crate::kit::command_spec());
    assert_eq!(plain.decide(&interrupt(None)), Err(Rejected::HasNoTurns("test".to_owned())));
    assert_eq!(plain.decide(&compact()), Err(Rejected::CannotCompact("test".to_owned())));
    let mut gone = at_work();
    gone.tell(Command::Cancel { because: "so".to_owned() });
    assert_eq!(gone.decide(&interrupt(None)), Err(Rejected::Cancelled));
    let mut stopped = at_work();
    stopped.tell(Command::Stop);
    assert_eq!(stopped.decide(&compact()), Err(Rejected::Stopping));
    stopped.end(End::Exit(0));
    assert_eq!(stopped.decide(&compact()), Err(Rejected::NotRunning));
}

#[test]
fn d09_a_compaction_waits_for_the_turns_end_and_is_no_turn_of_the_work() {
    let mut bench = at_work();
    bench.signal(Signal::Context(Context { used: 90, window: 100 }));
    bench.tell(compact());
    assert_eq!(delivery(&bench), None, "a turn is open");
    assert_eq!(bench.decide(&compact()), Err(Rejected::Nothing));
    bench.signal(ended(TurnEnd::Ok));
    assert_eq!(delivery(&bench).as_deref(), Some("compact"), "before it is asked for its result");
    taken(&mut bench, "compact");
    assert_eq!(delivery(&bench), None, "nothing is said meanwhile");
    let turns = bench.session.turns;
    bench.signal(Signal::TurnStarted { turn: Some("c".to_owned()) }).signal(Signal::Compacted);
    assert_eq!((bench.session.context, bench.session.compactions), (None, 1));
    bench.signal(Signal::TurnEnded {
        turn: Some("c".to_owned()),
        end: TurnEnd::Error("no model".to_owned()),
        usage: None,
        says: None,
    });
    assert_eq!(bench.session.turns, turns, "no turn was invented");
    assert_eq!(bench.session.attempt().claim_kind(), ClaimKind::None, "and no failure of the work");
    assert_eq!(delivery(&bench).as_deref(), Some("result-1-0"));
}

#[test]
fn d09_an_agent_that_compacts_by_itself_goes_on_with_its_turn() {
    let mut bench = at_work();
    bench.signal(Signal::Compacted);
    assert_eq!((bench.state(), bench.session.compactions), (State::Working, 1));
    bench.signal(ended(TurnEnd::Error("broken".to_owned())));
    assert_eq!(bench.session.attempt().claim_kind(), ClaimKind::Failed);
}

#[test]
fn a_compaction_that_nothing_is_heard_of_is_not_waited_for_for_ever() {
    let mut bench = at_work();
    bench.tell(compact()).signal(ended(TurnEnd::Ok));
    taken(&mut bench, "compact");
    let (at, due) = bench.session.deadline().expect("it is waited for");
    assert_eq!(due, Due::Compaction);
    bench.pass(at - bench.now.mono_ms - 1);
    assert!(bench.session.compacting().is_some());
    bench.pass(1);
    assert!(bench.session.compacting().is_none());
    assert!(bench.log.iter().any(|(_, event)| matches!(event, Event::ContextKept(_))));
    assert_eq!(delivery(&bench).as_deref(), Some("result-1-0"));
}

#[test]
fn a_refused_compaction_is_told_and_work_that_ended_is_not_compacted() {
    let mut bench = at_work();
    bench.tell(compact()).signal(ended(TurnEnd::Ok));
    taken(&mut bench, "compact");
    bench.signal(Signal::NotCompacted { reason: "unknown method".to_owned() });
    assert_eq!(delivery(&bench).as_deref(), Some("result-1-0"));
    let mut done = at_work();
    done.tell(compact()).claim(ClaimKind::Completed).signal(ended(TurnEnd::Ok));
    assert_eq!(delivery(&done), None);
}

#[test]
fn a_terminal_is_told_to_compact_at_its_prompt_and_shows_that_by_its_own_record() {
    let mut given = spec();
    (given.agent.driver, given.instruction) = (Driver::CodexTerminal, None);
    let mut bench = Bench::running(given);
    let launch = bench.launch();
    let hint = |place| Command::Hinted {
        launch,
        by: provost_core::session::Glimpse::Osc,
        place,
        what: provost_core::session::Hinted::AtPrompt,
    };
    bench.tell(compact());
    assert_eq!(delivery(&bench), None, "it is not known to be at its prompt");
    bench.tell(hint(1));
    assert_eq!(delivery(&bench).as_deref(), Some("compact"));
    taken(&mut bench, "compact");
    assert!(bench.session.compacting().is_none(), "typed is not taken");
    let by = provost_core::session::Record::Rollout;
    let record = |place, what| Command::Recorded { launch, by, place, what };
    bench.tell(record(1, Recorded::TurnStarted { turn: Some("c".to_owned()) }));
    assert!(bench.session.compacting().is_some_and(|asked| asked.turn));
    bench.tell(record(2, Recorded::Compacted));
    bench.tell(record(
        3,
        Recorded::TurnEnded { turn: Some("c".to_owned()), end: TurnEnd::Ok, says: None },
    ));
    assert_eq!((bench.session.turns, bench.session.compactions), (0, 1));
    assert!(bench.session.compacting().is_none());
}

#[test]
fn t04_a_terminal_is_interrupted_by_a_key_in_a_turn_and_never_in_a_question() {
    let mut given = spec();
    (given.agent.driver, given.instruction) = (Driver::CodexTerminal, None);
    let mut bench = Bench::running(given);
    let launch = bench.launch();
    let by = provost_core::session::Record::Hook;
    let record = |what| Command::Recorded { launch, by, place: 0, what };
    assert_eq!(bench.decide(&interrupt(None)), Err(Rejected::NoTurn));
    bench.tell(record(Recorded::TurnStarted { turn: Some("u".to_owned()) }));
    bench.tell(record(Recorded::Asked(crate::kit::question("q"))));
    bench.tell(interrupt(Some("do that instead")));
    assert_eq!(delivery(&bench), None, "the key would answer what it asks");
    bench.tell(record(Recorded::WentOn));
    assert_eq!(delivery(&bench).as_deref(), Some("leave"));
    taken(&mut bench, "leave");
    assert!(bench.session.launches[0].stream.interrupted);
    let end = TurnEnd::Interrupted;
    bench.tell(record(Recorded::TurnEnded { turn: Some("u".to_owned()), end, says: None }));
    assert_eq!(bench.state(), State::Idle, "interrupted is not done");
}
