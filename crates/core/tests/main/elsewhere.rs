//! Sessions imported from another home: nothing of them continues here until they are taken over.

use provost_core::{
    lifecycle::State,
    session::{Command, End, EndedBy, Event, HookEnd, HookEvent, Rejected, Resolve, SendMode},
};

use crate::kit::{Bench, spec};

fn closed(bench: &mut Bench) -> Vec<Event> {
    bench.now.mono_ms += 1_000;
    let events = bench.session.close_elsewhere(bench.now);
    for event in &events {
        bench.session.evolve(bench.now, event);
    }
    events
}

fn cancels(events: &[Event]) -> usize {
    events.iter().filter(|event| matches!(event, Event::AttemptCancelled(_))).count()
}

#[test]
fn what_was_open_is_cancelled_and_what_was_decided_or_sealed_stays_as_it_was() {
    let mut open = Bench::running(spec());
    assert_eq!(cancels(&closed(&mut open)), 1);
    assert_eq!(open.session.state(), State::Cancelled);
    assert!(open.session.is_closed());

    let mut decided = Bench::running(spec());
    decided.tell(Command::Cancel { because: "enough".to_owned() });
    assert_eq!(cancels(&closed(&mut decided)), 0);
    assert_eq!(decided.session.attempt().cancelled.as_deref(), Some("enough"));
    assert!(decided.session.is_closed());

    let mut sealed = Bench::running(spec());
    sealed.end_by(End::Exit(0), EndedBy::Itself).settle();
    assert_eq!(cancels(&closed(&mut sealed)), 0);
    assert_eq!(sealed.session.state(), State::EndedUnclaimed);
}

#[test]
fn a_hook_that_was_owed_there_may_have_run_and_one_of_the_closing_did_not() {
    let mut bench = Bench::running(spec());
    let events = closed(&mut bench);
    let ended = |of: HookEvent| {
        let finished = |event: &Event| {
            let Event::HookFinished(e) = event else { return None };
            (e.key.event == of).then(|| e.end.clone())
        };
        events.iter().find_map(finished)
    };
    assert!(matches!(ended(HookEvent::Started), Some(HookEnd::Uncertain(_))));
    assert!(matches!(ended(HookEvent::State(State::Cancelled)), Some(HookEnd::NotStarted(_))));
}

#[test]
fn imported_session_refuses_everything_until_it_is_taken_over() {
    let mut bench = Bench::running(spec());
    closed(&mut bench);
    bench.session.imported = true;
    let send =
        Command::Send { key: "k".to_owned(), text: "go on".to_owned(), mode: SendMode::Continue };
    let resolve = Command::Resolve { to: Resolve::Accepted, because: "x".to_owned() };
    for command in [&send, &resolve, &Command::Stop, &Command::Compact { key: "c".to_owned() }] {
        let refused = bench.session.decide(command, bench.now);
        assert!(matches!(refused, Err(Rejected::Imported(_))), "{command:?}: {refused:?}");
    }
    assert_eq!(bench.session.effects(), []);
    bench.tell(Command::TakeOver);
    assert!(!bench.session.is_foreign());
    bench.tell(send);
    assert!(!bench.session.effects().is_empty(), "it continues");
}

#[test]
fn own_session_needs_no_taking_over() {
    let bench = Bench::running(spec());
    assert_eq!(bench.session.decide(&Command::TakeOver, bench.now), Ok(vec![]));
}
