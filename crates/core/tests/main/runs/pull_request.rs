//! Pull requests: each review comment goes once to the session that did the work, in a bounded number of rounds.

use provost_core::{
    run::{
        LandMode, LandStep, LandingState, MAX_COMMENTS, MAX_ROUNDS, PullRequestChecks,
        PullRequestState, PullRequestStatus, ReviewComment, RunCommand, RunEnding, RunFailureCause,
        RunStage,
    },
    session,
};

use super::kit::{OPEN_PULL, TestRun, landing_spec, pull_requested, remark};
use crate::kit::snapshot;

/// A run whose pull request is open and not yet polled.
fn watching_pull() -> TestRun {
    let mut bench = TestRun::open(landing_spec(LandMode::Pr));
    bench.finish_work("new");
    assert_eq!(bench.pending_effects(), ["land-1-0"]);
    bench.open_pull_request("new");
    assert_eq!(bench.pending_effects(), ["pull-1-0"]);
    bench
}

#[test]
fn passed_or_absent_pull_checks_end_the_watch() {
    for checks in [PullRequestChecks::Passed, PullRequestChecks::None] {
        let mut bench = watching_pull();
        bench.see_pull(checks, &[]);
        assert_eq!(bench.ending(), RunEnding::Succeeded);
        let LandingState::Done(done) = &bench.run.landing else { panic!("it has landed") };
        assert_eq!((done.branch.as_str(), done.merged), ("provost/limit", false));
        assert_eq!(done.pull_request.as_ref().map(|pull| pull.number), Some(12));
        assert_eq!(done.commit, snapshot("new").commit);
    }
}

#[test]
fn pending_pull_checks_are_awaited() {
    let mut bench = watching_pull();
    bench.see_pull(PullRequestChecks::Pending, &[]);
    assert_eq!(bench.pending_effects(), ["pull-1-1"], "each look is another");
    let same = bench.pull_seen(PullRequestChecks::Pending, &[]);
    assert!(bench.try_apply(same).is_err(), "nothing is new");
    bench.see_pull(PullRequestChecks::Passed, &[]);
    assert_eq!(bench.ending(), RunEnding::Succeeded);
}

#[test]
fn failed_pull_checks_without_comment_end_run() {
    let mut bench = watching_pull();
    bench
        .see_pull(PullRequestChecks::Failed, &[])
        .apply(RunCommand::LandingAborted { attempt: 1, pull: None });
    assert_eq!(
        (bench.ending(), bench.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Landing))
    );
    assert_eq!(bench.outcome().detail, "checks of the pull request failed");
}

#[test]
fn merged_pull_is_landed_closed_is_not() {
    let mut bench = watching_pull();
    bench.see_pull_status(PullRequestStatus::Merged);
    assert_eq!(bench.ending(), RunEnding::Succeeded);
    assert!(matches!(&bench.run.landing, LandingState::Done(landed) if landed.merged));
    let mut bench = watching_pull();
    bench
        .see_pull_status(PullRequestStatus::Closed)
        .apply(RunCommand::LandingAborted { attempt: 1, pull: None });
    assert_eq!(
        (bench.ending(), bench.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Landing))
    );
    assert_eq!(bench.outcome().detail, "the pull request was closed");
}

#[test]
fn excess_comments_go_into_next_round() {
    let mut bench = watching_pull();
    let said: Vec<ReviewComment> =
        (0..MAX_COMMENTS + 5).map(|no| remark(&format!("r{no}"), &format!("say {no}."))).collect();
    bench.see_pull(PullRequestChecks::Passed, &said);
    assert!(bench.instruction().contains("say 49.") && !bench.instruction().contains("say 50."));
    bench
        .finish_work("mended")
        .open_pull_request("mended")
        .see_pull(PullRequestChecks::Passed, &said);
    assert!(!bench.instruction().contains("say 49.") && bench.instruction().contains("say 54."));
    bench.finish_work("more").open_pull_request("more").see_pull(PullRequestChecks::Passed, &said);
    assert_eq!(bench.ending(), RunEnding::Succeeded);
}

