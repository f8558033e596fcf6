//! Pull requests: each review comment goes once to the session that did the work, in a bounded number of rounds.

use provost_core::{
    run::{
        LandMode, LandStep, LandingState, MAX_COMMENTS, MAX_ROUNDS, PullRequestChecks,
        PullRequestState, PullRequestStatus, ReviewComment, RunCommand, RunEnding, RunFailureCause,
        RunStage,
    },
    session,
};

use super::kit::{OPEN_PULL, TestRun, comment, landing_spec, pull_requested};
use crate::kit::snapshot;

/// A run whose pull request is open and not yet polled.
fn watching_pull() -> TestRun {
    let mut harness = TestRun::open(landing_spec(LandMode::Pr));
    harness.finish_work("new");
    assert_eq!(harness.pending_effects(), ["land-1-0"]);
    harness.open_pull_request("new");
    assert_eq!(harness.pending_effects(), ["pull-1-0"]);
    harness
}

#[test]
fn passed_or_absent_pull_checks_end_the_watch() {
    for checks in [PullRequestChecks::Passed, PullRequestChecks::None] {
        let mut harness = watching_pull();
        harness.see_pull(checks, &[]);
        assert_eq!(harness.ending(), RunEnding::Succeeded);
        let LandingState::Done(done) = &harness.run.landing else { panic!("it has landed") };
        assert_eq!((done.branch.as_str(), done.merged), ("provost/limit", false));
        assert_eq!(done.pull_request.as_ref().map(|pull| pull.number), Some(12));
        assert_eq!(done.commit, snapshot("new").commit);
    }
}

#[test]
fn pending_pull_checks_are_awaited() {
    let mut harness = watching_pull();
    harness.see_pull(PullRequestChecks::Pending, &[]);
    assert_eq!(harness.pending_effects(), ["pull-1-1"], "each look is another");
    let same = harness.pull_seen(PullRequestChecks::Pending, &[]);
    assert!(harness.try_apply(same).is_err(), "nothing is new");
    harness.see_pull(PullRequestChecks::Passed, &[]);
    assert_eq!(harness.ending(), RunEnding::Succeeded);
}

#[test]
fn failed_pull_checks_without_comment_end_run() {
    let mut harness = watching_pull();
    harness
        .see_pull(PullRequestChecks::Failed, &[])
        .apply(RunCommand::LandingAborted { attempt: 1, pull: None });
    assert_eq!(
        (harness.ending(), harness.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Landing))
    );
    assert_eq!(harness.outcome().detail, "checks of the pull request failed");
}

#[test]
fn merged_pull_is_landed_closed_is_not() {
    let mut harness = watching_pull();
    harness.see_pull_status(PullRequestStatus::Merged);
    assert_eq!(harness.ending(), RunEnding::Succeeded);
    assert!(matches!(&harness.run.landing, LandingState::Done(landed) if landed.merged));
    let mut harness = watching_pull();
    harness
        .see_pull_status(PullRequestStatus::Closed)
        .apply(RunCommand::LandingAborted { attempt: 1, pull: None });
    assert_eq!(
        (harness.ending(), harness.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Landing))
    );
    assert_eq!(harness.outcome().detail, "the pull request was closed");
}

#[test]
fn excess_comments_go_into_next_round() {
    let mut harness = watching_pull();
    let comments: Vec<ReviewComment> =
        (0..MAX_COMMENTS + 5).map(|no| comment(&format!("r{no}"), &format!("say {no}."))).collect();
    harness.see_pull(PullRequestChecks::Passed, &comments);
    assert!(
        harness.instruction().contains("say 49.") && !harness.instruction().contains("say 50.")
    );
    harness
        .finish_work("mended")
        .open_pull_request("mended")
        .see_pull(PullRequestChecks::Passed, &comments);
    assert!(
        !harness.instruction().contains("say 49.") && harness.instruction().contains("say 54.")
    );
    harness
        .finish_work("more")
        .open_pull_request("more")
        .see_pull(PullRequestChecks::Passed, &comments);
    assert_eq!(harness.ending(), RunEnding::Succeeded);
}

