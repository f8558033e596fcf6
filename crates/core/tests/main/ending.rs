//! Stopping processes, sealing outcomes, and changes caused by time alone.

use provost_core::{
    lifecycle::{Cause, ClaimKind, Flag, State},
    request::RequestStatus,
    session::{
        AgentInterface, AgentMessageKind, ClaimSource, DeadlineKind, ExitZeroPolicy, HookEnd,
        ManualOutcome, OnFinish, ProcessExit, SessionCommand, SessionEffect, SessionRejection,
        SessionSpec, StopReason, StopStep, StoppedBy, StreamSignal, TurnEnd,
    },
    verdict::CheckEnd,
};

use crate::kit::{
    TURN_ENDED_OK, TestSession, checked_spec, command_spec, question, snapshot, spec,
};

fn cancel() -> SessionCommand {
    SessionCommand::Cancel { because: "no".to_owned() }
}

fn resolve(to: ManualOutcome) -> SessionCommand {
    SessionCommand::Resolve { to, because: "seen".to_owned() }
}

fn start_named_turn() -> StreamSignal {
    StreamSignal::TurnStarted { turn: Some("u".to_owned()) }
}

fn time_to_deadline(harness: &TestSession) -> Option<(u64, DeadlineKind)> {
    harness.session.deadline().map(|(at, due)| (at - harness.now.mono_ms, due))
}

#[test]
fn stop_interrupts_agents_and_terminates_commands() {
    for (spec, first) in [(spec(), StopStep::Interrupt), (command_spec(), StopStep::Terminate)] {
        let mut harness = TestSession::running(spec);
        harness.apply(SessionCommand::Stop);
        assert_eq!(harness.stop_step(), Some(first));
        assert!(harness.has_effect(&SessionEffect::StopLaunch(harness.launch(), first)));
        assert_eq!(harness.session.launches[0].stop.unwrap().why, StopReason::Operator);
    }
}

#[test]
fn stop_after_turn_end_starts_with_terminate() {
    let mut harness = TestSession::running(spec());
    harness.claim(ClaimKind::NeedsInput).signal(TURN_ENDED_OK).apply(SessionCommand::Stop);
    assert_eq!(harness.stop_step(), Some(StopStep::Terminate));
    harness.advance_clock(9_999);
    assert_eq!(harness.stop_step(), Some(StopStep::Terminate), "the next step has its grace");
    harness.advance_clock(1);
    assert_eq!(harness.stop_step(), Some(StopStep::Kill));
}

#[test]
fn stop_applies_once_and_only_to_live_process() {
    let mut harness = TestSession::running(spec());
    harness.apply(SessionCommand::Stop);
    assert_eq!(harness.try_apply(SessionCommand::Stop), Err(SessionRejection::NothingNew));
    harness.end(ProcessExit::Exit(0));
    assert_eq!(harness.try_apply(SessionCommand::Stop), Err(SessionRejection::NotRunning));
    assert!(!harness.session.effects().iter().any(|e| matches!(e, SessionEffect::StopLaunch(..))));
}

#[test]
fn abandoned_stop_leaves_agent_working() {
    let mut harness = TestSession::running(spec());
    harness
        .apply(SessionCommand::Stop)
        .advance_clock(10_000)
        .advance_clock(10_000)
        .advance_clock(10_000)
        .advance_clock(1_000_000);
    assert_eq!(harness.stop_step(), Some(StopStep::GivenUp));
    assert!(!harness.session.effects().iter().any(|e| matches!(e, SessionEffect::StopLaunch(..))));
    assert_eq!(harness.state(), State::Working);
    assert!(harness.session.attempt().stopped.is_none());
}

#[test]
fn idle_agent_fails_after_stop_is_given_up() {
    let mut harness = TestSession::running(spec());
    harness.signal(TURN_ENDED_OK).signal(TURN_ENDED_OK);
    for step in [StopStep::Terminate, StopStep::Kill] {
        assert_eq!((harness.stop_step(), harness.state()), (Some(step), State::Idle));
        harness.advance_clock(10_000);
    }
    assert_eq!((harness.stop_step(), harness.state()), (Some(StopStep::GivenUp), State::Failed));
    assert_eq!(harness.cause(), Some(Cause::Launch));
}

#[test]
fn cancelled_attempt_seals_on_process_exit() {
    let mut harness = TestSession::running(spec());
    harness.apply(cancel()).advance_clock(9_000);
    assert!(!harness.sealed());
    harness.end_by(ProcessExit::Exit(0), StoppedBy::Provost).advance_clock(50);
    assert!(harness.sealed());
}

