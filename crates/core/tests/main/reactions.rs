//! Reactions: on which occasions they act, how often, and which agents they never touch.

use provost_core::{
    lifecycle::{ClaimKind, State},
    session::{
        Act, Adopted, Command, Context, Driver, Due, Event, LaunchWhy, MessageKind, On, Pane,
        Reaction, Recorded, Rejected, SendMode, Session, Signal, Spec, StopWhy, TurnEnd,
    },
};

use crate::{
    control::delivered,
    kit::{Bench, OVER, question, send, spec},
};

fn reaction(on: On, act: Act) -> Reaction {
    Reaction { name: "it".to_owned(), on, after_ms: 100, act, times: 1, total: 10 }
}

fn reacting(on: On, act: Act) -> Spec {
    Spec { reactions: vec![reaction(on, act)], ..spec() }
}

fn nudge() -> Act {
    Act::Nudge { text: "go on".to_owned() }
}

fn interrupt() -> Act {
    Act::Interrupt { text: "go on otherwise".to_owned() }
}

fn hand_over() -> Act {
    let mut heir = spec().agent;
    heir.name = "heir".to_owned();
    Act::HandOver { agent: Box::new(heir), text: Some("You are the second.".to_owned()) }
}

/// A session whose agent received its instruction and is in a turn.
fn at_work(spec: Spec) -> Bench {
    let mut bench = Bench::running(spec);
    bench.signal(Signal::Ready { thread: Some("t".to_owned()) });
    bench.signal(Signal::InputSeen { key: "instruction-1".to_owned() });
    bench.signal(Signal::TurnStarted { turn: Some("u".to_owned()) });
    bench
}

const FULL: Signal = Signal::Context(Context { used: 90, window: 100 });

/// Triggers the occasion.
fn begin(bench: &mut Bench, on: On) {
    match on {
        On::Quiet => {}
        On::Stalled => {
            bench.hear_silence();
        }
        On::NeedsInput => {
            bench.signal(Signal::Asked(question("q")));
        }
        On::Context { .. } => {
            bench.signal(FULL);
        }
        On::UsageLimit => {
            let end = TurnEnd::Limited { until_ms: None, detail: "no more".to_owned() };
            bench.signal(Signal::TurnEnded {
                turn: Some("u".to_owned()),
                end,
                usage: None,
                says: None,
            });
        }
    }
}

/// Advances the clock and reports silence if it is due.
fn pass(bench: &mut Bench, ms: u64) {
    bench.pass(ms);
    if let Some((at, Due::Silence(launch))) = bench.session.deadline()
        && at <= bench.now.mono_ms
    {
        let heard_ms = bench.session.launch(launch).expect("it is due").stream.heard.mono_ms;
        bench.try_tell(Command::Silence { launch, heard_ms }).ok();
    }
}

fn done(bench: &Bench) -> usize {
    bench.log.iter().filter(|(_, event)| matches!(event, Event::ReactionDone(_))).count()
}

fn waits(session: &Session, kind: MessageKind) -> bool {
    session.messages.iter().any(|message| message.kind == kind)
}

const ONS: [On; 5] =
    [On::Quiet, On::Stalled, On::NeedsInput, On::Context { percent: 85 }, On::UsageLimit];

#[test]
fn every_occasion_is_answered_after_its_time_and_never_earlier() {
    for on in ONS {
        for act in [Act::Notify, nudge(), interrupt(), Act::Compact, Act::ResumeLater] {
            if !act.answers(on) {
                continue;
            }
            let mut bench = at_work(reacting(on, act.clone()));
            begin(&mut bench, on);
            pass(&mut bench, 99);
            assert_eq!(done(&bench), 0, "{on:?} {act:?}");
            pass(&mut bench, 1);
            assert_eq!(done(&bench), 1, "{on:?} {act:?}");
            pass(&mut bench, 100_000);
            assert_eq!(done(&bench), 1, "{on:?} {act:?}: one occasion is answered once");
            let hooks = bench.hooks();
            assert_eq!(hooks.iter().filter(|hook| *hook == "session.reaction").count(), 1);
        }
    }
}

#[test]
fn what_is_no_answer_to_an_occasion_is_known() {
    let answers = |act: &Act| ONS.map(|on| act.answers(on));
    assert_eq!(answers(&Act::Notify), [true; 5]);
    assert_eq!(answers(&nudge()), [true, true, true, true, false]);
    assert_eq!(answers(&interrupt()), [true, true, true, false, false]);
    assert_eq!(answers(&Act::Compact), [false, false, false, true, false]);
    assert_eq!(answers(&Act::ResumeLater), [false, false, false, false, true]);
    assert_eq!(answers(&hand_over()), [true; 5]);
}

