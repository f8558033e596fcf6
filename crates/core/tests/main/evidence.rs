//! Which snapshots and receipts count, and the message that sends failed work back.

use provost_core::{
    lifecycle::{Cause, ClaimKind, Flag, State},
    session::{
        Afterwards, Command, Driver, Effect, End, EndedBy, MessageKind, Rejected, SendMode,
        Session, Signal, StopWhy,
    },
    verdict::{Caveats, CheckEnd, EmptyDiff, Receipt},
};

use crate::kit::{Bench, OVER, checked, receipt, send, snapshot, spec};

/// A session whose live agent claims completion.
fn done() -> Bench {
    let mut bench = Bench::running(checked());
    bench.claim(ClaimKind::Completed).signal(OVER);
    assert_eq!(bench.state(), State::Verifying);
    bench
}

fn snapshot_failed(no: u32) -> Command {
    Command::SnapshotFailed { attempt: 1, no, reason: "the disk is full".to_owned() }
}

fn owed_proof(session: &Session) -> Option<Effect> {
    let proof = |e: &Effect| matches!(e, Effect::TakeSnapshot { .. } | Effect::RunCheck { .. });
    session.effects().into_iter().find(proof)
}

#[test]
fn a_late_answer_to_an_older_snapshot_changes_nothing() {
    let mut bench = done();
    let taken = bench.snapshot_taken("before");
    bench.signal(Signal::TurnStarted { turn: None }).signal(OVER);
    let before = bench.session.clone();
    for late in [taken, snapshot_failed(1)] {
        assert_eq!(bench.try_tell(late), Err(Rejected::Nothing));
    }
    assert_eq!(bench.session, before);
    bench.verify("after", CheckEnd::Exit(0));
    assert_eq!(bench.session.attempt().verifying.snapshot, Some(snapshot("after")));
}

#[test]
fn a_snapshot_that_failed_is_told_once() {
    let mut bench = Bench::running(checked());
    bench.claim(ClaimKind::Completed).end(End::Exit(0));
    let taken = bench.snapshot_taken("new");
    bench.tell(snapshot_failed(1));
    for again in [taken, snapshot_failed(1)] {
        assert_eq!(bench.try_tell(again), Err(Rejected::Nothing));
    }
}

#[test]
fn a_snapshot_that_nobody_wants_is_nothing() {
    let mut unchecked = Bench::running(spec());
    unchecked.claim(ClaimKind::Completed).signal(OVER);
    assert_eq!(unchecked.decide(&unchecked.snapshot_taken("new")), Err(Rejected::Nothing));

    let mut proved = done();
    proved.verify("new", CheckEnd::Exit(0));
    assert_eq!(proved.decide(&proved.snapshot_taken("new")), Err(Rejected::Nothing));

    let mut cancelled = done();
    cancelled.tell(Command::Cancel { because: "no".to_owned() });
    assert_eq!(owed_proof(&cancelled.session), None);
    for late in [cancelled.snapshot_taken("new"), snapshot_failed(1)] {
        assert_eq!(cancelled.decide(&late), Err(Rejected::Nothing));
    }
}

#[test]
fn a_tree_that_keeps_moving_is_not_looked_at_again() {
    let mut spec = checked();
    spec.bounds.snapshots = 0;
    let mut bench = Bench::running(spec);
    bench.claim(ClaimKind::Completed).end(End::Exit(0));
    bench.snapshot("one").check("one", CheckEnd::Exit(0)).snapshot("two");
    assert_eq!((bench.state(), owed_proof(&bench.session)), (State::Disputed, None));
}

#[test]
fn nothing_is_checked_for_an_attempt_that_was_cancelled() {
    let mut bench = Bench::running(checked());
    bench.tell(Command::Cancel { because: "no".to_owned() });
    bench.claim(ClaimKind::Completed).end(End::Exit(0));
    assert_eq!(owed_proof(&bench.session), None);
}

#[test]
fn a_receipt_that_comes_after_the_seal_is_nothing() {
    let mut spec = checked();
    spec.checks = vec!["check".to_owned(), "slow".to_owned()];
    let mut bench = Bench::running(spec);
    bench.claim(ClaimKind::Completed).end(End::Exit(0));
    bench.verify("new", CheckEnd::Exit(1)).settle();
    assert!(bench.sealed());
    let receipt = receipt("new", "slow", CheckEnd::Exit(0));
    let late = Command::CheckFinished { attempt: 1, receipt };
    assert_eq!(bench.try_tell(late), Err(Rejected::Nothing));
}