#[test]
fn resolved_attempt_seals_and_stops_process() {
    for afterwards in [OnFinish::Close, OnFinish::Park] {
        let mut harness = TestSession::running(SessionSpec { on_finish: afterwards, ..spec() });
        harness.apply(resolve(ManualOutcome::Accepted));
        assert!(harness.sealed());
        assert_eq!(harness.state(), State::Accepted);
        assert_eq!(harness.stop_step(), Some(StopStep::Interrupt));
    }
}

#[test]
fn resolve_sets_accepted_failed_or_cancelled() {
    let states = [
        (ManualOutcome::Accepted, State::Accepted),
        (ManualOutcome::Failed, State::Failed),
        (ManualOutcome::Cancelled, State::Cancelled),
    ];
    for (to, state) in states {
        let mut harness = TestSession::running(command_spec());
        harness.end(ProcessExit::Exit(0)).apply(resolve(to));
        assert_eq!((harness.state(), harness.session.state()), (state, state));
        assert!(harness.sealed());
    }
}

#[test]
fn sealed_attempt_cannot_be_cancelled() {
    let mut harness = TestSession::running(command_spec());
    harness.claim(ClaimKind::Completed).end(ProcessExit::Exit(0)).settle();
    let refused = SessionRejection::NothingToCancel { name: "test".to_owned(), state: "completed" };
    assert_eq!(refused.to_string(), "nothing to cancel: test has completed");
    assert_eq!(harness.try_apply(cancel()), Err(refused));
}

#[test]
fn cancelled_attempt_can_be_cancelled_again() {
    let mut harness = TestSession::running(command_spec());
    harness.apply(cancel()).end(ProcessExit::Exit(0)).settle();
    assert!(harness.sealed());
    let before = harness.session.clone();
    assert_eq!(harness.try_apply(cancel()), Ok(()));
    assert_eq!(harness.session, before);
}

#[test]
fn finished_process_is_closed_or_parked() {
    for (afterwards, stopped) in [(OnFinish::Close, true), (OnFinish::Park, false)] {
        let mut harness = TestSession::running(SessionSpec { on_finish: afterwards, ..spec() });
        harness.claim(ClaimKind::Completed).signal(TURN_ENDED_OK).advance_clock(50);
        assert!(harness.sealed());
        let why = harness.session.launches[0].stop.map(|stop| stop.why);
        assert_eq!(why, stopped.then_some(StopReason::Finished));
    }
}

#[test]
fn process_ended_after_seal_is_not_stopped() {
    let mut harness = TestSession::running(SessionSpec { on_finish: OnFinish::Park, ..spec() });
    harness
        .claim(ClaimKind::Completed)
        .signal(TURN_ENDED_OK)
        .advance_clock(50)
        .end(ProcessExit::Exit(0));
    harness.apply(resolve(ManualOutcome::Accepted));
    assert_eq!(harness.stop_step(), None);

    let mut harness = TestSession::running(spec());
    harness.end(ProcessExit::Exit(0)).apply(cancel());
    assert_eq!(harness.stop_step(), None, "it had ended before it was cancelled");
}

#[test]
fn resolve_stops_parked_process() {
    let mut harness = TestSession::running(SessionSpec { on_finish: OnFinish::Park, ..spec() });
    harness.claim(ClaimKind::Completed).signal(TURN_ENDED_OK).advance_clock(50);
    harness.apply(resolve(ManualOutcome::Failed));
    assert_eq!(harness.session.launches[0].stop.unwrap().why, StopReason::Finished);
}

#[test]
fn exit_with_open_stream_waits_for_drain() {
    for (settle_ms, drain_ms, window) in [(50, 2_000, 2_000), (3_000, 2_000, 3_000)] {
        let mut spec = command_spec();
        (spec.bounds.settle_ms, spec.bounds.drain_ms) = (settle_ms, drain_ms);
        let mut harness = TestSession::running(spec);
        harness.exit(ProcessExit::Exit(0), StoppedBy::Itself);
        assert!(harness.has_flag(Flag::SettleFirst));
        assert_eq!(time_to_deadline(&harness), Some((window, DeadlineKind::Seal)));
        harness.advance_clock(window - 1);
        assert!(!harness.sealed());
        harness.advance_clock(1);
        assert!(harness.sealed());
    }
}

