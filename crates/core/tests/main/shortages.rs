//! Effects that hit a resource shortage: they wait, are retried, and fail nothing.

use provost_core::{
    lifecycle::{ClaimKind, Flag, State},
    session::{DeadlineKind, ProcessExit, SessionCommand, SessionEffect, SessionRejection},
    shortage::{LONGEST_RETRY_MS, Resource, Shortage},
    verdict::CheckEnd,
};

use crate::kit::{TestSession, checked_spec, snapshot, spec};

pub(crate) fn shortage_of(harness: &TestSession, effect: &SessionEffect) -> SessionCommand {
    let effect = effect.key();
    let tries = harness.session.tries_of(&effect);
    let shortage = Shortage::new(Resource::Threads, "start a holder: too few");
    SessionCommand::EffectShortage { effect, tries, shortage }
}

/// A session with a pending launch.
fn with_pending_launch() -> (TestSession, SessionEffect) {
    let mut harness = TestSession::new(spec());
    harness.apply(SessionCommand::WorkPrepared {
        cwd: "/work".to_owned(),
        base: Some(snapshot("old")),
    });
    let start = SessionEffect::StartLaunch(harness.launch());
    (harness, start)
}

#[test]
fn launch_in_shortage_waits_and_retries() {
    let (mut harness, start) = with_pending_launch();
    assert!(harness.has_effect(&start));
    harness.apply(shortage_of(&harness, &start));
    assert!(!harness.has_effect(&start) && harness.has_flag(Flag::Shortage), "it waits");
    assert!(!harness.session.is_closed());
    assert_eq!(
        harness.session.deadline(),
        Some((harness.now.mono_ms + 1_000, DeadlineKind::Retry))
    );
    harness.advance_clock(999);
    assert!(!harness.has_effect(&start));
    harness.advance_clock(1);
    assert!(harness.has_effect(&start), "it is tried again");
    assert_eq!(harness.session.longest_wait().map(|wait| wait.tries), Some(1));
    harness.start();
    assert!(
        !harness.has_flag(Flag::Shortage) && harness.session.effect_waits.is_empty(),
        "it has begun"
    );
    assert_eq!(harness.state(), State::Working);
}

#[test]
fn shortage_retries_back_off_without_end() {
    let (mut harness, start) = with_pending_launch();
    let mut waits = Vec::new();
    for _ in 0..40 {
        harness.apply(shortage_of(&harness, &start));
        let (at, _) = harness.session.deadline().expect("it is tried again");
        waits.push(at - harness.now.mono_ms);
        harness.advance_clock(at - harness.now.mono_ms);
        assert!(harness.has_effect(&start) && !harness.sealed());
    }
    assert_eq!(waits[..5], [1_000, 2_000, 4_000, 8_000, LONGEST_RETRY_MS]);
    assert_eq!(waits.last(), Some(&LONGEST_RETRY_MS));
}

#[test]
fn late_shortage_report_is_ignored() {
    let (mut harness, start) = with_pending_launch();
    let first = shortage_of(&harness, &start);
    harness.apply(first.clone());
    assert_eq!(
        harness.try_apply(first.clone()),
        Err(SessionRejection::NothingNew),
        "it waits already"
    );
    harness.advance_clock(1_000);
    assert_eq!(
        harness.try_apply(first),
        Err(SessionRejection::NothingNew),
        "it is being tried again"
    );
    assert!(harness.has_effect(&start));
    let follow = SessionEffect::Follow(harness.launch());
    harness.start();
    assert_eq!(
        harness.try_apply(shortage_of(&harness, &start)),
        Err(SessionRejection::NothingNew),
        "it runs"
    );
    let kept_at_it = harness.try_apply(shortage_of(&harness, &follow));
    assert_eq!(kept_at_it, Err(SessionRejection::NothingNew), "the follower retries by itself");
}

#[test]
fn check_in_shortage_refutes_nothing() {
    let mut harness = TestSession::running(checked_spec());
    harness.claim(ClaimKind::Completed).end(ProcessExit::Exit(0)).snapshot("new");
    let check = SessionEffect::RunCheck { attempt: 1, no: 1, index: 0 };
    assert!(harness.has_effect(&check), "{:?}", harness.session.effects());
    harness.apply(shortage_of(&harness, &check));
    harness.advance_clock(500);
    assert_eq!((harness.state(), harness.sealed()), (State::Verifying, false));
    harness.advance_clock(500).verify("new", CheckEnd::Exit(0)).settle();
    assert_eq!((harness.state(), harness.sealed()), (State::Succeeded, true));
}

#[test]
fn hook_in_shortage_is_retried_after_seal() {
    let mut harness = TestSession::running(spec());
    harness.claim(ClaimKind::Completed).end(ProcessExit::Exit(0)).settle();
    let hook = harness
        .session
        .hook_log
        .pending
        .last()
        .map(|hook| SessionEffect::RunHook(hook.key))
        .expect("a hook");
    harness.apply(shortage_of(&harness, &hook));
    assert!(!harness.has_effect(&hook) && !harness.session.is_closed());
    harness.advance_clock(1_000);
    assert!(harness.has_effect(&hook));
}

#[test]
fn cancel_ends_the_shortage_wait() {
    let (mut harness, start) = with_pending_launch();
    harness.apply(shortage_of(&harness, &start));
    harness.apply(SessionCommand::Cancel { because: "enough".to_owned() });
    assert!(harness.session.effect_waits.is_empty() && !harness.has_flag(Flag::Shortage));
    let launch = harness.launch();
    harness
        .apply(SessionCommand::LaunchFailed { launch, reason: "it was stopped first".to_owned() });
    assert_eq!(harness.settle().state(), State::Cancelled);
}