#[test]
fn comments_go_once_to_the_working_conversation() {
    let mut harness = watching_pull();
    let comments = [comment("r1", "test fails"), comment("r2", "a typo")];
    harness.see_pull(PullRequestChecks::Failed, &comments);
    assert_eq!(
        (harness.live_session(), harness.last_session().cycle),
        (harness.run.id.session(1), 1)
    );
    assert_eq!(
        (harness.last_session().stage, harness.last_session().opened_in),
        (RunStage::Land, RunStage::Work)
    );
    assert!(harness.instruction().contains("ann:\n> test fails\n\nann:\n> a typo"));
    harness.finish_work("mended");
    assert_eq!(harness.pending_effects(), ["land-1-1"], "the newest work is pushed");
    assert!(
        harness.try_apply(pull_requested("new")).is_err(),
        "older work is not what is asked for"
    );
    harness.open_pull_request("mended").see_pull(PullRequestChecks::Pending, &comments);
    assert_eq!(harness.run.steps.len(), 1, "what was taken up is not taken up again");
    harness.see_pull(PullRequestChecks::Passed, &comments);
    assert_eq!(harness.ending(), RunEnding::Succeeded);
    assert_eq!(harness.outcome().head, Some(snapshot("mended")));
}

#[test]
fn second_comment_round_keeps_first_settled() {
    let mut harness = watching_pull();
    harness
        .see_pull(PullRequestChecks::Failed, &[comment("r1", "one")])
        .finish_work("mended")
        .open_pull_request("mended");
    harness.see_pull(PullRequestChecks::Failed, &[comment("r1", "one"), comment("r2", "two")]);
    assert_eq!(
        (harness.live_session(), harness.last_session().cycle),
        (harness.run.id.session(1), 2)
    );
    assert!(!harness.instruction().contains("> one"));
    harness.finish_work("mended-2");
    assert_eq!(harness.pending_effects(), ["land-1-2"]);
    harness.open_pull_request("mended-2").see_pull(PullRequestChecks::Passed, &[]);
    assert_eq!(harness.ending(), RunEnding::Succeeded);
    assert_eq!(harness.session(1).attempts.len(), 3);
}

#[test]
fn late_pull_state_is_ignored() {
    let mut harness = watching_pull();
    let late = harness.pull_seen(PullRequestChecks::Failed, &[comment("r1", "one")]);
    harness.apply(late.clone()).finish_work("mended").open_pull_request("mended");
    assert!(harness.try_apply(late).is_err());
    assert!(!harness.run.is_sealed());
    assert_eq!(harness.pending_effects(), ["pull-1-1"]);
}

#[test]
fn comment_rounds_are_bounded_and_rest_is_kept() {
    let mut harness = watching_pull();
    for round in 1..=MAX_ROUNDS {
        let tree = format!("mended-{round}");
        harness.see_pull(PullRequestChecks::Pending, &[comment(&format!("r{round}"), "again")]);
        harness.finish_work(&tree).open_pull_request(&tree);
    }
    let more = [comment("r6", "and again")];
    harness.see_pull(PullRequestChecks::Pending, &more);
    assert!(!harness.run.is_live());
    assert_eq!(harness.run.comments_dropped, more);
    harness.see_pull(PullRequestChecks::Passed, &more);
    assert_eq!((harness.ending(), harness.run.comments_dropped.len()), (RunEnding::Succeeded, 1));
}

#[test]
fn merged_or_closed_pull_takes_no_comments() {
    for status in [PullRequestStatus::Merged, PullRequestStatus::Closed] {
        let mut harness = watching_pull();
        let state = PullRequestState { status, checks: PullRequestChecks::Passed, left_out: 0 };
        let comments = vec![comment("r1", "too late")];
        harness.apply(RunCommand::PullRequestObserved {
            look: 0,
            state,
            comments: comments.clone(),
        });
        assert!(!harness.run.is_live());
        assert_eq!(harness.run.comments_dropped, comments);
    }
}

