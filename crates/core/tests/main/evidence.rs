//! Which snapshots and receipts count, and the message that sends failed work back.

use provost_core::{
    lifecycle::{Cause, ClaimKind, Flag, State},
    session::{
        AgentInterface, AgentMessageKind, OnFinish, ProcessExit, SendMode, Session, SessionCommand,
        SessionEffect, SessionRejection, StopReason, StoppedBy, StreamSignal,
    },
    verdict::{Caveats, CheckEnd, EmptyDiff, Receipt},
};

use crate::kit::{TURN_ENDED_OK, TestSession, checked_spec, receipt, send, snapshot, spec};

/// A session whose live agent claims completion.
fn claimed_done() -> TestSession {
    let mut harness = TestSession::running(checked_spec());
    harness.claim(ClaimKind::Completed).signal(TURN_ENDED_OK);
    assert_eq!(harness.state(), State::Verifying);
    harness
}

fn snapshot_failed(no: u32) -> SessionCommand {
    SessionCommand::SnapshotFailed { attempt: 1, no, reason: "the disk is full".to_owned() }
}

fn pending_verification(session: &Session) -> Option<SessionEffect> {
    let proof = |e: &SessionEffect| {
        matches!(e, SessionEffect::TakeSnapshot { .. } | SessionEffect::RunCheck { .. })
    };
    session.effects().into_iter().find(proof)
}

#[test]
fn late_result_of_older_snapshot_is_ignored() {
    let mut harness = claimed_done();
    let taken = harness.snapshot_taken("before");
    harness.signal(StreamSignal::TurnStarted { turn: None }).signal(TURN_ENDED_OK);
    let before = harness.session.clone();
    for late in [taken, snapshot_failed(1)] {
        assert_eq!(harness.try_apply(late), Err(SessionRejection::NothingNew));
    }
    assert_eq!(harness.session, before);
    harness.verify("after", CheckEnd::Exit(0));
    assert_eq!(harness.session.attempt().verifying.snapshot, Some(snapshot("after")));
}

#[test]
fn failed_snapshot_is_recorded_once() {
    let mut harness = TestSession::running(checked_spec());
    harness.claim(ClaimKind::Completed).end(ProcessExit::Exit(0));
    let taken = harness.snapshot_taken("new");
    harness.apply(snapshot_failed(1));
    for again in [taken, snapshot_failed(1)] {
        assert_eq!(harness.try_apply(again), Err(SessionRejection::NothingNew));
    }
}

#[test]
fn unrequested_snapshot_is_ignored() {
    let mut unchecked = TestSession::running(spec());
    unchecked.claim(ClaimKind::Completed).signal(TURN_ENDED_OK);
    assert_eq!(
        unchecked.decide(&unchecked.snapshot_taken("new")),
        Err(SessionRejection::NothingNew)
    );

    let mut proved = claimed_done();
    proved.verify("new", CheckEnd::Exit(0));
    assert_eq!(proved.decide(&proved.snapshot_taken("new")), Err(SessionRejection::NothingNew));

    let mut cancelled = claimed_done();
    cancelled.apply(SessionCommand::Cancel { because: "no".to_owned() });
    assert_eq!(pending_verification(&cancelled.session), None);
    for late in [cancelled.snapshot_taken("new"), snapshot_failed(1)] {
        assert_eq!(cancelled.decide(&late), Err(SessionRejection::NothingNew));
    }
}

#[test]
fn moving_tree_is_not_snapshotted_past_limit() {
    let mut spec = checked_spec();
    spec.bounds.snapshots = 0;
    let mut harness = TestSession::running(spec);
    harness.claim(ClaimKind::Completed).end(ProcessExit::Exit(0));
    harness.snapshot("one").check("one", CheckEnd::Exit(0)).snapshot("two");
    assert_eq!((harness.state(), pending_verification(&harness.session)), (State::Disputed, None));
}

#[test]
fn cancelled_attempt_runs_no_checks() {
    let mut harness = TestSession::running(checked_spec());
    harness.apply(SessionCommand::Cancel { because: "no".to_owned() });
    harness.claim(ClaimKind::Completed).end(ProcessExit::Exit(0));
    assert_eq!(pending_verification(&harness.session), None);
}

#[test]
fn receipt_after_seal_is_ignored() {
    let mut spec = checked_spec();
    spec.checks = vec!["check".to_owned(), "slow".to_owned()];
    let mut harness = TestSession::running(spec);
    harness.claim(ClaimKind::Completed).end(ProcessExit::Exit(0));
    harness.verify("new", CheckEnd::Exit(1)).settle();
    assert!(harness.sealed());
    let receipt = receipt("new", "slow", CheckEnd::Exit(0));
    let late = SessionCommand::CheckFinished { attempt: 1, receipt };
    assert_eq!(harness.try_apply(late), Err(SessionRejection::NothingNew));
}

