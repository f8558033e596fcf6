//! Typing into terminals: which answer, in which order, how often, and when input is given up.

use provost_core::{
    lifecycle::State,
    request::{Asked, Fate, Reply, RequestKind, Scope},
    session::{
        Command, Driver, Effect, End, Event, Glimpse, HeldBack, Hinted, Message, MessageFate,
        Record, Recorded, Rejected, Signal, Spec, TurnEnd, Way, again, literally, pasted, sayable,
    },
};

use crate::{
    kit::Bench,
    rng::Rng,
    watched::Watch,
    watching::{Says, approval, delivery, fate, held_back, send, terminal, typed},
};

fn asks(native: &str) -> Asked {
    Asked { native: native.to_owned(), ..approval() }
}

fn approve(bench: &mut Bench, no: usize) {
    let (request, revision) = (bench.session.requests[no].id, bench.session.requests[no].revision);
    bench.tell(Command::Answer { request, revision, reply: Reply::Approve(Scope::Once) });
}

fn people(bench: &mut Bench, people: u32) {
    let launch = bench.launch();
    bench.tell(Command::PeopleAttached { launch, people });
}

fn interrupt(bench: &mut Bench) {
    bench.tell(Command::Interrupt { key: "leave".to_owned(), text: None });
}

fn presses(bench: &Bench) -> bool {
    bench.session.effects().iter().any(|effect| matches!(effect, Effect::PressAgain { .. }))
}

fn way(bench: &Bench) -> Option<Way> {
    bench.session.messages[0].typed.map(|typed| typed.way)
}

fn lost_because(bench: &Bench, no: usize) -> String {
    let fate = &bench.session.messages[no].fate;
    let MessageFate::Undeliverable { reason } = fate else { panic!("{fate:?}") };
    reason.clone()
}

/// A session whose request was answered while a viewer is attached.
fn answered_while_attended() -> Bench {
    let mut bench = Bench::running(terminal());
    bench.begins(10, "a").records(20, Recorded::Asked(asks("one")));
    bench.shows(Glimpse::Osc, 30, Hinted::Asks(approval()));
    bench.shows(Glimpse::Screen, 40, Hinted::Asks(approval()));
    people(&mut bench, 1);
    approve(&mut bench, 0);
    assert_eq!((held_back(&bench), delivery(&bench)), (Some(HeldBack::Attended), None));
    bench
}

#[test]
fn an_answer_that_waits_is_lost_when_its_request_is_settled_at_the_screen() {
    let mut bench = answered_while_attended();
    bench.shows(Glimpse::Osc, 50, Hinted::Working);
    assert!(lost_because(&bench, 0).contains("settled at the agent's screen"));
    bench.records(60, Recorded::Asked(asks("two")));
    bench.shows(Glimpse::Osc, 70, Hinted::Asks(approval()));
    bench.shows(Glimpse::Screen, 80, Hinted::Working);
    bench.shows(Glimpse::Screen, 90, Hinted::Asks(approval()));
    people(&mut bench, 0);
    assert_eq!(delivery(&bench), None, "the second was not answered");
    let request = bench.session.requests[0].id;
    let late = Command::Answer { request, revision: 1, reply: Reply::Deny };
    let refused = bench.try_tell(late).unwrap_err();
    assert!(refused.to_string().contains("settled at the agent's screen"), "{refused}");
}

#[test]
fn a_record_that_goes_on_loses_an_answer_that_waits_and_delivers_one_that_was_typed() {
    let mut bench = answered_while_attended();
    bench.records(50, Recorded::WentOn);
    assert!(matches!(fate(&bench), MessageFate::Undeliverable { .. }));
    let mut bench = answered_while_attended();
    people(&mut bench, 0);
    let key = delivery(&bench).expect("it is seen to ask");
    bench.signal(Signal::InputSeen { key }).pass(3_000);
    assert_eq!(way(&bench), Some(Way::Doubted));
    bench.records(50, Recorded::WentOn);
    assert!(matches!(fate(&bench), MessageFate::Delivered { .. }));
}

