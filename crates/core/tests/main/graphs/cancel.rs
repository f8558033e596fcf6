//! Cancelling in every phase: all sessions end, and the run is sealed once.

use provost_core::{
    lifecycle::State,
    run::{ReviewMode, RunCommand, RunEnding},
    session::Session,
    verdict::CheckEnd,
};

use super::kit::{TestRun, planned_spec, with_planning};

type ReachPhase = fn(&mut TestRun);
type NextStep = Box<dyn FnOnce(&mut TestRun)>;

/// Every phase of a task or the queue, reached in a plan where task b depends on task a.
const PHASES: [(&str, ReachPhase); 9] = [
    ("at work", |_| {}),
    ("in review", |harness| {
        harness.focus_task("a").finish_work("a1");
    }),
    ("queued", queued),
    ("merged together", |harness| {
        queued(harness);
        harness.merge_batch(&[("a", "m1")]);
    }),
    ("proved", |harness| {
        queued(harness);
        harness.merge_batch(&[("a", "m1")]).check_merge("m1", CheckEnd::Exit(0));
    }),
    ("given back", |harness| {
        queued(harness);
        harness.merge_with_conflicts(&[], &["a"]);
    }),
    ("brought", |harness| {
        queued(harness);
        harness.integrate_task("a");
    }),
    ("continued", |harness| {
        queued(harness);
        harness.integrate_task("a").finish_worktree_move("b");
    }),
    ("failed", |harness| {
        harness.focus_task("a").fail_session();
    }),
];

fn queued(harness: &mut TestRun) {
    harness.focus_task("a").finish_work("a1").focus_task("a").finish_review("a1", Vec::new());
}

fn harness() -> TestRun {
    let mut spec = planned_spec(&[("a", &[]), ("b", &["a"]), ("slow", &[])]);
    spec.reviews.task = ReviewMode::Report;
    TestRun::open(spec)
}

#[test]
fn cancel_stops_all_sessions_then_seals_once() {
    for (phase, reach) in PHASES {
        let mut harness = harness();
        reach(&mut harness);
        harness.focus_task("slow").start().cancel();
        let decided = |session: &Session| session.attempt().is_decided();
        let live: Vec<_> = harness.run.live().map(|one| one.id).collect();
        assert!(live.iter().all(|id| decided(&harness.sessions[id])), "{phase}");
        assert!(!harness.run.is_sealed() && harness.pending_effects().is_empty(), "{phase}");
        harness.end_all();
        assert_eq!(harness.ending(), RunEnding::Cancelled, "{phase}");
        assert_eq!(harness.count_events("run.sealed"), 1, "{phase}");
        assert!(
            harness.run.worktree_move(1).is_none() || harness.pending_effects().is_empty(),
            "{phase}"
        );
        harness.advance_clock(100_000);
        assert!(harness.pending_effects().is_empty() && !harness.run.is_live(), "{phase}");
    }
}

#[test]
fn run_cancelled_in_any_phase_resumes_to_success() {
    for (phase, reach) in PHASES {
        let mut harness = harness();
        reach(&mut harness);
        harness.focus_task("slow").start().cancel().end_all().apply(RunCommand::Resume);
        for _ in 0..40 {
            let Some(step) = next_step(&harness) else { break };
            step(&mut harness);
        }
        let head = harness.run.head.as_ref().expect("there is work").tree.0.clone();
        harness.land(&head);
        assert_eq!(harness.ending(), RunEnding::Succeeded, "{phase}");
        assert_eq!(harness.run.attempts.len(), 2, "{phase}");
    }
}

/// Returns the next step of a run in which everything succeeds.
fn next_step(harness: &TestRun) -> Option<NextStep> {
    let pending = harness.pending_effects();
    let starts = |what: &str| pending.iter().any(|key| key.starts_with(what));
    let graph = harness.run.graph.as_ref().expect("it is there");
    if let Some((plan, _)) = graph.tasks().find(|(_, task)| task.phase.as_str() == "starting") {
        let name = plan.id.to_string();
        return Some(Box::new(move |harness| {
            harness.finish_worktree_move(&name);
        }));
    }
    if let Some(pending) = harness.run.pending_verification() {
        let tree = pending.snapshot.tree.0.clone();
        return Some(Box::new(move |harness| {
            harness.check_merge(&tree, CheckEnd::Exit(0));
        }));
    }
    if let Some(one) = harness.run.live().next() {
        let (id, no, review) = (one.id, harness.log.len(), one.stage.as_str() == "task_review");
        let head = one.task.as_ref().and_then(|task| graph.task(task)?.head.clone());
        return Some(Box::new(move |harness| {
            harness.focus = Some(id);
            if review {
                harness.finish_review(&head.expect("it is there").tree.0, Vec::new())
            } else {
                harness.finish_work(&format!("t{no}"))
            };
        }));
    }
    if starts("merge") {
        let waiting = graph.queue.waiting.clone();
        return Some(Box::new(move |harness| {
            let no = harness.log.len();
            let trees: Vec<String> = (0..waiting.len()).map(|at| format!("m{no}-{at}")).collect();
            let links = waiting.iter().zip(&trees);
            let links: Vec<_> = links.map(|(id, tree)| (id.as_str(), tree.as_str())).collect();
            harness.merge_batch(&links);
        }));
    }
    starts("integrate").then(|| -> NextStep {
        Box::new(|harness| {
            harness.integrate();
        })
    })
}

#[test]
fn plan_awaiting_approval_can_be_cancelled() {
    let mut harness =
        TestRun::open(with_planning(planned_spec(&[("a", &[])]), |all| all.approve = true));
    harness.cancel();
    assert_eq!((harness.ending(), harness.run.sessions.len()), (RunEnding::Cancelled, 0));
    harness.apply(RunCommand::Resume).apply(RunCommand::ApprovePlan);
    assert_eq!((harness.working_names(), harness.state(1)), (vec!["a".to_owned()], State::Working));
}
