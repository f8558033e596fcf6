//! From preparing the worktree to a running process, and the observed state of that process.

use provost_core::{
    ids::LaunchId,
    lifecycle::{Activity, Cause, ClaimKind, Flag, ProcessFact, State},
    session::{
        LaunchPhase, LaunchReason, ProcessExit, ProcessIdentity, SendMode, Session, SessionCommand,
        SessionEffect, SessionRejection, SessionSpec, SetupState, StopStep, StoppedBy,
        StreamSignal, WorkLocation,
    },
};

use crate::kit::{TestSession, command_spec, send, snapshot, spec};

fn prepared() -> SessionCommand {
    SessionCommand::WorkPrepared { cwd: "/work".to_owned(), base: Some(snapshot("old")) }
}

fn setup(failure: Option<&str>) -> SessionCommand {
    SessionCommand::SetupFinished { attempt: 1, failure: failure.map(str::to_owned) }
}

fn with_setup() -> SessionSpec {
    SessionSpec { setup: Some("make".to_owned()), ..spec() }
}

/// The setup effect of the first attempt.
const SET_UP: SessionEffect = SessionEffect::RunSetup { attempt: 1 };
const PREPARE: SessionEffect = SessionEffect::PrepareWork { attempt: 1 };

fn prepares(effect: &SessionEffect) -> bool {
    matches!(effect, SessionEffect::PrepareWork { .. })
}

fn started(launch: LaunchId) -> SessionCommand {
    let child = ProcessIdentity { pid: 5, start_time: 6, boot_id: "boot".to_owned() };
    SessionCommand::LaunchStarted { launch, holder: child.clone(), child }
}

fn why() -> String {
    "why".to_owned()
}

#[test]
fn worktree_then_setup_then_launch() {
    let mut bench = TestSession::new(with_setup());
    assert!(bench.has_effect(&PREPARE) && !bench.has_effect(&SET_UP));
    bench.advance();
    assert!(bench.session.launches.is_empty());
    bench.apply(prepared());
    assert!(!bench.has_effect(&PREPARE) && bench.has_effect(&SET_UP));
    assert!(bench.session.launches.is_empty());
    bench.apply(setup(None));
    assert!(!bench.has_effect(&SET_UP));
    assert_eq!(bench.session.launches[0].why, LaunchReason::First);
    assert!(bench.has_effect(&SessionEffect::StartLaunch(bench.launch())));
    bench.start();
    assert_eq!(bench.session.launches[0].holder.as_ref().map(|holder| holder.pid), Some(4));
}

#[test]
fn launch_waits_for_worktree() {
    let mut bench = TestSession::new(spec());
    bench.advance();
    assert!(bench.session.launches.is_empty());
}

#[test]
fn worktree_is_removed_once_after_seal() {
    let mut bench = TestSession::running(spec());
    bench
        .claim(ClaimKind::Completed)
        .end(ProcessExit::Exit(0))
        .settle()
        .apply(SessionCommand::WorkRemoved);
    assert_eq!(bench.try_apply(SessionCommand::WorkRemoved), Err(SessionRejection::NothingNew));
}

#[test]
fn session_without_worktree_rejects_messages() {
    let branch = "provost/kept".to_owned();
    let work = WorkLocation::Worktree {
        top: "/work".to_owned(),
        path: "/tree".to_owned(),
        branch: branch.clone(),
        copy: Vec::new(),
        base: None,
    };
    for (work, kept) in
        [(work, Some(branch)), (WorkLocation::InPlace { top: "/work".to_owned() }, None)]
    {
        let mut bench = TestSession::running(SessionSpec { work, ..spec() });
        bench.claim(ClaimKind::Completed).end(ProcessExit::Exit(0));
        if kept.is_some() {
            bench.snapshot("new");
        }
        bench.settle().apply(SessionCommand::WorkRemoved);
        let before = bench.session.clone();
        for mode in [SendMode::Continue, SendMode::Supersede] {
            let refused = bench.try_apply(send("more", mode));
            assert_eq!(refused, Err(SessionRejection::WorktreeRemoved(kept.clone())));
        }
        assert_eq!(bench.session, before, "a good session stays what it was");
    }
}

