//! The status of a watched session or run, derived only from its facts and the silence window.

use provost_api::{RunRow, RunStateName, SessionRow};
use provost_core::lifecycle::{Flag, State};

use crate::ui;

/// The time between checks of an agent's work, in milliseconds, if its turns are not visible and no
/// event triggers a check.
const RECHECK_MS: i64 = 10_000;

/// A watched session or run, as it was last read.
#[derive(Debug)]
pub(super) enum WatchTarget {
    Session(Box<SessionRow>),
    /// A run, and its sessions that are currently working.
    Run(Box<RunRow>, Vec<SessionRow>),
}

/// The status of a watched session or run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WatchStatus {
    /// The work continues. `until` is the time at which the status changes if the session remains
    /// silent, or `None` if silence does not change the status.
    Continues {
        until: Option<i64>,
    },
    /// The agent's turn ended without a claim. After this time, nothing more is expected.
    AtPrompt {
        until: i64,
    },
    /// The agent is running, but its turns are not visible. Its work is checked again at this time.
    TurnsHidden {
        recheck_at: i64,
    },
    NeedsInput(String),
    Stuck(String),
    Lost(String),
    Ended(EndKind, String),
}

/// The way in which a session or run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndKind {
    Good,
    /// The agent exited cleanly, but did not claim that the work was done, or its work could not
    /// be committed.
    Incomplete,
    Bad,
}

impl WatchTarget {
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

    /// Returns the state, or `None` if it is unknown.
    pub(super) fn known_state(&self) -> Option<&str> {
        match self {
            Self::Session(row) if ui::has_unseen_turns(row) => None,
            Self::Session(_) | Self::Run(..) => Some(self.state()),
        }
    }

    pub(super) fn tree(&self) -> Option<&str> {
        match self {
            Self::Session(row) => row.tree.as_deref(),
            Self::Run(row, _) => row.tree.as_deref(),
        }
    }

    /// Returns the number of the attempt, if its outcome is sealed.
    pub(super) fn sealed_attempt(&self) -> Option<u32> {
        match self {
            Self::Session(row) => row.sealed.then_some(row.attempt),
            Self::Run(row, _) => row.sealed.then_some(row.attempt),
        }
    }

    /// Returns the directory of the work: the agent's worktree, or the run's project.
    pub(super) fn worktree(&self) -> &str {
        match self {
            Self::Session(row) => {
                let worktree = row.worktree.as_ref().filter(|worktree| !worktree.removed);
                worktree.map_or(&row.cwd, |worktree| &worktree.path)
            }
            Self::Run(row, _) => &row.project,
        }
    }

    /// Returns the status at a given time. All times are in milliseconds since the epoch.
    pub(super) fn status(&self, window: i64, now: i64) -> WatchStatus {
        match self {
            Self::Session(row) => session_status(row, window, now),
            Self::Run(row, live) => run_status(row, live, window, now),
        }
    }
}

fn session_status(row: &SessionRow, window: i64, now: i64) -> WatchStatus {
    if row.sealed {
        return WatchStatus::Ended(end_kind(row), describe_end(row));
    }
    match row.state.known() {
        Some(State::NeedsInput) => WatchStatus::NeedsInput(describe_wait(row)),
        Some(State::Lost) => {
            WatchStatus::Lost("the session cannot be observed and sends no signals".to_owned())
        }
        _ if ui::has_unseen_turns(row) => {
            WatchStatus::TurnsHidden { recheck_at: now.saturating_add(window.min(RECHECK_MS)) }
        }
        Some(State::Idle) => {
            WatchStatus::AtPrompt { until: last_heard(row).saturating_add(window) }
        }
        Some(State::Working | State::Finishing | State::Rework | State::Stalled) => {
            silence_status(row, window, now)
        }
        Some(_) | None => WatchStatus::Continues { until: None },
    }
}

/// Returns the status that results from silence. Only a running agent can be stuck. An agent that
/// is waiting for an account limit or was suspended by a signal does not count.
fn silence_status(row: &SessionRow, window: i64, now: i64) -> WatchStatus {
    let runs = row.launches.iter().any(provost_api::LaunchRow::may_be_running);
    let suspended = row.has_flag(Flag::Suspended);
    if !runs || row.limited.is_some() || suspended {
        return WatchStatus::Continues { until: None };
    }
    let until = last_heard(row).saturating_add(window);
    if now < until {
        return WatchStatus::Continues { until: Some(until) };
    }
    let seconds = |ms: i64| ms / 1000;
    let silent = seconds(now.saturating_sub(last_heard(row)));
    let retrying = row.retrying.as_ref().map_or("", |_| " while retrying to reach its model");
    WatchStatus::Stuck(format!(
        "silent for {silent} s{retrying}, longer than the window of {} s",
        seconds(window)
    ))
}

