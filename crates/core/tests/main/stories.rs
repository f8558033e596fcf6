//! Scenarios of whole sessions, from the first event to the seal.

use provost_core::{
    lifecycle::{Cause, ClaimKind, Flag, State},
    request::{Fate, Reply},
    session::{Command, End, EndedBy, Resolve, SendMode, Signal, Spec, StopStep, StopWhy, TurnEnd},
    verdict::CheckEnd,
};

use crate::kit::{Bench, checked, command_spec, question, spec};

#[test]
fn the_five_endings_give_five_records() {
    let exit0 = Bench::running(command_spec()).end(End::Exit(0)).settle().session.judgement();
    let exit1 = Bench::running(command_spec()).end(End::Exit(1)).settle().session.judgement();
    let done = Bench::running(command_spec())
        .claim(ClaimKind::Completed)
        .end(End::Exit(0))
        .settle()
        .session
        .judgement();
    let asks = Bench::running(command_spec())
        .claim(ClaimKind::NeedsInput)
        .end(End::Exit(0))
        .settle()
        .session
        .judgement();
    let killed = Bench::running(command_spec())
        .claim(ClaimKind::Working)
        .end(End::Signal(9))
        .settle()
        .session
        .judgement();
    assert_eq!(exit0.state, State::EndedUnclaimed);
    assert_eq!((exit1.state, exit1.cause), (State::Failed, Some(Cause::Crash)));
    assert_eq!(done.state, State::Completed);
    assert_eq!(asks.state, State::NeedsInput);
    assert!(!asks.has(Flag::AnswerResumes), "a plain command takes no answer");
    assert_eq!((killed.state, killed.cause), (State::Failed, Some(Cause::Crash)));
}

#[test]
fn a_completed_session_is_sealed_after_the_settle_window_and_stays() {
    let mut bench = Bench::running(command_spec());
    bench.claim(ClaimKind::Completed).end(End::Exit(0));
    assert_eq!(bench.state(), State::Completed, "at once");
    assert!(!bench.sealed());
    bench.pass(49);
    assert!(!bench.sealed());
    bench.pass(1);
    assert!(bench.sealed());
    bench.claim(ClaimKind::Failed).pass(600_000);
    assert_eq!(bench.state(), State::Completed);
    assert_eq!(bench.session.attempt().late_claims.len(), 1);
    assert!(bench.session.judgement().has(Flag::LateClaim));
}

#[test]
fn checks_make_succeeded_and_only_they() {
    let mut bench = Bench::running(checked());
    bench.claim(ClaimKind::Completed).end(End::Exit(0));
    assert_eq!(bench.state(), State::Verifying);
    bench.pass(60_000);
    assert!(!bench.sealed(), "nothing is final while a check is pending");
    bench.verify("new", CheckEnd::Exit(0)).settle();
    assert_eq!(bench.state(), State::Succeeded);
    assert!(bench.sealed());
}

#[test]
fn an_empty_diff_fails_verification() {
    let mut bench = Bench::running(checked());
    bench.claim(ClaimKind::Completed).end(End::Exit(0)).verify("old", CheckEnd::Exit(0)).settle();
    assert_eq!(bench.state(), State::Failed);
    assert!(bench.session.judgement().has(Flag::EmptyDiff));
}

#[test]
fn refuted_work_goes_back_a_bounded_number_of_times() {
    let mut bench = Bench::running(checked());
    for n in 1..=3 {
        bench.signal(Signal::TurnStarted { turn: None }).claim(ClaimKind::Completed);
        bench.signal(Signal::TurnEnded { turn: None, end: TurnEnd::Ok, usage: None, says: None });
        assert_eq!(bench.state(), State::Verifying);
        bench.verify("new", CheckEnd::Exit(1));
        assert_eq!((bench.session.attempt().reworks, bench.state()), (n, State::Working));
    }
    bench.signal(Signal::TurnStarted { turn: None }).claim(ClaimKind::Completed);
    bench
        .signal(Signal::TurnEnded { turn: None, end: TurnEnd::Ok, usage: None, says: None })
        .verify("new", CheckEnd::Exit(1));
    let stop = bench.session.launches[0].stop.unwrap();
    assert_eq!(stop.why, StopWhy::ReworkExhausted);
    bench.end_by(End::Signal(15), EndedBy::Provost).settle();
    let judged = bench.session.judgement();
    assert_eq!((judged.state, judged.cause), (State::Failed, Some(Cause::Verification)));
}

