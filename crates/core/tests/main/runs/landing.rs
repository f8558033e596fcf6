//! Landing on branches of the repository: moving targets, conflicts, and required proof.

use provost_core::{
    ids::CommitId,
    run::{
        Approval, Cause, Command, Ending, HeldLanding, LandMode, LandStep, Landing, MAX_MERGES,
        MAX_ROUNDS, ReviewMode, RunSpec, Stage,
    },
    session::{Driver, Exit0, Work},
    verdict::CheckEnd,
};

use super::kit::{RunBench, landed, landing_by, merge_step, reviewed, unchecked};
use crate::kit::snapshot;

fn moved(step: usize, tree: &str, conflicts: &[&str]) -> Command {
    Command::TargetMoved { step, merge: merge_step(tree, conflicts) }
}

#[test]
fn proved_work_lands_as_it_is() {
    let mut bench = RunBench::open(landing_by(LandMode::Branch));
    bench.works("new");
    let merged =
        Command::Landed { branch: "main".to_owned(), commit: snapshot("new").commit, merged: true };
    bench.tell(merged.clone());
    let Landing::Done(done) = &bench.run.landing else { panic!("it has landed") };
    assert_eq!((done.branch.as_str(), done.merged), ("main", true));
    assert_eq!((&done.commit, &done.pull_request), (&snapshot("new").commit, &None));
    assert_eq!(bench.ending(), Ending::Succeeded);
    assert!(bench.try_tell(merged).is_err(), "it lands once");
}

#[test]
fn a_target_that_moved_is_merged_with_and_the_merge_is_checked_again() {
    let mut bench = RunBench::open(landing_by(LandMode::Merge));
    bench.works("new").tell(moved(0, "merged", &[]));
    assert_eq!(bench.run.head, Some(snapshot("merged")));
    assert_eq!(bench.run.proof, None, "a new commit voids the proof");
    assert!(bench.owed().is_empty(), "nothing lands unproved");
    let spec = &bench.session(2).spec;
    assert_eq!(
        (spec.agent.driver, spec.agent.argv.as_slice()),
        (Driver::Command, &["true".to_owned()][..])
    );
    assert_eq!((spec.exit0, spec.instruction.clone()), (Exit0::IsDone, None));
    assert_eq!(spec.checks, ["check"]);
    assert!(
        matches!(&spec.work, Work::Worktree { base: Some(base), .. } if base.0 == "commit-of-merged")
    );
    bench.is_checked("merged", CheckEnd::Exit(0));
    assert_eq!(bench.owed(), ["land-1-1"]);
    bench.landed("merged");
    assert_eq!(bench.ending(), Ending::Succeeded);
}

#[test]
fn a_merge_that_the_checks_refute_ends_the_run() {
    let mut bench = RunBench::open(landing_by(LandMode::Merge));
    bench.works("new").tell(moved(0, "merged", &[])).is_checked("merged", CheckEnd::Exit(1));
    assert_eq!(bench.owed(), ["landed-1"]);
    bench.tell(Command::LandOver { leg: 1, pull: None });
    assert_eq!((bench.ending(), bench.outcome().cause), (Ending::Failed, Some(Cause::Landing)));
    let told = "its session ended as failed (verification): the check `check` ended with exit 1";
    assert_eq!(bench.outcome().detail, told);
}

#[test]
fn conflicts_go_to_an_agent() {
    let mut bench = RunBench::open(landing_by(LandMode::Merge));
    bench.works("new").tell(moved(0, "merged", &["a.rs", "b.rs"]));
    assert_eq!(bench.session(2).spec.agent.driver, Driver::Jsonl);
    assert!(bench.instruction().contains("- a.rs\n- b.rs"));
    assert_eq!(bench.session(2).spec.name, "limit-land");
    bench.works("mended").landed("mended");
    assert_eq!(bench.ending(), Ending::Succeeded);
}

#[test]
fn files_in_conflict_that_were_left_as_they_were_do_not_land() {
    let mut bench = RunBench::open(landing_by(LandMode::Merge));
    bench.works("new").tell(moved(0, "both", &["a.rs"])).works("both");
    assert_eq!(bench.owed(), ["landed-1"]);
    bench.tell(Command::LandOver { leg: 1, pull: None });
    assert_eq!((bench.ending(), bench.outcome().cause), (Ending::Failed, Some(Cause::Landing)));
    assert_eq!(bench.outcome().detail, "conflicts were not resolved in: a.rs");
    // Resuming the run lets an agent resolve them.
    bench.tell(Command::Resume);
    assert!(bench.instruction().contains("- a.rs"));
    bench.works("mended").landed("mended");
    assert_eq!(bench.ending(), Ending::Succeeded);
}

