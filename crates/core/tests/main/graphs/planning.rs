//! From a goal to a plan in progress, and every way planning can fail.

use provost_core::{
    plan::{MAX_PLANNED, Plan},
    policy::{Matcher, Policy, PolicyRule, RuleDecision},
    result::{StructuredResult, Triage},
    run::{
        PendingRunApproval, PlanMode, PlanningSpec, ReviewMode, ReviewModes, RunCommand, RunEnding,
        RunFailureCause, RunRejection, RunSpec, RunStage,
    },
    session,
};
use serde_json::{Value, json};

use super::kit::{TestRun, plan, planned_spec, with_planning};
use crate::runs::kit::run_spec;

/// A run that is planned by an agent, with this review mode for the plan.
fn planned(review: ReviewMode) -> RunSpec {
    let planning = PlanningSpec { mode: PlanMode::Always, parallel: 8, ..PlanningSpec::default() };
    let reviews = ReviewModes { plan: review, ..run_spec().reviews };
    RunSpec { planning, reviews, ..run_spec() }
}

fn plan_result(plan: &Plan) -> Option<StructuredResult> {
    Some(StructuredResult::Plan(serde_json::to_string(plan).expect("it has string keys only")))
}

fn two_task_plan() -> Plan {
    plan(&[("a", &[]), ("b", &["a"])])
}

fn plan_json_result(value: &Value) -> Option<StructuredResult> {
    Some(StructuredResult::Plan(value.to_string()))
}

fn one_task() -> Value {
    json!({"id": "a", "title": "A", "instruction": "Do it."})
}

fn accepting_review(edits: &Value) -> Option<StructuredResult> {
    let review = json!({"verdict": "accept", "reason": "good", "edits": edits});
    Some(StructuredResult::PlanReview(review.to_string()))
}

#[test]
fn unreviewed_plan_starts_at_once() {
    let mut harness = TestRun::open(planned(ReviewMode::Off));
    assert_eq!((harness.run.stage, harness.last_session().stage), (RunStage::Plan, RunStage::Plan));
    harness.finish_session("old", plan_result(&two_task_plan()));
    assert_eq!(harness.stages(), [RunStage::Plan, RunStage::PlanReview, RunStage::Tasks]);
    assert_eq!(harness.working_names(), ["a"]);
    assert!(harness.hooks().contains(&"run.planned".to_owned()), "{:?}", harness.hooks());
}

#[test]
fn e1_empty_plan_fails_the_run() {
    let mut harness = TestRun::open(planned(ReviewMode::Off));
    let empty = json!({"tasks": []});
    harness.finish_session("old", plan_json_result(&empty));
    assert_eq!((harness.run.stage, harness.run.sessions.len()), (RunStage::Plan, 1));
    let asked = harness.instruction().to_owned();
    assert!(asked.contains("- the plan has no tasks: expected at least one\n"), "{asked}");
    harness.finish_session("old", plan_json_result(&empty));
    assert_eq!(
        (harness.ending(), harness.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Plan))
    );
    let detail =
        "the result is still not a valid plan: the plan has no tasks: expected at least one";
    assert_eq!(harness.outcome().detail, detail);
    assert!(harness.run.graph.is_none());
}

#[test]
fn e2_plan_cannot_set_task_state() {
    for field in ["status", "state", "attempts", "started_at"] {
        let mut task = one_task();
        task[field] = json!("done");
        let mut harness = TestRun::open(planned(ReviewMode::Off));
        harness.finish_session("old", plan_json_result(&json!({"tasks": [task]})));
        assert!(
            harness.instruction().contains(&format!("has an unknown field \"{field}\"")),
            "{field}"
        );
        assert!(harness.run.planned.is_none());
    }
}

#[test]
fn e2_plan_faults_are_returned_once_for_repair() {
    let faulty = json!({"tasks": [
        {"id": "a", "title": "A", "instruction": "Do.", "after": ["b"]},
        {"id": "b", "title": "B", "instruction": "Do.", "after": ["a"]},
        {"id": "c", "title": "C", "instruction": "Do.", "after": ["nobody"]},
        {"id": "d", "title": "D", "instruction": "Do."},
        {"id": "d", "title": "D", "instruction": "Do."},
    ]});
    let mut harness = TestRun::open(planned(ReviewMode::Off));
    let first = harness.live_session();
    harness.finish_session("old", plan_json_result(&faulty));
    assert_eq!(harness.live_session(), first, "its planner fixes it in the same conversation");
    let (_, faults) = &harness.run.plan_faults[0];
    assert_eq!(faults.len(), 3, "{faults:?}");
    let asked = harness.instruction();
    assert!(faults.iter().all(|fault| asked.contains(&format!("- {fault}\n"))), "{asked}");
    harness.finish_session("old", plan_result(&two_task_plan()));
    assert_eq!((harness.run.stage, harness.count_events("run.plan_invalid")), (RunStage::Tasks, 1));
}

