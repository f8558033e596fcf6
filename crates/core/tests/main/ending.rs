//! Stopping processes, sealing outcomes, and changes caused by time alone.

use provost_core::{
    lifecycle::{Cause, ClaimKind, Flag, State},
    request::Fate,
    session::{
        Afterwards, ClaimSource, Command, Driver, Due, Effect, End, EndedBy, Exit0, HookEnd,
        MessageKind, Rejected, Resolve, Signal, Spec, StopStep, StopWhy, TurnEnd,
    },
    verdict::CheckEnd,
};

use crate::kit::{Bench, OVER, checked, command_spec, question, snapshot, spec};

fn cancel() -> Command {
    Command::Cancel { because: "no".to_owned() }
}

fn resolve(to: Resolve) -> Command {
    Command::Resolve { to, because: "seen".to_owned() }
}

fn named_turn() -> Signal {
    Signal::TurnStarted { turn: Some("u".to_owned()) }
}

fn due(bench: &Bench) -> Option<(u64, Due)> {
    bench.session.deadline().map(|(at, due)| (at - bench.now.mono_ms, due))
}

#[test]
fn an_agent_is_interrupted_first_and_a_plain_command_terminated() {
    for (spec, first) in [(spec(), StopStep::Interrupt), (command_spec(), StopStep::Terminate)] {
        let mut bench = Bench::running(spec);
        bench.tell(Command::Stop);
        assert_eq!(bench.step(), Some(first));
        assert!(bench.owes(&Effect::StopLaunch(bench.launch(), first)));
        assert_eq!(bench.session.launches[0].stop.unwrap().why, StopWhy::Operator);
    }
}

#[test]
fn an_agent_whose_turn_is_over_need_not_be_interrupted() {
    let mut bench = Bench::running(spec());
    bench.claim(ClaimKind::NeedsInput).signal(OVER).tell(Command::Stop);
    assert_eq!(bench.step(), Some(StopStep::Terminate));
    bench.pass(9_999);
    assert_eq!(bench.step(), Some(StopStep::Terminate), "the next step has its grace");
    bench.pass(1);
    assert_eq!(bench.step(), Some(StopStep::Kill));
}

#[test]
fn a_process_is_stopped_once_and_only_while_it_may_live() {
    let mut bench = Bench::running(spec());
    bench.tell(Command::Stop);
    assert_eq!(bench.try_tell(Command::Stop), Err(Rejected::Nothing));
    bench.end(End::Exit(0));
    assert_eq!(bench.try_tell(Command::Stop), Err(Rejected::NotRunning));
    assert!(!bench.session.effects().iter().any(|e| matches!(e, Effect::StopLaunch(..))));
}

#[test]
fn a_stop_that_was_given_up_owes_nothing_more_and_leaves_a_working_agent_working() {
    let mut bench = Bench::running(spec());
    bench.tell(Command::Stop).pass(10_000).pass(10_000).pass(10_000).pass(1_000_000);
    assert_eq!(bench.step(), Some(StopStep::GivenUp));
    assert!(!bench.session.effects().iter().any(|e| matches!(e, Effect::StopLaunch(..))));
    assert_eq!(bench.state(), State::Working);
    assert!(bench.session.attempt().stopped.is_none());
}

#[test]
fn an_idle_agent_is_given_up_only_after_its_stop_was() {
    let mut bench = Bench::running(spec());
    bench.signal(OVER).signal(OVER);
    for step in [StopStep::Terminate, StopStep::Kill] {
        assert_eq!((bench.step(), bench.state()), (Some(step), State::Idle));
        bench.pass(10_000);
    }
    assert_eq!((bench.step(), bench.state()), (Some(StopStep::GivenUp), State::Failed));
    assert_eq!(bench.cause(), Some(Cause::Launch));
}

#[test]
fn a_cancelled_attempt_is_sealed_when_its_process_is_gone() {
    let mut bench = Bench::running(spec());
    bench.tell(cancel()).pass(9_000);
    assert!(!bench.sealed());
    bench.end_by(End::Exit(0), EndedBy::Provost).pass(50);
    assert!(bench.sealed());
}