#[test]
fn a_tree_that_moves_is_taken_again_and_in_the_end_disputed() {
    let mut bench = Bench::running(checked());
    bench.claim(ClaimKind::Completed).end(End::Exit(0));
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
fn cancelled_stays_cancelled_whatever_comes_later() {
    let mut bench = Bench::running(checked());
    bench.tell(Command::Cancel { because: "no".to_owned() });
    assert_eq!(bench.state(), State::Cancelled);
    assert_eq!(bench.session.launches[0].stop.unwrap().step, StopStep::Interrupt);
    bench.claim(ClaimKind::Completed);
    bench.signal(Signal::TurnEnded { turn: None, end: TurnEnd::Ok, usage: None, says: None });
    bench.end(End::Exit(0)).settle();
    assert_eq!(bench.state(), State::Cancelled);
    assert!(bench.sealed());
    assert!(bench.try_tell(Command::Cancel { because: "again".to_owned() }).is_err());
    assert_eq!(bench.hooks().iter().filter(|name| *name == "session.cancelled").count(), 1);
}

#[test]
fn a_stop_escalates_once_in_order_and_gives_up() {
    let mut bench = Bench::running(spec());
    bench.tell(Command::Cancel { because: "no".to_owned() });
    let step = |bench: &Bench| bench.session.launches[0].stop.unwrap().step;
    for expected in [StopStep::Terminate, StopStep::Kill, StopStep::GivenUp] {
        assert!(!bench.sealed());
        bench.pass(10_000);
        assert_eq!(step(&bench), expected);
    }
    bench.settle();
    assert!(bench.sealed(), "a tree that cannot be ended does not hold up the outcome for ever");
}

#[test]
fn waiting_for_a_person_costs_no_time() {
    let mut spec = spec();
    spec.bounds.time_limit_ms = Some(1_000);
    let mut bench = Bench::running(spec);
    bench.pass(400);
    bench.signal(Signal::Asked(question("q")));
    bench.pass(24 * 3_600_000);
    assert_eq!(bench.state(), State::NeedsInput);
    bench.signal(Signal::Withdrawn { native: "q".to_owned() });
    assert_eq!(bench.state(), State::Working);
    bench.pass(599);
    assert_eq!(bench.state(), State::Working);
    bench.pass(1);
    let judged = bench.session.judgement();
    assert_eq!((judged.state, judged.cause), (State::Failed, Some(Cause::Timeout)));
}

#[test]
fn an_answer_resumes_an_agent_that_ended_exactly_once() {
    let mut bench = Bench::running(spec());
    bench.signal(Signal::Asked(question("q"))).end(End::Exit(0)).settle();
    assert_eq!(bench.state(), State::NeedsInput);
    let request = bench.session.requests[0].id;
    let answer = Command::Answer { request, revision: 1, reply: Reply::Text("blue".to_owned()) };
    bench.tell(answer.clone());
    assert_eq!(bench.session.launches.len(), 2);
    assert!(bench.try_tell(answer).is_err());
    assert_eq!(bench.session.launches.len(), 2);
    assert_eq!(bench.session.requests[0].fate, Fate::Answered);
}

#[test]
fn silence_is_shown_after_the_window_and_ends_nothing() {
    let mut bench = Bench::running(command_spec());
    let launch = bench.launch();
    let start = bench.now.mono_ms;
    bench.pass(300_000);
    bench.tell(Command::Silence { launch, heard_ms: start + 100_000 });
    assert_eq!(bench.state(), State::Working, "something was heard within the window");
    bench.pass(100_000);
    bench.tell(Command::Silence { launch, heard_ms: start + 100_000 });
    assert_eq!(bench.state(), State::Stalled);
    bench.pass(3_600_000);
    assert!(!bench.sealed());
    bench.tell(Command::Silence { launch, heard_ms: bench.now.mono_ms });
    assert_eq!(bench.state(), State::Working);
}

#[test]
fn an_idle_agent_is_asked_once_for_its_result_then_closed() {
    let mut bench = Bench::running(spec());
    bench.signal(Signal::TurnStarted { turn: None });
    bench.signal(Signal::TurnEnded { turn: None, end: TurnEnd::Ok, usage: None, says: None });
    assert!(bench.session.attempt().result_asked.is_some());
    assert_eq!(bench.state(), State::Working);
    bench.signal(Signal::TurnStarted { turn: None });
    bench.signal(Signal::TurnEnded { turn: None, end: TurnEnd::Ok, usage: None, says: None });
    assert_eq!(bench.session.launches[0].stop.unwrap().why, StopWhy::Unclaimed);
    bench.end_by(End::Signal(15), EndedBy::Provost).settle();
    assert_eq!(bench.state(), State::EndedUnclaimed);
}

#[test]
fn a_closed_stream_with_a_living_process_is_settled_reaped_and_ended_unobserved() {
    let mut bench = Bench::running(command_spec());
    bench.signal(Signal::Closed);
    assert_eq!(bench.state(), State::Working, "the exit usually follows at once");
    bench.pass(10_000);
    assert_eq!(bench.session.launches[0].stop.unwrap().why, StopWhy::Leftover);
    bench.end_by(End::Signal(15), EndedBy::Provost).settle();
    assert_eq!(bench.state(), State::EndedUnclaimed);
    assert!(bench.session.judgement().has(Flag::ExitCodeUnobserved));
}

#[test]
fn an_error_end_of_a_turn_is_the_agents_error() {
    let mut bench = Bench::running(spec());
    bench.signal(Signal::TurnStarted { turn: None });
    bench
        .signal(Signal::TurnEnded {
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
fn resolve_appends_and_cannot_make_succeeded() {
    let mut bench = Bench::running(command_spec());
    bench.end(End::Exit(0)).settle();
    assert_eq!(bench.state(), State::EndedUnclaimed);
    bench.tell(Command::Resolve { to: Resolve::Accepted, because: "seen".to_owned() });
    assert_eq!(bench.state(), State::Accepted);
    let sealed = bench.session.attempt().sealed.clone().unwrap();
    assert_eq!(sealed.judgement.state, State::EndedUnclaimed, "the sealed outcome is kept");
}

#[test]
fn a_newer_instruction_supersedes_and_the_next_attempt_runs_on_the_same_launch() {
    let mut bench = Bench::running(spec());
    let send = Command::Send {
        key: "k".to_owned(),
        text: "rather this".to_owned(),
        mode: SendMode::Supersede,
    };
    bench.tell(send);
    assert_eq!(bench.session.attempts.len(), 2);
    let first = bench.session.attempts[0].sealed.clone().unwrap();
    assert_eq!(first.judgement.state, State::Superseded);
    assert_eq!(bench.session.launches.len(), 1);
    assert_eq!(bench.state(), State::Working);
}

#[test]
fn exit0_is_done_only_where_that_was_said() {
    let done = Spec { exit0: provost_core::session::Exit0::IsDone, ..command_spec() };
    let mut bench = Bench::running(done.clone());
    bench.end(End::Exit(0)).settle();
    assert_eq!(bench.state(), State::Completed);
    let mut bench = Bench::running(done);
    bench.end(End::Exit(3)).settle();
    assert_eq!(bench.state(), State::Failed);
}
