//! Sessions that the user interrupts or stops, commits of their worktrees, and dismissal of a team's sessions.

use provost_core::{
    ids::TreeId,
    lifecycle::{ClaimKind, Flag, Rule, State},
    request::RequestReply,
    session::{
        AgentInterface, ExitZeroPolicy, ProcessExit, SendMode, SessionCommand, SessionEffect,
        SessionRejection, SessionSpec, StopReason, StoppedBy, StreamSignal, TeamMembership,
        TurnEnd, WorkLocation,
    },
    team::MemberRole,
    verdict::CheckEnd,
};

use crate::{
    kit::{TURN_ENDED_OK, TestSession, checked_spec, command_spec, question, send, spec},
    shortages::shortage_of,
};

const TURN_STARTED: StreamSignal = StreamSignal::TurnStarted { turn: None };
const INTERRUPTED: StreamSignal =
    StreamSignal::TurnEnded { turn: None, end: TurnEnd::Interrupted, usage: None, says: None };

#[test]
fn interrupted_turn_waits_for_the_user() {
    let mut limited = spec();
    limited.bounds.time_limit_ms = Some(1_000);
    let mut harness = TestSession::running(limited);
    harness.signal(TURN_STARTED).signal(INTERRUPTED).settle().advance_clock(1_000_000);
    assert_eq!((harness.state(), harness.sealed()), (State::Idle, false), "waiting costs no time");
    assert!(harness.has_flag(Flag::Interrupted) && harness.session.awaits_user());
    assert!(harness.session.attempt().result_requested.is_none());
    harness.apply(send("next", SendMode::Continue)).signal(TURN_STARTED);
    assert!(!harness.session.awaits_user());
    harness.signal(TURN_ENDED_OK);
    assert!(harness.session.attempt().result_requested.is_some(), "this turn is finished");
}

#[test]
fn late_interrupt_does_not_finish_the_turn() {
    let mut harness = TestSession::running(spec());
    harness.signal(TURN_STARTED);
    harness.apply(SessionCommand::Interrupt { key: "i".to_owned(), text: None });
    // A user at the screen interrupted first.
    harness.signal(INTERRUPTED);
    assert!(harness.session.awaits_user());
    assert!(harness.session.attempt().result_requested.is_none());
    let mut harness = TestSession::running(spec());
    harness.signal(TURN_STARTED);
    harness.apply(SessionCommand::Interrupt { key: "i".to_owned(), text: None });
    harness.signal(TURN_ENDED_OK);
    assert!(harness.session.attempt().result_requested.is_some(), "the turn ended first, and well");
}

