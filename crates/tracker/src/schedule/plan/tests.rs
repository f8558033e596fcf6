//! Cases and properties of the plan.

use proptest::prelude::*;

use super::*;
use crate::schedule::kit::{ended, failed, issue, rules, run, work};

fn started(plan: &Plan) -> Vec<(&str, u32)> {
    plan.start.iter().map(|start| (start.issue.id.as_str(), start.attempt)).collect()
}

fn why(plan: &Plan) -> Vec<&HeldWhy> {
    plan.held.iter().map(|held| &held.why).collect()
}

#[test]
fn the_most_urgent_come_first_and_the_oldest_among_equals() {
    let old = |id: &str, priority: Option<i64>, at: Option<&str>| Issue {
        priority,
        created_at: at.map(str::to_owned),
        ..issue(id, "todo")
    };
    let issues = [
        old("none", None, Some("2020-01-01T00:00:00.000Z")),
        old("zero", Some(0), Some("2019-01-01T00:00:00.000Z")),
        old("four", Some(4), None),
        old("one-young", Some(1), Some("2021-01-01T00:00:00.000Z")),
        old("one-old", Some(1), Some("2020-01-01T00:00:00.000Z")),
        old("one-b", Some(1), None),
        old("one-a", Some(1), None),
    ];
    let rules = Rules { concurrent: 10, ..rules() };
    let plan = plan(&rules, &Work::default(), &issues, 0);
    let ids: Vec<&str> = started(&plan).into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, ["one-old", "one-young", "one-a", "one-b", "four", "zero", "none"]);
}

#[test]
fn only_what_is_active_and_let_through_is_started() {
    let rules = Rules { required_labels: vec!["agent".to_owned()], concurrent: 10, ..rules() };
    let labelled =
        |id: &str, state: &str| Issue { labels: vec!["agent".to_owned()], ..issue(id, state) };
    let blocked = Issue { dispatchable: false, ..labelled("blocked", "todo") };
    let issues = [
        labelled("yes", " TODO "),
        labelled("done", "Done"),
        labelled("other", "Review"),
        issue("plain", "todo"),
        blocked,
    ];
    let plan = plan(&rules, &Work::default(), &issues, 0);
    assert_eq!(started(&plan), [("yes", 0)]);
    assert_eq!(why(&plan), [&HeldWhy::NotDispatchable, &HeldWhy::Lacks("agent".to_owned())]);
}

#[test]
fn a_blank_required_label_is_had_by_no_issue() {
    let rules = Rules { required_labels: vec![String::new()], ..rules() };
    let labelled = Issue { labels: vec![String::new()], ..issue("1", "todo") };
    assert_eq!(started(&plan(&rules, &Work::default(), &[labelled], 0)), []);
}

#[test]
fn slots_are_counted_over_all_and_by_state() {
    let rules = Rules { concurrent: 3, by_state: [("doing".to_owned(), 1)].into(), ..rules() };
    let work = work([("1", Standing::Going)]);
    let issues = [
        issue("1", "Doing"),
        issue("2", "doing"),
        issue("3", "todo"),
        issue("4", "todo"),
        issue("5", "todo"),
    ];
    let plan = plan(&rules, &work, &issues, 0);
    assert_eq!(started(&plan), [("3", 0), ("4", 0)]);
    assert_eq!(why(&plan), [&HeldWhy::NoSlotInState("doing".to_owned()), &HeldWhy::NoSlot]);
}

#[test]
fn a_run_that_is_being_stopped_still_has_its_slot() {
    let rules = Rules { concurrent: 1, ..rules() };
    let work = work([("1", Standing::Stopping)]);
    assert_eq!(started(&plan(&rules, &work, &[issue("2", "todo")], 0)), []);
}

