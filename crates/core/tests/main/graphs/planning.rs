//! From a goal to a plan in progress, and every way planning can fail.

use provost_core::{
    plan::{MAX_PLANNED, Plan},
    policy::{Decision, Matcher, Policy, Rule},
    result::{Structured, Triage},
    run::{
        Approval, Cause, Command, Ending, PlanMode, Planning, Rejected, ReviewMode, Reviews,
        RunSpec, Stage,
    },
    session,
};
use serde_json::{Value, json};

use super::kit::{RunBench, given, plan, with};
use crate::runs::kit::run_spec;

/// A run that is planned by an agent, with this review mode for the plan.
fn planned(review: ReviewMode) -> RunSpec {
    let planning = Planning { mode: PlanMode::Always, parallel: 8, ..Planning::default() };
    let reviews = Reviews { plan: review, ..run_spec().reviews };
    RunSpec { planning, reviews, ..run_spec() }
}

fn told(plan: &Plan) -> Option<Structured> {
    Some(Structured::Plan(serde_json::to_string(plan).expect("it has string keys only")))
}

fn two() -> Plan {
    plan(&[("a", &[]), ("b", &["a"])])
}

fn says(value: &Value) -> Option<Structured> {
    Some(Structured::Plan(value.to_string()))
}

fn one_task() -> Value {
    json!({"id": "a", "title": "A", "instruction": "Do it."})
}

fn accepts(edits: &Value) -> Option<Structured> {
    let review = json!({"verdict": "accept", "reason": "good", "edits": edits});
    Some(Structured::PlanReview(review.to_string()))
}

#[test]
fn a_plan_that_nobody_reviews_is_worked_on_at_once() {
    let mut bench = RunBench::open(planned(ReviewMode::Off));
    assert_eq!((bench.run.stage, bench.last().stage), (Stage::Plan, Stage::Plan));
    bench.does("old", told(&two()));
    assert_eq!(bench.stages(), [Stage::Plan, Stage::PlanReview, Stage::Tasks]);
    assert_eq!(bench.at_work(), ["a"]);
    assert!(bench.hooks().contains(&"run.planned".to_owned()), "{:?}", bench.hooks());
}

#[test]
fn e1_an_empty_plan_is_never_all_done() {
    let mut bench = RunBench::open(planned(ReviewMode::Off));
    let empty = json!({"tasks": []});
    bench.does("old", says(&empty));
    assert_eq!((bench.run.stage, bench.run.sessions.len()), (Stage::Plan, 1));
    let asked = bench.instruction().to_owned();
    assert!(asked.contains("- the plan has no tasks: expected at least one\n"), "{asked}");
    bench.does("old", says(&empty));
    assert_eq!((bench.ending(), bench.outcome().cause), (Ending::Failed, Some(Cause::Plan)));
    let detail =
        "the result is still not a valid plan: the plan has no tasks: expected at least one";
    assert_eq!(bench.outcome().detail, detail);
    assert!(bench.run.graph.is_none());
}

#[test]
fn e2_an_agent_sets_no_state_by_its_plan() {
    for field in ["status", "state", "attempts", "started_at"] {
        let mut task = one_task();
        task[field] = json!("done");
        let mut bench = RunBench::open(planned(ReviewMode::Off));
        bench.does("old", says(&json!({"tasks": [task]})));
        assert!(bench.instruction().contains(&format!("has a field \"{field}\"")), "{field}");
        assert!(bench.run.planned.is_none());
    }
}

#[test]
fn e2_cycles_unknown_ids_and_twins_are_quoted_once_and_may_be_mended() {
    let faulty = json!({"tasks": [
        {"id": "a", "title": "A", "instruction": "Do.", "after": ["b"]},
        {"id": "b", "title": "B", "instruction": "Do.", "after": ["a"]},
        {"id": "c", "title": "C", "instruction": "Do.", "after": ["nobody"]},
        {"id": "d", "title": "D", "instruction": "Do."},
        {"id": "d", "title": "D", "instruction": "Do."},
    ]});
    let mut bench = RunBench::open(planned(ReviewMode::Off));
    let first = bench.live();
    bench.does("old", says(&faulty));
    assert_eq!(bench.live(), first, "its planner fixes it in the same conversation");
    let (_, faults) = &bench.run.plan_faults[0];
    assert_eq!(faults.len(), 3, "{faults:?}");
    let asked = bench.instruction();
    assert!(faults.iter().all(|fault| asked.contains(&format!("- {fault}\n"))), "{asked}");
    bench.does("old", told(&two()));
    assert_eq!((bench.run.stage, bench.count("run.plan_faulty")), (Stage::Tasks, 1));
}

