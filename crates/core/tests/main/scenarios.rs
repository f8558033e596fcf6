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
    let exit0 =
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
    assert_eq!(exit0.state, State::ExitedWithoutClaim);
    assert_eq!((exit1.state, exit1.cause), (State::Failed, Some(Cause::Crash)));
    assert_eq!(done.state, State::Completed);
    assert_eq!(asks.state, State::NeedsInput);
    assert!(!asks.has(Flag::AnswerResumes), "a plain command takes no answer");
    assert_eq!((killed.state, killed.cause), (State::Failed, Some(Cause::Crash)));
}

#[test]
fn completed_session_seals_after_window_and_stays() {
    let mut bench = TestSession::running(command_spec());
    bench.claim(ClaimKind::Completed).end(ProcessExit::Exit(0));
    assert_eq!(bench.state(), State::Completed, "at once");
    assert!(!bench.sealed());
    bench.advance_clock(49);
    assert!(!bench.sealed());
    bench.advance_clock(1);
    assert!(bench.sealed());
    bench.claim(ClaimKind::Failed).advance_clock(600_000);
    assert_eq!(bench.state(), State::Completed);
    assert_eq!(bench.session.attempt().late_claims.len(), 1);
    assert!(bench.session.judgement().has(Flag::LateClaim));
}

#[test]
fn only_passed_checks_make_succeeded() {
    let mut bench = TestSession::running(checked_spec());
    bench.claim(ClaimKind::Completed).end(ProcessExit::Exit(0));
    assert_eq!(bench.state(), State::Verifying);
    bench.advance_clock(60_000);
    assert!(!bench.sealed(), "nothing is final while a check is pending");
    bench.verify("new", CheckEnd::Exit(0)).settle();
    assert_eq!(bench.state(), State::Succeeded);
    assert!(bench.sealed());
}

#[test]
fn empty_diff_fails_verification() {
    let mut bench = TestSession::running(checked_spec());
    bench
        .claim(ClaimKind::Completed)
        .end(ProcessExit::Exit(0))
        .verify("old", CheckEnd::Exit(0))
        .settle();
    assert_eq!(bench.state(), State::Failed);
    assert!(bench.session.judgement().has(Flag::EmptyDiff));
}

#[test]
fn rework_is_bounded_then_fails() {
    let mut bench = TestSession::running(checked_spec());
    for n in 1..=3 {
        bench.signal(StreamSignal::TurnStarted { turn: None }).claim(ClaimKind::Completed);
        bench.signal(StreamSignal::TurnEnded {
            turn: None,
            end: TurnEnd::Ok,
            usage: None,
            says: None,
        });
        assert_eq!(bench.state(), State::Verifying);
        bench.verify("new", CheckEnd::Exit(1));
        assert_eq!((bench.session.attempt().reworks, bench.state()), (n, State::Working));
    }
    bench.signal(StreamSignal::TurnStarted { turn: None }).claim(ClaimKind::Completed);
    bench
        .signal(StreamSignal::TurnEnded { turn: None, end: TurnEnd::Ok, usage: None, says: None })
        .verify("new", CheckEnd::Exit(1));
    let stop = bench.session.launches[0].stop.unwrap();
    assert_eq!(stop.why, StopReason::ReworkExhausted);
    bench.end_by(ProcessExit::Signal(15), StoppedBy::Provost).settle();
    let judged = bench.session.judgement();
    assert_eq!((judged.state, judged.cause), (State::Failed, Some(Cause::Verification)));
}

#[test]
fn moving_tree_is_retaken_then_disputed() {
    let mut bench = TestSession::running(checked_spec());
    bench.claim(ClaimKind::Completed).end(ProcessExit::Exit(0));
    for n in 0..=3 {
        let tree = format!("tree-{n}");
        bench.snapshot(&tree);
        bench.check(&tree, CheckEnd::Exit(0));
        assert_eq!(bench.state(), State::Verifying);
    }
    bench.snapshot("tree-4").settle();
    assert_eq!(bench.state(), State::Disputed);
    assert!(bench.session.judgement().has(Flag::MovingTree));
}

