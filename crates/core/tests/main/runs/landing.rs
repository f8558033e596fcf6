//! Landing on branches of the repository: moving targets, conflicts, and required proof.

use provost_core::{
    ids::CommitId,
    run::{
        GuardedLanding, LandMode, LandStep, LandingState, MAX_MERGES, MAX_ROUNDS,
        PendingRunApproval, ReviewMode, RunCommand, RunEnding, RunFailureCause, RunSpec, RunStage,
    },
    session::{AgentInterface, ExitZeroPolicy, WorkLocation},
    verdict::CheckEnd,
};

use super::kit::{TestRun, landed, landing_spec, merge_step, reviewed_spec, unchecked_spec};
use crate::kit::snapshot;

fn target_moved(step: usize, tree: &str, conflicts: &[&str]) -> RunCommand {
    RunCommand::TargetMoved { step, merge: merge_step(tree, conflicts) }
}

#[test]
fn verified_work_lands_unchanged() {
    let mut bench = TestRun::open(landing_spec(LandMode::Branch));
    bench.finish_work("new");
    let merged = RunCommand::Landed {
        branch: "main".to_owned(),
        commit: snapshot("new").commit,
        merged: true,
    };
    bench.apply(merged.clone());
    let LandingState::Done(done) = &bench.run.landing else { panic!("it has landed") };
    assert_eq!((done.branch.as_str(), done.merged), ("main", true));
    assert_eq!((&done.commit, &done.pull_request), (&snapshot("new").commit, &None));
    assert_eq!(bench.ending(), RunEnding::Succeeded);
    assert!(bench.try_apply(merged).is_err(), "it lands once");
}

#[test]
fn moved_target_is_merged_and_rechecked() {
    let mut bench = TestRun::open(landing_spec(LandMode::Merge));
    bench.finish_work("new").apply(target_moved(0, "merged", &[]));
    assert_eq!(bench.run.head, Some(snapshot("merged")));
    assert_eq!(bench.run.proof, None, "a new commit voids the proof");
    assert!(bench.pending_effects().is_empty(), "nothing lands unproved");
    let spec = &bench.session(2).spec;
    assert_eq!(
        (&spec.agent.interface, spec.agent.argv.as_slice()),
        (&AgentInterface::command(), &["true".to_owned()][..])
    );
    assert_eq!((spec.exit0, spec.instruction.clone()), (ExitZeroPolicy::Completes, None));
    assert_eq!(spec.checks, ["check"]);
    assert!(
        matches!(&spec.work, WorkLocation::Worktree { base: Some(base), .. } if base.0 == "commit-of-merged")
    );
    bench.finish_check("merged", CheckEnd::Exit(0));
    assert_eq!(bench.pending_effects(), ["land-1-1"]);
    bench.land("merged");
    assert_eq!(bench.ending(), RunEnding::Succeeded);
}

#[test]
fn failing_landing_merge_ends_the_run() {
    let mut bench = TestRun::open(landing_spec(LandMode::Merge));
    bench
        .finish_work("new")
        .apply(target_moved(0, "merged", &[]))
        .finish_check("merged", CheckEnd::Exit(1));
    assert_eq!(bench.pending_effects(), ["landed-1"]);
    bench.apply(RunCommand::LandingAborted { attempt: 1, pull: None });
    assert_eq!(
        (bench.ending(), bench.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Landing))
    );
    let told = "its session ended as failed (verification): the check `check` ended with exit 1";
    assert_eq!(bench.outcome().detail, told);
}

#[test]
fn landing_conflicts_go_to_an_agent() {
    let mut bench = TestRun::open(landing_spec(LandMode::Merge));
    bench.finish_work("new").apply(target_moved(0, "merged", &["a.rs", "b.rs"]));
    assert_eq!(bench.session(2).spec.agent.interface, AgentInterface::json_lines());
    assert!(bench.instruction().contains("- a.rs\n- b.rs"));
    assert_eq!(bench.session(2).spec.name, "limit-land");
    bench.finish_work("mended").land("mended");
    assert_eq!(bench.ending(), RunEnding::Succeeded);
}

#[test]
fn unresolved_conflicts_do_not_land() {
    let mut bench = TestRun::open(landing_spec(LandMode::Merge));
    bench.finish_work("new").apply(target_moved(0, "both", &["a.rs"])).finish_work("both");
    assert_eq!(bench.pending_effects(), ["landed-1"]);
    bench.apply(RunCommand::LandingAborted { attempt: 1, pull: None });
    assert_eq!(
        (bench.ending(), bench.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Landing))
    );
    assert_eq!(bench.outcome().detail, "conflicts were not resolved in: a.rs");
    // Resuming the run lets an agent resolve them.
    bench.apply(RunCommand::Resume);
    assert!(bench.instruction().contains("- a.rs"));
    bench.finish_work("mended").land("mended");
    assert_eq!(bench.ending(), RunEnding::Succeeded);
}