#[test]
fn a_reaction_does_what_it_is_for() {
    let mut nudged = at_work(reacting(On::Quiet, nudge()));
    pass(&mut nudged, 100);
    let said = nudged.session.messages.last().unwrap();
    assert_eq!((said.kind, said.text.as_str()), (MessageKind::Nudge, "go on"));
    assert_eq!(nudged.state(), State::Working, "it neither starts nor ends a turn");

    let mut left = at_work(reacting(On::Quiet, interrupt()));
    pass(&mut left, 100);
    let kinds: Vec<_> = left.session.messages.iter().skip(1).map(|m| m.kind).collect();
    assert_eq!(kinds, [MessageKind::Interrupt, MessageKind::Continue]);

    let mut full = at_work(reacting(On::Context { percent: 85 }, Act::Compact));
    full.signal(FULL);
    pass(&mut full, 100);
    assert!(waits(&full.session, MessageKind::Compact));

    let mut limited = at_work(reacting(On::UsageLimit, Act::ResumeLater));
    begin(&mut limited, On::UsageLimit);
    pass(&mut limited, 100);
    assert_eq!(limited.session.messages.len(), 1, "it waits as it does by itself");
}

#[test]
fn what_was_not_interrupted_is_not_told_that_it_was() {
    let mut bench = at_work(reacting(On::Quiet, interrupt()));
    pass(&mut bench, 100);
    bench.signal(Signal::TurnEnded { turn: None, end: TurnEnd::Ok, usage: None, says: None });
    let next: Vec<_> = bench.session.effects().into_iter().filter_map(delivered).collect();
    assert_eq!(next, ["result-1-0"]);
}

#[test]
fn a_new_occasion_is_answered_anew_up_to_the_total_of_the_attempt() {
    let mut given = reacting(On::Quiet, Act::Notify);
    given.reactions[0].total = 2;
    let mut bench = at_work(given);
    for heard in 1..=4 {
        pass(&mut bench, 100);
        pass(&mut bench, 100);
        assert_eq!(done(&bench), heard.min(2), "after {heard} silences");
        bench.signal(Signal::Progress(provost_core::session::Progress { done: 1, total: 2 }));
    }
    bench.tell(send("next", SendMode::Supersede));
    bench.signal(Signal::TurnStarted { turn: None });
    pass(&mut bench, 100);
    assert_eq!(done(&bench), 3, "another attempt counts for itself");
}

#[test]
fn one_occasion_is_answered_so_often_and_so_far_apart_as_was_said() {
    let mut given = reacting(On::NeedsInput, Act::Notify);
    (given.reactions[0].times, given.reactions[0].after_ms) = (3, 5_000);
    let mut bench = at_work(given);
    begin(&mut bench, On::NeedsInput);
    for (after, expected) in [(4_999, 0), (1, 1), (4_999, 1), (1, 2), (5_000, 3), (50_000, 3)] {
        pass(&mut bench, after);
        assert_eq!(done(&bench), expected);
    }
}

#[test]
fn a_silence_that_was_none_is_not_answered() {
    let mut bench = at_work(reacting(On::Quiet, nudge()));
    let launch = bench.launch();
    bench.pass(150);
    assert_eq!(done(&bench), 0, "only the reader of the stream knows");
    bench.tell(Command::Silence { launch, heard_ms: bench.now.mono_ms });
    assert_eq!(done(&bench), 0);
    pass(&mut bench, 100);
    assert_eq!(done(&bench), 1);
}

#[test]
fn m06_quiet_and_stalled_are_counted_apart() {
    let mut given = reacting(On::Quiet, Act::Notify);
    given.reactions[0].after_ms = given.bounds.stale_ms + 500;
    let mut bench = at_work(given);
    bench.hear_silence();
    assert_eq!((bench.state(), done(&bench)), (State::Stalled, 0));
    pass(&mut bench, 499);
    assert_eq!(done(&bench), 0);
    pass(&mut bench, 1);
    assert_eq!((bench.state(), done(&bench)), (State::Stalled, 1));
}

