//! Example cases and properties of the dispatch plan.

use proptest::prelude::*;

use super::*;
use crate::schedule::kit::{ended, failed, issue, rules, run, work};

fn started(plan: &DispatchPlan) -> Vec<(&str, u32)> {
    plan.start.iter().map(|start| (start.issue.id.as_str(), start.attempt)).collect()
}

fn why(plan: &DispatchPlan) -> Vec<&HoldReason> {
    plan.held.iter().map(|held| &held.why).collect()
}

#[test]
fn issues_are_ordered_by_urgency_and_age() {
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
    let rules = DispatchRules { concurrent: 10, ..rules() };
    let plan = plan_dispatch(&rules, &RunHistory::default(), &issues, 0);
    let ids: Vec<&str> = started(&plan).into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, ["one-old", "one-young", "one-a", "one-b", "four", "zero", "none"]);
}

#[test]
fn only_active_routable_issues_start() {
    let rules =
        DispatchRules { required_labels: vec!["agent".to_owned()], concurrent: 10, ..rules() };
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
    let plan = plan_dispatch(&rules, &RunHistory::default(), &issues, 0);
    assert_eq!(started(&plan), [("yes", 0)]);
    assert_eq!(
        why(&plan),
        [&HoldReason::NotDispatchable, &HoldReason::MissingLabel("agent".to_owned())]
    );
}

#[test]
fn blank_required_label_matches_none() {
    let rules = DispatchRules { required_labels: vec![String::new()], ..rules() };
    let labelled = Issue { labels: vec![String::new()], ..issue("1", "todo") };
    assert_eq!(started(&plan_dispatch(&rules, &RunHistory::default(), &[labelled], 0)), []);
}

#[test]
fn slots_are_limited_in_total_and_by_state() {
    let rules =
        DispatchRules { concurrent: 3, by_state: [("doing".to_owned(), 1)].into(), ..rules() };
    let work = work([("1", IssueRunStatus::Running)]);
    let issues = [
        issue("1", "Doing"),
        issue("2", "doing"),
        issue("3", "todo"),
        issue("4", "todo"),
        issue("5", "todo"),
    ];
    let plan = plan_dispatch(&rules, &work, &issues, 0);
    assert_eq!(started(&plan), [("3", 0), ("4", 0)]);
    assert_eq!(why(&plan), [&HoldReason::NoSlotInState("doing".to_owned()), &HoldReason::NoSlot]);
}

#[test]
fn stopping_run_keeps_its_slot() {
    let rules = DispatchRules { concurrent: 1, ..rules() };
    let work = work([("1", IssueRunStatus::Stopping)]);
    assert_eq!(started(&plan_dispatch(&rules, &work, &[issue("2", "todo")], 0)), []);
}

#[test]
fn failures_back_off_until_retries_end() {
    let wide = DispatchRules { retries: 100, ..rules() };
    let pauses: Vec<u64> = (1..8).map(|failures| wide.backoff(failures)).collect();
    assert_eq!(pauses, [10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000]);
    assert_eq!(wide.backoff(u32::MAX), 300_000);

    let issues = [issue("1", "todo")];
    let once = work([("1", failed(5))]);
    let early = plan_dispatch(&rules(), &once, &issues, 10_004);
    assert_eq!((started(&early), early.wake_ms), (vec![], Some(10_005)));
    assert_eq!(started(&plan_dispatch(&rules(), &once, &issues, 10_005)), [("1", 1)]);
    let twice = work([("1", failed(5)), ("1", failed(100_000))]);
    assert_eq!(plan_dispatch(&rules(), &twice, &issues, 0).wake_ms, Some(120_000));
    let thrice = work([("1", failed(5)), ("1", failed(6)), ("1", failed(7))]);
    let over = plan_dispatch(&rules(), &thrice, &issues, u64::MAX);
    assert_eq!(why(&over), [&HoldReason::RetriesExhausted { failures: 3, why: "no".to_owned() }]);
}

#[test]
fn success_continues_only_if_configured() {
    let issues = [issue("1", "todo")];
    let well = work([("1", ended(5, IssueRunEnding::Succeeded))]);
    assert_eq!(why(&plan_dispatch(&rules(), &well, &issues, u64::MAX)), [&HoldReason::Delivered]);
    let more = DispatchRules { continuations: 1, ..rules() };
    assert_eq!(plan_dispatch(&more, &well, &issues, 5).wake_ms, Some(1_005));
    assert_eq!(started(&plan_dispatch(&more, &well, &issues, 1_005)), [("1", 1)]);
    let again = work([
        ("1", ended(5, IssueRunEnding::Succeeded)),
        ("1", ended(9, IssueRunEnding::Succeeded)),
    ]);
    assert_eq!(why(&plan_dispatch(&more, &again, &issues, u64::MAX)), [&HoldReason::Delivered]);
}

#[test]
fn success_resets_failure_count() {
    let runs = [
        ("1", failed(1)),
        ("1", failed(2)),
        ("1", ended(3, IssueRunEnding::Succeeded)),
        ("1", failed(4)),
    ];
    let more = DispatchRules { continuations: 5, ..rules() };
    assert_eq!(plan_dispatch(&more, &work(runs), &[issue("1", "todo")], 0).wake_ms, Some(10_004));
}

#[test]
fn withdrawn_runs_restart_cancelled_do_not() {
    let issues = [issue("1", "todo")];
    let withdrawn = work([("1", ended(5, IssueRunEnding::Withdrawn))]);
    assert_eq!(started(&plan_dispatch(&rules(), &withdrawn, &issues, 5)), [("1", 1)]);
    let cancelled = work([("1", ended(5, IssueRunEnding::Cancelled))]);
    assert_eq!(why(&plan_dispatch(&rules(), &cancelled, &issues, 5)), [&HoldReason::Cancelled]);
}

