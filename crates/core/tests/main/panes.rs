//! Panes of external agents: when Provost may type into them, and that nothing is typed twice.

use provost_core::{
    request::{AgentRequest, RequestKind, RequestReply},
    session::{
        AgentInterface, DeliveryStatus, Event, ExternalAgent, InputBlocked, PaneState,
        ProcessIdentity, ReceiveMode, RecordSignal, RecordSource, ScreenHint, ScreenSource,
        SendMode, SessionCommand, SessionEffect, SessionRejection, SessionSpec, TmuxPane, TurnEnd,
        TypingState,
    },
    time::Moment,
};

use crate::interfaces;
use crate::{
    kit::{TestSession, spec},
    rng::Rng,
    watching::approval,
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
    let mut bench = TestSession::new(pane_spec());
    bench.apply(SessionCommand::WorkPrepared { cwd: "/work".to_owned(), base: None });
    let launch = bench.launch();
    let child = ProcessIdentity { pid: 7, start_time: 8, boot_id: "boot".to_owned() };
    bench.apply(SessionCommand::LaunchAdopted { launch, child: Some(child) });
    bench.apply(SessionCommand::ScreenHinted {
        launch,
        by: ScreenSource::Screen,
        place: 1,
        what: ScreenHint::AtPrompt,
    });
    bench.apply(SessionCommand::PaneSeen { launch, sight: PaneState::Open });
    bench.apply(send("one"));
    bench
}

fn send(key: &str) -> SessionCommand {
    SessionCommand::Send { key: key.to_owned(), text: "hello".to_owned(), mode: SendMode::Continue }
}

fn keyed(bench: &TestSession, way: TypingState) -> SessionCommand {
    SessionCommand::TypingChanged { launch: bench.launch(), key: "one".to_owned(), way }
}

fn records(bench: &mut TestSession, place: u64, what: RecordSignal) {
    let launch = bench.launch();
    bench.apply(SessionCommand::RecordRead { launch, by: RecordSource::Rollout, place, what });
}

fn input_blocked(bench: &TestSession) -> Option<InputBlocked> {
    let launch = bench.session.current_launch().expect("it is watched");
    bench.session.input_blocked(launch, &bench.session.messages[0])
}

fn delivers(bench: &TestSession) -> bool {
    bench.session.effects().iter().any(|effect| matches!(effect, SessionEffect::Deliver { .. }))
}

fn presses(bench: &TestSession) -> bool {
    bench.session.effects().iter().any(|effect| matches!(effect, SessionEffect::PressAgain { .. }))
}

#[test]
fn dialog_in_external_pane_cannot_be_answered() {
    let mut bench = at_prompt_with_message();
    let launch = bench.launch();
    let what = ScreenHint::ShowsRequest(AgentRequest { kind: RequestKind::Dialog, ..approval() });
    bench.apply(SessionCommand::ScreenHinted { launch, by: ScreenSource::Screen, place: 2, what });
    let request = bench.session.requests[0].id;
    let deny = SessionCommand::Answer { request, revision: 1, reply: RequestReply::Deny };
    assert_eq!(bench.try_apply(deny), Err(SessionRejection::ExternalAgent));
}

#[test]
fn agent_without_record_rejects_messages() {
    let mut spec = pane_spec();
    spec.agent.interface = AgentInterface::terminal_command();
    let mut bench = TestSession::new(spec);
    bench.apply(SessionCommand::WorkPrepared { cwd: "/work".to_owned(), base: None });
    let launch = bench.launch();
    bench.apply(SessionCommand::LaunchAdopted { launch, child: None });
    assert_eq!(bench.session.receive_mode(), ReceiveMode::Nothing);
    assert_eq!(bench.try_apply(send("one")), Err(SessionRejection::NoTranscript));
    bench.apply(SessionCommand::ProcessUnobserved { launch, why: "it was not ours".to_owned() });
    bench.settle();
    assert_eq!(bench.try_apply(send("two")), Err(SessionRejection::ExternalAgentEnded));
}

fn interrupt() -> SessionCommand {
    SessionCommand::Interrupt { key: "leave".to_owned(), text: None }
}

fn keyed_interrupt(way: TypingState, bench: &TestSession) -> SessionCommand {
    SessionCommand::TypingChanged { launch: bench.launch(), key: "leave".to_owned(), way }
}

