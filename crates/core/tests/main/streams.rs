//! Signals on a launch's stream, its read cursor, and its flags.

use provost_core::{
    lifecycle::{ClaimKind, Flag, State},
    session::{
        Afterwards, Command, Cursor, End, EndedBy, FactKind, Progress, Rejected, SendMode, Signal,
        Spec, Testimony, TurnEnd, Usage,
    },
};

use crate::kit::{Bench, OVER, command_spec, question, send, spec};

fn observed(bench: &Bench, signal: Signal, offset: u64) -> Command {
    Command::Observed { launch: bench.launch(), signal, cursor: Cursor { offset, skip: 0 } }
}

fn retrying() -> Signal {
    Signal::Retrying { detail: "again".to_owned() }
}

#[test]
fn a_line_is_folded_once_but_an_end_of_the_stream_always() {
    let mut bench = Bench::running(command_spec());
    bench.tell(observed(&bench, OVER, 30));
    for offset in [29, 30] {
        let again = observed(&bench, OVER, offset);
        assert_eq!(bench.try_tell(again), Err(Rejected::Nothing));
    }
    bench.tell(observed(&bench, Signal::Closed, 30));
    let again = observed(&bench, Signal::Closed, 31);
    assert_eq!(bench.try_tell(again), Err(Rejected::Nothing), "it closed already");
}

#[test]
fn every_signal_is_folded_once_into_its_own_launch() {
    let fact = Testimony::Fact { kind: FactKind::Pr, value: "1".to_owned() };
    let claim = Testimony::Claim { kind: ClaimKind::Working, text: None };
    let signals = [
        Signal::Ready { thread: None },
        Signal::TurnStarted { turn: None },
        OVER,
        Signal::Said(claim),
        Signal::Said(fact),
        Signal::Asked(question("new")),
        Signal::Withdrawn { native: "open".to_owned() },
        Signal::Progress(Progress { done: 1, total: 2 }),
        Signal::Usage(Usage { input: 1, output: 2 }),
        retrying(),
        Signal::Oversized { bytes: 1 << 30 },
        Signal::Closed,
    ];
    for signal in signals {
        let mut bench = Bench::resumed();
        bench.signal(Signal::Asked(question("open")));
        let older = bench.session.launches[0].clone();
        let observed = observed(&bench, signal.clone(), 10_000);
        bench.tell(observed.clone());
        assert_eq!(bench.session.launches[1].cursor.offset, 10_000, "{signal:?}");
        assert_eq!(bench.try_tell(observed), Err(Rejected::Nothing), "{signal:?}");
        assert_eq!(bench.session.launches[0], older, "{signal:?}");
    }
}

#[test]
fn usage_adds_up_progress_is_the_last_and_a_thread_is_kept() {
    let mut bench = Bench::running(spec());
    bench.signal(Signal::Ready { thread: Some("t".to_owned()) });
    bench.signal(Signal::Ready { thread: None });
    assert_eq!(bench.session.thread.as_deref(), Some("t"));
    for done in [1, 2] {
        bench.signal(Signal::Usage(Usage { input: 10, output: 1 }));
        bench.signal(Signal::Progress(Progress { done, total: 5 }));
    }
    assert_eq!(bench.session.usage, Usage { input: 20, output: 2 });
    assert_eq!(bench.session.progress, Some(Progress { done: 2, total: 5 }));
}

#[test]
fn an_agent_at_its_output_limit_waits_until_the_limit_is_raised() {
    let mut bench = Bench::running(spec());
    let at_limit = Command::OutputAtLimit { launch: bench.launch() };
    bench.tell(at_limit.clone());
    assert!(bench.has(Flag::OutputLimit));
    assert_eq!(bench.try_tell(at_limit.clone()), Err(Rejected::Nothing));
    let now = bench.session.output_limit;
    for bytes in [now - 1, now] {
        let refused = Err(Rejected::LimitNotRaised { now });
        assert_eq!(bench.try_tell(Command::RaiseLimit { bytes }), refused);
    }
    bench.tell(Command::RaiseLimit { bytes: now + 1 });
    assert_eq!(bench.session.output_limit, now + 1);
    assert!(!bench.has(Flag::OutputLimit));
    bench.tell(at_limit).exit(End::Exit(0), EndedBy::Itself);
    assert!(!bench.has(Flag::OutputLimit), "no process waits any more");
}

#[test]
fn an_agent_without_room_on_the_disk_waits_until_there_is_some() {
    let mut bench = Bench::running(spec());
    let launch = bench.launch();
    let (full, flows) = (
        Command::OutputNoRoom { launch, dir: "/home".to_owned() },
        Command::OutputFlows { launch },
    );
    assert_eq!(bench.try_tell(flows.clone()), Err(Rejected::Nothing));
    bench.tell(full.clone());
    assert!(bench.has(Flag::NoRoom) && !bench.has(Flag::OutputLimit));
    assert_eq!(bench.session.launches[0].no_room.as_deref(), Some("/home"));
    assert_eq!(bench.try_tell(full.clone()), Err(Rejected::Nothing));
    bench.tell(flows);
    assert!(!bench.has(Flag::NoRoom));
    bench.tell(full).exit(End::Exit(0), EndedBy::Itself);
    assert!(!bench.has(Flag::NoRoom), "no process waits any more");
}