#[test]
fn rework_restarts_verification() {
    let mut harness = claimed_done();
    harness.verify("new", CheckEnd::Exit(1));
    let verifying = &harness.session.attempt().verifying;
    assert!(verifying.snapshot.is_none() && verifying.receipts.is_empty());
}

#[test]
fn output_after_silence_restarts_verification() {
    let mut spec = checked_spec();
    spec.agent.interface = AgentInterface::command();
    let mut harness = TestSession::running(spec);
    harness.claim(ClaimKind::Completed).report_silence().verify("new", CheckEnd::Exit(0));
    assert_eq!(harness.state(), State::Succeeded);
    harness.signal(StreamSignal::Oversized { bytes: 1 << 30 });
    assert!(harness.session.attempt().verifying.snapshot.is_none());
}

#[test]
fn evidence_for_earlier_attempt_is_ignored() {
    let mut harness = claimed_done();
    harness.snapshot("new").apply(send("next", SendMode::Supersede));
    harness.claim(ClaimKind::Completed).signal(TURN_ENDED_OK);
    let early = SessionCommand::SnapshotTaken {
        attempt: 1,
        no: 1,
        snapshot: snapshot("new"),
        caveats: Default::default(),
    };
    assert_eq!(harness.try_apply(early), Err(SessionRejection::NothingNew));
    harness.snapshot("new");
    let receipt = receipt("new", "check", CheckEnd::Exit(0));
    let early = SessionCommand::CheckFinished { attempt: 1, receipt };
    assert_eq!(harness.try_apply(early), Err(SessionRejection::NothingNew));
    harness.check("new", CheckEnd::Exit(0));
}

#[test]
fn sealed_work_is_not_reverified_after_removal() {
    let mut harness = TestSession::running(checked_spec());
    harness
        .claim(ClaimKind::Completed)
        .end(ProcessExit::Exit(0))
        .verify("old", CheckEnd::Exit(0))
        .settle();
    assert!(harness.session.attempt().is_sealed() && harness.has_flag(Flag::EmptyDiff));
    harness.apply(SessionCommand::WorkRemoved);
    let proof = |effect: &SessionEffect| {
        matches!(effect, SessionEffect::TakeSnapshot { .. } | SessionEffect::RunCheck { .. })
    };
    assert!(!harness.session.effects().iter().any(proof), "{:?}", harness.session.effects());
}

#[test]
fn snapshot_caveats_are_flagged_until_next_snapshot() {
    let mut harness = claimed_done();
    let caveats = Caveats {
        kept_at: Some("refs/x".to_owned()),
        left_out: vec!["sub".to_owned()],
        protected: vec!["tests/a.rs".to_owned()],
    };
    let taken = |no, caveats: &Caveats| SessionCommand::SnapshotTaken {
        attempt: 1,
        no,
        snapshot: snapshot("new"),
        caveats: caveats.clone(),
    };
    harness.apply(taken(1, &caveats)).check("new", CheckEnd::Exit(0)).apply(taken(2, &caveats));
    assert_eq!(harness.state(), State::Succeeded);
    assert!(harness.has_flag(Flag::OffBranch) && harness.has_flag(Flag::LeftOut));
    assert!(harness.has_flag(Flag::ChecksTouched));
    harness.advance_clock(50);
    assert!(harness.session.attempt().is_sealed() && harness.has_flag(Flag::OffBranch));
    let mut harness = claimed_done();
    harness.apply(taken(1, &caveats)).check("new", CheckEnd::Exit(0)).snapshot("new");
    assert!(
        !harness.has_flag(Flag::OffBranch) && !harness.has_flag(Flag::LeftOut),
        "it was brought up meanwhile"
    );
}

#[test]
fn evidence_after_decision_is_ignored() {
    let mut harness = claimed_done();
    harness.snapshot("new").apply(SessionCommand::Cancel { because: "no".to_owned() });
    let receipt = receipt("new", "check", CheckEnd::Exit(0));
    let late = SessionCommand::CheckFinished { attempt: 1, receipt };
    assert_eq!(harness.try_apply(late), Err(SessionRejection::NothingNew));
}

