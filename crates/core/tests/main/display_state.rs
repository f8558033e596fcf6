//! State kept only for display: stops in progress, ended hooks, warnings.

use provost_core::{
    lifecycle::Flag,
    limits::MAX_HOOKS_KEPT,
    session::{
        HookEnd, HookEvent, HookKey, ProcessExit, SessionCommand, SessionEffect, SessionSpec,
        StopStep, StoppedBy,
    },
};

use crate::kit::{TestSession, spec};

fn is_stopping(harness: &TestSession) -> bool {
    harness.session.judgement().has(Flag::Stopping)
}

#[test]
fn stopping_flag_lasts_until_exit() {
    let mut harness = TestSession::running(spec());
    assert!(!is_stopping(&harness));
    harness.apply(SessionCommand::Stop);
    assert!(is_stopping(&harness));
    let (launch, end) = (harness.session.launches[0].id, ProcessExit::Signal(15));
    harness.apply(SessionCommand::ProcessEnded { launch, end, by: StoppedBy::Provost });
    assert!(!is_stopping(&harness));
}

#[test]
fn abandoned_stop_is_not_stopping() {
    let mut harness = TestSession::running(spec());
    harness.apply(SessionCommand::Stop);
    let mut launch = harness.session.launches[0].clone();
    assert!(launch.is_stopping());
    launch.stop.as_mut().expect("a stop was asked for").step = StopStep::GivenUp;
    assert!(!launch.is_stopping());
}

#[test]
fn unkillable_process_is_flagged_until_exit() {
    let mut harness = TestSession::running(spec());
    harness.apply(SessionCommand::Cancel { because: "no".to_owned() });
    let flagged = |harness: &TestSession| harness.session.judgement().has(Flag::ProcessesMayRemain);
    for step in [StopStep::Interrupt, StopStep::Terminate, StopStep::Kill] {
        assert_eq!((harness.stop_step(), flagged(&harness)), (Some(step), false));
        harness.advance_clock(10_000);
    }
    harness.settle();
    assert!(harness.sealed() && flagged(&harness));
    let launch = harness.launch();
    assert!(
        !harness.has_effect(&SessionEffect::StopLaunch(launch, StopStep::GivenUp)),
        "its follower sees it"
    );
    harness.end_by(ProcessExit::Signal(9), StoppedBy::Provost);
    assert!(!flagged(&harness), "it is gone after all");
}

#[test]
fn ended_hooks_are_kept_up_to_limit() {
    let mut harness = TestSession::new(spec());
    let first = harness.session.hook_log.pending[0].clone();
    assert!(harness.session.hook_log.ended.is_empty());
    harness.apply(SessionCommand::HookFinished {
        key: first.key,
        end: HookEnd::NotStarted("gone".into()),
    });
    assert!(harness.session.hook_log.pending.iter().all(|hook| hook.key != first.key));
    let [kept] = harness.session.hook_log.ended.as_slice() else { panic!("one hook ended") };
    assert_eq!((kept.key, &kept.end), (first.key, &HookEnd::NotStarted("gone".into())));
    let key = |no| HookKey { event: HookEvent::LateClaim, no };
    for no in 1..=MAX_HOOKS_KEPT as u32 {
        let mut hook = first.clone();
        hook.key = key(no);
        harness.session.hook_log.pending.push(hook);
        harness.apply(SessionCommand::HookFinished { key: key(no), end: HookEnd::Exit(0) });
    }
    assert_eq!(harness.session.hook_log.ended.len(), MAX_HOOKS_KEPT);
    assert_eq!(harness.session.hook_log.ended[0].key, key(1), "the first one is forgotten");
}

#[test]
fn spec_without_warnings_field_is_read() {
    let mut value = serde_json::to_value(spec()).expect("a spec has string keys");
    assert!(value.get("warnings").is_none(), "an empty list is not written");
    value["warnings"] = serde_json::json!(["beware"]);
    let read: SessionSpec = serde_json::from_value(value).expect("a spec");
    assert_eq!(read.warnings, ["beware"]);
}