#[test]
fn cancelled_stays_cancelled() {
    let mut bench = TestSession::running(checked_spec());
    bench.apply(SessionCommand::Cancel { because: "no".to_owned() });
    assert_eq!(bench.state(), State::Cancelled);
    assert_eq!(bench.session.launches[0].stop.unwrap().step, StopStep::Interrupt);
    bench.claim(ClaimKind::Completed);
    bench.signal(StreamSignal::TurnEnded { turn: None, end: TurnEnd::Ok, usage: None, says: None });
    bench.end(ProcessExit::Exit(0)).settle();
    assert_eq!(bench.state(), State::Cancelled);
    assert!(bench.sealed());
    let again = SessionCommand::Cancel { because: "again".to_owned() };
    assert_eq!(bench.try_apply(again), Ok(()), "it is already cancelled");
    assert_eq!(bench.hooks().iter().filter(|name| *name == "session.cancelled").count(), 1);
}

#[test]
fn stop_escalates_in_order_then_gives_up() {
    let mut bench = TestSession::running(spec());
    bench.apply(SessionCommand::Cancel { because: "no".to_owned() });
    let step = |bench: &TestSession| bench.session.launches[0].stop.unwrap().step;
    for expected in [StopStep::Terminate, StopStep::Kill, StopStep::GivenUp] {
        assert!(!bench.sealed());
        bench.advance_clock(10_000);
        assert_eq!(step(&bench), expected);
    }
    bench.settle();
    assert!(bench.sealed(), "a tree that cannot be ended does not hold up the outcome for ever");
}

#[test]
fn waiting_for_user_does_not_count_as_time() {
    let mut spec = spec();
    spec.bounds.time_limit_ms = Some(1_000);
    let mut bench = TestSession::running(spec);
    bench.advance_clock(400);
    bench.signal(StreamSignal::RequestOpened(question("q")));
    bench.advance_clock(24 * 3_600_000);
    assert_eq!(bench.state(), State::NeedsInput);
    bench.signal(StreamSignal::RequestWithdrawn { native: "q".to_owned() });
    assert_eq!(bench.state(), State::Working);
    bench.advance_clock(599);
    assert_eq!(bench.state(), State::Working);
    bench.advance_clock(1);
    let judged = bench.session.judgement();
    assert_eq!((judged.state, judged.cause), (State::Failed, Some(Cause::Timeout)));
}

#[test]
fn answer_resumes_ended_agent_once() {
    let mut bench = TestSession::running(spec());
    bench.signal(StreamSignal::RequestOpened(question("q"))).end(ProcessExit::Exit(0)).settle();
    assert_eq!(bench.state(), State::NeedsInput);
    let request = bench.session.requests[0].id;
    let answer = SessionCommand::Answer {
        request,
        revision: 1,
        reply: RequestReply::Text("blue".to_owned()),
    };
    bench.apply(answer.clone());
    assert_eq!(bench.session.launches.len(), 2);
    assert!(bench.try_apply(answer).is_err());
    assert_eq!(bench.session.launches.len(), 2);
    assert_eq!(bench.session.requests[0].status, RequestStatus::Answered);
}

#[test]
fn silence_shows_stalled_and_ends_nothing() {
    let mut bench = TestSession::running(command_spec());
    let launch = bench.launch();
    let start = bench.now.mono_ms;
    bench.advance_clock(300_000);
    bench.apply(SessionCommand::Silence { launch, heard_ms: start + 100_000 });
    assert_eq!(bench.state(), State::Working, "something was heard within the window");
    bench.advance_clock(100_000);
    bench.apply(SessionCommand::Silence { launch, heard_ms: start + 100_000 });
    assert_eq!(bench.state(), State::Stalled);
    bench.advance_clock(3_600_000);
    assert!(!bench.sealed());
    bench.apply(SessionCommand::Silence { launch, heard_ms: bench.now.mono_ms });
    assert_eq!(bench.state(), State::Working);
}

