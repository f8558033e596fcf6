//! The commands that make sense in a run's current state.

use provost_api::{
    CheckResultName, Extensible, MergeCheckStateName, RequestRow, RunRow, RunSessionRow,
    RunStateName,
};
use provost_core::{lifecycle::State, text::shell_quote};

use crate::ui;

/// Returns the commands that make sense in a run's current state.
pub(crate) fn next_commands(row: &RunRow) -> Vec<String> {
    let id = ui::short_id(&row.id);
    if !row.terminal {
        let asked = row.requests.first().map(RequestRow::answer_command);
        let interrupted = row.sessions.iter().find(|session| session.interrupted);
        let resume = interrupted.map(|one| format!("provost resume {}", ui::short_id(&one.id)));
        let approval = if row.awaits_approval { ui::approval_commands(row) } else { Vec::new() };
        let watch = format!("provost status {id} --watch");
        let logs = (!row.sessions.is_empty()).then(|| format!("provost logs {id} -f"));
        let cancel = (row.state != RunStateName::Stopping).then(|| format!("provost cancel {id}"));
        let always = [watch].into_iter().chain(logs).chain(cancel);
        return asked.into_iter().chain(resume).chain(approval).chain(always).collect();
    }
    let summary = format!("provost summary {id}");
    match row.state.known() {
        Some(RunStateName::Succeeded | RunStateName::Completed) => {
            let plan = (row.tasks.is_some() && !row.landing.done)
                .then(|| format!("provost graph {id} --toml"));
            merge_command(row).into_iter().chain(plan).chain([summary]).collect()
        }
        Some(_) | None => {
            let plan = row.tasks.as_ref().map(|_| format!("provost graph {id}"));
            let logs = failing_session(row)
                .map(|session| format!("provost logs {}", ui::short_id(&session.id)));
            // If a run has tasks, its checks are numbered per session.
            let red = if row.tasks.is_none() {
                row.checks.iter().position(|check| check.result == CheckResultName::Failed)
            } else {
                None
            };
            let check = match failing_verification(row) {
                Some(no) => Some(format!("provost logs {id} --verification {no}")),
                None => red.map(|at| format!("provost logs {id} --check {}", at + 1)),
            };
            let used_up = row.cause.as_deref() == Some("budget");
            let more = if row.budget.tokens.is_some() { "--tokens" } else { "--turns" };
            let raise = used_up.then(|| format!("provost limit {id} {more} MORE"));
            let resume = format!("provost resume {id}");
            plan.into_iter()
                .chain(check)
                .chain(logs)
                .chain(raise)
                .chain([resume, summary])
                .collect()
        }
    }
}

/// Returns the number of the merge check that ended the run, if one did.
fn failing_verification(row: &RunRow) -> Option<u32> {
    let by_merge = matches!(row.cause.as_deref(), Some("landing" | "queue"));
    let last = row.verifications.last()?;
    let ran = last.checks.iter().any(|check| check.output.is_some());
    (by_merge && ran && last.state == MergeCheckStateName::Failed).then_some(last.no)
}

/// Returns the session that best explains why a run ended. If tasks failed, this is the most recent
/// session of a failed task.
fn failing_session(row: &RunRow) -> Option<&RunSessionRow> {
    let is_good = |state: &Extensible<State>| {
        matches!(state.known(), Some(State::Succeeded | State::Completed | State::Accepted))
    };
    let bad = |one: &&RunSessionRow| {
        one.task.is_some() && one.state.as_ref().is_some_and(|state| !is_good(state))
    };
    if row.cause.as_deref() != Some("tasks") {
        return row.sessions.last();
    }
    row.sessions.iter().rev().find(bad).or(row.sessions.last())
}

