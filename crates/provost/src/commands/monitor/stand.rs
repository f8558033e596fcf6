//! The status of a watched session or run, from its facts and the silence window alone.

use provost_api::{RunRow, SessionRow};
use provost_core::lifecycle::Flag;

use crate::ui;

/// The pause between checks of an agent's work, in milliseconds, if its turns are not visible and no event triggers
/// one.
const AGAIN: i64 = 10_000;

/// A watched session or run, as last read.
#[derive(Debug)]
pub(super) enum Watched {
    Session(Box<SessionRow>),
    /// A run with its currently working sessions.
    Run(Box<RunRow>, Vec<SessionRow>),
}

/// The status of a watched session or run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stand {
    /// It continues; the time at which silence alone would change that, if it can.
    GoesOn {
        until: Option<i64>,
    },
    /// The agent's turn is over without a claim; the time from which nothing more is expected.
    AtPrompt {
        until: i64,
    },
    /// It runs but its turns are not visible; the time at which to check its work again.
    Unseen {
        again: i64,
    },
    Waits(String),
    Stuck(String),
    Lost(String),
    Ended(End, String),
}

/// The kind of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Good,
    /// A clean exit without a claim that the work is done.
    Unclaimed,
    Bad,
}

impl Watched {
    pub(super) fn id(&self) -> &str {
        match self {
            Self::Session(row) => &row.id,
            Self::Run(row, _) => &row.id,
        }
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Self::Session(row) => &row.name,
            Self::Run(row, _) => &row.name,
        }
    }

    pub(super) fn state(&self) -> &str {
        match self {
            Self::Session(row) => &row.state,
            Self::Run(row, _) => &row.state,
        }
    }

    /// Returns the state, if it is known.
    pub(super) fn known(&self) -> Option<&str> {
        match self {
            Self::Session(row) if ui::is_unseen(row) => None,
            Self::Session(_) | Self::Run(..) => Some(self.state()),
        }
    }

    pub(super) fn tree(&self) -> Option<&str> {
        match self {
            Self::Session(row) => row.tree.as_deref(),
            Self::Run(row, _) => row.tree.as_deref(),
        }
    }

    /// Returns the session's attempt or the run attempt whose outcome is sealed.
    pub(super) fn over(&self) -> Option<u32> {
        match self {
            Self::Session(row) => row.sealed.then_some(row.attempt),
            Self::Run(row, _) => row.sealed.then_some(row.leg),
        }
    }

    /// Returns the worktree: the agent's directory, or the run's project.
    pub(super) fn place(&self) -> &str {
        match self {
            Self::Session(row) => {
                let worktree = row.worktree.as_ref().filter(|worktree| !worktree.removed);
                worktree.map_or(&row.cwd, |worktree| &worktree.path)
            }
            Self::Run(row, _) => &row.project,
        }
    }

    /// Returns the status at a time. All times are milliseconds since the epoch.
    pub(super) fn stand(&self, window: i64, now: i64) -> Stand {
        match self {
            Self::Session(row) => of_session(row, window, now),
            Self::Run(row, live) => of_run(row, live, window, now),
        }
    }
}

fn of_session(row: &SessionRow, window: i64, now: i64) -> Stand {
    if row.sealed {
        return Stand::Ended(end_of(&row.state), ended(row));
    }
    match row.state.as_str() {
        "needs_input" => Stand::Waits(waits(row)),
        "lost" => Stand::Lost("it cannot be observed and sends no signals".to_owned()),
        _ if ui::is_unseen(row) => Stand::Unseen { again: now.saturating_add(window.min(AGAIN)) },
        "idle" => Stand::AtPrompt { until: heard(row).saturating_add(window) },
        "working" | "wrapping_up" | "rework" | "stalled" => silence(row, window, now),
        _ => Stand::GoesOn { until: None },
    }
}