#[test]
fn interrupt_and_compact_work_in_the_pane() {
    let mut bench = at_prompt_with_message();
    bench.apply(keyed(&bench, TypingState::Typing));
    bench.apply(keyed(&bench, TypingState::Typed));
    records(&mut bench, 10, RecordSignal::TurnStarted { turn: Some("a".to_owned()) });
    records(&mut bench, 11, RecordSignal::InputTaken { text: "hello".to_owned() });
    bench.apply(interrupt());
    bench.apply(keyed_interrupt(TypingState::Typing, &bench));
    bench.apply(keyed_interrupt(TypingState::Typed, &bench));
    let fate = |bench: &TestSession, no: usize| bench.session.messages[no].status.clone();
    assert!(matches!(fate(&bench, 1), DeliveryStatus::Delivered { .. }), "{:?}", fate(&bench, 1));
    let end = TurnEnd::Interrupted;
    records(
        &mut bench,
        12,
        RecordSignal::TurnEnded { turn: Some("a".to_owned()), end, says: None },
    );
    let launch = bench.launch();
    bench.apply(SessionCommand::Compact { key: "short".to_owned() });
    assert!(delivers(&bench), "it is typed at the prompt");
    let keyed = |way| SessionCommand::TypingChanged { launch, key: "short".to_owned(), way };
    bench.apply(keyed(TypingState::Typing)).apply(keyed(TypingState::Typed));
    // The user may start a turn in an external pane, so only the compaction itself confirms the message.
    records(&mut bench, 13, RecordSignal::TurnStarted { turn: Some("b".to_owned()) });
    assert_eq!(fate(&bench, 2), DeliveryStatus::Queued);
    records(&mut bench, 14, RecordSignal::Compacted);
    assert!(matches!(fate(&bench, 2), DeliveryStatus::Delivered { .. }), "{:?}", fate(&bench, 2));
}

#[test]
fn turn_end_confirms_interrupt_key() {
    let mut bench = at_prompt_with_message();
    records(&mut bench, 10, RecordSignal::TurnStarted { turn: Some("a".to_owned()) });
    bench.apply(interrupt());
    bench.apply(keyed_interrupt(TypingState::Typing, &bench));
    let end = TurnEnd::Interrupted;
    records(
        &mut bench,
        11,
        RecordSignal::TurnEnded { turn: Some("a".to_owned()), end, says: None },
    );
    let fate = &bench.session.messages[1].status;
    assert!(matches!(fate, DeliveryStatus::Delivered { .. }), "{fate:?}");
    assert!(bench.try_apply(keyed_interrupt(TypingState::Typed, &bench)).is_err(), "it is settled");
}

#[test]
fn external_agent_without_pane_is_not_controlled() {
    let mut spec = pane_spec();
    spec.adopted = Some(Box::new(ExternalAgent::default()));
    let mut bench = TestSession::new(spec);
    bench.apply(SessionCommand::WorkPrepared { cwd: "/work".to_owned(), base: None });
    let launch = bench.launch();
    bench.apply(SessionCommand::LaunchAdopted { launch, child: None });
    records(&mut bench, 10, RecordSignal::TurnStarted { turn: Some("a".to_owned()) });
    assert_eq!(bench.try_apply(interrupt()), Err(SessionRejection::ExternalAgent));
    let compact = SessionCommand::Compact { key: "short".to_owned() };
    assert_eq!(bench.try_apply(compact), Err(SessionRejection::ExternalAgent));
}

#[test]
fn typing_needs_an_open_pane() {
    let mut bench = at_prompt_with_message();
    assert_eq!((input_blocked(&bench), delivers(&bench)), (None, true));
    let launch = bench.launch();
    let closed =
        [PaneState::ScrolledBack, PaneState::OtherProgram, PaneState::UnsentText, PaneState::Gone];
    for sight in closed {
        bench.apply(SessionCommand::PaneSeen { launch, sight });
        assert_eq!(
            (input_blocked(&bench), delivers(&bench)),
            (Some(InputBlocked::Pane(sight)), false)
        );
        let refused = bench.try_apply(keyed(&bench, TypingState::Typing));
        assert!(matches!(refused, Err(SessionRejection::NothingTyped(_))), "{refused:?}");
    }
}

#[test]
fn typing_is_recorded_before_it_happens_once() {
    let mut bench = at_prompt_with_message();
    bench.apply(keyed(&bench, TypingState::Typing));
    assert!(!delivers(&bench), "a daemon restarted after a crash types nothing");
    assert!(bench.try_apply(keyed(&bench, TypingState::Typing)).is_err());
    bench.apply(keyed(&bench, TypingState::Typed));
    records(&mut bench, 10, RecordSignal::InputTaken { text: "hello".to_owned() });
    assert!(matches!(bench.session.messages[0].status, DeliveryStatus::Delivered { .. }));
}