#[test]
fn what_is_no_json_or_no_plan_at_all_is_told_so() {
    for (result, fault) in [
        (Some(Structured::Plan("no plan".to_owned())), "expected ident"),
        (None, "no plan was returned"),
    ] {
        let mut bench = RunBench::open(planned(ReviewMode::Off));
        bench.does("old", result);
        assert!(bench.instruction().contains(fault), "{}", bench.instruction());
    }
}

#[test]
fn faults_are_quoted_to_another_agent_where_the_conversation_cannot_go_on() {
    let mut bench = RunBench::open(planned(ReviewMode::Off));
    let first = bench.live();
    bench.start().turn(provost_core::lifecycle::ClaimKind::Completed, says(&json!({"tasks": []})));
    // The worktree is removed before the run can resume the session.
    bench.sessions.get_mut(&first).unwrap().work = session::WorkState::Removed;
    bench.end_session(first);
    assert_ne!(bench.live(), first);
    let asked = bench.instruction();
    assert!(asked.starts_with("Read the task below"), "{asked}");
    assert!(asked.contains("- the plan has no tasks: expected at least one"), "{asked}");
}

#[test]
fn only_so_many_faults_are_quoted() {
    let task = |no: u32| json!({"id": format!("t{no}"), "title": "", "instruction": "Do."});
    let tasks: Vec<Value> = (0..100).map(task).collect();
    let mut bench = RunBench::open(planned(ReviewMode::Off));
    bench.does("old", says(&json!({"tasks": tasks})));
    assert_eq!(bench.run.plan_faults[0].1.len(), 20);
    assert_eq!(bench.instruction().matches("has an empty text").count(), 20);
    bench.does("old", says(&json!({"tasks": tasks})));
    assert_eq!(bench.outcome().detail.matches("has an empty text").count(), 20);
}

#[test]
fn a_plan_is_not_mended_on_a_budget_that_is_used_up() {
    let mut spec = planned(ReviewMode::Off);
    spec.budget.turns = Some(1);
    let mut bench = RunBench::open(spec);
    bench.does("old", says(&json!({"tasks": []})));
    assert_eq!((bench.ending(), bench.outcome().cause), (Ending::Failed, Some(Cause::Budget)));
}

#[test]
fn a_planner_that_fails_is_no_plan() {
    let mut bench = RunBench::open(planned(ReviewMode::Off));
    bench.fails();
    assert_eq!((bench.ending(), bench.outcome().cause), (Ending::Failed, Some(Cause::Plan)));
    bench.tell(Command::Resume);
    assert_eq!((bench.run.stage, bench.last().no), (Stage::Plan, 2));
}

#[test]
fn a_reviewer_edits_the_plan() {
    let mut bench = RunBench::open(planned(ReviewMode::Repair));
    bench.does("old", told(&two()));
    assert_eq!(bench.last().stage, Stage::PlanReview);
    assert!(bench.instruction().contains("\"id\": \"b\""), "it is shown the plan");
    let task = json!({"id": "c", "title": "C", "instruction": "Do.", "after": [], "criteria": [], "checks": [], "scope": []});
    let edits = json!([{"op": "release", "id": "b", "on": "a"}, {"op": "add", "task": task}]);
    bench.does("old", accepts(&edits));
    assert_eq!(
        (bench.run.stage, bench.at_work()),
        (Stage::Tasks, vec!["a".into(), "b".into(), "c".into()])
    );
}

#[test]
fn edits_of_a_review_that_only_reports_change_nothing() {
    let mut bench = RunBench::open(planned(ReviewMode::Report));
    bench.does("old", told(&two()));
    bench.does("old", accepts(&json!([{"op": "release", "id": "b", "on": "a"}])));
    assert_eq!(bench.at_work(), ["a"]);
    assert_eq!(*bench.run.planned.as_ref().unwrap().plan, two());
}