#[test]
fn comments_go_once_to_the_working_conversation() {
    let mut bench = watching_pull();
    let said = [remark("r1", "test fails"), remark("r2", "a typo")];
    bench.see_pull(PullRequestChecks::Failed, &said);
    assert_eq!((bench.live_session(), bench.last_session().cycle), (bench.run.id.session(1), 1));
    assert_eq!(
        (bench.last_session().stage, bench.last_session().opened_in),
        (RunStage::Land, RunStage::Work)
    );
    assert!(bench.instruction().contains("ann:\n> test fails\n\nann:\n> a typo"));
    bench.finish_work("mended");
    assert_eq!(bench.pending_effects(), ["land-1-1"], "the newest work is pushed");
    assert!(bench.try_apply(pull_requested("new")).is_err(), "older work is not what is asked for");
    bench.open_pull_request("mended").see_pull(PullRequestChecks::Pending, &said);
    assert_eq!(bench.run.steps.len(), 1, "what was taken up is not taken up again");
    bench.see_pull(PullRequestChecks::Passed, &said);
    assert_eq!(bench.ending(), RunEnding::Succeeded);
    assert_eq!(bench.outcome().head, Some(snapshot("mended")));
}

#[test]
fn second_comment_round_keeps_first_settled() {
    let mut bench = watching_pull();
    bench
        .see_pull(PullRequestChecks::Failed, &[remark("r1", "one")])
        .finish_work("mended")
        .open_pull_request("mended");
    bench.see_pull(PullRequestChecks::Failed, &[remark("r1", "one"), remark("r2", "two")]);
    assert_eq!((bench.live_session(), bench.last_session().cycle), (bench.run.id.session(1), 2));
    assert!(!bench.instruction().contains("> one"));
    bench.finish_work("mended-2");
    assert_eq!(bench.pending_effects(), ["land-1-2"]);
    bench.open_pull_request("mended-2").see_pull(PullRequestChecks::Passed, &[]);
    assert_eq!(bench.ending(), RunEnding::Succeeded);
    assert_eq!(bench.session(1).attempts.len(), 3);
}

#[test]
fn late_pull_state_is_ignored() {
    let mut bench = watching_pull();
    let late = bench.pull_seen(PullRequestChecks::Failed, &[remark("r1", "one")]);
    bench.apply(late.clone()).finish_work("mended").open_pull_request("mended");
    assert!(bench.try_apply(late).is_err());
    assert!(!bench.run.is_sealed());
    assert_eq!(bench.pending_effects(), ["pull-1-1"]);
}

#[test]
fn comment_rounds_are_bounded_and_rest_is_kept() {
    let mut bench = watching_pull();
    for round in 1..=MAX_ROUNDS {
        let tree = format!("mended-{round}");
        bench.see_pull(PullRequestChecks::Pending, &[remark(&format!("r{round}"), "again")]);
        bench.finish_work(&tree).open_pull_request(&tree);
    }
    let more = [remark("r6", "and again")];
    bench.see_pull(PullRequestChecks::Pending, &more);
    assert!(!bench.run.is_live());
    assert_eq!(bench.run.comments_dropped, more);
    bench.see_pull(PullRequestChecks::Passed, &more);
    assert_eq!((bench.ending(), bench.run.comments_dropped.len()), (RunEnding::Succeeded, 1));
}

#[test]
fn merged_or_closed_pull_takes_no_comments() {
    for standing in [PullRequestStatus::Merged, PullRequestStatus::Closed] {
        let mut bench = watching_pull();
        let state =
            PullRequestState { status: standing, checks: PullRequestChecks::Passed, left_out: 0 };
        let remarks = vec![remark("r1", "too late")];
        bench.apply(RunCommand::PullRequestObserved { look: 0, state, remarks: remarks.clone() });
        assert!(!bench.run.is_live());
        assert_eq!(bench.run.comments_dropped, remarks);
    }
}