#[test]
fn removed_worktree_error_names_the_branch() {
    let told = |branch: Option<&str>| {
        SessionRejection::WorktreeRemoved(branch.map(str::to_owned)).to_string()
    };
    assert_eq!(told(None), "the session's worktree was removed");
    let named = "the session's worktree was removed; its work is on the branch b";
    assert_eq!(told(Some("b")), named);
}

#[test]
fn unconfirmed_launch_is_stopped_and_tracked() {
    let mut bench = TestSession::new(spec());
    bench.apply(prepared());
    let launch = bench.launch();
    bench.apply(SessionCommand::Cancel { because: why() });
    for step in [StopStep::Interrupt, StopStep::Terminate, StopStep::Kill] {
        assert_eq!((bench.stop_step(), bench.sealed()), (Some(step), false));
        assert!(bench.has_effect(&SessionEffect::StopLaunch(launch, step)));
        bench.advance_clock(9_999);
        assert_eq!(bench.stop_step(), Some(step), "its grace is not over");
        bench.advance_clock(1);
    }
    bench.settle();
    assert_eq!((bench.stop_step(), bench.state()), (Some(StopStep::GivenUp), State::Cancelled));
    assert!(bench.sealed() && bench.has_flag(Flag::ProcessesMayRemain));
    // It may be running: the stop effect stays until the process is known to be gone.
    assert!(bench.has_effect(&SessionEffect::StopLaunch(launch, StopStep::GivenUp)));
    assert!(!bench.session.is_closed());
    bench.apply(SessionCommand::ProcessUnobserved { launch, why: why() });
    assert!(!bench.has_effect(&SessionEffect::StopLaunch(launch, StopStep::GivenUp)));
    assert!(!bench.has_flag(Flag::ProcessesMayRemain), "nothing of it is left");
    assert_eq!(bench.state(), State::Cancelled);
}

#[test]
fn repeated_launch_events_are_ignored() {
    let mut bench = TestSession::new(with_setup());
    bench.apply(prepared());
    assert_eq!(bench.try_apply(prepared()), Err(SessionRejection::NothingNew));
    assert_eq!(
        bench.try_apply(SessionCommand::WorkFailed { reason: why() }),
        Err(SessionRejection::NothingNew)
    );
    bench.apply(setup(None));
    assert_eq!(bench.try_apply(setup(Some("late"))), Err(SessionRejection::NothingNew));
    let launch = bench.launch();
    bench.apply(started(launch));
    assert_eq!(bench.try_apply(started(launch)), Err(SessionRejection::NothingNew));
    let failed = SessionCommand::LaunchFailed { launch, reason: why() };
    assert_eq!(bench.try_apply(failed), Err(SessionRejection::NothingNew));
}

#[test]
fn failed_launch_ends_the_attempt() {
    let failed = |spec, commands: Vec<SessionCommand>| {
        let mut bench = TestSession::new(spec);
        for command in commands {
            bench.apply(command);
        }
        let (_, detail) = bench.session.attempt().stopped.clone().expect("it cannot begin");
        assert_eq!((bench.state(), bench.cause()), (State::Failed, Some(Cause::Launch)));
        assert!(bench.settle().sealed());
        detail
    };
    let launch = TestSession::new(spec()).launch();
    let first = LaunchId { no: 1, ..launch };
    assert_eq!(
        failed(spec(), vec![SessionCommand::WorkFailed { reason: "no room".into() }]),
        "no room"
    );
    assert_eq!(failed(with_setup(), vec![prepared(), setup(Some("no make"))]), "no make");
    let not_found = SessionCommand::LaunchFailed { launch: first, reason: "not found".to_owned() };
    assert_eq!(failed(spec(), vec![prepared(), not_found]), "not found");
}