#[test]
fn leftover_process_is_ended_before_seal() {
    let mut harness = TestSession::running(command_spec());
    harness.signal(StreamSignal::Closed);
    assert_eq!(time_to_deadline(&harness), Some((10_000, DeadlineKind::StreamSettle)));
    harness.advance_clock(9_999);
    assert_eq!(harness.stop_step(), None);
    harness.advance_clock(1);
    assert_eq!(harness.state(), State::ExitedWithoutClaim);
    assert!(harness.has_flag(Flag::ProcessStillRunning));
    assert_eq!(time_to_deadline(&harness), Some((10_000, DeadlineKind::Escalation)));
    harness.advance_clock(9_000);
    assert!(!harness.sealed(), "its process is alive");
    harness.settle();
    assert!(harness.sealed(), "it could not be ended");
}

#[test]
fn next_deadline_follows_what_is_awaited() {
    let mut harness = TestSession::new(SessionSpec { on_finish: OnFinish::Park, ..spec() });
    assert_eq!(time_to_deadline(&harness), None);
    harness.apply(SessionCommand::WorkPrepared {
        cwd: "/work".to_owned(),
        base: Some(snapshot("old")),
    });
    assert_eq!(time_to_deadline(&harness), None, "a pending launch cannot be silent");
    harness.advance_clock(5_000).start();
    let silence = Some((300_000, DeadlineKind::Silence(harness.launch())));
    assert_eq!(time_to_deadline(&harness), silence, "the window begins with the start");
    harness.advance_clock(5_000).signal(StreamSignal::TurnStarted { turn: None });
    assert_eq!(time_to_deadline(&harness), silence, "and anew with whatever is heard");
    harness.signal(StreamSignal::RequestOpened(question("q")));
    assert_eq!(time_to_deadline(&harness), None, "it waits for the user");
    harness.signal(StreamSignal::RequestWithdrawn { native: "q".to_owned() });
    assert_eq!(time_to_deadline(&harness), silence);
    harness.claim(ClaimKind::NeedsInput).signal(TURN_ENDED_OK);
    assert_eq!(time_to_deadline(&harness), None, "its turn is over");
    harness.claim(ClaimKind::Completed);
    assert_eq!(time_to_deadline(&harness), Some((50, DeadlineKind::Seal)));
    harness.advance_clock(50);
    assert_eq!(time_to_deadline(&harness), None, "nothing is waited for of a parked agent");
    harness.apply(SessionCommand::Stop);
    assert_eq!(
        time_to_deadline(&harness),
        Some((10_000, DeadlineKind::Escalation)),
        "a stop continues after the seal"
    );
}

#[test]
fn ended_agent_needing_input_has_no_deadline() {
    let mut harness = TestSession::running(spec());
    harness.claim(ClaimKind::NeedsInput).end(ProcessExit::Exit(0));
    assert_eq!((harness.state(), time_to_deadline(&harness)), (State::NeedsInput, None));
}

#[test]
fn silence_of_ended_process_is_ignored() {
    let mut harness = TestSession::running(command_spec());
    let (launch, heard_ms) = (harness.launch(), harness.now.mono_ms);
    harness.exit(ProcessExit::Exit(0), StoppedBy::Itself);
    let silence = SessionCommand::Silence { launch, heard_ms };
    harness.now.mono_ms += 300_000;
    assert_eq!(harness.decide(&silence), Err(SessionRejection::NothingNew));
}

#[test]
fn silence_is_reported_once_after_its_window() {
    let mut harness = TestSession::running(command_spec());
    let (launch, heard_ms) = (harness.launch(), harness.now.mono_ms);
    let silence = SessionCommand::Silence { launch, heard_ms };
    harness.advance_clock(299_999);
    assert_eq!(harness.try_apply(silence.clone()), Err(SessionRejection::NothingNew));
    harness.advance_clock(1).apply(silence.clone());
    assert_eq!(harness.state(), State::Stalled);
    assert_eq!(harness.try_apply(silence), Err(SessionRejection::NothingNew));
}

#[test]
fn time_limit_runs_from_start_until_decision() {
    let mut limited = spec();
    limited.bounds.time_limit_ms = Some(1_000);
    let mut harness = TestSession::new(limited.clone());
    harness
        .apply(SessionCommand::WorkPrepared { cwd: "/work".to_owned(), base: None })
        .advance_clock(5_000);
    assert_eq!((harness.state(), time_to_deadline(&harness)), (State::Working, None));
    harness.start();
    assert_eq!(time_to_deadline(&harness), Some((1_000, DeadlineKind::TimeLimit)));
    harness.advance_clock(1_000);
    assert_eq!((harness.state(), harness.cause()), (State::Failed, Some(Cause::Timeout)));
    assert_eq!(
        harness.session.attempt().stopped.as_ref().unwrap().1,
        "the time limit of 1000 ms was reached"
    );

    let mut harness = TestSession::running(limited);
    harness.apply(cancel()).advance_clock(5_000);
    assert_eq!(harness.state(), State::Cancelled);
    assert!(harness.session.attempt().stopped.is_none());
}

