//! Reactions: on which occasions they act, how often, and which agents they never touch.

use provost_core::{
    lifecycle::{ClaimKind, State},
    session::{
        AgentMessageKind, ContextUsage, DeadlineKind, Event, ExternalAgent, LaunchReason, Reaction,
        ReactionAction, ReactionTrigger, RecordSignal, SendMode, Session, SessionChange,
        SessionCommand, SessionRejection, SessionSpec, StopReason, StreamSignal, TmuxPane, TurnEnd,
    },
};

use crate::interfaces;
use crate::{
    control::delivered_message,
    kit::{TURN_ENDED_OK, TestSession, question, send, spec},
};

fn reaction(on: ReactionTrigger, act: ReactionAction) -> Reaction {
    Reaction { name: "it".to_owned(), on, after_ms: 100, act, times: 1, total: 10 }
}

fn reacting(on: ReactionTrigger, act: ReactionAction) -> SessionSpec {
    SessionSpec { reactions: vec![reaction(on, act)], ..spec() }
}

fn nudge() -> ReactionAction {
    ReactionAction::Nudge { text: "go on".to_owned() }
}

fn interrupt() -> ReactionAction {
    ReactionAction::Interrupt { text: "go on otherwise".to_owned() }
}

fn hand_over() -> ReactionAction {
    let mut successor = spec().agent;
    successor.name = "heir".to_owned();
    ReactionAction::HandOver {
        agent: Box::new(successor),
        text: Some("You are the second.".to_owned()),
    }
}

/// A session whose agent received its instruction and is in a turn.
fn in_turn(spec: SessionSpec) -> TestSession {
    let mut harness = TestSession::running(spec);
    harness.signal(StreamSignal::Ready { thread: Some("t".to_owned()) });
    harness.signal(StreamSignal::InputWritten { key: "instruction-1".to_owned() });
    harness.signal(StreamSignal::TurnStarted { turn: Some("u".to_owned()) });
    harness
}

const FULL: StreamSignal = StreamSignal::Context(ContextUsage { used: 90, window: 100 });

/// Triggers the occasion.
fn trigger(harness: &mut TestSession, on: ReactionTrigger) {
    match on {
        ReactionTrigger::Quiet => {}
        ReactionTrigger::Stalled => {
            harness.report_silence();
        }
        ReactionTrigger::NeedsInput => {
            harness.signal(StreamSignal::RequestOpened(question("q")));
        }
        ReactionTrigger::Context { .. } => {
            harness.signal(FULL);
        }
        ReactionTrigger::UsageLimit => {
            let end = TurnEnd::Limited { until_ms: None, detail: "no more".to_owned() };
            harness.signal(StreamSignal::TurnEnded {
                turn: Some("u".to_owned()),
                end,
                usage: None,
                says: None,
            });
        }
    }
}

/// Advances the clock and reports silence if it is due.
fn pass_with_silence(harness: &mut TestSession, ms: u64) {
    harness.advance_clock(ms);
    if let Some((at, DeadlineKind::Silence(launch))) = harness.session.deadline()
        && at <= harness.now.mono_ms
    {
        let heard_ms = harness.session.launch(launch).expect("it is due").stream.last_heard.mono_ms;
        harness.try_apply(SessionCommand::Silence { launch, heard_ms }).ok();
    }
}

fn reactions_done(harness: &TestSession) -> usize {
    harness
        .log
        .iter()
        .filter(|(_, event)| matches!(event, Event::Session(SessionChange::ReactionDone(_))))
        .count()
}

fn has_message(session: &Session, kind: AgentMessageKind) -> bool {
    session.input.messages.iter().any(|message| message.kind == kind)
}

const ONS: [ReactionTrigger; 5] = [
    ReactionTrigger::Quiet,
    ReactionTrigger::Stalled,
    ReactionTrigger::NeedsInput,
    ReactionTrigger::Context { percent: 85 },
    ReactionTrigger::UsageLimit,
];

