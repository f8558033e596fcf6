//! The monitor's conclusion about a session or run, as a pure function of its status and the verifier's verdict.

use provost_verify::{AttemptEnding, VerifierVerdict};

use super::status::{EndKind, WatchStatus};

/// The conclusion about one session or run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Conclusion {
    pub(super) ending: AttemptEnding,
    pub(super) reason: String,
    /// Whether the awaited state was reached. None if no state is awaited.
    pub(super) reached: Option<bool>,
    /// The ending that would be reported if no state were awaited. `None` while the work continues.
    pub(super) natural_ending: Option<AttemptEnding>,
}

/// The awaited state and the current state.
#[derive(Clone, Copy, Debug)]
pub(super) struct AwaitedState<'a> {
    pub(super) wanted: &'a str,
    /// The current state, or `None` if it is unknown.
    pub(super) state: Option<&'a str>,
}

impl AwaitedState<'_> {
    fn is_reached(&self) -> bool {
        self.state == Some(self.wanted)
    }
}

/// Whether a conclusion requires the verifier.
pub(super) fn needs_proof(status: &WatchStatus, until: Option<AwaitedState<'_>>) -> bool {
    matches!(
        status,
        WatchStatus::Ended(..) | WatchStatus::AtPrompt { .. } | WatchStatus::TurnsHidden { .. }
    ) || until.is_some_and(|until| until.is_reached())
}

/// Returns the conclusion, or `None` while the work continues. There is a verdict only if a workflow was given.
pub(super) fn conclude(
    status: &WatchStatus,
    verdict: Option<&VerifierVerdict>,
    until: Option<AwaitedState<'_>>,
    now: i64,
) -> Option<Conclusion> {
    let natural = natural_ending(status, verdict, now);
    let otherwise = natural.as_ref().map(|(ending, _)| *ending);
    let Some(AwaitedState { wanted, state }) = until else {
        return natural.map(|(ending, reason)| Conclusion {
            ending,
            reason,
            reached: None,
            natural_ending: otherwise,
        });
    };
    let over = matches!(status, WatchStatus::Ended(..));
    match (natural, state.filter(|state| wanted == *state)) {
        // Reaching the awaited state takes precedence over everything else.
        (natural, Some(state)) => {
            let more =
                natural.map(|(_, reason)| reason).or(verdict.map(|found| from_verdict(found).1));
            let more = more.map(|reason| format!(": {reason}")).unwrap_or_default();
            let is_state = match state {
                "needs_input" => "it needs input".to_owned(),
                state => format!("it is {}", state.replace('_', " ")),
            };
            let reason = format!("{is_state}{more}");
            // If a claim is not sealed yet, the name of the state is reported, even though the
            // session continues.
            let named = match state {
                "completed" | "succeeded" => Some(AttemptEnding::Completed),
                "needs_input" => Some(AttemptEnding::NeedsInput),
                _ => None,
            };
            let otherwise = otherwise.or(named);
            Some(Conclusion {
                ending: AttemptEnding::Reached,
                reason,
                reached: Some(true),
                natural_ending: otherwise,
            })
        }
        (Some((ending, reason)), None) if over => {
            Some(Conclusion { ending, reason, reached: Some(false), natural_ending: otherwise })
        }
        (Some(_) | None, None) => None,
    }
}

fn natural_ending(
    status: &WatchStatus,
    verdict: Option<&VerifierVerdict>,
    now: i64,
) -> Option<(AttemptEnding, String)> {
    match (status, verdict) {
        (WatchStatus::Continues { .. }, _) => None,
        (WatchStatus::NeedsInput(reason), _) => Some((AttemptEnding::NeedsInput, reason.clone())),
        (WatchStatus::Stuck(reason), _) => Some((AttemptEnding::Stuck, reason.clone())),
        (WatchStatus::Lost(reason), _) => Some((AttemptEnding::Lost, reason.clone())),
        // A failed session is reported as failed, even if the verifier accepts its work.
        (WatchStatus::Ended(EndKind::Bad, reason), _) => {
            Some((AttemptEnding::Failed, reason.clone()))
        }
        (WatchStatus::Ended(EndKind::Good | EndKind::Incomplete, _), Some(verdict)) => {
            Some(from_verdict(verdict))
        }
        (WatchStatus::Ended(EndKind::Good, reason), None) => {
            Some((AttemptEnding::Completed, reason.clone()))
        }
        (WatchStatus::Ended(EndKind::Incomplete, reason), None) => {
            Some((AttemptEnding::Incomplete, reason.clone()))
        }
        (WatchStatus::AtPrompt { .. }, None) => None,
        (
            WatchStatus::AtPrompt { .. } | WatchStatus::TurnsHidden { .. },
            Some(verdict @ VerifierVerdict::Verified(_)),
        ) => Some(from_verdict(verdict)),
        // The agent may still be working on the missing parts.
        (WatchStatus::TurnsHidden { .. }, Some(VerifierVerdict::Incomplete(_)) | None) => None,
        (WatchStatus::AtPrompt { until }, Some(verdict)) => {
            (now >= *until).then(|| from_verdict(verdict))
        }
    }
}