#[test]
fn a_resolved_attempt_is_sealed_at_once_and_its_process_ended() {
    for afterwards in [Afterwards::Close, Afterwards::Park] {
        let mut bench = Bench::running(Spec { afterwards, ..spec() });
        bench.tell(resolve(Resolve::Accepted));
        assert!(bench.sealed());
        assert_eq!(bench.state(), State::Accepted);
        assert_eq!(bench.step(), Some(StopStep::Interrupt));
    }
}

#[test]
fn an_operator_may_resolve_to_accepted_failed_or_cancelled() {
    let states = [
        (Resolve::Accepted, State::Accepted),
        (Resolve::Failed, State::Failed),
        (Resolve::Cancelled, State::Cancelled),
    ];
    for (to, state) in states {
        let mut bench = Bench::running(command_spec());
        bench.end(End::Exit(0)).tell(resolve(to));
        assert_eq!((bench.state(), bench.session.state()), (state, state));
        assert!(bench.sealed());
    }
}

#[test]
fn what_has_ended_cannot_be_cancelled() {
    let mut bench = Bench::running(command_spec());
    bench.claim(ClaimKind::Completed).end(End::Exit(0)).settle();
    assert_eq!(bench.try_tell(cancel()), Err(Rejected::Sealed("completed")));
}

#[test]
fn a_finished_process_is_closed_or_parked_as_was_said() {
    for (afterwards, stopped) in [(Afterwards::Close, true), (Afterwards::Park, false)] {
        let mut bench = Bench::running(Spec { afterwards, ..spec() });
        bench.claim(ClaimKind::Completed).signal(OVER).pass(50);
        assert!(bench.sealed());
        let why = bench.session.launches[0].stop.map(|stop| stop.why);
        assert_eq!(why, stopped.then_some(StopWhy::Finished));
    }
}

#[test]
fn a_process_that_ended_after_the_seal_is_not_stopped() {
    let mut bench = Bench::running(Spec { afterwards: Afterwards::Park, ..spec() });
    bench.claim(ClaimKind::Completed).signal(OVER).pass(50).end(End::Exit(0));
    bench.tell(resolve(Resolve::Accepted));
    assert_eq!(bench.step(), None);

    let mut bench = Bench::running(spec());
    bench.end(End::Exit(0)).tell(cancel());
    assert_eq!(bench.step(), None, "it had ended before it was cancelled");
}

#[test]
fn a_parked_process_is_ended_when_its_session_is_resolved() {
    let mut bench = Bench::running(Spec { afterwards: Afterwards::Park, ..spec() });
    bench.claim(ClaimKind::Completed).signal(OVER).pass(50);
    bench.tell(resolve(Resolve::Failed));
    assert_eq!(bench.session.launches[0].stop.unwrap().why, StopWhy::Finished);
}

#[test]
fn an_end_whose_output_may_be_under_way_settles_longer() {
    for (settle_ms, drain_ms, window) in [(50, 2_000, 2_000), (3_000, 2_000, 3_000)] {
        let mut spec = command_spec();
        (spec.bounds.settle_ms, spec.bounds.drain_ms) = (settle_ms, drain_ms);
        let mut bench = Bench::running(spec);
        bench.exit(End::Exit(0), EndedBy::Itself);
        assert!(bench.has(Flag::SettleFirst));
        assert_eq!(due(&bench), Some((window, Due::Seal)));
        bench.pass(window - 1);
        assert!(!bench.sealed());
        bench.pass(1);
        assert!(bench.sealed());
    }
}

#[test]
fn a_leftover_process_is_ended_before_the_seal() {
    let mut bench = Bench::running(command_spec());
    bench.signal(Signal::Closed);
    assert_eq!(due(&bench), Some((10_000, Due::StreamSettle)));
    bench.pass(9_999);
    assert_eq!(bench.step(), None);
    bench.pass(1);
    assert_eq!(bench.state(), State::EndedUnclaimed);
    assert!(bench.has(Flag::ReapLeftoverPid));
    assert_eq!(due(&bench), Some((10_000, Due::Escalation)));
    bench.pass(9_000);
    assert!(!bench.sealed(), "its process is alive");
    bench.settle();
    assert!(bench.sealed(), "it could not be ended");
}

