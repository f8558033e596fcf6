//! Pull requests: each review comment goes once to the session that did the work, in a bounded number of rounds.

use provost_core::{
    run::{
        Cause, Command, Ending, LandMode, LandStep, Landing, MAX_REMARKS, MAX_ROUNDS, PullChecks,
        PullStanding, PullState, Remark, Stage,
    },
    session,
};

use super::kit::{OPEN, RunBench, landing_by, remark, requested};
use crate::kit::snapshot;

/// A run whose pull request is open and not yet polled.
fn watching() -> RunBench {
    let mut bench = RunBench::open(landing_by(LandMode::Pr));
    bench.works("new");
    assert_eq!(bench.owed(), ["land-1-0"]);
    bench.requested("new");
    assert_eq!(bench.owed(), ["pull-1-0"]);
    bench
}

#[test]
fn checks_that_passed_or_are_none_end_the_watch() {
    for checks in [PullChecks::Passed, PullChecks::None] {
        let mut bench = watching();
        bench.sees(checks, &[]);
        assert_eq!(bench.ending(), Ending::Succeeded);
        let Landing::Done(done) = &bench.run.landing else { panic!("it has landed") };
        assert_eq!((done.branch.as_str(), done.merged), ("provost/limit", false));
        assert_eq!(done.pull_request.as_ref().map(|pull| pull.number), Some(12));
        assert_eq!(done.commit, snapshot("new").commit);
    }
}

#[test]
fn checks_that_are_pending_are_waited_for() {
    let mut bench = watching();
    bench.sees(PullChecks::Pending, &[]);
    assert_eq!(bench.owed(), ["pull-1-1"], "each look is another");
    let same = bench.pull_seen(PullChecks::Pending, &[]);
    assert!(bench.try_tell(same).is_err(), "nothing is new");
    bench.sees(PullChecks::Passed, &[]);
    assert_eq!(bench.ending(), Ending::Succeeded);
}

#[test]
fn checks_that_failed_and_say_nothing_end_the_run() {
    let mut bench = watching();
    bench.sees(PullChecks::Failed, &[]).tell(Command::LandOver { leg: 1, pull: None });
    assert_eq!((bench.ending(), bench.outcome().cause), (Ending::Failed, Some(Cause::Landing)));
    assert_eq!(bench.outcome().detail, "checks of the pull request failed");
}

#[test]
fn merged_is_landed_and_closed_is_not() {
    let mut bench = watching();
    bench.sees_standing(PullStanding::Merged);
    assert_eq!(bench.ending(), Ending::Succeeded);
    assert!(matches!(&bench.run.landing, Landing::Done(landed) if landed.merged));
    let mut bench = watching();
    bench.sees_standing(PullStanding::Closed).tell(Command::LandOver { leg: 1, pull: None });
    assert_eq!((bench.ending(), bench.outcome().cause), (Ending::Failed, Some(Cause::Landing)));
    assert_eq!(bench.outcome().detail, "the pull request was closed");
}

#[test]
fn remarks_that_are_too_many_for_one_round_go_with_the_next() {
    let mut bench = watching();
    let said: Vec<Remark> =
        (0..MAX_REMARKS + 5).map(|no| remark(&format!("r{no}"), &format!("say {no}."))).collect();
    bench.sees(PullChecks::Passed, &said);
    assert!(bench.instruction().contains("say 49.") && !bench.instruction().contains("say 50."));
    bench.works("mended").requested("mended").sees(PullChecks::Passed, &said);
    assert!(!bench.instruction().contains("say 49.") && bench.instruction().contains("say 54."));
    bench.works("more").requested("more").sees(PullChecks::Passed, &said);
    assert_eq!(bench.ending(), Ending::Succeeded);
}

#[test]
fn remarks_go_to_the_conversation_that_did_the_work_once() {
    let mut bench = watching();
    let said = [remark("r1", "test fails"), remark("r2", "a typo")];
    bench.sees(PullChecks::Failed, &said);
    assert_eq!((bench.live(), bench.last().cycle), (bench.run.id.session(1), 1));
    assert_eq!((bench.last().stage, bench.last().opened_in), (Stage::Land, Stage::Work));
    assert!(bench.instruction().contains("ann:\n> test fails\n\nann:\n> a typo"));
    bench.works("mended");
    assert_eq!(bench.owed(), ["land-1-1"], "the newest work is pushed");
    assert!(bench.try_tell(requested("new")).is_err(), "older work is not what is asked for");
    bench.requested("mended").sees(PullChecks::Pending, &said);
    assert_eq!(bench.run.steps.len(), 1, "what was taken up is not taken up again");
    bench.sees(PullChecks::Passed, &said);
    assert_eq!(bench.ending(), Ending::Succeeded);
    assert_eq!(bench.outcome().head, Some(snapshot("mended")));
}

#[test]
fn a_second_round_leaves_the_first_settled() {
    let mut bench = watching();
    bench.sees(PullChecks::Failed, &[remark("r1", "one")]).works("mended").requested("mended");
    bench.sees(PullChecks::Failed, &[remark("r1", "one"), remark("r2", "two")]);
    assert_eq!((bench.live(), bench.last().cycle), (bench.run.id.session(1), 2));
    assert!(!bench.instruction().contains("> one"));
    bench.works("mended-2");
    assert_eq!(bench.owed(), ["land-1-2"]);
    bench.requested("mended-2").sees(PullChecks::Passed, &[]);
    assert_eq!(bench.ending(), Ending::Succeeded);
    assert_eq!(bench.session(1).attempts.len(), 3);
}