#[test]
fn failed_preparation_is_retried_next_attempt() {
    let mut bench = TestSession::new(with_setup());
    bench.apply(SessionCommand::WorkFailed { reason: "no such repository".to_owned() }).settle();
    assert!(bench.sealed());
    bench.apply(send("once", SendMode::Continue));
    assert!(
        bench.has_effect(&SessionEffect::PrepareWork { attempt: 2 }),
        "the repository may be there now"
    );
    let set_up = |attempt: u32, failure: Option<&str>| SessionCommand::SetupFinished {
        attempt,
        failure: failure.map(str::to_owned),
    };
    bench.apply(prepared()).apply(set_up(2, Some("no make"))).settle();
    assert_eq!((bench.sealed(), bench.session.attempt().no), (true, 2));
    bench.apply(send("twice", SendMode::Continue));
    assert!(!bench.session.effects().iter().any(prepares), "the worktree exists");
    assert!(
        bench.has_effect(&SessionEffect::RunSetup { attempt: 3 }),
        "its record has another name"
    );
    assert_eq!(
        bench.decide(&set_up(2, None)),
        Err(SessionRejection::NothingNew),
        "that result is late"
    );
    bench.apply(set_up(3, None));
    assert_eq!(bench.session.launches.len(), 1);
    // A finished setup is not repeated.
    assert_eq!(bench.session.setup, SetupState::Done);
}

#[test]
fn decided_attempt_starts_nothing() {
    let cancel = SessionCommand::Cancel { because: "no".to_owned() };
    let mut bench = TestSession::new(with_setup());
    bench.apply(prepared()).apply(cancel.clone());
    assert!(!bench.has_effect(&SET_UP));
    bench.apply(setup(None));
    assert!(bench.session.launches.is_empty());

    let mut bench = TestSession::new(spec());
    bench.apply(cancel).settle();
    assert!(bench.sealed() && !bench.has_effect(&PREPARE));
}

#[test]
fn session_without_setup_does_not_wait() {
    let mut bench = TestSession::new(spec());
    assert_eq!(bench.session.setup, SetupState::NotNeeded);
    assert_eq!(bench.try_apply(setup(Some("forged"))), Err(SessionRejection::NothingNew));
}

#[test]
fn unknown_launch_is_rejected() {
    let mut bench = TestSession::running(spec());
    let launch = LaunchId { no: 9, ..bench.launch() };
    assert_eq!(bench.try_apply(started(launch)), Err(SessionRejection::UnknownLaunch(launch)));
}

#[test]
fn unobservable_process_is_unknown_until_seen() {
    let mut bench = TestSession::running(spec());
    let launch = bench.launch();
    let lost = SessionCommand::ProcessUnknown { launch, why: why() };
    let seen = SessionCommand::ProcessSeen { launch };
    assert_eq!(bench.try_apply(seen.clone()), Err(SessionRejection::NothingNew));
    bench.apply(lost.clone());
    assert_eq!(bench.session.process(), ProcessFact::Unknown);
    assert_eq!(bench.try_apply(lost.clone()), Err(SessionRejection::NothingNew));
    bench.apply(seen.clone());
    assert_eq!(bench.session.process(), ProcessFact::Alive);
    bench.end(ProcessExit::Exit(0));
    assert_eq!(bench.try_apply(lost), Err(SessionRejection::NothingNew), "an end is never doubted");
    assert_eq!(bench.try_apply(seen), Err(SessionRejection::NothingNew));
}

#[test]
fn first_wait_status_wins() {
    let mut bench = TestSession::running(spec());
    let launch = bench.launch();
    bench.exit(ProcessExit::Exit(3), StoppedBy::Itself);
    let again =
        SessionCommand::ProcessEnded { launch, end: ProcessExit::Exit(0), by: StoppedBy::Itself };
    assert_eq!(bench.try_apply(again), Err(SessionRejection::NothingNew));
    assert_eq!(bench.session.process(), ProcessFact::ExitN);
}

#[test]
fn process_tree_ends_once_after_exit() {
    let mut bench = TestSession::running(spec());
    let launch = bench.launch();
    let gone = SessionCommand::ProcessTreeGone { launch, leftovers: 0, verified: true };
    assert_eq!(
        bench.try_apply(gone.clone()),
        Err(SessionRejection::NothingNew),
        "its process is alive"
    );
    bench.exit(ProcessExit::Exit(0), StoppedBy::Itself);
    bench.apply(gone.clone());
    assert_eq!(bench.try_apply(gone), Err(SessionRejection::NothingNew));
}

