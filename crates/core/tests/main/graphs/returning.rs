//! Tasks that the queue returns: conflicts with both sides, and tasks that break the merged checks.

use provost_core::{
    run::{Cause, Command, Ending, MAX_RETURNS, Return, Stage},
    verdict::CheckEnd,
};

use super::kit::{RunBench, given, id};
use crate::kit::snapshot;

const PASSED: CheckEnd = CheckEnd::Exit(0);
const REFUTED: CheckEnd = CheckEnd::Exit(1);

/// A run with two finished tasks in the merge queue.
fn two_done() -> RunBench {
    let mut bench = RunBench::open(given(&[("a", &[]), ("b", &[])]));
    bench.on("a").works("a1").on("b").works("b1");
    bench
}

#[test]
fn a_conflict_goes_back_to_whoever_did_the_work_with_both_sides_in_the_files() {
    let mut bench = two_done();
    let worker = bench.task("b").worker.unwrap();
    bench.comes_in("a").conflicts(&[], &["b"]);
    assert_eq!(bench.word("b"), "starting");
    let errand = bench.run.errand(1).unwrap();
    assert_eq!((errand.session, errand.to.clone()), (worker, Some(snapshot("both-b"))));
    bench.brings("b").on("b");
    assert_eq!(bench.live(), worker);
    assert!(bench.instruction().contains("- src/b.rs"), "{}", bench.instruction());
    bench.works("b2");
    let mended = bench.task("b").mended.clone();
    assert_eq!(mended, Some((snapshot("b1").commit, snapshot("a1").commit)));
    bench.merges(&[("b", "m")]).merge_is("m", PASSED).integrates().landed("m");
    assert_eq!(bench.ending(), Ending::Succeeded);
}

#[test]
fn what_breaks_the_others_is_found_by_halves_and_goes_back_with_the_evidence() {
    let names = ["a", "b", "c", "d"];
    let mut bench = RunBench::open(given(&[("a", &[]), ("b", &[]), ("c", &[]), ("d", &[])]));
    names.iter().for_each(|name| {
        bench.on(name).works(&format!("{name}1"));
    });
    bench.merges(&[("a", "m1"), ("b", "m2"), ("c", "m3"), ("d", "m4")]);
    bench.merge_is("m4", REFUTED).merge_is("m2", PASSED).merge_is("m3", REFUTED);
    assert_eq!(bench.owed(), ["integrate-1-1-2"], "what is good goes in");
    bench.integrates();
    assert_eq!(bench.run.head, Some(snapshot("m2")));
    let Some(Return::Breaks { merge, failed }) = &bench.task("c").returned else {
        panic!("c broke it")
    };
    assert_eq!((merge, failed[0].command.as_str()), (&snapshot("m3"), "check"));
    assert_eq!((bench.word("a"), bench.word("b"), bench.word("d")), ("merged", "merged", "queued"));
    bench.merges(&[("d", "m5")]).merge_is("m5", PASSED).integrates();
    bench.brings("c").on("c");
    assert!(bench.instruction().contains("The check `check` failed:"), "{}", bench.instruction());
    bench.works("c2").merges(&[("c", "m6")]).merge_is("m6", PASSED).integrates().landed("m6");
    assert_eq!(bench.ending(), Ending::Succeeded);
    assert_eq!(bench.run.graph.as_ref().unwrap().queue.checks, 5);
}

#[test]
fn a_task_comes_back_so_often_and_no_more() {
    let mut bench = two_done();
    bench.comes_in("a");
    for no in 1..=MAX_RETURNS {
        bench.conflicts(&[], &["b"]).brings("b").on("b").works(&format!("b{}", no + 1));
    }
    bench.conflicts(&[], &["b"]);
    assert_eq!((bench.ending(), bench.outcome().cause), (Ending::Failed, Some(Cause::Tasks)));
    let detail = "1 of 2 tasks are merged; b: it came back from the merge queue 3 times";
    assert_eq!(bench.outcome().detail, detail);
    bench.tell(Command::Resume);
    assert_eq!((bench.word("b"), bench.task("b").returns), ("starting", 0));
}

#[test]
fn what_comes_back_is_not_reviewed_again() {
    let mut spec = given(&[("a", &[]), ("b", &[])]);
    spec.reviews.task = provost_core::run::ReviewMode::Report;
    let mut bench = RunBench::open(spec);
    bench.on("a").works("a1").on("a").reviews("a1", Vec::new()).comes_in("a");
    bench.on("b").works("b1").on("b").reviews("b1", Vec::new());
    bench.conflicts(&[], &["b"]).brings("b").on("b").works("b2");
    assert_eq!(bench.word("b"), "queued");
}