#[test]
fn an_answer_is_typed_for_the_newest_request_only() {
    let mut bench = answered_while_attended();
    bench.records(50, Recorded::Asked(asks("two")));
    people(&mut bench, 0);
    assert_eq!(delivery(&bench), None);
    let launch = bench.session.current_launch().expect("it runs");
    let why = bench.session.held_back(launch, &bench.session.messages[0]);
    assert_eq!(why, Some(HeldBack::AsksElse));
    approve(&mut bench, 1);
    assert_eq!(
        held_back(&bench),
        Some(HeldBack::AsksElse),
        "it is unknown which of the two is shown"
    );
    bench.records(60, Recorded::WentOn);
    assert!(!lost_because(&bench, 0).is_empty() && !lost_because(&bench, 1).is_empty());
}

#[test]
fn an_answer_to_what_was_asked_again_is_lost() {
    let mut bench = answered_while_attended();
    bench.records(50, Recorded::Asked(asks("one")));
    assert_eq!(bench.session.requests[0].revision, 2);
    assert!(lost_because(&bench, 0).contains("asked again"));
    approve(&mut bench, 0);
    people(&mut bench, 0);
    assert_eq!(delivery(&bench).as_deref(), Some("answer-1-2"));
}

#[test]
fn what_a_policy_answers_before_it_is_drawn_is_no_second_request_when_it_is() {
    let mut bench = Bench::running(terminal());
    bench.begins(10, "a").records(20, Recorded::Asked(approval()));
    approve(&mut bench, 0);
    bench.shows(Glimpse::Osc, 30, Hinted::Asks(approval()));
    bench.shows(Glimpse::Screen, 40, Hinted::Asks(approval()));
    assert_eq!(bench.session.requests.len(), 1);
    assert_eq!(delivery(&bench).as_deref(), Some("answer-1-1"));
}

#[test]
fn an_answer_for_a_process_that_is_gone_is_lost() {
    let mut bench = answered_while_attended();
    bench.end(End::Exit(0)).settle();
    assert!(lost_because(&bench, 0).contains("ended"));
}

#[test]
fn what_is_no_approval_is_settled_at_the_screen_alone() {
    for kind in [RequestKind::Dialog, RequestKind::Question] {
        let mut bench = Bench::running(terminal());
        bench.shows(Glimpse::Screen, 10, Hinted::Asks(Asked { kind, ..approval() }));
        let request = bench.session.requests[0].id;
        let answers = Reply::Answers([("a".to_owned(), vec!["b".to_owned()])].into());
        for reply in
            [Reply::Text("1".to_owned()), answers, Reply::Deny, Reply::Approve(Scope::Once)]
        {
            let refused = bench.try_tell(Command::Answer { request, revision: 1, reply });
            assert_eq!(refused, Err(Rejected::AtItsScreen(request)));
        }
        assert!(bench.session.messages.iter().all(|message| message.request.is_none()));
        assert_eq!(
            (bench.state(), bench.session.requests[0].fate),
            (State::NeedsInput, Fate::Open)
        );
    }
}

#[test]
fn what_an_agent_asked_that_is_gone_waits_on_no_screen() {
    let mut bench = Bench::running(terminal());
    let dialog = Asked { kind: RequestKind::Dialog, ..approval() };
    bench.begins(10, "a").records(20, Recorded::Asked(dialog));
    bench.end(End::Exit(0));
    let request = bench.session.requests[0].id;
    let deny = Command::Answer { request, revision: 1, reply: Reply::Deny };
    assert_eq!(bench.try_tell(deny), Err(Rejected::NotRunning));
    bench.tell(send("more", "go on"));
    assert_eq!(bench.session.launches.len(), 2, "what is said resumes it");
}

#[test]
fn an_interrupt_comes_after_the_answer_to_what_it_waits_for() {
    let mut bench = Bench::running(terminal());
    bench.begins(10, "a").shows(Glimpse::Screen, 20, Hinted::Asks(approval()));
    interrupt(&mut bench);
    assert_eq!(delivery(&bench), None, "the key would answer what it asks");
    approve(&mut bench, 0);
    assert_eq!(delivery(&bench).as_deref(), Some("answer-1-1"));
    bench.signal(Signal::InputSeen { key: "answer-1-1".to_owned() });
    assert_eq!(delivery(&bench), None, "what was approved is not called off");
    bench.shows(Glimpse::Screen, 30, Hinted::Working);
    assert_eq!(delivery(&bench).as_deref(), Some("leave"));
}

