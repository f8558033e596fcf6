//! Waiting for the user is not silence, and lasts until the answer is typed.

use provost_core::{
    lifecycle::{ClaimKind, State},
    request::{Fate, Reply, Scope},
    session::{
        Command, Due, End, Event, Glimpse, Hinted, MessageFate, MessageKind, On, Reaction,
        Recorded, Signal, Spec,
    },
};

use crate::{
    kit::{Bench, command_spec, question, spec},
    watching::{Says as _, approval, delivery, terminal},
};

/// Longer than any window of silence.
const LONG: u64 = 3_600_000;

fn answer(bench: &mut Bench, reply: Reply) {
    let (request, revision) = (bench.session.requests[0].id, bench.session.requests[0].revision);
    bench.tell(Command::Answer { request, revision, reply });
}

fn window(bench: &Bench) -> Option<u64> {
    let (at, due) = bench.session.deadline()?;
    matches!(due, Due::Silence(_)).then_some(at - bench.now.mono_ms)
}

#[test]
fn m06_the_time_until_a_question_is_answered_is_no_silence() {
    let mut bench = Bench::running(spec());
    bench.signal(Signal::TurnStarted { turn: Some("a".to_owned()) });
    bench.signal(Signal::Asked(question("q"))).pass(LONG);
    assert_eq!((bench.state(), window(&bench)), (State::NeedsInput, None));
    answer(&mut bench, Reply::Text("so".to_owned()));
    assert_eq!(window(&bench), Some(bench.session.spec.bounds.stale_ms), "it begins now");
    bench.pass(bench.session.spec.bounds.stale_ms - 1);
    assert_eq!(bench.state(), State::Working);
    bench.hear_silence();
    assert_eq!(bench.state(), State::Stalled);
}

#[test]
fn m06_nor_is_it_one_if_it_was_settled_at_the_screen() {
    let mut bench = Bench::running(terminal());
    bench.begins(10, "a").shows(Glimpse::Screen, 20, Hinted::Asks(approval())).pass(LONG);
    bench.shows(Glimpse::Screen, 30, Hinted::Working);
    assert_eq!(bench.session.requests[0].fate, Fate::AnsweredElsewhere);
    assert_eq!(window(&bench), Some(bench.session.spec.bounds.stale_ms));
}

/// A terminal that shows a request while a viewer is attached.
fn attended() -> Bench {
    let mut bench = Bench::running(terminal());
    bench.begins(10, "a").records(20, Recorded::Asked(approval()));
    bench.shows(Glimpse::Screen, 30, Hinted::Asks(approval()));
    let launch = bench.launch();
    bench.tell(Command::PeopleAttached { launch, people: 1 });
    bench
}

#[test]
fn an_answer_that_waits_leaves_the_session_needing_input_until_it_is_typed() {
    let mut bench = attended();
    answer(&mut bench, Reply::Approve(Scope::Once));
    assert_eq!((bench.state(), delivery(&bench)), (State::NeedsInput, None));
    assert!(bench.session.waiting_answer().is_some());
    bench.pass(LONG);
    assert_eq!((bench.state(), window(&bench)), (State::NeedsInput, None), "and no window runs");
    let launch = bench.launch();
    bench.tell(Command::PeopleAttached { launch, people: 0 });
    let key = delivery(&bench).expect("no viewer blocks it");
    bench.signal(Signal::InputSeen { key });
    assert_eq!(bench.state(), State::Working);
    assert_eq!(bench.session.current_launch().unwrap().stream.heard, bench.now);
}

#[test]
fn an_answer_that_waits_for_nothing_that_is_shown_blocks_nobody() {
    let mut bench = attended();
    answer(&mut bench, Reply::Approve(Scope::Once));
    bench.shows(Glimpse::Screen, 40, Hinted::Working);
    assert_eq!((bench.state(), bench.session.waiting_answer()), (State::Working, None));
}

/// A spec with a reaction that nudges a quiet agent.
fn nudging(spec: Spec) -> Spec {
    let act = provost_core::session::Act::Nudge { text: "go on".to_owned() };
    let wake =
        Reaction { name: "wake".into(), on: On::Quiet, after_ms: 100, act, times: 1, total: 9 };
    Spec { reactions: vec![wake], ..spec }
}

