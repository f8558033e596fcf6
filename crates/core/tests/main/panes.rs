//! Panes of external agents: when Provost may type into them, and that nothing is typed twice.

use provost_core::{
    request::{Asked, Reply, RequestKind},
    session::{
        Adopted, Command, Driver, Effect, Event, Glimpse, HeldBack, Hinted, Identity, MessageFate,
        Pane, PaneSight, Receive, Record, Recorded, Rejected, SendMode, Spec, TurnEnd, Way,
    },
    time::Moment,
};

use crate::{
    kit::{Bench, spec},
    rng::Rng,
    watching::approval,
};

fn in_a_pane() -> Spec {
    let mut spec = spec();
    spec.agent.driver = Driver::CodexTerminal;
    spec.instruction = None;
    spec.afterwards = provost_core::session::Afterwards::Park;
    let pane = Pane { socket: "/tmux".to_owned(), id: "%1".to_owned(), server: Some(3) };
    spec.adopted = Some(Box::new(Adopted { pane: Some(pane), ..Adopted::default() }));
    spec
}

/// An adopted agent at its prompt in an open pane, with a queued text.
fn at_its_prompt() -> Bench {
    let mut bench = Bench::new(in_a_pane());
    bench.tell(Command::WorkPrepared { cwd: "/work".to_owned(), base: None });
    let launch = bench.launch();
    let child = Identity { pid: 7, start_time: 8, boot_id: "boot".to_owned() };
    bench.tell(Command::LaunchAdopted { launch, child: Some(child) });
    bench.tell(Command::Hinted { launch, by: Glimpse::Screen, place: 1, what: Hinted::AtPrompt });
    bench.tell(Command::PaneSeen { launch, sight: PaneSight::Open });
    bench.tell(send("one"));
    bench
}

fn send(key: &str) -> Command {
    Command::Send { key: key.to_owned(), text: "hello".to_owned(), mode: SendMode::Continue }
}

fn keyed(bench: &Bench, way: Way) -> Command {
    Command::Keyed { launch: bench.launch(), key: "one".to_owned(), way }
}

fn records(bench: &mut Bench, place: u64, what: Recorded) {
    let launch = bench.launch();
    bench.tell(Command::Recorded { launch, by: Record::Rollout, place, what });
}

fn held_back(bench: &Bench) -> Option<HeldBack> {
    let launch = bench.session.current_launch().expect("it is watched");
    bench.session.held_back(launch, &bench.session.messages[0])
}

fn delivers(bench: &Bench) -> bool {
    bench.session.effects().iter().any(|effect| matches!(effect, Effect::Deliver { .. }))
}

fn presses(bench: &Bench) -> bool {
    bench.session.effects().iter().any(|effect| matches!(effect, Effect::PressAgain { .. }))
}

#[test]
fn what_is_no_approval_is_settled_where_it_runs() {
    let mut bench = at_its_prompt();
    let launch = bench.launch();
    let what = Hinted::Asks(Asked { kind: RequestKind::Dialog, ..approval() });
    bench.tell(Command::Hinted { launch, by: Glimpse::Screen, place: 2, what });
    let request = bench.session.requests[0].id;
    let deny = Command::Answer { request, revision: 1, reply: Reply::Deny };
    assert_eq!(bench.try_tell(deny), Err(Rejected::NotTouched));
}

#[test]
fn what_keeps_no_record_is_told_nothing_and_says_so() {
    let mut spec = in_a_pane();
    spec.agent.driver = Driver::Terminal;
    let mut bench = Bench::new(spec);
    bench.tell(Command::WorkPrepared { cwd: "/work".to_owned(), base: None });
    let launch = bench.launch();
    bench.tell(Command::LaunchAdopted { launch, child: None });
    assert_eq!(bench.session.receives(), Receive::Nothing);
    assert_eq!(bench.try_tell(send("one")), Err(Rejected::Unrecorded));
    bench.tell(Command::ProcessUnobserved { launch, why: "it was not ours".to_owned() });
    bench.settle();
    assert_eq!(bench.try_tell(send("two")), Err(Rejected::EndedElsewhere));
}

fn interrupt() -> Command {
    Command::Interrupt { key: "leave".to_owned(), text: None }
}

fn leaving(way: Way, bench: &Bench) -> Command {
    Command::Keyed { launch: bench.launch(), key: "leave".to_owned(), way }
}