#[test]
fn an_interrupt_waits_for_what_was_approved_after_it_and_not_for_what_was_before() {
    let hook = |bench: &mut Bench, what| {
        let launch = bench.launch();
        bench.tell(Command::Recorded { launch, by: Record::Hook, place: 0, what });
    };
    for approved_first in [false, true] {
        let mut bench = Bench::running(terminal());
        hook(&mut bench, Recorded::TurnStarted { turn: Some("a".to_owned()) });
        hook(&mut bench, Recorded::Asked(approval()));
        bench.shows(Glimpse::Screen, 20, Hinted::Asks(approval()));
        if !approved_first {
            interrupt(&mut bench);
        }
        approve(&mut bench, 0);
        bench.signal(Signal::InputSeen { key: "answer-1-1".to_owned() });
        bench.shows(Glimpse::Screen, 30, Hinted::Working);
        if approved_first {
            interrupt(&mut bench);
            assert_eq!(delivery(&bench).as_deref(), Some("leave"));
            continue;
        }
        assert_eq!(delivery(&bench), None, "it would call off what was approved");
        hook(&mut bench, Recorded::WentOn);
        assert_eq!(delivery(&bench).as_deref(), Some("leave"));
    }
}

#[test]
fn an_interrupt_waits_with_an_answer_that_waits_and_goes_when_that_is_lost() {
    let mut bench = answered_while_attended();
    interrupt(&mut bench);
    let launch = bench.session.current_launch().expect("it runs");
    let why = bench.session.held_back(launch, &bench.session.messages[1]);
    assert_eq!((why, delivery(&bench)), (Some(HeldBack::Attended), None));
    bench.shows(Glimpse::Osc, 50, Hinted::Working);
    people(&mut bench, 0);
    assert_eq!(delivery(&bench).as_deref(), Some("leave"));
}

#[test]
fn an_interrupt_with_a_protocol_comes_after_the_answer_too() {
    let mut bench = Bench::running(crate::kit::spec());
    bench.signal(Signal::InputSeen { key: "instruction-1".to_owned() });
    bench.signal(Signal::TurnStarted { turn: Some("u".to_owned()) });
    bench.signal(Signal::Asked(approval()));
    approve(&mut bench, 0);
    interrupt(&mut bench);
    assert_eq!(delivery(&bench).as_deref(), Some("answer-1-1"));
    bench.signal(Signal::InputSeen { key: "answer-1-1".to_owned() });
    assert_eq!(delivery(&bench).as_deref(), Some("leave"));
}

#[test]
fn the_key_that_sends_is_not_pressed_into_what_is_asked_by_then() {
    let mut bench = typed();
    bench.shows(Glimpse::Screen, 20, Hinted::Asks(approval())).pass(3_000);
    assert_eq!((presses(&bench), way(&bench)), (false, Some(Way::Doubted)));
    let mut bench = typed();
    bench.pass(3_000);
    assert!(presses(&bench));
    bench.shows(Glimpse::Screen, 20, Hinted::Asks(approval()));
    assert_eq!((presses(&bench), way(&bench)), (false, Some(Way::Doubted)), "it is called off");
}

#[test]
fn the_key_that_sends_is_not_pressed_after_a_turn_began_nor_where_somebody_was() {
    let mut bench = typed();
    bench.pass(10).begins(20, "a").pass(3_000);
    assert_eq!((presses(&bench), way(&bench)), (false, Some(Way::Doubted)));
    let mut bench = typed_and_attended();
    bench.pass(3_000);
    assert_eq!((presses(&bench), way(&bench)), (false, Some(Way::Doubted)));
    let mut bench = typed();
    bench.pass(10).begins(20, "a").pass(10).ends(30, "a").pass(3_000);
    assert!(!presses(&bench), "the turn that took it is over");
}

#[test]
fn what_a_person_left_at_the_prompt_is_not_sent_with_the_next_text() {
    let mut bench = Bench::running(terminal());
    bench.shows(Glimpse::Osc, 10, Hinted::AtPrompt).shows(Glimpse::Screen, 20, Hinted::Drafted);
    bench.tell(send("one", "hello"));
    assert_eq!((held_back(&bench), delivery(&bench)), (Some(HeldBack::Drafted), None));
    bench.shows(Glimpse::Screen, 30, Hinted::AtPrompt);
    assert_eq!((held_back(&bench), delivery(&bench).as_deref()), (None, Some("one")));
}

