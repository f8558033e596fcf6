//! Closes the local copy of a run that was imported from another home. That other home carries out
//! the run's effects.

use super::{
    event::*,
    hook::PendingRunHook,
    outcome::{RunAttemptOutcome, RunEnding},
    state::Run,
};
use crate::{
    session::{IMPORTED_REASON, skipped_hook_end},
    time::Moment,
};

impl Run {
    /// Whether the run was imported from another home and not taken over. If so, no part of it runs
    /// in this home.
    pub fn is_imported(&self) -> bool {
        self.imported && !self.taken_over
    }

    /// Returns the next event that closes an imported copy.
    pub(super) fn skip_next_effect(&self, now: Moment) -> Option<Event> {
        let attempt = self.attempt();
        let because = || IMPORTED_REASON.to_owned();
        let stop = (!self.is_sealed() && attempt.stopped.is_none())
            .then(|| RunCancelled { because: because() }.into());
        let seal = || {
            let (ending, detail, head) = (RunEnding::Cancelled, because(), self.head.clone());
            let outcome = RunAttemptOutcome { ending, cause: None, detail, head, at: now };
            (!self.is_sealed()).then(|| RunSealed { attempt: attempt.no, outcome }.into())
        };
        let unwritten = || {
            self.attempts.iter().find(|attempt| attempt.sealed.is_some() && !attempt.report_written)
        };
        stop.or_else(seal).or_else(|| self.hooks.first().map(|hook| skip_hook(hook, now))).or_else(
            || {
                let attempt = unwritten()?.no;
                Some(RunReportWritten { attempt, failure: Some(because()), changed: None }.into())
            },
        )
    }
}

fn skip_hook(hook: &PendingRunHook, now: Moment) -> Event {
    HookFinished { key: hook.key, end: skipped_hook_end(hook.at, now) }.into()
}
