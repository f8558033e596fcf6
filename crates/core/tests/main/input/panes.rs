//! Panes of external agents: when Provost may type into them, and that nothing is typed twice.

use provost_core::{
    request::{AgentRequest, RequestKind, RequestReply},
    session::{
        AgentInterface, DeliveryStatus, Event, ExternalAgent, InputBlocked, InputEvent, PaneState,
        ProcessIdentity, ReceiveMode, RecordSignal, RecordSource, ScreenHint, ScreenSource,
        SendMode, SessionCommand, SessionEffect, SessionRejection, SessionSpec, TmuxPane, TurnEnd,
        TypingState,
    },
    time::Moment,
};

use crate::interfaces;
use crate::{
    input::kit::approval,
    kit::{TestSession, spec},
    rng::Rng,
};

fn pane_spec() -> SessionSpec {
    let mut spec = spec();
    spec.agent.interface = interfaces::screen();
    spec.instruction = None;
    spec.on_finish = provost_core::session::OnFinish::Park;
    let pane = TmuxPane { socket: "/tmux".to_owned(), id: "%1".to_owned(), server: Some(3) };
    spec.adopted = Some(Box::new(ExternalAgent { pane: Some(pane), ..ExternalAgent::default() }));
    spec
}

/// An adopted agent at its prompt in an open pane, with a queued text.
fn at_prompt_with_message() -> TestSession {
    let mut harness = TestSession::new(pane_spec());
    harness.apply(SessionCommand::WorkPrepared { cwd: "/work".to_owned(), base: None });
    let launch = harness.launch();
    let child = ProcessIdentity { pid: 7, start_time: 8, boot_id: "boot".to_owned() };
    harness.apply(SessionCommand::LaunchAdopted { launch, child: Some(child) });
    harness.apply(SessionCommand::ScreenHinted {
        launch,
        by: ScreenSource::Screen,
        place: 1,
        what: ScreenHint::AtPrompt,
    });
    harness.apply(SessionCommand::PaneSeen { launch, sight: PaneState::Open });
    harness.apply(send("one"));
    harness
}

fn send(key: &str) -> SessionCommand {
    SessionCommand::Send { key: key.to_owned(), text: "hello".to_owned(), mode: SendMode::Continue }
}

fn keyed(harness: &TestSession, state: TypingState) -> SessionCommand {
    SessionCommand::TypingChanged { launch: harness.launch(), key: "one".to_owned(), state }
}

fn records(harness: &mut TestSession, place: u64, what: RecordSignal) {
    let launch = harness.launch();
    harness.apply(SessionCommand::RecordRead { launch, by: RecordSource::Rollout, place, what });
}

fn input_blocked(harness: &TestSession) -> Option<InputBlocked> {
    let launch = harness.session.current_launch().expect("it is watched");
    harness.session.input_blocked(launch, &harness.session.input.messages[0])
}

fn delivers(harness: &TestSession) -> bool {
    harness.session.effects().iter().any(|effect| matches!(effect, SessionEffect::Deliver { .. }))
}

fn presses(harness: &TestSession) -> bool {
    harness
        .session
        .effects()
        .iter()
        .any(|effect| matches!(effect, SessionEffect::PressAgain { .. }))
}

#[test]
fn dialog_in_external_pane_cannot_be_answered() {
    let mut harness = at_prompt_with_message();
    let launch = harness.launch();
    let what = ScreenHint::ShowsRequest(AgentRequest { kind: RequestKind::Dialog, ..approval() });
    harness.apply(SessionCommand::ScreenHinted {
        launch,
        by: ScreenSource::Screen,
        place: 2,
        what,
    });
    let request = harness.session.requests[0].id;
    let deny = SessionCommand::Answer { request, revision: 1, reply: RequestReply::Deny };
    assert_eq!(harness.try_apply(deny), Err(SessionRejection::ExternalAgent));
}