#[test]
fn work_that_goes_back_is_proved_from_the_beginning() {
    let mut bench = done();
    bench.verify("new", CheckEnd::Exit(1));
    let verifying = &bench.session.attempt().verifying;
    assert!(verifying.snapshot.is_none() && verifying.receipts.is_empty());
}

#[test]
fn an_agent_that_is_heard_again_after_a_silence_is_proved_from_the_beginning() {
    let mut spec = checked();
    spec.agent.driver = Driver::Command;
    let mut bench = Bench::running(spec);
    bench.claim(ClaimKind::Completed).hear_silence().verify("new", CheckEnd::Exit(0));
    assert_eq!(bench.state(), State::Succeeded);
    bench.signal(Signal::Oversized { bytes: 1 << 30 });
    assert!(bench.session.attempt().verifying.snapshot.is_none());
}

#[test]
fn evidence_for_an_earlier_attempt_is_nothing() {
    let mut bench = done();
    bench.snapshot("new").tell(send("next", SendMode::Supersede));
    bench.claim(ClaimKind::Completed).signal(OVER);
    let early = Command::SnapshotTaken {
        attempt: 1,
        no: 1,
        snapshot: snapshot("new"),
        caveats: Default::default(),
    };
    assert_eq!(bench.try_tell(early), Err(Rejected::Nothing));
    bench.snapshot("new");
    let receipt = receipt("new", "check", CheckEnd::Exit(0));
    let early = Command::CheckFinished { attempt: 1, receipt };
    assert_eq!(bench.try_tell(early), Err(Rejected::Nothing));
    bench.check("new", CheckEnd::Exit(0));
}

#[test]
fn what_was_sealed_is_not_proved_again_when_its_place_of_work_goes() {
    let mut bench = Bench::running(checked());
    bench.claim(ClaimKind::Completed).end(End::Exit(0)).verify("old", CheckEnd::Exit(0)).settle();
    assert!(bench.session.attempt().is_sealed() && bench.has(Flag::EmptyDiff));
    bench.tell(Command::WorkRemoved);
    let proof =
        |effect: &Effect| matches!(effect, Effect::TakeSnapshot { .. } | Effect::RunCheck { .. });
    assert!(!bench.session.effects().iter().any(proof), "{:?}", bench.session.effects());
}

#[test]
fn what_a_snapshot_lacks_is_flagged_until_the_next_snapshot() {
    let mut bench = done();
    let caveats = Caveats {
        kept_at: Some("refs/x".to_owned()),
        left_out: vec!["sub".to_owned()],
        protected: vec!["tests/a.rs".to_owned()],
    };
    let taken = |no, caveats: &Caveats| Command::SnapshotTaken {
        attempt: 1,
        no,
        snapshot: snapshot("new"),
        caveats: caveats.clone(),
    };
    bench.tell(taken(1, &caveats)).check("new", CheckEnd::Exit(0)).tell(taken(2, &caveats));
    assert_eq!(bench.state(), State::Succeeded);
    assert!(bench.has(Flag::OffBranch) && bench.has(Flag::LeftOut));
    assert!(bench.has(Flag::ChecksTouched));
    bench.pass(50);
    assert!(bench.session.attempt().is_sealed() && bench.has(Flag::OffBranch));
    let mut bench = done();
    bench.tell(taken(1, &caveats)).check("new", CheckEnd::Exit(0)).snapshot("new");
    assert!(
        !bench.has(Flag::OffBranch) && !bench.has(Flag::LeftOut),
        "it was brought up meanwhile"
    );
}

#[test]
fn evidence_after_a_decision_is_nothing() {
    let mut bench = done();
    bench.snapshot("new").tell(Command::Cancel { because: "no".to_owned() });
    let receipt = receipt("new", "check", CheckEnd::Exit(0));
    let late = Command::CheckFinished { attempt: 1, receipt };
    assert_eq!(bench.try_tell(late), Err(Rejected::Nothing));
}

