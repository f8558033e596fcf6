//! From preparing the worktree to a running process, and the observed state of that process.

use provost_core::{
    ids::LaunchId,
    lifecycle::{Activity, Cause, ClaimKind, Flag, Process, State},
    session::{
        Command, Effect, End, EndedBy, Identity, LaunchPhase, LaunchWhy, Rejected, SendMode,
        Session, SetupState, Signal, Spec, StopStep, Work,
    },
};

use crate::kit::{Bench, command_spec, send, snapshot, spec};

fn prepared() -> Command {
    Command::WorkPrepared { cwd: "/work".to_owned(), base: Some(snapshot("old")) }
}

fn setup(failure: Option<&str>) -> Command {
    Command::SetupFinished { attempt: 1, failure: failure.map(str::to_owned) }
}

fn with_setup() -> Spec {
    Spec { setup: Some("make".to_owned()), ..spec() }
}

/// The setup effect of the first attempt.
const SET_UP: Effect = Effect::RunSetup { attempt: 1 };
const PREPARE: Effect = Effect::PrepareWork { attempt: 1 };

fn prepares(effect: &Effect) -> bool {
    matches!(effect, Effect::PrepareWork { .. })
}

fn started(launch: LaunchId) -> Command {
    let child = Identity { pid: 5, start_time: 6, boot_id: "boot".to_owned() };
    Command::LaunchStarted { launch, holder: child.clone(), child }
}

fn why() -> String {
    "why".to_owned()
}

#[test]
fn the_place_of_work_comes_first_then_its_setup_then_the_launch() {
    let mut bench = Bench::new(with_setup());
    assert!(bench.owes(&PREPARE) && !bench.owes(&SET_UP));
    bench.advance();
    assert!(bench.session.launches.is_empty());
    bench.tell(prepared());
    assert!(!bench.owes(&PREPARE) && bench.owes(&SET_UP));
    assert!(bench.session.launches.is_empty());
    bench.tell(setup(None));
    assert!(!bench.owes(&SET_UP));
    assert_eq!(bench.session.launches[0].why, LaunchWhy::First);
    assert!(bench.owes(&Effect::StartLaunch(bench.launch())));
    bench.start();
    assert_eq!(bench.session.launches[0].holder.as_ref().map(|holder| holder.pid), Some(4));
}

#[test]
fn nothing_is_launched_into_a_place_that_does_not_stand() {
    let mut bench = Bench::new(spec());
    bench.advance();
    assert!(bench.session.launches.is_empty());
}

#[test]
fn a_place_of_work_is_removed_once_and_after_the_seal() {
    let mut bench = Bench::running(spec());
    bench.claim(ClaimKind::Completed).end(End::Exit(0)).settle().tell(Command::WorkRemoved);
    assert_eq!(bench.try_tell(Command::WorkRemoved), Err(Rejected::Nothing));
}

#[test]
fn nothing_more_is_said_to_a_session_whose_place_of_work_was_removed() {
    let branch = "provost/kept".to_owned();
    let work = Work::Worktree {
        top: "/work".to_owned(),
        path: "/tree".to_owned(),
        branch: branch.clone(),
        copy: Vec::new(),
        base: None,
    };
    for (work, kept) in [(work, Some(branch)), (Work::InPlace { top: "/work".to_owned() }, None)] {
        let mut bench = Bench::running(Spec { work, ..spec() });
        bench.claim(ClaimKind::Completed).end(End::Exit(0));
        if kept.is_some() {
            bench.snapshot("new");
        }
        bench.settle().tell(Command::WorkRemoved);
        let before = bench.session.clone();
        for mode in [SendMode::Continue, SendMode::Supersede] {
            let refused = bench.try_tell(send("more", mode));
            assert_eq!(refused, Err(Rejected::PlaceGone(kept.clone())));
        }
        assert_eq!(bench.session, before, "a good session stays what it was");
    }
}