#[test]
fn reactivated_issue_starts_over() {
    for how in [
        IssueRunEnding::Succeeded,
        IssueRunEnding::Cancelled,
        IssueRunEnding::Failed("no".to_owned()),
    ] {
        let mut work = work([("1", failed(1)), ("1", failed(2)), ("1", ended(3, how))]);
        work.record_active_issues(&rules(), &[issue("1", "todo")]);
        assert_eq!(started(&plan_dispatch(&rules(), &work, &[issue("1", "todo")], u64::MAX)), []);
        work.record_active_issues(&rules(), &[]);
        assert_eq!(started(&plan_dispatch(&rules(), &work, &[issue("1", "todo")], 0)), [("1", 3)]);
    }
}

#[test]
fn failed_opens_back_off() {
    let issues = [issue("1", "todo")];
    let mut work = RunHistory::default();
    work.record_failed_open("1", 100, "no template");
    assert_eq!(plan_dispatch(&rules(), &work, &issues, 100).wake_ms, Some(10_100));
    work.record_failed_open("1", 10_100, "no template");
    assert_eq!(plan_dispatch(&rules(), &work, &issues, 10_100).wake_ms, Some(30_100));
    work.forget_failed_opens();
    assert_eq!(started(&plan_dispatch(&rules(), &work, &issues, 100)), [("1", 0)]);
}

fn standings() -> impl Strategy<Value = IssueRunStatus> {
    let endings = prop_oneof![
        Just(IssueRunEnding::Succeeded),
        Just(IssueRunEnding::Failed("no".to_owned())),
        Just(IssueRunEnding::Withdrawn),
        Just(IssueRunEnding::Cancelled),
    ];
    prop_oneof![
        1 => Just(IssueRunStatus::Running),
        1 => Just(IssueRunStatus::Stopping),
        4 => (0..100_000_u64, endings).prop_map(|(at_ms, how)| IssueRunStatus::Ended { at_ms, how }),
    ]
}

prop_compose! {
    /// Generates issues with their runs. Only an issue's last run may be active.
    fn worlds()(cases in proptest::collection::vec((0..4_usize, 0..6_i64, proptest::collection::vec(standings(), 0..5)), 0..12)) -> (Vec<Issue>, RunHistory) {
        let mut known = RunHistory::default();
        let mut issues = Vec::new();
        for (at, (state, priority, standings)) in cases.into_iter().enumerate() {
            let id = at.to_string();
            let state = ["todo", "Doing", "Done", "Review"][state];
            issues.push(Issue { priority: Some(priority), ..issue(&id, state) });
            let last = standings.len().saturating_sub(1);
            for (no, status) in standings.into_iter().enumerate() {
                let over = matches!(status, IssueRunStatus::Ended { .. });
                let status = if no == last || over { status } else { failed(1) };
                let attempt = u32::try_from(no).unwrap();
                known.record_run(&id, run(&id, attempt, status));
            }
        }
        (issues, known)
    }
}

proptest! {
    #[test]
    fn plan_respects_all_bounds((issues, work) in worlds(), concurrent in 1..5_u32, doing in 1..3_u32, now in 0..400_000_u64) {
        let rules = DispatchRules { concurrent, by_state: [("doing".to_owned(), doing)].into(), ..rules() };
        let plan = plan_dispatch(&rules, &work, &issues, now);
        let going: Vec<&str> = work.active_runs().map(|(id, _)| id).collect();
        let free = usize::try_from(concurrent).unwrap().saturating_sub(going.len());
        prop_assert!(plan.start.len() <= free);
        let in_doing = plan.start.iter().filter(|start| normalize_name(&start.issue.state) == "doing").count();
        let going_doing = issues.iter().filter(|one| normalize_name(&one.state) == "doing" && going.contains(&one.id.as_str())).count();
        prop_assert!(in_doing == 0 || in_doing + going_doing <= usize::try_from(doing).unwrap());
        for start in &plan.start {
            prop_assert!(!going.contains(&start.issue.id.as_str()));
            prop_assert!(rules.is_active(&start.issue) && rules.is_routable(&start.issue));
            prop_assert!(work.runs_of(&start.issue.id).iter().all(|run| run.attempt < start.attempt));
        }
        // Every active issue is running, is started, or is held with a reason.
        for issue in issues.iter().filter(|issue| rules.is_active(issue)) {
            let held = plan.held.iter().any(|held| held.issue == issue.id);
            let begins = plan.start.iter().any(|start| start.issue.id == issue.id);
            let continues = going.contains(&issue.id.as_str());
            prop_assert_eq!([held, begins, continues].iter().filter(|one| **one).count(), 1);
        }
    }

    #[test]
    fn tracker_order_does_not_matter((issues, work) in worlds(), now in 0..400_000_u64) {
        let turned: Vec<Issue> = issues.iter().rev().cloned().collect();
        prop_assert_eq!(plan_dispatch(&rules(), &work, &issues, now), plan_dispatch(&rules(), &work, &turned, now));
    }

    #[test]
    fn scheduled_issue_starts_when_due((issues, work) in worlds()) {
        let wide = DispatchRules { concurrent: 100, ..rules() };
        if let Some(wake) = plan_dispatch(&wide, &work, &issues, 0).wake_ms {
            let before = plan_dispatch(&wide, &work, &issues, wake - 1);
            prop_assert!(plan_dispatch(&wide, &work, &issues, wake).start.len() > before.start.len());
        }
    }
}
