//! Sessions that the user interrupts or stops, commits of their worktrees, and dismissal of a team's sessions.

use provost_core::{
    ids::TreeId,
    lifecycle::{ClaimKind, Flag, Rule, State},
    session::{
        Command, Driver, Effect, End, EndedBy, Exit0, Membership, Rejected, SendMode, Signal, Spec,
        StopWhy, TurnEnd, Work,
    },
    task::Role,
    verdict::CheckEnd,
};

use crate::kit::{Bench, OVER, checked, command_spec, send, spec};

const BEGINS: Signal = Signal::TurnStarted { turn: None };
const INTERRUPTED: Signal =
    Signal::TurnEnded { turn: None, end: TurnEnd::Interrupted, usage: None, says: None };

#[test]
fn interrupted_turn_waits_for_the_user() {
    let mut limited = spec();
    limited.bounds.time_limit_ms = Some(1_000);
    let mut bench = Bench::running(limited);
    bench.signal(BEGINS).signal(INTERRUPTED).settle().pass(1_000_000);
    assert_eq!((bench.state(), bench.sealed()), (State::Idle, false), "waiting costs no time");
    assert!(bench.has(Flag::Interrupted) && bench.session.awaits_user());
    assert!(bench.session.attempt().result_asked.is_none());
    bench.tell(send("next", SendMode::Continue)).signal(BEGINS);
    assert!(!bench.session.awaits_user());
    bench.signal(OVER);
    assert!(bench.session.attempt().result_asked.is_some(), "this turn is finished");
}

#[test]
fn interrupt_that_came_too_late_does_not_finish_the_turn() {
    let mut bench = Bench::running(spec());
    bench.signal(BEGINS);
    bench.tell(Command::Interrupt { key: "i".to_owned(), text: None });
    // A user at the screen interrupted first.
    bench.signal(INTERRUPTED);
    assert!(bench.session.awaits_user());
    assert!(bench.session.attempt().result_asked.is_none());
    let mut bench = Bench::running(spec());
    bench.signal(BEGINS);
    bench.tell(Command::Interrupt { key: "i".to_owned(), text: None });
    bench.signal(OVER);
    assert!(bench.session.attempt().result_asked.is_some(), "the turn ended first, and well");
}

#[test]
fn stopped_is_what_the_user_stopped_and_a_claim_is_kept() {
    let stop = |mut bench: Bench| {
        bench.tell(Command::Stop).end_by(End::Signal(15), EndedBy::Provost).settle();
        assert!(bench.sealed());
        (bench.state(), bench.session.judgement().rule)
    };
    assert_eq!(stop(Bench::running(command_spec())), (State::Stopped, Rule::Ended));
    let mut claimed = Bench::running(spec());
    claimed.claim(ClaimKind::Completed);
    assert_eq!(stop(claimed).0, State::Completed);
    let mut asks = Bench::running(spec());
    asks.claim(ClaimKind::NeedsInput);
    asks.tell(Command::Stop).end_by(End::Signal(15), EndedBy::Provost).settle();
    assert_eq!(asks.state(), State::NeedsInput);
    let mut died = Bench::running(command_spec());
    died.tell(Command::Stop).end(End::Signal(9)).settle();
    assert_eq!(died.state(), State::Failed, "it died before Provost ended it");
}

#[test]
fn stop_before_the_start_is_stopped_and_no_failed_start() {
    let mut bench = Bench::new(command_spec());
    bench.tell(Command::WorkPrepared { cwd: "/work".to_owned(), base: None });
    assert!(bench.has(Flag::Starting));
    bench.tell(Command::Stop);
    let launch = bench.launch();
    bench.tell(Command::LaunchFailed { launch, reason: "it was called off".to_owned() }).settle();
    assert_eq!((bench.state(), bench.cause()), (State::Stopped, None));
}

#[test]
fn stopped_work_with_checks_is_stopped_once_they_ran() {
    let mut bench = Bench::running(checked());
    bench.tell(Command::Stop).end_by(End::Signal(15), EndedBy::Provost);
    assert_eq!(bench.state(), State::Verifying);
    bench.verify("new", CheckEnd::Exit(1)).settle();
    assert_eq!((bench.state(), bench.cause()), (State::Stopped, None));
}