#[test]
fn half_typed_text_waits_until_turn_ends_without_it() {
    let mut bench = at_prompt_with_message();
    bench.apply(keyed(&bench, TypingState::Typing)).advance_clock(3_000);
    let message = &bench.session.messages[0];
    assert_eq!(message.typed.map(|typed| typed.state), Some(TypingState::Unconfirmed));
    assert!(message.unconfirmed_reason.as_deref().unwrap().contains("may have been typed"));
    bench.apply(send("two")).advance_clock(20_000);
    assert!(!delivers(&bench) && !presses(&bench), "nothing is typed after it either");
    records(&mut bench, 10, RecordSignal::TurnStarted { turn: Some("a".to_owned()) });
    let end = TurnEnd::Ok;
    records(
        &mut bench,
        20,
        RecordSignal::TurnEnded { turn: Some("a".to_owned()), end, says: None },
    );
    assert!(matches!(bench.session.messages[0].status, DeliveryStatus::Undeliverable { .. }));
    assert!(delivers(&bench), "the next one can be typed");
}

#[test]
fn record_confirms_doubtful_text() {
    let mut bench = at_prompt_with_message();
    bench.apply(keyed(&bench, TypingState::Typing)).advance_clock(3_000);
    records(&mut bench, 10, RecordSignal::InputTaken { text: "hello".to_owned() });
    assert!(matches!(bench.session.messages[0].status, DeliveryStatus::Delivered { .. }));
}

#[test]
fn enter_is_retried_once() {
    let mut bench = at_prompt_with_message();
    bench.apply(keyed(&bench, TypingState::Typing));
    bench.apply(keyed(&bench, TypingState::Typed)).advance_clock(3_000);
    assert!(presses(&bench));
    bench.apply(keyed(&bench, TypingState::Pressing));
    assert!(!presses(&bench), "a daemon restarted after a crash presses nothing");
    bench.apply(keyed(&bench, TypingState::Pressed)).advance_clock(3_000);
    let way = bench.session.messages[0].typed.map(|typed| typed.state);
    assert_eq!((way, delivers(&bench)), (Some(TypingState::Unconfirmed), false));
}

#[test]
fn agent_without_pane_rejects_messages() {
    let mut spec = pane_spec();
    spec.adopted = Some(Box::default());
    let mut bench = TestSession::new(spec);
    bench.apply(SessionCommand::WorkPrepared { cwd: "/work".to_owned(), base: None });
    let launch = bench.launch();
    bench.apply(SessionCommand::LaunchAdopted { launch, child: None });
    assert_eq!(bench.try_apply(send("one")), Err(SessionRejection::NoChannel));
}

/// Returns a random event of an adopted session. A daemon may start an effect and crash before it
/// reports the result.
fn random_event(bench: &TestSession, rng: &mut Rng, place: u64) -> SessionCommand {
    let launch = bench.launch();
    let ways = [
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
        _ => keyed(bench, rng.pick(&ways)),
    }
}

fn count_typed(log: &[(Moment, Event)], wanted: TypingState) -> usize {
    let typed =
        |event: &&(Moment, Event)| matches!(&event.1, Event::MessageTyped(e) if e.state == wanted);
    log.iter().filter(typed).count()
}

#[test]
fn random_crashes_never_type_twice_or_change_seal() {
    for seed in 0..2_000 {
        let (mut rng, mut bench) = (Rng::new(seed), at_prompt_with_message());
        let mut sealed = None;
        for step in 0..40 {
            let command = random_event(&bench, &mut rng, 10 + step);
            // Late or repeated commands are rejected, as they should be.
            bench.try_apply(command).ok();
            if rng.percent(20) {
                bench.advance_clock(1_500);
            }
            let now = bench.session.attempts[0].sealed.clone();
            assert!(sealed.is_none() || sealed == now, "seed {seed} changed a seal");
            sealed = now;
        }
        let typed = (
            count_typed(&bench.log, TypingState::Typing),
            count_typed(&bench.log, TypingState::Pressing),
        );
        assert!(typed.0 <= 1 && typed.1 <= 1, "seed {seed} typed {typed:?}");
    }
}

#[test]
fn f6_w1_untyped_text_stays_queued() {
    let mut bench = at_prompt_with_message();
    bench.apply(keyed(&bench, TypingState::Typing));
    assert!(!delivers(&bench));
    bench.apply(keyed(&bench, TypingState::Untyped));
    let message = &bench.session.messages[0];
    assert_eq!((&message.typed, &message.unconfirmed_reason), (&None, &None));
    assert!(delivers(&bench), "it is to be typed when the pane takes it");
    assert!(
        bench.try_apply(keyed(&bench, TypingState::Untyped)).is_err(),
        "only what was about to be"
    );
}

#[test]
fn f6_w1_untyped_text_to_dead_agent_is_lost() {
    let mut bench = at_prompt_with_message();
    bench.apply(keyed(&bench, TypingState::Typing));
    let launch = bench.launch();
    bench.apply(SessionCommand::ProcessUnobserved { launch, why: "it was not ours".to_owned() });
    bench.apply(keyed(&bench, TypingState::Untyped));
    bench.settle();
    let reason = "the session ended first".to_owned();
    assert_eq!(bench.session.messages[0].status, DeliveryStatus::Undeliverable { reason });
}