#[test]
fn what_is_waited_for_decides_which_deadline_is_next() {
    let mut bench = Bench::new(Spec { afterwards: Afterwards::Park, ..spec() });
    assert_eq!(due(&bench), None);
    bench.tell(Command::WorkPrepared { cwd: "/work".to_owned(), base: Some(snapshot("old")) });
    assert_eq!(due(&bench), None, "a pending launch cannot be silent");
    bench.pass(5_000).start();
    let silence = Some((300_000, Due::Silence(bench.launch())));
    assert_eq!(due(&bench), silence, "the window begins with the start");
    bench.pass(5_000).signal(Signal::TurnStarted { turn: None });
    assert_eq!(due(&bench), silence, "and anew with whatever is heard");
    bench.signal(Signal::Asked(question("q")));
    assert_eq!(due(&bench), None, "it waits for the user");
    bench.signal(Signal::Withdrawn { native: "q".to_owned() });
    assert_eq!(due(&bench), silence);
    bench.claim(ClaimKind::NeedsInput).signal(OVER);
    assert_eq!(due(&bench), None, "its turn is over");
    bench.claim(ClaimKind::Completed);
    assert_eq!(due(&bench), Some((50, Due::Seal)));
    bench.pass(50);
    assert_eq!(due(&bench), None, "nothing is waited for of a parked agent");
    bench.tell(Command::Stop);
    assert_eq!(due(&bench), Some((10_000, Due::Escalation)), "a stop continues after the seal");
}

#[test]
fn nothing_is_due_of_an_agent_that_ended_in_need_of_input() {
    let mut bench = Bench::running(spec());
    bench.claim(ClaimKind::NeedsInput).end(End::Exit(0));
    assert_eq!((bench.state(), due(&bench)), (State::NeedsInput, None));
}

#[test]
fn silence_is_not_heard_of_what_has_ended() {
    let mut bench = Bench::running(command_spec());
    let (launch, heard_ms) = (bench.launch(), bench.now.mono_ms);
    bench.exit(End::Exit(0), EndedBy::Itself);
    let silence = Command::Silence { launch, heard_ms };
    bench.now.mono_ms += 300_000;
    assert_eq!(bench.decide(&silence), Err(Rejected::Nothing));
}

#[test]
fn silence_is_heard_once_and_not_before_its_window_is_over() {
    let mut bench = Bench::running(command_spec());
    let (launch, heard_ms) = (bench.launch(), bench.now.mono_ms);
    let silence = Command::Silence { launch, heard_ms };
    bench.pass(299_999);
    assert_eq!(bench.try_tell(silence.clone()), Err(Rejected::Nothing));
    bench.pass(1).tell(silence.clone());
    assert_eq!(bench.state(), State::Stalled);
    assert_eq!(bench.try_tell(silence), Err(Rejected::Nothing));
}

#[test]
fn a_time_limit_counts_from_when_the_process_runs_and_ends_with_a_decision() {
    let mut limited = spec();
    limited.bounds.time_limit_ms = Some(1_000);
    let mut bench = Bench::new(limited.clone());
    bench.tell(Command::WorkPrepared { cwd: "/work".to_owned(), base: None }).pass(5_000);
    assert_eq!((bench.state(), due(&bench)), (State::Working, None));
    bench.start();
    assert_eq!(due(&bench), Some((1_000, Due::TimeLimit)));
    bench.pass(1_000);
    assert_eq!((bench.state(), bench.cause()), (State::Failed, Some(Cause::Timeout)));
    assert_eq!(
        bench.session.attempt().stopped.as_ref().unwrap().1,
        "the time limit of 1000 ms was reached"
    );

    let mut bench = Bench::running(limited);
    bench.tell(cancel()).pass(5_000);
    assert_eq!(bench.state(), State::Cancelled);
    assert!(bench.session.attempt().stopped.is_none());
}