#[test]
fn time_limit_stops_once_work_is_done() {
    let mut limited = checked_spec();
    limited.bounds.time_limit_ms = Some(1_000);
    limited.checks.clear();
    limited.bounds.settle_ms = 5_000;
    let mut harness = TestSession::running(limited);
    harness.claim(ClaimKind::Completed).signal(TURN_ENDED_OK).advance_clock(4_999);
    assert_eq!((harness.state(), harness.sealed()), (State::Completed, false));
}

#[test]
fn exit_0_completes_only_unclaimed_self_exit() {
    let lenient = SessionSpec { exit_zero: ExitZeroPolicy::Completes, ..command_spec() };
    let mut working = TestSession::running(lenient.clone());
    working.claim(ClaimKind::Working).end(ProcessExit::Exit(0));
    let claim = working.session.attempt().claim.clone().unwrap();
    assert_eq!((claim.kind, claim.source), (ClaimKind::Completed, ClaimSource::Policy));

    let mut failed = TestSession::running(lenient.clone());
    failed.claim(ClaimKind::Failed).end(ProcessExit::Exit(0));
    assert_eq!((failed.state(), failed.cause()), (State::Failed, Some(Cause::SelfReported)));

    let mut stopped = TestSession::running(lenient.clone());
    stopped.apply(SessionCommand::Stop).end_by(ProcessExit::Exit(0), StoppedBy::Provost);
    assert_eq!(stopped.state(), State::Stopped);

    let mut cancelled = TestSession::running(lenient);
    cancelled.apply(cancel()).end(ProcessExit::Exit(0));
    assert!(cancelled.session.attempt().claim.is_none());
}

#[test]
fn exit_0_is_done_if_configured_or_only_checks() {
    let exit_zero_is_done = |exit_zero, interface, checks: &[&str]| {
        let mut spec = SessionSpec { exit_zero, ..spec() };
        spec.agent.interface = interface;
        spec.checks = checks.iter().map(|check| (*check).to_owned()).collect();
        spec.exit_zero_is_done()
    };
    assert!(exit_zero_is_done(ExitZeroPolicy::Completes, AgentInterface::json_lines(), &[]));
    assert!(exit_zero_is_done(ExitZeroPolicy::Completes, AgentInterface::command(), &["check"]));
    assert!(exit_zero_is_done(ExitZeroPolicy::NotAClaim, AgentInterface::command(), &["check"]));
    assert!(!exit_zero_is_done(ExitZeroPolicy::NotAClaim, AgentInterface::command(), &[]));
    assert!(
        !exit_zero_is_done(ExitZeroPolicy::NotAClaim, AgentInterface::json_lines(), &["check"]),
        "it has a way to say so"
    );
}

#[test]
fn unobservable_agent_is_not_asked_for_result() {
    let mut harness = TestSession::running(spec());
    let launch = harness.launch();
    harness
        .apply(SessionCommand::ProcessUnknown { launch, why: "why".to_owned() })
        .signal(TURN_ENDED_OK);
    assert_eq!(harness.state(), State::Idle);
    assert!(harness.session.attempt().result_requested.is_none());
    harness.apply(SessionCommand::ProcessSeen { launch });
    assert!(harness.session.attempt().result_requested.is_some());
    assert_eq!(harness.stop_step(), None, "it has time to report");
    let message = harness.session.input.messages.last().unwrap();
    assert_eq!(
        (message.kind, message.key.as_str()),
        (AgentMessageKind::ResultWanted, "result-1-0")
    );
}

#[test]
fn attended_agent_is_not_queried_or_closed() {
    let mut harness = TestSession::running(spec());
    let launch = harness.launch();
    let people = |people| SessionCommand::ViewersChanged { launch, people };
    harness.apply(people(1)).signal(TURN_ENDED_OK);
    assert_eq!(harness.state(), State::Idle);
    assert!(harness.session.attempt().result_requested.is_none());
    assert_eq!(harness.try_apply(people(1)), Err(SessionRejection::NothingNew));
    harness.apply(people(0));
    assert!(harness.session.attempt().result_requested.is_some());

    harness.apply(people(2)).claim(ClaimKind::Completed).signal(TURN_ENDED_OK).settle();
    assert!(harness.session.attempt().is_sealed());
    assert_eq!(harness.stop_step(), None, "its process keeps running for the viewers");
    harness.apply(people(0));
    assert_eq!(harness.session.launches[0].stop.unwrap().why, StopReason::Finished);
}

