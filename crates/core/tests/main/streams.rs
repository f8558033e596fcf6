//! Signals on a launch's stream, its read cursor, and its flags.

use provost_core::{
    lifecycle::{ClaimKind, Flag, State},
    session::{
        Cursor, FactKind, OnFinish, ProcessExit, Progress, ReportBody, SendMode, SessionCommand,
        SessionRejection, SessionSpec, StoppedBy, StreamSignal, TurnEnd, Usage,
    },
};

use crate::kit::{TURN_ENDED_OK, TestSession, command_spec, question, send, spec};

fn observed(harness: &TestSession, signal: StreamSignal, offset: u64) -> SessionCommand {
    SessionCommand::Observed {
        launch: harness.launch(),
        signal,
        cursor: Cursor { offset, skip: 0 },
    }
}

fn retrying() -> StreamSignal {
    StreamSignal::Retrying { detail: "again".to_owned() }
}

#[test]
fn line_is_folded_once_stream_end_regardless_of_cursor() {
    let mut harness = TestSession::running(command_spec());
    harness.apply(observed(&harness, TURN_ENDED_OK, 30));
    for offset in [29, 30] {
        let again = observed(&harness, TURN_ENDED_OK, offset);
        assert_eq!(harness.try_apply(again), Err(SessionRejection::NothingNew));
    }
    harness.apply(observed(&harness, StreamSignal::Closed, 30));
    let again = observed(&harness, StreamSignal::Closed, 31);
    assert_eq!(harness.try_apply(again), Err(SessionRejection::NothingNew), "it closed already");
}

#[test]
fn signal_is_folded_once_into_its_launch() {
    let fact = ReportBody::Fact { kind: FactKind::Pr, value: "1".to_owned() };
    let claim = ReportBody::Claim { kind: ClaimKind::Working, text: None };
    let signals = [
        StreamSignal::Ready { thread: None },
        StreamSignal::TurnStarted { turn: None },
        TURN_ENDED_OK,
        StreamSignal::Reported(claim),
        StreamSignal::Reported(fact),
        StreamSignal::RequestOpened(question("new")),
        StreamSignal::RequestWithdrawn { native: "open".to_owned() },
        StreamSignal::Progress(Progress { done: 1, total: 2 }),
        StreamSignal::Usage(Usage { input: 1, output: 2 }),
        retrying(),
        StreamSignal::Oversized { bytes: 1 << 30 },
        StreamSignal::Closed,
    ];
    for signal in signals {
        let mut harness = TestSession::resumed();
        harness.signal(StreamSignal::RequestOpened(question("open")));
        let older = harness.session.launches[0].clone();
        let observed = observed(&harness, signal.clone(), 10_000);
        harness.apply(observed.clone());
        assert_eq!(harness.session.launches[1].cursor.offset, 10_000, "{signal:?}");
        assert_eq!(harness.try_apply(observed), Err(SessionRejection::NothingNew), "{signal:?}");
        assert_eq!(harness.session.launches[0], older, "{signal:?}");
    }
}

#[test]
fn usage_adds_up_and_last_progress_wins() {
    let mut harness = TestSession::running(spec());
    harness.signal(StreamSignal::Ready { thread: Some("t".to_owned()) });
    harness.signal(StreamSignal::Ready { thread: None });
    assert_eq!(harness.session.conversation.thread.as_deref(), Some("t"));
    for done in [1, 2] {
        harness.signal(StreamSignal::Usage(Usage { input: 10, output: 1 }));
        harness.signal(StreamSignal::Progress(Progress { done, total: 5 }));
    }
    assert_eq!(harness.session.spending.usage, Usage { input: 20, output: 2 });
    assert_eq!(harness.session.reported.progress, Some(Progress { done: 2, total: 5 }));
}

#[test]
fn agent_at_output_limit_waits_for_raise() {
    let mut harness = TestSession::running(spec());
    let at_limit = SessionCommand::OutputAtLimit { launch: harness.launch() };
    harness.apply(at_limit.clone());
    assert!(harness.has_flag(Flag::OutputLimit));
    assert_eq!(harness.try_apply(at_limit.clone()), Err(SessionRejection::NothingNew));
    let now = harness.session.output_limit;
    for bytes in [now - 1, now] {
        let refused = Err(SessionRejection::LimitNotRaised { now });
        assert_eq!(harness.try_apply(SessionCommand::RaiseLimit { bytes }), refused);
    }
    harness.apply(SessionCommand::RaiseLimit { bytes: now + 1 });
    assert_eq!(harness.session.output_limit, now + 1);
    assert!(!harness.has_flag(Flag::OutputLimit));
    harness.apply(at_limit).exit(ProcessExit::Exit(0), StoppedBy::Itself);
    assert!(!harness.has_flag(Flag::OutputLimit), "no process waits any more");
}

#[test]
fn agent_waits_for_disk_space() {
    let mut harness = TestSession::running(spec());
    let launch = harness.launch();
    let (full, flows) = (
        SessionCommand::OutputDiskFull { launch, dir: "/home".to_owned() },
        SessionCommand::OutputResumed { launch },
    );
    assert_eq!(harness.try_apply(flows.clone()), Err(SessionRejection::NothingNew));
    harness.apply(full.clone());
    assert!(harness.has_flag(Flag::DiskFull) && !harness.has_flag(Flag::OutputLimit));
    assert_eq!(harness.session.launches[0].disk_full.as_deref(), Some("/home"));
    assert_eq!(harness.try_apply(full.clone()), Err(SessionRejection::NothingNew));
    harness.apply(flows);
    assert!(!harness.has_flag(Flag::DiskFull));
    harness.apply(full).exit(ProcessExit::Exit(0), StoppedBy::Itself);
    assert!(!harness.has_flag(Flag::DiskFull), "no process waits any more");
}