#[test]
fn failures_are_tried_again_after_pauses_that_double_up_to_the_bound_and_then_no_more() {
    let wide = Rules { retries: 100, ..rules() };
    let pauses: Vec<u64> = (1..8).map(|failures| wide.backoff(failures)).collect();
    assert_eq!(pauses, [10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000]);
    assert_eq!(wide.backoff(u32::MAX), 300_000);

    let issues = [issue("1", "todo")];
    let once = work([("1", failed(5))]);
    let early = plan(&rules(), &once, &issues, 10_004);
    assert_eq!((started(&early), early.wake_ms), (vec![], Some(10_005)));
    assert_eq!(started(&plan(&rules(), &once, &issues, 10_005)), [("1", 1)]);
    let twice = work([("1", failed(5)), ("1", failed(100_000))]);
    assert_eq!(plan(&rules(), &twice, &issues, 0).wake_ms, Some(120_000));
    let thrice = work([("1", failed(5)), ("1", failed(6)), ("1", failed(7))]);
    let over = plan(&rules(), &thrice, &issues, u64::MAX);
    assert_eq!(why(&over), [&HeldWhy::UsedUp { failures: 3, why: "no".to_owned() }]);
}

#[test]
fn what_ended_well_is_continued_only_if_that_is_wanted() {
    let issues = [issue("1", "todo")];
    let well = work([("1", ended(5, Ending::Well))]);
    assert_eq!(why(&plan(&rules(), &well, &issues, u64::MAX)), [&HeldWhy::Delivered]);
    let more = Rules { continuations: 1, ..rules() };
    assert_eq!(plan(&more, &well, &issues, 5).wake_ms, Some(1_005));
    assert_eq!(started(&plan(&more, &well, &issues, 1_005)), [("1", 1)]);
    let again = work([("1", ended(5, Ending::Well)), ("1", ended(9, Ending::Well))]);
    assert_eq!(why(&plan(&more, &again, &issues, u64::MAX)), [&HeldWhy::Delivered]);
}

#[test]
fn failures_before_a_good_end_do_not_count_against_what_follows() {
    let runs =
        [("1", failed(1)), ("1", failed(2)), ("1", ended(3, Ending::Well)), ("1", failed(4))];
    let more = Rules { continuations: 5, ..rules() };
    assert_eq!(plan(&more, &work(runs), &[issue("1", "todo")], 0).wake_ms, Some(10_004));
}

#[test]
fn a_run_that_was_withdrawn_is_begun_again_and_one_cancelled_by_hand_is_not() {
    let issues = [issue("1", "todo")];
    let withdrawn = work([("1", ended(5, Ending::Withdrawn))]);
    assert_eq!(started(&plan(&rules(), &withdrawn, &issues, 5)), [("1", 1)]);
    let cancelled = work([("1", ended(5, Ending::Cancelled))]);
    assert_eq!(why(&plan(&rules(), &cancelled, &issues, 5)), [&HeldWhy::Cancelled]);
}

#[test]
fn an_issue_that_was_put_aside_and_comes_back_begins_anew() {
    for how in [Ending::Well, Ending::Cancelled, Ending::Failed("no".to_owned())] {
        let mut work = work([("1", failed(1)), ("1", failed(2)), ("1", ended(3, how))]);
        work.see_active(&rules(), &[issue("1", "todo")]);
        assert_eq!(started(&plan(&rules(), &work, &[issue("1", "todo")], u64::MAX)), []);
        work.see_active(&rules(), &[]);
        assert_eq!(started(&plan(&rules(), &work, &[issue("1", "todo")], 0)), [("1", 3)]);
    }
}

#[test]
fn what_could_not_be_opened_waits_longer_each_time() {
    let issues = [issue("1", "todo")];
    let mut work = Work::default();
    work.could_not_open("1", 100, "no template");
    assert_eq!(plan(&rules(), &work, &issues, 100).wake_ms, Some(10_100));
    work.could_not_open("1", 10_100, "no template");
    assert_eq!(plan(&rules(), &work, &issues, 10_100).wake_ms, Some(30_100));
    work.forget_unopened();
    assert_eq!(started(&plan(&rules(), &work, &issues, 100)), [("1", 0)]);
}