#[test]
fn nothing_is_done_to_what_is_over_or_being_ended() {
    let ends: [fn(&mut Bench); 4] = [
        |bench| {
            bench.tell(Command::Cancel { because: "so".to_owned() });
        },
        |bench| {
            bench.tell(Command::Stop);
        },
        |bench| {
            bench.claim(ClaimKind::Completed).signal(OVER).settle();
        },
        |bench| {
            let to = provost_core::session::Resolve::Failed;
            bench.tell(Command::Resolve { to, because: "so".to_owned() });
        },
    ];
    for (no, end) in ends.into_iter().enumerate() {
        for on in [On::Quiet, On::NeedsInput, On::Context { percent: 1 }] {
            // A session with an open question has not ended, even if it claims completion.
            if (no, on) == (2, On::NeedsInput) {
                continue;
            }
            let mut bench = at_work(reacting(on, Act::Notify));
            begin(&mut bench, on);
            end(&mut bench);
            pass(&mut bench, 200);
            assert_eq!(done(&bench), 0, "{no} {on:?}");
        }
    }
}

#[test]
fn whom_somebody_else_started_is_told_something_at_most() {
    let pane = Pane { socket: "s".to_owned(), id: "%1".to_owned(), server: None };
    for (act, pane, expected) in [
        (Act::Notify, None, 1),
        (nudge(), None, 0),
        (nudge(), Some(pane.clone()), 1),
        (interrupt(), Some(pane.clone()), 0),
        (hand_over(), Some(pane), 0),
    ] {
        let mut given = reacting(On::Quiet, act);
        (given.agent.driver, given.instruction) = (Driver::CodexTerminal, None);
        given.adopted = Some(Box::new(Adopted { pane, ..Adopted::default() }));
        let mut bench = Bench::new(given);
        bench.tell(Command::WorkPrepared { cwd: "/work".to_owned(), base: None });
        let launch = bench.launch();
        bench.tell(Command::LaunchAdopted { launch, child: None });
        let what = Recorded::TurnStarted { turn: None };
        let by = provost_core::session::Record::Rollout;
        bench.tell(Command::Recorded { launch, by, place: 1, what });
        pass(&mut bench, 100);
        assert_eq!(done(&bench), expected, "{:?}", bench.session.spec.reactions[0].act.word());
    }
}

#[test]
fn r18_another_agent_goes_on_once_all_of_the_former_is_gone_and_that_is_recorded() {
    let mut bench = at_work(reacting(On::Stalled, hand_over()));
    bench.tell(send("waits", SendMode::Continue));
    bench.hear_silence();
    pass(&mut bench, 100);
    let stop = bench.session.launches[0].stop.expect("the former is ended first");
    assert_eq!((stop.why, bench.session.spec.agent.name.as_str()), (StopWhy::HandedOver, "test"));
    let launch = bench.launch();
    let by = provost_core::session::EndedBy::Provost;
    bench.exit(provost_core::session::End::Signal(15), by);
    bench.pass(60_000);
    assert!(!bench.sealed(), "the end of the former agent is not the end of the work");
    assert_eq!(bench.session.launches.len(), 1, "its tree is not known to be gone");
    bench.tell(Command::TreeGone { launch, leftovers: 0, verified: true }).signal(Signal::Closed);
    assert_eq!(bench.session.launches[1].why, LaunchWhy::HandedOver);
    assert_eq!((bench.session.spec.agent.name.as_str(), &bench.session.thread), ("heir", &None));
    let replaced = |event: &Event| matches!(event, Event::AgentReplaced(e) if e.to == "heir");
    assert!(bench.log.iter().any(|(_, event)| replaced(event)));
    bench.start();
    let told = bench.session.effects().into_iter().find_map(delivered);
    assert_eq!(told.as_deref(), Some("handed-over-1"), "before all that waits");
    let text = &bench.session.messages.iter().find(|m| m.key == "handed-over-1").unwrap().text;
    assert!(text.contains("do it") && text.contains("(test)") && text.contains("second"), "{text}");
    bench.signal(Signal::TurnStarted { turn: None }).hear_silence();
    pass(&mut bench, 10_000);
    assert_eq!(done(&bench), 1, "work is handed over once");
    assert_eq!(bench.decide(&Command::Tick), Ok(vec![]));
    assert_eq!(bench.decide(&Command::Compact { key: "c".to_owned() }).map(|e| e.len()), Ok(1));
}

#[test]
fn an_agent_that_says_that_it_is_done_while_it_is_taken_off_is_believed() {
    let mut bench = at_work(reacting(On::Stalled, hand_over()));
    bench.hear_silence();
    pass(&mut bench, 100);
    bench.claim(ClaimKind::Completed);
    bench.end(provost_core::session::End::Exit(0)).settle();
    assert_eq!((bench.state(), bench.session.launches.len()), (State::Completed, 1));
    assert_eq!(bench.decide(&Command::Stop), Err(Rejected::NotRunning));
}
