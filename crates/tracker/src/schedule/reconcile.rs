//! Decides which runs must stop because of a change to their issues.

use std::{collections::BTreeMap, fmt};

use super::{DispatchRules, IssueRun, IssueRunEnding, IssueRunStatus, RunHistory};
use crate::issue::Issue;

/// A run that must stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssueRunStop {
    pub run: String,
    pub issue: String,
    pub identifier: String,
    pub why: RunStopReason,
}

/// The reason why a run must stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunStopReason {
    /// The issue is in a terminal state, so the leftovers of the run are removed.
    Terminal(String),
    /// The issue is in a state that is neither active nor terminal.
    Inactive(String),
    /// The issue is active, but the tracker or its labels no longer allow work on it.
    Unroutable,
    /// The tracker no longer lists the issue.
    Gone,
    Silent,
}

/// The prefix of the cancel reason for a run whose issue no longer needs work.
const WITHDRAWN: &str = "withdrawn by provost serve: ";

/// The prefix of the cancel reason for a run that will be retried.
const GIVEN_UP: &str = "given up by provost serve: ";

impl RunStopReason {
    /// Whether to remove the leftovers of the run.
    pub fn removes_leftovers(&self) -> bool {
        match self {
            RunStopReason::Terminal(_) => true,
            RunStopReason::Inactive(_)
            | RunStopReason::Unroutable
            | RunStopReason::Gone
            | RunStopReason::Silent => false,
        }
    }

    /// Returns the reason to store with the run. [`IssueRunEnding::from_cancel_reason`] parses it back.
    pub fn to_reason(&self) -> String {
        match self {
            RunStopReason::Terminal(_)
            | RunStopReason::Inactive(_)
            | RunStopReason::Unroutable
            | RunStopReason::Gone => {
                format!("{WITHDRAWN}{self}")
            }
            RunStopReason::Silent => format!("{GIVEN_UP}{self}"),
        }
    }
}

impl fmt::Display for RunStopReason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunStopReason::Terminal(state) => {
                write!(out, "the issue is {state:?}, a terminal state")
            }
            RunStopReason::Inactive(state) => {
                write!(out, "the issue is {state:?}, which is not an active state")
            }
            RunStopReason::Unroutable => write!(out, "work on the issue is no longer allowed"),
            RunStopReason::Gone => write!(out, "the issue no longer exists"),
            RunStopReason::Silent => write!(out, "the agent was silent for too long"),
        }
    }
}

impl IssueRunEnding {
    /// Parses the cancel reason of a run, which shows the way the run ended.
    pub fn from_cancel_reason(because: &str) -> IssueRunEnding {
        match because.strip_prefix(GIVEN_UP) {
            Some(why) => IssueRunEnding::Failed(why.to_owned()),
            None if because.starts_with(WITHDRAWN) => IssueRunEnding::Withdrawn,
            None => IssueRunEnding::Cancelled,
        }
    }
}

/// Returns the runs that must stop. `refreshed` contains the current issues of all active runs. If
/// it is `None`, the tracker could not be queried; in that case only silent runs stop.
pub fn runs_to_stop(
    rules: &DispatchRules,
    work: &RunHistory,
    refreshed: Option<&BTreeMap<String, Issue>>,
) -> Vec<IssueRunStop> {
    let stop = |(issue, run): (&str, &IssueRun)| {
        let why = match run.status {
            IssueRunStatus::Running => check_issue(rules, issue, refreshed?).err()?,
            IssueRunStatus::Silent => {
                match refreshed.map(|issues| check_issue(rules, issue, issues)) {
                    Some(Err(why)) => why,
                    Some(Ok(())) | None => RunStopReason::Silent,
                }
            }
            IssueRunStatus::Stopping | IssueRunStatus::Ended { .. } => return None,
        };
        let (run, identifier) = (run.id.clone(), run.identifier.clone());
        Some(IssueRunStop { run, issue: issue.to_owned(), identifier, why })
    };
    work.active_runs().filter_map(stop).collect()
}

