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
    ("in review", |bench| {
        bench.focus_task("a").finish_work("a1");
    }),
    ("queued", queued),
    ("merged together", |bench| {
        queued(bench);
        bench.merge_batch(&[("a", "m1")]);
    }),
    ("proved", |bench| {
        queued(bench);
        bench.merge_batch(&[("a", "m1")]).check_merge("m1", CheckEnd::Exit(0));
    }),
    ("given back", |bench| {
        queued(bench);
        bench.merge_with_conflicts(&[], &["a"]);
    }),
    ("brought", |bench| {
        queued(bench);
        bench.integrate_task("a");
    }),
    ("continued", |bench| {
        queued(bench);
        bench.integrate_task("a").finish_worktree_move("b");
    }),
    ("failed", |bench| {
        bench.focus_task("a").fail_session();
    }),
];

fn queued(bench: &mut TestRun) {
    bench.focus_task("a").finish_work("a1").focus_task("a").finish_review("a1", Vec::new());
}

fn bench() -> TestRun {
    let mut spec = planned_spec(&[("a", &[]), ("b", &["a"]), ("slow", &[])]);
    spec.reviews.task = ReviewMode::Report;
    TestRun::open(spec)
}

#[test]
fn cancel_stops_all_sessions_then_seals_once() {
    for (phase, reach) in PHASES {
        let mut bench = bench();
        reach(&mut bench);
        bench.focus_task("slow").start().cancel();
        let decided = |session: &Session| session.attempt().is_decided();
        let live: Vec<_> = bench.run.live().map(|one| one.id).collect();
        assert!(live.iter().all(|id| decided(&bench.sessions[id])), "{phase}");
        assert!(!bench.run.is_sealed() && bench.pending_effects().is_empty(), "{phase}");
        bench.end_all();
        assert_eq!(bench.ending(), RunEnding::Cancelled, "{phase}");
        assert_eq!(bench.count_events("run.sealed"), 1, "{phase}");
        assert!(
            bench.run.worktree_move(1).is_none() || bench.pending_effects().is_empty(),
            "{phase}"
        );
        bench.advance_clock(100_000);
        assert!(bench.pending_effects().is_empty() && !bench.run.is_live(), "{phase}");
    }
}

#[test]
fn run_cancelled_in_any_phase_resumes_to_success() {
    for (phase, reach) in PHASES {
        let mut bench = bench();
        reach(&mut bench);
        bench.focus_task("slow").start().cancel().end_all().apply(RunCommand::Resume);
        for _ in 0..40 {
            let Some(step) = next_step(&bench) else { break };
            step(&mut bench);
        }
        let head = bench.run.head.as_ref().expect("there is work").tree.0.clone();
        bench.land(&head);
        assert_eq!(bench.ending(), RunEnding::Succeeded, "{phase}");
        assert_eq!(bench.run.attempts.len(), 2, "{phase}");
    }
}

/// Returns the next step of a run in which everything succeeds.
fn next_step(bench: &TestRun) -> Option<NextStep> {
    let owed = bench.pending_effects();
    let starts = |what: &str| owed.iter().any(|key| key.starts_with(what));
    let graph = bench.run.graph.as_ref().expect("it is there");
    if let Some((plan, _)) = graph.tasks().find(|(_, task)| task.phase.as_str() == "starting") {
        let name = plan.id.to_string();
        return Some(Box::new(move |bench| {
            bench.finish_worktree_move(&name);
        }));
    }
    if let Some(one) = bench.run.live().next() {
        let (id, no, review) = (one.id, bench.log.len(), one.stage.as_str() == "task_review");
        let checks = one.stage.as_str() == "tasks";
        let head = one.task.as_ref().and_then(|task| graph.task(task)?.head.clone());
        return Some(Box::new(move |bench| {
            bench.focus = Some(id);
            let merged = bench.run.graph.as_ref().expect("it is there").queue.batch.clone();
            match (checks, review) {
                (true, _) => {
                    let tree = merged
                        .expect("it is there")
                        .links
                        .last()
                        .expect("it is there")
                        .merge
                        .tree
                        .0
                        .clone();
                    bench.check_merge(&tree, CheckEnd::Exit(0))
                }
                (false, true) => {
                    bench.finish_review(&head.expect("it is there").tree.0, Vec::new())
                }
                (false, false) => bench.finish_work(&format!("t{no}")),
            };
        }));
    }
    if starts("merge") {
        let waiting = graph.queue.waiting.clone();
        return Some(Box::new(move |bench| {
            let no = bench.log.len();
            let trees: Vec<String> = (0..waiting.len()).map(|at| format!("m{no}-{at}")).collect();
            let links = waiting.iter().zip(&trees);
            let links: Vec<_> = links.map(|(id, tree)| (id.as_str(), tree.as_str())).collect();
            bench.merge_batch(&links);
        }));
    }
    starts("integrate").then(|| -> NextStep {
        Box::new(|bench| {
            bench.integrate();
        })
    })
}

#[test]
fn plan_awaiting_approval_can_be_cancelled() {
    let mut bench =
        TestRun::open(with_planning(planned_spec(&[("a", &[])]), |all| all.approve = true));
    bench.cancel();
    assert_eq!((bench.ending(), bench.run.sessions.len()), (RunEnding::Cancelled, 0));
    bench.apply(RunCommand::Resume).apply(RunCommand::ApprovePlan);
    assert_eq!((bench.working_names(), bench.state(1)), (vec!["a".to_owned()], State::Working));
}