#[test]
fn output_that_was_lost_is_flagged_and_reading_goes_on_from_there() {
    let mut bench = Bench::running(spec());
    bench.tell(observed(&bench, OVER, 500));
    let cursor = Cursor { offset: 100, skip: 0 };
    let lost = Command::OutputLost { launch: bench.launch(), cursor };
    assert!(!bench.has(Flag::OutputLost));
    bench.tell(lost.clone());
    assert!(bench.has(Flag::OutputLost));
    assert_eq!(bench.session.launches[0].cursor, cursor);
    assert_eq!(bench.try_tell(lost), Err(Rejected::Nothing));
}

#[test]
fn a_line_too_long_to_be_read_is_flagged() {
    let mut bench = Bench::running(spec());
    assert!(!bench.has(Flag::OversizedOutput));
    bench.signal(Signal::Oversized { bytes: 1 << 30 });
    assert!(bench.has(Flag::OversizedOutput));
}

#[test]
fn retrying_is_shown_until_something_else_is_heard_or_the_process_ended() {
    let mut bench = Bench::running(spec());
    bench.signal(retrying());
    assert!(bench.has(Flag::Retrying));
    assert_eq!(bench.session.retrying(), Some("again"));
    bench.signal(Signal::TurnStarted { turn: None });
    assert!(!bench.has(Flag::Retrying));
    assert_eq!(bench.session.retrying(), None);
    bench.signal(retrying()).exit(End::Exit(1), EndedBy::Itself);
    assert!(!bench.has(Flag::Retrying));
    assert_eq!(bench.session.retrying(), None);
}

#[test]
fn retrying_does_not_break_a_silence() {
    let mut bench = Bench::running(spec());
    bench.hear_silence().signal(retrying());
    assert_eq!(bench.state(), State::Stalled);
    bench.signal(Signal::Progress(Progress { done: 1, total: 2 }));
    assert_eq!(bench.state(), State::Working);
}

#[test]
fn leftovers_and_a_tree_not_verified_gone_are_flagged() {
    for (leftovers, verified) in [(0, true), (2, true), (0, false)] {
        let mut bench = Bench::running(spec());
        let launch = bench.launch();
        bench.exit(End::Exit(0), EndedBy::Itself);
        assert!(!bench.has(Flag::Leftovers) && !bench.has(Flag::NotVerifiedGone));
        bench.tell(Command::TreeGone { launch, leftovers, verified });
        assert_eq!(bench.has(Flag::Leftovers), leftovers > 0);
        assert_eq!(bench.has(Flag::NotVerifiedGone), !verified);
    }
}

#[test]
fn a_living_agent_given_the_next_instruction_is_at_work_before_it_says_so() {
    let mut bench = Bench::running(Spec { afterwards: Afterwards::Park, ..spec() });
    bench.claim(ClaimKind::Completed).signal(OVER).pass(50);
    bench.tell(send("next", SendMode::Continue));
    assert_eq!(bench.state(), State::Working, "a turn is expected of it");
    assert!(bench.session.attempt().result_asked.is_none());
    assert_eq!(bench.session.launches[0].attempt, 2);
    assert!(bench.session.attempts[0].is_sealed());
}

#[test]
fn a_new_instruction_begins_a_new_window_of_silence() {
    let mut bench = Bench::running(spec());
    bench.hear_silence();
    assert_eq!(bench.state(), State::Stalled);
    bench.tell(send("next", SendMode::Supersede));
    assert_eq!(bench.state(), State::Working);
    assert!(bench.session.attempts[0].is_decided());
    let window = bench.session.deadline().unwrap().0 - bench.now.mono_ms;
    assert_eq!(window, bench.session.spec.bounds.stale_ms);
}

#[test]
fn an_error_of_an_older_launch_is_nobodys_claim() {
    let mut bench = Bench::resumed();
    let launch = bench.session.launches[0].id;
    let signal = Signal::TurnEnded {
        turn: None,
        end: TurnEnd::Error("late".to_owned()),
        usage: None,
        says: None,
    };
    let cursor = Cursor { offset: 10_000, skip: 0 };
    bench.tell(Command::Observed { launch, signal, cursor });
    assert!(bench.session.attempt().claim.is_none());
}

#[test]
fn an_open_turn_is_known_by_its_name_until_it_is_over() {
    let mut bench = Bench::running(spec());
    let turn = |bench: &Bench| bench.session.launches[0].turn().map(str::to_owned);
    assert_eq!(turn(&bench), None);
    bench.signal(Signal::TurnStarted { turn: Some("first".to_owned()) });
    assert_eq!(turn(&bench).as_deref(), Some("first"));
    bench.signal(OVER);
    assert_eq!(turn(&bench), None);
}