#[test]
fn conflicts_fixed_without_checks_are_unverified() {
    let mut bench = TestRun::open(RunSpec { land: LandMode::Merge, ..unchecked_spec() });
    bench
        .finish_work("-")
        .take_head("new")
        .apply(target_moved(0, "merged", &["a.rs"]))
        .finish_work("-");
    assert_eq!(bench.pending_effects(), [format!("head-{}", bench.run.id.session(2))]);
    bench.take_head("mended").land("mended");
    assert_eq!(bench.ending(), RunEnding::Completed);
    let mut bench = TestRun::open(RunSpec { land: LandMode::Merge, ..unchecked_spec() });
    bench
        .finish_work("-")
        .take_head("new")
        .apply(target_moved(0, "merged", &["a.rs"]))
        .finish_work("-");
    let session = bench.run.id.session(2);
    bench.apply(RunCommand::CommitFailed { session, reason: "no room".to_owned() });
    bench.apply(RunCommand::LandingAborted { attempt: 1, pull: None });
    assert_eq!(
        (bench.outcome().cause, bench.outcome().detail.as_str()),
        (Some(RunFailureCause::Landing), "no room")
    );
}

#[test]
fn unchecked_clean_merge_lands_at_once() {
    let mut bench = TestRun::open(RunSpec { land: LandMode::Merge, ..unchecked_spec() });
    bench.finish_work("-").take_head("new").apply(target_moved(0, "merged", &[]));
    assert_eq!(bench.pending_effects(), ["land-1-1"]);
    assert_eq!(bench.run.sessions.len(), 1);
    bench.land("merged");
    assert_eq!(bench.ending(), RunEnding::Completed);
}

#[test]
fn merge_to_verified_tree_keeps_its_proof() {
    let mut bench = TestRun::open(landing_spec(LandMode::Merge));
    bench.finish_work("new").apply(target_moved(0, "new", &[]));
    assert!(bench.run.proof.is_some(), "the tree is what was checked");
    bench.finish_check("new", CheckEnd::Exit(0)).land("new");
    assert_eq!(bench.ending(), RunEnding::Succeeded);
}

#[test]
fn moved_target_applies_only_to_its_step() {
    let mut bench = TestRun::open(landing_spec(LandMode::Merge));
    bench.finish_work("new").apply(target_moved(0, "merged", &[]));
    assert!(bench.try_apply(target_moved(0, "merged", &[])).is_err());
    assert!(bench.try_apply(target_moved(2, "merged", &[])).is_err());
    bench.finish_check("merged", CheckEnd::Exit(0)).apply(target_moved(1, "again", &[]));
    assert_eq!((bench.run.steps.len(), bench.last_session().cycle), (2, 2));
    assert_eq!(bench.session(3).spec.name, "limit-land-2");
    bench.finish_check("again", CheckEnd::Exit(0));
    assert_eq!(bench.pending_effects(), ["land-1-2"]);
}

#[test]
fn target_moving_too_often_fails_the_run() {
    assert_eq!((MAX_MERGES, MAX_ROUNDS), (5, 5));
    let mut bench = TestRun::open(RunSpec { land: LandMode::Merge, ..unchecked_spec() });
    bench.finish_work("-").take_head("new");
    for step in 0..MAX_MERGES {
        bench.apply(target_moved(step, &format!("m{step}"), &[]));
        assert_eq!(bench.pending_effects(), [format!("land-1-{}", step + 1)]);
    }
    bench.apply(target_moved(MAX_MERGES, "m", &[]));
    assert_eq!(
        (bench.ending(), bench.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Landing))
    );
    assert!(bench.pending_effects().is_empty(), "a reported failure means that nothing landed");
}

#[test]
fn landing_failure_ends_only_its_attempt() {
    let mut bench = TestRun::open(landing_spec(LandMode::Merge));
    bench.finish_work("new");
    let failed = |leg| RunCommand::LandingFailed { attempt: leg, reason: "no branch".to_owned() };
    assert!(bench.try_apply(failed(2)).is_err());
    bench.apply(failed(1));
    assert_eq!((bench.ending(), bench.outcome().detail.as_str()), (RunEnding::Failed, "no branch"));
    bench.apply(RunCommand::Resume);
    assert!(bench.try_apply(failed(1)).is_err(), "a late one ends no later leg");
    assert_eq!(bench.pending_effects(), ["land-2-0"]);
    bench.land("new");
    assert_eq!(bench.ending(), RunEnding::Succeeded);
}

