//! Landing on branches of the repository: moving targets, conflicts, and required proof.

use provost_core::{
    ids::CommitId,
    run::{
        GuardedLanding, LandMode, LandStep, LandingState, MAX_MERGES, MAX_ROUNDS,
        PendingRunApproval, ReviewMode, RunCommand, RunEnding, RunFailureCause, RunSpec, RunStage,
        VerificationSubject,
    },
    session::AgentInterface,
    verdict::CheckEnd,
};

use super::kit::{TestRun, landed, landing_spec, merge_step, reviewed_spec, unchecked_spec};
use crate::kit::snapshot;

fn target_moved(step: usize, tree: &str, conflicts: &[&str]) -> RunCommand {
    RunCommand::TargetMoved { step, merge: merge_step(tree, conflicts) }
}

#[test]
fn verified_work_lands_unchanged() {
    let mut harness = TestRun::open(landing_spec(LandMode::Branch));
    harness.finish_work("new");
    let merged = RunCommand::Landed {
        branch: "main".to_owned(),
        commit: snapshot("new").commit,
        merged: true,
    };
    harness.apply(merged.clone());
    let LandingState::Done(done) = &harness.run.landing else { panic!("it has landed") };
    assert_eq!((done.branch.as_str(), done.merged), ("main", true));
    assert_eq!((&done.commit, &done.pull_request), (&snapshot("new").commit, &None));
    assert_eq!(harness.ending(), RunEnding::Succeeded);
    assert!(harness.try_apply(merged).is_err(), "it lands once");
}

#[test]
fn moved_target_is_merged_and_rechecked() {
    let mut harness = TestRun::open(landing_spec(LandMode::Merge));
    harness.finish_work("new").apply(target_moved(0, "merged", &[]));
    assert_eq!(harness.run.head, Some(snapshot("merged")));
    assert_eq!(harness.run.proof, None, "a new commit voids the proof");
    assert_eq!(harness.pending_effects(), ["verify-1"], "nothing lands unproved");
    assert_eq!(harness.run.sessions.len(), 1, "checks need no session");
    let verification = harness.run.verification(1).expect("it is pending");
    assert_eq!((verification.snapshot, verification.worktree), (snapshot("merged"), None));
    assert_eq!(verification.checks, ["check"]);
    harness.finish_check("merged", &CheckEnd::Exit(0));
    assert_eq!(harness.pending_effects(), ["land-1-1"]);
    harness.land("merged");
    assert_eq!(harness.ending(), RunEnding::Succeeded);
}

#[test]
fn failing_landing_merge_ends_the_run() {
    let mut harness = TestRun::open(landing_spec(LandMode::Merge));
    harness
        .finish_work("new")
        .apply(target_moved(0, "merged", &[]))
        .finish_check("merged", &CheckEnd::Exit(1));
    assert_eq!(harness.pending_effects(), ["landed-1"]);
    harness.apply(RunCommand::LandingAborted { attempt: 1, pull: None });
    assert_eq!(
        (harness.ending(), harness.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Landing))
    );
    let expected = "the merge with the target: the check `check` ended with exit 1";
    assert_eq!(harness.outcome().detail, expected);
}

#[test]
fn landing_conflicts_go_to_an_agent() {
    let mut harness = TestRun::open(landing_spec(LandMode::Merge));
    harness.finish_work("new").apply(target_moved(0, "merged", &["a.rs", "b.rs"]));
    assert_eq!(harness.session(2).spec.agent.interface, AgentInterface::json_lines());
    assert!(harness.instruction().contains("- a.rs\n- b.rs"));
    assert_eq!(harness.session(2).spec.name, "limit-land");
    harness.finish_work("mended").land("mended");
    assert_eq!(harness.ending(), RunEnding::Succeeded);
}

#[test]
fn unresolved_conflicts_do_not_land() {
    let mut harness = TestRun::open(landing_spec(LandMode::Merge));
    harness.finish_work("new").apply(target_moved(0, "both", &["a.rs"])).finish_work("both");
    assert_eq!(harness.pending_effects(), ["landed-1"]);
    harness.apply(RunCommand::LandingAborted { attempt: 1, pull: None });
    assert_eq!(
        (harness.ending(), harness.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Landing))
    );
    assert_eq!(harness.outcome().detail, "conflicts were not resolved in: a.rs");
    // Resuming the run lets an agent resolve them.
    harness.apply(RunCommand::Resume);
    assert!(harness.instruction().contains("- a.rs"));
    harness.finish_work("mended").land("mended");
    assert_eq!(harness.ending(), RunEnding::Succeeded);
}

