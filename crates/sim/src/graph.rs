//! Generates plans from a seed: given by users or written by planners, valid and invalid, and the verdicts of plan
//! reviewers.

use provost_core::{
    plan::{Plan, PlanTask, TaskId},
    result::StructuredResult,
    run::{PlanMode, PlanningSpec},
    session::AgentInterface,
};

use crate::{rng::Rng, run::Faults};

/// Whether the run of a scenario has a plan.
pub(crate) fn has_plan(story: u64) -> bool {
    story % 2 == 1
}

/// Generates a run's settings for planning and for executing the plan.
pub(crate) fn planning(seed: u64, interface: &AgentInterface, faults: &Faults) -> PlanningSpec {
    if !has_plan(seed) {
        return PlanningSpec::default();
    }
    let mut rng = Rng::from_names(seed, &[35]);
    let given = !interface.takes_instructions() || rng.percent(60);
    PlanningSpec {
        mode: rng.pick(&[PlanMode::Always, PlanMode::Auto]),
        given: given.then(|| plan(seed)),
        // No user approves plans in a calm scenario.
        approve: !faults.calm && rng.percent(20),
        only: rng.percent(6),
        parallel: 1 + rng.below(4) as u32,
        machine_parallel: rng.pick(&[u32::MAX, u32::MAX, 2]),
        batch: 1 + rng.below(4) as u32,
        retries: rng.below(3) as u32,
    }
}

/// Generates a plan of a few tasks.
pub(crate) fn plan(seed: u64) -> Plan {
    let mut rng = Rng::from_names(seed, &[36]);
    let count = 2 + rng.below(5);
    let tasks = (0..count).map(|no| {
        let share = if no == 0 { 0 } else { 35 };
        let after = rng.sample(0..no, share).into_iter().map(task_id).collect();
        let checks = Vec::from_iter(rng.percent(15).then(|| "own".to_owned()));
        PlanTask { after, checks, ..task(no) }
    });
    Plan::new(tasks.collect()).expect("a generated plan is valid")
}

fn task_id(no: u64) -> TaskId {
    format!("t{no}").parse().expect("a generated task id is valid")
}

fn task(no: u64) -> PlanTask {
    PlanTask {
        id: task_id(no),
        title: format!("Part {no}"),
        instruction: "Do it.".to_owned(),
        after: Vec::new(),
        criteria: Vec::new(),
        checks: Vec::new(),
        scope: Vec::new(),
    }
}

/// Returns a planner's result, which is usually a valid plan. A planner that receives the errors in its plan usually
/// fixes them.
pub(crate) fn plan_result(seed: u64, rng: &mut Rng, may_repair: bool) -> StructuredResult {
    let faulty = rng.percent(if may_repair { 15 } else { 25 });
    let plan = serde_json::to_string(&plan(seed)).expect("a plan has string keys only");
    let text = match (faulty, rng.below(4)) {
        (false, _) => plan,
        (true, 0) => r#"{"tasks": []}"#.to_owned(),
        (true, 1) => plan.replacen("\"id\"", "\"status\":\"done\",\"id\"", 1),
        (true, 2) => plan.replace("\"after\":[]", "\"after\":[\"t1\"]"),
        (true, _) => "a fine plan".to_owned(),
    };
    StructuredResult::Plan(text)
}

/// Returns a plan reviewer's result: applicable edits, inapplicable edits, or a rejection.
pub(crate) fn review_result(rng: &mut Rng, may_edit: bool) -> StructuredResult {
    let edits = match (may_edit, rng.below(5)) {
        (false, 0) => r#"[{"op": "remove", "id": "nobody"}]"#,
        (_, 1) => r#"[{"op": "change", "id": "t0", "title": "The first part"}]"#,
        (_, 2) => {
            r#"[{"op": "add", "task": {"id": "more", "title": "More", "instruction": "Do.", "after": ["t0"], "criteria": [], "checks": [], "scope": []}}]"#
        }
        (_, _) => "[]",
    };
    let verdict = if rng.percent(8) { "reject" } else { "accept" };
    let reason = "so it is";
    StructuredResult::PlanReview(format!(
        r#"{{"verdict": "{verdict}", "reason": "{reason}", "edits": {edits}}}"#
    ))
}