#[test]
fn a_screen_that_is_yet_to_be_drawn_is_waited_for_since_a_draft_may_stand_there() {
    let mut bench = Bench::running(terminal());
    bench.shows(Glimpse::Screen, 10, Hinted::Working).begins(20, "a").ends(30, "a");
    bench.shows(Glimpse::Osc, 40, Hinted::AtPrompt).tell(send("one", "hello"));
    assert_eq!(held_back(&bench), Some(HeldBack::NotAtPrompt));
    bench.shows(Glimpse::Screen, 50, Hinted::AtPrompt);
    assert_eq!(held_back(&bench), None);
}

#[test]
fn a_turn_that_somebody_else_may_have_begun_is_no_compaction() {
    let compact = || Command::Compact { key: "compact".to_owned() };
    let told = |bench: &mut Bench| {
        bench.shows(Glimpse::Osc, 10, Hinted::AtPrompt).tell(compact());
        bench.signal(Signal::InputSeen { key: "compact".to_owned() }).pass(10);
    };
    let mut bench = Bench::running(terminal());
    told(&mut bench);
    people(&mut bench, 1);
    bench.begins(20, "a");
    assert!(bench.session.compacting().is_none());
    assert_eq!(bench.session.turns, 1, "it is a turn of the work");
    bench.records(30, Recorded::Compacted);
    assert!(matches!(fate(&bench), MessageFate::Delivered { .. }), "its record says so");
    let mut bench = Bench::running(terminal());
    told(&mut bench);
    bench.begins(20, "c");
    assert_eq!((bench.session.compacting().is_some(), bench.session.turns), (true, 0));
}

/// "hello" was typed, and a viewer was attached afterwards.
fn typed_and_attended() -> Bench {
    let mut bench = typed();
    bench.pass(10);
    people(&mut bench, 1);
    people(&mut bench, 0);
    bench.pass(10);
    bench
}

#[test]
fn what_no_turn_took_is_given_up_with_the_reason_and_the_next_text_goes() {
    let mut bench = typed();
    bench.tell(send("two", "and this"));
    bench.pass(10).begins(20, "a").pass(10).ends(30, "a");
    assert!(lost_because(&bench, 0).contains("transcript does not show it"));
    assert_eq!(delivery(&bench).as_deref(), Some("two"));
}

#[test]
fn what_nothing_is_heard_of_is_given_up_after_a_time() {
    let mut bench = typed();
    bench.tell(send("two", "and this")).pass(3_000);
    bench.signal(Signal::InputSeen { key: again("one") }).pass(3_000);
    assert_eq!((fate(&bench), way(&bench)), (&MessageFate::Queued, Some(Way::Doubted)));
    bench.pass(29_999);
    assert_eq!((fate(&bench), delivery(&bench)), (&MessageFate::Queued, None));
    bench.pass(1);
    assert!(lost_because(&bench, 0).contains("transcript does not show it"));
    assert_eq!(delivery(&bench).as_deref(), Some("two"));
}

#[test]
fn where_somebody_may_have_begun_the_turn_a_text_is_given_up_by_the_next_and_never_within_one() {
    let mut bench = typed_and_attended();
    bench.begins(20, "a").pass(10).ends(30, "a").pass(10).begins(40, "b").pass(600_000);
    assert_eq!((fate(&bench), way(&bench)), (&MessageFate::Queued, Some(Way::Doubted)));
    bench.records(50, Recorded::Prompted { text: "hello".to_owned() });
    assert!(matches!(fate(&bench), MessageFate::Delivered { .. }));
    let mut bench = typed_and_attended();
    bench.begins(20, "a").ends(30, "a").begins(40, "b").ends(50, "b");
    assert!(matches!(fate(&bench), MessageFate::Undeliverable { .. }));
}

#[test]
fn an_answer_and_an_interrupt_do_not_wait_for_the_proof_of_a_text() {
    let mut bench = typed();
    bench.pass(10).begins(20, "a").pass(3_000);
    assert_eq!(way(&bench), Some(Way::Doubted));
    bench.shows(Glimpse::Screen, 30, Hinted::Asks(approval()));
    approve(&mut bench, 0);
    let key = delivery(&bench).expect("it is seen to ask");
    bench.signal(Signal::InputSeen { key }).shows(Glimpse::Screen, 40, Hinted::Working);
    interrupt(&mut bench);
    assert_eq!(delivery(&bench).as_deref(), Some("leave"));
}