#[test]
fn lost_output_is_flagged_and_reading_continues() {
    let mut harness = TestSession::running(spec());
    harness.apply(observed(&harness, TURN_ENDED_OK, 500));
    let cursor = Cursor { offset: 100, skip: 0 };
    let lost = SessionCommand::OutputLost { launch: harness.launch(), cursor };
    assert!(!harness.has_flag(Flag::OutputLost));
    harness.apply(lost.clone());
    assert!(harness.has_flag(Flag::OutputLost));
    assert_eq!(harness.session.launches[0].cursor, cursor);
    assert_eq!(harness.try_apply(lost), Err(SessionRejection::NothingNew));
}

#[test]
fn oversized_line_is_flagged() {
    let mut harness = TestSession::running(spec());
    assert!(!harness.has_flag(Flag::OversizedOutput));
    harness.signal(StreamSignal::Oversized { bytes: 1 << 30 });
    assert!(harness.has_flag(Flag::OversizedOutput));
}

#[test]
fn retrying_flag_lasts_until_next_signal_or_exit() {
    let mut harness = TestSession::running(spec());
    harness.signal(retrying());
    assert!(harness.has_flag(Flag::Retrying));
    assert_eq!(harness.session.retry_reason(), Some("again"));
    harness.signal(StreamSignal::TurnStarted { turn: None });
    assert!(!harness.has_flag(Flag::Retrying));
    assert_eq!(harness.session.retry_reason(), None);
    harness.signal(retrying()).exit(ProcessExit::Exit(1), StoppedBy::Itself);
    assert!(!harness.has_flag(Flag::Retrying));
    assert_eq!(harness.session.retry_reason(), None);
}

#[test]
fn retrying_does_not_end_a_stall() {
    let mut harness = TestSession::running(spec());
    harness.report_silence().signal(retrying());
    assert_eq!(harness.state(), State::Stalled);
    harness.signal(StreamSignal::Progress(Progress { done: 1, total: 2 }));
    assert_eq!(harness.state(), State::Working);
}

#[test]
fn leftovers_and_unverified_tree_are_flagged() {
    for (leftovers, verified) in [(0, true), (2, true), (0, false)] {
        let mut harness = TestSession::running(spec());
        let launch = harness.launch();
        harness.exit(ProcessExit::Exit(0), StoppedBy::Itself);
        assert!(!harness.has_flag(Flag::Leftovers) && !harness.has_flag(Flag::ProcessesMayRemain));
        harness.apply(SessionCommand::ProcessTreeGone { launch, leftovers, verified });
        assert_eq!(harness.has_flag(Flag::Leftovers), leftovers > 0);
        assert_eq!(harness.has_flag(Flag::ProcessesMayRemain), !verified);
    }
}

#[test]
fn new_instruction_makes_parked_agent_working() {
    let mut harness = TestSession::running(SessionSpec { on_finish: OnFinish::Park, ..spec() });
    harness.claim(ClaimKind::Completed).signal(TURN_ENDED_OK).advance_clock(50);
    harness.apply(send("next", SendMode::Continue));
    assert_eq!(harness.state(), State::Working, "a turn is expected of it");
    assert!(harness.session.attempt().result_requested.is_none());
    assert_eq!(harness.session.launches[0].attempt, 2);
    assert!(harness.session.attempts[0].is_sealed());
}

#[test]
fn new_instruction_restarts_silence_window() {
    let mut harness = TestSession::running(spec());
    harness.report_silence();
    assert_eq!(harness.state(), State::Stalled);
    harness.apply(send("next", SendMode::Supersede));
    assert_eq!(harness.state(), State::Working);
    assert!(harness.session.attempts[0].is_decided());
    let window = harness.session.deadline().unwrap().0 - harness.now.mono_ms;
    assert_eq!(window, harness.session.spec.bounds.stale_ms);
}

#[test]
fn turn_error_of_older_launch_is_no_claim() {
    let mut harness = TestSession::resumed();
    let launch = harness.session.launches[0].id;
    let signal = StreamSignal::TurnEnded {
        turn: None,
        end: TurnEnd::Error("late".to_owned()),
        usage: None,
        says: None,
    };
    let cursor = Cursor { offset: 10_000, skip: 0 };
    harness.apply(SessionCommand::Observed { launch, signal, cursor });
    assert!(harness.session.attempt().claim.is_none());
}

#[test]
fn open_turn_has_a_name_until_it_ends() {
    let mut harness = TestSession::running(spec());
    let turn = |harness: &TestSession| harness.session.launches[0].turn().map(str::to_owned);
    assert_eq!(turn(&harness), None);
    harness.signal(StreamSignal::TurnStarted { turn: Some("first".to_owned()) });
    assert_eq!(turn(&harness).as_deref(), Some("first"));
    harness.signal(TURN_ENDED_OK);
    assert_eq!(turn(&harness), None);
}
