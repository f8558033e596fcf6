//! Scenarios of whole runs, from the first event to the seal.

use provost_core::{
    lifecycle::{ClaimKind, State},
    run::{Cause, Command, Effect, Ending, Landing, ReviewMode, RunSpec, Stage},
    session::{self, HookEnd, Resolve},
    verdict::{CheckEnd, EmptyDiff},
};

use super::kit::{
    RunBench, finding, landed, review, reviewed, run_spec, triaged, unchecked, understood,
};
use crate::kit::snapshot;

#[test]
fn a_whole_run_goes_through_every_stage_and_succeeds() {
    let mut bench = RunBench::open(RunSpec {
        triage: true,
        ..reviewed(ReviewMode::Report, ReviewMode::Repair)
    });
    bench.does("old", Some(understood("limit it by address")));
    bench.works("new").reviews("new", vec![finding("slow")]);
    bench.reviews("mended", Vec::new());
    assert_eq!(bench.owed(), ["land-1-0"]);
    bench.landed("mended");
    let stages = [Stage::Triage, Stage::Work, Stage::TaskReview, Stage::FinalReview, Stage::Land];
    assert_eq!(bench.stages(), stages);
    assert_eq!((bench.ending(), bench.outcome().cause), (Ending::Succeeded, None));
    assert_eq!(bench.outcome().head, Some(snapshot("mended")));
    assert_eq!(bench.outcome().at, bench.now);
    let hooks = ["run.opened", "run.findings", "run.succeeded"];
    assert_eq!(bench.hooks(), hooks, "completion is announced after the last stage only");
    assert_eq!(bench.run.sessions.len(), 4);
}

#[test]
fn work_without_checks_is_committed_and_completes() {
    let mut bench = RunBench::open(unchecked());
    bench.works("-");
    assert_eq!(bench.owed(), [format!("head-{}", bench.run.id.session(1))]);
    assert_eq!(bench.run.stage, Stage::Work, "the run waits until the work is committed");
    bench.head("new");
    assert_eq!(bench.run.stage, Stage::Land);
    assert!(
        bench
            .try_tell(Command::HeadFailed {
                session: bench.run.id.session(1),
                reason: "late".to_owned()
            })
            .is_err()
    );
    bench.landed("new");
    assert_eq!(bench.ending(), Ending::Completed, "nothing was there to prove it by");
    assert_eq!(bench.run.sessions[0].end.as_ref().unwrap().head, Some(snapshot("new")));
}

#[test]
fn a_head_is_taken_of_the_session_that_owes_it_only() {
    let mut bench = RunBench::open(unchecked());
    bench.works("-");
    let other = Command::HeadTaken {
        session: bench.run.id.session(7),
        head: snapshot("x"),
        caveats: Default::default(),
    };
    assert!(bench.try_tell(other).is_err());
    let again = bench.head_taken("new");
    bench.head("new");
    assert!(bench.try_tell(again).is_err(), "it is taken once");
}

#[test]
fn work_that_could_not_be_committed_fails_the_run() {
    let mut bench = RunBench::open(unchecked());
    bench.works("-");
    let session = bench.run.id.session(1);
    bench.tell(Command::HeadFailed { session, reason: "no room".to_owned() });
    assert_eq!((bench.ending(), bench.outcome().cause), (Ending::Failed, Some(Cause::Work)));
    assert_eq!(bench.outcome().detail, "no room");
    assert!(bench.owed().is_empty());
}

#[test]
fn work_that_changed_nothing_is_none_unless_that_is_accepted() {
    let mut bench = RunBench::open(unchecked());
    bench.works("-").head("old");
    assert_eq!((bench.ending(), bench.outcome().cause), (Ending::Failed, Some(Cause::Work)));
    assert_eq!(bench.outcome().detail, "nothing was changed");
    let mut bench = RunBench::open(RunSpec { empty_diff: EmptyDiff::Accepted, ..unchecked() });
    bench.works("-").head("old").landed("old");
    assert_eq!(bench.ending(), Ending::Completed);
}

#[test]
fn refuted_work_fails_the_run_and_says_how_its_session_ended() {
    let mut bench = RunBench::open(run_spec());
    let id = bench.live();
    bench.start().turn(ClaimKind::Completed, None).verify("new", CheckEnd::Exit(1)).end_session(id);
    assert_eq!(bench.state(1), State::Failed);
    assert_eq!((bench.ending(), bench.outcome().cause), (Ending::Failed, Some(Cause::Work)));
    let told = "its session ended as failed (verification): the check `check` ended with exit 1";
    assert_eq!(bench.outcome().detail, told);
    assert_eq!(bench.run.head, None, "refuted work does not become the head");
    assert_eq!(bench.run.proof, None);
}

