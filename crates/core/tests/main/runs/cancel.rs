//! A cancelled run stays cancelled in every stage, and is sealed only when nothing of it is running.

use provost_core::{
    lifecycle::{ClaimKind, State},
    run::{
        Command, Ending, LandMode, Landing, PullChecks, PullRequest, Rejected, ReviewMode, RunSpec,
        Stage,
    },
    verdict::CheckEnd,
};

use super::kit::{
    RunBench, landed, landing_by, merge_step, remark, requested, reviewed, triaged, unchecked,
    understood,
};
use crate::kit::snapshot;

/// Cancels while a session is live: the run waits for the session's end and is sealed with it.
fn cancel_with_a_live_session(bench: &mut RunBench) {
    let id = bench.live();
    let no = bench.last().no;
    bench.start().cancel();
    assert_eq!(bench.state(no), State::Cancelled, "the live session is cancelled at once");
    assert!(!bench.run.is_sealed(), "its process is not known to be gone");
    let again = bench.try_tell(Command::Cancel { because: "again".to_owned() });
    assert_eq!(again, Err(Rejected::Cancelled));
    assert_eq!(bench.try_tell(Command::Resume), Err(Rejected::GoingOn));
    bench.end_session(id);
    let attempt = bench.session(no).attempt();
    assert_eq!(attempt.cancelled.as_deref(), Some("its run was cancelled: enough"));
}

fn is_cancelled(bench: &mut RunBench) {
    assert_eq!((bench.ending(), bench.outcome().cause), (Ending::Cancelled, None));
    assert_eq!(bench.outcome().detail, "enough");
    assert!(bench.owed().is_empty());
    assert_eq!(bench.hooks().last().map(String::as_str), Some("run.cancelled"));
    let sealed = bench.outcome().clone();
    for late in [
        Command::Cancel { because: "again".to_owned() },
        landed("new"),
        requested("new"),
        Command::LandFailed { leg: 1, reason: "late".to_owned() },
        Command::LandOver { leg: 1, pull: None },
        Command::TargetMoved { step: 0, merge: merge_step("merged", &[]) },
        bench.pull_seen(PullChecks::Failed, &[remark("late", "late")]),
    ] {
        assert!(bench.try_tell(late.clone()).is_err(), "{late:?}");
    }
    bench.pass(100_000);
    assert_eq!(bench.outcome(), &sealed);
}

#[test]
fn run_is_cancelled_since_its_seal() {
    let mut bench = RunBench::open(triaged());
    let (id, opened) = (bench.live(), bench.run.since);
    bench.start().pass(5_000).cancel();
    assert_eq!(bench.run.state().word(), "stopping");
    assert_eq!(bench.run.since.mono_ms, opened.mono_ms + 5_000);
    bench.pass(2_000).end_session(id);
    assert_eq!(bench.run.state().word(), "cancelled");
    assert_eq!(bench.run.since, bench.outcome().at);
    assert!(bench.run.since.mono_ms >= opened.mono_ms + 7_000);
}

#[test]
fn run_says_what_it_waits_for_and_why_it_ended() {
    let mut bench = RunBench::open(triaged());
    let id = bench.live();
    let reason = |bench: &RunBench| {
        let reason = bench.run.reason(|id| bench.sessions.get(&id));
        (reason.text, reason.session)
    };
    let waits = "it waits for its session of the stage triage";
    assert_eq!(reason(&bench), (waits.to_owned(), Some(id)));
    bench.start().cancel();
    let stopping = "it was cancelled: enough; its sessions are being stopped";
    assert_eq!(reason(&bench), (stopping.to_owned(), Some(id)));
    bench.end_session(id);
    assert_eq!(reason(&bench), ("it was cancelled: enough".to_owned(), None));
}

#[test]
fn in_triage() {
    let mut bench = RunBench::open(triaged());
    cancel_with_a_live_session(&mut bench);
    is_cancelled(&mut bench);
    assert_eq!((bench.run.stage, bench.outcome().head.clone()), (Stage::Triage, None));
}

#[test]
fn at_work() {
    let mut bench = RunBench::open(triaged());
    bench.does("old", Some(understood("it")));
    cancel_with_a_live_session(&mut bench);
    is_cancelled(&mut bench);
    assert_eq!(bench.run.stage, Stage::Work);
}

#[test]
fn while_what_was_left_is_committed() {
    let mut bench = RunBench::open(unchecked());
    bench.works("-");
    let late = bench.head_taken("new");
    bench.cancel();
    assert!(bench.try_tell(late).is_err());
    is_cancelled(&mut bench);
}