/// A session whose nudge waits for the end of a turn.
fn nudged() -> Bench {
    let mut bench = Bench::running(nudging(terminal()));
    bench.begins(10, "a").shows(Glimpse::Osc, 20, Hinted::AtPrompt).pass(100);
    let launch = bench.launch();
    let heard_ms = bench.session.launch(launch).expect("it runs").stream.heard.mono_ms;
    bench.tell(Command::Silence { launch, heard_ms });
    let said = bench.session.messages.last().expect("it is nudged");
    assert_eq!((said.kind, &said.fate), (MessageKind::Nudge, &MessageFate::Queued));
    bench
}

fn dropped(bench: &Bench) -> Option<&str> {
    bench.log.iter().find_map(|(_, event)| {
        let Event::MessageLost(e) = event else { return None };
        e.key.starts_with("nudge-").then_some(e.reason.as_str())
    })
}

#[test]
fn a_nudge_for_a_silence_is_dropped_with_a_record_when_the_turn_ends_first() {
    let mut bench = nudged();
    bench.pass(50);
    assert_eq!(
        (dropped(&bench), delivery(&bench)),
        (None, None),
        "it waits as long as the silence"
    );
    bench.ends(30, "a");
    assert_eq!(dropped(&bench), Some("its occasion ended first"));
    assert_eq!(delivery(&bench), None, "nothing is typed when the turn is over");
}

#[test]
fn a_nudge_for_a_silence_is_dropped_when_the_agent_speaks_again() {
    let mut bench = nudged();
    bench.records(30, Recorded::Progress(provost_core::session::Progress { done: 1, total: 2 }));
    assert!(dropped(&bench).is_some());
    let launch = bench.launch();
    bench.pass(100);
    let heard_ms = bench.session.launch(launch).unwrap().stream.heard.mono_ms;
    bench.tell(Command::Silence { launch, heard_ms });
    let waits = bench.session.messages.iter().filter(|m| m.fate == MessageFate::Queued).count();
    assert_eq!(waits, 1, "another silence is another occasion");
}

#[test]
fn a_nudge_that_is_on_its_way_arrives() {
    let mut bench = Bench::running(nudging(spec()));
    bench.signal(Signal::Ready { thread: Some("t".to_owned()) });
    bench.signal(Signal::InputSeen { key: "instruction-1".to_owned() });
    bench.signal(Signal::TurnStarted { turn: Some("u".to_owned()) }).pass(100);
    let launch = bench.launch();
    let heard_ms = bench.session.launch(launch).unwrap().stream.heard.mono_ms;
    bench.tell(Command::Silence { launch, heard_ms });
    let key = delivery(&bench).expect("an agent with a protocol gets it at once");
    bench.signal(Signal::Progress(provost_core::session::Progress { done: 1, total: 2 }));
    assert_eq!(dropped(&bench), None);
    bench.signal(Signal::InputSeen { key });
    let said = bench.session.messages.last().unwrap();
    assert!(matches!(said.fate, MessageFate::Delivered { .. }));
}

#[test]
fn f6_w14_plain_command_waits_for_input_until_it_reports_or_is_sent_some() {
    let mut bench = Bench::running(command_spec());
    bench.claim(ClaimKind::NeedsInput).pass(LONG);
    assert_eq!((bench.state(), window(&bench)), (State::NeedsInput, None), "no silence of its own");
    bench.claim(ClaimKind::Working);
    assert_eq!(bench.state(), State::Working);
    bench.claim(ClaimKind::NeedsInput).claim(ClaimKind::Completed);
    assert_eq!(bench.state(), State::WrappingUp, "its process has yet to end");
    bench.claim(ClaimKind::NeedsInput).end(End::Exit(0));
    assert_eq!(bench.state(), State::NeedsInput);
}

#[test]
fn f6_w14_agent_with_turns_that_goes_on_has_overtaken_its_question() {
    let mut bench = Bench::running(spec());
    bench.signal(Signal::TurnStarted { turn: Some("a".to_owned()) });
    bench.claim(ClaimKind::NeedsInput);
    assert_eq!(bench.state(), State::Working);
}