#[test]
fn what_cannot_be_pasted_is_not_looked_for_in_the_record() {
    let mut bench = Bench::running(terminal());
    bench
        .shows(Glimpse::Osc, 10, Hinted::AtPrompt)
        .tell(send("one", "ring\u{7} the\r\nbell\u{9b}"));
    bench.signal(Signal::InputSeen { key: "one".to_owned() });
    bench.records(20, Recorded::Prompted { text: "ring the\nbell".to_owned() });
    assert!(matches!(fate(&bench), MessageFate::Delivered { .. }));
}

#[test]
fn an_instruction_that_the_first_turn_did_not_show_does_not_hold_back_for_ever() {
    let spec = Spec { instruction: Some("do it".to_owned()), ..terminal() };
    let mut bench = Bench::running(spec);
    bench.tell(send("two", "and this")).begins(10, "a").ends(20, "a");
    bench.shows(Glimpse::Osc, 30, Hinted::AtPrompt).pass(30_000);
    assert!(matches!(fate(&bench), MessageFate::Undeliverable { .. }));
    assert_eq!(delivery(&bench).as_deref(), Some("two"));
}

#[test]
fn what_is_sent_while_a_process_starts_is_on_no_command_line_and_is_typed() {
    let mut bench = Bench::new(terminal());
    bench.tell(Command::WorkPrepared { cwd: "/work".to_owned(), base: None });
    let launch = bench.launch();
    assert!(bench.owes(&Effect::StartLaunch(launch)), "with what was said before");
    bench.tell(send("one", "hello"));
    bench.start();
    assert_eq!(bench.session.given(launch), None);
    bench.shows(Glimpse::Osc, 10, Hinted::AtPrompt);
    assert_eq!(delivery(&bench).as_deref(), Some("one"));
}

#[test]
fn what_was_said_before_a_process_is_owed_stands_on_its_command_line() {
    let mut bench = Bench::new(Spec { instruction: Some("do it".to_owned()), ..terminal() });
    bench.tell(Command::WorkPrepared { cwd: "/work".to_owned(), base: None });
    bench.tell(send("two", "and this"));
    bench.start();
    let given = bench.session.given(bench.launch()).expect("it is given");
    assert_eq!(
        (given.text.as_str(), given.typed.map(|t| t.way)),
        ("do it", Some(Way::CommandLine))
    );
    assert_eq!(held_back(&bench), Some(HeldBack::Unproved));
}

#[test]
fn codex_is_given_texts_that_it_takes_literally() {
    let codex = |text: &str| literally(Driver::CodexTerminal, text);
    assert_eq!(codex("/compact the file"), " /compact the file");
    assert_eq!(codex("look at @src"), "look at @src ");
    assert_eq!(codex("$HOME"), "$HOME ");
    assert_eq!(codex("mail a@b.c and /x"), "mail a@b.c and /x");
    assert_eq!(codex("@one\nis it"), "@one\nis it");
    assert_eq!(literally(Driver::Terminal, "/x @y"), "/x @y");
    assert_eq!(pasted("a\x1b[201~\r\nb\rc\t"), "a[201~\nb\nc\t");
}

#[test]
fn what_codex_would_run_and_what_nothing_is_left_of_is_refused() {
    for text in ["!rm -rf /", " \n!ls", "\u{7}!ls"] {
        assert_eq!(sayable(Driver::CodexTerminal, text), Err(Rejected::RunAsCommand), "{text:?}");
        let mut bench = Bench::running(terminal());
        assert_eq!(bench.try_tell(send("one", text)), Err(Rejected::RunAsCommand));
        bench.begins(10, "a");
        let leave = Command::Interrupt { key: "leave".to_owned(), text: Some(text.to_owned()) };
        assert_eq!(bench.try_tell(leave), Err(Rejected::RunAsCommand));
    }
    assert_eq!(sayable(Driver::CodexTerminal, "\u{7}\n "), Err(Rejected::NothingToType));
    assert_eq!(sayable(Driver::Terminal, "!ls"), Ok(()));
    assert_eq!(sayable(Driver::Codex, "!ls"), Ok(()), "its protocol has no composer");
    assert_eq!(sayable(Driver::CodexTerminal, "Run this: !ls"), Ok(()));
}