#[test]
fn user_stop_ends_as_stopped_unless_claimed() {
    let stop = |mut harness: TestSession| {
        harness
            .apply(SessionCommand::Stop)
            .end_by(ProcessExit::Signal(15), StoppedBy::Provost)
            .settle();
        assert!(harness.sealed());
        (harness.state(), harness.session.judgement().rule)
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
    let mut harness = TestSession::new(command_spec());
    harness.apply(SessionCommand::WorkPrepared { cwd: "/work".to_owned(), base: None });
    assert!(harness.has_flag(Flag::Starting));
    harness.apply(SessionCommand::Stop);
    let launch = harness.launch();
    harness
        .apply(SessionCommand::LaunchFailed { launch, reason: "it was called off".to_owned() })
        .settle();
    assert_eq!((harness.state(), harness.cause()), (State::Stopped, None));
}

#[test]
fn stopped_work_stays_stopped_after_checks() {
    let mut harness = TestSession::running(checked_spec());
    harness.apply(SessionCommand::Stop).end_by(ProcessExit::Signal(15), StoppedBy::Provost);
    assert_eq!(harness.state(), State::Verifying);
    harness.verify("new", CheckEnd::Exit(1)).settle();
    assert_eq!((harness.state(), harness.cause()), (State::Stopped, None));
}

#[test]
fn answer_resumes_only_what_takes_an_answer() {
    for (interface, flagged) in
        [(AgentInterface::json_lines(), true), (AgentInterface::command(), false)]
    {
        let mut spec = spec();
        spec.agent.interface = interface;
        let mut harness = TestSession::running(spec);
        harness.claim(ClaimKind::NeedsInput).end(ProcessExit::Exit(0));
        assert_eq!(
            (harness.state(), harness.has_flag(Flag::AnswerResumes)),
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
    SessionSpec { work, exit_zero: ExitZeroPolicy::Completes, ..command_spec() }
}

#[test]
fn cancelled_session_is_sealed_after_its_worktree_is_made() {
    let cancel = || SessionCommand::Cancel { because: "enough".to_owned() };
    let make = SessionEffect::PrepareWork { attempt: 1 };
    let made = SessionCommand::WorkPrepared { cwd: "/tree".to_owned(), base: None };
    let failed = SessionCommand::WorkFailed { reason: "no such commit".to_owned() };
    for result in [made, failed] {
        let mut harness = TestSession::new(in_worktree());
        harness.apply(cancel()).settle().advance_clock(60_000);
        assert_eq!((harness.state(), harness.sealed()), (State::Cancelled, false));
        assert!(harness.has_effect(&make), "git may be writing");
        harness.apply(result).settle();
        assert_eq!((harness.state(), harness.sealed()), (State::Cancelled, true));
        assert!(harness.session.launches.is_empty());
    }

    let mut harness = TestSession::new(in_worktree());
    harness.apply(shortage_of(&harness, &make));
    harness.apply(cancel()).settle();
    assert!(harness.sealed(), "git does not run while its effect waits for a resource");
}

fn commits(harness: &TestSession) -> bool {
    harness.session.effects().iter().any(|one| matches!(one, SessionEffect::TakeSnapshot { .. }))
}

#[test]
fn unchecked_worktree_is_committed_before_seal() {
    for (end, state) in
        [(ProcessExit::Exit(0), State::Completed), (ProcessExit::Exit(1), State::Failed)]
    {
        let mut harness = TestSession::running(in_worktree());
        assert!(!commits(&harness), "it works");
        harness.exit(end, StoppedBy::Itself).settle();
        assert!(!harness.sealed() && !commits(&harness), "something of it may still write");
        let launch = harness.launch();
        harness.signal(StreamSignal::Closed);
        harness
            .apply(SessionCommand::ProcessTreeGone { launch, leftovers: 0, verified: true })
            .settle();
        assert_eq!((harness.state(), harness.sealed()), (state, false), "{end:?}");
        assert!(commits(&harness));
        harness.snapshot("new").settle();
        assert_eq!((harness.state(), harness.sealed(), commits(&harness)), (state, true, false));
        let sealed = harness.session.attempt().sealed.clone().unwrap();
        assert_eq!(sealed.tree, Some(TreeId("new".to_owned())));
        assert_eq!(harness.session.verification().as_str(), "none");
    }
}

#[test]
fn failed_commit_without_checks_refutes_nothing() {
    let mut harness = TestSession::running(in_worktree());
    harness.end(ProcessExit::Exit(0));
    let reason = "no room".to_owned();
    harness.apply(SessionCommand::SnapshotFailed { attempt: 1, no: 1, reason }).settle();
    assert_eq!((harness.state(), harness.sealed()), (State::Completed, true));
    assert!(!harness.has_flag(Flag::ChecksUnfinished));
}

#[test]
fn stopped_or_cancelled_work_is_not_committed() {
    for command in [SessionCommand::Stop, SessionCommand::Cancel { because: "no".to_owned() }] {
        let mut harness = TestSession::running(in_worktree());
        harness.apply(command).end_by(ProcessExit::Signal(15), StoppedBy::Provost).settle();
        assert!(harness.sealed() && !commits(&harness));
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
    let mut harness = TestSession::running(member());
    harness.apply(SessionCommand::MessageLost {
        key: "instruction-1".to_owned(),
        reason: "told".to_owned(),
    });
    harness.signal(TURN_STARTED).apply(dismiss(false));
    assert!(harness.session.launches[0].stop.is_none(), "it ends its turn first");
    harness.signal(TURN_ENDED_OK);
    assert_eq!(harness.session.launches[0].stop.unwrap().why, StopReason::TeamEnded);
    harness.end_by(ProcessExit::Signal(15), StoppedBy::Provost).settle();
    assert_eq!((harness.state(), harness.sealed()), (State::Stopped, true));

    let mut harness = TestSession::running(member());
    harness.signal(TURN_STARTED).apply(dismiss(true));
    assert_eq!(harness.session.launches[0].stop.unwrap().why, StopReason::Decided);
    harness.end_by(ProcessExit::Signal(15), StoppedBy::Provost).settle();
    assert_eq!((harness.state(), harness.sealed()), (State::Cancelled, true));
}

#[test]
fn dismissed_member_no_longer_asks_for_an_answer() {
    for (at_once, process_exits_first) in
        [(true, false), (true, true), (false, false), (false, true)]
    {
        let mut harness = TestSession::running(member());
        harness.signal(TURN_STARTED);
        harness.signal(StreamSignal::RequestOpened(question("q")));
        let request = harness.session.requests[0].id;
        let reply = RequestReply::Text("English".to_owned());
        let answer = SessionCommand::Answer { request, revision: 1, reply };
        let why = || SessionRejection::RequestSettled(request, "its team is done".to_owned());
        if process_exits_first {
            harness.end(ProcessExit::Exit(0)).settle();
            assert_eq!((harness.state(), harness.sealed()), (State::NeedsInput, false));
            harness.apply(dismiss(at_once));
        } else {
            harness.apply(dismiss(at_once));
            assert_eq!(harness.try_apply(answer.clone()), Err(why()));
            harness.end_by(ProcessExit::Signal(15), StoppedBy::Provost);
        }
        harness.settle();
        assert_eq!((harness.state(), harness.sealed()), (State::Cancelled, true), "{at_once}");
        assert_eq!(harness.session.attempt().cancelled.as_deref(), Some("its team is done"));
        assert_eq!(harness.session.open_requests().count(), 0);
        assert_eq!(harness.try_apply(answer), Err(why()));
    }
}

#[test]
fn member_that_asks_after_its_dismissal_is_cancelled() {
    let mut harness = TestSession::running(member());
    harness.signal(TURN_STARTED).apply(dismiss(false));
    harness.signal(StreamSignal::RequestOpened(question("q")));
    assert_eq!(harness.session.launches[0].stop.unwrap().why, StopReason::Decided);
    harness.end_by(ProcessExit::Signal(15), StoppedBy::Provost).settle();
    assert_eq!((harness.state(), harness.sealed()), (State::Cancelled, true));
}

#[test]
fn claim_of_dismissed_member_still_counts() {
    let mut harness = TestSession::running(member());
    harness.signal(TURN_STARTED).claim(ClaimKind::Completed).apply(dismiss(true));
    harness.end_by(ProcessExit::Signal(15), StoppedBy::Provost).settle();
    assert_eq!((harness.state(), harness.sealed()), (State::Completed, true));
}

#[test]
fn only_team_sessions_can_be_dismissed() {
    let mut harness = TestSession::running(spec());
    assert_eq!(harness.try_apply(dismiss(true)), Err(SessionRejection::StopExternally));
    let mut harness = TestSession::new(member());
    harness.apply(dismiss(false)).settle();
    assert_eq!(harness.state(), State::Cancelled, "it is not started any more");
    let mut harness = TestSession::running(member());
    harness.signal(TURN_STARTED).apply(dismiss(false));
    assert_eq!(harness.try_apply(dismiss(false)), Err(SessionRejection::NothingNew));
}