#[test]
fn reaction_fires_once_after_its_delay() {
    for on in ONS {
        for act in [
            ReactionAction::Notify,
            nudge(),
            interrupt(),
            ReactionAction::Compact,
            ReactionAction::ResumeLater,
        ] {
            if !act.applies_to(on) {
                continue;
            }
            let mut harness = in_turn(reacting(on, act.clone()));
            trigger(&mut harness, on);
            pass_with_silence(&mut harness, 99);
            assert_eq!(reactions_done(&harness), 0, "{on:?} {act:?}");
            pass_with_silence(&mut harness, 1);
            assert_eq!(reactions_done(&harness), 1, "{on:?} {act:?}");
            pass_with_silence(&mut harness, 100_000);
            assert_eq!(
                reactions_done(&harness),
                1,
                "{on:?} {act:?}: one occasion is answered once"
            );
            let hooks = harness.hooks();
            assert_eq!(hooks.iter().filter(|hook| *hook == "session.reaction").count(), 1);
        }
    }
}

#[test]
fn each_act_answers_only_its_occasions() {
    let answers = |act: &ReactionAction| ONS.map(|on| act.applies_to(on));
    assert_eq!(answers(&ReactionAction::Notify), [true; 5]);
    assert_eq!(answers(&nudge()), [true, true, true, true, false]);
    assert_eq!(answers(&interrupt()), [true, true, true, false, false]);
    assert_eq!(answers(&ReactionAction::Compact), [false, false, false, true, false]);
    assert_eq!(answers(&ReactionAction::ResumeLater), [false, false, false, false, true]);
    assert_eq!(answers(&hand_over()), [true; 5]);
}

#[test]
fn reaction_performs_its_act() {
    let mut nudged = in_turn(reacting(ReactionTrigger::Quiet, nudge()));
    pass_with_silence(&mut nudged, 100);
    let sent = nudged.session.input.messages.last().unwrap();
    assert_eq!((sent.kind, sent.text.as_str()), (AgentMessageKind::Nudge, "go on"));
    assert_eq!(nudged.state(), State::Working, "it neither starts nor ends a turn");

    let mut left = in_turn(reacting(ReactionTrigger::Quiet, interrupt()));
    pass_with_silence(&mut left, 100);
    let kinds: Vec<_> = left.session.input.messages.iter().skip(1).map(|m| m.kind).collect();
    assert_eq!(kinds, [AgentMessageKind::Interrupt, AgentMessageKind::Continue]);

    let mut full =
        in_turn(reacting(ReactionTrigger::Context { percent: 85 }, ReactionAction::Compact));
    full.signal(FULL);
    pass_with_silence(&mut full, 100);
    assert!(has_message(&full.session, AgentMessageKind::Compact));

    let mut limited = in_turn(reacting(ReactionTrigger::UsageLimit, ReactionAction::ResumeLater));
    trigger(&mut limited, ReactionTrigger::UsageLimit);
    pass_with_silence(&mut limited, 100);
    assert_eq!(limited.session.input.messages.len(), 1, "it waits as it does by itself");
}

/// Ends the turn at a usage limit that has already passed.
fn reach_passed_limit(harness: &mut TestSession) {
    let end = TurnEnd::Limited { until_ms: Some(0), detail: "no more".to_owned() };
    harness.signal(StreamSignal::TurnEnded { turn: None, end, usage: None, says: None });
}

#[test]
fn passed_usage_limit_is_reacted_to_before_it_is_lifted() {
    let mut given = reacting(ReactionTrigger::UsageLimit, ReactionAction::ResumeLater);
    (given.reactions[0].after_ms, given.bounds.limit_jitter_ms) = (0, 0);
    let mut harness = in_turn(given.clone());
    reach_passed_limit(&mut harness);
    assert_eq!(reactions_done(&harness), 1);
    assert!(
        harness.session.spending.limited.is_none()
            && has_message(&harness.session, AgentMessageKind::Continue)
    );

    given.reactions[0].after_ms = 1;
    let mut harness = in_turn(given);
    reach_passed_limit(&mut harness);
    harness.advance_clock(100);
    assert_eq!(reactions_done(&harness), 0, "the limit passed before the reaction was due");
}

#[test]
fn missed_interrupt_sends_no_text() {
    let mut harness = in_turn(reacting(ReactionTrigger::Quiet, interrupt()));
    pass_with_silence(&mut harness, 100);
    harness.signal(StreamSignal::TurnEnded {
        turn: None,
        end: TurnEnd::Ok,
        usage: None,
        says: None,
    });
    let next: Vec<_> =
        harness.session.effects().into_iter().filter_map(delivered_message).collect();
    assert_eq!(next, ["result-1-0"]);
}

