//! The monitor's conclusion about a session or run: a pure function of its status and the verifier's verdict.

use provost_verify::{Ending, Verdict};

use super::stand::{End, Stand};

/// The conclusion about one session or run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Conclusion {
    pub(super) ending: Ending,
    pub(super) reason: String,
    /// Whether the awaited state was reached; None if no state is awaited.
    pub(super) reached: Option<bool>,
    /// The conclusion without an awaited state; None while it continues.
    pub(super) otherwise: Option<Ending>,
}

/// An awaited state, and the current one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Until<'a> {
    pub(super) wanted: &'a str,
    /// None if it is unknown.
    pub(super) state: Option<&'a str>,
}

impl Until<'_> {
    fn is_reached(&self) -> bool {
        self.state == Some(self.wanted)
    }
}

/// Whether the verifier is needed for a conclusion.
pub(super) fn needs_proof(stand: &Stand, until: Option<Until<'_>>) -> bool {
    matches!(stand, Stand::Ended(..) | Stand::AtPrompt { .. } | Stand::Unseen { .. })
        || until.is_some_and(|until| until.is_reached())
}

/// Returns the conclusion, or None while it continues. Without a workflow there is no verdict.
pub(super) fn conclude(
    stand: &Stand,
    verdict: Option<&Verdict>,
    until: Option<Until<'_>>,
    now: i64,
) -> Option<Conclusion> {
    let natural = natural(stand, verdict, now);
    let otherwise = natural.as_ref().map(|(ending, _)| *ending);
    let Some(Until { wanted, state }) = until else {
        return natural.map(|(ending, reason)| Conclusion {
            ending,
            reason,
            reached: None,
            otherwise,
        });
    };
    let over = matches!(stand, Stand::Ended(..));
    match (natural, state.filter(|state| wanted == *state)) {
        // The awaited state takes precedence over everything else.
        (natural, Some(state)) => {
            let more = natural.map(|(_, reason)| reason).or(verdict.map(|found| judged(found).1));
            let more = more.map(|reason| format!(": {reason}")).unwrap_or_default();
            let reason = format!("it is {state}{more}");
            // A claim that is not sealed yet is named by its state, even though it still continues.
            let named = match state {
                "completed" | "succeeded" => Some(Ending::Completed),
                "needs_input" => Some(Ending::NeedsInput),
                _ => None,
            };
            let otherwise = otherwise.or(named);
            Some(Conclusion { ending: Ending::Reached, reason, reached: Some(true), otherwise })
        }
        (Some((ending, reason)), None) if over => {
            Some(Conclusion { ending, reason, reached: Some(false), otherwise })
        }
        (Some(_) | None, None) => None,
    }
}

fn natural(stand: &Stand, verdict: Option<&Verdict>, now: i64) -> Option<(Ending, String)> {
    match (stand, verdict) {
        (Stand::GoesOn { .. }, _) => None,
        (Stand::Waits(reason), _) => Some((Ending::NeedsInput, reason.clone())),
        (Stand::Stuck(reason), _) => Some((Ending::Stuck, reason.clone())),
        (Stand::Lost(reason), _) => Some((Ending::Lost, reason.clone())),
        // Whatever it left behind, it went wrong.
        (Stand::Ended(End::Bad, reason), _) => Some((Ending::Failed, reason.clone())),
        (Stand::Ended(End::Good | End::Unclaimed, _), Some(verdict)) => Some(judged(verdict)),
        (Stand::Ended(End::Good, reason), None) => Some((Ending::Completed, reason.clone())),
        (Stand::Ended(End::Unclaimed, reason), None) => Some((Ending::Incomplete, reason.clone())),
        (Stand::AtPrompt { .. }, None) => None,
        (Stand::AtPrompt { .. } | Stand::Unseen { .. }, Some(verdict @ Verdict::Verified(_))) => {
            Some(judged(verdict))
        }
        // It may still be working on the missing parts.
        (Stand::Unseen { .. }, Some(Verdict::Incomplete(_)) | None) => None,
        (Stand::AtPrompt { until }, Some(verdict)) => (now >= *until).then(|| judged(verdict)),
    }
}