#[test]
fn a_turn_is_left_and_a_conversation_compacted_in_the_pane() {
    let mut bench = at_its_prompt();
    bench.tell(keyed(&bench, Way::Typing));
    bench.tell(keyed(&bench, Way::Keys));
    records(&mut bench, 10, Recorded::TurnStarted { turn: Some("a".to_owned()) });
    records(&mut bench, 11, Recorded::Prompted { text: "hello".to_owned() });
    bench.tell(interrupt());
    bench.tell(leaving(Way::Typing, &bench));
    bench.tell(leaving(Way::Keys, &bench));
    let fate = |bench: &Bench, no: usize| bench.session.messages[no].fate.clone();
    assert!(matches!(fate(&bench, 1), MessageFate::Delivered { .. }), "{:?}", fate(&bench, 1));
    let end = TurnEnd::Interrupted;
    records(&mut bench, 12, Recorded::TurnEnded { turn: Some("a".to_owned()), end, says: None });
    let launch = bench.launch();
    bench.tell(Command::Compact { key: "short".to_owned() });
    assert!(delivers(&bench), "it is typed at the prompt");
    let keyed = |way| Command::Keyed { launch, key: "short".to_owned(), way };
    bench.tell(keyed(Way::Typing)).tell(keyed(Way::Keys));
    // The user may start a turn in an external pane, so only the compaction itself confirms the message.
    records(&mut bench, 13, Recorded::TurnStarted { turn: Some("b".to_owned()) });
    assert_eq!(fate(&bench, 2), MessageFate::Queued);
    records(&mut bench, 14, Recorded::Compacted);
    assert!(matches!(fate(&bench, 2), MessageFate::Delivered { .. }), "{:?}", fate(&bench, 2));
}

#[test]
fn a_key_that_ended_a_turn_was_pressed_though_the_end_is_read_first() {
    let mut bench = at_its_prompt();
    records(&mut bench, 10, Recorded::TurnStarted { turn: Some("a".to_owned()) });
    bench.tell(interrupt());
    bench.tell(leaving(Way::Typing, &bench));
    let end = TurnEnd::Interrupted;
    records(&mut bench, 11, Recorded::TurnEnded { turn: Some("a".to_owned()), end, says: None });
    let fate = &bench.session.messages[1].fate;
    assert!(matches!(fate, MessageFate::Delivered { .. }), "{fate:?}");
    assert!(bench.try_tell(leaving(Way::Keys, &bench)).is_err(), "it is settled");
}

#[test]
fn without_a_pane_nothing_is_asked_of_an_agent_of_others() {
    let mut spec = in_a_pane();
    spec.adopted = Some(Box::new(Adopted::default()));
    let mut bench = Bench::new(spec);
    bench.tell(Command::WorkPrepared { cwd: "/work".to_owned(), base: None });
    let launch = bench.launch();
    bench.tell(Command::LaunchAdopted { launch, child: None });
    records(&mut bench, 10, Recorded::TurnStarted { turn: Some("a".to_owned()) });
    assert_eq!(bench.try_tell(interrupt()), Err(Rejected::NotTouched));
    let compact = Command::Compact { key: "short".to_owned() };
    assert_eq!(bench.try_tell(compact), Err(Rejected::NotTouched));
}

#[test]
fn only_an_open_pane_is_typed_into() {
    let mut bench = at_its_prompt();
    assert_eq!((held_back(&bench), delivers(&bench)), (None, true));
    let launch = bench.launch();
    let closed = [PaneSight::Browsed, PaneSight::Taken, PaneSight::Drafted, PaneSight::Gone];
    for sight in closed {
        bench.tell(Command::PaneSeen { launch, sight });
        assert_eq!((held_back(&bench), delivers(&bench)), (Some(HeldBack::Pane(sight)), false));
        let refused = bench.try_tell(keyed(&bench, Way::Typing));
        assert!(matches!(refused, Err(Rejected::NothingTyped(_))), "{refused:?}");
    }
}

#[test]
fn what_is_about_to_be_typed_is_recorded_first_and_only_once() {
    let mut bench = at_its_prompt();
    bench.tell(keyed(&bench, Way::Typing));
    assert!(!delivers(&bench), "a daemon restarted after a crash types nothing");
    assert!(bench.try_tell(keyed(&bench, Way::Typing)).is_err());
    bench.tell(keyed(&bench, Way::Keys));
    records(&mut bench, 10, Recorded::Prompted { text: "hello".to_owned() });
    assert!(matches!(bench.session.messages[0].fate, MessageFate::Delivered { .. }));
}

#[test]
fn what_a_crash_left_half_typed_waits_with_the_reason_until_a_turn_ends_without_it() {
    let mut bench = at_its_prompt();
    bench.tell(keyed(&bench, Way::Typing)).pass(3_000);
    let message = &bench.session.messages[0];
    assert_eq!(message.typed.map(|typed| typed.way), Some(Way::Doubted));
    assert!(message.unproved.as_deref().unwrap().contains("may have been typed"));
    bench.tell(send("two")).pass(20_000);
    assert!(!delivers(&bench) && !presses(&bench), "nothing is typed after it either");
    records(&mut bench, 10, Recorded::TurnStarted { turn: Some("a".to_owned()) });
    let end = TurnEnd::Ok;
    records(&mut bench, 20, Recorded::TurnEnded { turn: Some("a".to_owned()), end, says: None });
    assert!(matches!(bench.session.messages[0].fate, MessageFate::Undeliverable { .. }));
    assert!(delivers(&bench), "the next one can be typed");
}

