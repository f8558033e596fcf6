//! Effects that hit a resource shortage: they wait, are retried, and fail nothing.

use provost_core::{
    lifecycle::{ClaimKind, Flag, State},
    session::{Command, Due, Effect, End, Rejected},
    shortage::{LONGEST_RETRY_MS, Resource, Shortage},
    verdict::CheckEnd,
};

use crate::kit::{Bench, checked, snapshot, spec};

fn short(bench: &Bench, effect: &Effect) -> Command {
    let effect = effect.key();
    let tries = bench.session.tries_of(&effect);
    let shortage = Shortage::new(Resource::Threads, "start a holder: too few");
    Command::EffectShort { effect, tries, shortage }
}

/// A session with a pending launch.
fn owed() -> (Bench, Effect) {
    let mut bench = Bench::new(spec());
    bench.tell(Command::WorkPrepared { cwd: "/work".to_owned(), base: Some(snapshot("old")) });
    let start = Effect::StartLaunch(bench.launch());
    (bench, start)
}

#[test]
fn short_launch_waits_and_is_tried_again() {
    let (mut bench, start) = owed();
    assert!(bench.owes(&start));
    bench.tell(short(&bench, &start));
    assert!(!bench.owes(&start) && bench.has(Flag::Shortage), "it waits");
    assert!(!bench.session.is_closed());
    assert_eq!(bench.session.deadline(), Some((bench.now.mono_ms + 1_000, Due::Retry)));
    bench.pass(999);
    assert!(!bench.owes(&start));
    bench.pass(1);
    assert!(bench.owes(&start), "it is tried again");
    assert_eq!(bench.session.short_of().map(|wait| wait.tries), Some(1));
    bench.start();
    assert!(!bench.has(Flag::Shortage) && bench.session.short.is_empty(), "it has begun");
    assert_eq!(bench.state(), State::Working);
}

#[test]
fn retries_come_ever_later_and_never_end() {
    let (mut bench, start) = owed();
    let mut waits = Vec::new();
    for _ in 0..40 {
        bench.tell(short(&bench, &start));
        let (at, _) = bench.session.deadline().expect("it is tried again");
        waits.push(at - bench.now.mono_ms);
        bench.pass(at - bench.now.mono_ms);
        assert!(bench.owes(&start) && !bench.sealed());
    }
    assert_eq!(waits[..5], [1_000, 2_000, 4_000, 8_000, LONGEST_RETRY_MS]);
    assert_eq!(waits.last(), Some(&LONGEST_RETRY_MS));
}

#[test]
fn late_word_of_a_shortage_is_known_as_one() {
    let (mut bench, start) = owed();
    let first = short(&bench, &start);
    bench.tell(first.clone());
    assert_eq!(bench.try_tell(first.clone()), Err(Rejected::Nothing), "it waits already");
    bench.pass(1_000);
    assert_eq!(bench.try_tell(first), Err(Rejected::Nothing), "it is being tried again");
    assert!(bench.owes(&start));
    let follow = Effect::Follow(bench.launch());
    bench.start();
    assert_eq!(bench.try_tell(short(&bench, &start)), Err(Rejected::Nothing), "it runs");
    let kept_at_it = bench.try_tell(short(&bench, &follow));
    assert_eq!(kept_at_it, Err(Rejected::Nothing), "the follower retries by itself");
}

#[test]
fn short_check_refutes_nothing() {
    let mut bench = Bench::running(checked());
    bench.claim(ClaimKind::Completed).end(End::Exit(0)).snapshot("new");
    let check = Effect::RunCheck { attempt: 1, no: 1, index: 0 };
    assert!(bench.owes(&check), "{:?}", bench.session.effects());
    bench.tell(short(&bench, &check));
    bench.pass(500);
    assert_eq!((bench.state(), bench.sealed()), (State::Verifying, false));
    bench.pass(500).verify("new", CheckEnd::Exit(0)).settle();
    assert_eq!((bench.state(), bench.sealed()), (State::Succeeded, true));
}

#[test]
fn short_hook_of_a_sealed_session_is_tried_again() {
    let mut bench = Bench::running(spec());
    bench.claim(ClaimKind::Completed).end(End::Exit(0)).settle();
    let hook = bench.session.hooks.last().map(|hook| Effect::RunHook(hook.key)).expect("a hook");
    bench.tell(short(&bench, &hook));
    assert!(!bench.owes(&hook) && !bench.session.is_closed());
    bench.pass(1_000);
    assert!(bench.owes(&hook));
}

#[test]
fn cancelled_session_waits_no_longer() {
    let (mut bench, start) = owed();
    bench.tell(short(&bench, &start));
    bench.tell(Command::Cancel { because: "enough".to_owned() });
    assert!(bench.session.short.is_empty() && !bench.has(Flag::Shortage));
    let launch = bench.launch();
    bench.tell(Command::LaunchFailed { launch, reason: "it was stopped first".to_owned() });
    assert_eq!(bench.settle().state(), State::Cancelled);
}
