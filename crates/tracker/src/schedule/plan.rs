//! Decides which issues get a run now, and gives the reason why the others do not.

use std::{collections::BTreeMap, fmt};

use super::{CONTINUE_MS, DispatchRules, IssueRunEnding, IssueRunStatus, RunHistory};
use crate::issue::{Issue, normalize_name};

/// The decisions about all active issues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DispatchPlan {
    /// The issues that get a run, most urgent first.
    pub start: Vec<IssueStart>,
    /// Active issues that get no run now.
    pub held: Vec<HeldIssue>,
    /// The time at which the next scheduled issue becomes due.
    pub wake_ms: Option<u64>,
}

/// An issue that gets a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssueStart {
    pub issue: Issue,
    /// The number of the attempt, starting at 0.
    pub attempt: u32,
}

/// An active issue that gets no run now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldIssue {
    pub issue: String,
    pub identifier: String,
    pub why: HoldReason,
}

/// The reason why an issue gets no run now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HoldReason {
    /// The tracker does not allow work on the issue, for example because it is blocked.
    NotDispatchable,
    MissingLabel(String),
    NoSlot,
    NoSlotInState(String),
    /// The issue is due for a retry at this time.
    Scheduled {
        at_ms: u64,
        attempt: u32,
        why: Option<String>,
    },
    /// The issue's runs failed too many times.
    RetriesExhausted {
        failures: u32,
        why: String,
    },
    /// The run succeeded, but the issue has not been moved to another state yet.
    Delivered,
    /// A user cancelled the run.
    Cancelled,
}

impl fmt::Display for HoldReason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HoldReason::NotDispatchable => write!(out, "blocked by another issue"),
            HoldReason::MissingLabel(label) if label.is_empty() => {
                write!(out, "a blank label is required, which no issue can have")
            }
            HoldReason::MissingLabel(label) => write!(out, "lacks the label {label:?}"),
            HoldReason::NoSlot => write!(out, "waits for a free slot"),
            HoldReason::NoSlotInState(state) => {
                write!(out, "waits for a free slot in state {state:?}")
            }
            HoldReason::Scheduled { attempt, why: Some(why), .. } => {
                write!(out, "attempt {attempt} is scheduled: {why}")
            }
            HoldReason::Scheduled { attempt, why: None, .. } => {
                write!(out, "attempt {attempt} is scheduled")
            }
            HoldReason::RetriesExhausted { failures, why } => {
                write!(out, "failed {failures} times and will not be retried: {why}")
            }
            HoldReason::Delivered => {
                write!(out, "the run succeeded; waiting for the issue to be moved")
            }
            HoldReason::Cancelled => {
                write!(out, "a user cancelled the run; waiting for the issue to be moved")
            }
        }
    }
}

/// Decides about every active issue that has no active run.
pub fn plan_dispatch(
    rules: &DispatchRules,
    work: &RunHistory,
    candidates: &[Issue],
    now_ms: u64,
) -> DispatchPlan {
    let mut issues: Vec<&Issue> = candidates.iter().filter(|one| rules.is_active(one)).collect();
    issues.sort_by_key(|issue| urgency(issue));
    issues.dedup_by(|one, other| one.id == other.id);
    let mut slots = FreeSlots::new(rules, work, candidates);
    let mut plan = DispatchPlan::default();
    for issue in issues {
        if work.active_runs().any(|(id, _)| id == issue.id) {
            continue;
        }
        match hold_reason(rules, work, issue, now_ms).or_else(|| slots.take_slot(issue)) {
            None => {
                let attempt = work.next_attempt(&issue.id);
                plan.start.push(IssueStart { issue: issue.clone(), attempt });
            }
            Some(why) => {
                if let HoldReason::Scheduled { at_ms, .. } = why {
                    plan.wake_ms = Some(plan.wake_ms.map_or(at_ms, |wake| wake.min(at_ms)));
                }
                let (issue, identifier) = (issue.id.clone(), issue.identifier.clone());
                plan.held.push(HeldIssue { issue, identifier, why });
            }
        }
    }
    plan
}

/// Returns the sort key: priority 1 to 4, then age, then name, with unknown values last. The id
/// makes the order total.
fn urgency(issue: &Issue) -> (i64, bool, &str, &str, &str) {
    let priority = issue.priority.filter(|priority| (1..=4).contains(priority)).unwrap_or(5);
    let created = issue.created_at.as_deref();
    (priority, created.is_none(), created.unwrap_or_default(), &issue.identifier, &issue.id)
}

