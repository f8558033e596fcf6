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

fn is_stopping(bench: &TestSession) -> bool {
    bench.session.judgement().has(Flag::Stopping)
}

#[test]
fn stopping_flag_lasts_until_exit() {
    let mut bench = TestSession::running(spec());
    assert!(!is_stopping(&bench));
    bench.apply(SessionCommand::Stop);
    assert!(is_stopping(&bench));
    let (launch, end) = (bench.session.launches[0].id, ProcessExit::Signal(15));
    bench.apply(SessionCommand::ProcessEnded { launch, end, by: StoppedBy::Provost });
    assert!(!is_stopping(&bench));
}

#[test]
fn abandoned_stop_is_not_stopping() {
    let mut bench = TestSession::running(spec());
    bench.apply(SessionCommand::Stop);
    let mut launch = bench.session.launches[0].clone();
    assert!(launch.is_stopping());
    launch.stop.as_mut().expect("a stop was asked for").step = StopStep::GivenUp;
    assert!(!launch.is_stopping());
}

#[test]
fn unkillable_process_is_flagged_until_exit() {
    let mut bench = TestSession::running(spec());
    bench.apply(SessionCommand::Cancel { because: "no".to_owned() });
    let flagged = |bench: &TestSession| bench.session.judgement().has(Flag::ProcessesMayRemain);
    for step in [StopStep::Interrupt, StopStep::Terminate, StopStep::Kill] {
        assert_eq!((bench.stop_step(), flagged(&bench)), (Some(step), false));
        bench.advance_clock(10_000);
    }
    bench.settle();
    assert!(bench.sealed() && flagged(&bench));
    let launch = bench.launch();
    assert!(
        !bench.has_effect(&SessionEffect::StopLaunch(launch, StopStep::GivenUp)),
        "its follower sees it"
    );
    bench.end_by(ProcessExit::Signal(9), StoppedBy::Provost);
    assert!(!flagged(&bench), "it is gone after all");
}

#[test]
fn ended_hooks_are_kept_up_to_limit() {
    let mut bench = TestSession::new(spec());
    let first = bench.session.hooks[0].clone();
    assert!(bench.session.hooks_ended.is_empty());
    bench.apply(SessionCommand::HookFinished {
        key: first.key,
        end: HookEnd::NotStarted("gone".into()),
    });
    assert!(bench.session.hooks.iter().all(|hook| hook.key != first.key));
    let [kept] = bench.session.hooks_ended.as_slice() else { panic!("one hook ended") };
    assert_eq!((kept.key, &kept.end), (first.key, &HookEnd::NotStarted("gone".into())));
    let key = |no| HookKey { event: HookEvent::LateClaim, no };
    for no in 1..=MAX_HOOKS_KEPT as u32 {
        let mut owed = first.clone();
        owed.key = key(no);
        bench.session.hooks.push(owed);
        bench.apply(SessionCommand::HookFinished { key: key(no), end: HookEnd::Exit(0) });
    }
    assert_eq!(bench.session.hooks_ended.len(), MAX_HOOKS_KEPT);
    assert_eq!(bench.session.hooks_ended[0].key, key(1), "the first one is forgotten");
}

#[test]
fn spec_without_warnings_field_is_read() {
    let mut value = serde_json::to_value(spec()).expect("a spec has string keys");
    assert!(value.get("warnings").is_none(), "an empty list is not written");
    value["warnings"] = serde_json::json!(["beware"]);
    let read: SessionSpec = serde_json::from_value(value).expect("a spec");
    assert_eq!(read.warnings, ["beware"]);
}