#[test]
fn invalid_or_missing_plan_is_reported() {
    for (result, fault) in [
        (Some(StructuredResult::Plan("no plan".to_owned())), "expected ident"),
        (None, "no plan was returned"),
    ] {
        let mut harness = TestRun::open(planned(ReviewMode::Off));
        harness.finish_session("old", result);
        assert!(harness.instruction().contains(fault), "{}", harness.instruction());
    }
}

#[test]
fn plan_faults_go_to_new_agent_if_not_resumable() {
    let mut harness = TestRun::open(planned(ReviewMode::Off));
    let first = harness.live_session();
    harness.start().turn(
        provost_core::lifecycle::ClaimKind::Completed,
        plan_json_result(&json!({"tasks": []})),
    );
    // The worktree is removed before the run can resume the session.
    harness.sessions.get_mut(&first).unwrap().worktree.state = session::WorkState::Removed;
    harness.end_session(first);
    assert_ne!(harness.live_session(), first);
    let asked = harness.instruction();
    assert!(asked.starts_with("Read the task below"), "{asked}");
    assert!(asked.contains("- the plan has no tasks: expected at least one"), "{asked}");
}

#[test]
fn quoted_plan_faults_are_capped() {
    let task = |no: u32| json!({"id": format!("t{no}"), "title": "", "instruction": "Do."});
    let tasks: Vec<Value> = (0..100).map(task).collect();
    let mut harness = TestRun::open(planned(ReviewMode::Off));
    harness.finish_session("old", plan_json_result(&json!({"tasks": tasks})));
    assert_eq!(harness.run.plan_faults[0].1.len(), 20);
    assert_eq!(harness.instruction().matches("has an empty text").count(), 20);
    harness.finish_session("old", plan_json_result(&json!({"tasks": tasks})));
    assert_eq!(harness.outcome().detail.matches("has an empty text").count(), 20);
}

#[test]
fn plan_is_not_repaired_on_exhausted_budget() {
    let mut spec = planned(ReviewMode::Off);
    spec.budget.turns = Some(1);
    let mut harness = TestRun::open(spec);
    harness.finish_session("old", plan_json_result(&json!({"tasks": []})));
    assert_eq!(
        (harness.ending(), harness.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Budget))
    );
}

#[test]
fn failed_planner_fails_the_run() {
    let mut harness = TestRun::open(planned(ReviewMode::Off));
    harness.fail_session();
    assert_eq!(
        (harness.ending(), harness.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Plan))
    );
    harness.apply(RunCommand::Resume);
    assert_eq!((harness.run.stage, harness.last_session().no), (RunStage::Plan, 2));
}

#[test]
fn plan_reviewer_can_edit_the_plan() {
    let mut harness = TestRun::open(planned(ReviewMode::Repair));
    harness.finish_session("old", plan_result(&two_task_plan()));
    assert_eq!(harness.last_session().stage, RunStage::PlanReview);
    assert!(harness.instruction().contains("\"id\": \"b\""), "it is shown the plan");
    let task = json!({"id": "c", "title": "C", "instruction": "Do.", "after": [], "criteria": [], "checks": [], "scope": []});
    let edits = json!([{"op": "release", "id": "b", "on": "a"}, {"op": "add", "task": task}]);
    harness.finish_session("old", accepting_review(&edits));
    assert_eq!(
        (harness.run.stage, harness.working_names()),
        (RunStage::Tasks, vec!["a".into(), "b".into(), "c".into()])
    );
}

#[test]
fn edits_of_report_only_review_are_ignored() {
    let mut harness = TestRun::open(planned(ReviewMode::Report));
    harness.finish_session("old", plan_result(&two_task_plan()));
    harness
        .finish_session("old", accepting_review(&json!([{"op": "release", "id": "b", "on": "a"}])));
    assert_eq!(harness.working_names(), ["a"]);
    assert_eq!(*harness.run.planned.as_ref().unwrap().plan, two_task_plan());
}