#[test]
fn in_review() {
    for (task, whole) in
        [(ReviewMode::Report, ReviewMode::Off), (ReviewMode::Off, ReviewMode::Repair)]
    {
        let mut bench = RunBench::open(reviewed(task, whole));
        bench.works("new");
        cancel_with_a_live_session(&mut bench);
        is_cancelled(&mut bench);
        assert_eq!(bench.outcome().head, Some(snapshot("new")), "every byte of work is kept");
    }
}

#[test]
fn on_its_way_to_land_it_waits_until_nothing_lands_any_more() {
    for land in [LandMode::Branch, LandMode::Merge, LandMode::Pr] {
        let mut bench = RunBench::open(landing_by(land));
        bench.works("new");
        assert_eq!(bench.owed(), ["land-1-0"]);
        bench.cancel();
        assert!(!bench.run.is_sealed());
        assert_eq!(bench.owed(), ["landed-1"], "nothing more may land, and it is asked what had");
        assert!(bench.try_tell(Command::LandOver { leg: 2, pull: None }).is_err());
        bench.tell(Command::LandOver { leg: 1, pull: None });
        is_cancelled(&mut bench);
    }
}

#[test]
fn what_had_landed_is_told_and_the_run_stays_cancelled() {
    let mut bench = RunBench::open(landing_by(LandMode::Merge));
    bench.works("new").cancel().landed("new");
    assert!(matches!(&bench.run.landing, Landing::Done(landed) if !landed.merged));
    is_cancelled(&mut bench);
    bench.tell(Command::Resume);
    assert_eq!(bench.ending(), Ending::Succeeded, "nothing is left to do");
}

#[test]
fn a_pull_request_that_was_made_all_the_same_is_known() {
    let pull =
        PullRequest { number: 12, url: "u".to_owned(), commit: snapshot("new").commit, seen: None };
    let mut bench = RunBench::open(landing_by(LandMode::Pr));
    bench.works("new").cancel();
    bench.tell(Command::LandOver { leg: 1, pull: Some(pull.clone()) });
    is_cancelled(&mut bench);
    assert_eq!(bench.run.landing, Landing::Requested(pull));
    let mut bench = RunBench::open(landing_by(LandMode::Pr));
    bench.works("new").cancel().requested("new");
    assert!(!bench.run.is_sealed());
    bench.tell(Command::LandOver { leg: 1, pull: None });
    assert!(matches!(bench.run.landing, Landing::Requested(_)), "it is not forgotten");
    is_cancelled(&mut bench);
}

#[test]
fn while_a_pull_request_is_looked_at() {
    let mut bench = RunBench::open(landing_by(LandMode::Pr));
    bench.works("new").requested("new");
    assert_eq!(bench.owed(), ["pull-1-0"]);
    let late = bench.pull_seen(PullChecks::Passed, &[]);
    bench.cancel();
    assert!(bench.try_tell(late).is_err());
    bench.tell(Command::LandOver { leg: 1, pull: None });
    is_cancelled(&mut bench);
}

#[test]
fn while_a_step_towards_the_landing_is_worked_on() {
    let mut bench = RunBench::open(landing_by(LandMode::Merge));
    bench.works("new").tell(Command::TargetMoved { step: 0, merge: merge_step("m", &["a"]) });
    cancel_with_a_live_session(&mut bench);
    assert!(!bench.run.is_sealed(), "it may have landed");
    bench.tell(Command::LandOver { leg: 1, pull: None });
    is_cancelled(&mut bench);
}

#[test]
fn a_claim_or_a_verdict_that_crosses_it_changes_nothing() {
    let mut bench = RunBench::open(unchecked());
    let id = bench.live();
    bench.start().cancel().turn(ClaimKind::Completed, None).end_session(id);
    is_cancelled(&mut bench);
    let mut bench = RunBench::open(landing_by(LandMode::Branch));
    let id = bench.live();
    bench.start().turn(ClaimKind::Completed, None).verify("new", CheckEnd::Exit(0));
    bench.cancel().end_session(id);
    is_cancelled(&mut bench);
    assert_eq!(bench.run.head, None);
}

#[test]
fn a_run_that_is_failing_may_still_be_called_off() {
    let mut bench = RunBench::open(landing_by(LandMode::Pr));
    bench.works("new").requested("new").sees(PullChecks::Failed, &[]);
    assert_eq!(bench.owed(), ["landed-1"], "it is asked whether something had landed");
    bench.cancel().tell(Command::LandOver { leg: 1, pull: None });
    is_cancelled(&mut bench);
}

#[test]
fn a_run_that_ended_is_not_cancelled() {
    let mut bench = RunBench::open(RunSpec { land: LandMode::Branch, ..unchecked() });
    bench.works("-").head("new").landed("new");
    let refused = bench.try_tell(Command::Cancel { because: "late".to_owned() });
    assert_eq!(refused, Err(Rejected::Sealed("completed")));
    assert_eq!(bench.try_tell(Command::Resume), Err(Rejected::NothingLeft));
}