fn standings() -> impl Strategy<Value = Standing> {
    let endings = prop_oneof![
        Just(Ending::Well),
        Just(Ending::Failed("no".to_owned())),
        Just(Ending::Withdrawn),
        Just(Ending::Cancelled),
    ];
    prop_oneof![
        1 => Just(Standing::Going),
        1 => Just(Standing::Stopping),
        4 => (0..100_000_u64, endings).prop_map(|(at_ms, how)| Standing::Ended { at_ms, how }),
    ]
}

prop_compose! {
    /// Issues with their runs; only the last run may be active.
    fn worlds()(cases in proptest::collection::vec((0..4_usize, 0..6_i64, proptest::collection::vec(standings(), 0..5)), 0..12)) -> (Vec<Issue>, Work) {
        let mut known = Work::default();
        let mut issues = Vec::new();
        for (at, (state, priority, standings)) in cases.into_iter().enumerate() {
            let id = at.to_string();
            let state = ["todo", "Doing", "Done", "Review"][state];
            issues.push(Issue { priority: Some(priority), ..issue(&id, state) });
            let last = standings.len().saturating_sub(1);
            for (no, standing) in standings.into_iter().enumerate() {
                let over = matches!(standing, Standing::Ended { .. });
                let standing = if no == last || over { standing } else { failed(1) };
                let attempt = u32::try_from(no).unwrap();
                known.take(&id, run(&id, attempt, standing));
            }
        }
        (issues, known)
    }
}

proptest! {
    #[test]
    fn no_plan_breaks_a_bound((issues, work) in worlds(), concurrent in 1..5_u32, doing in 1..3_u32, now in 0..400_000_u64) {
        let rules = Rules { concurrent, by_state: [("doing".to_owned(), doing)].into(), ..rules() };
        let plan = plan(&rules, &work, &issues, now);
        let going: Vec<&str> = work.going().map(|(id, _)| id).collect();
        let free = usize::try_from(concurrent).unwrap().saturating_sub(going.len());
        prop_assert!(plan.start.len() <= free);
        let in_doing = plan.start.iter().filter(|start| normal(&start.issue.state) == "doing").count();
        let going_doing = issues.iter().filter(|one| normal(&one.state) == "doing" && going.contains(&one.id.as_str())).count();
        prop_assert!(in_doing == 0 || in_doing + going_doing <= usize::try_from(doing).unwrap());
        for start in &plan.start {
            prop_assert!(!going.contains(&start.issue.id.as_str()));
            prop_assert!(rules.is_active(&start.issue) && rules.is_routable(&start.issue));
            prop_assert!(work.runs_of(&start.issue.id).iter().all(|run| run.attempt < start.attempt));
        }
        // Every active issue is running, started, or listed with a reason.
        for issue in issues.iter().filter(|issue| rules.is_active(issue)) {
            let told = plan.held.iter().any(|held| held.issue == issue.id);
            let begins = plan.start.iter().any(|start| start.issue.id == issue.id);
            let goes_on = going.contains(&issue.id.as_str());
            prop_assert_eq!([told, begins, goes_on].iter().filter(|one| **one).count(), 1);
        }
    }

    #[test]
    fn the_order_in_which_a_tracker_answers_means_nothing((issues, work) in worlds(), now in 0..400_000_u64) {
        let turned: Vec<Issue> = issues.iter().rev().cloned().collect();
        prop_assert_eq!(plan(&rules(), &work, &issues, now), plan(&rules(), &work, &turned, now));
    }

    #[test]
    fn what_waits_is_due_when_it_says((issues, work) in worlds()) {
        let wide = Rules { concurrent: 100, ..rules() };
        if let Some(wake) = plan(&wide, &work, &issues, 0).wake_ms {
            let before = plan(&wide, &work, &issues, wake - 1);
            prop_assert!(plan(&wide, &work, &issues, wake).start.len() > before.start.len());
        }
    }
}