#[test]
fn work_that_is_over_costs_no_more_time() {
    let mut limited = checked();
    limited.bounds.time_limit_ms = Some(1_000);
    limited.checks.clear();
    limited.bounds.settle_ms = 5_000;
    let mut bench = Bench::running(limited);
    bench.claim(ClaimKind::Completed).signal(OVER).pass(4_999);
    assert_eq!((bench.state(), bench.sealed()), (State::Completed, false));
}

#[test]
fn exit_0_completes_only_what_ended_by_itself_and_claimed_no_end() {
    let lenient = Spec { exit0: Exit0::IsDone, ..command_spec() };
    let mut working = Bench::running(lenient.clone());
    working.claim(ClaimKind::Working).end(End::Exit(0));
    let claim = working.session.attempt().claim.clone().unwrap();
    assert_eq!((claim.kind, claim.source), (ClaimKind::Completed, ClaimSource::Policy));

    let mut failed = Bench::running(lenient.clone());
    failed.claim(ClaimKind::Failed).end(End::Exit(0));
    assert_eq!((failed.state(), failed.cause()), (State::Failed, Some(Cause::SelfReported)));

    let mut stopped = Bench::running(lenient.clone());
    stopped.tell(Command::Stop).end_by(End::Exit(0), EndedBy::Provost);
    assert_eq!(stopped.state(), State::Stopped);

    let mut cancelled = Bench::running(lenient);
    cancelled.tell(cancel()).end(End::Exit(0));
    assert!(cancelled.session.attempt().claim.is_none());
}

#[test]
fn exit_0_is_done_where_that_was_said_or_only_checks_can_tell() {
    let said = |exit0, driver, checks: &[&str]| {
        let mut spec = Spec { exit0, ..spec() };
        spec.agent.driver = driver;
        spec.checks = checks.iter().map(|check| (*check).to_owned()).collect();
        spec.exit0_is_done()
    };
    assert!(said(Exit0::IsDone, Driver::Jsonl, &[]));
    assert!(said(Exit0::IsDone, Driver::Command, &["check"]));
    assert!(said(Exit0::SaysNothing, Driver::Command, &["check"]));
    assert!(!said(Exit0::SaysNothing, Driver::Command, &[]));
    assert!(!said(Exit0::SaysNothing, Driver::Jsonl, &["check"]), "it has a way to say so");
}

#[test]
fn an_agent_that_cannot_be_looked_at_is_not_asked_for_its_result() {
    let mut bench = Bench::running(spec());
    let launch = bench.launch();
    bench.tell(Command::ProcessUnknown { launch, why: "why".to_owned() }).signal(OVER);
    assert_eq!(bench.state(), State::Idle);
    assert!(bench.session.attempt().result_asked.is_none());
    bench.tell(Command::ProcessSeen { launch });
    assert!(bench.session.attempt().result_asked.is_some());
    assert_eq!(bench.step(), None, "it has time to report");
    let message = bench.session.messages.last().unwrap();
    assert_eq!((message.kind, message.key.as_str()), (MessageKind::ResultWanted, "result-1-0"));
}

#[test]
fn an_agent_with_people_at_its_screen_is_neither_asked_nor_closed_until_they_left() {
    let mut bench = Bench::running(spec());
    let launch = bench.launch();
    let people = |people| Command::PeopleAttached { launch, people };
    bench.tell(people(1)).signal(OVER);
    assert_eq!(bench.state(), State::Idle);
    assert!(bench.session.attempt().result_asked.is_none());
    assert_eq!(bench.try_tell(people(1)), Err(Rejected::Nothing));
    bench.tell(people(0));
    assert!(bench.session.attempt().result_asked.is_some());

    bench.tell(people(2)).claim(ClaimKind::Completed).signal(OVER).settle();
    assert!(bench.session.attempt().is_sealed());
    assert_eq!(bench.step(), None, "its process keeps running for the viewers");
    bench.tell(people(0));
    assert_eq!(bench.session.launches[0].stop.unwrap().why, StopWhy::Finished);
}

