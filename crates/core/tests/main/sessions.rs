//! Sessions that the user interrupts or stops, commits of their worktrees, and dismissal of a team's sessions.

use provost_core::{
    ids::TreeId,
    lifecycle::{ClaimKind, Flag, Rule, State},
    session::{
        AgentInterface, ExitZeroPolicy, ProcessExit, SendMode, SessionCommand, SessionEffect,
        SessionRejection, SessionSpec, StopReason, StoppedBy, StreamSignal, TeamMembership,
        TurnEnd, WorkLocation,
    },
    team::MemberRole,
    verdict::CheckEnd,
};

use crate::{
    kit::{TURN_ENDED_OK, TestSession, checked_spec, command_spec, send, spec},
    shortages::shortage_of,
};

const TURN_STARTED: StreamSignal = StreamSignal::TurnStarted { turn: None };
const INTERRUPTED: StreamSignal =
    StreamSignal::TurnEnded { turn: None, end: TurnEnd::Interrupted, usage: None, says: None };

#[test]
fn interrupted_turn_waits_for_the_user() {
    let mut limited = spec();
    limited.bounds.time_limit_ms = Some(1_000);
    let mut bench = TestSession::running(limited);
    bench.signal(TURN_STARTED).signal(INTERRUPTED).settle().advance_clock(1_000_000);
    assert_eq!((bench.state(), bench.sealed()), (State::Idle, false), "waiting costs no time");
    assert!(bench.has_flag(Flag::Interrupted) && bench.session.awaits_user());
    assert!(bench.session.attempt().result_requested.is_none());
    bench.apply(send("next", SendMode::Continue)).signal(TURN_STARTED);
    assert!(!bench.session.awaits_user());
    bench.signal(TURN_ENDED_OK);
    assert!(bench.session.attempt().result_requested.is_some(), "this turn is finished");
}

#[test]
fn late_interrupt_does_not_finish_the_turn() {
    let mut bench = TestSession::running(spec());
    bench.signal(TURN_STARTED);
    bench.apply(SessionCommand::Interrupt { key: "i".to_owned(), text: None });
    // A user at the screen interrupted first.
    bench.signal(INTERRUPTED);
    assert!(bench.session.awaits_user());
    assert!(bench.session.attempt().result_requested.is_none());
    let mut bench = TestSession::running(spec());
    bench.signal(TURN_STARTED);
    bench.apply(SessionCommand::Interrupt { key: "i".to_owned(), text: None });
    bench.signal(TURN_ENDED_OK);
    assert!(bench.session.attempt().result_requested.is_some(), "the turn ended first, and well");
}

#[test]
fn user_stop_ends_as_stopped_unless_claimed() {
    let stop = |mut bench: TestSession| {
        bench
            .apply(SessionCommand::Stop)
            .end_by(ProcessExit::Signal(15), StoppedBy::Provost)
            .settle();
        assert!(bench.sealed());
        (bench.state(), bench.session.judgement().rule)
    };
    assert_eq!(stop(TestSession::running(command_spec())), (State::Stopped, Rule::Ended));
    let mut claimed = TestSession::running(spec());
    claimed.claim(ClaimKind::Completed);
    assert_eq!(stop(claimed).0, State::Completed);
    let mut asks = TestSession::running(spec());
    asks.claim(ClaimKind::NeedsInput);
    asks.apply(SessionCommand::Stop).end_by(ProcessExit::Signal(15), StoppedBy::Provost).settle();
    assert_eq!(asks.state(), State::NeedsInput);
    let mut died = TestSession::running(command_spec());
    died.apply(SessionCommand::Stop).end(ProcessExit::Signal(9)).settle();
    assert_eq!(died.state(), State::Failed, "it died before Provost ended it");
}

#[test]
fn stop_before_start_is_not_a_failed_launch() {
    let mut bench = TestSession::new(command_spec());
    bench.apply(SessionCommand::WorkPrepared { cwd: "/work".to_owned(), base: None });
    assert!(bench.has_flag(Flag::Starting));
    bench.apply(SessionCommand::Stop);
    let launch = bench.launch();
    bench
        .apply(SessionCommand::LaunchFailed { launch, reason: "it was called off".to_owned() })
        .settle();
    assert_eq!((bench.state(), bench.cause()), (State::Stopped, None));
}

#[test]
fn stopped_work_stays_stopped_after_checks() {
    let mut bench = TestSession::running(checked_spec());
    bench.apply(SessionCommand::Stop).end_by(ProcessExit::Signal(15), StoppedBy::Provost);
    assert_eq!(bench.state(), State::Verifying);
    bench.verify("new", CheckEnd::Exit(1)).settle();
    assert_eq!((bench.state(), bench.cause()), (State::Stopped, None));
}

#[test]
fn answer_resumes_only_what_takes_an_answer() {
    for (interface, flagged) in
        [(AgentInterface::json_lines(), true), (AgentInterface::command(), false)]
    {
        let mut spec = spec();
        spec.agent.interface = interface;
        let mut bench = TestSession::running(spec);
        bench.claim(ClaimKind::NeedsInput).end(ProcessExit::Exit(0));
        assert_eq!(
            (bench.state(), bench.has_flag(Flag::AnswerResumes)),
            (State::NeedsInput, flagged)
        );
    }
}