#[test]
fn receipt_counts_once_for_its_tree() {
    let mut spec = checked_spec();
    spec.checks = vec!["lint".to_owned(), "check".to_owned()];
    let mut harness = TestSession::running(spec);
    harness.claim(ClaimKind::Completed).signal(TURN_ENDED_OK).snapshot("new");
    let finished = |tree, command| SessionCommand::CheckFinished {
        attempt: 1,
        receipt: receipt(tree, command, CheckEnd::Exit(0)),
    };
    assert_eq!(harness.try_apply(finished("other", "lint")), Err(SessionRejection::NothingNew));
    harness.apply(finished("new", "lint"));
    assert_eq!(harness.try_apply(finished("new", "lint")), Err(SessionRejection::NothingNew));
    assert_eq!(harness.state(), State::Verifying);
    harness.apply(finished("new", "check")).snapshot("new");
    assert_eq!(harness.state(), State::Succeeded);
}

#[test]
fn checks_run_in_order_between_two_snapshots() {
    let mut spec = checked_spec();
    spec.checks = vec!["lint".to_owned(), "check".to_owned()];
    let mut harness = TestSession::running(spec);
    let snapshot = |no| Some(SessionEffect::TakeSnapshot { attempt: 1, no });
    let check = |index| Some(SessionEffect::RunCheck { attempt: 1, no: 1, index });
    assert_eq!(pending_verification(&harness.session), None, "it is at work");
    harness.claim(ClaimKind::Completed).signal(TURN_ENDED_OK);
    assert_eq!(pending_verification(&harness.session), snapshot(1));
    harness.snapshot("new");
    assert_eq!(pending_verification(&harness.session), check(0));
    let receipt = receipt("new", "lint", CheckEnd::Exit(0));
    harness.apply(SessionCommand::CheckFinished { attempt: 1, receipt });
    assert_eq!(pending_verification(&harness.session), check(1));
    harness.check("new", CheckEnd::Exit(0));
    assert_eq!(pending_verification(&harness.session), snapshot(2));
    harness.snapshot("new");
    assert_eq!(pending_verification(&harness.session), None);
}

#[test]
fn moved_tree_is_checked_again() {
    let mut harness = claimed_done();
    harness.snapshot("one").check("one", CheckEnd::Exit(0)).snapshot("two");
    assert_eq!(
        pending_verification(&harness.session),
        Some(SessionEffect::RunCheck { attempt: 1, no: 2, index: 0 }),
        "what was found about the former tree is void"
    );
    harness.verify("two", CheckEnd::Exit(0));
    assert_eq!(harness.state(), State::Succeeded);
}

#[test]
fn checks_wait_for_process_tree_to_end() {
    let mut harness = claimed_done();
    let launch = harness.launch();
    harness.exit(ProcessExit::Exit(0), StoppedBy::Itself);
    assert_eq!(pending_verification(&harness.session), None);
    harness.apply(SessionCommand::ProcessTreeGone { launch, leftovers: 0, verified: false });
    assert!(pending_verification(&harness.session).is_some());

    let mut unseen = claimed_done();
    let launch = unseen.launch();
    unseen.apply(SessionCommand::ProcessUnobserved { launch, why: "power loss".to_owned() });
    assert!(pending_verification(&unseen.session).is_some(), "no observer is left to report more");
}

#[test]
fn seal_keeps_verified_tree_after_later_turn() {
    let mut spec = checked_spec();
    spec.on_finish = OnFinish::Park;
    let mut harness = TestSession::running(spec);
    harness
        .claim(ClaimKind::Completed)
        .signal(TURN_ENDED_OK)
        .verify("new", CheckEnd::Exit(0))
        .settle();
    let sealed = harness.session.attempt().sealed.clone().unwrap();
    assert_eq!(sealed.tree, Some(snapshot("new").tree));
    let verifying = harness.session.attempt().verifying.clone();
    harness.signal(StreamSignal::TurnStarted { turn: None });
    assert_eq!(harness.session.attempt().verifying, verifying);
    assert!(
        harness.session.effects().iter().all(|e| !matches!(e, SessionEffect::TakeSnapshot { .. }))
    );
}

#[test]
fn turn_of_older_launch_keeps_evidence() {
    let mut harness = TestSession::resumed();
    harness.session.spec.checks = vec!["check".to_owned()];
    let old = harness.session.launches[0].id;
    harness.claim(ClaimKind::Completed).signal(TURN_ENDED_OK).snapshot("new");
    let cursor = provost_core::session::Cursor { offset: 10_000, skip: 0 };
    let signal = StreamSignal::TurnStarted { turn: None };
    harness.apply(SessionCommand::Observed { launch: old, signal, cursor });
    assert_eq!(harness.session.attempt().verifying.snapshot, Some(snapshot("new")));
}