#[test]
fn what_people_at_the_screen_settle_is_answered_there_and_not_withdrawn() {
    for (people, fate) in [(0, Fate::Withdrawn), (1, Fate::AnsweredElsewhere)] {
        let mut bench = Bench::running(spec());
        let launch = bench.launch();
        bench
            .signal(Signal::Asked(question("q")))
            .try_tell(Command::PeopleAttached { launch, people })
            .ok();
        bench.signal(Signal::Withdrawn { native: "q".to_owned() });
        assert_eq!(bench.session.requests[0].fate, fate);
    }
}

#[test]
fn people_at_its_screen_keep_no_agent_from_being_stopped() {
    let mut bench = Bench::running(spec());
    bench.tell(Command::PeopleAttached { launch: bench.launch(), people: 1 }).tell(cancel());
    assert!(bench.step().is_some());
}

#[test]
fn work_that_went_back_makes_the_agent_be_asked_for_its_result_again() {
    let mut bench = Bench::running(checked());
    bench.signal(OVER).claim(ClaimKind::Completed).signal(OVER);
    bench.verify("new", CheckEnd::Exit(1)).signal(OVER);
    assert_eq!((bench.state(), bench.step()), (State::Working, None));
    assert_eq!(bench.session.messages.last().unwrap().key, "result-1-1");
}

#[test]
fn an_agent_that_is_deaf_to_the_question_for_its_result_is_closed() {
    let mut deaf = Bench::running(spec());
    deaf.signal(OVER).hear_silence();
    assert_eq!(deaf.session.launches[0].stop.unwrap().why, StopWhy::Unclaimed);

    let mut busy = Bench::running(spec());
    busy.signal(OVER).signal(named_turn()).hear_silence();
    assert_eq!((busy.state(), busy.step()), (State::Stalled, None));

    let mut never_asked = Bench::running(spec());
    never_asked.hear_silence();
    assert_eq!((never_asked.state(), never_asked.step()), (State::Stalled, None));
}

#[test]
fn an_error_end_of_a_turn_is_not_the_agents_word_and_its_word_no_error() {
    let mut said = Bench::running(spec());
    said.claim(ClaimKind::Failed).signal(OVER);
    assert_eq!((said.state(), said.cause()), (State::Failed, Some(Cause::SelfReported)));

    let mut erred = Bench::running(spec());
    let end = TurnEnd::Error("quota".to_owned());
    erred.signal(Signal::TurnEnded { turn: None, end, usage: None, says: None });
    let claim = erred.session.attempt().claim.clone().unwrap();
    assert_eq!((claim.source, claim.text.as_deref()), (ClaimSource::TurnError, Some("quota")));
    assert_eq!(erred.cause(), Some(Cause::AgentError));
}

#[test]
fn a_session_is_closed_when_nothing_is_owed_any_more() {
    let mut bench = Bench::running(Spec { afterwards: Afterwards::Park, ..spec() });
    run_hooks(&mut bench);
    bench.claim(ClaimKind::Completed).signal(OVER);
    assert!(!bench.session.is_closed(), "it is not sealed");
    bench.pass(50);
    assert!(
        bench.sealed() && !bench.session.is_closed(),
        "a hook is pending and the process is alive"
    );
    run_hooks(&mut bench);
    assert!(!bench.session.is_closed(), "its process is alive");
    let launch = bench.launch();
    bench.exit(End::Exit(0), EndedBy::Itself).signal(Signal::Closed);
    assert!(!bench.session.is_closed(), "its process tree may be alive");
    bench.tell(Command::TreeGone { launch, leftovers: 0, verified: true });
    assert!(bench.session.is_closed());
}

#[test]
fn a_session_that_waits_for_a_person_is_not_closed() {
    let mut bench = Bench::running(spec());
    bench.signal(Signal::InputSeen { key: "instruction-1".to_owned() });
    bench.claim(ClaimKind::NeedsInput).end(End::Exit(0));
    run_hooks(&mut bench);
    assert!(bench.session.effects().is_empty() && !bench.session.is_closed());
}

fn run_hooks(bench: &mut Bench) {
    for hook in bench.session.hooks.clone() {
        bench.tell(Command::HookFinished { key: hook.key, end: HookEnd::Exit(0) });
    }
}
