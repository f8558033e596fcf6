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
    let mut harness = TestSession::new(with_setup());
    assert!(harness.has_effect(&PREPARE) && !harness.has_effect(&SET_UP));
    harness.advance();
    assert!(harness.session.launches.is_empty());
    harness.apply(prepared());
    assert!(!harness.has_effect(&PREPARE) && harness.has_effect(&SET_UP));
    assert!(harness.session.launches.is_empty());
    harness.apply(setup(None));
    assert!(!harness.has_effect(&SET_UP));
    assert_eq!(harness.session.launches[0].why, LaunchReason::First);
    assert!(harness.has_effect(&SessionEffect::StartLaunch(harness.launch())));
    harness.start();
    assert_eq!(harness.session.launches[0].holder.as_ref().map(|holder| holder.pid), Some(4));
}

#[test]
fn launch_waits_for_worktree() {
    let mut harness = TestSession::new(spec());
    harness.advance();
    assert!(harness.session.launches.is_empty());
}

#[test]
fn worktree_is_removed_once_after_seal() {
    let mut harness = TestSession::running(spec());
    harness
        .claim(ClaimKind::Completed)
        .end(ProcessExit::Exit(0))
        .settle()
        .apply(SessionCommand::WorkRemoved);
    assert_eq!(harness.try_apply(SessionCommand::WorkRemoved), Err(SessionRejection::NothingNew));
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
        let mut harness = TestSession::running(SessionSpec { work, ..spec() });
        harness.claim(ClaimKind::Completed).end(ProcessExit::Exit(0));
        if kept.is_some() {
            harness.snapshot("new");
        }
        harness.settle().apply(SessionCommand::WorkRemoved);
        let before = harness.session.clone();
        for mode in [SendMode::Continue, SendMode::Supersede] {
            let refused = harness.try_apply(send("more", mode));
            assert_eq!(refused, Err(SessionRejection::WorktreeRemoved(kept.clone())));
        }
        assert_eq!(harness.session, before, "a good session stays what it was");
    }
}

#[test]
fn removed_worktree_error_names_the_branch() {
    let error = |branch: Option<&str>| {
        SessionRejection::WorktreeRemoved(branch.map(str::to_owned)).to_string()
    };
    assert_eq!(error(None), "the session's worktree was removed");
    let named = "the session's worktree was removed; its work is on the branch b";
    assert_eq!(error(Some("b")), named);
}

#[test]
fn unconfirmed_launch_is_stopped_and_tracked() {
    let mut harness = TestSession::new(spec());
    harness.apply(prepared());
    let launch = harness.launch();
    harness.apply(SessionCommand::Cancel { because: why() });
    for step in [StopStep::Interrupt, StopStep::Terminate, StopStep::Kill] {
        assert_eq!((harness.stop_step(), harness.sealed()), (Some(step), false));
        assert!(harness.has_effect(&SessionEffect::StopLaunch(launch, step)));
        harness.advance_clock(9_999);
        assert_eq!(harness.stop_step(), Some(step), "its grace is not over");
        harness.advance_clock(1);
    }
    harness.settle();
    assert_eq!((harness.stop_step(), harness.state()), (Some(StopStep::GivenUp), State::Cancelled));
    assert!(harness.sealed() && harness.has_flag(Flag::ProcessesMayRemain));
    // It may be running: the stop effect stays until the process is known to be gone.
    assert!(harness.has_effect(&SessionEffect::StopLaunch(launch, StopStep::GivenUp)));
    assert!(!harness.session.is_closed());
    harness.apply(SessionCommand::ProcessUnobserved { launch, why: why() });
    assert!(!harness.has_effect(&SessionEffect::StopLaunch(launch, StopStep::GivenUp)));
    assert!(!harness.has_flag(Flag::ProcessesMayRemain), "nothing of it is left");
    assert_eq!(harness.state(), State::Cancelled);
}

#[test]
fn repeated_launch_events_are_ignored() {
    let mut harness = TestSession::new(with_setup());
    harness.apply(prepared());
    assert_eq!(harness.try_apply(prepared()), Err(SessionRejection::NothingNew));
    assert_eq!(
        harness.try_apply(SessionCommand::WorkFailed { reason: why() }),
        Err(SessionRejection::NothingNew)
    );
    harness.apply(setup(None));
    assert_eq!(harness.try_apply(setup(Some("late"))), Err(SessionRejection::NothingNew));
    let launch = harness.launch();
    harness.apply(started(launch));
    assert_eq!(harness.try_apply(started(launch)), Err(SessionRejection::NothingNew));
    let failed = SessionCommand::LaunchFailed { launch, reason: why() };
    assert_eq!(harness.try_apply(failed), Err(SessionRejection::NothingNew));
}