#[test]
fn a_receipt_counts_once_and_for_its_tree_only() {
    let mut spec = checked();
    spec.checks = vec!["lint".to_owned(), "check".to_owned()];
    let mut bench = Bench::running(spec);
    bench.claim(ClaimKind::Completed).signal(OVER).snapshot("new");
    let finished = |tree, command| Command::CheckFinished {
        attempt: 1,
        receipt: receipt(tree, command, CheckEnd::Exit(0)),
    };
    assert_eq!(bench.try_tell(finished("other", "lint")), Err(Rejected::Nothing));
    bench.tell(finished("new", "lint"));
    assert_eq!(bench.try_tell(finished("new", "lint")), Err(Rejected::Nothing));
    assert_eq!(bench.state(), State::Verifying);
    bench.tell(finished("new", "check")).snapshot("new");
    assert_eq!(bench.state(), State::Succeeded);
}

#[test]
fn checks_run_one_by_one_between_two_looks_at_the_tree() {
    let mut spec = checked();
    spec.checks = vec!["lint".to_owned(), "check".to_owned()];
    let mut bench = Bench::running(spec);
    let snapshot = |no| Some(Effect::TakeSnapshot { attempt: 1, no });
    let check = |index| Some(Effect::RunCheck { attempt: 1, no: 1, index });
    assert_eq!(owed_proof(&bench.session), None, "it is at work");
    bench.claim(ClaimKind::Completed).signal(OVER);
    assert_eq!(owed_proof(&bench.session), snapshot(1));
    bench.snapshot("new");
    assert_eq!(owed_proof(&bench.session), check(0));
    let receipt = receipt("new", "lint", CheckEnd::Exit(0));
    bench.tell(Command::CheckFinished { attempt: 1, receipt });
    assert_eq!(owed_proof(&bench.session), check(1));
    bench.check("new", CheckEnd::Exit(0));
    assert_eq!(owed_proof(&bench.session), snapshot(2));
    bench.snapshot("new");
    assert_eq!(owed_proof(&bench.session), None);
}

#[test]
fn a_tree_that_moved_is_checked_anew() {
    let mut bench = done();
    bench.snapshot("one").check("one", CheckEnd::Exit(0)).snapshot("two");
    assert_eq!(
        owed_proof(&bench.session),
        Some(Effect::RunCheck { attempt: 1, no: 2, index: 0 }),
        "what was found about the former tree is void"
    );
    bench.verify("two", CheckEnd::Exit(0));
    assert_eq!(bench.state(), State::Succeeded);
}

#[test]
fn checks_wait_for_the_whole_tree_of_a_process_to_be_gone() {
    let mut bench = done();
    let launch = bench.launch();
    bench.exit(End::Exit(0), EndedBy::Itself);
    assert_eq!(owed_proof(&bench.session), None);
    bench.tell(Command::TreeGone { launch, leftovers: 0, verified: false });
    assert!(owed_proof(&bench.session).is_some());

    let mut unseen = done();
    let launch = unseen.launch();
    unseen.tell(Command::ProcessUnobserved { launch, why: "power loss".to_owned() });
    assert!(owed_proof(&unseen.session).is_some(), "no observer is left to report more");
}

#[test]
fn the_seal_keeps_the_tree_that_was_judged_and_a_later_turn_does_not_void_it() {
    let mut spec = checked();
    spec.afterwards = Afterwards::Park;
    let mut bench = Bench::running(spec);
    bench.claim(ClaimKind::Completed).signal(OVER).verify("new", CheckEnd::Exit(0)).settle();
    let sealed = bench.session.attempt().sealed.clone().unwrap();
    assert_eq!(sealed.tree, Some(snapshot("new").tree));
    let verifying = bench.session.attempt().verifying.clone();
    bench.signal(Signal::TurnStarted { turn: None });
    assert_eq!(bench.session.attempt().verifying, verifying);
    assert!(bench.session.effects().iter().all(|e| !matches!(e, Effect::TakeSnapshot { .. })));
}

#[test]
fn a_turn_of_an_older_launch_voids_nothing() {
    let mut bench = Bench::resumed();
    bench.session.spec.checks = vec!["check".to_owned()];
    let old = bench.session.launches[0].id;
    bench.claim(ClaimKind::Completed).signal(OVER).snapshot("new");
    let cursor = provost_core::session::Cursor { offset: 10_000, skip: 0 };
    let signal = Signal::TurnStarted { turn: None };
    bench.tell(Command::Observed { launch: old, signal, cursor });
    assert_eq!(bench.session.attempt().verifying.snapshot, Some(snapshot("new")));
}

#[test]
fn an_allowed_empty_diff_is_judged_by_its_checks() {
    let mut spec = checked();
    spec.empty_diff = EmptyDiff::Accepted;
    let mut bench = Bench::running(spec);
    bench.claim(ClaimKind::Completed).end(End::Exit(0)).verify("old", CheckEnd::Exit(0));
    assert_eq!(bench.state(), State::Succeeded);
    assert!(!bench.has(Flag::EmptyDiff));
}

