//! Advises what to do after an attempt of a workflow. Nothing here acts.

/// The retry policy of a workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
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
pub enum Ending {
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
pub struct Try<'a> {
    /// Counts from 1.
    pub no: u32,
    pub ending: Ending,
    pub reason: &'a str,
    /// Whether the verifier could examine the work; if not, another attempt has the same result.
    pub asked: bool,
    /// The resulting tree, if it is known.
    pub tree: Option<&'a str>,
    pub previous: Option<&'a Previous>,
}

/// The result of the previous attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Previous {
    pub reason: String,
    pub tree: Option<String>,
}

/// The next step, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    pub what: Next,
    pub because: String,
    /// Number of attempts left.
    pub left: u32,
    /// The agent for the next attempt; None means the default one.
    pub agent: Option<String>,
}

/// The possible next steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Proceed,
    Retry,
    Escalate,
    Defer,
}

impl Next {
    pub fn word(self) -> &'static str {
        match self {
            Self::Proceed => "proceed",
            Self::Retry => "retry",
            Self::Escalate => "escalate",
            Self::Defer => "defer",
        }
    }
}

impl Policy {
    /// Returns the next step after an attempt.
    pub fn advise(&self, tried: Try<'_>) -> Advice {
        let left = self.retries.saturating_sub(tried.no.saturating_sub(1));
        let (what, because) = match tried.ending {
            Ending::Completed | Ending::Reached => (Next::Proceed, "it completed".to_owned()),
            Ending::NeedsInput => (Next::Escalate, "it waits for the user".to_owned()),
            // The agent may still be running, and a second one beside it would damage the work of
            // both.
            Ending::Lost => (Next::Escalate, "it may still be running, unobserved".to_owned()),
            Ending::TimedOut => {
                (Next::Escalate, "the monitor timed out while the work continues".to_owned())
            }
            Ending::Incomplete if !tried.asked => {
                (Next::Escalate, "the verifier could not run".to_owned())
            }
            Ending::Incomplete | Ending::Failed | Ending::Stuck => self.again(tried, left),
        };
        let agent = (what == Next::Retry).then(|| self.agent_of(tried.no + 1)).flatten();
        Advice { what, because, left, agent }
    }

    fn again(&self, tried: Try<'_>, left: u32) -> (Next, String) {
        if self.defer_on_plateau && tried.is_plateau() {
            return (
                Next::Defer,
                "this attempt had the same result as the previous one".to_owned(),
            );
        }
        if left > 0 {
            let first = if tried.ending == Ending::Stuck { ", once it is stopped" } else { "" };
            return (Next::Retry, format!("{left} of {} retries are left{first}", self.retries));
        }
        match self.urgency {
            Urgency::Critical => {
                (Next::Escalate, "no retries are left, and it is critical".to_owned())
            }
            Urgency::Preference => {
                (Next::Defer, "no retries are left, and it can be deferred".to_owned())
            }
        }
    }

    /// Returns the agent of an attempt: every second one is for another agent, in turn.
    fn agent_of(&self, no: u32) -> Option<String> {
        let turn = usize::try_from(no / 2).ok()?.checked_sub(1)?;
        let others = self.fallback.len();
        (no.is_multiple_of(2) && others > 0).then(|| self.fallback[turn % others].clone())
    }
}

impl Try<'_> {
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

    fn policy(urgency: Urgency) -> Policy {
        let fallback = vec!["b".to_owned(), "c".to_owned()];
        Policy { retries: 2, urgency, defer_on_plateau: true, fallback }
    }

    #[test]
    fn no_try_helps_where_the_verifier_cannot_be_asked() {
        let unasked = Try { asked: false, ..tried(1, Ending::Incomplete) };
        assert_eq!(policy(Urgency::Preference).advise(unasked).what, Next::Escalate);
        // Work that failed by itself is retried, whatever the verifier could do.
        let failed = Try { asked: false, ..tried(1, Ending::Failed) };
        assert_eq!(policy(Urgency::Preference).advise(failed).what, Next::Retry);
    }

    fn tried(no: u32, ending: Ending) -> Try<'static> {
        Try { no, ending, reason: "not done", asked: true, tree: Some("t"), previous: None }
    }

    #[test]
    fn retries_are_counted_to_their_end() {
        let advise = |no| policy(Urgency::Critical).advise(tried(no, Ending::Incomplete));
        assert_eq!((advise(1).what, advise(1).left), (Next::Retry, 2));
        assert_eq!((advise(2).what, advise(2).left), (Next::Retry, 1));
        assert_eq!((advise(3).what, advise(3).left), (Next::Escalate, 0));
        assert_eq!(advise(u32::MAX).what, Next::Escalate);
        let preference = policy(Urgency::Preference).advise(tried(3, Ending::Failed));
        assert_eq!(preference.what, Next::Defer);
    }

    #[test]
    fn every_second_try_is_for_another_agent() {
        let of = |no| policy(Urgency::Critical).agent_of(no);
        let agents: Vec<_> = (1..=6).map(of).collect();
        let named = |name: &str| Some(name.to_owned());
        assert_eq!(agents, [None, named("b"), None, named("c"), None, named("b")]);
        let advice = policy(Urgency::Critical).advise(tried(1, Ending::Failed));
        assert_eq!(advice.agent, named("b"));
    }

    #[test]
    fn a_plateau_is_the_same_reason_on_the_same_tree() {
        let previous = |reason: &str, tree: Option<&str>| Previous {
            reason: reason.to_owned(),
            tree: tree.map(str::to_owned),
        };
        let what = |previous: &Previous, tree| {
            let tried = Try { tree, previous: Some(previous), ..tried(1, Ending::Incomplete) };
            policy(Urgency::Critical).advise(tried).what
        };
        assert_eq!(what(&previous("not done", Some("t")), Some("t")), Next::Defer);
        assert_eq!(what(&previous("not done", Some("u")), Some("t")), Next::Retry);
        assert_eq!(what(&previous("other", Some("t")), Some("t")), Next::Retry);
        assert_eq!(what(&previous("not done", None), None), Next::Retry, "nobody knows the tree");
        let again = Policy { defer_on_plateau: false, ..policy(Urgency::Critical) };
        let same = previous("not done", Some("t"));
        let tried = Try { previous: Some(&same), ..tried(1, Ending::Incomplete) };
        assert_eq!(again.advise(tried).what, Next::Retry);
    }

    #[test]
    fn what_did_not_end_is_not_tried_again() {
        let what = |ending| policy(Urgency::Preference).advise(tried(1, ending)).what;
        assert_eq!(what(Ending::Completed), Next::Proceed);
        for ending in [Ending::NeedsInput, Ending::Lost, Ending::TimedOut] {
            assert_eq!(what(ending), Next::Escalate, "{ending:?}");
        }
        assert_eq!(what(Ending::Stuck), Next::Retry);
    }
}