#[test]
fn failed_launch_ends_the_attempt() {
    let failed = |spec, commands: Vec<SessionCommand>| {
        let mut harness = TestSession::new(spec);
        for command in commands {
            harness.apply(command);
        }
        let (_, detail) = harness.session.attempt().stopped.clone().expect("it cannot begin");
        assert_eq!((harness.state(), harness.cause()), (State::Failed, Some(Cause::Launch)));
        assert!(harness.settle().sealed());
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
    let mut harness = TestSession::new(with_setup());
    harness.apply(SessionCommand::WorkFailed { reason: "no such repository".to_owned() }).settle();
    assert!(harness.sealed());
    harness.apply(send("once", SendMode::Continue));
    assert!(
        harness.has_effect(&SessionEffect::PrepareWork { attempt: 2 }),
        "the repository may be there now"
    );
    let set_up = |attempt: u32, failure: Option<&str>| SessionCommand::SetupFinished {
        attempt,
        failure: failure.map(str::to_owned),
    };
    harness.apply(prepared()).apply(set_up(2, Some("no make"))).settle();
    assert_eq!((harness.sealed(), harness.session.attempt().no), (true, 2));
    harness.apply(send("twice", SendMode::Continue));
    assert!(!harness.session.effects().iter().any(prepares), "the worktree exists");
    assert!(
        harness.has_effect(&SessionEffect::RunSetup { attempt: 3 }),
        "its record has another name"
    );
    assert_eq!(
        harness.decide(&set_up(2, None)),
        Err(SessionRejection::NothingNew),
        "that result is late"
    );
    harness.apply(set_up(3, None));
    assert_eq!(harness.session.launches.len(), 1);
    // A finished setup is not repeated.
    assert_eq!(harness.session.worktree.setup, SetupState::Done);
}

#[test]
fn decided_attempt_starts_nothing() {
    let cancel = SessionCommand::Cancel { because: "no".to_owned() };
    let mut harness = TestSession::new(with_setup());
    harness.apply(prepared()).apply(cancel.clone());
    assert!(!harness.has_effect(&SET_UP));
    harness.apply(setup(None));
    assert!(harness.session.launches.is_empty());

    let mut harness = TestSession::new(spec());
    harness.apply(cancel).settle();
    assert!(harness.sealed() && !harness.has_effect(&PREPARE));
}

#[test]
fn session_without_setup_does_not_wait() {
    let mut harness = TestSession::new(spec());
    assert_eq!(harness.session.worktree.setup, SetupState::NotNeeded);
    assert_eq!(harness.try_apply(setup(Some("forged"))), Err(SessionRejection::NothingNew));
}

#[test]
fn unknown_launch_is_rejected() {
    let mut harness = TestSession::running(spec());
    let launch = LaunchId { no: 9, ..harness.launch() };
    assert_eq!(harness.try_apply(started(launch)), Err(SessionRejection::UnknownLaunch(launch)));
}

#[test]
fn unobservable_process_is_unknown_until_seen() {
    let mut harness = TestSession::running(spec());
    let launch = harness.launch();
    let lost = SessionCommand::ProcessUnknown { launch, why: why() };
    let seen = SessionCommand::ProcessSeen { launch };
    assert_eq!(harness.try_apply(seen.clone()), Err(SessionRejection::NothingNew));
    harness.apply(lost.clone());
    assert_eq!(harness.session.process(), ProcessFact::Unknown);
    assert_eq!(harness.try_apply(lost.clone()), Err(SessionRejection::NothingNew));
    harness.apply(seen.clone());
    assert_eq!(harness.session.process(), ProcessFact::Alive);
    harness.end(ProcessExit::Exit(0));
    assert_eq!(
        harness.try_apply(lost),
        Err(SessionRejection::NothingNew),
        "a recorded end never changes"
    );
    assert_eq!(harness.try_apply(seen), Err(SessionRejection::NothingNew));
}

#[test]
fn first_wait_status_wins() {
    let mut harness = TestSession::running(spec());
    let launch = harness.launch();
    harness.exit(ProcessExit::Exit(3), StoppedBy::Itself);
    let again =
        SessionCommand::ProcessEnded { launch, end: ProcessExit::Exit(0), by: StoppedBy::Itself };
    assert_eq!(harness.try_apply(again), Err(SessionRejection::NothingNew));
    assert_eq!(harness.session.process(), ProcessFact::ExitN);
}

#[test]
fn process_tree_ends_once_after_exit() {
    let mut harness = TestSession::running(spec());
    let launch = harness.launch();
    let gone = SessionCommand::ProcessTreeGone { launch, leftovers: 0, verified: true };
    assert_eq!(
        harness.try_apply(gone.clone()),
        Err(SessionRejection::NothingNew),
        "its process is alive"
    );
    harness.exit(ProcessExit::Exit(0), StoppedBy::Itself);
    harness.apply(gone.clone());
    assert_eq!(harness.try_apply(gone), Err(SessionRejection::NothingNew));
}

#[test]
fn unobserved_exit_has_unknown_code() {
    let mut harness = TestSession::running(spec());
    let launch = harness.launch();
    let unobserved = SessionCommand::ProcessUnobserved { launch, why: why() };
    harness.apply(unobserved.clone());
    assert_eq!(harness.session.process(), ProcessFact::Unknown);
    assert_eq!(harness.session.activity(), Activity::Exited);
    assert_eq!(harness.state(), State::ExitedWithoutClaim);
    assert!(harness.has_flag(Flag::ExitCodeUnobserved));
    assert_eq!(harness.try_apply(unobserved), Err(SessionRejection::NothingNew));
}

#[test]
fn failed_launch_has_no_stream_or_tree() {
    let mut harness = TestSession::new(spec());
    harness.apply(prepared());
    let launch = harness.launch();
    harness.apply(SessionCommand::LaunchFailed { launch, reason: why() });
    let unobserved = SessionCommand::ProcessUnobserved { launch, why: why() };
    assert_eq!(harness.try_apply(unobserved), Err(SessionRejection::NothingNew));
    assert!(harness.session.launches[0].is_gone());
}

#[test]
fn kill_by_provost_counts_as_clean_exit() {
    let mut harness = TestSession::running(command_spec());
    harness.apply(SessionCommand::Stop).end_by(ProcessExit::Signal(15), StoppedBy::Provost);
    assert_eq!(harness.session.process(), ProcessFact::Exit0);
    assert_eq!((harness.state(), harness.cause()), (State::Stopped, None));
    assert!(!harness.has_flag(Flag::ExitCodeUnobserved));
}

#[test]
fn journal_is_followed_until_stream_and_tree_end() {
    let follow =
        |harness: &TestSession| harness.has_effect(&SessionEffect::Follow(harness.launch()));
    let mut harness = TestSession::running(spec());
    let launch = harness.launch();
    assert!(follow(&harness));
    harness.exit(ProcessExit::Exit(0), StoppedBy::Itself);
    assert!(follow(&harness));
    harness.apply(SessionCommand::ProcessTreeGone { launch, leftovers: 0, verified: true });
    assert!(follow(&harness), "its last lines may be under way");
    harness.signal(StreamSignal::Closed);
    assert!(!follow(&harness));

    let mut harness = TestSession::running(spec());
    harness.exit(ProcessExit::Exit(0), StoppedBy::Itself).signal(StreamSignal::Closed);
    assert!(follow(&harness), "its process tree may be alive");
}

#[test]
fn instruction_to_ended_agent_gets_new_launch() {
    let mut harness = TestSession::running(spec());
    harness.claim(ClaimKind::Completed).end(ProcessExit::Exit(0)).settle();
    harness.apply(send("more", SendMode::Continue));
    let launch = harness.session.current_launch().unwrap();
    assert_eq!((launch.id.no, launch.attempt), (2, 2));
    assert_eq!((launch.why, &launch.phase), (LaunchReason::Instruction, &LaunchPhase::Pending));
}

#[test]
fn late_exit_unblocks_the_session() {
    let mut harness = TestSession::running(spec());
    harness.apply(SessionCommand::Cancel { because: "no".to_owned() }).settle();
    assert!(
        harness.sealed() && harness.session.launches[0].may_be_running(),
        "it could not be ended"
    );
    harness.end_by(ProcessExit::Signal(9), StoppedBy::Provost);
    harness.apply(send("again", SendMode::Continue));
    assert_eq!(harness.session.launches.len(), 2);
    assert_eq!(harness.state(), State::Working);
}

#[test]
fn log_without_opening_folds_to_none() {
    let harness = TestSession::running(spec());
    let log: Vec<_> = harness.log.iter().map(|(at, event)| (*at, event)).collect();
    assert_eq!(Session::fold(harness.session.id, log.clone()), Some(harness.session.clone()));
    assert_eq!(Session::fold(harness.session.id, log[1..].iter().copied()), None);
    assert_eq!(Session::fold(harness.session.id, []), None);
}
