//! Cancelling in every phase: all sessions end, and the run is sealed once.

use provost_core::{
    lifecycle::State,
    run::{Command, Ending, ReviewMode},
    session::Session,
    verdict::CheckEnd,
};

use super::kit::{RunBench, given, with};

type Reach = fn(&mut RunBench);
type Happening = Box<dyn FnOnce(&mut RunBench)>;

/// Every phase of a task or the queue, reached in a plan where task b depends on task a.
const PHASES: [(&str, Reach); 9] = [
    ("at work", |_| {}),
    ("in review", |bench| {
        bench.on("a").works("a1");
    }),
    ("queued", queued),
    ("merged together", |bench| {
        queued(bench);
        bench.merges(&[("a", "m1")]);
    }),
    ("proved", |bench| {
        queued(bench);
        bench.merges(&[("a", "m1")]).merge_is("m1", CheckEnd::Exit(0));
    }),
    ("given back", |bench| {
        queued(bench);
        bench.conflicts(&[], &["a"]);
    }),
    ("brought", |bench| {
        queued(bench);
        bench.comes_in("a");
    }),
    ("continued", |bench| {
        queued(bench);
        bench.comes_in("a").brings("b");
    }),
    ("failed", |bench| {
        bench.on("a").fails();
    }),
];

fn queued(bench: &mut RunBench) {
    bench.on("a").works("a1").on("a").reviews("a1", Vec::new());
}

fn bench() -> RunBench {
    let mut spec = given(&[("a", &[]), ("b", &["a"]), ("slow", &[])]);
    spec.reviews.task = ReviewMode::Report;
    RunBench::open(spec)
}

#[test]
fn everybody_is_told_at_once_and_the_run_is_sealed_with_the_last() {
    for (phase, reach) in PHASES {
        let mut bench = bench();
        reach(&mut bench);
        bench.on("slow").start().cancel();
        let decided = |session: &Session| session.attempt().is_decided();
        let live: Vec<_> = bench.run.live().map(|one| one.id).collect();
        assert!(live.iter().all(|id| decided(&bench.sessions[id])), "{phase}");
        assert!(!bench.run.is_sealed() && bench.owed().is_empty(), "{phase}");
        bench.end_all();
        assert_eq!(bench.ending(), Ending::Cancelled, "{phase}");
        assert_eq!(bench.count("run.sealed"), 1, "{phase}");
        assert!(bench.run.errand(1).is_none() || bench.owed().is_empty(), "{phase}");
        bench.pass(100_000);
        assert!(bench.owed().is_empty() && !bench.run.is_live(), "{phase}");
    }
}

#[test]
fn a_run_that_was_cancelled_at_any_phase_is_resumed_to_its_end() {
    for (phase, reach) in PHASES {
        let mut bench = bench();
        reach(&mut bench);
        bench.on("slow").start().cancel().end_all().tell(Command::Resume);
        for _ in 0..40 {
            let Some(step) = next(&bench) else { break };
            step(&mut bench);
        }
        let head = bench.run.head.as_ref().expect("there is work").tree.0.clone();
        bench.landed(&head);
        assert_eq!(bench.ending(), Ending::Succeeded, "{phase}");
        assert_eq!(bench.run.legs.len(), 2, "{phase}");
    }
}

/// Returns the next step of a run in which everything succeeds.
fn next(bench: &RunBench) -> Option<Happening> {
    let owed = bench.owed();
    let starts = |what: &str| owed.iter().any(|key| key.starts_with(what));
    let graph = bench.run.graph.as_ref().expect("it is there");
    if let Some((plan, _)) = graph.tasks().find(|(_, task)| task.phase.word() == "starting") {
        let name = plan.id.to_string();
        return Some(Box::new(move |bench| {
            bench.brings(&name);
        }));
    }
    if let Some(one) = bench.run.live().next() {
        let (id, no, review) = (one.id, bench.log.len(), one.stage.word() == "task_review");
        let checks = one.stage.word() == "tasks";
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
                    bench.merge_is(&tree, CheckEnd::Exit(0))
                }
                (false, true) => bench.reviews(&head.expect("it is there").tree.0, Vec::new()),
                (false, false) => bench.works(&format!("t{no}")),
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
            bench.merges(&links);
        }));
    }
    starts("integrate").then(|| -> Happening {
        Box::new(|bench| {
            bench.integrates();
        })
    })
}

#[test]
fn a_plan_that_waits_for_a_person_may_be_cancelled() {
    let mut bench = RunBench::open(with(given(&[("a", &[])]), |all| all.approve = true));
    bench.cancel();
    assert_eq!((bench.ending(), bench.run.sessions.len()), (Ending::Cancelled, 0));
    bench.tell(Command::Resume).tell(Command::ApprovePlan);
    assert_eq!((bench.at_work(), bench.state(1)), (vec!["a".to_owned()], State::Working));
}