#[test]
fn e2_an_edit_that_leaves_no_plan_is_quoted_once() {
    let mut bench = RunBench::open(planned(ReviewMode::Repair));
    bench.does("old", told(&two()));
    let cycle = json!([{"op": "depend", "id": "a", "on": "b"}]);
    bench.does("old", accepts(&cycle));
    assert!(bench.instruction().contains("edit number 1 cannot be made"));
    bench.does("old", accepts(&cycle));
    assert_eq!((bench.ending(), bench.outcome().cause), (Ending::Failed, Some(Cause::Plan)));
}

#[test]
fn a_reviewer_may_plan_no_more_tasks_than_a_planner() {
    let mut bench = RunBench::open(planned(ReviewMode::Repair));
    bench.does("old", told(&two()));
    let task = |no: usize| json!({"id": format!("t{no}"), "title": "T", "instruction": "Do.", "after": [], "criteria": [], "checks": [], "scope": []});
    let add = |no: usize| json!({"op": "add", "task": task(no)});
    let edits: Vec<Value> = (0..MAX_PLANNED).map(add).collect();
    bench.does("old", accepts(&json!(edits)));
    let asked = bench.instruction();
    assert!(asked.contains("the plan has 202 tasks: expected at most 200"), "{asked}");
}

#[test]
fn e4_a_rejected_plan_is_a_failure_with_hook_and_reason() {
    let mut bench = RunBench::open(planned(ReviewMode::Report));
    bench.does("old", told(&two()));
    let rejected = json!({"verdict": "reject", "reason": "it misses the point", "edits": []});
    bench.does("old", Some(Structured::PlanReview(rejected.to_string())));
    assert_eq!((bench.ending(), bench.outcome().cause), (Ending::Failed, Some(Cause::Plan)));
    assert_eq!(bench.outcome().detail, "the plan was rejected: it misses the point");
    assert_eq!(bench.hooks().last().map(String::as_str), Some("run.failed"));
    assert!(bench.run.graph.is_none(), "nothing of it is worked on");
}

#[test]
fn e4_a_person_rejects_a_plan() {
    let mut bench = RunBench::open(with(given(&[("a", &[])]), |all| all.approve = true));
    bench.tell(Command::RejectPlan { because: "not now".to_owned() });
    assert_eq!((bench.ending(), bench.outcome().cause), (Ending::Failed, Some(Cause::Plan)));
    assert_eq!(bench.outcome().detail, "the plan was rejected: not now");
    assert_eq!(bench.try_tell(Command::ApprovePlan), Err(Rejected::NoPlanToApprove));
    bench.tell(Command::Resume);
    assert!(bench.run.awaits_approval(), "the resumed run asks again");
}

#[test]
fn a_plan_waits_for_a_person_who_was_to_be_asked() {
    let mut bench = RunBench::open(with(planned(ReviewMode::Off), |all| all.approve = true));
    assert_eq!(bench.try_tell(Command::ApprovePlan), Err(Rejected::NoPlanToApprove));
    bench.does("old", told(&two()));
    assert!(bench.run.awaits_approval());
    assert!(bench.owed().is_empty() && bench.at_work().is_empty());
    bench.tell(Command::ApprovePlan);
    assert_eq!((bench.run.stage, bench.at_work()), (Stage::Tasks, vec!["a".to_owned()]));
    assert_eq!(bench.try_tell(Command::ApprovePlan), Err(Rejected::NoPlanToApprove));
}

#[test]
fn a_run_that_is_only_to_plan_ends_with_its_plan() {
    let mut bench = RunBench::open(with(planned(ReviewMode::Off), |all| all.only = true));
    bench.does("old", told(&two()));
    assert_eq!((bench.ending(), bench.run.stage), (Ending::Completed, Stage::PlanReview));
    assert!(bench.run.graph.is_none());
    let spec = with(planned(ReviewMode::Off), |all| (all.only, all.approve) = (true, true));
    let mut bench = RunBench::open(spec);
    bench.does("old", told(&two()));
    assert!(!bench.run.is_sealed());
    bench.tell(Command::ApprovePlan);
    assert_eq!(bench.ending(), Ending::Completed);
}

#[test]
fn a_given_plan_is_neither_made_nor_reviewed_by_agents() {
    let mut spec = given(&[("a", &[])]);
    (spec.triage, spec.reviews.plan) = (true, ReviewMode::Repair);
    let bench = RunBench::open(spec);
    assert_eq!(bench.stages(), [Stage::PlanReview, Stage::Tasks]);
    assert_eq!(bench.at_work(), ["a"]);
}