#[test]
fn e2_invalid_plan_edit_is_returned_once() {
    let mut harness = TestRun::open(planned(ReviewMode::Repair));
    harness.finish_session("old", plan_result(&two_task_plan()));
    let cycle = json!([{"op": "depend", "id": "a", "on": "b"}]);
    harness.finish_session("old", accepting_review(&cycle));
    assert!(harness.instruction().contains("edit number 1 cannot be applied"));
    harness.finish_session("old", accepting_review(&cycle));
    assert_eq!(
        (harness.ending(), harness.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Plan))
    );
}

#[test]
fn reviewer_edits_respect_the_task_limit() {
    let mut harness = TestRun::open(planned(ReviewMode::Repair));
    harness.finish_session("old", plan_result(&two_task_plan()));
    let task = |no: usize| json!({"id": format!("t{no}"), "title": "T", "instruction": "Do.", "after": [], "criteria": [], "checks": [], "scope": []});
    let add = |no: usize| json!({"op": "add", "task": task(no)});
    let edits: Vec<Value> = (0..MAX_PLANNED).map(add).collect();
    harness.finish_session("old", accepting_review(&json!(edits)));
    let asked = harness.instruction();
    assert!(asked.contains("the plan has 202 tasks: expected at most 200"), "{asked}");
}

#[test]
fn e4_rejected_plan_fails_with_hook_and_reason() {
    let mut harness = TestRun::open(planned(ReviewMode::Report));
    harness.finish_session("old", plan_result(&two_task_plan()));
    let rejected = json!({"verdict": "reject", "reason": "it misses the point", "edits": []});
    harness.finish_session("old", Some(StructuredResult::PlanReview(rejected.to_string())));
    assert_eq!(
        (harness.ending(), harness.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Plan))
    );
    assert_eq!(harness.outcome().detail, "the plan was rejected: it misses the point");
    assert_eq!(harness.hooks().last().map(String::as_str), Some("run.failed"));
    assert!(harness.run.graph.is_none(), "nothing of it is worked on");
}

#[test]
fn e4_user_can_reject_a_plan() {
    let mut harness =
        TestRun::open(with_planning(planned_spec(&[("a", &[])]), |all| all.approve = true));
    harness.apply(RunCommand::RejectPlan { because: "not now".to_owned() });
    assert_eq!(
        (harness.ending(), harness.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Plan))
    );
    assert_eq!(harness.outcome().detail, "the plan was rejected: not now");
    assert_eq!(harness.try_apply(RunCommand::ApprovePlan), Err(RunRejection::NoPlanToApprove));
    harness.apply(RunCommand::Resume);
    assert!(harness.run.awaits_approval(), "the resumed run asks again");
}

#[test]
fn plan_waits_for_required_approval() {
    let mut harness =
        TestRun::open(with_planning(planned(ReviewMode::Off), |all| all.approve = true));
    assert_eq!(harness.try_apply(RunCommand::ApprovePlan), Err(RunRejection::NoPlanToApprove));
    harness.finish_session("old", plan_result(&two_task_plan()));
    assert!(harness.run.awaits_approval());
    assert!(harness.pending_effects().is_empty() && harness.working_names().is_empty());
    harness.apply(RunCommand::ApprovePlan);
    assert_eq!(
        (harness.run.stage, harness.working_names()),
        (RunStage::Tasks, vec!["a".to_owned()])
    );
    assert_eq!(harness.try_apply(RunCommand::ApprovePlan), Err(RunRejection::NoPlanToApprove));
}

#[test]
fn plan_only_run_ends_with_its_plan() {
    let mut harness = TestRun::open(with_planning(planned(ReviewMode::Off), |all| all.only = true));
    harness.finish_session("old", plan_result(&two_task_plan()));
    assert_eq!((harness.ending(), harness.run.stage), (RunEnding::Completed, RunStage::PlanReview));
    assert!(harness.run.graph.is_none());
    let spec =
        with_planning(planned(ReviewMode::Off), |all| (all.only, all.approve) = (true, true));
    let mut harness = TestRun::open(spec);
    harness.finish_session("old", plan_result(&two_task_plan()));
    assert!(!harness.run.is_sealed());
    harness.apply(RunCommand::ApprovePlan);
    assert_eq!(harness.ending(), RunEnding::Completed);
}

#[test]
fn given_plan_skips_planning_and_review() {
    let mut spec = planned_spec(&[("a", &[])]);
    (spec.triage, spec.reviews.plan) = (true, ReviewMode::Repair);
    let harness = TestRun::open(spec);
    assert_eq!(harness.stages(), [RunStage::PlanReview, RunStage::Tasks]);
    assert_eq!(harness.working_names(), ["a"]);
}

