//! Verifications of merged work: requested once, answered once, and for one tree only.

use provost_core::{
    ids::TreeId,
    run::{
        LandMode, RunCommand, RunEnding, RunFailureCause, RunRejection, RunSpec, TreeProof,
        VerificationResult, VerificationSubject,
    },
    verdict::CheckEnd,
};

use super::kit::{TestRun, landing_spec, merge_step};
use crate::kit::{receipt, snapshot};

const PASSED: CheckEnd = CheckEnd::Exit(0);

/// A run whose work was merged with its moved target.
fn merged(spec: RunSpec) -> TestRun {
    let mut harness = TestRun::open(spec);
    let moved = RunCommand::TargetMoved { step: 0, merge: merge_step("merged", &[]) };
    harness.finish_work("new").apply(moved);
    harness
}

fn landing() -> RunSpec {
    landing_spec(LandMode::Merge)
}

#[test]
fn verification_is_built_from_the_spec() {
    let mut spec = RunSpec { keep: vec!["target".to_owned()], ..landing() };
    spec.protected = vec!["tests/*".to_owned()];
    (spec.bounds.check_time_ms, spec.bounds.check_output) = (7, 8);
    spec.agent.env = [("A".to_owned(), "1".to_owned())].into();
    spec.agent.pass_env = vec!["PATH".to_owned()];
    spec.agent.own_env = vec!["TOKEN".to_owned()];
    let harness = merged(spec);
    let wanted = harness.run.verification(1).expect("it is pending");
    assert_eq!((wanted.project.as_deref(), wanted.keep), (Some("/project"), vec!["target".into()]));
    assert_eq!(wanted.protected, ["tests/*"]);
    assert_eq!((wanted.limits.time_ms, wanted.limits.output), (7, 8));
    assert_eq!(wanted.environment.set["A"], "1");
    assert_eq!(wanted.environment.pass, ["PATH"], "checks get no key of the agent");
    assert!(harness.run.verification(2).is_none());
}

#[test]
fn verification_is_requested_and_answered_once() {
    let mut harness = merged(landing());
    assert_eq!(harness.pending_effects(), ["verify-1"]);
    harness.advance();
    assert_eq!(harness.run.verifications.len(), 1);
    let verified = harness.verified("merged", &PASSED);
    let other = RunCommand::Verified { no: 2, receipts: Vec::new() };
    assert_eq!(harness.try_apply(other), Err(RunRejection::NothingNew));
    harness.apply(verified.clone());
    assert_eq!(harness.try_apply(verified), Err(RunRejection::NothingNew), "it was reported");
    assert_eq!(harness.run.verifications[0].result(), Some(VerificationResult::Passed));
    assert_eq!(harness.pending_effects(), ["land-1-1"]);
    assert!(harness.run.proof.as_ref().is_some_and(|proof| proof.is_for(&snapshot("merged"))));
}

#[test]
fn receipts_for_another_tree_prove_nothing() {
    let mut harness = merged(landing());
    harness.finish_check("merged-and-more", &PASSED);
    assert_eq!(harness.run.verifications[0].result(), Some(VerificationResult::Inconclusive));
    assert_eq!(harness.run.proof, None::<TreeProof>);
    harness.apply(RunCommand::LandingAborted { attempt: 1, pull: None });
    assert_eq!(
        (harness.ending(), harness.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Landing))
    );
    assert_eq!(
        harness.outcome().detail,
        "the merge with the target: not every check ran on the merged tree"
    );
}

#[test]
fn missing_receipt_is_not_a_pass() {
    let checks = vec!["one".to_owned(), "two".to_owned()];
    let mut harness = merged(RunSpec { checks, ..landing() });
    let receipts = vec![receipt("merged", "one", PASSED)];
    harness.apply(RunCommand::Verified { no: 1, receipts });
    assert_eq!(harness.run.verifications[0].result(), Some(VerificationResult::Inconclusive));
}

#[test]
fn cancelled_verification_is_dropped_and_requested_again() {
    let mut harness = merged(landing());
    let late = harness.verified("merged", &PASSED);
    harness.cancel();
    assert!(!harness.pending_effects().contains(&"verify-1".to_owned()), "it is cancelled");
    assert_eq!(harness.try_apply(late.clone()), Err(RunRejection::NothingNew), "it is late");
    harness.apply(RunCommand::LandingAborted { attempt: 1, pull: None });
    assert_eq!(harness.ending(), RunEnding::Cancelled);
    harness.apply(RunCommand::Resume);
    assert_eq!(harness.pending_effects(), ["verify-2"], "each attempt has its own");
    assert_eq!(harness.try_apply(late), Err(RunRejection::NothingNew));
    harness.finish_check("merged", &PASSED).land("merged");
    assert_eq!(harness.ending(), RunEnding::Succeeded);
}

#[test]
fn failed_landing_verification_is_repeated_on_resume() {
    let mut harness = merged(landing());
    harness.finish_check("merged", &CheckEnd::Unfinished("power".to_owned()));
    harness.apply(RunCommand::LandingAborted { attempt: 1, pull: None });
    assert_eq!(
        harness.outcome().detail,
        "the merge with the target: the check `check` could not be run: power"
    );
    harness.apply(RunCommand::Resume);
    let pending = harness.run.pending_verification().expect("it is repeated");
    assert_eq!((pending.no, pending.subject), (2, VerificationSubject::Landing { step: 1 }));
    assert_eq!(pending.snapshot.tree, TreeId("merged".to_owned()));
    harness.finish_check("merged", &PASSED).land("merged");
    assert_eq!(harness.ending(), RunEnding::Succeeded);
}
