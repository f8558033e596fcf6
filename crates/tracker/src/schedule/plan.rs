//! Decides which issues get a run now, and why the others do not.

use std::{collections::BTreeMap, fmt};

use super::{CONTINUE_MS, Ending, Rules, Standing, Work};
use crate::issue::{Issue, normal};

/// The decision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Most urgent first.
    pub start: Vec<Start>,
    /// Active issues that get no run now.
    pub held: Vec<Held>,
    /// When a waiting issue becomes due by itself.
    pub wake_ms: Option<u64>,
}

/// An issue that gets a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    pub issue: Issue,
    /// 0 for the first.
    pub attempt: u32,
}

/// An active issue that gets no run now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub issue: String,
    pub identifier: String,
    pub why: HeldWhy,
}

/// Why an issue gets no run now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeldWhy {
    /// The tracker does not allow work on it, for example because it is blocked.
    NotDispatchable,
    Lacks(String),
    NoSlot,
    NoSlotInState(String),
    /// It is retried at this time.
    Later {
        at_ms: u64,
        attempt: u32,
        why: Option<String>,
    },
    /// Its runs failed too often.
    UsedUp {
        failures: u32,
        why: String,
    },
    /// Its run succeeded, and the issue was not moved to another state yet.
    Delivered,
    /// A user cancelled its run.
    Cancelled,
}

impl fmt::Display for HeldWhy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HeldWhy::NotDispatchable => write!(out, "blocked by another issue"),
            HeldWhy::Lacks(label) if label.is_empty() => {
                write!(out, "a blank label is required, but no issue has one")
            }
            HeldWhy::Lacks(label) => write!(out, "lacks the label {label:?}"),
            HeldWhy::NoSlot => write!(out, "waits for a free slot"),
            HeldWhy::NoSlotInState(state) => {
                write!(out, "waits for a free slot in state {state:?}")
            }
            HeldWhy::Later { attempt, why: Some(why), .. } => {
                write!(out, "attempt {attempt} is scheduled: {why}")
            }
            HeldWhy::Later { attempt, why: None, .. } => {
                write!(out, "attempt {attempt} is scheduled")
            }
            HeldWhy::UsedUp { failures, why } => {
                write!(out, "failed {failures} times and will not be retried: {why}")
            }
            HeldWhy::Delivered => {
                write!(out, "its run succeeded; waiting for the issue to be moved")
            }
            HeldWhy::Cancelled => {
                write!(out, "its run was cancelled by a user; waiting for the issue to be moved")
            }
        }
    }
}

/// Decides about the active issues, except those with an active run.
pub fn plan(rules: &Rules, work: &Work, candidates: &[Issue], now_ms: u64) -> Plan {
    let mut issues: Vec<&Issue> = candidates.iter().filter(|one| rules.is_active(one)).collect();
    issues.sort_by_key(|issue| urgency(issue));
    issues.dedup_by(|one, other| one.id == other.id);
    let mut slots = Slots::new(rules, work, candidates);
    let mut plan = Plan::default();
    for issue in issues {
        if work.going().any(|(id, _)| id == issue.id) {
            continue;
        }
        match held(rules, work, issue, now_ms).or_else(|| slots.refuse(issue)) {
            None => {
                let attempt = work.next_attempt(&issue.id);
                plan.start.push(Start { issue: issue.clone(), attempt });
            }
            Some(why) => {
                if let HeldWhy::Later { at_ms, .. } = why {
                    plan.wake_ms = Some(plan.wake_ms.map_or(at_ms, |wake| wake.min(at_ms)));
                }
                let (issue, identifier) = (issue.id.clone(), issue.identifier.clone());
                plan.held.push(Held { issue, identifier, why });
            }
        }
    }
    plan
}

/// Orders by priority 1 to 4, then age, then name; unknown values come last. The id makes the order
/// total.
fn urgency(issue: &Issue) -> (i64, bool, &str, &str, &str) {
    let priority = issue.priority.filter(|priority| (1..=4).contains(priority)).unwrap_or(5);
    let created = issue.created_at.as_deref();
    (priority, created.is_none(), created.unwrap_or_default(), &issue.identifier, &issue.id)
}