#[test]
fn a_check_without_an_end_of_its_own_is_flagged_as_unfinished() {
    for (end, unfinished) in [(CheckEnd::Exit(1), false), (CheckEnd::TimeLimit, true)] {
        let mut bench = Bench::running(checked());
        bench.claim(ClaimKind::Completed).end(End::Exit(0)).verify("new", end);
        assert_eq!((bench.state(), bench.cause()), (State::Failed, Some(Cause::Verification)));
        assert_eq!(bench.has(Flag::ChecksUnfinished), unfinished);
    }
    let mut bench = Bench::running(checked());
    bench.claim(ClaimKind::Completed).end(End::Exit(0)).tell(snapshot_failed(1));
    assert_eq!((bench.state(), bench.cause()), (State::Failed, Some(Cause::Verification)));
    assert!(bench.has(Flag::ChecksUnfinished));
}

/// Returns the rework message that a live agent gets after its work was refuted.
fn told_after(refute: impl FnOnce(&mut Bench)) -> String {
    let mut bench = done();
    refute(&mut bench);
    let message = bench.session.messages.last().expect("a rework message is queued");
    assert_eq!(message.kind, MessageKind::Rework);
    message.text.clone()
}

#[test]
fn refuted_work_goes_back_with_the_reason() {
    let refuted = |end: CheckEnd| told_after(|bench| _ = bench.verify("new", end));
    assert_eq!(refuted(CheckEnd::Exit(3)), "The check `check` exited with 3.");
    assert_eq!(refuted(CheckEnd::Signal(9)), "The check `check` was ended by signal 9.");
    assert_eq!(
        refuted(CheckEnd::TimeLimit),
        "The check `check` did not end within its time limit."
    );
    assert_eq!(
        refuted(CheckEnd::OutputLimit),
        "The check `check` printed more than its output limit."
    );
    let unchanged = told_after(|bench| _ = bench.verify("old", CheckEnd::Exit(0)));
    assert_eq!(unchanged, "Nothing was changed.");
    let uncommitted = told_after(|bench| _ = bench.tell(snapshot_failed(1)));
    assert_eq!(uncommitted, "Your work could not be committed: the disk is full.");
}

#[test]
fn check_that_could_not_be_run_is_no_failed_verification() {
    let not_run = || CheckEnd::Unfinished("no room".to_owned());
    let mut bench = Bench::running(checked());
    bench.claim(ClaimKind::Completed).end(End::Exit(0)).verify("new", not_run());
    assert_eq!((bench.state(), bench.cause()), (State::Failed, Some(Cause::ChecksNotRun)));
    assert!(bench.has(Flag::ChecksUnfinished));
    // A live agent is not asked to fix a problem that is not its own.
    let mut bench = done();
    bench.verify("new", not_run());
    assert_eq!(bench.session.launches[0].stop.unwrap().why, StopWhy::ReworkExhausted);
    assert_eq!(bench.session.attempt().reworks, 0);
}

#[test]
fn refuted_work_goes_back_with_what_the_refuting_check_printed() {
    let mut spec = checked();
    spec.checks = vec!["lint".to_owned(), "check".to_owned()];
    let mut bench = Bench::running(spec);
    bench.claim(ClaimKind::Completed).signal(OVER).snapshot("new");
    let printed = |command, end, tail: &str| Command::CheckFinished {
        attempt: 1,
        receipt: Receipt { tail: tail.to_owned(), ..receipt("new", command, end) },
    };
    bench.tell(printed("lint", CheckEnd::Exit(0), "all is well"));
    bench.tell(printed("check", CheckEnd::Exit(1), "2 failed")).snapshot("new");
    let told = &bench.session.messages.last().unwrap().text;
    assert_eq!(told, "The check `check` exited with 1. Last output:\n2 failed");
}

#[test]
fn refuted_work_of_a_plain_command_ends_it() {
    let mut spec = checked();
    spec.agent.driver = Driver::Command;
    let mut bench = Bench::running(spec);
    bench.claim(ClaimKind::Completed).hear_silence().verify("new", CheckEnd::Exit(1));
    assert_eq!(bench.session.launches[0].stop.unwrap().why, StopWhy::ReworkExhausted);
    assert_eq!(bench.session.attempt().reworks, 0);
}
