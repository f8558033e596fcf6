//! Decides which runs to stop, which issues to start, and when to check again.
//!
//! This module has no access to a clock, a tracker or the daemon. Its state is [`RunHistory`],
//! which is rebuilt from the daemon's runs at startup, so a restart does not change any decision.

mod plan;
mod reconcile;

use std::collections::BTreeMap;

pub use plan::{DispatchPlan, HeldIssue, HoldReason, IssueStart, plan_dispatch};
pub use reconcile::{IssueRunStop, RunStopReason, runs_to_clean, runs_to_stop};

use crate::issue::{Issue, States};

/// The delay before an issue whose run succeeded may get another run, in milliseconds.
pub const CONTINUE_MS: u64 = 1_000;

/// The delay before the retry after a first failure, in milliseconds. It doubles with each further
/// failure.
pub const RETRY_MS: u64 = 10_000;

/// The rules that determine when Provost works on an issue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DispatchRules {
    pub active: States,
    pub terminal: States,
    pub required_labels: Vec<String>,
    pub concurrent: u32,
    pub by_state: BTreeMap<String, u32>,
    pub backoff_ms: u64,
    pub retries: u32,
    pub continuations: u32,
}

impl DispatchRules {
    /// Whether an issue's state is active.
    pub fn is_active(&self, issue: &Issue) -> bool {
        self.active.has(&issue.state) && !self.terminal.has(&issue.state)
    }

    /// Whether the tracker and the labels allow work on an issue, regardless of its state.
    pub fn is_routable(&self, issue: &Issue) -> bool {
        issue.dispatchable && self.missing_label(issue).is_none()
    }

    /// Returns the first required label that the issue does not have.
    fn missing_label(&self, issue: &Issue) -> Option<&str> {
        let missing = |label: &&String| label.is_empty() || !issue.labels.contains(label);
        self.required_labels.iter().find(missing).map(String::as_str)
    }

    /// Returns the time to wait after a number of consecutive failures.
    pub fn backoff(&self, failures: u32) -> u64 {
        let doubled = 1_u64.checked_shl(failures.saturating_sub(1)).unwrap_or(u64::MAX);
        RETRY_MS.saturating_mul(doubled).min(self.backoff_ms)
    }
}

/// A run for an issue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssueRun {
    pub id: String,
    pub identifier: String,
    /// The number of the attempt, starting at 0.
    pub attempt: u32,
    pub status: IssueRunStatus,
}

/// The status of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IssueRunStatus {
    Running,
    /// The agent has been silent for longer than allowed.
    Silent,
    /// The run was asked to stop but has not ended yet.
    Stopping,
    Ended {
        at_ms: u64,
        how: IssueRunEnding,
    },
}

/// The way a run ended, reduced to the cases that matter for scheduling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IssueRunEnding {
    Succeeded,
    Failed(String),
    /// The issue no longer needs work.
    Withdrawn,
    /// A user cancelled the run.
    Cancelled,
}

/// All known runs of one workflow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunHistory {
    /// The runs by issue id, in the order of their attempts.
    runs: BTreeMap<String, Vec<IssueRun>>,
    /// The last attempt of each issue that became inactive after a run. This attempt and earlier
    /// ones no longer count.
    inactive_since: BTreeMap<String, u32>,
    /// Failures to open a run. They are kept only in this process.
    failed_opens: BTreeMap<String, FailedOpen>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FailedOpen {
    times: u32,
    at_ms: u64,
    why: String,
}

impl RunHistory {
    /// Records the current state of a run, replacing any earlier one.
    pub fn record_run(&mut self, issue: &str, run: IssueRun) {
        let runs = self.runs.entry(issue.to_owned()).or_default();
        match runs.iter_mut().find(|known| known.id == run.id) {
            Some(known) => *known = run,
            None => {
                runs.push(run);
                runs.sort_by_key(|run| run.attempt);
            }
        }
        self.failed_opens.remove(issue);
    }