/// Returns why an issue gets no run, regardless of free slots.
fn held(rules: &Rules, work: &Work, issue: &Issue, now_ms: u64) -> Option<HeldWhy> {
    if !issue.dispatchable {
        return Some(HeldWhy::NotDispatchable);
    }
    if let Some(label) = rules.lacks(issue) {
        return Some(HeldWhy::Lacks(label.to_owned()));
    }
    let (after_runs, why) = match after_runs(rules, work, issue) {
        Err(why) => return Some(why),
        Ok(due) => due,
    };
    let unopened = work.unopened.get(&issue.id);
    let after_unopened =
        unopened.map_or(0, |one| one.at_ms.saturating_add(rules.backoff(one.times)));
    let at_ms = after_runs.max(after_unopened);
    let why = unopened.map(|one| one.why.clone()).or(why);
    let attempt = work.next_attempt(&issue.id);
    (at_ms > now_ms).then_some(HeldWhy::Later { at_ms, attempt, why })
}

/// Returns when the issue's runs allow another one, or why none is allowed.
fn after_runs(rules: &Rules, work: &Work, issue: &Issue) -> Result<(u64, Option<String>), HeldWhy> {
    let runs = work.counted(&issue.id);
    let endings = || runs.iter().rev().map(|run| &run.standing);
    let Some(Standing::Ended { at_ms, how }) = endings().next() else { return Ok((0, None)) };
    let in_a_row = |wanted: fn(&Ending) -> bool| {
        let same =
            |standing: &&Standing| matches!(standing, Standing::Ended { how, .. } if wanted(how));
        u32::try_from(endings().take_while(same).count()).unwrap_or(u32::MAX)
    };
    match how {
        Ending::Withdrawn => Ok((0, None)),
        Ending::Cancelled => Err(HeldWhy::Cancelled),
        Ending::Well => {
            if in_a_row(|how| *how == Ending::Well) > rules.continuations {
                Err(HeldWhy::Delivered)
            } else {
                Ok((at_ms.saturating_add(CONTINUE_MS), None))
            }
        }
        Ending::Failed(why) => {
            let failures = in_a_row(|how| matches!(how, Ending::Failed(_)));
            if failures > rules.retries {
                Err(HeldWhy::UsedUp { failures, why: why.clone() })
            } else {
                Ok((at_ms.saturating_add(rules.backoff(failures)), Some(why.clone())))
            }
        }
    }
}

/// The free slots, counted down as they are assigned.
struct Slots<'a> {
    rules: &'a Rules,
    free: u32,
    by_state: BTreeMap<String, u32>,
}

impl<'a> Slots<'a> {
    /// Counts active runs by the current state of their issues; an issue that is not a candidate
    /// has no limited state.
    fn new(rules: &'a Rules, work: &Work, candidates: &[Issue]) -> Self {
        let mut slots = Slots { rules, free: rules.concurrent, by_state: rules.by_state.clone() };
        for (id, _) in work.going() {
            let issue = candidates.iter().find(|issue| issue.id == id);
            slots.use_up(issue.map(|issue| issue.state.as_str()).unwrap_or_default());
        }
        slots
    }

    /// Takes a slot for an issue, or returns why there is none.
    fn refuse(&mut self, issue: &Issue) -> Option<HeldWhy> {
        if self.free == 0 {
            return Some(HeldWhy::NoSlot);
        }
        if self.by_state.get(&normal(&issue.state)) == Some(&0) {
            return Some(HeldWhy::NoSlotInState(issue.state.clone()));
        }
        self.use_up(&issue.state);
        None
    }

    fn use_up(&mut self, state: &str) {
        self.free = self.free.saturating_sub(1);
        let state = normal(state);
        if self.rules.by_state.contains_key(&state) {
            self.by_state.entry(state).and_modify(|free| *free = free.saturating_sub(1));
        }
    }
}

#[cfg(test)]
mod tests;