#[test]
fn reactions_repeat_up_to_attempt_total() {
    let mut given = reacting(ReactionTrigger::Quiet, ReactionAction::Notify);
    given.reactions[0].total = 2;
    let mut harness = in_turn(given);
    for heard in 1..=4 {
        pass_with_silence(&mut harness, 100);
        pass_with_silence(&mut harness, 100);
        assert_eq!(reactions_done(&harness), heard.min(2), "after {heard} silences");
        harness
            .signal(StreamSignal::Progress(provost_core::session::Progress { done: 1, total: 2 }));
    }
    harness.apply(send("next", SendMode::Supersede));
    harness.signal(StreamSignal::TurnStarted { turn: None });
    pass_with_silence(&mut harness, 100);
    assert_eq!(reactions_done(&harness), 3, "another attempt counts for itself");
}

#[test]
fn reaction_repeats_per_occasion_at_its_interval() {
    let mut given = reacting(ReactionTrigger::NeedsInput, ReactionAction::Notify);
    (given.reactions[0].times, given.reactions[0].after_ms) = (3, 5_000);
    let mut harness = in_turn(given);
    trigger(&mut harness, ReactionTrigger::NeedsInput);
    for (after, expected) in [(4_999, 0), (1, 1), (4_999, 1), (1, 2), (5_000, 3), (50_000, 3)] {
        pass_with_silence(&mut harness, after);
        assert_eq!(reactions_done(&harness), expected);
    }
}

#[test]
fn activity_cancels_quiet_reaction() {
    let mut harness = in_turn(reacting(ReactionTrigger::Quiet, nudge()));
    let launch = harness.launch();
    harness.advance_clock(150);
    assert_eq!(reactions_done(&harness), 0, "only the reader of the stream knows");
    harness.apply(SessionCommand::Silence { launch, heard_ms: harness.now.mono_ms });
    assert_eq!(reactions_done(&harness), 0);
    pass_with_silence(&mut harness, 100);
    assert_eq!(reactions_done(&harness), 1);
}

#[test]
fn m06_quiet_and_stalled_are_counted_separately() {
    let mut given = reacting(ReactionTrigger::Quiet, ReactionAction::Notify);
    given.reactions[0].after_ms = given.bounds.stale_ms + 500;
    let mut harness = in_turn(given);
    harness.report_silence();
    assert_eq!((harness.state(), reactions_done(&harness)), (State::Stalled, 0));
    pass_with_silence(&mut harness, 499);
    assert_eq!(reactions_done(&harness), 0);
    pass_with_silence(&mut harness, 1);
    assert_eq!((harness.state(), reactions_done(&harness)), (State::Stalled, 1));
}

#[test]
fn ended_or_ending_session_gets_no_reaction() {
    let ends: [fn(&mut TestSession); 4] = [
        |harness| {
            harness.apply(SessionCommand::Cancel { because: "so".to_owned() });
        },
        |harness| {
            harness.apply(SessionCommand::Stop);
        },
        |harness| {
            harness.claim(ClaimKind::Completed).signal(TURN_ENDED_OK).settle();
        },
        |harness| {
            let to = provost_core::session::ManualOutcome::Failed;
            harness.apply(SessionCommand::Resolve { to, because: "so".to_owned() });
        },
    ];
    for (no, end) in ends.into_iter().enumerate() {
        for on in [
            ReactionTrigger::Quiet,
            ReactionTrigger::NeedsInput,
            ReactionTrigger::Context { percent: 1 },
        ] {
            // A session with an open question has not ended, even if it claims completion.
            if (no, on) == (2, ReactionTrigger::NeedsInput) {
                continue;
            }
            let mut harness = in_turn(reacting(on, ReactionAction::Notify));
            trigger(&mut harness, on);
            end(&mut harness);
            pass_with_silence(&mut harness, 200);
            assert_eq!(reactions_done(&harness), 0, "{no} {on:?}");
        }
    }
}