fn last_heard(row: &SessionRow) -> i64 {
    row.last_activity_at.unwrap_or(row.since)
}

/// Returns the status of a run. A run needs input if it has an open request, and is stuck or lost if all of its
/// sessions are stuck or lost.
fn run_status(row: &RunRow, live: &[SessionRow], window: i64, now: i64) -> WatchStatus {
    if row.sealed {
        let detail = row.detail.as_deref().or(row.cause.as_deref());
        let reason = detail
            .map_or_else(|| row.state.to_string(), |detail| format!("{}: {detail}", row.state));
        let good =
            matches!(row.state.known(), Some(RunStateName::Succeeded | RunStateName::Completed));
        return WatchStatus::Ended(if good { EndKind::Good } else { EndKind::Bad }, reason);
    }
    if row.awaits_approval {
        return WatchStatus::NeedsInput(
            match row.approval.as_ref().map(|approval| approval.kind.as_str()) {
                Some("landing") => "the landing is waiting for approval".to_owned(),
                Some(_) | None => "the plan is waiting for approval".to_owned(),
            },
        );
    }
    if let Some(request) = row.requests.iter().find(|request| request.blocking) {
        return WatchStatus::NeedsInput(format!("the agent asks: {}", request.title));
    }
    let statuses: Vec<WatchStatus> =
        live.iter().map(|row| session_status(row, window, now)).collect();
    let is_down =
        |status: &WatchStatus| matches!(status, WatchStatus::Stuck(_) | WatchStatus::Lost(_));
    if !statuses.is_empty() && statuses.iter().all(is_down) {
        return statuses
            .into_iter()
            .min_by_key(|status| matches!(status, WatchStatus::Lost(_)))
            .unwrap_or(WatchStatus::Continues { until: None });
    }
    let until = statuses.iter().filter_map(|status| match status {
        WatchStatus::Continues { until } => *until,
        WatchStatus::AtPrompt { .. }
        | WatchStatus::TurnsHidden { .. }
        | WatchStatus::NeedsInput(_)
        | WatchStatus::Stuck(_) => None,
        WatchStatus::Lost(_) | WatchStatus::Ended(..) => None,
    });
    WatchStatus::Continues { until: until.max() }
}

fn end_kind(row: &SessionRow) -> EndKind {
    if ui::uncommitted_work(row).is_some() {
        return EndKind::Incomplete;
    }
    if row.is_good() {
        return EndKind::Good;
    }
    match row.state.known() {
        Some(State::ExitedWithoutClaim | State::Stopped) => EndKind::Incomplete,
        Some(_) | None => EndKind::Bad,
    }
}

fn describe_wait(row: &SessionRow) -> String {
    let asked = row.requests.iter().find(|request| request.blocking);
    asked.map_or_else(
        || "the agent is waiting for you".to_owned(),
        |request| format!("the agent asks: {}", request.title),
    )
}

/// Describes how a session ended.
fn describe_end(row: &SessionRow) -> String {
    if let Some(why) = ui::uncommitted_work(row) {
        return format!("the agent reported success, but its work is {why}");
    }
    let means = match row.state.known() {
        Some(State::Succeeded) => "the work passed every check",
        Some(State::Completed) => "the agent reported success, and no check is configured",
        Some(State::Accepted) => "the operator accepted the work",
        Some(State::ExitedWithoutClaim) => "the agent exited without reporting success",
        Some(State::Stopped) => "the agent was stopped before it reported success",
        Some(State::Disputed) => "the evidence about the work is contradictory",
        Some(State::Failed) => "it failed",
        Some(_) | None => row.state.as_str(),
    };
    let exit = row.exit.as_ref().and_then(|exit| match (exit.code, exit.signal) {
        (Some(0), _) | (None, None) => None,
        (Some(code), _) => Some(format!("exit status {code}")),
        (None, Some(signal)) => Some(format!("signal {signal}")),
    });
    let parts = [row.cause.as_ref().map(ToString::to_string), exit, row.reason.clone()];
    let details: Vec<String> = parts.into_iter().flatten().collect();
    let details = if end_kind(row) == EndKind::Good { String::new() } else { details.join(", ") };
    if details.is_empty() { means.to_owned() } else { format!("{means}: {details}") }
}

#[cfg(test)]
mod tests {
    use provost_api::{LaunchRow, LimitWaitRow};

    use provost_api::Extensible;

    use super::*;

