//! Opens a run for an issue, in the same way as `provost run`.

use std::collections::BTreeMap;

use provost_api::{ApiError, RunRow};
use provost_config::FlagSetting;
use provost_core::run::RunOrigin;
use provost_tracker::{issue, schedule::IssueStart, workflow::WorkflowConfig};

use super::source::WorkflowSource;
use crate::{
    adapters::DEFAULT_AGENT,
    commands::{
        run::{self, CheckSource, MAX_SPEC, RunGoal, RunRequest},
        spawn::variables::VariableArgs,
    },
    context::Context,
    error::usage,
    settings::flag_text,
    trust::TrustPrompt,
    ui,
};

/// The maximum length of the name that a run gets from its issue.
const MAX_NAME: usize = 80;

/// The maximum length of a run's one-line goal.
const MAX_GOAL_LINE: usize = 500;

/// Opens the run, or returns the one that was already opened for this attempt.
pub(super) fn open(
    context: &Context,
    source: &WorkflowSource,
    start: &IssueStart,
) -> Result<RunRow, ApiError> {
    let config = &source.workflow.config;
    let name = name(start);
    let origin = RunOrigin {
        workflow: source.name(),
        issue: start.issue.id.clone(),
        identifier: start.issue.identifier.clone(),
        attempt: start.attempt,
    };
    let key = key(&origin);
    let wish = RunRequest {
        cwd: Some(source.dir()),
        flags: flags(config),
        preset: config.provost.preset.as_deref(),
        goal: goal(source, start)?,
        name: Some(&name),
        agent: config.provost.agent.as_deref().unwrap_or(DEFAULT_AGENT),
        settings_flag: for_codex(config),
        variables: &VariableArgs::default(),
        answers: BTreeMap::new(),
        origin: Some(origin),
        plan: None,
        files: Vec::new(),
        plan_only: false,
        ignore_project_config: false,
        pinned: Some(&source.project),
        // `serve` asked the operator to trust the project when it started. Later, there may be no user present to
        // answer.
        asking: TrustPrompt::Never,
        checks: CheckSource::Configuration,
    };
    run::open(context, wish, &key).map(|opened| opened.row)
}

/// Returns the idempotency key, so that there is exactly one run for each attempt at an issue.
fn key(origin: &RunOrigin) -> String {
    let parts = [&origin.workflow, &origin.issue, &origin.attempt.to_string()];
    let mut hash = blake3::Hasher::new();
    for part in parts {
        // The length prefix makes the boundaries of the parts unambiguous.
        hash.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
    }
    format!("serve-{}", hash.finalize().to_hex())
}

fn name(start: &IssueStart) -> String {
    let key: String = issue::work_key(&start.issue.identifier).chars().take(MAX_NAME).collect();
    match start.attempt {
        0 => key,
        attempt => format!("{key}-{attempt}"),
    }
}

/// Returns the goal: a one-line summary of the issue, plus the rendered workflow text as the spec.
fn goal(source: &WorkflowSource, start: &IssueStart) -> Result<RunGoal, ApiError> {
    let attempt = (start.attempt > 0).then_some(start.attempt);
    let text = source.workflow.template.render(&start.issue, attempt);
    let text = text.map_err(|why| usage(format!("{} ({})", why, why.class())))?;
    if text.len() as u64 > MAX_SPEC {
        return Err(usage(format!(
            "the rendered template has {} bytes, but the limit is {MAX_SPEC}",
            text.len()
        )));
    }
    let issue = &start.issue;
    let goal = ui::escape_line(&format!("{}: {}", issue.identifier, issue.title));
    let goal: String = goal.chars().take(MAX_GOAL_LINE).collect();
    Ok(RunGoal { about: goal.clone(), goal, spec: Some(text) })
}

/// Returns the workflow's settings that also exist in provost.toml, as flags.
fn flags(config: &WorkflowConfig) -> Vec<FlagSetting> {
    let setting = |key: &str, of: &str, value: Option<String>| {
        value.map(|value| flag_text(&format!("{of} of the workflow"), key, &value))
    };
    let codex = &config.codex;
    [
        setting("worktree.setup", "hooks.after_create", config.hooks.after_create.clone()),
        setting(
            "budget.turns",
            "agent.max_turns",
            config.agent.turns.map(|turns| turns.to_string()),
        ),
        setting(
            "agents.codex.approvals",
            "codex.approval_policy",
            codex.approvals.map(str::to_owned),
        ),
        setting("agents.codex.sandbox", "codex.thread_sandbox", codex.sandbox.map(str::to_owned)),
        setting(
            "session.stale_after",
            "codex.stall_timeout_ms",
            codex.silence_ms.map(|ms| format!("{ms}ms")),
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn for_codex(config: &WorkflowConfig) -> Option<&'static str> {
    let codex = &config.codex;
    let approvals = codex.approvals.map(|_| "codex.approval_policy");
    approvals.or_else(|| codex.sandbox.map(|_| "codex.thread_sandbox"))
}

#[cfg(test)]
mod tests {
    use provost_tracker::issue::Issue;

    use super::*;

    fn origin(workflow: &str, issue: &str, attempt: u32) -> RunOrigin {
        let identifier = "x".to_owned();
        RunOrigin { workflow: workflow.to_owned(), issue: issue.to_owned(), identifier, attempt }
    }

    #[test]
    fn key_is_unique_per_workflow_issue_attempt() {
        let origins =
            [origin("a", "b", 0), origin("a", "b", 1), origin("ab", "", 0), origin("", "ab", 0)];
        let keys: std::collections::BTreeSet<String> = origins.iter().map(key).collect();
        assert_eq!(keys.len(), origins.len());
        assert_eq!(key(&origin("a", "b", 0)), key(&origin("a", "b", 0)));
        assert!(keys.iter().all(|key| key.len() <= 200));
    }

    #[test]
    fn run_name_has_issue_and_attempt() {
        let of = |identifier: &str, attempt: u32| {
            name(&IssueStart {
                issue: Issue { identifier: identifier.to_owned(), ..Issue::default() },
                attempt,
            })
        };
        assert_eq!((of("ABC-1", 0).as_str(), of("ABC-1", 2).as_str()), ("ABC-1", "ABC-1-2"));
        assert!(of(&"ü".repeat(500), 3).len() < 100);
    }
}