#[test]
fn what_kept_a_session_from_its_work_is_told_by_the_run() {
    let mut bench = RunBench::open(run_spec());
    let id = bench.live();
    let reason = "the branch is taken".to_owned();
    bench.say(session::Command::WorkFailed { reason }).end_session(id);
    let told = "its session ended as failed (launch): the branch is taken";
    assert_eq!(bench.outcome().detail, told);
    let mut bench = RunBench::open(run_spec());
    let id = bench.live();
    bench.start().turn(ClaimKind::Completed, None);
    let no = bench.sessions[&id].attempt().verifying.taken + 1;
    let reason = "the disk is full".to_owned();
    bench.say(session::Command::SnapshotFailed { attempt: 1, no, reason }).end_session(id);
    let told = "the work could not be committed: the disk is full";
    assert!(bench.outcome().detail.ends_with(told), "{}", bench.outcome().detail);
}

#[test]
fn triage_has_to_tell_what_was_understood() {
    let mut bench = RunBench::open(triaged());
    bench.works("old");
    assert_eq!((bench.ending(), bench.outcome().cause), (Ending::Failed, Some(Cause::Triage)));
    assert_eq!(bench.outcome().detail, "triage returned no result");
    let mut bench = RunBench::open(triaged());
    bench.does("old", Some(review(Vec::new())));
    assert_eq!(bench.outcome().cause, Some(Cause::Triage), "a review is not a triage result");
    let mut bench = RunBench::open(triaged());
    bench.fails();
    assert_eq!(bench.outcome().cause, Some(Cause::Triage));
    let told = "its session ended as failed (self_reported): it said: so";
    assert_eq!(bench.outcome().detail, told);
}

#[test]
fn words_alone_make_no_success() {
    let mut bench = RunBench::open(run_spec());
    bench.start().say(provost_core::session::Command::Resolve {
        to: Resolve::Accepted,
        because: "I say so".to_owned(),
    });
    bench.end_session(bench.run.id.session(1)).head("new").landed("new");
    assert_eq!(bench.state(1), State::Accepted);
    assert_eq!(bench.ending(), Ending::Completed, "users accept, only checks prove");
}

#[test]
fn nothing_is_landed_before_the_last_stage() {
    let mut bench = RunBench::open(reviewed(ReviewMode::Report, ReviewMode::Off));
    assert!(bench.try_tell(landed("new")).is_err());
    bench.works("new");
    assert_eq!(bench.run.stage, Stage::TaskReview);
    assert!(bench.try_tell(landed("new")).is_err());
    let failed = Command::LandFailed { leg: 1, reason: String::new() };
    assert!(bench.try_tell(failed).is_err());
    assert_eq!(bench.run.landing, Landing::Open);
}

#[test]
fn every_hook_runs_once_and_the_card_is_written_once() {
    let mut bench = RunBench::open(run_spec());
    bench.works("new").landed("new");
    assert!(!bench.run.is_closed());
    for hook in bench.run.hooks.clone() {
        let done = Command::HookFinished { key: hook.key, end: HookEnd::Exit(0) };
        assert!(bench.run.effects().contains(&Effect::RunHook(hook.key)));
        bench.tell(done.clone());
        assert!(bench.try_tell(done).is_err(), "it ran once");
    }
    assert_eq!(bench.run.effects(), [Effect::WriteCard { leg: 1 }]);
    let written = |leg| Command::CardWritten { leg, failure: None, changed: None };
    assert!(bench.try_tell(written(2)).is_err());
    bench.tell(written(1));
    assert!(bench.try_tell(written(1)).is_err());
    assert!(bench.run.is_closed());
}

#[test]
fn a_hook_that_is_not_wanted_is_not_owed() {
    let mut bench = RunBench::open(RunSpec { hooks: Default::default(), ..run_spec() });
    bench.works("new").landed("new");
    assert_eq!(bench.hooks(), Vec::<String>::new());
    assert!(bench.run.hooks_fired.is_empty());
}

#[test]
fn keys_of_effects_are_names_of_directories() {
    let mut bench = RunBench::open(run_spec());
    assert_eq!(bench.run.effects()[0].key(), "h1-run.opened");
    bench.works("new").landed("new");
    let keys: Vec<String> = bench.run.effects().iter().map(Effect::key).collect();
    assert_eq!(keys, ["h1-run.opened", "h1-run.succeeded", "card-1"]);
    assert_eq!(Effect::WatchPull { leg: 2, look: 3 }.key(), "pull-2-3");
    assert_eq!(Effect::LookLanded { leg: 2 }.key(), "landed-2");
}