/// Returns the status from silence. Only a running agent can be silent, not one that waits for an account limit or that
/// a signal suspended.
fn silence(row: &SessionRow, window: i64, now: i64) -> Stand {
    let runs = row.launches.iter().any(provost_api::LaunchRow::lives);
    let suspended = row.flags.iter().any(|flag| flag == Flag::Suspended.word());
    if !runs || row.limited.is_some() || suspended {
        return Stand::GoesOn { until: None };
    }
    let until = heard(row).saturating_add(window);
    if now < until {
        return Stand::GoesOn { until: Some(until) };
    }
    let seconds = |ms: i64| ms / 1000;
    let silent = seconds(now.saturating_sub(heard(row)));
    let retrying = row.retrying.as_ref().map_or("", |_| " while retrying to reach its model");
    Stand::Stuck(format!(
        "silent for {silent} s{retrying}, longer than the window of {} s",
        seconds(window)
    ))
}

fn heard(row: &SessionRow) -> i64 {
    row.heard_at.unwrap_or(row.since)
}

/// Returns the status of a run. It waits if it has an open request, and is stuck or lost if all its sessions are.
fn of_run(row: &RunRow, live: &[SessionRow], window: i64, now: i64) -> Stand {
    if row.sealed {
        let detail = row.detail.as_deref().or(row.cause.as_deref());
        let reason = detail.map_or(row.state.clone(), |detail| format!("{}: {detail}", row.state));
        return Stand::Ended(end_of(&row.state), reason);
    }
    if row.awaits_approval {
        return Stand::Waits(match row.approval.as_ref().map(|approval| approval.kind.as_str()) {
            Some("landing") => "its landing waits for approval".to_owned(),
            Some(_) | None => "its plan waits for approval".to_owned(),
        });
    }
    if let Some(request) = row.requests.iter().find(|request| request.blocking) {
        return Stand::Waits(format!("it asks: {}", request.title));
    }
    let stands: Vec<Stand> = live.iter().map(|row| of_session(row, window, now)).collect();
    let is_down = |stand: &Stand| matches!(stand, Stand::Stuck(_) | Stand::Lost(_));
    if !stands.is_empty() && stands.iter().all(is_down) {
        return stands
            .into_iter()
            .min_by_key(|stand| matches!(stand, Stand::Lost(_)))
            .unwrap_or(Stand::GoesOn { until: None });
    }
    let until = stands.iter().filter_map(|stand| match stand {
        Stand::GoesOn { until } => *until,
        Stand::AtPrompt { .. } | Stand::Unseen { .. } | Stand::Waits(_) | Stand::Stuck(_) => None,
        Stand::Lost(_) | Stand::Ended(..) => None,
    });
    Stand::GoesOn { until: until.max() }
}

fn end_of(state: &str) -> End {
    match state {
        "succeeded" | "completed" | "accepted" => End::Good,
        "ended_unclaimed" | "stopped" => End::Unclaimed,
        _ => End::Bad,
    }
}

fn waits(row: &SessionRow) -> String {
    let asked = row.requests.iter().find(|request| request.blocking);
    asked.map_or_else(
        || "it waits for you".to_owned(),
        |request| format!("it asks: {}", request.title),
    )
}

/// Describes how a session ended.
fn ended(row: &SessionRow) -> String {
    let means = match row.state.as_str() {
        "succeeded" => "its work passed every check",
        "completed" => "it reported success, and no check is configured",
        "accepted" => "the operator accepted its work",
        "ended_unclaimed" => "it exited without reporting success",
        "stopped" => "it was stopped before it reported success",
        "disputed" => "the evidence about its work is contradictory",
        "failed" => "it failed",
        other => other,
    };
    let exit = row.exit.as_ref().and_then(|exit| match (exit.code, exit.signal) {
        (Some(0), _) | (None, None) => None,
        (Some(code), _) => Some(format!("exit status {code}")),
        (None, Some(signal)) => Some(format!("signal {signal}")),
    });
    let parts = [row.cause.clone(), exit, row.reason.clone()];
    let details: Vec<String> = parts.into_iter().flatten().collect();
    let details = if end_of(&row.state) == End::Good { String::new() } else { details.join(", ") };
    if details.is_empty() { means.to_owned() } else { format!("{means}: {details}") }
}

#[cfg(test)]
mod tests {
    use provost_api::{LaunchRow, LimitedRow};