    /// Records that a run could not be opened for an issue.
    pub fn record_failed_open(&mut self, issue: &str, at_ms: u64, why: &str) {
        let times = self.failed_opens.get(issue).map_or(0, |before| before.times) + 1;
        self.failed_opens
            .insert(issue.to_owned(), FailedOpen { times, at_ms, why: why.to_owned() });
    }

    /// Forgets the failures to open a run, so that the affected issues are retried immediately
    /// after the workflow has changed.
    pub fn forget_failed_opens(&mut self) {
        self.failed_opens.clear();
    }

    /// Records which issues are active now. Any other issue has become inactive if one of its runs
    /// has ended. If such an issue becomes active again later, its attempts start over.
    pub fn record_active_issues(&mut self, rules: &DispatchRules, candidates: &[Issue]) {
        for (issue, runs) in &self.runs {
            let active = candidates.iter().any(|one| one.id == *issue && rules.is_active(one));
            let last = runs.last().filter(|run| run.has_ended());
            if let (false, Some(last)) = (active, last) {
                self.inactive_since.insert(issue.clone(), last.attempt);
            }
        }
    }

    /// Returns the issues that have an active run, each with that run.
    pub fn active_runs(&self) -> impl Iterator<Item = (&str, &IssueRun)> {
        self.runs.iter().filter_map(|(issue, runs)| {
            runs.iter().find(|run| !run.has_ended()).map(|run| (issue.as_str(), run))
        })
    }

    /// Returns all runs of an issue.
    pub fn runs_of(&self, issue: &str) -> &[IssueRun] {
        self.runs.get(issue).map_or(&[], Vec::as_slice)
    }

    /// Returns the runs of an issue that still count.
    fn counted_runs(&self, issue: &str) -> &[IssueRun] {
        let runs = self.runs_of(issue);
        let from = self.inactive_since.get(issue).map_or(0, |last| last.saturating_add(1));
        &runs[runs.partition_point(|run| run.attempt < from)..]
    }

    fn next_attempt(&self, issue: &str) -> u32 {
        self.runs_of(issue).last().map_or(0, |run| run.attempt.saturating_add(1))
    }
}

impl IssueRun {
    pub fn has_ended(&self) -> bool {
        match self.status {
            IssueRunStatus::Running | IssueRunStatus::Silent | IssueRunStatus::Stopping => false,
            IssueRunStatus::Ended { .. } => true,
        }
    }
}

#[cfg(test)]
pub(crate) mod kit {
    use super::*;

    pub(crate) fn rules() -> DispatchRules {
        DispatchRules {
            active: States::new(["Todo", "Doing"]),
            terminal: States::new(["Done"]),
            required_labels: Vec::new(),
            concurrent: 2,
            by_state: BTreeMap::new(),
            backoff_ms: 300_000,
            retries: 2,
            continuations: 0,
        }
    }

    pub(crate) fn issue(id: &str, state: &str) -> Issue {
        Issue {
            id: id.to_owned(),
            identifier: format!("I-{id}"),
            title: "t".to_owned(),
            state: state.to_owned(),
            dispatchable: true,
            ..Issue::default()
        }
    }

    pub(crate) fn run(issue: &str, attempt: u32, status: IssueRunStatus) -> IssueRun {
        let id = format!("run-{issue}-{attempt}");
        IssueRun { id, identifier: format!("I-{issue}"), attempt, status }
    }

    pub(crate) fn ended(at_ms: u64, how: IssueRunEnding) -> IssueRunStatus {
        IssueRunStatus::Ended { at_ms, how }
    }

    pub(crate) fn failed(at_ms: u64) -> IssueRunStatus {
        ended(at_ms, IssueRunEnding::Failed("no".to_owned()))
    }

    pub(crate) fn work(
        runs: impl IntoIterator<Item = (&'static str, IssueRunStatus)>,
    ) -> RunHistory {
        let mut work = RunHistory::default();
        for (issue, status) in runs {
            let attempt = work.next_attempt(issue);
            work.record_run(issue, run(issue, attempt, status));
        }
        work
    }
}
