//! State kept only for display: stops in progress, ended hooks, warnings.

use provost_core::{
    lifecycle::Flag,
    limits::MAX_HOOKS_KEPT,
    session::{Command, Effect, End, EndedBy, HookEnd, HookEvent, HookKey, Spec, StopStep},
};

use crate::kit::{Bench, spec};

fn is_stopping(bench: &Bench) -> bool {
    bench.session.judgement().has(Flag::Stopping)
}

#[test]
fn a_stop_is_shown_until_the_process_has_ended() {
    let mut bench = Bench::running(spec());
    assert!(!is_stopping(&bench));
    bench.tell(Command::Stop);
    assert!(is_stopping(&bench));
    let (launch, end) = (bench.session.launches[0].id, End::Signal(15));
    bench.tell(Command::ProcessEnded { launch, end, by: EndedBy::Provost });
    assert!(!is_stopping(&bench));
}

#[test]
fn a_stop_that_was_given_up_is_no_longer_under_way() {
    let mut bench = Bench::running(spec());
    bench.tell(Command::Stop);
    let mut launch = bench.session.launches[0].clone();
    assert!(launch.is_being_ended());
    launch.stop.as_mut().expect("a stop was asked for").step = StopStep::GivenUp;
    assert!(!launch.is_being_ended());
}

#[test]
fn a_process_that_could_not_be_ended_is_flagged_until_it_has() {
    let mut bench = Bench::running(spec());
    bench.tell(Command::Cancel { because: "no".to_owned() });
    let flagged = |bench: &Bench| bench.session.judgement().has(Flag::NotVerifiedGone);
    for step in [StopStep::Interrupt, StopStep::Terminate, StopStep::Kill] {
        assert_eq!((bench.step(), flagged(&bench)), (Some(step), false));
        bench.pass(10_000);
    }
    bench.settle();
    assert!(bench.sealed() && flagged(&bench));
    let launch = bench.launch();
    assert!(!bench.owes(&Effect::StopLaunch(launch, StopStep::GivenUp)), "its follower sees it");
    bench.end_by(End::Signal(9), EndedBy::Provost);
    assert!(!flagged(&bench), "it is gone after all");
}

#[test]
fn hooks_that_ended_are_kept_and_the_oldest_forgotten() {
    let mut bench = Bench::new(spec());
    let first = bench.session.hooks[0].clone();
    assert!(bench.session.hooks_ended.is_empty());
    bench.tell(Command::HookFinished { key: first.key, end: HookEnd::NotStarted("gone".into()) });
    assert!(bench.session.hooks.iter().all(|hook| hook.key != first.key));
    let [kept] = bench.session.hooks_ended.as_slice() else { panic!("one hook ended") };
    assert_eq!((kept.key, &kept.end), (first.key, &HookEnd::NotStarted("gone".into())));
    let key = |no| HookKey { event: HookEvent::LateClaim, no };
    for no in 1..=MAX_HOOKS_KEPT as u32 {
        let mut owed = first.clone();
        owed.key = key(no);
        bench.session.hooks.push(owed);
        bench.tell(Command::HookFinished { key: key(no), end: HookEnd::Exit(0) });
    }
    assert_eq!(bench.session.hooks_ended.len(), MAX_HOOKS_KEPT);
    assert_eq!(bench.session.hooks_ended[0].key, key(1), "the first one is forgotten");
}

#[test]
fn a_spec_of_before_had_no_warnings() {
    let mut value = serde_json::to_value(spec()).expect("a spec has string keys");
    assert!(value.get("warnings").is_none(), "an empty list is not written");
    value["warnings"] = serde_json::json!(["beware"]);
    let read: Spec = serde_json::from_value(value).expect("a spec");
    assert_eq!(read.warnings, ["beware"]);
}