#[test]
fn agent_without_record_rejects_messages() {
    let mut spec = pane_spec();
    spec.agent.interface = AgentInterface::terminal_command();
    let mut harness = TestSession::new(spec);
    harness.apply(SessionCommand::WorkPrepared { cwd: "/work".to_owned(), base: None });
    let launch = harness.launch();
    harness.apply(SessionCommand::LaunchAdopted { launch, child: None });
    assert_eq!(harness.session.receive_mode(), ReceiveMode::Nothing);
    assert_eq!(harness.try_apply(send("one")), Err(SessionRejection::NoTranscript));
    harness.apply(SessionCommand::ProcessUnobserved { launch, why: "it was not ours".to_owned() });
    harness.settle();
    assert_eq!(harness.try_apply(send("two")), Err(SessionRejection::ExternalAgentEnded));
}

fn interrupt() -> SessionCommand {
    SessionCommand::Interrupt { key: "leave".to_owned(), text: None }
}

fn keyed_interrupt(state: TypingState, harness: &TestSession) -> SessionCommand {
    SessionCommand::TypingChanged { launch: harness.launch(), key: "leave".to_owned(), state }
}

#[test]
fn interrupt_and_compact_work_in_the_pane() {
    let mut harness = at_prompt_with_message();
    harness.apply(keyed(&harness, TypingState::Typing));
    harness.apply(keyed(&harness, TypingState::Typed));
    records(&mut harness, 10, RecordSignal::TurnStarted { turn: Some("a".to_owned()) });
    records(&mut harness, 11, RecordSignal::InputTaken { text: "hello".to_owned() });
    harness.apply(interrupt());
    harness.apply(keyed_interrupt(TypingState::Typing, &harness));
    harness.apply(keyed_interrupt(TypingState::Typed, &harness));
    let fate = |harness: &TestSession, no: usize| harness.session.input.messages[no].status.clone();
    assert!(
        matches!(fate(&harness, 1), DeliveryStatus::Delivered { .. }),
        "{:?}",
        fate(&harness, 1)
    );
    let end = TurnEnd::Interrupted;
    records(
        &mut harness,
        12,
        RecordSignal::TurnEnded { turn: Some("a".to_owned()), end, says: None },
    );
    let launch = harness.launch();
    harness.apply(SessionCommand::Compact { key: "short".to_owned() });
    assert!(delivers(&harness), "it is typed at the prompt");
    let keyed = |state| SessionCommand::TypingChanged { launch, key: "short".to_owned(), state };
    harness.apply(keyed(TypingState::Typing)).apply(keyed(TypingState::Typed));
    // The user may start a turn in an external pane, so only the compaction itself confirms the message.
    records(&mut harness, 13, RecordSignal::TurnStarted { turn: Some("b".to_owned()) });
    assert_eq!(fate(&harness, 2), DeliveryStatus::Queued);
    records(&mut harness, 14, RecordSignal::Compacted);
    assert!(
        matches!(fate(&harness, 2), DeliveryStatus::Delivered { .. }),
        "{:?}",
        fate(&harness, 2)
    );
}

#[test]
fn turn_end_confirms_interrupt_key() {
    let mut harness = at_prompt_with_message();
    records(&mut harness, 10, RecordSignal::TurnStarted { turn: Some("a".to_owned()) });
    harness.apply(interrupt());
    harness.apply(keyed_interrupt(TypingState::Typing, &harness));
    let end = TurnEnd::Interrupted;
    records(
        &mut harness,
        11,
        RecordSignal::TurnEnded { turn: Some("a".to_owned()), end, says: None },
    );
    let fate = &harness.session.input.messages[1].status;
    assert!(matches!(fate, DeliveryStatus::Delivered { .. }), "{fate:?}");
    assert!(
        harness.try_apply(keyed_interrupt(TypingState::Typed, &harness)).is_err(),
        "it is settled"
    );
}

#[test]
fn external_agent_without_pane_is_not_controlled() {
    let mut spec = pane_spec();
    spec.adopted = Some(Box::new(ExternalAgent::default()));
    let mut harness = TestSession::new(spec);
    harness.apply(SessionCommand::WorkPrepared { cwd: "/work".to_owned(), base: None });
    let launch = harness.launch();
    harness.apply(SessionCommand::LaunchAdopted { launch, child: None });
    records(&mut harness, 10, RecordSignal::TurnStarted { turn: Some("a".to_owned()) });
    assert_eq!(harness.try_apply(interrupt()), Err(SessionRejection::ExternalAgent));
    let compact = SessionCommand::Compact { key: "short".to_owned() };
    assert_eq!(harness.try_apply(compact), Err(SessionRejection::ExternalAgent));
}