#[test]
fn comments_go_to_new_session_if_not_resumable() {
    let mut bench = TestRun::open(landing_spec(LandMode::Pr));
    bench.finish_work("new");
    bench.apply_to_session(bench.run.id.session(1), session::SessionCommand::WorkRemoved);
    bench.open_pull_request("new").see_pull(PullRequestChecks::Failed, &[remark("r1", "mend it")]);
    assert_eq!((bench.last_session().no, bench.last_session().cycle), (2, 1));
    assert!(bench.instruction().contains("> mend it"));
    assert_eq!(bench.run.owner().map(|one| one.no), Some(1));
    bench.finish_work("mended");
    assert_eq!(bench.pending_effects(), ["land-1-1"]);
}

#[test]
fn unchanged_answer_keeps_last_pull_state() {
    let mut bench = watching_pull();
    bench.see_pull(PullRequestChecks::Passed, &[remark("r1", "why?")]).finish_work("new");
    assert_eq!(bench.ending(), RunEnding::Succeeded, "it was pushed, and its checks had passed");
    let mut bench = watching_pull();
    bench.see_pull(PullRequestChecks::Failed, &[remark("r1", "why?")]).finish_work("new");
    bench.apply(RunCommand::LandingAborted { attempt: 1, pull: None });
    assert_eq!(bench.outcome().detail, "checks of the pull request failed");
}

#[test]
fn failed_comment_fix_ends_the_run() {
    let mut bench = watching_pull();
    bench.see_pull(PullRequestChecks::Failed, &[remark("r1", "mend it")]).fail_session();
    bench.apply(RunCommand::LandingAborted { attempt: 1, pull: None });
    assert_eq!(
        (bench.ending(), bench.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Landing))
    );
}

#[test]
fn pull_request_is_opened_once() {
    let mut bench = watching_pull();
    assert!(bench.try_apply(pull_requested("new")).is_err());
    assert!(bench.try_apply(pull_requested("other")).is_err());
    bench.see_pull(PullRequestChecks::Passed, &[]);
    assert!(bench.try_apply(pull_requested("new")).is_err());
}

#[test]
fn resumed_run_polls_pull_request_again() {
    let mut bench = watching_pull();
    bench
        .see_pull(PullRequestChecks::Failed, &[])
        .apply(RunCommand::LandingAborted { attempt: 1, pull: None });
    bench.apply(RunCommand::Resume);
    assert_eq!(bench.pending_effects(), ["pull-2-1"], "the checks may have been begun again");
    bench.see_pull(PullRequestChecks::Passed, &[]);
    assert_eq!(bench.ending(), RunEnding::Succeeded);
}

#[test]
fn resumed_run_gets_new_comment_rounds() {
    let mut bench = watching_pull();
    for round in 1..=MAX_ROUNDS {
        let tree = format!("mended-{round}");
        bench.see_pull(PullRequestChecks::Pending, &[remark(&format!("r{round}"), "again")]);
        bench.finish_work(&tree).open_pull_request(&tree);
    }
    bench
        .see_pull(PullRequestChecks::Failed, &[])
        .apply(RunCommand::LandingAborted { attempt: 1, pull: None });
    bench
        .apply(RunCommand::Resume)
        .see_pull(PullRequestChecks::Failed, &[remark("r6", "once more")]);
    assert_eq!(bench.live_session(), bench.run.id.session(1));
    assert!(
        matches!(bench.run.steps.last(), Some(LandStep::Answer { comments }) if comments[0].id == "r6")
    );
}

#[test]
fn comment_is_truncated_and_matched_by_id() {
    let long = ReviewComment::new("r".to_owned(), "ann", &"é".repeat(10_000));
    assert_eq!(long.text.chars().count(), 8 << 10);
    let mut bench = watching_pull();
    let (one, two) = (remark("r1", "a"), remark("r2", "b"));
    bench.see_pull(PullRequestChecks::Pending, std::slice::from_ref(&one));
    let all = [one, two.clone()];
    assert_eq!(bench.run.new_comments(&all), [&two]);
    let state =
        PullRequestState { status: OPEN_PULL, checks: PullRequestChecks::Pending, left_out: 0 };
    assert_eq!(state.checks.as_str(), "pending");
}
