//! Scenarios of whole sessions, from the first event to the seal.

use provost_core::{
    lifecycle::{Cause, ClaimKind, Flag, State},
    request::{RequestReply, RequestStatus},
    session::{
        ManualOutcome, ProcessExit, SendMode, SessionCommand, SessionSpec, StopReason, StopStep,
        StoppedBy, StreamSignal, TurnEnd,
    },
    verdict::CheckEnd,
};

use crate::kit::{TestSession, checked_spec, command_spec, question, spec};

#[test]
fn five_endings_give_five_outcomes() {
    let exit_zero =
        TestSession::running(command_spec()).end(ProcessExit::Exit(0)).settle().session.judgement();
    let exit1 =
        TestSession::running(command_spec()).end(ProcessExit::Exit(1)).settle().session.judgement();
    let done = TestSession::running(command_spec())
        .claim(ClaimKind::Completed)
        .end(ProcessExit::Exit(0))
        .settle()
        .session
        .judgement();
    let asks = TestSession::running(command_spec())
        .claim(ClaimKind::NeedsInput)
        .end(ProcessExit::Exit(0))
        .settle()
        .session
        .judgement();
    let killed = TestSession::running(command_spec())
        .claim(ClaimKind::Working)
        .end(ProcessExit::Signal(9))
        .settle()
        .session
        .judgement();
    assert_eq!(exit_zero.state, State::ExitedWithoutClaim);
    assert_eq!((exit1.state, exit1.cause), (State::Failed, Some(Cause::Crash)));
    assert_eq!(done.state, State::Completed);
    assert_eq!(asks.state, State::NeedsInput);
    assert!(!asks.has(Flag::AnswerResumes), "a plain command takes no answer");
    assert_eq!((killed.state, killed.cause), (State::Failed, Some(Cause::Crash)));
}

#[test]
fn completed_session_seals_after_window_and_stays() {
    let mut harness = TestSession::running(command_spec());
    harness.claim(ClaimKind::Completed).end(ProcessExit::Exit(0));
    assert_eq!(harness.state(), State::Completed, "at once");
    assert!(!harness.sealed());
    harness.advance_clock(49);
    assert!(!harness.sealed());
    harness.advance_clock(1);
    assert!(harness.sealed());
    harness.claim(ClaimKind::Failed).advance_clock(600_000);
    assert_eq!(harness.state(), State::Completed);
    assert_eq!(harness.session.attempt().late_claims.len(), 1);
    assert!(harness.session.judgement().has(Flag::LateClaim));
}

#[test]
fn only_passed_checks_make_succeeded() {
    let mut harness = TestSession::running(checked_spec());
    harness.claim(ClaimKind::Completed).end(ProcessExit::Exit(0));
    assert_eq!(harness.state(), State::Verifying);
    harness.advance_clock(60_000);
    assert!(!harness.sealed(), "nothing is final while a check is pending");
    harness.verify("new", CheckEnd::Exit(0)).settle();
    assert_eq!(harness.state(), State::Succeeded);
    assert!(harness.sealed());
}

#[test]
fn empty_diff_fails_verification() {
    let mut harness = TestSession::running(checked_spec());
    harness
        .claim(ClaimKind::Completed)
        .end(ProcessExit::Exit(0))
        .verify("old", CheckEnd::Exit(0))
        .settle();
    assert_eq!(harness.state(), State::Failed);
    assert!(harness.session.judgement().has(Flag::EmptyDiff));
}

#[test]
fn rework_is_bounded_then_fails() {
    let mut harness = TestSession::running(checked_spec());
    for n in 1..=3 {
        harness.signal(StreamSignal::TurnStarted { turn: None }).claim(ClaimKind::Completed);
        harness.signal(StreamSignal::TurnEnded {
            turn: None,
            end: TurnEnd::Ok,
            usage: None,
            says: None,
        });
        assert_eq!(harness.state(), State::Verifying);
        harness.verify("new", CheckEnd::Exit(1));
        assert_eq!((harness.session.attempt().reworks, harness.state()), (n, State::Working));
    }
    harness.signal(StreamSignal::TurnStarted { turn: None }).claim(ClaimKind::Completed);
    harness
        .signal(StreamSignal::TurnEnded { turn: None, end: TurnEnd::Ok, usage: None, says: None })
        .verify("new", CheckEnd::Exit(1));
    let stop = harness.session.launches[0].stop.unwrap();
    assert_eq!(stop.why, StopReason::ReworkExhausted);
    harness.end_by(ProcessExit::Signal(15), StoppedBy::Provost).settle();
    let judged = harness.session.judgement();
    assert_eq!((judged.state, judged.cause), (State::Failed, Some(Cause::Verification)));
}