#[test]
fn typing_needs_an_open_pane() {
    let mut harness = at_prompt_with_message();
    assert_eq!((input_blocked(&harness), delivers(&harness)), (None, true));
    let launch = harness.launch();
    let closed =
        [PaneState::ScrolledBack, PaneState::OtherProgram, PaneState::UnsentText, PaneState::Gone];
    for sight in closed {
        harness.apply(SessionCommand::PaneSeen { launch, sight });
        assert_eq!(
            (input_blocked(&harness), delivers(&harness)),
            (Some(InputBlocked::Pane(sight)), false)
        );
        let refused = harness.try_apply(keyed(&harness, TypingState::Typing));
        assert!(matches!(refused, Err(SessionRejection::NothingTyped(_))), "{refused:?}");
    }
}

#[test]
fn typing_is_recorded_before_it_happens_once() {
    let mut harness = at_prompt_with_message();
    harness.apply(keyed(&harness, TypingState::Typing));
    assert!(!delivers(&harness), "a daemon restarted after a crash types nothing");
    assert!(harness.try_apply(keyed(&harness, TypingState::Typing)).is_err());
    harness.apply(keyed(&harness, TypingState::Typed));
    records(&mut harness, 10, RecordSignal::InputTaken { text: "hello".to_owned() });
    assert!(matches!(harness.session.input.messages[0].status, DeliveryStatus::Delivered { .. }));
}

#[test]
fn half_typed_text_waits_until_turn_ends_without_it() {
    let mut harness = at_prompt_with_message();
    harness.apply(keyed(&harness, TypingState::Typing)).advance_clock(3_000);
    let message = &harness.session.input.messages[0];
    assert_eq!(message.typed.map(|typed| typed.state), Some(TypingState::Unconfirmed));
    assert!(message.unconfirmed_reason.as_deref().unwrap().contains("may have been typed"));
    harness.apply(send("two")).advance_clock(20_000);
    assert!(!delivers(&harness) && !presses(&harness), "nothing is typed after it either");
    records(&mut harness, 10, RecordSignal::TurnStarted { turn: Some("a".to_owned()) });
    let end = TurnEnd::Ok;
    records(
        &mut harness,
        20,
        RecordSignal::TurnEnded { turn: Some("a".to_owned()), end, says: None },
    );
    assert!(matches!(
        harness.session.input.messages[0].status,
        DeliveryStatus::Undeliverable { .. }
    ));
    assert!(delivers(&harness), "the next one can be typed");
}

#[test]
fn record_confirms_doubtful_text() {
    let mut harness = at_prompt_with_message();
    harness.apply(keyed(&harness, TypingState::Typing)).advance_clock(3_000);
    records(&mut harness, 10, RecordSignal::InputTaken { text: "hello".to_owned() });
    assert!(matches!(harness.session.input.messages[0].status, DeliveryStatus::Delivered { .. }));
}

#[test]
fn enter_is_retried_once() {
    let mut harness = at_prompt_with_message();
    harness.apply(keyed(&harness, TypingState::Typing));
    harness.apply(keyed(&harness, TypingState::Typed)).advance_clock(3_000);
    assert!(presses(&harness));
    harness.apply(keyed(&harness, TypingState::Pressing));
    assert!(!presses(&harness), "a daemon restarted after a crash presses nothing");
    harness.apply(keyed(&harness, TypingState::Pressed)).advance_clock(3_000);
    let state = harness.session.input.messages[0].typed.map(|typed| typed.state);
    assert_eq!((state, delivers(&harness)), (Some(TypingState::Unconfirmed), false));
}

