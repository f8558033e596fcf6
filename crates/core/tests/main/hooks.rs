//! Hooks run only if configured, once per occasion, each under its own key.

use provost_core::{
    lifecycle::{ClaimKind, State},
    session::{
        HookEnd, HookEvent, HookKey, ManualOutcome, ProcessExit, SessionCommand, SessionEffect,
        SessionRejection, StoppedBy, StreamSignal,
    },
};

use crate::kit::{TURN_ENDED_OK, TestSession, command_spec, question, spec};

#[test]
fn hooks_fire_for_open_start_request_and_outcome() {
    let mut harness = TestSession::running(spec());
    assert_eq!(harness.hooks(), ["session.opened", "session.started"]);
    harness.signal(StreamSignal::RequestOpened(question("q")));
    harness.signal(StreamSignal::RequestWithdrawn { native: "q".to_owned() });
    harness.claim(ClaimKind::Completed).signal(TURN_ENDED_OK);
    let asked = ["session.opened", "session.started", "session.needs_input"];
    assert_eq!(harness.hooks(), asked, "an outcome is announced when it is sealed");
    harness.advance_clock(50);
    assert_eq!(harness.hooks().last().unwrap(), "session.completed");
    assert_eq!(harness.hooks().len(), 4);
    assert_eq!(harness.session.hook_log.pending[3].state, State::Completed);
}

#[test]
fn second_launch_fires_no_second_start_hook() {
    let harness = TestSession::resumed();
    assert_eq!(harness.hooks().iter().filter(|name| *name == "session.started").count(), 1);
}

#[test]
fn hook_occasions_are_numbered() {
    let mut harness = TestSession::running(spec());
    for native in ["a", "b"] {
        harness.signal(StreamSignal::RequestOpened(question(native)));
        harness.signal(StreamSignal::RequestWithdrawn { native: native.to_owned() });
    }
    let event = HookEvent::State(State::NeedsInput);
    let keys: Vec<HookKey> = harness
        .session
        .hook_log
        .pending
        .iter()
        .map(|hook| hook.key)
        .filter(|key| key.event == event)
        .collect();
    assert_eq!(keys, [HookKey { event, no: 1 }, HookKey { event, no: 2 }]);
}

#[test]
fn unconfigured_hook_does_not_fire() {
    let mut spec = spec();
    spec.hooks.remove(&HookEvent::Opened);
    assert_eq!(TestSession::running(spec).hooks(), ["session.started"]);
}

#[test]
fn hook_is_pending_until_finished_once() {
    let mut harness = TestSession::running(spec());
    let key = harness.session.hook_log.pending[0].key;
    assert!(harness.has_effect(&SessionEffect::RunHook(key)));
    let finished = SessionCommand::HookFinished { key, end: HookEnd::Exit(0) };
    harness.apply(finished.clone());
    assert!(!harness.has_effect(&SessionEffect::RunHook(key)));
    assert_eq!(harness.hooks(), ["session.started"]);
    assert_eq!(harness.try_apply(finished), Err(SessionRejection::NothingNew));
}

#[test]
fn resolution_hook_fires_once() {
    let accept =
        SessionCommand::Resolve { to: ManualOutcome::Accepted, because: "seen".to_owned() };
    let accepted = |harness: &TestSession| {
        harness.hooks().iter().filter(|name| *name == "session.accepted").count()
    };
    let mut before = TestSession::running(command_spec());
    before.exit(ProcessExit::Exit(0), StoppedBy::Itself).apply(accept.clone());
    assert_eq!((before.sealed(), accepted(&before)), (true, 1));

    let mut after = TestSession::running(command_spec());
    after.end(ProcessExit::Exit(0)).settle().apply(accept);
    assert_eq!(accepted(&after), 1);
}

#[test]
fn late_claim_fires_a_hook() {
    let mut harness = TestSession::running(command_spec());
    harness.end(ProcessExit::Exit(0)).settle().claim(ClaimKind::Completed);
    assert_eq!(harness.hooks().last().unwrap(), "session.late_claim");
}