#[test]
fn moving_tree_is_retaken_then_disputed() {
    let mut harness = TestSession::running(checked_spec());
    harness.claim(ClaimKind::Completed).end(ProcessExit::Exit(0));
    for n in 0..=3 {
        let tree = format!("tree-{n}");
        harness.snapshot(&tree);
        harness.check(&tree, CheckEnd::Exit(0));
        assert_eq!(harness.state(), State::Verifying);
    }
    harness.snapshot("tree-4").settle();
    assert_eq!(harness.state(), State::Disputed);
    assert!(harness.session.judgement().has(Flag::MovingTree));
}

#[test]
fn cancelled_stays_cancelled() {
    let mut harness = TestSession::running(checked_spec());
    harness.apply(SessionCommand::Cancel { because: "no".to_owned() });
    assert_eq!(harness.state(), State::Cancelled);
    assert_eq!(harness.session.launches[0].stop.unwrap().step, StopStep::Interrupt);
    harness.claim(ClaimKind::Completed);
    harness.signal(StreamSignal::TurnEnded {
        turn: None,
        end: TurnEnd::Ok,
        usage: None,
        says: None,
    });
    harness.end(ProcessExit::Exit(0)).settle();
    assert_eq!(harness.state(), State::Cancelled);
    assert!(harness.sealed());
    let again = SessionCommand::Cancel { because: "again".to_owned() };
    assert_eq!(harness.try_apply(again), Ok(()), "it is already cancelled");
    assert_eq!(harness.hooks().iter().filter(|name| *name == "session.cancelled").count(), 1);
}

#[test]
fn stop_escalates_in_order_then_gives_up() {
    let mut harness = TestSession::running(spec());
    harness.apply(SessionCommand::Cancel { because: "no".to_owned() });
    let step = |harness: &TestSession| harness.session.launches[0].stop.unwrap().step;
    for expected in [StopStep::Terminate, StopStep::Kill, StopStep::GivenUp] {
        assert!(!harness.sealed());
        harness.advance_clock(10_000);
        assert_eq!(step(&harness), expected);
    }
    harness.settle();
    assert!(harness.sealed(), "a tree that cannot be ended does not hold up the outcome for ever");
}

#[test]
fn waiting_for_user_does_not_count_as_time() {
    let mut spec = spec();
    spec.bounds.time_limit_ms = Some(1_000);
    let mut harness = TestSession::running(spec);
    harness.advance_clock(400);
    harness.signal(StreamSignal::RequestOpened(question("q")));
    harness.advance_clock(24 * 3_600_000);
    assert_eq!(harness.state(), State::NeedsInput);
    harness.signal(StreamSignal::RequestWithdrawn { native: "q".to_owned() });
    assert_eq!(harness.state(), State::Working);
    harness.advance_clock(599);
    assert_eq!(harness.state(), State::Working);
    harness.advance_clock(1);
    let judged = harness.session.judgement();
    assert_eq!((judged.state, judged.cause), (State::Failed, Some(Cause::Timeout)));
}

#[test]
fn answer_resumes_ended_agent_once() {
    let mut harness = TestSession::running(spec());
    harness.signal(StreamSignal::RequestOpened(question("q"))).end(ProcessExit::Exit(0)).settle();
    assert_eq!(harness.state(), State::NeedsInput);
    let request = harness.session.requests[0].id;
    let answer = SessionCommand::Answer {
        request,
        revision: 1,
        reply: RequestReply::Text("blue".to_owned()),
    };
    harness.apply(answer.clone());
    assert_eq!(harness.session.launches.len(), 2);
    assert!(harness.try_apply(answer).is_err());
    assert_eq!(harness.session.launches.len(), 2);
    assert_eq!(harness.session.requests[0].status, RequestStatus::Answered);
}