#[test]
fn a_look_that_is_told_late_is_about_older_work() {
    let mut bench = watching();
    let late = bench.pull_seen(PullChecks::Failed, &[remark("r1", "one")]);
    bench.tell(late.clone()).works("mended").requested("mended");
    assert!(bench.try_tell(late).is_err());
    assert!(!bench.run.is_sealed());
    assert_eq!(bench.owed(), ["pull-1-1"]);
}

#[test]
fn rounds_are_bounded_and_what_is_left_is_kept() {
    let mut bench = watching();
    for round in 1..=MAX_ROUNDS {
        let tree = format!("mended-{round}");
        bench.sees(PullChecks::Pending, &[remark(&format!("r{round}"), "again")]);
        bench.works(&tree).requested(&tree);
    }
    let more = [remark("r6", "and again")];
    bench.sees(PullChecks::Pending, &more);
    assert!(!bench.run.is_live());
    assert_eq!(bench.run.remarks_left, more);
    bench.sees(PullChecks::Passed, &more);
    assert_eq!((bench.ending(), bench.run.remarks_left.len()), (Ending::Succeeded, 1));
}

#[test]
fn a_pull_request_that_is_merged_or_closed_takes_nothing_more() {
    for standing in [PullStanding::Merged, PullStanding::Closed] {
        let mut bench = watching();
        let state = PullState { standing, checks: PullChecks::Passed, left_out: 0 };
        let remarks = vec![remark("r1", "too late")];
        bench.tell(Command::PullSeen { look: 0, state, remarks: remarks.clone() });
        assert!(!bench.run.is_live());
        assert_eq!(bench.run.remarks_left, remarks);
    }
}

#[test]
fn remarks_go_to_another_session_if_the_first_cannot_go_on() {
    let mut bench = RunBench::open(landing_by(LandMode::Pr));
    bench.works("new");
    bench.say_to(bench.run.id.session(1), session::Command::WorkRemoved);
    bench.requested("new").sees(PullChecks::Failed, &[remark("r1", "mend it")]);
    assert_eq!((bench.last().no, bench.last().cycle), (2, 1));
    assert!(bench.instruction().contains("> mend it"));
    assert_eq!(bench.run.owner().map(|one| one.no), Some(1));
    bench.works("mended");
    assert_eq!(bench.owed(), ["land-1-1"]);
}

#[test]
fn an_answer_that_changes_nothing_leaves_the_last_look_to_speak() {
    let mut bench = watching();
    bench.sees(PullChecks::Passed, &[remark("r1", "why?")]).works("new");
    assert_eq!(bench.ending(), Ending::Succeeded, "it was pushed, and its checks had passed");
    let mut bench = watching();
    bench.sees(PullChecks::Failed, &[remark("r1", "why?")]).works("new");
    bench.tell(Command::LandOver { leg: 1, pull: None });
    assert_eq!(bench.outcome().detail, "checks of the pull request failed");
}

#[test]
fn an_answer_that_fails_ends_the_run() {
    let mut bench = watching();
    bench.sees(PullChecks::Failed, &[remark("r1", "mend it")]).fails();
    bench.tell(Command::LandOver { leg: 1, pull: None });
    assert_eq!((bench.ending(), bench.outcome().cause), (Ending::Failed, Some(Cause::Landing)));
}

#[test]
fn a_pull_request_is_asked_for_once() {
    let mut bench = watching();
    assert!(bench.try_tell(requested("new")).is_err());
    assert!(bench.try_tell(requested("other")).is_err());
    bench.sees(PullChecks::Passed, &[]);
    assert!(bench.try_tell(requested("new")).is_err());
}

#[test]
fn a_resumed_run_looks_again_at_what_ended_it() {
    let mut bench = watching();
    bench.sees(PullChecks::Failed, &[]).tell(Command::LandOver { leg: 1, pull: None });
    bench.tell(Command::Resume);
    assert_eq!(bench.owed(), ["pull-2-1"], "the checks may have been begun again");
    bench.sees(PullChecks::Passed, &[]);
    assert_eq!(bench.ending(), Ending::Succeeded);
}

#[test]
fn a_resumed_run_may_answer_as_often_again() {
    let mut bench = watching();
    for round in 1..=MAX_ROUNDS {
        let tree = format!("mended-{round}");
        bench.sees(PullChecks::Pending, &[remark(&format!("r{round}"), "again")]);
        bench.works(&tree).requested(&tree);
    }
    bench.sees(PullChecks::Failed, &[]).tell(Command::LandOver { leg: 1, pull: None });
    bench.tell(Command::Resume).sees(PullChecks::Failed, &[remark("r6", "once more")]);
    assert_eq!(bench.live(), bench.run.id.session(1));
    assert!(
        matches!(bench.run.steps.last(), Some(LandStep::Answer { remarks }) if remarks[0].id == "r6")
    );
}

#[test]
fn a_remark_is_kept_short_and_known_by_its_id() {
    let long = Remark::new("r".to_owned(), "ann", &"é".repeat(10_000));
    assert_eq!(long.text.chars().count(), 8 << 10);
    let mut bench = watching();
    let (one, two) = (remark("r1", "a"), remark("r2", "b"));
    bench.sees(PullChecks::Pending, std::slice::from_ref(&one));
    let all = [one, two.clone()];
    assert_eq!(bench.run.new_remarks(&all), [&two]);
    let state = PullState { standing: OPEN, checks: PullChecks::Pending, left_out: 0 };
    assert_eq!(state.checks.word(), "pending");
}
