//! Converts runs from the daemon into the scheduler's run states.

use provost_api::{ApiError, Client, RunRow, RunStateName};
use provost_core::lifecycle::State;
use provost_tracker::schedule::{IssueRun, IssueRunEnding, IssueRunStatus};

use crate::target;

/// Returns the issue that a run is for and the run's status, if the run belongs to this workflow. `silent` returns
/// whether a session has been silent for too long.
pub(super) fn from_row(
    row: &RunRow,
    workflow: &str,
    silent: impl Fn(&str) -> bool,
) -> Option<(String, IssueRun)> {
    let origin = row.origin.as_ref().filter(|origin| origin.workflow == workflow)?;
    let (id, identifier) = (row.id.clone(), origin.identifier.clone());
    let run = IssueRun { id, identifier, attempt: origin.attempt, status: run_status(row, silent) };
    Some((origin.issue.clone(), run))
}

fn run_status(row: &RunRow, silent: impl Fn(&str) -> bool) -> IssueRunStatus {
    if row.sealed {
        let at_ms = row.sealed_at.and_then(|at| u64::try_from(at).ok()).unwrap_or(0);
        return IssueRunStatus::Ended { at_ms, how: ending(row) };
    }
    let working = row.sessions.iter().rev().find(|session| session.state.is_none());
    if row.state == RunStateName::Stopping {
        IssueRunStatus::Stopping
    } else if working.is_some_and(|session| silent(&session.id)) {
        IssueRunStatus::Silent
    } else {
        IssueRunStatus::Running
    }
}

fn ending(row: &RunRow) -> IssueRunEnding {
    let detail = row.detail.as_deref().unwrap_or_default();
    match row.state.known() {
        Some(RunStateName::Succeeded | RunStateName::Completed) => IssueRunEnding::Succeeded,
        Some(RunStateName::Cancelled) => IssueRunEnding::from_cancel_reason(detail),
        Some(RunStateName::Running | RunStateName::Stopping | RunStateName::Failed) | None => {
            IssueRunEnding::Failed(detail.to_owned())
        }
    }
}

/// Whether a session is shown as stalled. False if the session cannot be queried.
pub(super) fn is_stalled(client: &Client, session: &str) -> bool {
    let row: Result<_, ApiError> = target::find_session(client, session);
    row.is_ok_and(|row| row.state == State::Stalled)
}