#[test]
fn unobserved_exit_has_unknown_code() {
    let mut bench = TestSession::running(spec());
    let launch = bench.launch();
    let unobserved = SessionCommand::ProcessUnobserved { launch, why: why() };
    bench.apply(unobserved.clone());
    assert_eq!(bench.session.process(), ProcessFact::Unknown);
    assert_eq!(bench.session.activity(), Activity::Exited);
    assert_eq!(bench.state(), State::ExitedWithoutClaim);
    assert!(bench.has_flag(Flag::ExitCodeUnobserved));
    assert_eq!(bench.try_apply(unobserved), Err(SessionRejection::NothingNew));
}

#[test]
fn failed_launch_has_no_stream_or_tree() {
    let mut bench = TestSession::new(spec());
    bench.apply(prepared());
    let launch = bench.launch();
    bench.apply(SessionCommand::LaunchFailed { launch, reason: why() });
    let unobserved = SessionCommand::ProcessUnobserved { launch, why: why() };
    assert_eq!(bench.try_apply(unobserved), Err(SessionRejection::NothingNew));
    assert!(bench.session.launches[0].is_gone());
}

#[test]
fn kill_by_provost_counts_as_clean_exit() {
    let mut bench = TestSession::running(command_spec());
    bench.apply(SessionCommand::Stop).end_by(ProcessExit::Signal(15), StoppedBy::Provost);
    assert_eq!(bench.session.process(), ProcessFact::Exit0);
    assert_eq!((bench.state(), bench.cause()), (State::Stopped, None));
    assert!(!bench.has_flag(Flag::ExitCodeUnobserved));
}

#[test]
fn journal_is_followed_until_stream_and_tree_end() {
    let follow = |bench: &TestSession| bench.has_effect(&SessionEffect::Follow(bench.launch()));
    let mut bench = TestSession::running(spec());
    let launch = bench.launch();
    assert!(follow(&bench));
    bench.exit(ProcessExit::Exit(0), StoppedBy::Itself);
    assert!(follow(&bench));
    bench.apply(SessionCommand::ProcessTreeGone { launch, leftovers: 0, verified: true });
    assert!(follow(&bench), "its last lines may be under way");
    bench.signal(StreamSignal::Closed);
    assert!(!follow(&bench));

    let mut bench = TestSession::running(spec());
    bench.exit(ProcessExit::Exit(0), StoppedBy::Itself).signal(StreamSignal::Closed);
    assert!(follow(&bench), "its process tree may be alive");
}

#[test]
fn instruction_to_ended_agent_gets_new_launch() {
    let mut bench = TestSession::running(spec());
    bench.claim(ClaimKind::Completed).end(ProcessExit::Exit(0)).settle();
    bench.apply(send("more", SendMode::Continue));
    let launch = bench.session.current_launch().unwrap();
    assert_eq!((launch.id.no, launch.attempt), (2, 2));
    assert_eq!((launch.why, &launch.phase), (LaunchReason::Instruction, &LaunchPhase::Pending));
}

#[test]
fn late_exit_unblocks_the_session() {
    let mut bench = TestSession::running(spec());
    bench.apply(SessionCommand::Cancel { because: "no".to_owned() }).settle();
    assert!(bench.sealed() && bench.session.launches[0].may_be_running(), "it could not be ended");
    bench.end_by(ProcessExit::Signal(9), StoppedBy::Provost);
    bench.apply(send("again", SendMode::Continue));
    assert_eq!(bench.session.launches.len(), 2);
    assert_eq!(bench.state(), State::Working);
}

#[test]
fn log_without_opening_folds_to_none() {
    let bench = TestSession::running(spec());
    let log: Vec<_> = bench.log.iter().map(|(at, event)| (*at, event)).collect();
    assert_eq!(Session::fold(bench.session.id, log.clone()), Some(bench.session.clone()));
    assert_eq!(Session::fold(bench.session.id, log[1..].iter().copied()), None);
    assert_eq!(Session::fold(bench.session.id, []), None);
}