#[test]
fn a_turn_that_is_interrupted_before_the_answer_was_typed_loses_it() {
    let mut bench = answered_while_attended();
    let end = TurnEnd::Interrupted;
    bench.records(50, Recorded::TurnEnded { turn: Some("a".to_owned()), end, says: None });
    assert!(matches!(fate(&bench), MessageFate::Undeliverable { .. }));
    assert_eq!(bench.session.requests[0].fate, Fate::Answered, "it left Open once");
    let lost = |event: &Event| matches!(event, Event::MessageLost(_));
    assert_eq!(bench.log.iter().filter(|(_, event)| lost(event)).count(), 1);
}

/// Returns a random event of a terminal session.
fn anything(bench: &Bench, rng: &mut Rng, place: u64) -> Command {
    let launch = bench.launch();
    let hinted = |by, what| Command::Hinted { launch, by, place, what };
    let recorded = |by, what| Command::Recorded { launch, by, place, what };
    let screen = rng.pick(&[Glimpse::Osc, Glimpse::Screen, Glimpse::Screen]);
    let record = rng.pick(&[Record::Hook, Record::Rollout]);
    let turn = Some(format!("turn-{}", place / 8));
    match rng.below(20) {
        0..=2 => hinted(screen, Hinted::AtPrompt),
        3 => hinted(screen, Hinted::Drafted),
        4 | 5 => hinted(screen, Hinted::Asks(approval())),
        6 | 7 => hinted(screen, Hinted::Working),
        8 => recorded(record, Recorded::TurnStarted { turn }),
        9 => recorded(record, Recorded::TurnEnded { turn: None, end: TurnEnd::Ok, says: None }),
        10 => recorded(record, Recorded::Asked(asks(rng.pick(&["one", "two"])))),
        11 if rng.percent(50) => recorded(record, Recorded::WentOn),
        12 if rng.percent(50) => Command::PeopleAttached { launch, people: rng.below(2) as u32 },
        13 => Command::Interrupt { key: format!("leave-{place}"), text: None },
        14 if rng.percent(20) => Command::Compact { key: format!("compact-{place}") },
        15 => send(&format!("send-{place}"), "hello"),
        _ => match bench.session.open_requests().last() {
            Some(open) if rng.percent(40) => {
                let reply = rng.pick(&[Reply::Approve(Scope::Once), Reply::Deny]);
                Command::Answer { request: open.id, revision: open.revision, reply }
            }
            Some(_) | None => Command::Tick,
        },
    }
}

/// Lets the holder write the pending input, as its journal shows.
fn write_what_is_owed(bench: &mut Bench) {
    let pressed = bench.session.effects().into_iter().find_map(|effect| {
        if let Effect::PressAgain { message, .. } = effect { Some(again(&message)) } else { None }
    });
    if let Some(key) = pressed.or_else(|| delivery(bench)) {
        bench.signal(Signal::InputSeen { key });
    }
}

#[test]
fn the_laws_of_typing_hold_in_any_order_of_screens_records_and_people() {
    let mut seen = [0, 0, 0];
    for seed in 0..3_000 {
        let (mut rng, mut bench) = (Rng::new(seed), Bench::running(terminal()));
        let watch = Watch::of(&bench.session);
        for step in 0..60 {
            let command = anything(&bench, &mut rng, 10 + step);
            // Late or repeated commands are rejected, as they should be.
            bench.try_tell(command).ok();
            bench.pass(rng.pick(&[0, 5, 5, 300, 3_000]));
            let told = watch.rest(&bench.session, bench.now);
            assert_eq!(told, Ok(()), "seed {seed}: {:#?}", bench.log);
            seen[0] += usize::from(delivery(&bench).is_some());
            seen[1] += usize::from(presses(&bench));
            if rng.percent(60) {
                write_what_is_owed(&mut bench);
            }
        }
        let lost = |m: &&Message| matches!(m.fate, MessageFate::Undeliverable { .. });
        seen[2] += bench.session.messages.iter().filter(lost).count();
    }
    assert!(seen.iter().all(|times| *times > 300), "the stories are about nothing: {seen:?}");
}