#[test]
fn conflicts_mended_without_checks_are_committed_and_prove_nothing() {
    let mut bench = RunBench::open(RunSpec { land: LandMode::Merge, ..unchecked() });
    bench.works("-").head("new").tell(moved(0, "merged", &["a.rs"])).works("-");
    assert_eq!(bench.owed(), [format!("head-{}", bench.run.id.session(2))]);
    bench.head("mended").landed("mended");
    assert_eq!(bench.ending(), Ending::Completed);
    let mut bench = RunBench::open(RunSpec { land: LandMode::Merge, ..unchecked() });
    bench.works("-").head("new").tell(moved(0, "merged", &["a.rs"])).works("-");
    let session = bench.run.id.session(2);
    bench.tell(Command::HeadFailed { session, reason: "no room".to_owned() });
    bench.tell(Command::LandOver { leg: 1, pull: None });
    assert_eq!(
        (bench.outcome().cause, bench.outcome().detail.as_str()),
        (Some(Cause::Landing), "no room")
    );
}

#[test]
fn a_clean_merge_that_nobody_checks_lands_at_once() {
    let mut bench = RunBench::open(RunSpec { land: LandMode::Merge, ..unchecked() });
    bench.works("-").head("new").tell(moved(0, "merged", &[]));
    assert_eq!(bench.owed(), ["land-1-1"]);
    assert_eq!(bench.run.sessions.len(), 1);
    bench.landed("merged");
    assert_eq!(bench.ending(), Ending::Completed);
}

#[test]
fn a_merge_with_the_very_tree_that_was_proved_needs_no_other_proof_to_be_one() {
    let mut bench = RunBench::open(landing_by(LandMode::Merge));
    bench.works("new").tell(moved(0, "new", &[]));
    assert!(bench.run.proof.is_some(), "the tree is what was checked");
    bench.is_checked("new", CheckEnd::Exit(0)).landed("new");
    assert_eq!(bench.ending(), Ending::Succeeded);
}

#[test]
fn a_late_word_of_a_moved_target_is_of_the_step_it_was_for() {
    let mut bench = RunBench::open(landing_by(LandMode::Merge));
    bench.works("new").tell(moved(0, "merged", &[]));
    assert!(bench.try_tell(moved(0, "merged", &[])).is_err());
    assert!(bench.try_tell(moved(2, "merged", &[])).is_err());
    bench.is_checked("merged", CheckEnd::Exit(0)).tell(moved(1, "again", &[]));
    assert_eq!((bench.run.steps.len(), bench.last().cycle), (2, 2));
    assert_eq!(bench.session(3).spec.name, "limit-land-2");
    bench.is_checked("again", CheckEnd::Exit(0));
    assert_eq!(bench.owed(), ["land-1-2"]);
}

#[test]
fn a_target_that_keeps_moving_is_given_up() {
    assert_eq!((MAX_MERGES, MAX_ROUNDS), (5, 5));
    let mut bench = RunBench::open(RunSpec { land: LandMode::Merge, ..unchecked() });
    bench.works("-").head("new");
    for step in 0..MAX_MERGES {
        bench.tell(moved(step, &format!("m{step}"), &[]));
        assert_eq!(bench.owed(), [format!("land-1-{}", step + 1)]);
    }
    bench.tell(moved(MAX_MERGES, "m", &[]));
    assert_eq!((bench.ending(), bench.outcome().cause), (Ending::Failed, Some(Cause::Landing)));
    assert!(bench.owed().is_empty(), "a reported failure means that nothing landed");
}

#[test]
fn a_landing_that_fails_ends_the_run_of_its_own_leg() {
    let mut bench = RunBench::open(landing_by(LandMode::Merge));
    bench.works("new");
    let failed = |leg| Command::LandFailed { leg, reason: "no branch".to_owned() };
    assert!(bench.try_tell(failed(2)).is_err());
    bench.tell(failed(1));
    assert_eq!((bench.ending(), bench.outcome().detail.as_str()), (Ending::Failed, "no branch"));
    bench.tell(Command::Resume);
    assert!(bench.try_tell(failed(1)).is_err(), "a late one ends no later leg");
    assert_eq!(bench.owed(), ["land-2-0"]);
    bench.landed("new");
    assert_eq!(bench.ending(), Ending::Succeeded);
}

