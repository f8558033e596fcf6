//! Advises on the next step after an attempt at a workflow. The step itself is left to the caller.

/// A workflow's retry policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Maximum number of retries after the first attempt.
    pub retries: u32,
    pub urgency: Urgency,
    /// Whether to stop retrying after an attempt with the same result as the previous one.
    pub defer_on_plateau: bool,
    /// The fallback agents, which make every second attempt and take turns.
    pub fallback: Vec<String>,
}

/// The importance of completing a workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// If the workflow does not complete, the user must decide before other work continues.
    Critical,
    /// If the workflow does not complete, it can be deferred while other work continues.
    Preference,
}

/// The way an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptEnding {
    Completed,
    Incomplete,
    NeedsInput,
    Stuck,
    Failed,
    Lost,
    TimedOut,
    /// The state that the monitor was waiting for was reached.
    Reached,
}

/// An attempt and its result.
#[derive(Clone, Copy, Debug)]
pub struct WorkflowAttempt<'a> {
    /// The number of the attempt, starting at 1.
    pub no: u32,
    pub ending: AttemptEnding,
    pub reason: &'a str,
    /// Whether the verifier was able to examine the work. If it was not, another attempt would have
    /// the same result.
    pub verifier_ran: bool,
    /// The tree that the attempt produced, if known.
    pub tree: Option<&'a str>,
    pub previous: Option<&'a PreviousAttempt>,
}

/// The result of the previous attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviousAttempt {
    pub reason: String,
    pub tree: Option<String>,
}

/// The advised next step and the reason for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    pub next_step: AdvisedStep,
    pub because: String,
    /// The number of retries that are left.
    pub left: u32,
    /// The agent for the next attempt, or `None` for the default agent.
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
    /// Advises on the next step after an attempt.
    pub fn advise(&self, tried: WorkflowAttempt<'_>) -> Advice {
        let left = self.retries.saturating_sub(tried.no.saturating_sub(1));
        let (what, because) = match tried.ending {
            AttemptEnding::Completed | AttemptEnding::Reached => {
                (AdvisedStep::Proceed, "the work completed".to_owned())
            }
            AttemptEnding::NeedsInput => {
                (AdvisedStep::Escalate, "the work is waiting for the user".to_owned())
            }
            // The agent may still be running, and a second agent would interfere with its work.
            AttemptEnding::Lost => (
                AdvisedStep::Escalate,
                "the agent may still be running, but is not observed".to_owned(),
            ),
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
            let first = if tried.ending == AttemptEnding::Stuck {
                ", once the agent is stopped"
            } else {
                ""
            };
            return (
                AdvisedStep::Retry,
                format!("{left} of {} retries are left{first}", self.retries),
            );
        }
        match self.urgency {
            Urgency::Critical => (
                AdvisedStep::Escalate,
                "no retries are left, and the workflow is critical".to_owned(),
            ),
            Urgency::Preference => (
                AdvisedStep::Defer,
                "no retries are left, and the workflow can be deferred".to_owned(),
            ),
        }
    }

    /// Returns the agent for an attempt. The fallback agents make every second attempt and take
    /// turns.
    fn agent_for(&self, no: u32) -> Option<String> {
        let turn = usize::try_from(no / 2).ok()?.checked_sub(1)?;
        let others = self.fallback.len();
        (no.is_multiple_of(2) && others > 0).then(|| self.fallback[turn % others].clone())
    }
}

impl WorkflowAttempt<'_> {
    /// Whether the reason and the tree are the same as before, which makes another attempt unlikely
    /// to help. An unknown tree is never equal to another one.
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
        // Failed work is retried even if the verifier could not run.
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
            "the tree is unknown"
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