#[test]
fn a_doubt_is_gone_when_the_record_shows_the_text() {
    let mut bench = at_its_prompt();
    bench.tell(keyed(&bench, Way::Typing)).pass(3_000);
    records(&mut bench, 10, Recorded::Prompted { text: "hello".to_owned() });
    assert!(matches!(bench.session.messages[0].fate, MessageFate::Delivered { .. }));
}

#[test]
fn the_key_that_sends_is_pressed_once_more_and_then_nothing() {
    let mut bench = at_its_prompt();
    bench.tell(keyed(&bench, Way::Typing));
    bench.tell(keyed(&bench, Way::Keys)).pass(3_000);
    assert!(presses(&bench));
    bench.tell(keyed(&bench, Way::Pressing));
    assert!(!presses(&bench), "a daemon restarted after a crash presses nothing");
    bench.tell(keyed(&bench, Way::Pressed)).pass(3_000);
    let way = bench.session.messages[0].typed.map(|typed| typed.way);
    assert_eq!((way, delivers(&bench)), (Some(Way::Doubted), false));
}

#[test]
fn without_a_pane_there_is_no_way_in() {
    let mut spec = in_a_pane();
    spec.adopted = Some(Box::default());
    let mut bench = Bench::new(spec);
    bench.tell(Command::WorkPrepared { cwd: "/work".to_owned(), base: None });
    let launch = bench.launch();
    bench.tell(Command::LaunchAdopted { launch, child: None });
    assert_eq!(bench.try_tell(send("one")), Err(Rejected::NoWayIn));
}

/// Returns a random event of an adopted session. A daemon may start an effect and crash before it
/// reports the result.
fn anything(bench: &Bench, rng: &mut Rng, place: u64) -> Command {
    let launch = bench.launch();
    let ways = [Way::Typing, Way::Keys, Way::Pressing, Way::Pressed, Way::Doubted, Way::Again];
    let sights = [PaneSight::Open, PaneSight::Open, PaneSight::Browsed, PaneSight::Taken];
    let turn = Some(rng.pick(&["a", "b"]).to_owned());
    let recorded = |what| Command::Recorded { launch, by: Record::Rollout, place, what };
    let hinted = |what| Command::Hinted { launch, by: Glimpse::Screen, place, what };
    match rng.below(9) {
        0 => Command::PaneSeen { launch, sight: rng.pick(&sights) },
        1 => hinted(Hinted::AtPrompt),
        2 => hinted(Hinted::Working),
        3 => recorded(Recorded::TurnStarted { turn }),
        4 => recorded(Recorded::TurnEnded { turn, end: TurnEnd::Ok, says: None }),
        5 if rng.percent(10) => Command::ProcessUnobserved { launch, why: "gone".to_owned() },
        _ => keyed(bench, rng.pick(&ways)),
    }
}

fn times(log: &[(Moment, Event)], wanted: Way) -> usize {
    let typed =
        |event: &&(Moment, Event)| matches!(&event.1, Event::MessageTyped(e) if e.way == wanted);
    log.iter().filter(typed).count()
}

#[test]
fn no_order_of_adopting_crashing_and_restarting_types_twice_or_changes_a_seal() {
    for seed in 0..2_000 {
        let (mut rng, mut bench) = (Rng::new(seed), at_its_prompt());
        let mut sealed = None;
        for step in 0..40 {
            let command = anything(&bench, &mut rng, 10 + step);
            // Late or repeated commands are rejected, as they should be.
            bench.try_tell(command).ok();
            if rng.percent(20) {
                bench.pass(1_500);
            }
            let now = bench.session.attempts[0].sealed.clone();
            assert!(sealed.is_none() || sealed == now, "seed {seed} changed a seal");
            sealed = now;
        }
        let typed = (times(&bench.log, Way::Typing), times(&bench.log, Way::Pressing));
        assert!(typed.0 <= 1 && typed.1 <= 1, "seed {seed} typed {typed:?}");
    }
}

#[test]
fn f6_w1_text_that_was_not_typed_waits_as_before() {
    let mut bench = at_its_prompt();
    bench.tell(keyed(&bench, Way::Typing));
    assert!(!delivers(&bench));
    bench.tell(keyed(&bench, Way::Untyped));
    let message = &bench.session.messages[0];
    assert_eq!((&message.typed, &message.unproved), (&None, &None));
    assert!(delivers(&bench), "it is to be typed when the pane takes it");
    assert!(bench.try_tell(keyed(&bench, Way::Untyped)).is_err(), "only what was about to be");
}

#[test]
fn f6_w1_text_that_was_not_typed_to_a_dead_agent_is_not_doubted() {
    let mut bench = at_its_prompt();
    bench.tell(keyed(&bench, Way::Typing));
    let launch = bench.launch();
    bench.tell(Command::ProcessUnobserved { launch, why: "it was not ours".to_owned() });
    bench.tell(keyed(&bench, Way::Untyped));
    bench.settle();
    let reason = "the session ended first".to_owned();
    assert_eq!(bench.session.messages[0].fate, MessageFate::Undeliverable { reason });
}