#[test]
fn a_refusal_names_the_branch_that_holds_the_work() {
    let told = |branch: Option<&str>| Rejected::PlaceGone(branch.map(str::to_owned)).to_string();
    assert_eq!(told(None), "its worktree was removed");
    let named = "its worktree was removed; its work is on the branch b";
    assert_eq!(told(Some("b")), named);
}

#[test]
fn a_start_that_nobody_hears_of_is_ended_step_by_step_and_not_forgotten() {
    let mut bench = Bench::new(spec());
    bench.tell(prepared());
    let launch = bench.launch();
    bench.tell(Command::Cancel { because: why() });
    for step in [StopStep::Interrupt, StopStep::Terminate, StopStep::Kill] {
        assert_eq!((bench.step(), bench.sealed()), (Some(step), false));
        assert!(bench.owes(&Effect::StopLaunch(launch, step)));
        bench.pass(9_999);
        assert_eq!(bench.step(), Some(step), "its grace is not over");
        bench.pass(1);
    }
    bench.settle();
    assert_eq!((bench.step(), bench.state()), (Some(StopStep::GivenUp), State::Cancelled));
    assert!(bench.sealed() && bench.has(Flag::NotVerifiedGone));
    // It may be running: the stop effect stays until the process is known to be gone.
    assert!(bench.owes(&Effect::StopLaunch(launch, StopStep::GivenUp)));
    assert!(!bench.session.is_closed());
    bench.tell(Command::ProcessUnobserved { launch, why: why() });
    assert!(!bench.owes(&Effect::StopLaunch(launch, StopStep::GivenUp)));
    assert!(!bench.has(Flag::NotVerifiedGone), "nothing of it is left");
    assert_eq!(bench.state(), State::Cancelled);
}

#[test]
fn what_was_done_once_is_not_taken_twice() {
    let mut bench = Bench::new(with_setup());
    bench.tell(prepared());
    assert_eq!(bench.try_tell(prepared()), Err(Rejected::Nothing));
    assert_eq!(bench.try_tell(Command::WorkFailed { reason: why() }), Err(Rejected::Nothing));
    bench.tell(setup(None));
    assert_eq!(bench.try_tell(setup(Some("late"))), Err(Rejected::Nothing));
    let launch = bench.launch();
    bench.tell(started(launch));
    assert_eq!(bench.try_tell(started(launch)), Err(Rejected::Nothing));
    let failed = Command::LaunchFailed { launch, reason: why() };
    assert_eq!(bench.try_tell(failed), Err(Rejected::Nothing));
}

#[test]
fn a_start_that_fails_is_the_end_of_the_attempt() {
    let failed = |spec, commands: Vec<Command>| {
        let mut bench = Bench::new(spec);
        for command in commands {
            bench.tell(command);
        }
        let (_, detail) = bench.session.attempt().stopped.clone().expect("it cannot begin");
        assert_eq!((bench.state(), bench.cause()), (State::Failed, Some(Cause::Launch)));
        assert!(bench.settle().sealed());
        detail
    };
    let launch = Bench::new(spec()).launch();
    let first = LaunchId { no: 1, ..launch };
    assert_eq!(failed(spec(), vec![Command::WorkFailed { reason: "no room".into() }]), "no room");
    assert_eq!(failed(with_setup(), vec![prepared(), setup(Some("no make"))]), "no make");
    let not_found = Command::LaunchFailed { launch: first, reason: "not found".to_owned() };
    assert_eq!(failed(spec(), vec![prepared(), not_found]), "not found");
}