    use super::*;

    fn launch() -> LaunchRow {
        LaunchRow {
            id: "l".to_owned(),
            phase: "running".to_owned(),
            pid: Some(1),
            attempt: 1,
            stop: None,
            leftovers: None,
        }
    }

    fn row(state: &str) -> SessionRow {
        let row = crate::ui::test_session("x", state);
        SessionRow { sealed: false, launches: vec![launch()], heard_at: Some(1000), ..row }
    }

    #[test]
    fn silence_counts_from_what_was_heard_last_and_never_early() {
        for state in ["working", "wrapping_up", "rework", "stalled"] {
            let row = row(state);
            assert_eq!(of_session(&row, 500, 1499), Stand::GoesOn { until: Some(1500) }, "{state}");
            assert!(matches!(of_session(&row, 500, 1500), Stand::Stuck(_)), "{state}");
        }
    }

    #[test]
    fn what_is_not_the_agents_silence_is_never_stuck() {
        let later = i64::MAX;
        let goes_on = Stand::GoesOn { until: None };
        assert_eq!(of_session(&row("verifying"), 500, later), goes_on);
        let not_started = SessionRow { launches: Vec::new(), ..row("working") };
        assert_eq!(of_session(&not_started, 500, later), goes_on);
        let limited = LimitedRow { until: 0, detail: "usage limit".to_owned() };
        let limited = SessionRow { limited: Some(limited), ..row("working") };
        assert_eq!(of_session(&limited, 500, later), goes_on);
        let stopped = SessionRow { flags: vec!["suspended".to_owned()], ..row("working") };
        assert_eq!(of_session(&stopped, 500, later), goes_on);
        assert!(matches!(of_session(&row("needs_input"), 500, later), Stand::Waits(_)));
        assert_eq!(of_session(&row("idle"), 500, later), Stand::AtPrompt { until: 1500 });
    }

    #[test]
    fn what_is_idle_because_nobody_sees_its_turns_is_at_no_prompt() {
        let row = SessionRow { flags: vec!["turns_unseen".to_owned()], ..row("idle") };
        assert_eq!(of_session(&row, 500, 9000), Stand::Unseen { again: 9500 });
        assert_eq!(of_session(&row, i64::MAX, 9000), Stand::Unseen { again: 9000 + AGAIN });
        let watched = Watched::Session(Box::new(row));
        assert_eq!((watched.known(), watched.state()), (None, "idle"));
    }

    #[test]
    fn an_outcome_counts_once_it_is_sealed() {
        let open = SessionRow { terminal: true, ..row("completed") };
        assert_eq!(of_session(&open, 500, 0), Stand::GoesOn { until: None });
        let ends = [
            ("succeeded", End::Good),
            ("completed", End::Good),
            ("accepted", End::Good),
            ("ended_unclaimed", End::Unclaimed),
            ("stopped", End::Unclaimed),
            ("failed", End::Bad),
            ("disputed", End::Bad),
            ("cancelled", End::Bad),
            ("superseded", End::Bad),
        ];
        for (state, end) in ends {
            let sealed = SessionRow { sealed: true, ..row(state) };
            assert!(matches!(of_session(&sealed, 500, 0), Stand::Ended(found, _) if found == end));
        }
        let crashed = SessionRow { cause: Some("crash".to_owned()), ..row("failed") };
        assert_eq!(ended(&crashed), "it failed: crash", "the result already says failed");
    }

    #[test]
    fn a_run_is_stuck_only_if_all_that_work_for_it_are() {
        let run = RunRow { sealed: false, ..crate::ui::test_run("running") };
        let fresh = SessionRow { heard_at: Some(5000), ..row("working") };
        let silent = || row("working");
        assert!(matches!(of_run(&run, &[silent()], 500, 5000), Stand::Stuck(_)));
        let stand = of_run(&run, &[silent(), fresh], 500, 5000);
        assert_eq!(stand, Stand::GoesOn { until: Some(5500) });
        assert_eq!(of_run(&run, &[], 500, 5000), Stand::GoesOn { until: None });
    }
}