fn check_issue(
    rules: &DispatchRules,
    id: &str,
    issues: &BTreeMap<String, Issue>,
) -> Result<(), RunStopReason> {
    let issue = issues.get(id).ok_or(RunStopReason::Gone)?;
    let state = || issue.state.clone();
    match (rules.terminal.has(&issue.state), rules.is_active(issue), rules.is_routable(issue)) {
        (true, ..) => Err(RunStopReason::Terminal(state())),
        (false, false, _) => Err(RunStopReason::Inactive(state())),
        (false, true, false) => Err(RunStopReason::Unroutable),
        (false, true, true) => Ok(()),
    }
}

/// Returns the runs that have ended and whose leftovers can be removed because their issues are in
/// a terminal state.
pub fn runs_to_clean(rules: &DispatchRules, work: &RunHistory, issues: &[Issue]) -> Vec<String> {
    let done = issues.iter().filter(|issue| rules.terminal.has(&issue.state));
    let ended = done.flat_map(|issue| work.runs_of(&issue.id)).filter(|run| run.has_ended());
    ended.map(|run| run.id.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::kit::{ended, failed, issue, rules, work};

    fn stops(work: &RunHistory, issues: &[Issue]) -> Vec<RunStopReason> {
        let issues = issues.iter().map(|one| (one.id.clone(), one.clone())).collect();
        runs_to_stop(&rules(), work, Some(&issues)).into_iter().map(|stop| stop.why).collect()
    }

    #[test]
    fn run_stops_with_its_issue() {
        let going = work([("1", IssueRunStatus::Running)]);
        assert_eq!(stops(&going, &[issue("1", "doing")]), []);
        let done = stops(&going, &[issue("1", "DONE")]);
        assert_eq!(done, [RunStopReason::Terminal("DONE".to_owned())]);
        assert!(done[0].removes_leftovers());
        let aside = stops(&going, &[issue("1", "Review")]);
        assert_eq!(aside, [RunStopReason::Inactive("Review".to_owned())]);
        assert!(!aside[0].removes_leftovers());
        assert_eq!(stops(&going, &[]), [RunStopReason::Gone]);
        let refused = Issue { dispatchable: false, ..issue("1", "Todo") };
        assert_eq!(stops(&going, &[refused]), [RunStopReason::Unroutable]);
    }

    #[test]
    fn ended_runs_are_not_stopped_again() {
        let work = work([("1", IssueRunStatus::Stopping), ("2", failed(0))]);
        assert_eq!(stops(&work, &[]), []);
    }

    #[test]
    fn unreachable_tracker_stops_nothing() {
        let work = work([("1", IssueRunStatus::Running), ("2", IssueRunStatus::Silent)]);
        let stops = runs_to_stop(&rules(), &work, None);
        assert_eq!(stops.len(), 1);
        assert_eq!((stops[0].run.as_str(), &stops[0].why), ("run-2-0", &RunStopReason::Silent));
    }

    #[test]
    fn stop_reason_round_trips_to_ending() {
        let of = |why: &RunStopReason| IssueRunEnding::from_cancel_reason(&why.to_reason());
        assert_eq!(of(&RunStopReason::Gone), IssueRunEnding::Withdrawn);
        assert_eq!(of(&RunStopReason::Terminal("Done".to_owned())), IssueRunEnding::Withdrawn);
        assert!(matches!(of(&RunStopReason::Silent), IssueRunEnding::Failed(_)));
        assert_eq!(
            IssueRunEnding::from_cancel_reason("cancelled by the operator"),
            IssueRunEnding::Cancelled
        );
    }

    #[test]
    fn only_ended_runs_of_done_issues_are_cleaned() {
        let work = work([
            ("1", failed(0)),
            ("1", ended(5, IssueRunEnding::Succeeded)),
            ("2", ended(5, IssueRunEnding::Succeeded)),
            ("3", IssueRunStatus::Stopping),
        ]);
        let issues = [issue("1", "done"), issue("2", "todo"), issue("3", "done")];
        assert_eq!(runs_to_clean(&rules(), &work, &issues), ["run-1-0", "run-1-1"]);
    }
}
