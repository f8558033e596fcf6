//! Decides which runs have to end because of their issues.

use std::{collections::BTreeMap, fmt};

use super::{Ending, Rules, Run, Standing, Work};
use crate::issue::Issue;

/// A run that has to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    pub run: String,
    pub issue: String,
    pub identifier: String,
    pub why: StopWhy,
}

/// Why a run has to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopWhy {
    /// The issue is in a terminal state; leftovers of the run are removed.
    Terminal(String),
    /// The issue is in a state that is not active.
    Inactive(String),
    /// The issue is active, but its tracker or its labels no longer allow work on it.
    Unroutable,
    /// The tracker no longer shows the issue.
    Gone,
    Silent,
}

/// Prefix of the reason of a run that was ended because of its issue.
const WITHDRAWN: &str = "withdrawn by provost serve: ";

/// Prefix of the reason of a run that is to be retried.
const GIVEN_UP: &str = "given up by provost serve: ";

impl StopWhy {
    /// Whether the leftovers of the run are to be removed.
    pub fn cleans(&self) -> bool {
        match self {
            StopWhy::Terminal(_) => true,
            StopWhy::Inactive(_) | StopWhy::Unroutable | StopWhy::Gone | StopWhy::Silent => false,
        }
    }

    /// Returns the reason that is stored with the run. [`Ending::of_cancelled`] parses it.
    pub fn because(&self) -> String {
        match self {
            StopWhy::Terminal(_) | StopWhy::Inactive(_) | StopWhy::Unroutable | StopWhy::Gone => {
                format!("{WITHDRAWN}{self}")
            }
            StopWhy::Silent => format!("{GIVEN_UP}{self}"),
        }
    }
}

impl fmt::Display for StopWhy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StopWhy::Terminal(state) => write!(out, "its issue is {state:?}, a terminal state"),
            StopWhy::Inactive(state) => write!(out, "its issue is {state:?}, which is not active"),
            StopWhy::Unroutable => write!(out, "its issue may no longer be worked on"),
            StopWhy::Gone => write!(out, "its issue no longer exists"),
            StopWhy::Silent => write!(out, "its agent was silent for too long"),
        }
    }
}

impl Ending {
    /// Determines from the reason of a cancelled run who ended it.
    pub fn of_cancelled(because: &str) -> Ending {
        match because.strip_prefix(GIVEN_UP) {
            Some(why) => Ending::Failed(why.to_owned()),
            None if because.starts_with(WITHDRAWN) => Ending::Withdrawn,
            None => Ending::Cancelled,
        }
    }
}

/// Returns the runs that have to end. `refreshed` contains the current issues of all active runs;
/// None if the tracker could not be queried, and then the runs continue.
pub fn reconcile(
    rules: &Rules,
    work: &Work,
    refreshed: Option<&BTreeMap<String, Issue>>,
) -> Vec<Stop> {
    let stop = |(issue, run): (&str, &Run)| {
        let why = match run.standing {
            Standing::Going => wanted(rules, issue, refreshed?).err()?,
            Standing::Silent => match refreshed.map(|issues| wanted(rules, issue, issues)) {
                Some(Err(why)) => why,
                Some(Ok(())) | None => StopWhy::Silent,
            },
            Standing::Stopping | Standing::Ended { .. } => return None,
        };
        let (run, identifier) = (run.id.clone(), run.identifier.clone());
        Some(Stop { run, issue: issue.to_owned(), identifier, why })
    };
    work.going().filter_map(stop).collect()
}

fn wanted(rules: &Rules, id: &str, issues: &BTreeMap<String, Issue>) -> Result<(), StopWhy> {
    let issue = issues.get(id).ok_or(StopWhy::Gone)?;
    let state = || issue.state.clone();
    match (rules.terminal.has(&issue.state), rules.is_active(issue), rules.is_routable(issue)) {
        (true, ..) => Err(StopWhy::Terminal(state())),
        (false, false, _) => Err(StopWhy::Inactive(state())),
        (false, true, false) => Err(StopWhy::Unroutable),
        (false, true, true) => Ok(()),
    }
}

/// Returns the ended runs of issues in a terminal state, whose leftovers may be removed.
pub fn sweep(rules: &Rules, work: &Work, issues: &[Issue]) -> Vec<String> {
    let done = issues.iter().filter(|issue| rules.terminal.has(&issue.state));
    let ended = done.flat_map(|issue| work.runs_of(&issue.id)).filter(|run| run.has_ended());
    ended.map(|run| run.id.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::kit::{ended, failed, issue, rules, work};

    fn stops(work: &Work, issues: &[Issue]) -> Vec<StopWhy> {
        let issues = issues.iter().map(|one| (one.id.clone(), one.clone())).collect();
        reconcile(&rules(), work, Some(&issues)).into_iter().map(|stop| stop.why).collect()
    }

    #[test]
    fn a_run_ends_with_its_issue() {
        let going = work([("1", Standing::Going)]);
        assert_eq!(stops(&going, &[issue("1", "doing")]), []);
        let done = stops(&going, &[issue("1", "DONE")]);
        assert_eq!(done, [StopWhy::Terminal("DONE".to_owned())]);
        assert!(done[0].cleans());
        let aside = stops(&going, &[issue("1", "Review")]);
        assert_eq!(aside, [StopWhy::Inactive("Review".to_owned())]);
        assert!(!aside[0].cleans());
        assert_eq!(stops(&going, &[]), [StopWhy::Gone]);
        let refused = Issue { dispatchable: false, ..issue("1", "Todo") };
        assert_eq!(stops(&going, &[refused]), [StopWhy::Unroutable]);
    }

    #[test]
    fn nothing_is_stopped_twice_nor_after_its_end() {
        let work = work([("1", Standing::Stopping), ("2", failed(0))]);
        assert_eq!(stops(&work, &[]), []);
    }

    #[test]
    fn where_the_tracker_cannot_be_asked_runs_go_on() {
        let work = work([("1", Standing::Going), ("2", Standing::Silent)]);
        let stops = reconcile(&rules(), &work, None);
        assert_eq!(stops.len(), 1);
        assert_eq!((stops[0].run.as_str(), &stops[0].why), ("run-2-0", &StopWhy::Silent));
    }

    #[test]
    fn the_reason_tells_afterwards_whose_wish_the_end_was() {
        let of = |why: &StopWhy| Ending::of_cancelled(&why.because());
        assert_eq!(of(&StopWhy::Gone), Ending::Withdrawn);
        assert_eq!(of(&StopWhy::Terminal("Done".to_owned())), Ending::Withdrawn);
        assert!(matches!(of(&StopWhy::Silent), Ending::Failed(_)));
        assert_eq!(Ending::of_cancelled("cancelled by the operator"), Ending::Cancelled);
    }

    #[test]
    fn only_ended_runs_of_issues_that_are_done_with_are_swept() {
        let work = work([
            ("1", failed(0)),
            ("1", ended(5, Ending::Well)),
            ("2", ended(5, Ending::Well)),
            ("3", Standing::Stopping),
        ]);
        let issues = [issue("1", "done"), issue("2", "todo"), issue("3", "done")];
        assert_eq!(sweep(&rules(), &work, &issues), ["run-1-0", "run-1-1"]);
    }
}