#[test]
fn success_needs_proof_of_the_landed_tree() {
    let mut bench = TestRun::open(reviewed_spec(ReviewMode::Repair, ReviewMode::Off));
    bench.finish_work("new").finish_review("mended", Vec::new());
    assert!(bench.run.proof.as_ref().unwrap().is_for(&snapshot("mended")));
    assert!(!bench.run.proof.as_ref().unwrap().is_for(&snapshot("new")));
    let mut bench =
        TestRun::open(RunSpec { land: LandMode::Merge, ..landing_spec(LandMode::Merge) });
    bench.finish_work("new").apply(target_moved(0, "merged", &["a"]));
    bench.start().apply_to_live(provost_core::session::SessionCommand::Resolve {
        to: provost_core::session::ManualOutcome::Accepted,
        because: "looks right".to_owned(),
    });
    bench.end_session(bench.run.id.session(2)).take_head("mended").land("mended");
    assert_eq!(bench.ending(), RunEnding::Completed, "the proof was for the tree before the merge");
}

#[test]
fn landing_steps_are_stored() {
    let step = merge_step("m", &["a"]);
    let LandStep::Merge { onto, conflicts, .. } = &*step else { panic!("it is a merge") };
    assert_eq!((onto, conflicts.len()), (&CommitId("theirs".to_owned()), 1));
    let mut bench = TestRun::open(landing_spec(LandMode::Merge));
    bench.finish_work("new").apply(RunCommand::TargetMoved { step: 0, merge: step.clone() });
    assert_eq!(bench.run.steps, [*step]);
    assert_eq!(bench.run.stage, RunStage::Land);
    assert!(bench.try_apply(landed("merged")).is_ok(), "what was landed was landed");
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
    let mut bench = TestRun::open(landing_spec(LandMode::Merge));
    bench.finish_work("new");
    assert!(
        bench.try_apply(hold_landing(0, "other")).is_err(),
        "another tree is not what would land"
    );
    bench.apply(hold_landing(0, "new"));
    assert_eq!(bench.run.approval(), Some(PendingRunApproval::Landing(&held_landing("new"))));
    assert!(bench.pending_effects().is_empty(), "nothing lands before the operator approves");
    assert_eq!(bench.hooks().last().map(String::as_str), Some("run.question"));
    assert!(bench.try_apply(hold_landing(0, "new")).is_err(), "it is asked once");
    let approve = |commit: &str| RunCommand::ApproveLanding { commit: snapshot(commit).commit };
    assert!(bench.try_apply(approve("other")).is_err());
    bench.apply(approve("new"));
    assert!(bench.run.may_land(&snapshot("new").commit) && !bench.run.awaits_approval());
    assert_eq!(bench.pending_effects(), ["land-1-0"]);
    bench.land("new");
    assert_eq!(bench.ending(), RunEnding::Succeeded);
}

#[test]
fn landing_approval_is_void_for_another_tree() {
    let mut bench = TestRun::open(RunSpec { land: LandMode::Merge, ..unchecked_spec() });
    bench.finish_work("-").take_head("new");
    bench.apply(hold_landing(0, "new"));
    bench.apply(RunCommand::ApproveLanding { commit: snapshot("new").commit });
    bench.apply(target_moved(0, "merged", &[]));
    assert!(!bench.run.may_land(&snapshot("new").commit) && bench.run.held.is_none());
    bench.apply(hold_landing(1, "merged"));
    assert!(bench.run.awaits_approval() && bench.pending_effects().is_empty());
}

#[test]
fn rejected_landing_fails_and_resume_asks_again() {
    let mut bench = TestRun::open(landing_spec(LandMode::Merge));
    bench.finish_work("new").apply(hold_landing(0, "new"));
    let commit = snapshot("new").commit;
    bench.apply(RunCommand::RejectLanding { commit: commit.clone(), because: "no".to_owned() });
    assert!(bench.run.approval().is_none());
    bench.apply(RunCommand::LandingAborted { attempt: 1, pull: None });
    assert_eq!(
        (bench.ending(), bench.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Landing))
    );
    assert_eq!(bench.outcome().detail, "the operator refused the change of provost.toml: no");
    bench.apply(RunCommand::Resume);
    assert_eq!(bench.pending_effects(), ["land-2-0"], "it is checked again");
    assert!(!bench.run.may_land(&commit));
}

#[test]
fn checks_use_protected_files_of_current_target() {
    let mut bench = TestRun::open(landing_spec(LandMode::Merge));
    let base = bench.run.spec.target.base.commit.clone();
    bench.finish_work("new");
    assert_eq!(*bench.run.protected_base(), base);
    bench.apply(target_moved(0, "merged", &[]));
    assert_ne!(*bench.run.protected_base(), base);
    assert_eq!(
        bench.session(2).spec.check_terms.base.as_ref(),
        Some(bench.run.protected_base()),
        "the checks of the merge use the target's version"
    );
}