#[test]
fn succeeded_needs_a_proof_for_the_very_tree() {
    let mut bench = RunBench::open(reviewed(ReviewMode::Repair, ReviewMode::Off));
    bench.works("new").reviews("mended", Vec::new());
    assert!(bench.run.proof.as_ref().unwrap().is_for(&snapshot("mended")));
    assert!(!bench.run.proof.as_ref().unwrap().is_for(&snapshot("new")));
    let mut bench =
        RunBench::open(RunSpec { land: LandMode::Merge, ..landing_by(LandMode::Merge) });
    bench.works("new").tell(moved(0, "merged", &["a"]));
    bench.start().say(provost_core::session::Command::Resolve {
        to: provost_core::session::Resolve::Accepted,
        because: "looks right".to_owned(),
    });
    bench.end_session(bench.run.id.session(2)).head("mended").landed("mended");
    assert_eq!(bench.ending(), Ending::Completed, "the proof was for the tree before the merge");
}

#[test]
fn steps_are_stored_as_they_were() {
    let step = merge_step("m", &["a"]);
    let LandStep::Merge { onto, conflicts, .. } = &*step else { panic!("it is a merge") };
    assert_eq!((onto, conflicts.len()), (&CommitId("theirs".to_owned()), 1));
    let mut bench = RunBench::open(landing_by(LandMode::Merge));
    bench.works("new").tell(Command::TargetMoved { step: 0, merge: step.clone() });
    assert_eq!(bench.run.steps, [*step]);
    assert_eq!(bench.run.stage, Stage::Land);
    assert!(bench.try_tell(landed("merged")).is_ok(), "what was landed was landed");
}

fn held(commit: &str) -> HeldLanding {
    HeldLanding {
        onto: CommitId("tip".to_owned()),
        landing: snapshot(commit),
        files: vec!["provost.toml".to_owned()],
        diff: "+setup".to_owned(),
        truncated: false,
        approved: false,
    }
}

fn hold(step: usize, commit: &str) -> Command {
    Command::HoldLanding { step, held: Box::new(held(commit)) }
}

#[test]
fn held_landing_waits_for_exactly_its_commit() {
    let mut bench = RunBench::open(landing_by(LandMode::Merge));
    bench.works("new");
    assert!(bench.try_tell(hold(0, "other")).is_err(), "another tree is not what would land");
    bench.tell(hold(0, "new"));
    assert_eq!(bench.run.approval(), Some(Approval::Landing(&held("new"))));
    assert!(bench.owed().is_empty(), "nothing lands before the operator approves");
    assert_eq!(bench.hooks().last().map(String::as_str), Some("run.question"));
    assert!(bench.try_tell(hold(0, "new")).is_err(), "it is asked once");
    let approve = |commit: &str| Command::ApproveLanding { commit: snapshot(commit).commit };
    assert!(bench.try_tell(approve("other")).is_err());
    bench.tell(approve("new"));
    assert!(bench.run.may_land(&snapshot("new").commit) && !bench.run.awaits_approval());
    assert_eq!(bench.owed(), ["land-1-0"]);
    bench.landed("new");
    assert_eq!(bench.ending(), Ending::Succeeded);
}

#[test]
fn approval_is_void_once_the_tree_is_another() {
    let mut bench = RunBench::open(RunSpec { land: LandMode::Merge, ..unchecked() });
    bench.works("-").head("new");
    bench.tell(hold(0, "new"));
    bench.tell(Command::ApproveLanding { commit: snapshot("new").commit });
    bench.tell(moved(0, "merged", &[]));
    assert!(!bench.run.may_land(&snapshot("new").commit) && bench.run.held.is_none());
    bench.tell(hold(1, "merged"));
    assert!(bench.run.awaits_approval() && bench.owed().is_empty());
}

#[test]
fn rejected_landing_fails_the_run_and_resume_asks_again() {
    let mut bench = RunBench::open(landing_by(LandMode::Merge));
    bench.works("new").tell(hold(0, "new"));
    let commit = snapshot("new").commit;
    bench.tell(Command::RejectLanding { commit: commit.clone(), because: "no".to_owned() });
    assert!(bench.run.approval().is_none());
    bench.tell(Command::LandOver { leg: 1, pull: None });
    assert_eq!((bench.ending(), bench.outcome().cause), (Ending::Failed, Some(Cause::Landing)));
    assert_eq!(bench.outcome().detail, "the operator refused the change of provost.toml: no");
    bench.tell(Command::Resume);
    assert_eq!(bench.owed(), ["land-2-0"], "it is checked again");
    assert!(!bench.run.may_land(&commit));
}

#[test]
fn checks_use_protected_files_of_the_base_or_the_moved_target() {
    let mut bench = RunBench::open(landing_by(LandMode::Merge));
    let base = bench.run.spec.target.base.commit.clone();
    bench.works("new");
    assert_eq!(*bench.run.protected_base(), base);
    bench.tell(moved(0, "merged", &[]));
    assert_ne!(*bench.run.protected_base(), base);
    assert_eq!(
        bench.session(2).spec.check_terms.base.as_ref(),
        Some(bench.run.protected_base()),
        "the checks of the merge use the target's version"
    );
}