#[test]
fn silence_shows_stalled_and_ends_nothing() {
    let mut harness = TestSession::running(command_spec());
    let launch = harness.launch();
    let start = harness.now.mono_ms;
    harness.advance_clock(300_000);
    harness.apply(SessionCommand::Silence { launch, heard_ms: start + 100_000 });
    assert_eq!(harness.state(), State::Working, "something was heard within the window");
    harness.advance_clock(100_000);
    harness.apply(SessionCommand::Silence { launch, heard_ms: start + 100_000 });
    assert_eq!(harness.state(), State::Stalled);
    harness.advance_clock(3_600_000);
    assert!(!harness.sealed());
    harness.apply(SessionCommand::Silence { launch, heard_ms: harness.now.mono_ms });
    assert_eq!(harness.state(), State::Working);
}

#[test]
fn idle_agent_is_asked_once_then_closed() {
    let mut harness = TestSession::running(spec());
    harness.signal(StreamSignal::TurnStarted { turn: None });
    harness.signal(StreamSignal::TurnEnded {
        turn: None,
        end: TurnEnd::Ok,
        usage: None,
        says: None,
    });
    assert!(harness.session.attempt().result_requested.is_some());
    assert_eq!(harness.state(), State::Working);
    harness.signal(StreamSignal::TurnStarted { turn: None });
    harness.signal(StreamSignal::TurnEnded {
        turn: None,
        end: TurnEnd::Ok,
        usage: None,
        says: None,
    });
    assert_eq!(harness.session.launches[0].stop.unwrap().why, StopReason::Unclaimed);
    harness.end_by(ProcessExit::Signal(15), StoppedBy::Provost).settle();
    assert_eq!(harness.state(), State::ExitedWithoutClaim);
}

#[test]
fn closed_stream_with_live_process_is_reaped() {
    let mut harness = TestSession::running(command_spec());
    harness.signal(StreamSignal::Closed);
    assert_eq!(harness.state(), State::Working, "the exit usually follows at once");
    harness.advance_clock(10_000);
    assert_eq!(harness.session.launches[0].stop.unwrap().why, StopReason::Leftover);
    harness.end_by(ProcessExit::Signal(15), StoppedBy::Provost).settle();
    assert_eq!(harness.state(), State::ExitedWithoutClaim);
    assert!(harness.session.judgement().has(Flag::ExitCodeUnobserved));
}

#[test]
fn turn_error_is_an_agent_error() {
    let mut harness = TestSession::running(spec());
    harness.signal(StreamSignal::TurnStarted { turn: None });
    harness
        .signal(StreamSignal::TurnEnded {
            turn: None,
            end: TurnEnd::Error("no".to_owned()),
            usage: None,
            says: None,
        })
        .settle();
    let judged = harness.session.judgement();
    assert_eq!((judged.state, judged.cause), (State::Failed, Some(Cause::AgentError)));
}

#[test]
fn resolve_keeps_the_sealed_outcome() {
    let mut harness = TestSession::running(command_spec());
    harness.end(ProcessExit::Exit(0)).settle();
    assert_eq!(harness.state(), State::ExitedWithoutClaim);
    harness
        .apply(SessionCommand::Resolve { to: ManualOutcome::Accepted, because: "seen".to_owned() });
    assert_eq!(harness.state(), State::Accepted);
    let sealed = harness.session.attempt().sealed.clone().unwrap();
    assert_eq!(sealed.judgement.state, State::ExitedWithoutClaim, "the sealed outcome is kept");
}

#[test]
fn superseding_instruction_reuses_the_launch() {
    let mut harness = TestSession::running(spec());
    let send = SessionCommand::Send {
        key: "k".to_owned(),
        text: "rather this".to_owned(),
        mode: SendMode::Supersede,
    };
    harness.apply(send);
    assert_eq!(harness.session.attempts.len(), 2);
    let first = harness.session.attempts[0].sealed.clone().unwrap();
    assert_eq!(first.judgement.state, State::Superseded);
    assert_eq!(harness.session.launches.len(), 1);
    assert_eq!(harness.state(), State::Working);
}

#[test]
fn exit_0_completes_only_if_configured() {
    let done = SessionSpec {
        exit_zero: provost_core::session::ExitZeroPolicy::Completes,
        ..command_spec()
    };
    let mut harness = TestSession::running(done.clone());
    harness.end(ProcessExit::Exit(0)).settle();
    assert_eq!(harness.state(), State::Completed);
    let mut harness = TestSession::running(done);
    harness.end(ProcessExit::Exit(3)).settle();
    assert_eq!(harness.state(), State::Failed);
}
