//! Opens a run for an issue, as `provost run` would.

use std::collections::BTreeMap;

use provost_api::{ApiError, RunRow};
use provost_config::{BUILT_IN, Flag};
use provost_core::run::Origin;
use provost_tracker::{issue, schedule::Start, workflow::Config};

use super::source::Source;
use crate::{
    commands::{
        run::{self, Goal, MAX_SPEC, Wish, WishedChecks},
        spawn::variables::VariableArgs,
    },
    context::Context,
    error::usage,
    settings::flag_text,
    trust::Asking,
    ui,
};

/// The maximum length of a run's name derived from an issue.
const MOST_NAME: usize = 80;

/// The maximum length of a run's one-line goal.
const MOST_GOAL: usize = 500;

/// Opens the run, or finds the one already opened for the same attempt.
pub(super) fn open(context: &Context, source: &Source, start: &Start) -> Result<RunRow, ApiError> {
    let config = &source.workflow.config;
    let name = name(start);
    let origin = Origin {
        workflow: source.name(),
        issue: start.issue.id.clone(),
        identifier: start.issue.identifier.clone(),
        attempt: start.attempt,
    };
    let key = key(&origin);
    let wish = Wish {
        cwd: Some(source.dir()),
        flags: flags(config),
        preset: config.own.preset.as_deref(),
        goal: goal(source, start)?,
        name: Some(&name),
        agent: config.own.agent.as_deref().unwrap_or(BUILT_IN),
        for_codex: for_codex(config),
        variables: &VariableArgs::default(),
        answers: BTreeMap::new(),
        origin: Some(origin),
        plan: None,
        only_plan: false,
        ignores_project: false,
        pinned: Some(&source.project),
        // The operator was prompted when serving began; no user watches for a prompt later.
        asking: Asking::Never,
        checks: WishedChecks::Configuration,
    };
    run::open(context, wish, &key).map(|opened| opened.row)
}

/// Returns the idempotency key: one attempt for one issue of one workflow has one run.
fn key(origin: &Origin) -> String {
    let parts = [&origin.workflow, &origin.issue, &origin.attempt.to_string()];
    let mut hash = blake3::Hasher::new();
    for part in parts {
        // The length separates the parts unambiguously.
        hash.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
    }
    format!("serve-{}", hash.finalize().to_hex())
}

fn name(start: &Start) -> String {
    let key: String = issue::key(&start.issue.identifier).chars().take(MOST_NAME).collect();
    match start.attempt {
        0 => key,
        attempt => format!("{key}-{attempt}"),
    }
}

/// Returns the goal: a one-line summary of the issue, with the rendered workflow text as the spec.
fn goal(source: &Source, start: &Start) -> Result<Goal, ApiError> {
    let attempt = (start.attempt > 0).then_some(start.attempt);
    let text = source.workflow.template.render(&start.issue, attempt);
    let text = text.map_err(|why| usage(format!("{} ({})", why, why.class())))?;
    if text.len() as u64 > MAX_SPEC {
        return Err(usage(format!(
            "the template renders it to {} bytes, but the limit is {MAX_SPEC}",
            text.len()
        )));
    }
    let issue = &start.issue;
    let goal = ui::clean(&format!("{}: {}", issue.identifier, issue.title));
    let goal: String = goal.chars().take(MOST_GOAL).collect();
    Ok(Goal { about: goal.clone(), goal, spec: Some(text) })
}

/// Returns the workflow's settings that provost.toml has too. They count as flags.
fn flags(config: &Config) -> Vec<Flag> {
    let said = |key: &str, of: &str, value: Option<String>| {
        value.map(|value| flag_text(&format!("{of} of the workflow"), key, &value))
    };
    let codex = &config.codex;
    [
        said("worktree.setup", "hooks.after_create", config.hooks.after_create.clone()),
        said("budget.turns", "agent.max_turns", config.agent.turns.map(|turns| turns.to_string())),
        said("agents.codex.approvals", "codex.approval_policy", codex.approvals.map(str::to_owned)),
        said("agents.codex.sandbox", "codex.thread_sandbox", codex.sandbox.map(str::to_owned)),
        said(
            "session.stale_after",
            "codex.stall_timeout_ms",
            codex.silence_ms.map(|ms| format!("{ms}ms")),
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn for_codex(config: &Config) -> Option<&'static str> {
    let codex = &config.codex;
    let approvals = codex.approvals.map(|_| "codex.approval_policy");
    approvals.or_else(|| codex.sandbox.map(|_| "codex.thread_sandbox"))
}

#[cfg(test)]
mod tests {
    use provost_tracker::issue::Issue;

    use super::*;

    fn origin(workflow: &str, issue: &str, attempt: u32) -> Origin {
        let identifier = "x".to_owned();
        Origin { workflow: workflow.to_owned(), issue: issue.to_owned(), identifier, attempt }
    }

    #[test]
    fn each_attempt_for_each_issue_of_each_workflow_has_its_own_key() {
        let origins =
            [origin("a", "b", 0), origin("a", "b", 1), origin("ab", "", 0), origin("", "ab", 0)];
        let keys: std::collections::BTreeSet<String> = origins.iter().map(key).collect();
        assert_eq!(keys.len(), origins.len());
        assert_eq!(key(&origin("a", "b", 0)), key(&origin("a", "b", 0)));
        assert!(keys.iter().all(|key| key.len() <= 200));
    }

    #[test]
    fn a_run_is_named_after_its_issue_and_its_attempt() {
        let of = |identifier: &str, attempt: u32| {
            name(&Start {
                issue: Issue { identifier: identifier.to_owned(), ..Issue::default() },
                attempt,
            })
        };
        assert_eq!((of("ABC-1", 0).as_str(), of("ABC-1", 2).as_str()), ("ABC-1", "ABC-1-2"));
        assert!(of(&"ü".repeat(500), 3).len() < 100);
    }
}
