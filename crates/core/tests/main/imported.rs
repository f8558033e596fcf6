//! Sessions imported from another home: nothing of them continues here until they are taken over.

use provost_core::{
    aggregate::Aggregate,
    lifecycle::State,
    session::{
        AttemptEvent, Event, HookEnd, HookEvent, ManualOutcome, ProcessExit, SendMode,
        SessionChange, SessionCommand, SessionRejection, StoppedBy,
    },
};

use crate::kit::{TestSession, spec};

fn close_imported(harness: &mut TestSession) -> Vec<Event> {
    harness.now.mono_ms += 1_000;
    let events = harness.session.close_imported(harness.now);
    for event in &events {
        harness.session.evolve(harness.now, event);
    }
    events
}

fn count_cancellations(events: &[Event]) -> usize {
    events
        .iter()
        .filter(|event| matches!(event, Event::Attempt(AttemptEvent::AttemptCancelled(_))))
        .count()
}

#[test]
fn closing_import_cancels_only_open_attempts() {
    let mut open = TestSession::running(spec());
    assert_eq!(count_cancellations(&close_imported(&mut open)), 1);
    assert_eq!(open.session.state(), State::Cancelled);
    assert!(open.session.is_closed());

    let mut decided = TestSession::running(spec());
    decided.apply(SessionCommand::Cancel { because: "enough".to_owned() });
    assert_eq!(count_cancellations(&close_imported(&mut decided)), 0);
    assert_eq!(decided.session.attempt().cancelled.as_deref(), Some("enough"));
    assert!(decided.session.is_closed());

    let mut sealed = TestSession::running(spec());
    sealed.end_by(ProcessExit::Exit(0), StoppedBy::Itself).settle();
    assert_eq!(count_cancellations(&close_imported(&mut sealed)), 0);
    assert_eq!(sealed.session.state(), State::ExitedWithoutClaim);
}

#[test]
fn imported_hooks_end_uncertain_or_not_started() {
    let mut harness = TestSession::running(spec());
    let events = close_imported(&mut harness);
    let ended = |of: HookEvent| {
        let finished = |event: &Event| {
            let Event::Session(SessionChange::HookFinished(e)) = event else { return None };
            (e.key.event == of).then(|| e.end.clone())
        };
        events.iter().find_map(finished)
    };
    assert!(matches!(ended(HookEvent::Started), Some(HookEnd::Uncertain(_))));
    assert!(matches!(ended(HookEvent::State(State::Cancelled)), Some(HookEnd::NotStarted(_))));
}

#[test]
fn imported_session_rejects_commands_until_taken_over() {
    let mut harness = TestSession::running(spec());
    close_imported(&mut harness);
    harness.session.origin.imported = true;
    let send = SessionCommand::Send {
        key: "k".to_owned(),
        text: "go on".to_owned(),
        mode: SendMode::Continue,
    };
    let resolve = SessionCommand::Resolve { to: ManualOutcome::Accepted, because: "x".to_owned() };
    for command in
        [&send, &resolve, &SessionCommand::Stop, &SessionCommand::Compact { key: "c".to_owned() }]
    {
        let refused = harness.session.decide(command, harness.now);
        assert!(matches!(refused, Err(SessionRejection::Imported(_))), "{command:?}: {refused:?}");
    }
    assert_eq!(harness.session.effects(), []);
    harness.apply(SessionCommand::TakeOver);
    assert!(!harness.session.is_foreign());
    harness.apply(send);
    assert!(!harness.session.effects().is_empty(), "it continues");
}

#[test]
fn own_session_take_over_is_a_no_op() {
    let harness = TestSession::running(spec());
    assert_eq!(harness.session.decide(&SessionCommand::TakeOver, harness.now), Ok(vec![]));
}