#[test]
fn triage_decides_planning_only_in_auto_mode() {
    for (mode, needs_plan, then) in [
        (PlanMode::Auto, true, RunStage::Plan),
        (PlanMode::Auto, false, RunStage::Work),
        (PlanMode::Always, false, RunStage::Plan),
        (PlanMode::Never, true, RunStage::Work),
    ] {
        let spec = RunSpec {
            triage: true,
            ..with_planning(planned(ReviewMode::Off), |all| all.mode = mode)
        };
        let mut harness = TestRun::open(spec);
        let understanding = "it".to_owned();
        harness.finish_session(
            "old",
            Some(StructuredResult::Triage(Triage { understanding, needs_plan })),
        );
        assert_eq!(harness.run.stage, then, "{mode:?} {needs_plan}");
    }
}

/// A plan with one task that has these checks.
fn checked_plan(checks: &[&str]) -> Value {
    let mut task = one_task();
    task["checks"] = json!(checks);
    json!({"tasks": [task]})
}

fn rule(decision: RuleDecision, words: &str) -> Policy {
    let words = words.split(' ').map(str::to_owned).collect();
    let rules = vec![PolicyRule { decision, matches: Matcher::Command(words) }];
    Policy { rules, ..Policy::default() }
}

#[test]
fn agent_plan_commands_wait_for_consent() {
    let mut spec = planned(ReviewMode::Off);
    spec.checks = vec!["mine".to_owned()];
    let mut harness = TestRun::open(spec);
    harness.finish_session("old", plan_json_result(&checked_plan(&["mine", "touch x", "touch x"])));
    assert_eq!(harness.run.approval(), Some(PendingRunApproval::Plan(vec!["touch x"])));
    assert!(harness.working_names().is_empty(), "nothing is begun before");
    harness.apply(RunCommand::ApprovePlan);
    assert_eq!(harness.working_names(), ["a"]);
    let session = harness.session(2);
    assert_eq!(session.spec.checks, ["mine", "touch x"]);
    assert_eq!(session.spec.check_terms.agent_checks, ["touch x"]);
    assert!(harness.run.consented.contains("touch x"));
}

#[test]
fn policy_allows_or_denies_plan_commands() {
    let spec = RunSpec { policy: rule(RuleDecision::Allow, "touch"), ..planned(ReviewMode::Off) };
    let mut harness = TestRun::open(spec);
    harness.finish_session("old", plan_json_result(&checked_plan(&["touch x"])));
    assert_eq!(harness.working_names(), ["a"]);
    let spec = RunSpec { policy: rule(RuleDecision::Deny, "touch"), ..planned(ReviewMode::Off) };
    let mut harness = TestRun::open(spec);
    harness.finish_session("old", plan_json_result(&checked_plan(&["touch x"])));
    let asked = harness.instruction().to_owned();
    assert!(asked.contains("denied by the approval rule"), "{asked}");
    harness.finish_session("old", plan_json_result(&checked_plan(&["touch x"])));
    assert_eq!(
        (harness.ending(), harness.outcome().cause),
        (RunEnding::Failed, Some(RunFailureCause::Plan))
    );
}

#[test]
fn commands_added_by_review_wait_for_consent() {
    let mut harness = TestRun::open(planned(ReviewMode::Repair));
    harness.finish_session("old", plan_result(&two_task_plan()));
    assert!(!harness.run.awaits_approval());
    let edits = json!([{"op": "change", "id": "a", "checks": ["touch y"]}]);
    harness.finish_session("old", accepting_review(&edits));
    assert_eq!(harness.run.approval(), Some(PendingRunApproval::Plan(vec!["touch y"])));
}

#[test]
fn commands_of_given_plan_need_no_consent() {
    let plan: Plan = serde_json::from_value(checked_plan(&["touch x"])).expect("it is a plan");
    let planning = PlanningSpec { given: Some(plan), ..PlanningSpec::default() };
    let harness = TestRun::open(RunSpec { planning, ..run_spec() });
    assert_eq!(harness.working_names(), ["a"]);
    assert!(harness.run.agent_checks().is_empty());
}

#[test]
fn agent_check_refutes_but_never_proves() {
    let mut spec = planned(ReviewMode::Off);
    (spec.checks, spec.policy) = (Vec::new(), rule(RuleDecision::Allow, "own"));
    let mut harness = TestRun::open(spec);
    harness.finish_session("old", plan_json_result(&checked_plan(&["own"])));
    let session = harness.session(2);
    assert_eq!(session.spec.checks, ["own"]);
    assert!(!session.spec.has_trusted_check());
}
