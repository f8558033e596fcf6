//! Decisions by the user or Provost override the lifecycle table.

use std::collections::BTreeSet;

use provost_core::{
    lifecycle::{
        Activity, Cause, ClaimKind, Flag, Judgement, ProcessFact, Rule, State, StateOverlay,
        StopCause, VerificationFact, apply_overlay, judge_facts_by_table,
    },
    session::{SessionCommand, StreamSignal},
};

use crate::kit::{TURN_ENDED_OK, TestSession, question, spec};

fn ended() -> Judgement {
    judge_facts_by_table(
        ClaimKind::Failed,
        ProcessFact::Exit0,
        Activity::Exited,
        &VerificationFact::None,
    )
}

fn living() -> Judgement {
    judge_facts_by_table(
        ClaimKind::None,
        ProcessFact::Alive,
        Activity::Active,
        &VerificationFact::None,
    )
}

#[test]
fn decision_sets_state_cause_and_rule() {
    let stopped = |cause| StateOverlay::Stopped(cause);
    let decided = [
        (StateOverlay::Resolved(State::Accepted, None), State::Accepted, None, Rule::Resolved),
        (
            StateOverlay::Resolved(State::Failed, Some(Cause::Budget)),
            State::Failed,
            Some(Cause::Budget),
            Rule::Resolved,
        ),
        (StateOverlay::Cancelled, State::Cancelled, None, Rule::Cancelled),
        (StateOverlay::Superseded, State::Superseded, None, Rule::Superseded),
        (stopped(StopCause::Timeout), State::Failed, Some(Cause::Timeout), Rule::Stopped),
        (stopped(StopCause::Budget), State::Failed, Some(Cause::Budget), Rule::Stopped),
        (stopped(StopCause::Launch), State::Failed, Some(Cause::Launch), Rule::Stopped),
    ];
    for (overlay, state, cause, rule) in decided {
        for found in [ended(), living()] {
            let judged = apply_overlay(&overlay, found);
            assert_eq!((judged.state, judged.cause, judged.rule), (state, cause, rule));
            assert!(judged.flags.is_empty(), "the facts no longer matter");
        }
    }
}

#[test]
fn pending_check_is_not_final_and_keeps_flags() {
    let found = ended().with([Flag::Unverified]);
    let judged = apply_overlay(&StateOverlay::Verifying, found.clone());
    assert_eq!((judged.state, judged.cause), (State::Verifying, None));
    assert_eq!(judged.flags, found.flags);
}

#[test]
fn moving_tree_keeps_live_state() {
    assert_eq!(apply_overlay(&StateOverlay::MovingTree, living()), living());
    assert_eq!(apply_overlay(&StateOverlay::None, ended()), ended());
    assert_eq!(apply_overlay(&StateOverlay::MovingTree, ended()).state, State::Disputed);
}

#[test]
fn open_question_keeps_only_liveness_flag() {
    let found = living().with([Flag::LivenessUnknown, Flag::ChecksFailed]);
    let judged = apply_overlay(&StateOverlay::BlockingRequest, found);
    assert_eq!(judged.flags, BTreeSet::from([Flag::LivenessUnknown]));
}

#[test]
fn unobservable_process_keeps_its_question() {
    let mut harness = TestSession::running(spec());
    harness.signal(StreamSignal::RequestOpened(question("q"))).signal(TURN_ENDED_OK);
    let launch = harness.launch();
    harness.apply(SessionCommand::ProcessUnknown { launch, why: "no permission".to_owned() });
    assert_eq!(harness.state(), State::NeedsInput);
    assert!(harness.has_flag(Flag::LivenessUnknown));
}