fn from_verdict(verdict: &VerifierVerdict) -> (AttemptEnding, String) {
    match verdict {
        VerifierVerdict::Verified(because) => (AttemptEnding::Completed, because.clone()),
        VerifierVerdict::Incomplete(reason) => (AttemptEnding::Incomplete, reason.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use provost_verify::UnverifiedReason;

    use super::*;

    fn verified() -> VerifierVerdict {
        VerifierVerdict::Verified("so".to_owned())
    }

    fn incomplete() -> VerifierVerdict {
        VerifierVerdict::Incomplete(UnverifiedReason::NoFile { path: "x".to_owned() })
    }

    fn ending(status: &WatchStatus, verdict: Option<&VerifierVerdict>) -> Option<AttemptEnding> {
        conclude(status, verdict, None, 100).map(|conclusion| conclusion.ending)
    }

    fn ended(end: EndKind) -> WatchStatus {
        WatchStatus::Ended(end, "r".to_owned())
    }

    #[test]
    fn verifier_decides_only_good_ends() {
        for end in [EndKind::Good, EndKind::Incomplete] {
            assert_eq!(ending(&ended(end), Some(&verified())), Some(AttemptEnding::Completed));
            assert_eq!(ending(&ended(end), Some(&incomplete())), Some(AttemptEnding::Incomplete));
        }
        assert_eq!(ending(&ended(EndKind::Bad), Some(&verified())), Some(AttemptEnding::Failed));
        assert_eq!(ending(&ended(EndKind::Good), None), Some(AttemptEnding::Completed));
        assert_eq!(ending(&ended(EndKind::Incomplete), None), Some(AttemptEnding::Incomplete));
        assert_eq!(ending(&WatchStatus::Continues { until: None }, Some(&verified())), None);
        let stuck = WatchStatus::Stuck("r".to_owned());
        assert_eq!(ending(&stuck, Some(&verified())), Some(AttemptEnding::Stuck));
    }

    #[test]
    fn agent_at_prompt_gets_silence_window() {
        let (early, late) =
            (WatchStatus::AtPrompt { until: 101 }, WatchStatus::AtPrompt { until: 100 });
        assert_eq!(ending(&early, Some(&verified())), Some(AttemptEnding::Completed));
        assert_eq!(ending(&early, Some(&incomplete())), None);
        assert_eq!(ending(&late, Some(&incomplete())), Some(AttemptEnding::Incomplete));
        assert_eq!(ending(&late, None), None);
    }

    #[test]
    fn hidden_turns_never_conclude_incomplete() {
        let unseen = WatchStatus::TurnsHidden { recheck_at: 0 };
        assert_eq!(ending(&unseen, Some(&verified())), Some(AttemptEnding::Completed));
        assert_eq!(ending(&unseen, Some(&incomplete())), None);
        assert_eq!(ending(&unseen, None), None);
        let idle = Some(AwaitedState { wanted: "idle", state: None });
        assert_eq!(conclude(&unseen, None, idle, 100), None, "the agent is not known to be idle");
    }

    #[test]
    fn awaited_state_or_end_finishes_watch() {
        let until = |status: &WatchStatus, state: &str| {
            let until = AwaitedState { wanted: "working", state: Some(state) };
            conclude(status, None, Some(until), 100).map(|found| (found.ending, found.reached))
        };
        let continues = WatchStatus::Continues { until: None };
        assert_eq!(until(&continues, "verifying"), None);
        assert_eq!(until(&continues, "working"), Some((AttemptEnding::Reached, Some(true))));
        assert_eq!(until(&WatchStatus::NeedsInput("r".to_owned()), "needs_input"), None);
        let over = until(&ended(EndKind::Good), "completed");
        assert_eq!(over, Some((AttemptEnding::Completed, Some(false))));
    }

    #[test]
    fn reached_state_includes_verdict() {
        let until = Some(AwaitedState { wanted: "working", state: Some("working") });
        let continues = WatchStatus::Continues { until: None };
        assert!(needs_proof(&continues, until) && !needs_proof(&continues, None));
        let found = conclude(&continues, Some(&incomplete()), until, 100).unwrap();
        assert_eq!((found.ending, found.reached), (AttemptEnding::Reached, Some(true)));
        assert_eq!(found.reason, "it is working: there is no x");
    }

    #[test]
    fn reached_state_takes_precedence() {
        let (stuck, waits) =
            (WatchStatus::Stuck("r".to_owned()), WatchStatus::NeedsInput("r".to_owned()));
        let table = [
            (stuck, "working", AttemptEnding::Stuck),
            (waits, "needs_input", AttemptEnding::NeedsInput),
            (WatchStatus::Lost("r".to_owned()), "lost", AttemptEnding::Lost),
            (ended(EndKind::Good), "completed", AttemptEnding::Completed),
            (ended(EndKind::Incomplete), "exited_without_claim", AttemptEnding::Incomplete),
            (ended(EndKind::Bad), "failed", AttemptEnding::Failed),
        ];
        for (status, state, otherwise) in table {
            let until = Some(AwaitedState { wanted: state, state: Some(state) });
            let found = conclude(&status, None, until, 100).unwrap();
            assert_eq!(
                (found.ending, found.reached),
                (AttemptEnding::Reached, Some(true)),
                "{state}"
            );
            assert_eq!(found.natural_ending, Some(otherwise), "{state}");
            let is_state = if state == "needs_input" { "it needs input" } else { "it is" };
            assert!(found.reason.starts_with(is_state) && !found.reason.contains('_'), "{state}");
        }
    }
}