#[test]
fn allowed_empty_diff_is_judged_by_checks() {
    let mut spec = checked_spec();
    spec.empty_diff = EmptyDiff::Accepted;
    let mut harness = TestSession::running(spec);
    harness.claim(ClaimKind::Completed).end(ProcessExit::Exit(0)).verify("old", CheckEnd::Exit(0));
    assert_eq!(harness.state(), State::Succeeded);
    assert!(!harness.has_flag(Flag::EmptyDiff));
}

#[test]
fn check_without_exit_is_flagged_unfinished() {
    for (end, unfinished) in [(CheckEnd::Exit(1), false), (CheckEnd::TimeLimit, true)] {
        let mut harness = TestSession::running(checked_spec());
        harness.claim(ClaimKind::Completed).end(ProcessExit::Exit(0)).verify("new", end);
        assert_eq!((harness.state(), harness.cause()), (State::Failed, Some(Cause::Verification)));
        assert_eq!(harness.has_flag(Flag::ChecksUnfinished), unfinished);
    }
    let mut harness = TestSession::running(checked_spec());
    harness.claim(ClaimKind::Completed).end(ProcessExit::Exit(0)).apply(snapshot_failed(1));
    assert_eq!((harness.state(), harness.cause()), (State::Failed, Some(Cause::ChecksNotRun)));
    assert!(harness.has_flag(Flag::ChecksUnfinished));
}

/// Returns the rework message that a live agent gets after its work was refuted.
fn rework_text(refute: impl FnOnce(&mut TestSession)) -> String {
    let mut harness = claimed_done();
    refute(&mut harness);
    let message = harness.session.input.messages.last().expect("a rework message is queued");
    assert_eq!(message.kind, AgentMessageKind::Rework);
    message.text.clone()
}

#[test]
fn failed_work_is_returned_with_reason() {
    let refuted = |end: CheckEnd| rework_text(|harness| _ = harness.verify("new", end));
    assert_eq!(refuted(CheckEnd::Exit(3)), "The check `check` exited with 3.");
    assert_eq!(refuted(CheckEnd::Signal(9)), "The check `check` was ended by signal 9.");
    assert_eq!(
        refuted(CheckEnd::TimeLimit),
        "The check `check` did not end within its time limit."
    );
    assert_eq!(refuted(CheckEnd::OutputLimit), "The check `check` exceeded its output limit.");
    let unchanged = rework_text(|harness| _ = harness.verify("old", CheckEnd::Exit(0)));
    assert_eq!(unchanged, "Nothing was changed.");
    let uncommitted = rework_text(|harness| _ = harness.apply(snapshot_failed(1)));
    assert_eq!(uncommitted, "Your work could not be committed: the disk is full.");
}

#[test]
fn check_that_cannot_run_is_not_a_failure() {
    let not_run = || CheckEnd::Unfinished("no room".to_owned());
    let mut harness = TestSession::running(checked_spec());
    harness.claim(ClaimKind::Completed).end(ProcessExit::Exit(0)).verify("new", not_run());
    assert_eq!((harness.state(), harness.cause()), (State::Failed, Some(Cause::ChecksNotRun)));
    assert!(harness.has_flag(Flag::ChecksUnfinished));
    // A live agent is not asked to fix a problem that is not its own.
    let mut harness = claimed_done();
    harness.verify("new", not_run());
    assert_eq!(harness.session.launches[0].stop.unwrap().why, StopReason::ReworkExhausted);
    assert_eq!(harness.session.attempt().reworks, 0);
}

#[test]
fn failed_work_is_returned_with_check_output() {
    let mut spec = checked_spec();
    spec.checks = vec!["lint".to_owned(), "check".to_owned()];
    let mut harness = TestSession::running(spec);
    harness.claim(ClaimKind::Completed).signal(TURN_ENDED_OK).snapshot("new");
    let printed = |command, end, tail: &str| SessionCommand::CheckFinished {
        attempt: 1,
        receipt: Receipt { tail: tail.to_owned(), ..receipt("new", command, end) },
    };
    harness.apply(printed("lint", CheckEnd::Exit(0), "all is well"));
    harness.apply(printed("check", CheckEnd::Exit(1), "2 failed")).snapshot("new");
    let text = &harness.session.input.messages.last().unwrap().text;
    assert_eq!(text, "The check `check` exited with 1. Last output:\n2 failed");
}

#[test]
fn failed_check_stops_plain_command() {
    let mut spec = checked_spec();
    spec.agent.interface = AgentInterface::command();
    let mut harness = TestSession::running(spec);
    harness.claim(ClaimKind::Completed).report_silence().verify("new", CheckEnd::Exit(1));
    assert_eq!(harness.session.launches[0].stop.unwrap().why, StopReason::ReworkExhausted);
    assert_eq!(harness.session.attempt().reworks, 0);
}