#[test]
fn triage_says_whether_a_plan_is_needed_where_it_is_asked() {
    for (mode, needs_plan, then) in [
        (PlanMode::Auto, true, Stage::Plan),
        (PlanMode::Auto, false, Stage::Work),
        (PlanMode::Always, false, Stage::Plan),
        (PlanMode::Never, true, Stage::Work),
    ] {
        let spec =
            RunSpec { triage: true, ..with(planned(ReviewMode::Off), |all| all.mode = mode) };
        let mut bench = RunBench::open(spec);
        let understanding = "it".to_owned();
        bench.does("old", Some(Structured::Triage(Triage { understanding, needs_plan })));
        assert_eq!(bench.run.stage, then, "{mode:?} {needs_plan}");
    }
}

/// A plan with one task that has these checks.
fn checked_plan(checks: &[&str]) -> Value {
    let mut task = one_task();
    task["checks"] = json!(checks);
    json!({"tasks": [task]})
}

fn rule(decision: Decision, words: &str) -> Policy {
    let words = words.split(' ').map(str::to_owned).collect();
    let rules = vec![Rule { decision, matches: Matcher::Command(words) }];
    Policy { rules, ..Policy::default() }
}

#[test]
fn commands_of_an_agents_plan_wait_for_consent() {
    let mut spec = planned(ReviewMode::Off);
    spec.checks = vec!["mine".to_owned()];
    let mut bench = RunBench::open(spec);
    bench.does("old", says(&checked_plan(&["mine", "touch x", "touch x"])));
    assert_eq!(bench.run.approval(), Some(Approval::Plan(vec!["touch x"])));
    assert!(bench.at_work().is_empty(), "nothing is begun before");
    bench.tell(Command::ApprovePlan);
    assert_eq!(bench.at_work(), ["a"]);
    let session = bench.session(2);
    assert_eq!(session.spec.checks, ["mine", "touch x"]);
    assert_eq!(session.spec.check_terms.agent_checks, ["touch x"]);
    assert!(bench.run.consented.contains("touch x"));
}

#[test]
fn allowed_commands_run_unasked_and_denied_ones_are_faults() {
    let spec = RunSpec { policy: rule(Decision::Allow, "touch"), ..planned(ReviewMode::Off) };
    let mut bench = RunBench::open(spec);
    bench.does("old", says(&checked_plan(&["touch x"])));
    assert_eq!(bench.at_work(), ["a"]);
    let spec = RunSpec { policy: rule(Decision::Deny, "touch"), ..planned(ReviewMode::Off) };
    let mut bench = RunBench::open(spec);
    bench.does("old", says(&checked_plan(&["touch x"])));
    let asked = bench.instruction().to_owned();
    assert!(asked.contains("denied by the approval rule"), "{asked}");
    bench.does("old", says(&checked_plan(&["touch x"])));
    assert_eq!((bench.ending(), bench.outcome().cause), (Ending::Failed, Some(Cause::Plan)));
}

#[test]
fn commands_that_a_plan_review_adds_wait_for_consent() {
    let mut bench = RunBench::open(planned(ReviewMode::Repair));
    bench.does("old", told(&two()));
    assert!(!bench.run.awaits_approval());
    let edits = json!([{"op": "change", "id": "a", "checks": ["touch y"]}]);
    bench.does("old", accepts(&edits));
    assert_eq!(bench.run.approval(), Some(Approval::Plan(vec!["touch y"])));
}

#[test]
fn commands_of_a_given_plan_are_the_users() {
    let plan: Plan = serde_json::from_value(checked_plan(&["touch x"])).expect("it is a plan");
    let planning = Planning { given: Some(plan), ..Planning::default() };
    let bench = RunBench::open(RunSpec { planning, ..run_spec() });
    assert_eq!(bench.at_work(), ["a"]);
    assert!(bench.run.agent_checks().is_empty());
}

#[test]
fn an_agents_check_refutes_and_never_proves_alone() {
    let mut spec = planned(ReviewMode::Off);
    (spec.checks, spec.policy) = (Vec::new(), rule(Decision::Allow, "own"));
    let mut bench = RunBench::open(spec);
    bench.does("old", says(&checked_plan(&["own"])));
    let session = bench.session(2);
    assert_eq!(session.spec.checks, ["own"]);
    assert!(!session.spec.can_be_proved());
}
