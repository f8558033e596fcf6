//! Regressions found by the laws, the model check and the simulator, each as its shortest reproduction.

use provost_core::{
    lifecycle::{ClaimKind, State},
    request::{Fate, Reply},
    session::{
        Afterwards, AttemptOpened, Command, Cursor, Driver, Effect, End, EndedBy, LaunchPhase,
        MessageFate, Rejected, SendMode, Signal, StopStep, TurnEnd,
    },
    verdict::CheckEnd,
};

use crate::kit::{Bench, checked, question, spec};

#[test]
fn a_snapshot_told_twice_does_not_confirm_itself() {
    let mut bench = Bench::running(checked());
    bench.claim(ClaimKind::Completed).end(End::Exit(0));
    let taken = bench.snapshot_taken("new");
    bench.tell(taken.clone());
    assert_eq!(bench.try_tell(taken), Err(Rejected::Nothing));
    bench.check("new", CheckEnd::Exit(0)).pass(60_000);
    assert_eq!(bench.state(), State::Verifying, "the tree needs another snapshot");
}

#[test]
fn a_launch_given_up_before_it_was_seen_to_run_is_killed_when_it_is() {
    let mut bench = Bench::new(spec());
    bench.tell(Command::WorkPrepared { cwd: "/work".to_owned(), base: None });
    bench.tell(Command::Cancel { because: "no".to_owned() });
    bench.pass(10_000).pass(10_000).pass(10_000);
    assert_eq!(bench.step(), Some(StopStep::GivenUp));
    bench.pass(5_000).start();
    let launch = bench.launch();
    assert!(bench.owes(&Effect::StopLaunch(launch, StopStep::Kill)), "it is ended");
    bench.pass(9_999);
    assert_eq!(bench.step(), Some(StopStep::Kill), "it has its time");
    bench.pass(1);
    assert_eq!(bench.step(), Some(StopStep::GivenUp));
}

#[test]
fn a_launch_that_is_seen_to_run_late_is_stopped_as_far_as_the_stop_had_come() {
    let mut bench = Bench::new(spec());
    bench.tell(Command::WorkPrepared { cwd: "/work".to_owned(), base: None });
    bench.tell(Command::Cancel { because: "no".to_owned() }).pass(10_000).start();
    assert_eq!(bench.step(), Some(StopStep::Terminate));
}

#[test]
fn an_older_launch_asks_nobody() {
    let mut bench = Bench::resumed();
    let old = bench.session.launches[0].id;
    let cursor = Cursor { offset: 500, skip: 0 };
    let state = bench.state();
    let late = Signal::Asked(question("late"));
    bench.tell(Command::Observed { launch: old, signal: late, cursor });
    assert_eq!(bench.state(), state);
    assert_eq!(bench.session.requests.last().unwrap().fate, Fate::Void);
}

#[test]
fn an_instruction_for_a_process_that_is_being_ended_gets_the_next_launch() {
    let mut bench = Bench::running(spec());
    bench.claim(ClaimKind::Completed);
    bench
        .signal(Signal::TurnEnded { turn: None, end: TurnEnd::Ok, usage: None, says: None })
        .pass(50);
    assert!(bench.sealed() && bench.session.launches[0].stop.is_some());
    bench.tell(send("go on"));
    assert_eq!(bench.session.launches.len(), 1, "nothing is started beside a living process");
    bench.end_by(End::Signal(15), EndedBy::Provost);
    assert_eq!(bench.session.launches.len(), 2);
    assert_eq!(bench.session.current_launch().unwrap().phase, LaunchPhase::Owed);
    assert_eq!(bench.state(), State::Working);
}

#[test]
fn nothing_is_started_beside_a_process_that_could_not_be_ended() {
    let mut bench = Bench::running(spec());
    bench.tell(Command::Cancel { because: "no".to_owned() }).pass(10_000).pass(10_000).pass(10_000);
    bench.pass(50);
    assert!(bench.sealed());
    bench.tell(send("again")).pass(60_000);
    assert_eq!(bench.session.launches.len(), 1);
    assert_eq!(bench.state(), State::Failed);
}

#[test]
fn what_is_sent_to_an_agent_that_ended_in_need_of_input_resumes_it_once() {
    let mut bench = Bench::running(spec());
    bench.signal(Signal::InputSeen { key: "instruction-1".to_owned() });
    bench.claim(ClaimKind::NeedsInput).end(End::Exit(0)).settle();
    assert_eq!(bench.state(), State::NeedsInput);
    bench.tell(send("use tabs")).tell(Command::Send {
        key: "send-2".to_owned(),
        text: "and spaces".to_owned(),
        mode: SendMode::Continue,
    });
    assert_eq!(bench.session.launches.len(), 2);
}

#[test]
fn a_message_with_a_known_key_is_not_queued_again() {
    let mut bench = Bench::running(spec());
    bench.tell(send("once"));
    assert_eq!(bench.try_tell(send("once")), Err(Rejected::Nothing));
    let queued = bench.session.messages.iter().filter(|m| m.fate == MessageFate::Queued).count();
    assert_eq!(queued, 2, "the instruction and one message");
}

#[test]
fn an_instruction_after_the_place_of_work_was_removed_is_refused_and_never_hangs() {
    let mut bench = Bench::running(spec());
    assert_eq!(bench.try_tell(Command::WorkRemoved), Err(Rejected::Nothing), "it is in use");
    bench.claim(ClaimKind::Completed).end(End::Exit(0)).settle().tell(Command::WorkRemoved);
    assert_eq!(bench.try_tell(send("more")), Err(Rejected::PlaceGone(None)));
    assert_eq!(bench.state(), State::Completed);
    // A ledger written by an older version may contain it anyway.
    let opened = AttemptOpened { no: 2, instruction: Some("more".to_owned()) };
    bench.session.evolve(bench.now, &opened.into());
    bench.pass(0).settle();
    assert_eq!(bench.state(), State::Failed);
}

