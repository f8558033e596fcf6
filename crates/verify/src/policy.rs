//! Advises what to do after an attempt of a workflow. Nothing here acts.

/// The retry policy of a workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Maximum number of retries after the first attempt.
    pub retries: u32,
    pub urgency: Urgency,
    /// Whether an attempt with the same result as the previous one is the last.
    pub defer_on_plateau: bool,
    /// Agents that take every second attempt, in turn.
    pub fallback: Vec<String>,
}

/// What it means that a workflow does not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// The user has to decide before anything continues.
    Critical,
    /// It can be deferred, and the rest continues.
    Preference,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptEnding {
    Completed,
    Incomplete,
    NeedsInput,
    Stuck,
    Failed,
    Lost,
    TimedOut,
    /// The awaited state was reached.
    Reached,
}

/// An attempt, with its result.
#[derive(Clone, Copy, Debug)]
pub struct WorkflowAttempt<'a> {
    /// Counts from 1.
    pub no: u32,
    pub ending: AttemptEnding,
    pub reason: &'a str,
    /// Whether the verifier could examine the work; if not, another attempt has the same result.
    pub verifier_ran: bool,
    /// The resulting tree, if it is known.
    pub tree: Option<&'a str>,
    pub previous: Option<&'a PreviousAttempt>,
}

/// The result of the previous attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviousAttempt {
    pub reason: String,
    pub tree: Option<String>,
}

/// The next step, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    pub next_step: AdvisedStep,
    pub because: String,
    /// Number of attempts left.
    pub left: u32,
    /// The agent for the next attempt; None means the default one.
    pub agent: Option<String>,
}

/// The possible next steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdvisedStep {
    Proceed,
    Retry,
    Escalate,
    Defer,
}

impl AdvisedStep {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Proceed => "proceed",
            Self::Retry => "retry",
            Self::Escalate => "escalate",
            Self::Defer => "defer",
        }
    }
}

impl RetryPolicy {
    /// Returns the next step after an attempt.
    pub fn advise(&self, tried: WorkflowAttempt<'_>) -> Advice {
        let left = self.retries.saturating_sub(tried.no.saturating_sub(1));
        let (what, because) = match tried.ending {
            AttemptEnding::Completed | AttemptEnding::Reached => {
                (AdvisedStep::Proceed, "it completed".to_owned())
            }
            AttemptEnding::NeedsInput => {
                (AdvisedStep::Escalate, "it waits for the user".to_owned())
            }
            // The agent may still be running, and a second one beside it would damage the work of
            // both.
            AttemptEnding::Lost => {
                (AdvisedStep::Escalate, "it may still be running, unobserved".to_owned())
            }
            AttemptEnding::TimedOut => {
                (AdvisedStep::Escalate, "the monitor timed out while the work continues".to_owned())
            }
            AttemptEnding::Incomplete if !tried.verifier_ran => {
                (AdvisedStep::Escalate, "the verifier could not run".to_owned())
            }
            AttemptEnding::Incomplete | AttemptEnding::Failed | AttemptEnding::Stuck => {
                self.retry_or_stop(tried, left)
            }
        };
        let agent = (what == AdvisedStep::Retry).then(|| self.agent_for(tried.no + 1)).flatten();
        Advice { next_step: what, because, left, agent }
    }

    fn retry_or_stop(&self, tried: WorkflowAttempt<'_>, left: u32) -> (AdvisedStep, String) {
        if self.defer_on_plateau && tried.is_plateau() {
            return (
                AdvisedStep::Defer,
                "this attempt had the same result as the previous one".to_owned(),
            );
        }
        if left > 0 {
            let first =
                if tried.ending == AttemptEnding::Stuck { ", once it is stopped" } else { "" };
            return (
                AdvisedStep::Retry,
                format!("{left} of {} retries are left{first}", self.retries),
            );
        }
        match self.urgency {
            Urgency::Critical => {
                (AdvisedStep::Escalate, "no retries are left, and it is critical".to_owned())
            }
            Urgency::Preference => {
                (AdvisedStep::Defer, "no retries are left, and it can be deferred".to_owned())
            }
        }
    }

    /// Returns the agent of an attempt: every second one is for another agent, in turn.
    fn agent_for(&self, no: u32) -> Option<String> {
        let turn = usize::try_from(no / 2).ok()?.checked_sub(1)?;
        let others = self.fallback.len();
        (no.is_multiple_of(2) && others > 0).then(|| self.fallback[turn % others].clone())
    }
}