#[test]
fn external_agent_is_only_nudged_or_notified() {
    let pane = TmuxPane { socket: "s".to_owned(), id: "%1".to_owned(), server: None };
    for (act, pane, expected) in [
        (ReactionAction::Notify, None, 1),
        (nudge(), None, 0),
        (nudge(), Some(pane.clone()), 1),
        (interrupt(), Some(pane.clone()), 0),
        (hand_over(), Some(pane), 0),
    ] {
        let mut given = reacting(ReactionTrigger::Quiet, act);
        (given.agent.interface, given.instruction) = (interfaces::screen(), None);
        given.adopted = Some(Box::new(ExternalAgent { pane, ..ExternalAgent::default() }));
        let mut harness = TestSession::new(given);
        harness.apply(SessionCommand::WorkPrepared { cwd: "/work".to_owned(), base: None });
        let launch = harness.launch();
        harness.apply(SessionCommand::LaunchAdopted { launch, child: None });
        let what = RecordSignal::TurnStarted { turn: None };
        let by = provost_core::session::RecordSource::Rollout;
        harness.apply(SessionCommand::RecordRead { launch, by, place: 1, what });
        pass_with_silence(&mut harness, 100);
        assert_eq!(
            reactions_done(&harness),
            expected,
            "{:?}",
            harness.session.spec.reactions[0].act.as_str()
        );
    }
}

#[test]
fn r18_successor_starts_after_former_agent_is_gone() {
    let mut harness = in_turn(reacting(ReactionTrigger::Stalled, hand_over()));
    harness.apply(send("waits", SendMode::Continue));
    harness.report_silence();
    pass_with_silence(&mut harness, 100);
    let stop = harness.session.launches[0].stop.expect("the former is ended first");
    assert_eq!(
        (stop.why, harness.session.spec.agent.name.as_str()),
        (StopReason::HandedOver, "test")
    );
    let launch = harness.launch();
    let by = provost_core::session::StoppedBy::Provost;
    harness.exit(provost_core::session::ProcessExit::Signal(15), by);
    harness.advance_clock(60_000);
    assert!(!harness.sealed(), "the end of the former agent is not the end of the work");
    assert_eq!(harness.session.launches.len(), 1, "its tree is not known to be gone");
    harness
        .apply(SessionCommand::ProcessTreeGone { launch, leftovers: 0, verified: true })
        .signal(StreamSignal::Closed);
    assert_eq!(harness.session.launches[1].why, LaunchReason::HandedOver);
    assert_eq!(
        (harness.session.spec.agent.name.as_str(), &harness.session.conversation.thread),
        ("heir", &None)
    );
    let replaced = |event: &Event| matches!(event, Event::Session(SessionChange::AgentReplaced(e)) if e.to == "heir");
    assert!(harness.log.iter().any(|(_, event)| replaced(event)));
    harness.start();
    let delivered = harness.session.effects().into_iter().find_map(delivered_message);
    assert_eq!(delivered.as_deref(), Some("handed-over-1"), "before all that waits");
    let text =
        &harness.session.input.messages.iter().find(|m| m.key == "handed-over-1").unwrap().text;
    assert!(text.contains("do it") && text.contains("(test)") && text.contains("second"), "{text}");
    harness.signal(StreamSignal::TurnStarted { turn: None }).report_silence();
    pass_with_silence(&mut harness, 10_000);
    assert_eq!(reactions_done(&harness), 1, "work is handed over once");
    assert_eq!(harness.decide(&SessionCommand::Tick), Ok(vec![]));
    assert_eq!(
        harness.decide(&SessionCommand::Compact { key: "c".to_owned() }).map(|e| e.len()),
        Ok(1)
    );
}

#[test]
fn claim_during_hand_over_is_accepted() {
    let mut harness = in_turn(reacting(ReactionTrigger::Stalled, hand_over()));
    harness.report_silence();
    pass_with_silence(&mut harness, 100);
    harness.claim(ClaimKind::Completed);
    harness.end(provost_core::session::ProcessExit::Exit(0)).settle();
    assert_eq!((harness.state(), harness.session.launches.len()), (State::Completed, 1));
    assert_eq!(harness.decide(&SessionCommand::Stop), Err(SessionRejection::NotRunning));
}
