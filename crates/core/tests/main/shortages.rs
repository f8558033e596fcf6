//! Effects that hit a resource shortage: they wait, are retried, and fail nothing.

use provost_core::{
    lifecycle::{ClaimKind, Flag, State},
    session::{DeadlineKind, ProcessExit, SessionCommand, SessionEffect, SessionRejection},
    shortage::{LONGEST_RETRY_MS, Resource, Shortage},
    verdict::CheckEnd,
};

use crate::kit::{TestSession, checked_spec, snapshot, spec};

pub(crate) fn shortage_of(bench: &TestSession, effect: &SessionEffect) -> SessionCommand {
    let effect = effect.key();
    let tries = bench.session.tries_of(&effect);
    let shortage = Shortage::new(Resource::Threads, "start a holder: too few");
    SessionCommand::EffectShortage { effect, tries, shortage }
}

/// A session with a pending launch.
fn with_pending_launch() -> (TestSession, SessionEffect) {
    let mut bench = TestSession::new(spec());
    bench.apply(SessionCommand::WorkPrepared {
        cwd: "/work".to_owned(),
        base: Some(snapshot("old")),
    });
    let start = SessionEffect::StartLaunch(bench.launch());
    (bench, start)
}

#[test]
fn launch_in_shortage_waits_and_retries() {
    let (mut bench, start) = with_pending_launch();
    assert!(bench.has_effect(&start));
    bench.apply(shortage_of(&bench, &start));
    assert!(!bench.has_effect(&start) && bench.has_flag(Flag::Shortage), "it waits");
    assert!(!bench.session.is_closed());
    assert_eq!(bench.session.deadline(), Some((bench.now.mono_ms + 1_000, DeadlineKind::Retry)));
    bench.advance_clock(999);
    assert!(!bench.has_effect(&start));
    bench.advance_clock(1);
    assert!(bench.has_effect(&start), "it is tried again");
    assert_eq!(bench.session.longest_wait().map(|wait| wait.tries), Some(1));
    bench.start();
    assert!(
        !bench.has_flag(Flag::Shortage) && bench.session.effect_waits.is_empty(),
        "it has begun"
    );
    assert_eq!(bench.state(), State::Working);
}

#[test]
fn shortage_retries_back_off_without_end() {
    let (mut bench, start) = with_pending_launch();
    let mut waits = Vec::new();
    for _ in 0..40 {
        bench.apply(shortage_of(&bench, &start));
        let (at, _) = bench.session.deadline().expect("it is tried again");
        waits.push(at - bench.now.mono_ms);
        bench.advance_clock(at - bench.now.mono_ms);
        assert!(bench.has_effect(&start) && !bench.sealed());
    }
    assert_eq!(waits[..5], [1_000, 2_000, 4_000, 8_000, LONGEST_RETRY_MS]);
    assert_eq!(waits.last(), Some(&LONGEST_RETRY_MS));
}

#[test]
fn late_shortage_report_is_ignored() {
    let (mut bench, start) = with_pending_launch();
    let first = shortage_of(&bench, &start);
    bench.apply(first.clone());
    assert_eq!(
        bench.try_apply(first.clone()),
        Err(SessionRejection::NothingNew),
        "it waits already"
    );
    bench.advance_clock(1_000);
    assert_eq!(
        bench.try_apply(first),
        Err(SessionRejection::NothingNew),
        "it is being tried again"
    );
    assert!(bench.has_effect(&start));
    let follow = SessionEffect::Follow(bench.launch());
    bench.start();
    assert_eq!(
        bench.try_apply(shortage_of(&bench, &start)),
        Err(SessionRejection::NothingNew),
        "it runs"
    );
    let kept_at_it = bench.try_apply(shortage_of(&bench, &follow));
    assert_eq!(kept_at_it, Err(SessionRejection::NothingNew), "the follower retries by itself");
}

#[test]
fn check_in_shortage_refutes_nothing() {
    let mut bench = TestSession::running(checked_spec());
    bench.claim(ClaimKind::Completed).end(ProcessExit::Exit(0)).snapshot("new");
    let check = SessionEffect::RunCheck { attempt: 1, no: 1, index: 0 };
    assert!(bench.has_effect(&check), "{:?}", bench.session.effects());
    bench.apply(shortage_of(&bench, &check));
    bench.advance_clock(500);
    assert_eq!((bench.state(), bench.sealed()), (State::Verifying, false));
    bench.advance_clock(500).verify("new", CheckEnd::Exit(0)).settle();
    assert_eq!((bench.state(), bench.sealed()), (State::Succeeded, true));
}

#[test]
fn hook_in_shortage_is_retried_after_seal() {
    let mut bench = TestSession::running(spec());
    bench.claim(ClaimKind::Completed).end(ProcessExit::Exit(0)).settle();
    let hook =
        bench.session.hooks.last().map(|hook| SessionEffect::RunHook(hook.key)).expect("a hook");
    bench.apply(shortage_of(&bench, &hook));
    assert!(!bench.has_effect(&hook) && !bench.session.is_closed());
    bench.advance_clock(1_000);
    assert!(bench.has_effect(&hook));
}

#[test]
fn cancel_ends_the_shortage_wait() {
    let (mut bench, start) = with_pending_launch();
    bench.apply(shortage_of(&bench, &start));
    bench.apply(SessionCommand::Cancel { because: "enough".to_owned() });
    assert!(bench.session.effect_waits.is_empty() && !bench.has_flag(Flag::Shortage));
    let launch = bench.launch();
    bench.apply(SessionCommand::LaunchFailed { launch, reason: "it was stopped first".to_owned() });
    assert_eq!(bench.settle().state(), State::Cancelled);
}