#[test]
fn answer_resumes_only_what_takes_an_answer() {
    for (driver, flagged) in [(Driver::Jsonl, true), (Driver::Command, false)] {
        let mut spec = spec();
        spec.agent.driver = driver;
        let mut bench = Bench::running(spec);
        bench.claim(ClaimKind::NeedsInput).end(End::Exit(0));
        assert_eq!((bench.state(), bench.has(Flag::AnswerResumes)), (State::NeedsInput, flagged));
    }
}

fn in_worktree() -> Spec {
    let work = Work::Worktree {
        top: "/repo".to_owned(),
        path: "/tree".to_owned(),
        branch: "provost/x".to_owned(),
        copy: Vec::new(),
        base: None,
    };
    Spec { work, exit0: Exit0::IsDone, ..command_spec() }
}

fn commits(bench: &Bench) -> bool {
    bench.session.effects().iter().any(|one| matches!(one, Effect::TakeSnapshot { .. }))
}

#[test]
fn worktree_is_committed_before_the_seal_without_a_check() {
    for (end, state) in [(End::Exit(0), State::Completed), (End::Exit(1), State::Failed)] {
        let mut bench = Bench::running(in_worktree());
        assert!(!commits(&bench), "it works");
        bench.exit(end, EndedBy::Itself).settle();
        assert!(!bench.sealed() && !commits(&bench), "something of it may still write");
        let launch = bench.launch();
        bench.signal(Signal::Closed);
        bench.tell(Command::TreeGone { launch, leftovers: 0, verified: true }).settle();
        assert_eq!((bench.state(), bench.sealed()), (state, false), "{end:?}");
        assert!(commits(&bench));
        bench.snapshot("new").settle();
        assert_eq!((bench.state(), bench.sealed(), commits(&bench)), (state, true, false));
        let sealed = bench.session.attempt().sealed.clone().unwrap();
        assert_eq!(sealed.tree, Some(TreeId("new".to_owned())));
        assert_eq!(bench.session.verification().word(), "none");
    }
}

#[test]
fn commit_that_fails_refutes_nothing_without_a_check() {
    let mut bench = Bench::running(in_worktree());
    bench.end(End::Exit(0));
    let reason = "no room".to_owned();
    bench.tell(Command::SnapshotFailed { attempt: 1, no: 1, reason }).settle();
    assert_eq!((bench.state(), bench.sealed()), (State::Completed, true));
    assert!(!bench.has(Flag::ChecksUnfinished));
}

#[test]
fn what_the_user_stopped_or_cancelled_is_not_committed() {
    for command in [Command::Stop, Command::Cancel { because: "no".to_owned() }] {
        let mut bench = Bench::running(in_worktree());
        bench.tell(command).end_by(End::Signal(15), EndedBy::Provost).settle();
        assert!(bench.sealed() && !commits(&bench));
    }
}

fn member() -> Spec {
    let mut spec = spec();
    spec.agent.settings.member = Some(Membership { role: Role::Worker });
    spec
}

fn dismiss(at_once: bool) -> Command {
    Command::Dismiss { because: "its team is done".to_owned(), at_once }
}

#[test]
fn member_is_ended_with_its_team_once_its_turn_is_over() {
    let mut bench = Bench::running(member());
    bench.tell(Command::MessageLost { key: "instruction-1".to_owned(), reason: "told".to_owned() });
    bench.signal(BEGINS).tell(dismiss(false));
    assert!(bench.session.launches[0].stop.is_none(), "it ends its turn first");
    bench.signal(OVER);
    assert_eq!(bench.session.launches[0].stop.unwrap().why, StopWhy::TeamEnded);
    bench.end_by(End::Signal(15), EndedBy::Provost).settle();
    assert_eq!((bench.state(), bench.sealed()), (State::Stopped, true));

    let mut bench = Bench::running(member());
    bench.signal(BEGINS).tell(dismiss(true));
    assert_eq!(bench.session.launches[0].stop.unwrap().why, StopWhy::TeamEnded);
}

#[test]
fn dismissal_is_for_sessions_that_were_opened_for_a_team() {
    let mut bench = Bench::running(spec());
    assert_eq!(bench.try_tell(dismiss(true)), Err(Rejected::NotOurs));
    let mut bench = Bench::new(member());
    bench.tell(dismiss(false)).settle();
    assert_eq!(bench.state(), State::Cancelled, "it is not started any more");
    let mut bench = Bench::running(member());
    bench.signal(BEGINS).tell(dismiss(false));
    assert_eq!(bench.try_tell(dismiss(false)), Err(Rejected::Nothing));
}