#[test]
fn what_could_not_be_prepared_is_tried_again_for_the_next_attempt() {
    let mut bench = Bench::new(with_setup());
    bench.tell(Command::WorkFailed { reason: "no such repository".to_owned() }).settle();
    assert!(bench.sealed());
    bench.tell(send("once", SendMode::Continue));
    assert!(bench.owes(&Effect::PrepareWork { attempt: 2 }), "the repository may be there now");
    let set_up = |attempt: u32, failure: Option<&str>| Command::SetupFinished {
        attempt,
        failure: failure.map(str::to_owned),
    };
    bench.tell(prepared()).tell(set_up(2, Some("no make"))).settle();
    assert_eq!((bench.sealed(), bench.session.attempt().no), (true, 2));
    bench.tell(send("twice", SendMode::Continue));
    assert!(!bench.session.effects().iter().any(prepares), "the worktree exists");
    assert!(bench.owes(&Effect::RunSetup { attempt: 3 }), "its record has another name");
    assert_eq!(bench.decide(&set_up(2, None)), Err(Rejected::Nothing), "that result is late");
    bench.tell(set_up(3, None));
    assert_eq!(bench.session.launches.len(), 1);
    // A finished setup is not repeated.
    assert_eq!(bench.session.setup, SetupState::Done);
}

#[test]
fn nothing_is_begun_for_an_attempt_that_was_decided() {
    let cancel = Command::Cancel { because: "no".to_owned() };
    let mut bench = Bench::new(with_setup());
    bench.tell(prepared()).tell(cancel.clone());
    assert!(!bench.owes(&SET_UP));
    bench.tell(setup(None));
    assert!(bench.session.launches.is_empty());

    let mut bench = Bench::new(spec());
    bench.tell(cancel).settle();
    assert!(bench.sealed() && !bench.owes(&PREPARE));
}

#[test]
fn a_session_without_a_setup_waits_for_none() {
    let mut bench = Bench::new(spec());
    assert_eq!(bench.session.setup, SetupState::NotNeeded);
    assert_eq!(bench.try_tell(setup(Some("forged"))), Err(Rejected::Nothing));
}

#[test]
fn a_launch_of_another_session_is_unknown() {
    let mut bench = Bench::running(spec());
    let launch = LaunchId { no: 9, ..bench.launch() };
    assert_eq!(bench.try_tell(started(launch)), Err(Rejected::UnknownLaunch(launch)));
}

#[test]
fn a_process_that_cannot_be_looked_at_is_unknown_until_it_is_seen() {
    let mut bench = Bench::running(spec());
    let launch = bench.launch();
    let lost = Command::ProcessUnknown { launch, why: why() };
    let seen = Command::ProcessSeen { launch };
    assert_eq!(bench.try_tell(seen.clone()), Err(Rejected::Nothing));
    bench.tell(lost.clone());
    assert_eq!(bench.session.process(), Process::Unknown);
    assert_eq!(bench.try_tell(lost.clone()), Err(Rejected::Nothing));
    bench.tell(seen.clone());
    assert_eq!(bench.session.process(), Process::Alive);
    bench.end(End::Exit(0));
    assert_eq!(bench.try_tell(lost), Err(Rejected::Nothing), "an end is never doubted");
    assert_eq!(bench.try_tell(seen), Err(Rejected::Nothing));
}

#[test]
fn the_first_wait_status_stands() {
    let mut bench = Bench::running(spec());
    let launch = bench.launch();
    bench.exit(End::Exit(3), EndedBy::Itself);
    let again = Command::ProcessEnded { launch, end: End::Exit(0), by: EndedBy::Itself };
    assert_eq!(bench.try_tell(again), Err(Rejected::Nothing));
    assert_eq!(bench.session.process(), Process::ExitN);
}

#[test]
fn a_tree_is_gone_after_the_end_and_once() {
    let mut bench = Bench::running(spec());
    let launch = bench.launch();
    let gone = Command::TreeGone { launch, leftovers: 0, verified: true };
    assert_eq!(bench.try_tell(gone.clone()), Err(Rejected::Nothing), "its process is alive");
    bench.exit(End::Exit(0), EndedBy::Itself);
    bench.tell(gone.clone());
    assert_eq!(bench.try_tell(gone), Err(Rejected::Nothing));
}