impl WorkflowAttempt<'_> {
    /// Whether the reason and the tree are the same as before: another attempt of the same kind
    /// would hardly change that. An unknown tree never equals another one.
    fn is_plateau(&self) -> bool {
        self.previous.is_some_and(|previous| {
            previous.reason == self.reason
                && previous.tree.is_some()
                && previous.tree.as_deref() == self.tree
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(urgency: Urgency) -> RetryPolicy {
        let fallback = vec!["b".to_owned(), "c".to_owned()];
        RetryPolicy { retries: 2, urgency, defer_on_plateau: true, fallback }
    }

    #[test]
    fn failed_verifier_run_escalates() {
        let unasked =
            WorkflowAttempt { verifier_ran: false, ..tried(1, AttemptEnding::Incomplete) };
        assert_eq!(policy(Urgency::Preference).advise(unasked).next_step, AdvisedStep::Escalate);
        // Work that failed by itself is retried, whatever the verifier could do.
        let failed = WorkflowAttempt { verifier_ran: false, ..tried(1, AttemptEnding::Failed) };
        assert_eq!(policy(Urgency::Preference).advise(failed).next_step, AdvisedStep::Retry);
    }

    fn tried(no: u32, ending: AttemptEnding) -> WorkflowAttempt<'static> {
        WorkflowAttempt {
            no,
            ending,
            reason: "not done",
            verifier_ran: true,
            tree: Some("t"),
            previous: None,
        }
    }

    #[test]
    fn retries_are_exhausted() {
        let advise = |no| policy(Urgency::Critical).advise(tried(no, AttemptEnding::Incomplete));
        assert_eq!((advise(1).next_step, advise(1).left), (AdvisedStep::Retry, 2));
        assert_eq!((advise(2).next_step, advise(2).left), (AdvisedStep::Retry, 1));
        assert_eq!((advise(3).next_step, advise(3).left), (AdvisedStep::Escalate, 0));
        assert_eq!(advise(u32::MAX).next_step, AdvisedStep::Escalate);
        let preference = policy(Urgency::Preference).advise(tried(3, AttemptEnding::Failed));
        assert_eq!(preference.next_step, AdvisedStep::Defer);
    }

    #[test]
    fn every_second_attempt_uses_fallback() {
        let of = |no| policy(Urgency::Critical).agent_for(no);
        let agents: Vec<_> = (1..=6).map(of).collect();
        let named = |name: &str| Some(name.to_owned());
        assert_eq!(agents, [None, named("b"), None, named("c"), None, named("b")]);
        let advice = policy(Urgency::Critical).advise(tried(1, AttemptEnding::Failed));
        assert_eq!(advice.agent, named("b"));
    }

    #[test]
    fn plateau_is_same_reason_and_tree() {
        let previous = |reason: &str, tree: Option<&str>| PreviousAttempt {
            reason: reason.to_owned(),
            tree: tree.map(str::to_owned),
        };
        let what = |previous: &PreviousAttempt, tree| {
            let tried = WorkflowAttempt {
                tree,
                previous: Some(previous),
                ..tried(1, AttemptEnding::Incomplete)
            };
            policy(Urgency::Critical).advise(tried).next_step
        };
        assert_eq!(what(&previous("not done", Some("t")), Some("t")), AdvisedStep::Defer);
        assert_eq!(what(&previous("not done", Some("u")), Some("t")), AdvisedStep::Retry);
        assert_eq!(what(&previous("other", Some("t")), Some("t")), AdvisedStep::Retry);
        assert_eq!(
            what(&previous("not done", None), None),
            AdvisedStep::Retry,
            "nobody knows the tree"
        );
        let again = RetryPolicy { defer_on_plateau: false, ..policy(Urgency::Critical) };
        let same = previous("not done", Some("t"));
        let tried =
            WorkflowAttempt { previous: Some(&same), ..tried(1, AttemptEnding::Incomplete) };
        assert_eq!(again.advise(tried).next_step, AdvisedStep::Retry);
    }

    #[test]
    fn unfinished_work_is_not_retried() {
        let what = |ending| policy(Urgency::Preference).advise(tried(1, ending)).next_step;
        assert_eq!(what(AttemptEnding::Completed), AdvisedStep::Proceed);
        for ending in [AttemptEnding::NeedsInput, AttemptEnding::Lost, AttemptEnding::TimedOut] {
            assert_eq!(what(ending), AdvisedStep::Escalate, "{ending:?}");
        }
        assert_eq!(what(AttemptEnding::Stuck), AdvisedStep::Retry);
    }
}
