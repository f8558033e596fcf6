//! Review modes and the handling of findings.

use provost_core::{
    lifecycle::ClaimKind,
    result::Finding,
    run::{Cause, Command, Ending, ReviewMode, Reviews, RunSpec, Stage},
    verdict::CheckEnd,
};

use super::kit::{RunBench, finding, reviewed, run_spec, understood};
use crate::kit::snapshot;

fn repaired(title: &str) -> Finding {
    Finding { repaired: true, ..finding(title) }
}

#[test]
fn a_report_is_one_look_and_its_findings_stay_open() {
    let mut bench = RunBench::open(reviewed(ReviewMode::Report, ReviewMode::Off));
    bench.works("new").reviews("new", vec![finding("slow"), repaired("typo")]);
    assert_eq!(bench.run.stage, Stage::Land);
    let open: Vec<&str> = bench.run.open_findings().map(|one| one.title.as_str()).collect();
    assert_eq!(open, ["slow"]);
    assert_eq!(bench.run.head, Some(snapshot("new")), "a report does not change the work");
    bench.landed("new");
    assert_eq!(bench.ending(), Ending::Succeeded, "findings are reported and refute nothing");
    assert_eq!(bench.hooks(), ["run.opened", "run.findings", "run.succeeded"]);
}

#[test]
fn a_repair_that_found_something_is_looked_at_again_so_often() {
    let mut bench = RunBench::open(reviewed(ReviewMode::Repair, ReviewMode::Off));
    bench.works("new").reviews("mended", vec![repaired("slow")]);
    assert_eq!((bench.run.stage, bench.last().cycle), (Stage::TaskReview, 2));
    assert_eq!(bench.session(3).spec.name, "limit-task_review-2");
    bench.reviews("mended-2", vec![repaired("slower")]);
    assert_eq!(bench.run.stage, Stage::Land, "twice is enough");
    bench.landed("mended-2");
    assert_eq!(bench.ending(), Ending::Succeeded);
    assert_eq!(bench.run.reviews.len(), 2);
}

#[test]
fn a_repair_that_found_nothing_is_the_last_word() {
    let mut bench = RunBench::open(reviewed(ReviewMode::Repair, ReviewMode::Off));
    bench.works("new").reviews("mended", vec![finding("slow")]).reviews("mended", Vec::new());
    assert_eq!(bench.run.stage, Stage::Land);
    assert_eq!(bench.run.open_findings().count(), 0, "the last review of the stage counts");
    let mut bench = RunBench::open(RunSpec {
        reviews: Reviews {
            plan: ReviewMode::Off,
            task: ReviewMode::Repair,
            whole: ReviewMode::Off,
            cycles: 0,
        },
        ..run_spec()
    });
    bench.works("new").reviews("mended", vec![finding("slow")]);
    assert_eq!((bench.run.stage, bench.run.open_findings().count()), (Stage::Land, 1));
}

#[test]
fn the_last_word_of_both_stages_is_open() {
    let mut bench = RunBench::open(reviewed(ReviewMode::Report, ReviewMode::Report));
    bench.works("new").reviews("new", vec![finding("one")]).reviews("new", vec![finding("two")]);
    let open: Vec<&str> = bench.run.open_findings().map(|one| one.title.as_str()).collect();
    assert_eq!(open, ["one", "two"]);
    assert_eq!(bench.run.reviews[1].stage, Stage::FinalReview);
}

#[test]
fn a_repair_voids_the_proof_until_it_is_checked_itself() {
    let mut bench = RunBench::open(reviewed(ReviewMode::Repair, ReviewMode::Off));
    bench.works("new");
    let proof = bench.run.proof.clone().expect("the work was proved");
    assert!(proof.is_for(&snapshot("new")) && !proof.is_for(&snapshot("mended")));
    let id = bench.live();
    bench.start().turn(ClaimKind::Completed, Some(super::kit::review(vec![finding("slow")])));
    bench.verify("broken", CheckEnd::Exit(1)).end_session(id);
    assert_eq!((bench.ending(), bench.outcome().cause), (Ending::Failed, Some(Cause::Review)));
    assert_eq!(bench.run.head, Some(snapshot("new")), "a refuted repair does not become the head");
    assert!(bench.run.proof.is_some());
}

#[test]
fn a_repair_that_nobody_checked_is_committed_and_leaves_no_proof() {
    let mut bench = RunBench::open(RunSpec {
        checks: Vec::new(),
        ..reviewed(ReviewMode::Repair, ReviewMode::Off)
    });
    bench.works("-").head("new").reviews("-", Vec::new());
    assert_eq!(bench.owed(), [format!("head-{}", bench.run.id.session(2))]);
    assert_eq!(bench.run.stage, Stage::TaskReview);
    bench.head("mended").landed("mended");
    assert_eq!(bench.ending(), Ending::Completed);
    assert_eq!(bench.outcome().head, Some(snapshot("mended")));
}

#[test]
fn a_repair_that_could_not_be_committed_fails_the_run() {
    let mut bench = RunBench::open(RunSpec {
        checks: Vec::new(),
        ..reviewed(ReviewMode::Repair, ReviewMode::Off)
    });
    bench.works("-").head("new").reviews("-", Vec::new());
    let session = bench.run.id.session(2);
    bench.tell(Command::HeadFailed { session, reason: "index.lock".to_owned() });
    assert_eq!(
        (bench.outcome().cause, bench.outcome().detail.as_str()),
        (Some(Cause::Review), "index.lock")
    );
}

#[test]
fn a_review_has_to_tell_its_findings() {
    let mut bench = RunBench::open(reviewed(ReviewMode::Report, ReviewMode::Off));
    bench.works("new").works("new");
    assert_eq!((bench.ending(), bench.outcome().cause), (Ending::Failed, Some(Cause::Review)));
    assert_eq!(bench.outcome().detail, "the review returned no findings");
    let mut bench = RunBench::open(reviewed(ReviewMode::Report, ReviewMode::Off));
    bench.works("new").does("new", Some(understood("it")));
    assert_eq!(bench.outcome().cause, Some(Cause::Review), "a triage result is not a review");
    let mut bench = RunBench::open(reviewed(ReviewMode::Report, ReviewMode::Off));
    bench.works("new").fails();
    assert_eq!(bench.outcome().cause, Some(Cause::Review));
}

#[test]
fn reviews_that_are_off_are_passed_by() {
    for (task, whole, reviewing) in [
        (ReviewMode::Off, ReviewMode::Report, Stage::FinalReview),
        (ReviewMode::Report, ReviewMode::Off, Stage::TaskReview),
    ] {
        let mut bench = RunBench::open(reviewed(task, whole));
        bench.works("new");
        assert_eq!(bench.run.stage, reviewing);
        bench.reviews("new", Vec::new());
        assert_eq!(bench.run.stage, Stage::Land);
    }
    assert_eq!(Reviews::default().of(Stage::TaskReview), ReviewMode::Report);
    assert_eq!(Reviews::default().of(Stage::FinalReview), ReviewMode::Off);
    for stage in [Stage::Intake, Stage::Triage, Stage::Work, Stage::Land] {
        let all = Reviews {
            plan: ReviewMode::Off,
            task: ReviewMode::Repair,
            whole: ReviewMode::Repair,
            cycles: 1,
        };
        assert_eq!(all.of(stage), ReviewMode::Off);
    }
}