#[test]
fn an_end_that_nobody_saw_is_an_end_of_unknown_code() {
    let mut bench = Bench::running(spec());
    let launch = bench.launch();
    let unobserved = Command::ProcessUnobserved { launch, why: why() };
    bench.tell(unobserved.clone());
    assert_eq!(bench.session.process(), Process::Unknown);
    assert_eq!(bench.session.activity(), Activity::Exited);
    assert_eq!(bench.state(), State::EndedUnclaimed);
    assert!(bench.has(Flag::ExitCodeUnobserved));
    assert_eq!(bench.try_tell(unobserved), Err(Rejected::Nothing));
}

#[test]
fn a_launch_that_never_ran_has_no_stream_and_no_tree_to_lose() {
    let mut bench = Bench::new(spec());
    bench.tell(prepared());
    let launch = bench.launch();
    bench.tell(Command::LaunchFailed { launch, reason: why() });
    let unobserved = Command::ProcessUnobserved { launch, why: why() };
    assert_eq!(bench.try_tell(unobserved), Err(Rejected::Nothing));
    assert!(bench.session.launches[0].is_gone());
}

#[test]
fn a_death_that_provost_brought_about_counts_as_a_clean_exit() {
    let mut bench = Bench::running(command_spec());
    bench.tell(Command::Stop).end_by(End::Signal(15), EndedBy::Provost);
    assert_eq!(bench.session.process(), Process::Exit0);
    assert_eq!((bench.state(), bench.cause()), (State::Stopped, None));
    assert!(!bench.has(Flag::ExitCodeUnobserved));
}

#[test]
fn a_journal_is_read_until_both_its_stream_and_its_tree_are_over() {
    let follow = |bench: &Bench| bench.owes(&Effect::Follow(bench.launch()));
    let mut bench = Bench::running(spec());
    let launch = bench.launch();
    assert!(follow(&bench));
    bench.exit(End::Exit(0), EndedBy::Itself);
    assert!(follow(&bench));
    bench.tell(Command::TreeGone { launch, leftovers: 0, verified: true });
    assert!(follow(&bench), "its last lines may be under way");
    bench.signal(Signal::Closed);
    assert!(!follow(&bench));

    let mut bench = Bench::running(spec());
    bench.exit(End::Exit(0), EndedBy::Itself).signal(Signal::Closed);
    assert!(follow(&bench), "its process tree may be alive");
}

#[test]
fn the_next_instruction_to_an_agent_that_ended_gets_a_launch_of_its_own() {
    let mut bench = Bench::running(spec());
    bench.claim(ClaimKind::Completed).end(End::Exit(0)).settle();
    bench.tell(send("more", SendMode::Continue));
    let launch = bench.session.current_launch().unwrap();
    assert_eq!((launch.id.no, launch.attempt), (2, 2));
    assert_eq!((launch.why, &launch.phase), (LaunchWhy::Instruction, &LaunchPhase::Owed));
}

#[test]
fn a_process_that_ended_after_all_haunts_nobody() {
    let mut bench = Bench::running(spec());
    bench.tell(Command::Cancel { because: "no".to_owned() }).settle();
    assert!(bench.sealed() && bench.session.launches[0].may_live(), "it could not be ended");
    bench.end_by(End::Signal(9), EndedBy::Provost);
    bench.tell(send("again", SendMode::Continue));
    assert_eq!(bench.session.launches.len(), 2);
    assert_eq!(bench.state(), State::Working);
}

#[test]
fn a_stream_that_does_not_begin_with_the_opening_is_no_session() {
    let bench = Bench::running(spec());
    let log: Vec<_> = bench.log.iter().map(|(at, event)| (*at, event)).collect();
    assert_eq!(Session::fold(bench.session.id, log.clone()), Some(bench.session.clone()));
    assert_eq!(Session::fold(bench.session.id, log[1..].iter().copied()), None);
    assert_eq!(Session::fold(bench.session.id, []), None);
}