#[test]
fn comments_go_to_new_session_if_not_resumable() {
    let mut harness = TestRun::open(landing_spec(LandMode::Pr));
    harness.finish_work("new");
    harness.apply_to_session(harness.run.id.session(1), session::SessionCommand::WorkRemoved);
    harness
        .open_pull_request("new")
        .see_pull(PullRequestChecks::Failed, &[comment("r1", "mend it")]);
    assert_eq!((harness.last_session().no, harness.last_session().cycle), (2, 1));
    assert!(harness.instruction().contains("> mend it"));
    assert_eq!(harness.run.owner().map(|one| one.no), Some(1));
    harness.finish_work("mended");
    assert_eq!(harness.pending_effects(), ["land-1-1"]);
}

#[test]
fn unchanged_answer_keeps_last_pull_state() {
    let mut harness = watching_pull();
    harness.see_pull(PullRequestChecks::Passed, &[comment("r1", "why?")]).finish_work("new");
    assert_eq!(harness.ending(), RunEnding::Succeeded, "it was pushed, and its checks had passed");
    let mut harness = watching_pull();
    harness.see_pull(PullRequestChecks::Failed, &[comment("r1", "why?")]).finish_work("new");
    harness.apply(RunCommand::LandingAborted { attempt: 1, pull: None });
    assert_eq!(harness.outcome().detail, "checks of the pull request failed");
}

#[test]
fn failed_comment_fix_ends_the_run() {
    let mut harness = watching_pull();
    harness.see_pull(PullRequestChecks::Failed, &[comment("r1", "mend it")]).fail_session();
    harness.apply(RunCommand::LandingAborted { attempt: 1, pull: None });
    assert_eq!(
        (harness.ending(), harness.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Landing))
    );
}

#[test]
fn pull_request_is_opened_once() {
    let mut harness = watching_pull();
    assert!(harness.try_apply(pull_requested("new")).is_err());
    assert!(harness.try_apply(pull_requested("other")).is_err());
    harness.see_pull(PullRequestChecks::Passed, &[]);
    assert!(harness.try_apply(pull_requested("new")).is_err());
}

#[test]
fn resumed_run_polls_pull_request_again() {
    let mut harness = watching_pull();
    harness
        .see_pull(PullRequestChecks::Failed, &[])
        .apply(RunCommand::LandingAborted { attempt: 1, pull: None });
    harness.apply(RunCommand::Resume);
    assert_eq!(harness.pending_effects(), ["pull-2-1"], "the checks may have been begun again");
    harness.see_pull(PullRequestChecks::Passed, &[]);
    assert_eq!(harness.ending(), RunEnding::Succeeded);
}

#[test]
fn resumed_run_gets_new_comment_rounds() {
    let mut harness = watching_pull();
    for round in 1..=MAX_ROUNDS {
        let tree = format!("mended-{round}");
        harness.see_pull(PullRequestChecks::Pending, &[comment(&format!("r{round}"), "again")]);
        harness.finish_work(&tree).open_pull_request(&tree);
    }
    harness
        .see_pull(PullRequestChecks::Failed, &[])
        .apply(RunCommand::LandingAborted { attempt: 1, pull: None });
    harness
        .apply(RunCommand::Resume)
        .see_pull(PullRequestChecks::Failed, &[comment("r6", "once more")]);
    assert_eq!(harness.live_session(), harness.run.id.session(1));
    assert!(
        matches!(harness.run.steps.last(), Some(LandStep::Answer { comments }) if comments[0].id == "r6")
    );
}

#[test]
fn comment_is_truncated_and_matched_by_id() {
    let long = ReviewComment::new("r".to_owned(), "ann", &"é".repeat(10_000));
    assert_eq!(long.text.chars().count(), 8 << 10);
    let mut harness = watching_pull();
    let (one, two) = (comment("r1", "a"), comment("r2", "b"));
    harness.see_pull(PullRequestChecks::Pending, std::slice::from_ref(&one));
    let all = [one, two.clone()];
    assert_eq!(harness.run.new_comments(&all), [&two]);
    let state =
        PullRequestState { status: OPEN_PULL, checks: PullRequestChecks::Pending, left_out: 0 };
    assert_eq!(state.checks.as_str(), "pending");
}