/// Returns the command that merges the run's branch, if the user has to merge it.
fn merge_command(row: &RunRow) -> Option<String> {
    if row.landing.merged || row.landing.mode != "branch" {
        return None;
    }
    let branch = row.landing.branch.as_deref()?;
    Some(format!("git -C {} merge {}", shell_quote(&row.project), shell_quote(branch)))
}

#[cfg(test)]
mod tests {
    use provost_api::{CheckRow, LandingRow, MergeCheckKindName, RunVerificationRow, TaskCounts};

    use super::*;

    #[test]
    fn next_commands_follow_run_state() {
        let running = ui::test_run("running");
        assert_eq!(next_commands(&running)[0], "provost status deadbeef --watch");
        let cancel = "provost cancel deadbeef".to_owned();
        assert!(next_commands(&running).contains(&cancel));
        assert!(!next_commands(&ui::test_run("stopping")).contains(&cancel), "is already stopping");
        let ended = |state: &str| RunRow { terminal: true, sealed: true, ..ui::test_run(state) };
        let landing = LandingRow {
            mode: "branch".to_owned(),
            done: true,
            branch: Some("provost/x".to_owned()),
            ..LandingRow::default()
        };
        let succeeded = RunRow { landing, ..ended("succeeded") };
        assert_eq!(
            next_commands(&succeeded),
            ["git -C '/src/my app' merge provost/x", "provost summary deadbeef"]
        );
        let used_up = RunRow { cause: Some("budget".to_owned()), ..ended("failed") };
        assert_eq!(
            next_commands(&used_up),
            [
                "provost logs deadbef0",
                "provost limit deadbeef --turns MORE",
                "provost resume deadbeef",
                "provost summary deadbeef",
            ]
        );
    }

    #[test]
    fn next_commands_name_the_failed_merge_check() {
        let check: CheckRow = serde_json::from_value(serde_json::json!({
            "command": "make", "result": "failed", "output": "checks/1"
        }))
        .expect("the other fields are optional");
        let one = RunVerificationRow {
            no: 3,
            kind: MergeCheckKindName::Landing.into(),
            batch: None,
            step: Some(1),
            state: MergeCheckStateName::Failed.into(),
            commit: String::new(),
            tree: String::new(),
            checks: vec![check],
        };
        let failed = RunRow {
            terminal: true,
            cause: Some("landing".to_owned()),
            verifications: vec![one],
            ..ui::test_run("failed")
        };
        assert_eq!(next_commands(&failed)[0], "provost logs deadbeef --verification 3");
    }

    #[test]
    fn next_commands_cover_plan_and_failed_task() {
        let counts = TaskCounts { all: 2, waiting: 2, ..TaskCounts::default() };
        let planned =
            RunRow { tasks: Some(counts), sessions: Vec::new(), ..ui::test_run("running") };
        let waits = RunRow { awaits_approval: true, ..planned.clone() };
        assert_eq!(
            next_commands(&waits),
            [
                "provost graph deadbeef",
                "provost approve deadbeef",
                "provost deny deadbeef --because TEXT",
                "provost status deadbeef --watch",
                "provost cancel deadbeef",
            ]
        );
        let session = |end: &str, task: Option<&str>, state: &str| RunSessionRow {
            id: format!("0199aa11-0000-7000-8000-0000dead{end}"),
            stage: "work".to_owned(),
            task: task.map(str::to_owned),
            cycle: 1,
            state: Some(Extensible::from_name(state)),
            interrupted: false,
        };
        let sessions = vec![
            session("0001", Some("bad"), "failed"),
            session("0002", Some("good"), "succeeded"),
            session("0003", None, "succeeded"),
        ];
        let failed = RunRow {
            state: Extensible::from_name("failed"),
            cause: Some("tasks".to_owned()),
            terminal: true,
            sessions,
            ..planned
        };
        assert_eq!(
            next_commands(&failed),
            [
                "provost graph deadbeef",
                "provost logs dead0001",
                "provost resume deadbeef",
                "provost summary deadbeef",
            ]
        );
    }
}
