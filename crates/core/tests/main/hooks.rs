//! Hooks run only if configured, once per occasion, each under its own key.

use provost_core::{
    lifecycle::{ClaimKind, State},
    session::{
        Command, Effect, End, EndedBy, HookEnd, HookEvent, HookKey, Rejected, Resolve, Signal,
    },
};

use crate::kit::{Bench, OVER, command_spec, question, spec};

#[test]
fn a_session_announces_its_opening_its_start_its_needs_and_its_outcome() {
    let mut bench = Bench::running(spec());
    assert_eq!(bench.hooks(), ["session.opened", "session.started"]);
    bench.signal(Signal::Asked(question("q")));
    bench.signal(Signal::Withdrawn { native: "q".to_owned() });
    bench.claim(ClaimKind::Completed).signal(OVER);
    let asked = ["session.opened", "session.started", "session.needs_input"];
    assert_eq!(bench.hooks(), asked, "an outcome is announced when it is sealed");
    bench.pass(50);
    assert_eq!(bench.hooks().last().unwrap(), "session.completed");
    assert_eq!(bench.hooks().len(), 4);
    assert_eq!(bench.session.hooks[3].state, State::Completed);
}

#[test]
fn a_second_launch_is_no_second_start() {
    let bench = Bench::resumed();
    assert_eq!(bench.hooks().iter().filter(|name| *name == "session.started").count(), 1);
}

#[test]
fn each_occasion_has_its_own_number() {
    let mut bench = Bench::running(spec());
    for native in ["a", "b"] {
        bench.signal(Signal::Asked(question(native)));
        bench.signal(Signal::Withdrawn { native: native.to_owned() });
    }
    let event = HookEvent::State(State::NeedsInput);
    let keys: Vec<HookKey> =
        bench.session.hooks.iter().map(|hook| hook.key).filter(|key| key.event == event).collect();
    assert_eq!(keys, [HookKey { event, no: 1 }, HookKey { event, no: 2 }]);
}

#[test]
fn a_hook_that_was_not_configured_is_not_owed() {
    let mut spec = spec();
    spec.hooks.remove(&HookEvent::Opened);
    assert_eq!(Bench::running(spec).hooks(), ["session.started"]);
}

#[test]
fn a_hook_runs_until_it_is_told_to_have_finished_once() {
    let mut bench = Bench::running(spec());
    let key = bench.session.hooks[0].key;
    assert!(bench.owes(&Effect::RunHook(key)));
    let finished = Command::HookFinished { key, end: HookEnd::Exit(0) };
    bench.tell(finished.clone());
    assert!(!bench.owes(&Effect::RunHook(key)));
    assert_eq!(bench.hooks(), ["session.started"]);
    assert_eq!(bench.try_tell(finished), Err(Rejected::Nothing));
}

#[test]
fn a_resolution_is_announced_once_before_or_after_the_seal() {
    let accept = Command::Resolve { to: Resolve::Accepted, because: "seen".to_owned() };
    let accepted =
        |bench: &Bench| bench.hooks().iter().filter(|name| *name == "session.accepted").count();
    let mut before = Bench::running(command_spec());
    before.exit(End::Exit(0), EndedBy::Itself).tell(accept.clone());
    assert_eq!((before.sealed(), accepted(&before)), (true, 1));

    let mut after = Bench::running(command_spec());
    after.end(End::Exit(0)).settle().tell(accept);
    assert_eq!(accepted(&after), 1);
}

#[test]
fn a_late_claim_is_announced() {
    let mut bench = Bench::running(command_spec());
    bench.end(End::Exit(0)).settle().claim(ClaimKind::Completed);
    assert_eq!(bench.hooks().last().unwrap(), "session.late_claim");
}