#[test]
fn idle_agent_is_asked_once_then_closed() {
    let mut bench = TestSession::running(spec());
    bench.signal(StreamSignal::TurnStarted { turn: None });
    bench.signal(StreamSignal::TurnEnded { turn: None, end: TurnEnd::Ok, usage: None, says: None });
    assert!(bench.session.attempt().result_requested.is_some());
    assert_eq!(bench.state(), State::Working);
    bench.signal(StreamSignal::TurnStarted { turn: None });
    bench.signal(StreamSignal::TurnEnded { turn: None, end: TurnEnd::Ok, usage: None, says: None });
    assert_eq!(bench.session.launches[0].stop.unwrap().why, StopReason::Unclaimed);
    bench.end_by(ProcessExit::Signal(15), StoppedBy::Provost).settle();
    assert_eq!(bench.state(), State::ExitedWithoutClaim);
}

#[test]
fn closed_stream_with_live_process_is_reaped() {
    let mut bench = TestSession::running(command_spec());
    bench.signal(StreamSignal::Closed);
    assert_eq!(bench.state(), State::Working, "the exit usually follows at once");
    bench.advance_clock(10_000);
    assert_eq!(bench.session.launches[0].stop.unwrap().why, StopReason::Leftover);
    bench.end_by(ProcessExit::Signal(15), StoppedBy::Provost).settle();
    assert_eq!(bench.state(), State::ExitedWithoutClaim);
    assert!(bench.session.judgement().has(Flag::ExitCodeUnobserved));
}

#[test]
fn turn_error_is_an_agent_error() {
    let mut bench = TestSession::running(spec());
    bench.signal(StreamSignal::TurnStarted { turn: None });
    bench
        .signal(StreamSignal::TurnEnded {
            turn: None,
            end: TurnEnd::Error("no".to_owned()),
            usage: None,
            says: None,
        })
        .settle();
    let judged = bench.session.judgement();
    assert_eq!((judged.state, judged.cause), (State::Failed, Some(Cause::AgentError)));
}

#[test]
fn resolve_keeps_the_sealed_outcome() {
    let mut bench = TestSession::running(command_spec());
    bench.end(ProcessExit::Exit(0)).settle();
    assert_eq!(bench.state(), State::ExitedWithoutClaim);
    bench
        .apply(SessionCommand::Resolve { to: ManualOutcome::Accepted, because: "seen".to_owned() });
    assert_eq!(bench.state(), State::Accepted);
    let sealed = bench.session.attempt().sealed.clone().unwrap();
    assert_eq!(sealed.judgement.state, State::ExitedWithoutClaim, "the sealed outcome is kept");
}

#[test]
fn superseding_instruction_reuses_the_launch() {
    let mut bench = TestSession::running(spec());
    let send = SessionCommand::Send {
        key: "k".to_owned(),
        text: "rather this".to_owned(),
        mode: SendMode::Supersede,
    };
    bench.apply(send);
    assert_eq!(bench.session.attempts.len(), 2);
    let first = bench.session.attempts[0].sealed.clone().unwrap();
    assert_eq!(first.judgement.state, State::Superseded);
    assert_eq!(bench.session.launches.len(), 1);
    assert_eq!(bench.state(), State::Working);
}

#[test]
fn exit_0_completes_only_if_configured() {
    let done =
        SessionSpec { exit0: provost_core::session::ExitZeroPolicy::Completes, ..command_spec() };
    let mut bench = TestSession::running(done.clone());
    bench.end(ProcessExit::Exit(0)).settle();
    assert_eq!(bench.state(), State::Completed);
    let mut bench = TestSession::running(done);
    bench.end(ProcessExit::Exit(3)).settle();
    assert_eq!(bench.state(), State::Failed);
}