#[test]
fn conflicts_fixed_without_checks_are_unverified() {
    let mut harness = TestRun::open(RunSpec { land: LandMode::Merge, ..unchecked_spec() });
    harness
        .finish_work("-")
        .take_head("new")
        .apply(target_moved(0, "merged", &["a.rs"]))
        .finish_work("-");
    assert_eq!(harness.pending_effects(), [format!("commit-{}", harness.run.id.session(2))]);
    harness.take_head("mended").land("mended");
    assert_eq!(harness.ending(), RunEnding::Completed);
    let mut harness = TestRun::open(RunSpec { land: LandMode::Merge, ..unchecked_spec() });
    harness
        .finish_work("-")
        .take_head("new")
        .apply(target_moved(0, "merged", &["a.rs"]))
        .finish_work("-");
    let session = harness.run.id.session(2);
    harness.apply(RunCommand::CommitFailed { session, reason: "no room".to_owned() });
    harness.apply(RunCommand::LandingAborted { attempt: 1, pull: None });
    assert_eq!(
        (harness.outcome().cause, harness.outcome().detail.as_str()),
        (Some(RunFailureCause::Landing), "no room")
    );
}

#[test]
fn unchecked_clean_merge_lands_at_once() {
    let mut harness = TestRun::open(RunSpec { land: LandMode::Merge, ..unchecked_spec() });
    harness.finish_work("-").take_head("new").apply(target_moved(0, "merged", &[]));
    assert_eq!(harness.pending_effects(), ["land-1-1"]);
    assert_eq!(harness.run.sessions.len(), 1);
    harness.land("merged");
    assert_eq!(harness.ending(), RunEnding::Completed);
}

#[test]
fn merge_to_verified_tree_keeps_its_proof() {
    let mut harness = TestRun::open(landing_spec(LandMode::Merge));
    harness.finish_work("new").apply(target_moved(0, "new", &[]));
    assert!(harness.run.proof.is_some(), "the tree is what was checked");
    harness.finish_check("new", &CheckEnd::Exit(0)).land("new");
    assert_eq!(harness.ending(), RunEnding::Succeeded);
}

#[test]
fn moved_target_applies_only_to_its_step() {
    let mut harness = TestRun::open(landing_spec(LandMode::Merge));
    harness.finish_work("new").apply(target_moved(0, "merged", &[]));
    assert!(harness.try_apply(target_moved(0, "merged", &[])).is_err());
    assert!(harness.try_apply(target_moved(2, "merged", &[])).is_err());
    harness.finish_check("merged", &CheckEnd::Exit(0)).apply(target_moved(1, "again", &[]));
    let subject = harness.run.pending_verification().expect("it is pending").subject;
    assert_eq!((harness.run.steps.len(), subject), (2, VerificationSubject::Landing { step: 2 }));
    harness.finish_check("again", &CheckEnd::Exit(0));
    assert_eq!(harness.pending_effects(), ["land-1-2"]);
}

#[test]
fn target_moving_too_often_fails_the_run() {
    assert_eq!((MAX_MERGES, MAX_ROUNDS), (5, 5));
    let mut harness = TestRun::open(RunSpec { land: LandMode::Merge, ..unchecked_spec() });
    harness.finish_work("-").take_head("new");
    for step in 0..MAX_MERGES {
        harness.apply(target_moved(step, &format!("m{step}"), &[]));
        assert_eq!(harness.pending_effects(), [format!("land-1-{}", step + 1)]);
    }
    harness.apply(target_moved(MAX_MERGES, "m", &[]));
    assert_eq!(
        (harness.ending(), harness.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Landing))
    );
    assert!(harness.pending_effects().is_empty(), "a reported failure means that nothing landed");
}

#[test]
fn landing_failure_ends_only_its_attempt() {
    let mut harness = TestRun::open(landing_spec(LandMode::Merge));
    harness.finish_work("new");
    let failed = |attempt| RunCommand::LandingFailed { attempt, reason: "no branch".to_owned() };
    assert!(harness.try_apply(failed(2)).is_err());
    harness.apply(failed(1));
    assert_eq!(
        (harness.ending(), harness.outcome().detail.as_str()),
        (RunEnding::Failed, "no branch")
    );
    harness.apply(RunCommand::Resume);
    assert!(harness.try_apply(failed(1)).is_err(), "a late one does not end a later attempt");
    assert_eq!(harness.pending_effects(), ["land-2-0"]);
    harness.land("new");
    assert_eq!(harness.ending(), RunEnding::Succeeded);
}

#[test]
fn success_needs_proof_of_the_landed_tree() {
    let mut harness = TestRun::open(reviewed_spec(ReviewMode::Repair, ReviewMode::Off));
    harness.finish_work("new").finish_review("mended", Vec::new());
    assert!(harness.run.proof.as_ref().unwrap().is_for(&snapshot("mended")));
    assert!(!harness.run.proof.as_ref().unwrap().is_for(&snapshot("new")));
    let mut harness =
        TestRun::open(RunSpec { land: LandMode::Merge, ..landing_spec(LandMode::Merge) });
    harness.finish_work("new").apply(target_moved(0, "merged", &["a"]));
    harness.start().apply_to_live(provost_core::session::SessionCommand::Resolve {
        to: provost_core::session::ManualOutcome::Accepted,
        because: "looks right".to_owned(),
    });
    harness.end_session(harness.run.id.session(2)).take_head("mended").land("mended");
    assert_eq!(
        harness.ending(),
        RunEnding::Completed,
        "the proof was for the tree before the merge"
    );
}