#[test]
fn what_cannot_be_merged_behind_others_is_first_next_time() {
    let mut bench = RunBench::open(given(&[("a", &[]), ("b", &[]), ("c", &[])]));
    ["a", "b", "c"].iter().for_each(|name| {
        bench.on(name).works(&format!("{name}1"));
    });
    bench.merges(&[("a", "m1"), ("c", "m2")]);
    assert_eq!(bench.run.graph.as_ref().unwrap().queue.waiting, [id("b")]);
    bench.merge_is("m2", PASSED).integrates().conflicts(&[], &["b"]);
    assert_eq!(bench.word("b"), "starting");
}

#[test]
fn where_the_worktree_cannot_be_brought_another_agent_mends_the_conflict() {
    let mut bench = two_done();
    let worker = bench.task("b").worker;
    bench.comes_in("a").conflicts(&[], &["b"]);
    bench.tell(Command::ErrandFailed { no: 1, reason: "it is gone".to_owned() });
    assert_ne!(bench.task("b").worker, worker);
    assert_eq!(bench.task("b").base, Some(snapshot("both-b")));
    assert!(bench.on("b").instruction().contains("- src/b.rs"));
    bench.works("b2").merges(&[("b", "m")]).merge_is("m", PASSED).integrates();
    assert_eq!(bench.word("b"), "merged");
}

#[test]
fn what_was_merged_anew_after_a_mended_conflict_is_no_mended_conflict_any_more() {
    let mut bench = two_done();
    bench.comes_in("a").conflicts(&[], &["b"]).brings("b").on("b").works("b2");
    assert!(bench.task("b").mended.is_some());
    bench.merges(&[("b", "m")]).merge_is("m", REFUTED).brings("b").on("b").works("b3");
    assert_eq!(bench.task("b").mended, None, "it descends from the merge that broke");
}

#[test]
fn a_tree_that_was_proved_is_not_checked_again() {
    let mut bench = two_done();
    bench.merges(&[("a", "a1")]);
    assert_eq!(bench.count("run.prefix_proved"), 1);
    assert_eq!(bench.owed(), ["integrate-1-1-1"]);
    bench.integrates();
    assert!(bench.run.proof.as_ref().unwrap().is_for(&snapshot("a1")));
}

#[test]
fn checks_that_come_to_no_result_end_the_run_after_a_while() {
    let mut bench = two_done();
    bench.merges(&[("a", "m1"), ("b", "m2")]);
    let unknown = || CheckEnd::Unfinished("power".to_owned());
    bench.merge_is("m2", unknown()).merge_is("m2", unknown()).merge_is("m2", unknown());
    assert_eq!((bench.ending(), bench.outcome().cause), (Ending::Failed, Some(Cause::Queue)));
    assert_eq!(bench.run.head, None, "nothing is proved, and nothing went in");
}

#[test]
fn two_that_changed_the_same_lines_mend_them_one_after_the_other() {
    let mut bench = RunBench::open(given(&[("a", &[]), ("b", &[]), ("c", &[])]));
    bench.on("a").works("a1").comes_in("a").on("b").works("b1").on("c").works("c1");
    let Command::BatchMerged { batch, onto, links, mut conflicts } =
        bench.batch_merged(&[], &["b", "c"])
    else {
        panic!("a merge was answered")
    };
    conflicts.iter_mut().for_each(|met| met.files = vec!["shared".to_owned()]);
    bench.tell(Command::BatchMerged { batch, onto, links, conflicts });
    assert_eq!((bench.word("b"), bench.word("c")), ("starting", "queued"), "c waits for b");
    bench.brings("b").on("b").works("b2");
    assert_eq!(bench.word("c"), "queued", "the fix of b is not merged yet");
    bench.merges(&[("b", "m1")]).merge_is("m1", PASSED);
    bench.integrates();
    assert_eq!(bench.task("c").returns, 0, "it is merged with what b left first");
    bench.conflicts(&[], &["c"]);
    assert_eq!((bench.word("c"), bench.task("c").returns), ("starting", 1));
}

#[test]
fn a_check_of_another_tree_proves_nothing_about_the_merge() {
    let mut spec = given(&[("a", &[]), ("b", &[])]);
    spec.setup = Some("make".to_owned());
    let mut bench = RunBench::open(spec);
    bench.on("a").works("a1").on("b").works("b1").merges(&[("a", "a1"), ("b", "m")]);
    let checking = bench.run.live().find(|one| one.stage == Stage::Tasks).unwrap().id;
    assert_eq!(bench.sessions[&checking].spec.setup, None, "nothing changes what was merged");
    for _ in 0..3 {
        bench.merge_is("m-and-more", CheckEnd::Exit(0));
        assert!(bench.owed().iter().all(|owed| !owed.starts_with("integrate")));
    }
    assert_eq!((bench.ending(), bench.outcome().cause), (Ending::Failed, Some(Cause::Queue)));
    assert_eq!(bench.run.head, None, "nothing of it is on the branch");
}