/// Returns the reason why an issue cannot get a run now, even if slots are free.
fn hold_reason(
    rules: &DispatchRules,
    work: &RunHistory,
    issue: &Issue,
    now_ms: u64,
) -> Option<HoldReason> {
    if !issue.dispatchable {
        return Some(HoldReason::NotDispatchable);
    }
    if let Some(label) = rules.missing_label(issue) {
        return Some(HoldReason::MissingLabel(label.to_owned()));
    }
    let (after_runs, why) = match next_run_time(rules, work, issue) {
        Err(why) => return Some(why),
        Ok(due) => due,
    };
    let unopened = work.failed_opens.get(&issue.id);
    let after_unopened =
        unopened.map_or(0, |one| one.at_ms.saturating_add(rules.backoff(one.times)));
    let at_ms = after_runs.max(after_unopened);
    let why = unopened.map(|one| one.why.clone()).or(why);
    let attempt = work.next_attempt(&issue.id);
    (at_ms > now_ms).then_some(HoldReason::Scheduled { at_ms, attempt, why })
}

/// Returns the time at which the issue may get another run after its previous ones, or the reason
/// why it may not.
fn next_run_time(
    rules: &DispatchRules,
    work: &RunHistory,
    issue: &Issue,
) -> Result<(u64, Option<String>), HoldReason> {
    let runs = work.counted_runs(&issue.id);
    let endings = || runs.iter().rev().map(|run| &run.status);
    let Some(IssueRunStatus::Ended { at_ms, how }) = endings().next() else { return Ok((0, None)) };
    let in_a_row = |wanted: fn(&IssueRunEnding) -> bool| {
        let same = |status: &&IssueRunStatus| matches!(status, IssueRunStatus::Ended { how, .. } if wanted(how));
        u32::try_from(endings().take_while(same).count()).unwrap_or(u32::MAX)
    };
    match how {
        IssueRunEnding::Withdrawn => Ok((0, None)),
        IssueRunEnding::Cancelled => Err(HoldReason::Cancelled),
        IssueRunEnding::Succeeded => {
            if in_a_row(|how| *how == IssueRunEnding::Succeeded) > rules.continuations {
                Err(HoldReason::Delivered)
            } else {
                Ok((at_ms.saturating_add(CONTINUE_MS), None))
            }
        }
        IssueRunEnding::Failed(why) => {
            let failures = in_a_row(|how| matches!(how, IssueRunEnding::Failed(_)));
            if failures > rules.retries {
                Err(HoldReason::RetriesExhausted { failures, why: why.clone() })
            } else {
                Ok((at_ms.saturating_add(rules.backoff(failures)), Some(why.clone())))
            }
        }
    }
}

/// The slots that are still free. Each assignment takes one.
struct FreeSlots<'a> {
    rules: &'a DispatchRules,
    free: u32,
    by_state: BTreeMap<String, u32>,
}

impl<'a> FreeSlots<'a> {
    /// Counts active runs by the current state of their issues. Runs whose issue is not a candidate
    /// count only towards the total limit.
    fn new(rules: &'a DispatchRules, work: &RunHistory, candidates: &[Issue]) -> Self {
        let mut slots =
            FreeSlots { rules, free: rules.concurrent, by_state: rules.by_state.clone() };
        for (id, _) in work.active_runs() {
            let issue = candidates.iter().find(|issue| issue.id == id);
            slots.count_down(issue.map(|issue| issue.state.as_str()).unwrap_or_default());
        }
        slots
    }

    /// Takes a slot for an issue, or returns the reason why no slot is available.
    fn take_slot(&mut self, issue: &Issue) -> Option<HoldReason> {
        if self.free == 0 {
            return Some(HoldReason::NoSlot);
        }
        if self.by_state.get(&normalize_name(&issue.state)) == Some(&0) {
            return Some(HoldReason::NoSlotInState(issue.state.clone()));
        }
        self.count_down(&issue.state);
        None
    }

    fn count_down(&mut self, state: &str) {
        self.free = self.free.saturating_sub(1);
        let state = normalize_name(state);
        if self.rules.by_state.contains_key(&state) {
            self.by_state.entry(state).and_modify(|free| *free = free.saturating_sub(1));
        }
    }
}

#[cfg(test)]
mod tests;
