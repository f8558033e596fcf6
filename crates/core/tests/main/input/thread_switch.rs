//! Thread switches: followed when the user continues in another thread, but not for hidden threads.

use provost_core::{
    lifecycle::State,
    request::RequestStatus,
    session::{
        ContextUsage, ConversationEvent, DeliveryStatus, Event, RecordSignal, RecordSource,
        ScreenHint, ScreenSource, SessionCommand, SessionRejection, TurnEnd, TurnEvent, Usage,
    },
};

use crate::{
    input::kit::{WatchSignals as _, approval, terminal_spec},
    kit::{TestSession, send},
};

fn named(thread: &str) -> RecordSignal {
    RecordSignal::ThreadNamed { thread: thread.to_owned() }
}

fn record_by_hook(harness: &mut TestSession, what: RecordSignal) -> Result<(), SessionRejection> {
    let launch = harness.launch();
    harness.try_apply(SessionCommand::RecordRead { launch, by: RecordSource::Hook, place: 0, what })
}

fn switch_thread(harness: &mut TestSession, thread: &str) -> Result<(), SessionRejection> {
    record_by_hook(harness, RecordSignal::ThreadSwitched { thread: thread.to_owned() })
}

/// A terminal session whose first thread had one turn.
fn after_first_turn() -> TestSession {
    let mut harness = TestSession::running(terminal_spec());
    harness.record(100, named("one")).begin_turn(200, "a").end_turn(9_000, "a");
    harness
}

fn recorded_switches(harness: &TestSession) -> Vec<(String, String)> {
    let mut moved = Vec::new();
    for (_, event) in &harness.log {
        if let Event::Conversation(ConversationEvent::ThreadSwitched(e)) = event {
            moved.push((e.from.clone(), e.to.clone()));
        }
    }
    moved
}

#[test]
fn thread_switch_by_user_is_followed_and_recorded() {
    let mut harness = after_first_turn();
    assert_eq!(switch_thread(&mut harness, "two"), Ok(()));
    assert_eq!(harness.session.conversation.thread.as_deref(), Some("two"));
    assert_eq!(recorded_switches(&harness), [("one".to_owned(), "two".to_owned())]);
    assert_eq!(
        switch_thread(&mut harness, "two"),
        Err(SessionRejection::NothingNew),
        "it is recorded once"
    );
    harness.record(50, named("two")).begin_turn(60, "b");
    assert_eq!(
        (harness.state(), harness.session.spending.turns),
        (State::Working, 2),
        "places begin anew"
    );
    harness.end_turn(70, "b");
    assert_eq!(harness.state(), State::Idle);
}

#[test]
fn late_records_of_left_thread_are_ignored() {
    let mut harness = after_first_turn();
    switch_thread(&mut harness, "two").unwrap();
    record_by_hook(&mut harness, RecordSignal::TurnStarted { turn: Some("b".to_owned()) }).unwrap();
    let launch = harness.launch();
    let late =
        |place, what| SessionCommand::RecordRead { launch, by: RecordSource::Rollout, place, what };
    let used = RecordSignal::UsageReported { usage: Usage { input: 5, output: 5 }, context: None };
    let end = RecordSignal::TurnEnded { turn: None, end: TurnEnd::Interrupted, says: None };
    for (place, what) in (9_100..).zip([used, end, named("one")]) {
        assert_eq!(harness.try_apply(late(place, what)), Err(SessionRejection::NothingNew));
    }
    assert_eq!(harness.state(), State::Working);
    harness.record(50, named("two")).end_turn(90, "b");
    assert_eq!(harness.state(), State::Idle, "its own places count, though they are smaller");
}

#[test]
fn t08_naming_another_thread_switches_nothing() {
    let mut harness = after_first_turn();
    harness.begin_turn(9_100, "b");
    assert_eq!(record_by_hook(&mut harness, named("hidden")), Err(SessionRejection::NothingNew));
    harness.record(9_200, named("hidden"));
    assert_eq!(harness.session.conversation.thread.as_deref(), Some("one"));
    assert_eq!((recorded_switches(&harness).len(), harness.state()), (0, State::Working));
}

#[test]
fn thread_switch_closes_open_turn_and_question() {
    let mut harness = after_first_turn();
    harness.begin_turn(9_100, "b").record(9_200, RecordSignal::RequestOpened(approval()));
    assert_eq!(harness.state(), State::NeedsInput);
    switch_thread(&mut harness, "two").unwrap();
    assert_eq!(harness.session.requests[0].status, RequestStatus::AnsweredElsewhere);
    assert_eq!(harness.state(), State::Idle);
    let ends = |event: &Event| matches!(event, Event::Turn(TurnEvent::TurnEnded(e)) if e.end == TurnEnd::Interrupted);
    assert!(harness.log.iter().any(|(_, event)| ends(event)));
}

#[test]
fn thread_switch_clears_context_usage() {
    let mut harness = after_first_turn();
    let context = Some(ContextUsage { used: 90, window: 100 });
    harness.record(9_100, RecordSignal::UsageReported { usage: Usage::default(), context });
    switch_thread(&mut harness, "two").unwrap();
    assert_eq!(harness.session.conversation.context, None);
}

#[test]
fn typed_text_is_confirmed_in_new_thread() {
    let mut harness = after_first_turn();
    harness.show(ScreenSource::Osc, 10, ScreenHint::AtPrompt);
    harness.apply(send("one", provost_core::session::SendMode::Continue));
    let text = harness.session.input.messages[0].text.clone();
    harness.signal(provost_core::session::StreamSignal::InputWritten { key: "one".to_owned() });
    switch_thread(&mut harness, "two").unwrap();
    record_by_hook(&mut harness, RecordSignal::InputTaken { text }).unwrap();
    assert!(matches!(harness.session.input.messages[0].status, DeliveryStatus::Delivered { .. }));
}

#[test]
fn repeated_thread_switches_are_tracked() {
    let mut harness = after_first_turn();
    for thread in ["two", "one", "three"] {
        switch_thread(&mut harness, thread).unwrap();
        harness.record(50, named(thread));
    }
    let left = &harness.session.current_launch().unwrap().watch.previous_threads;
    assert_eq!(
        (left.as_slice(), recorded_switches(&harness).len()),
        (["two".to_owned(), "one".to_owned()].as_slice(), 3)
    );
    for no in 0..100 {
        switch_thread(&mut harness, &format!("thread-{no}")).unwrap();
    }
    assert_eq!(harness.session.current_launch().unwrap().watch.previous_threads.len(), 64);
}
