//! Thread switches: followed when the user continues in another thread, but not for hidden threads.

use provost_core::{
    lifecycle::State,
    request::RequestStatus,
    session::{
        ContextUsage, DeliveryStatus, Event, RecordSignal, RecordSource, ScreenHint, ScreenSource,
        SessionCommand, SessionRejection, TurnEnd, Usage,
    },
};

use crate::{
    kit::{TestSession, send},
    watching::{WatchSignals as _, approval, terminal_spec},
};

fn named(thread: &str) -> RecordSignal {
    RecordSignal::ThreadNamed { thread: thread.to_owned() }
}

fn record_by_hook(bench: &mut TestSession, what: RecordSignal) -> Result<(), SessionRejection> {
    let launch = bench.launch();
    bench.try_apply(SessionCommand::RecordRead { launch, by: RecordSource::Hook, place: 0, what })
}

fn switch_thread(bench: &mut TestSession, thread: &str) -> Result<(), SessionRejection> {
    record_by_hook(bench, RecordSignal::ThreadSwitched { thread: thread.to_owned() })
}

/// A terminal session whose first thread had one turn.
fn after_first_turn() -> TestSession {
    let mut bench = TestSession::running(terminal_spec());
    bench.record(100, named("one")).begin_turn(200, "a").end_turn(9_000, "a");
    bench
}

fn recorded_switches(bench: &TestSession) -> Vec<(String, String)> {
    let mut moved = Vec::new();
    for (_, event) in &bench.log {
        if let Event::ThreadSwitched(e) = event {
            moved.push((e.from.clone(), e.to.clone()));
        }
    }
    moved
}

#[test]
fn thread_switch_by_user_is_followed_and_recorded() {
    let mut bench = after_first_turn();
    assert_eq!(switch_thread(&mut bench, "two"), Ok(()));
    assert_eq!(bench.session.thread.as_deref(), Some("two"));
    assert_eq!(recorded_switches(&bench), [("one".to_owned(), "two".to_owned())]);
    assert_eq!(
        switch_thread(&mut bench, "two"),
        Err(SessionRejection::NothingNew),
        "it is recorded once"
    );
    bench.record(50, named("two")).begin_turn(60, "b");
    assert_eq!((bench.state(), bench.session.turns), (State::Working, 2), "places begin anew");
    bench.end_turn(70, "b");
    assert_eq!(bench.state(), State::Idle);
}

#[test]
fn late_records_of_left_thread_are_ignored() {
    let mut bench = after_first_turn();
    switch_thread(&mut bench, "two").unwrap();
    record_by_hook(&mut bench, RecordSignal::TurnStarted { turn: Some("b".to_owned()) }).unwrap();
    let launch = bench.launch();
    let late =
        |place, what| SessionCommand::RecordRead { launch, by: RecordSource::Rollout, place, what };
    let used = RecordSignal::UsageReported { usage: Usage { input: 5, output: 5 }, context: None };
    let end = RecordSignal::TurnEnded { turn: None, end: TurnEnd::Interrupted, says: None };
    for (place, what) in (9_100..).zip([used, end, named("one")]) {
        assert_eq!(bench.try_apply(late(place, what)), Err(SessionRejection::NothingNew));
    }
    assert_eq!(bench.state(), State::Working);
    bench.record(50, named("two")).end_turn(90, "b");
    assert_eq!(bench.state(), State::Idle, "its own places count, though they are smaller");
}

#[test]
fn t08_naming_another_thread_switches_nothing() {
    let mut bench = after_first_turn();
    bench.begin_turn(9_100, "b");
    assert_eq!(record_by_hook(&mut bench, named("hidden")), Err(SessionRejection::NothingNew));
    bench.record(9_200, named("hidden"));
    assert_eq!(bench.session.thread.as_deref(), Some("one"));
    assert_eq!((recorded_switches(&bench).len(), bench.state()), (0, State::Working));
}

#[test]
fn thread_switch_closes_open_turn_and_question() {
    let mut bench = after_first_turn();
    bench.begin_turn(9_100, "b").record(9_200, RecordSignal::RequestOpened(approval()));
    assert_eq!(bench.state(), State::NeedsInput);
    switch_thread(&mut bench, "two").unwrap();
    assert_eq!(bench.session.requests[0].status, RequestStatus::AnsweredElsewhere);
    assert_eq!(bench.state(), State::Idle);
    let ends =
        |event: &Event| matches!(event, Event::TurnEnded(e) if e.end == TurnEnd::Interrupted);
    assert!(bench.log.iter().any(|(_, event)| ends(event)));
}

#[test]
fn thread_switch_clears_context_usage() {
    let mut bench = after_first_turn();
    let context = Some(ContextUsage { used: 90, window: 100 });
    bench.record(9_100, RecordSignal::UsageReported { usage: Usage::default(), context });
    switch_thread(&mut bench, "two").unwrap();
    assert_eq!(bench.session.context, None);
}

#[test]
fn typed_text_is_confirmed_in_new_thread() {
    let mut bench = after_first_turn();
    bench.show(ScreenSource::Osc, 10, ScreenHint::AtPrompt);
    bench.apply(send("one", provost_core::session::SendMode::Continue));
    let text = bench.session.messages[0].text.clone();
    bench.signal(provost_core::session::StreamSignal::InputWritten { key: "one".to_owned() });
    switch_thread(&mut bench, "two").unwrap();
    record_by_hook(&mut bench, RecordSignal::InputTaken { text }).unwrap();
    assert!(matches!(bench.session.messages[0].status, DeliveryStatus::Delivered { .. }));
}

#[test]
fn repeated_thread_switches_are_tracked() {
    let mut bench = after_first_turn();
    for thread in ["two", "one", "three"] {
        switch_thread(&mut bench, thread).unwrap();
        bench.record(50, named(thread));
    }
    let left = &bench.session.current_launch().unwrap().watch.previous_threads;
    assert_eq!(
        (left.as_slice(), recorded_switches(&bench).len()),
        (["two".to_owned(), "one".to_owned()].as_slice(), 3)
    );
    for no in 0..100 {
        switch_thread(&mut bench, &format!("thread-{no}")).unwrap();
    }
    assert_eq!(bench.session.current_launch().unwrap().watch.previous_threads.len(), 64);
}