fn judged(verdict: &Verdict) -> (Ending, String) {
    match verdict {
        Verdict::Verified(because) => (Ending::Completed, because.clone()),
        Verdict::Incomplete(reason) => (Ending::Incomplete, reason.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use provost_verify::Reason;

    use super::*;

    fn verified() -> Verdict {
        Verdict::Verified("so".to_owned())
    }

    fn incomplete() -> Verdict {
        Verdict::Incomplete(Reason::NoFile { path: "x".to_owned() })
    }

    fn ending(stand: &Stand, verdict: Option<&Verdict>) -> Option<Ending> {
        conclude(stand, verdict, None, 100).map(|conclusion| conclusion.ending)
    }

    fn ended(end: End) -> Stand {
        Stand::Ended(end, "r".to_owned())
    }

    #[test]
    fn a_verifier_decides_about_what_ended_well_and_about_nothing_else() {
        for end in [End::Good, End::Unclaimed] {
            assert_eq!(ending(&ended(end), Some(&verified())), Some(Ending::Completed));
            assert_eq!(ending(&ended(end), Some(&incomplete())), Some(Ending::Incomplete));
        }
        assert_eq!(ending(&ended(End::Bad), Some(&verified())), Some(Ending::Failed));
        assert_eq!(ending(&ended(End::Good), None), Some(Ending::Completed));
        assert_eq!(ending(&ended(End::Unclaimed), None), Some(Ending::Incomplete));
        assert_eq!(ending(&Stand::GoesOn { until: None }, Some(&verified())), None);
        let stuck = Stand::Stuck("r".to_owned());
        assert_eq!(ending(&stuck, Some(&verified())), Some(Ending::Stuck));
    }

    #[test]
    fn an_agent_at_its_prompt_is_given_the_window_to_go_on() {
        let (early, late) = (Stand::AtPrompt { until: 101 }, Stand::AtPrompt { until: 100 });
        assert_eq!(ending(&early, Some(&verified())), Some(Ending::Completed));
        assert_eq!(ending(&early, Some(&incomplete())), None);
        assert_eq!(ending(&late, Some(&incomplete())), Some(Ending::Incomplete));
        assert_eq!(ending(&late, None), None);
    }

    #[test]
    fn an_agent_whose_turns_nobody_sees_is_never_said_to_have_left_work_undone() {
        let unseen = Stand::Unseen { again: 0 };
        assert_eq!(ending(&unseen, Some(&verified())), Some(Ending::Completed));
        assert_eq!(ending(&unseen, Some(&incomplete())), None);
        assert_eq!(ending(&unseen, None), None);
        let idle = Some(Until { wanted: "idle", state: None });
        assert_eq!(conclude(&unseen, None, idle, 100), None, "it is not known to be idle");
    }

    #[test]
    fn a_state_that_is_waited_for_ends_the_watch_and_so_does_the_end() {
        let until = |stand: &Stand, state: &str| {
            let until = Until { wanted: "working", state: Some(state) };
            conclude(stand, None, Some(until), 100).map(|found| (found.ending, found.reached))
        };
        let goes_on = Stand::GoesOn { until: None };
        assert_eq!(until(&goes_on, "verifying"), None);
        assert_eq!(until(&goes_on, "working"), Some((Ending::Reached, Some(true))));
        assert_eq!(until(&Stand::Waits("r".to_owned()), "needs_input"), None);
        let over = until(&ended(End::Good), "completed");
        assert_eq!(over, Some((Ending::Completed, Some(false))));
    }

    #[test]
    fn a_state_that_is_reached_is_held_against_the_workflow_too() {
        let until = Some(Until { wanted: "working", state: Some("working") });
        let goes_on = Stand::GoesOn { until: None };
        assert!(needs_proof(&goes_on, until) && !needs_proof(&goes_on, None));
        let found = conclude(&goes_on, Some(&incomplete()), until, 100).unwrap();
        assert_eq!((found.ending, found.reached), (Ending::Reached, Some(true)));
        assert_eq!(found.reason, "it is working: there is no x");
    }

    #[test]
    fn a_state_that_is_reached_is_the_result_whatever_else_is_true() {
        let (stuck, waits) = (Stand::Stuck("r".to_owned()), Stand::Waits("r".to_owned()));
        let table = [
            (stuck, "working", Ending::Stuck),
            (waits, "needs_input", Ending::NeedsInput),
            (Stand::Lost("r".to_owned()), "lost", Ending::Lost),
            (ended(End::Good), "completed", Ending::Completed),
            (ended(End::Unclaimed), "ended_unclaimed", Ending::Incomplete),
            (ended(End::Bad), "failed", Ending::Failed),
        ];
        for (stand, state, otherwise) in table {
            let until = Some(Until { wanted: state, state: Some(state) });
            let found = conclude(&stand, None, until, 100).unwrap();
            assert_eq!((found.ending, found.reached), (Ending::Reached, Some(true)), "{state}");
            assert_eq!(found.otherwise, Some(otherwise), "{state}");
            assert_eq!(found.reason, format!("it is {state}: r"));
        }
    }
}