#[test]
fn landing_steps_are_stored() {
    let step = merge_step("m", &["a"]);
    let LandStep::Merge { onto, conflicts, .. } = &*step else { panic!("it is a merge") };
    assert_eq!((onto, conflicts.len()), (&CommitId("theirs".to_owned()), 1));
    let mut harness = TestRun::open(landing_spec(LandMode::Merge));
    harness.finish_work("new").apply(RunCommand::TargetMoved { step: 0, merge: step.clone() });
    assert_eq!(harness.run.steps, [*step]);
    assert_eq!(harness.run.stage, RunStage::Land);
    assert!(harness.try_apply(landed("merged")).is_ok(), "what was landed was landed");
}

fn held_landing(commit: &str) -> GuardedLanding {
    GuardedLanding {
        onto: CommitId("tip".to_owned()),
        landing: snapshot(commit),
        files: vec!["provost.toml".to_owned()],
        diff: "+setup".to_owned(),
        truncated: false,
        approved: false,
    }
}

fn hold_landing(step: usize, commit: &str) -> RunCommand {
    RunCommand::HoldLanding { step, held: Box::new(held_landing(commit)) }
}

#[test]
fn held_landing_waits_for_exactly_its_commit() {
    let mut harness = TestRun::open(landing_spec(LandMode::Merge));
    harness.finish_work("new");
    assert!(
        harness.try_apply(hold_landing(0, "other")).is_err(),
        "another tree is not what would land"
    );
    harness.apply(hold_landing(0, "new"));
    assert_eq!(harness.run.approval(), Some(PendingRunApproval::Landing(&held_landing("new"))));
    assert!(harness.pending_effects().is_empty(), "nothing lands before the operator approves");
    assert_eq!(harness.hooks().last().map(String::as_str), Some("run.question"));
    assert!(harness.try_apply(hold_landing(0, "new")).is_err(), "it is asked once");
    let approve = |commit: &str| RunCommand::ApproveLanding { commit: snapshot(commit).commit };
    assert!(harness.try_apply(approve("other")).is_err());
    harness.apply(approve("new"));
    assert!(harness.run.may_land(&snapshot("new").commit) && !harness.run.awaits_approval());
    assert_eq!(harness.pending_effects(), ["land-1-0"]);
    harness.land("new");
    assert_eq!(harness.ending(), RunEnding::Succeeded);
}

#[test]
fn landing_approval_is_void_for_another_tree() {
    let mut harness = TestRun::open(RunSpec { land: LandMode::Merge, ..unchecked_spec() });
    harness.finish_work("-").take_head("new");
    harness.apply(hold_landing(0, "new"));
    harness.apply(RunCommand::ApproveLanding { commit: snapshot("new").commit });
    harness.apply(target_moved(0, "merged", &[]));
    assert!(!harness.run.may_land(&snapshot("new").commit) && harness.run.held.is_none());
    harness.apply(hold_landing(1, "merged"));
    assert!(harness.run.awaits_approval() && harness.pending_effects().is_empty());
}

#[test]
fn rejected_landing_fails_and_resume_asks_again() {
    let mut harness = TestRun::open(landing_spec(LandMode::Merge));
    harness.finish_work("new").apply(hold_landing(0, "new"));
    let commit = snapshot("new").commit;
    harness.apply(RunCommand::RejectLanding { commit: commit.clone(), because: "no".to_owned() });
    assert!(harness.run.approval().is_none());
    harness.apply(RunCommand::LandingAborted { attempt: 1, pull: None });
    assert_eq!(
        (harness.ending(), harness.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Landing))
    );
    assert_eq!(harness.outcome().detail, "the operator refused the changes to provost.toml: no");
    harness.apply(RunCommand::Resume);
    assert_eq!(harness.pending_effects(), ["land-2-0"], "it is checked again");
    assert!(!harness.run.may_land(&commit));
}

#[test]
fn checks_use_protected_files_of_current_target() {
    let mut harness = TestRun::open(landing_spec(LandMode::Merge));
    let base = harness.run.spec.target.base.commit.clone();
    harness.finish_work("new");
    assert_eq!(*harness.run.protected_base(), base);
    harness.apply(target_moved(0, "merged", &[]));
    assert_ne!(*harness.run.protected_base(), base);
    assert_eq!(
        harness.run.verification(1).expect("it is pending").base.as_ref(),
        Some(harness.run.protected_base()),
        "the checks of the merge use the target's version"
    );
}
