//! A crash at any point of any commit of a run changes no outcome. A whole test run tries every commit, a short one
//! every tenth.

use std::collections::BTreeMap;

use provost_sim::{CrashPoint, Faults, SimReport, SimRunOutcome, crashed_at, has_run, simulate};

use crate::depth::is_whole;

/// The number of scenarios that run with crashes.
fn story_count() -> usize {
    if is_whole() { 8 } else { 2 }
}

/// The distance between two crashed commits.
fn commit_step() -> usize {
    if is_whole() { 1 } else { 10 }
}

const POINTS: [CrashPoint; 5] = [
    CrashPoint::BeforeAppend,
    CrashPoint::AfterAppend,
    CrashPoint::InDispatch(0),
    CrashPoint::InDispatch(1),
    CrashPoint::InDispatch(2),
];

#[test]
fn crash_at_any_commit_keeps_outcomes() {
    let mut crashes = 0;
    let stories = stories();
    for (seed, calm) in &stories {
        for commit in (0..calm.commits).step_by(commit_step()) {
            for point in POINTS {
                let crashed = crashed_at(*seed, commit, point);
                let at = format!("seed {seed}, commit {commit} of {}, {point:?}", calm.commits);
                assert_eq!(crashed.broken, None, "{at}");
                assert_eq!(crashed.runs, calm.runs, "{at}");
                assert_eq!(crashed.outcomes, calm.outcomes, "{at}");
                crashes += crashed.crashes;
            }
        }
    }
    println!("{} stories, {crashes} crashes", stories.len());
    let expected = 50 * stories.len() / commit_step();
    assert!(crashes > expected as u64, "the engine crashed {crashes} times");
}

/// Returns scenarios that differ in their outcome and their events, the most eventful first.
fn stories() -> Vec<(u64, SimReport)> {
    let mut found: BTreeMap<String, (u64, SimReport)> = BTreeMap::new();
    let seeds = if is_whole() { 2_000 } else { 200 };
    for seed in (0..seeds).filter(|seed| has_run(*seed)) {
        let calm = simulate(seed, Faults::NONE);
        assert_eq!(calm.broken, None);
        if let Some(run) = calm.runs.first() {
            found.entry(kind(run)).or_insert((seed, calm));
        }
    }
    let mut stories: Vec<(u64, SimReport)> = found.into_values().collect();
    stories.sort_by_key(|(_, calm)| std::cmp::Reverse(calm.commits));
    let count = story_count();
    assert!(stories.len() >= count, "only {} different scenarios", stories.len());
    let (first, last) = (count.div_ceil(2), count / 2);
    // The longest, and the same number of others.
    let others = stories.split_off(first);
    let apart = (others.len() / last.max(1)).max(1);
    stories.extend(others.into_iter().step_by(apart).take(last));
    stories
}

fn kind(run: &SimRunOutcome) -> String {
    let (ended, decided) = (run.attempts.first(), run.decisions > 0);
    let (steps, merged) = (run.steps.min(3), run.merged.len().min(3));
    format!("{} {ended:?} {} {decided} {steps} {merged}", run.stage, run.landed)
}