    fn launch() -> LaunchRow {
        LaunchRow {
            id: "l".to_owned(),
            phase: Extensible::from_name("running"),
            pid: Some(1),
            attempt: 1,
            stop: None,
            leftovers: None,
        }
    }

    fn row(state: &str) -> SessionRow {
        let row = crate::ui::test_session("x", state);
        SessionRow { sealed: false, launches: vec![launch()], last_activity_at: Some(1000), ..row }
    }

    #[test]
    fn silence_counts_from_last_signal() {
        for state in ["working", "finishing", "rework", "stalled"] {
            let row = row(state);
            assert_eq!(
                session_status(&row, 500, 1499),
                WatchStatus::Continues { until: Some(1500) },
                "{state}"
            );
            assert!(matches!(session_status(&row, 500, 1500), WatchStatus::Stuck(_)), "{state}");
        }
    }

    #[test]
    fn limited_or_suspended_agent_is_not_stuck() {
        let later = i64::MAX;
        let continues = WatchStatus::Continues { until: None };
        assert_eq!(session_status(&row("verifying"), 500, later), continues);
        let not_started = SessionRow { launches: Vec::new(), ..row("working") };
        assert_eq!(session_status(&not_started, 500, later), continues);
        let limited = LimitWaitRow { until: 0, detail: "usage limit".to_owned() };
        let limited = SessionRow { limited: Some(limited), ..row("working") };
        assert_eq!(session_status(&limited, 500, later), continues);
        let stopped =
            SessionRow { flags: vec![Extensible::from_name("suspended")], ..row("working") };
        assert_eq!(session_status(&stopped, 500, later), continues);
        assert!(matches!(
            session_status(&row("needs_input"), 500, later),
            WatchStatus::NeedsInput(_)
        ));
        assert_eq!(session_status(&row("idle"), 500, later), WatchStatus::AtPrompt { until: 1500 });
    }

    #[test]
    fn hidden_turns_are_not_at_prompt() {
        let row =
            SessionRow { flags: vec![Extensible::from_name("turns_unobservable")], ..row("idle") };
        assert_eq!(session_status(&row, 500, 9000), WatchStatus::TurnsHidden { recheck_at: 9500 });
        assert_eq!(
            session_status(&row, i64::MAX, 9000),
            WatchStatus::TurnsHidden { recheck_at: 9000 + RECHECK_MS }
        );
        let watched = WatchTarget::Session(Box::new(row));
        assert_eq!((watched.known_state(), watched.state()), (None, "idle"));
    }

    #[test]
    fn outcome_counts_once_sealed() {
        let open = SessionRow { terminal: true, ..row("completed") };
        assert_eq!(session_status(&open, 500, 0), WatchStatus::Continues { until: None });
        let ends = [
            ("succeeded", EndKind::Good),
            ("completed", EndKind::Good),
            ("accepted", EndKind::Good),
            ("exited_without_claim", EndKind::Incomplete),
            ("stopped", EndKind::Incomplete),
            ("failed", EndKind::Bad),
            ("disputed", EndKind::Bad),
            ("cancelled", EndKind::Bad),
            ("superseded", EndKind::Bad),
        ];
        for (state, end) in ends {
            let sealed = SessionRow { sealed: true, ..row(state) };
            assert!(
                matches!(session_status(&sealed, 500, 0), WatchStatus::Ended(found, _) if found == end)
            );
        }
        let lost = SessionRow {
            sealed: true,
            flags: vec![Extensible::from_name("not_committed")],
            warnings: vec!["not committed: the worktree is gone".to_owned()],
            ..row("completed")
        };
        let why = "the agent reported success, but its work is not committed: the worktree is gone";
        let ended = WatchStatus::Ended(EndKind::Incomplete, why.to_owned());
        assert_eq!(session_status(&lost, 500, 0), ended);
        let crashed = SessionRow { cause: Some(Extensible::from_name("crash")), ..row("failed") };
        assert_eq!(
            describe_end(&crashed),
            "it failed: crash",
            "the result field already reports \
            the failure"
        );
    }

    #[test]
    fn run_is_stuck_only_if_all_sessions_are() {
        let run = RunRow { sealed: false, ..crate::ui::test_run("running") };
        let fresh = SessionRow { last_activity_at: Some(5000), ..row("working") };
        let silent = || row("working");
        assert!(matches!(run_status(&run, &[silent()], 500, 5000), WatchStatus::Stuck(_)));
        let status = run_status(&run, &[silent(), fresh], 500, 5000);
        assert_eq!(status, WatchStatus::Continues { until: Some(5500) });
        assert_eq!(run_status(&run, &[], 500, 5000), WatchStatus::Continues { until: None });
    }
}
