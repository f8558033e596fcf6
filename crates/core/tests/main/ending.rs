//! Stopping processes, sealing outcomes, and changes caused by time alone.

use provost_core::{
    lifecycle::{Cause, ClaimKind, Flag, State},
    request::RequestStatus,
    session::{
        AgentMessageKind, ClaimSource, DeadlineKind, Driver, ExitZeroPolicy, HookEnd,
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

fn time_to_deadline(bench: &TestSession) -> Option<(u64, DeadlineKind)> {
    bench.session.deadline().map(|(at, due)| (at - bench.now.mono_ms, due))
}

#[test]
fn stop_interrupts_agents_and_terminates_commands() {
    for (spec, first) in [(spec(), StopStep::Interrupt), (command_spec(), StopStep::Terminate)] {
        let mut bench = TestSession::running(spec);
        bench.apply(SessionCommand::Stop);
        assert_eq!(bench.stop_step(), Some(first));
        assert!(bench.has_effect(&SessionEffect::StopLaunch(bench.launch(), first)));
        assert_eq!(bench.session.launches[0].stop.unwrap().why, StopReason::Operator);
    }
}

#[test]
fn stop_after_turn_end_starts_with_terminate() {
    let mut bench = TestSession::running(spec());
    bench.claim(ClaimKind::NeedsInput).signal(TURN_ENDED_OK).apply(SessionCommand::Stop);
    assert_eq!(bench.stop_step(), Some(StopStep::Terminate));
    bench.advance_clock(9_999);
    assert_eq!(bench.stop_step(), Some(StopStep::Terminate), "the next step has its grace");
    bench.advance_clock(1);
    assert_eq!(bench.stop_step(), Some(StopStep::Kill));
}

#[test]
fn stop_applies_once_and_only_to_live_process() {
    let mut bench = TestSession::running(spec());
    bench.apply(SessionCommand::Stop);
    assert_eq!(bench.try_apply(SessionCommand::Stop), Err(SessionRejection::NothingNew));
    bench.end(ProcessExit::Exit(0));
    assert_eq!(bench.try_apply(SessionCommand::Stop), Err(SessionRejection::NotRunning));
    assert!(!bench.session.effects().iter().any(|e| matches!(e, SessionEffect::StopLaunch(..))));
}

#[test]
fn abandoned_stop_leaves_agent_working() {
    let mut bench = TestSession::running(spec());
    bench
        .apply(SessionCommand::Stop)
        .advance_clock(10_000)
        .advance_clock(10_000)
        .advance_clock(10_000)
        .advance_clock(1_000_000);
    assert_eq!(bench.stop_step(), Some(StopStep::GivenUp));
    assert!(!bench.session.effects().iter().any(|e| matches!(e, SessionEffect::StopLaunch(..))));
    assert_eq!(bench.state(), State::Working);
    assert!(bench.session.attempt().stopped.is_none());
}

#[test]
fn idle_agent_fails_after_stop_is_given_up() {
    let mut bench = TestSession::running(spec());
    bench.signal(TURN_ENDED_OK).signal(TURN_ENDED_OK);
    for step in [StopStep::Terminate, StopStep::Kill] {
        assert_eq!((bench.stop_step(), bench.state()), (Some(step), State::Idle));
        bench.advance_clock(10_000);
    }
    assert_eq!((bench.stop_step(), bench.state()), (Some(StopStep::GivenUp), State::Failed));
    assert_eq!(bench.cause(), Some(Cause::Launch));
}

#[test]
fn cancelled_attempt_seals_on_process_exit() {
    let mut bench = TestSession::running(spec());
    bench.apply(cancel()).advance_clock(9_000);
    assert!(!bench.sealed());
    bench.end_by(ProcessExit::Exit(0), StoppedBy::Provost).advance_clock(50);
    assert!(bench.sealed());
}

#[test]
fn resolved_attempt_seals_and_stops_process() {
    for afterwards in [OnFinish::Close, OnFinish::Park] {
        let mut bench = TestSession::running(SessionSpec { on_finish: afterwards, ..spec() });
        bench.apply(resolve(ManualOutcome::Accepted));
        assert!(bench.sealed());
        assert_eq!(bench.state(), State::Accepted);
        assert_eq!(bench.stop_step(), Some(StopStep::Interrupt));
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
        let mut bench = TestSession::running(command_spec());
        bench.end(ProcessExit::Exit(0)).apply(resolve(to));
        assert_eq!((bench.state(), bench.session.state()), (state, state));
        assert!(bench.sealed());
    }
}

#[test]
fn sealed_attempt_cannot_be_cancelled() {
    let mut bench = TestSession::running(command_spec());
    bench.claim(ClaimKind::Completed).end(ProcessExit::Exit(0)).settle();
    let refused = SessionRejection::NothingToCancel { name: "test".to_owned(), state: "completed" };
    assert_eq!(refused.to_string(), "nothing to cancel: test has completed");
    assert_eq!(bench.try_apply(cancel()), Err(refused));
}

#[test]
fn cancelled_attempt_can_be_cancelled_again() {
    let mut bench = TestSession::running(command_spec());
    bench.apply(cancel()).end(ProcessExit::Exit(0)).settle();
    assert!(bench.sealed());
    let before = bench.session.clone();
    assert_eq!(bench.try_apply(cancel()), Ok(()));
    assert_eq!(bench.session, before);
}

#[test]
fn finished_process_is_closed_or_parked() {
    for (afterwards, stopped) in [(OnFinish::Close, true), (OnFinish::Park, false)] {
        let mut bench = TestSession::running(SessionSpec { on_finish: afterwards, ..spec() });
        bench.claim(ClaimKind::Completed).signal(TURN_ENDED_OK).advance_clock(50);
        assert!(bench.sealed());
        let why = bench.session.launches[0].stop.map(|stop| stop.why);
        assert_eq!(why, stopped.then_some(StopReason::Finished));
    }
}

#[test]
fn process_ended_after_seal_is_not_stopped() {
    let mut bench = TestSession::running(SessionSpec { on_finish: OnFinish::Park, ..spec() });
    bench
        .claim(ClaimKind::Completed)
        .signal(TURN_ENDED_OK)
        .advance_clock(50)
        .end(ProcessExit::Exit(0));
    bench.apply(resolve(ManualOutcome::Accepted));
    assert_eq!(bench.stop_step(), None);

    let mut bench = TestSession::running(spec());
    bench.end(ProcessExit::Exit(0)).apply(cancel());
    assert_eq!(bench.stop_step(), None, "it had ended before it was cancelled");
}

#[test]
fn resolve_stops_parked_process() {
    let mut bench = TestSession::running(SessionSpec { on_finish: OnFinish::Park, ..spec() });
    bench.claim(ClaimKind::Completed).signal(TURN_ENDED_OK).advance_clock(50);
    bench.apply(resolve(ManualOutcome::Failed));
    assert_eq!(bench.session.launches[0].stop.unwrap().why, StopReason::Finished);
}

#[test]
fn exit_with_open_stream_waits_for_drain() {
    for (settle_ms, drain_ms, window) in [(50, 2_000, 2_000), (3_000, 2_000, 3_000)] {
        let mut spec = command_spec();
        (spec.bounds.settle_ms, spec.bounds.drain_ms) = (settle_ms, drain_ms);
        let mut bench = TestSession::running(spec);
        bench.exit(ProcessExit::Exit(0), StoppedBy::Itself);
        assert!(bench.has_flag(Flag::SettleFirst));
        assert_eq!(time_to_deadline(&bench), Some((window, DeadlineKind::Seal)));
        bench.advance_clock(window - 1);
        assert!(!bench.sealed());
        bench.advance_clock(1);
        assert!(bench.sealed());
    }
}

#[test]
fn leftover_process_is_ended_before_seal() {
    let mut bench = TestSession::running(command_spec());
    bench.signal(StreamSignal::Closed);
    assert_eq!(time_to_deadline(&bench), Some((10_000, DeadlineKind::StreamSettle)));
    bench.advance_clock(9_999);
    assert_eq!(bench.stop_step(), None);
    bench.advance_clock(1);
    assert_eq!(bench.state(), State::ExitedWithoutClaim);
    assert!(bench.has_flag(Flag::ReapLeftoverPid));
    assert_eq!(time_to_deadline(&bench), Some((10_000, DeadlineKind::Escalation)));
    bench.advance_clock(9_000);
    assert!(!bench.sealed(), "its process is alive");
    bench.settle();
    assert!(bench.sealed(), "it could not be ended");
}

#[test]
fn next_deadline_follows_what_is_awaited() {
    let mut bench = TestSession::new(SessionSpec { on_finish: OnFinish::Park, ..spec() });
    assert_eq!(time_to_deadline(&bench), None);
    bench.apply(SessionCommand::WorkPrepared {
        cwd: "/work".to_owned(),
        base: Some(snapshot("old")),
    });
    assert_eq!(time_to_deadline(&bench), None, "a pending launch cannot be silent");
    bench.advance_clock(5_000).start();
    let silence = Some((300_000, DeadlineKind::Silence(bench.launch())));
    assert_eq!(time_to_deadline(&bench), silence, "the window begins with the start");
    bench.advance_clock(5_000).signal(StreamSignal::TurnStarted { turn: None });
    assert_eq!(time_to_deadline(&bench), silence, "and anew with whatever is heard");
    bench.signal(StreamSignal::RequestOpened(question("q")));
    assert_eq!(time_to_deadline(&bench), None, "it waits for the user");
    bench.signal(StreamSignal::RequestWithdrawn { native: "q".to_owned() });
    assert_eq!(time_to_deadline(&bench), silence);
    bench.claim(ClaimKind::NeedsInput).signal(TURN_ENDED_OK);
    assert_eq!(time_to_deadline(&bench), None, "its turn is over");
    bench.claim(ClaimKind::Completed);
    assert_eq!(time_to_deadline(&bench), Some((50, DeadlineKind::Seal)));
    bench.advance_clock(50);
    assert_eq!(time_to_deadline(&bench), None, "nothing is waited for of a parked agent");
    bench.apply(SessionCommand::Stop);
    assert_eq!(
        time_to_deadline(&bench),
        Some((10_000, DeadlineKind::Escalation)),
        "a stop continues after the seal"
    );
}

#[test]
fn ended_agent_needing_input_has_no_deadline() {
    let mut bench = TestSession::running(spec());
    bench.claim(ClaimKind::NeedsInput).end(ProcessExit::Exit(0));
    assert_eq!((bench.state(), time_to_deadline(&bench)), (State::NeedsInput, None));
}

#[test]
fn silence_of_ended_process_is_ignored() {
    let mut bench = TestSession::running(command_spec());
    let (launch, heard_ms) = (bench.launch(), bench.now.mono_ms);
    bench.exit(ProcessExit::Exit(0), StoppedBy::Itself);
    let silence = SessionCommand::Silence { launch, heard_ms };
    bench.now.mono_ms += 300_000;
    assert_eq!(bench.decide(&silence), Err(SessionRejection::NothingNew));
}

#[test]
fn silence_is_reported_once_after_its_window() {
    let mut bench = TestSession::running(command_spec());
    let (launch, heard_ms) = (bench.launch(), bench.now.mono_ms);
    let silence = SessionCommand::Silence { launch, heard_ms };
    bench.advance_clock(299_999);
    assert_eq!(bench.try_apply(silence.clone()), Err(SessionRejection::NothingNew));
    bench.advance_clock(1).apply(silence.clone());
    assert_eq!(bench.state(), State::Stalled);
    assert_eq!(bench.try_apply(silence), Err(SessionRejection::NothingNew));
}

#[test]
fn time_limit_runs_from_start_until_decision() {
    let mut limited = spec();
    limited.bounds.time_limit_ms = Some(1_000);
    let mut bench = TestSession::new(limited.clone());
    bench
        .apply(SessionCommand::WorkPrepared { cwd: "/work".to_owned(), base: None })
        .advance_clock(5_000);
    assert_eq!((bench.state(), time_to_deadline(&bench)), (State::Working, None));
    bench.start();
    assert_eq!(time_to_deadline(&bench), Some((1_000, DeadlineKind::TimeLimit)));
    bench.advance_clock(1_000);
    assert_eq!((bench.state(), bench.cause()), (State::Failed, Some(Cause::Timeout)));
    assert_eq!(
        bench.session.attempt().stopped.as_ref().unwrap().1,
        "the time limit of 1000 ms was reached"
    );

    let mut bench = TestSession::running(limited);
    bench.apply(cancel()).advance_clock(5_000);
    assert_eq!(bench.state(), State::Cancelled);
    assert!(bench.session.attempt().stopped.is_none());
}

#[test]
fn time_limit_stops_once_work_is_done() {
    let mut limited = checked_spec();
    limited.bounds.time_limit_ms = Some(1_000);
    limited.checks.clear();
    limited.bounds.settle_ms = 5_000;
    let mut bench = TestSession::running(limited);
    bench.claim(ClaimKind::Completed).signal(TURN_ENDED_OK).advance_clock(4_999);
    assert_eq!((bench.state(), bench.sealed()), (State::Completed, false));
}

#[test]
fn exit_0_completes_only_unclaimed_self_exit() {
    let lenient = SessionSpec { exit0: ExitZeroPolicy::Completes, ..command_spec() };
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
    let said = |exit0, driver, checks: &[&str]| {
        let mut spec = SessionSpec { exit0, ..spec() };
        spec.agent.driver = driver;
        spec.checks = checks.iter().map(|check| (*check).to_owned()).collect();
        spec.exit_zero_is_done()
    };
    assert!(said(ExitZeroPolicy::Completes, Driver::Jsonl, &[]));
    assert!(said(ExitZeroPolicy::Completes, Driver::Command, &["check"]));
    assert!(said(ExitZeroPolicy::NotAClaim, Driver::Command, &["check"]));
    assert!(!said(ExitZeroPolicy::NotAClaim, Driver::Command, &[]));
    assert!(!said(ExitZeroPolicy::NotAClaim, Driver::Jsonl, &["check"]), "it has a way to say so");
}

#[test]
fn unobservable_agent_is_not_asked_for_result() {
    let mut bench = TestSession::running(spec());
    let launch = bench.launch();
    bench
        .apply(SessionCommand::ProcessUnknown { launch, why: "why".to_owned() })
        .signal(TURN_ENDED_OK);
    assert_eq!(bench.state(), State::Idle);
    assert!(bench.session.attempt().result_requested.is_none());
    bench.apply(SessionCommand::ProcessSeen { launch });
    assert!(bench.session.attempt().result_requested.is_some());
    assert_eq!(bench.stop_step(), None, "it has time to report");
    let message = bench.session.messages.last().unwrap();
    assert_eq!(
        (message.kind, message.key.as_str()),
        (AgentMessageKind::ResultWanted, "result-1-0")
    );
}

#[test]
fn attended_agent_is_not_queried_or_closed() {
    let mut bench = TestSession::running(spec());
    let launch = bench.launch();
    let people = |people| SessionCommand::ViewersChanged { launch, people };
    bench.apply(people(1)).signal(TURN_ENDED_OK);
    assert_eq!(bench.state(), State::Idle);
    assert!(bench.session.attempt().result_requested.is_none());
    assert_eq!(bench.try_apply(people(1)), Err(SessionRejection::NothingNew));
    bench.apply(people(0));
    assert!(bench.session.attempt().result_requested.is_some());

    bench.apply(people(2)).claim(ClaimKind::Completed).signal(TURN_ENDED_OK).settle();
    assert!(bench.session.attempt().is_sealed());
    assert_eq!(bench.stop_step(), None, "its process keeps running for the viewers");
    bench.apply(people(0));
    assert_eq!(bench.session.launches[0].stop.unwrap().why, StopReason::Finished);
}

#[test]
fn withdrawal_while_attended_is_answered_elsewhere() {
    for (people, fate) in [(0, RequestStatus::Withdrawn), (1, RequestStatus::AnsweredElsewhere)] {
        let mut bench = TestSession::running(spec());
        let launch = bench.launch();
        bench
            .signal(StreamSignal::RequestOpened(question("q")))
            .try_apply(SessionCommand::ViewersChanged { launch, people })
            .ok();
        bench.signal(StreamSignal::RequestWithdrawn { native: "q".to_owned() });
        assert_eq!(bench.session.requests[0].status, fate);
    }
}

#[test]
fn attended_agent_can_be_stopped() {
    let mut bench = TestSession::running(spec());
    bench
        .apply(SessionCommand::ViewersChanged { launch: bench.launch(), people: 1 })
        .apply(cancel());
    assert!(bench.stop_step().is_some());
}

#[test]
fn rework_repeats_the_result_query() {
    let mut bench = TestSession::running(checked_spec());
    bench.signal(TURN_ENDED_OK).claim(ClaimKind::Completed).signal(TURN_ENDED_OK);
    bench.verify("new", CheckEnd::Exit(1)).signal(TURN_ENDED_OK);
    assert_eq!((bench.state(), bench.stop_step()), (State::Working, None));
    assert_eq!(bench.session.messages.last().unwrap().key, "result-1-1");
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
    let mut said = TestSession::running(spec());
    said.claim(ClaimKind::Failed).signal(TURN_ENDED_OK);
    assert_eq!((said.state(), said.cause()), (State::Failed, Some(Cause::SelfReported)));

    let mut erred = TestSession::running(spec());
    let end = TurnEnd::Error("quota".to_owned());
    erred.signal(StreamSignal::TurnEnded { turn: None, end, usage: None, says: None });
    let claim = erred.session.attempt().claim.clone().unwrap();
    assert_eq!((claim.source, claim.text.as_deref()), (ClaimSource::TurnError, Some("quota")));
    assert_eq!(erred.cause(), Some(Cause::AgentError));
}

#[test]
fn session_closes_when_nothing_is_pending() {
    let mut bench = TestSession::running(SessionSpec { on_finish: OnFinish::Park, ..spec() });
    finish_hooks(&mut bench);
    bench.claim(ClaimKind::Completed).signal(TURN_ENDED_OK);
    assert!(!bench.session.is_closed(), "it is not sealed");
    bench.advance_clock(50);
    assert!(
        bench.sealed() && !bench.session.is_closed(),
        "a hook is pending and the process is alive"
    );
    finish_hooks(&mut bench);
    assert!(!bench.session.is_closed(), "its process is alive");
    let launch = bench.launch();
    bench.exit(ProcessExit::Exit(0), StoppedBy::Itself).signal(StreamSignal::Closed);
    assert!(!bench.session.is_closed(), "its process tree may be alive");
    bench.apply(SessionCommand::ProcessTreeGone { launch, leftovers: 0, verified: true });
    assert!(bench.session.is_closed());
}

#[test]
fn session_waiting_for_user_is_not_closed() {
    let mut bench = TestSession::running(spec());
    bench.signal(StreamSignal::InputWritten { key: "instruction-1".to_owned() });
    bench.claim(ClaimKind::NeedsInput).end(ProcessExit::Exit(0));
    finish_hooks(&mut bench);
    assert!(bench.session.effects().is_empty() && !bench.session.is_closed());
}

fn finish_hooks(bench: &mut TestSession) {
    for hook in bench.session.hooks.clone() {
        bench.apply(SessionCommand::HookFinished { key: hook.key, end: HookEnd::Exit(0) });
    }
}