#[test]
fn agent_without_pane_rejects_messages() {
    let mut spec = pane_spec();
    spec.adopted = Some(Box::default());
    let mut harness = TestSession::new(spec);
    harness.apply(SessionCommand::WorkPrepared { cwd: "/work".to_owned(), base: None });
    let launch = harness.launch();
    harness.apply(SessionCommand::LaunchAdopted { launch, child: None });
    assert_eq!(harness.try_apply(send("one")), Err(SessionRejection::NoChannel));
}

/// Returns a random event of an adopted session. A daemon may start an effect and crash before it
/// reports the result.
fn random_event(harness: &TestSession, rng: &mut Rng, place: u64) -> SessionCommand {
    let launch = harness.launch();
    let states = [
        TypingState::Typing,
        TypingState::Typed,
        TypingState::Pressing,
        TypingState::Pressed,
        TypingState::Unconfirmed,
        TypingState::RetryEnter,
    ];
    let sights =
        [PaneState::Open, PaneState::Open, PaneState::ScrolledBack, PaneState::OtherProgram];
    let turn = Some(rng.pick(&["a", "b"]).to_owned());
    let recorded =
        |what| SessionCommand::RecordRead { launch, by: RecordSource::Rollout, place, what };
    let hinted =
        |what| SessionCommand::ScreenHinted { launch, by: ScreenSource::Screen, place, what };
    match rng.below(9) {
        0 => SessionCommand::PaneSeen { launch, sight: rng.pick(&sights) },
        1 => hinted(ScreenHint::AtPrompt),
        2 => hinted(ScreenHint::Working),
        3 => recorded(RecordSignal::TurnStarted { turn }),
        4 => recorded(RecordSignal::TurnEnded { turn, end: TurnEnd::Ok, says: None }),
        5 if rng.percent(10) => {
            SessionCommand::ProcessUnobserved { launch, why: "gone".to_owned() }
        }
        _ => keyed(harness, rng.pick(&states)),
    }
}

fn count_typed(log: &[(Moment, Event)], wanted: TypingState) -> usize {
    let typed = |event: &&(Moment, Event)| matches!(&event.1, Event::Input(InputEvent::MessageTyped(e)) if e.state == wanted);
    log.iter().filter(typed).count()
}

#[test]
fn random_crashes_never_type_twice_or_change_seal() {
    for seed in 0..2_000 {
        let (mut rng, mut harness) = (Rng::new(seed), at_prompt_with_message());
        let mut sealed = None;
        for step in 0..40 {
            let command = random_event(&harness, &mut rng, 10 + step);
            // Late or repeated commands are rejected, as they should be.
            harness.try_apply(command).ok();
            if rng.percent(20) {
                harness.advance_clock(1_500);
            }
            let now = harness.session.attempts[0].sealed.clone();
            assert!(sealed.is_none() || sealed == now, "seed {seed} changed a seal");
            sealed = now;
        }
        let typed = (
            count_typed(&harness.log, TypingState::Typing),
            count_typed(&harness.log, TypingState::Pressing),
        );
        assert!(typed.0 <= 1 && typed.1 <= 1, "seed {seed} typed {typed:?}");
    }
}

#[test]
fn f6_w1_untyped_text_stays_queued() {
    let mut harness = at_prompt_with_message();
    harness.apply(keyed(&harness, TypingState::Typing));
    assert!(!delivers(&harness));
    harness.apply(keyed(&harness, TypingState::Untyped));
    let message = &harness.session.input.messages[0];
    assert_eq!((&message.typed, &message.unconfirmed_reason), (&None, &None));
    assert!(delivers(&harness), "it is to be typed when the pane takes it");
    assert!(
        harness.try_apply(keyed(&harness, TypingState::Untyped)).is_err(),
        "only what was about to be"
    );
}

#[test]
fn f6_w1_untyped_text_to_dead_agent_is_lost() {
    let mut harness = at_prompt_with_message();
    harness.apply(keyed(&harness, TypingState::Typing));
    let launch = harness.launch();
    harness.apply(SessionCommand::ProcessUnobserved { launch, why: "it was not ours".to_owned() });
    harness.apply(keyed(&harness, TypingState::Untyped));
    harness.settle();
    let reason = "the session ended first".to_owned();
    assert_eq!(harness.session.input.messages[0].status, DeliveryStatus::Undeliverable { reason });
}
