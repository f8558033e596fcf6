//! Converts the daemon's runs to the scheduler's run states.

use provost_api::{ApiError, Client, RunRow};
use provost_tracker::schedule::{Ending, Run, Standing};

use crate::target;

/// Returns the issue of a run and the run's status, if it belongs to this workflow. `silent` returns whether a session
/// has been silent for too long.
pub(super) fn of_row(
    row: &RunRow,
    workflow: &str,
    silent: impl Fn(&str) -> bool,
) -> Option<(String, Run)> {
    let origin = row.origin.as_ref().filter(|origin| origin.workflow == workflow)?;
    let (id, identifier) = (row.id.clone(), origin.identifier.clone());
    let run = Run { id, identifier, attempt: origin.attempt, standing: standing(row, silent) };
    Some((origin.issue.clone(), run))
}

fn standing(row: &RunRow, silent: impl Fn(&str) -> bool) -> Standing {
    if row.sealed {
        let at_ms = row.sealed_at.and_then(|at| u64::try_from(at).ok()).unwrap_or(0);
        return Standing::Ended { at_ms, how: ending(row) };
    }
    let working = row.sessions.iter().rev().find(|session| session.state.is_none());
    match row.state.as_str() {
        "stopping" => Standing::Stopping,
        _ if working.is_some_and(|session| silent(&session.id)) => Standing::Silent,
        _ => Standing::Going,
    }
}

fn ending(row: &RunRow) -> Ending {
    let detail = row.detail.as_deref().unwrap_or_default();
    match row.state.as_str() {
        "succeeded" | "completed" => Ending::Well,
        "cancelled" => Ending::of_cancelled(detail),
        _ => Ending::Failed(detail.to_owned()),
    }
}

/// Whether a session is shown as stalled; false if it cannot be queried.
pub(super) fn is_stalled(client: &Client, session: &str) -> bool {
    let row: Result<_, ApiError> = target::find(client, session);
    row.is_ok_and(|row| row.state == "stalled")
}