#[test]
fn withdrawal_while_attended_is_answered_elsewhere() {
    for (people, fate) in [(0, RequestStatus::Withdrawn), (1, RequestStatus::AnsweredElsewhere)] {
        let mut harness = TestSession::running(spec());
        let launch = harness.launch();
        harness
            .signal(StreamSignal::RequestOpened(question("q")))
            .try_apply(SessionCommand::ViewersChanged { launch, people })
            .ok();
        harness.signal(StreamSignal::RequestWithdrawn { native: "q".to_owned() });
        assert_eq!(harness.session.requests[0].status, fate);
    }
}

#[test]
fn attended_agent_can_be_stopped() {
    let mut harness = TestSession::running(spec());
    harness
        .apply(SessionCommand::ViewersChanged { launch: harness.launch(), people: 1 })
        .apply(cancel());
    assert!(harness.stop_step().is_some());
}

#[test]
fn rework_repeats_the_result_query() {
    let mut harness = TestSession::running(checked_spec());
    harness.signal(TURN_ENDED_OK).claim(ClaimKind::Completed).signal(TURN_ENDED_OK);
    harness.verify("new", CheckEnd::Exit(1)).signal(TURN_ENDED_OK);
    assert_eq!((harness.state(), harness.stop_step()), (State::Working, None));
    assert_eq!(harness.session.input.messages.last().unwrap().key, "result-1-1");
}

#[test]
fn agent_ignoring_result_query_is_closed() {
    let mut deaf = TestSession::running(spec());
    deaf.signal(TURN_ENDED_OK).report_silence();
    assert_eq!(deaf.session.launches[0].stop.unwrap().why, StopReason::Unclaimed);

    let mut busy = TestSession::running(spec());
    busy.signal(TURN_ENDED_OK).signal(start_named_turn()).report_silence();
    assert_eq!((busy.state(), busy.stop_step()), (State::Stalled, None));

    let mut never_asked = TestSession::running(spec());
    never_asked.report_silence();
    assert_eq!((never_asked.state(), never_asked.stop_step()), (State::Stalled, None));
}

#[test]
fn turn_error_and_reported_failure_are_distinct() {
    let mut reported = TestSession::running(spec());
    reported.claim(ClaimKind::Failed).signal(TURN_ENDED_OK);
    assert_eq!((reported.state(), reported.cause()), (State::Failed, Some(Cause::SelfReported)));

    let mut erred = TestSession::running(spec());
    let end = TurnEnd::Error("quota".to_owned());
    erred.signal(StreamSignal::TurnEnded { turn: None, end, usage: None, says: None });
    let claim = erred.session.attempt().claim.clone().unwrap();
    assert_eq!((claim.source, claim.text.as_deref()), (ClaimSource::TurnError, Some("quota")));
    assert_eq!(erred.cause(), Some(Cause::AgentError));
}

#[test]
fn session_closes_when_nothing_is_pending() {
    let mut harness = TestSession::running(SessionSpec { on_finish: OnFinish::Park, ..spec() });
    finish_hooks(&mut harness);
    harness.claim(ClaimKind::Completed).signal(TURN_ENDED_OK);
    assert!(!harness.session.is_closed(), "it is not sealed");
    harness.advance_clock(50);
    assert!(
        harness.sealed() && !harness.session.is_closed(),
        "a hook is pending and the process is alive"
    );
    finish_hooks(&mut harness);
    assert!(!harness.session.is_closed(), "its process is alive");
    let launch = harness.launch();
    harness.exit(ProcessExit::Exit(0), StoppedBy::Itself).signal(StreamSignal::Closed);
    assert!(!harness.session.is_closed(), "its process tree may be alive");
    harness.apply(SessionCommand::ProcessTreeGone { launch, leftovers: 0, verified: true });
    assert!(harness.session.is_closed());
}

#[test]
fn session_waiting_for_user_is_not_closed() {
    let mut harness = TestSession::running(spec());
    harness.signal(StreamSignal::InputWritten { key: "instruction-1".to_owned() });
    harness.claim(ClaimKind::NeedsInput).end(ProcessExit::Exit(0));
    finish_hooks(&mut harness);
    assert!(harness.session.effects().is_empty() && !harness.session.is_closed());
}

fn finish_hooks(harness: &mut TestSession) {
    for hook in harness.session.hook_log.pending.clone() {
        harness.apply(SessionCommand::HookFinished { key: hook.key, end: HookEnd::Exit(0) });
    }
}