fn in_worktree() -> SessionSpec {
    let work = WorkLocation::Worktree {
        top: "/repo".to_owned(),
        path: "/tree".to_owned(),
        branch: "provost/x".to_owned(),
        copy: Vec::new(),
        base: None,
    };
    SessionSpec { work, exit0: ExitZeroPolicy::Completes, ..command_spec() }
}

#[test]
fn cancelled_session_is_sealed_after_its_worktree_is_made() {
    let cancel = || SessionCommand::Cancel { because: "enough".to_owned() };
    let make = SessionEffect::PrepareWork { attempt: 1 };
    let made = SessionCommand::WorkPrepared { cwd: "/tree".to_owned(), base: None };
    let failed = SessionCommand::WorkFailed { reason: "no such commit".to_owned() };
    for result in [made, failed] {
        let mut bench = TestSession::new(in_worktree());
        bench.apply(cancel()).settle().advance_clock(60_000);
        assert_eq!((bench.state(), bench.sealed()), (State::Cancelled, false));
        assert!(bench.has_effect(&make), "git may be writing");
        bench.apply(result).settle();
        assert_eq!((bench.state(), bench.sealed()), (State::Cancelled, true));
        assert!(bench.session.launches.is_empty());
    }

    let mut bench = TestSession::new(in_worktree());
    bench.apply(shortage_of(&bench, &make));
    bench.apply(cancel()).settle();
    assert!(bench.sealed(), "git does not run while its effect waits for a resource");
}

fn commits(bench: &TestSession) -> bool {
    bench.session.effects().iter().any(|one| matches!(one, SessionEffect::TakeSnapshot { .. }))
}

#[test]
fn unchecked_worktree_is_committed_before_seal() {
    for (end, state) in
        [(ProcessExit::Exit(0), State::Completed), (ProcessExit::Exit(1), State::Failed)]
    {
        let mut bench = TestSession::running(in_worktree());
        assert!(!commits(&bench), "it works");
        bench.exit(end, StoppedBy::Itself).settle();
        assert!(!bench.sealed() && !commits(&bench), "something of it may still write");
        let launch = bench.launch();
        bench.signal(StreamSignal::Closed);
        bench
            .apply(SessionCommand::ProcessTreeGone { launch, leftovers: 0, verified: true })
            .settle();
        assert_eq!((bench.state(), bench.sealed()), (state, false), "{end:?}");
        assert!(commits(&bench));
        bench.snapshot("new").settle();
        assert_eq!((bench.state(), bench.sealed(), commits(&bench)), (state, true, false));
        let sealed = bench.session.attempt().sealed.clone().unwrap();
        assert_eq!(sealed.tree, Some(TreeId("new".to_owned())));
        assert_eq!(bench.session.verification().as_str(), "none");
    }
}

#[test]
fn failed_commit_without_checks_refutes_nothing() {
    let mut bench = TestSession::running(in_worktree());
    bench.end(ProcessExit::Exit(0));
    let reason = "no room".to_owned();
    bench.apply(SessionCommand::SnapshotFailed { attempt: 1, no: 1, reason }).settle();
    assert_eq!((bench.state(), bench.sealed()), (State::Completed, true));
    assert!(!bench.has_flag(Flag::ChecksUnfinished));
}

#[test]
fn stopped_or_cancelled_work_is_not_committed() {
    for command in [SessionCommand::Stop, SessionCommand::Cancel { because: "no".to_owned() }] {
        let mut bench = TestSession::running(in_worktree());
        bench.apply(command).end_by(ProcessExit::Signal(15), StoppedBy::Provost).settle();
        assert!(bench.sealed() && !commits(&bench));
    }
}

fn member() -> SessionSpec {
    let mut spec = spec();
    spec.agent.settings.member = Some(TeamMembership { role: MemberRole::Worker });
    spec
}

fn dismiss(at_once: bool) -> SessionCommand {
    SessionCommand::Dismiss { because: "its team is done".to_owned(), at_once }
}

#[test]
fn dismissed_member_ends_after_its_turn() {
    let mut bench = TestSession::running(member());
    bench.apply(SessionCommand::MessageLost {
        key: "instruction-1".to_owned(),
        reason: "told".to_owned(),
    });
    bench.signal(TURN_STARTED).apply(dismiss(false));
    assert!(bench.session.launches[0].stop.is_none(), "it ends its turn first");
    bench.signal(TURN_ENDED_OK);
    assert_eq!(bench.session.launches[0].stop.unwrap().why, StopReason::TeamEnded);
    bench.end_by(ProcessExit::Signal(15), StoppedBy::Provost).settle();
    assert_eq!((bench.state(), bench.sealed()), (State::Stopped, true));

    let mut bench = TestSession::running(member());
    bench.signal(TURN_STARTED).apply(dismiss(true));
    assert_eq!(bench.session.launches[0].stop.unwrap().why, StopReason::TeamEnded);
}

#[test]
fn only_team_sessions_can_be_dismissed() {
    let mut bench = TestSession::running(spec());
    assert_eq!(bench.try_apply(dismiss(true)), Err(SessionRejection::StopExternally));
    let mut bench = TestSession::new(member());
    bench.apply(dismiss(false)).settle();
    assert_eq!(bench.state(), State::Cancelled, "it is not started any more");
    let mut bench = TestSession::running(member());
    bench.signal(TURN_STARTED).apply(dismiss(false));
    assert_eq!(bench.try_apply(dismiss(false)), Err(SessionRejection::NothingNew));
}