#[test]
fn a_holder_that_dies_after_it_told_the_end_leaves_no_check_waiting() {
    let mut bench = Bench::running(checked());
    let launch = bench.launch();
    bench.claim(ClaimKind::Completed);
    bench.tell(Command::ProcessEnded { launch, end: End::Exit(0), by: EndedBy::Itself });
    bench.tell(Command::ProcessUnobserved { launch, why: "its holder was killed".to_owned() });
    bench.verify("new", CheckEnd::Exit(0)).settle();
    assert_eq!(bench.state(), State::Succeeded);
    assert!(!bench.session.launches[0].is_followed());
}

#[test]
fn a_snapshot_that_a_new_turn_made_worthless_is_asked_for_under_another_key() {
    let mut bench = Bench::running(checked());
    let over = Signal::TurnEnded { turn: None, end: TurnEnd::Ok, usage: None, says: None };
    bench.claim(ClaimKind::Completed).signal(over.clone());
    let before = bench.session.effects();
    bench.signal(Signal::TurnStarted { turn: None }).signal(over);
    let snapshots = |owed: &[Effect]| {
        owed.iter().find(|e| matches!(e, Effect::TakeSnapshot { .. })).map(Effect::key)
    };
    assert_ne!(snapshots(&before), snapshots(&bench.session.effects()));
}

#[test]
fn evidence_counts_though_a_question_was_opened_meanwhile() {
    let mut bench = Bench::running(checked());
    bench.claim(ClaimKind::Completed);
    bench.signal(Signal::TurnEnded { turn: None, end: TurnEnd::Ok, usage: None, says: None });
    bench.snapshot("new");
    bench.signal(Signal::Asked(question("q")));
    bench.check("new", CheckEnd::Exit(0));
    bench.signal(Signal::Withdrawn { native: "q".to_owned() });
    bench.snapshot("new");
    assert_eq!(bench.state(), State::Succeeded);
}

#[test]
fn a_command_that_moves_again_after_a_silence_is_checked_again() {
    let mut spec = checked();
    spec.agent.driver = Driver::Command;
    spec.afterwards = Afterwards::Park;
    let mut bench = Bench::running(spec);
    let launch = bench.launch();
    bench.claim(ClaimKind::Completed).pass(300_000);
    let heard_ms = bench.session.launches[0].stream.heard.mono_ms;
    bench.tell(Command::Silence { launch, heard_ms }).verify("new", CheckEnd::Exit(0));
    assert_eq!(bench.state(), State::Succeeded);
    let heard_ms = bench.now.mono_ms;
    bench.tell(Command::Silence { launch, heard_ms }).pass(300_000);
    bench.tell(Command::Silence { launch, heard_ms });
    assert_eq!(bench.state(), State::Verifying);
}

#[test]
fn an_idle_agent_that_cannot_be_ended_does_not_stay_idle_for_ever() {
    let mut bench = Bench::running(spec());
    let over = Signal::TurnEnded { turn: None, end: TurnEnd::Ok, usage: None, says: None };
    bench.signal(over.clone()).signal(over).pass(10_000).pass(10_000).settle();
    assert_eq!((bench.state(), bench.sealed()), (State::Failed, true));
}

#[test]
fn an_answer_to_an_earlier_revision_of_a_question_is_refused() {
    let mut bench = Bench::running(spec());
    bench.signal(Signal::Asked(question("q"))).signal(Signal::Asked(question("q")));
    let id = bench.session.requests[0].id;
    let answer =
        |revision| Command::Answer { request: id, revision, reply: Reply::Text("yes".to_owned()) };
    let refused = Rejected::RequestRevision { id, now: 2, given: 1 };
    assert_eq!(bench.try_tell(answer(1)), Err(refused));
    bench.tell(answer(2));
}

#[test]
fn nothing_is_checked_while_a_question_is_open_or_descendants_may_live() {
    let checks = |bench: &Bench| {
        bench.session.effects().iter().any(|e| matches!(e, Effect::TakeSnapshot { .. }))
    };
    let mut bench = Bench::running(checked());
    bench.claim(ClaimKind::Completed).signal(Signal::Asked(question("q")));
    bench.signal(Signal::TurnEnded { turn: None, end: TurnEnd::Ok, usage: None, says: None });
    assert!(!checks(&bench) && !bench.session.wants_verdict(), "a question is open");
    bench.signal(Signal::Withdrawn { native: "q".to_owned() });
    assert!(checks(&bench));
    let launch = bench.launch();
    bench.tell(Command::ProcessEnded { launch, end: End::Exit(0), by: EndedBy::Itself });
    assert!(!checks(&bench), "its descendants may still write");
    bench.tell(Command::TreeGone { launch, leftovers: 0, verified: true });
    assert!(checks(&bench));
}

#[test]
fn a_moving_tree_disputes_only_what_has_ended() {
    let mut spec = checked();
    spec.bounds.snapshots = 0;
    let mut bench = Bench::running(spec);
    bench.claim(ClaimKind::Completed);
    bench.signal(Signal::TurnEnded { turn: None, end: TurnEnd::Ok, usage: None, says: None });
    bench.snapshot("one");
    bench.check("one", CheckEnd::Exit(0));
    bench.snapshot("two");
    assert_eq!(bench.state(), State::Disputed);
    bench.claim(ClaimKind::NeedsInput);
    assert_eq!(bench.state(), State::NeedsInput);
}

fn send(text: &str) -> Command {
    Command::Send { key: "send-1".to_owned(), text: text.to_owned(), mode: SendMode::Continue }
}
