//! Closing a run that was imported from another home, where its effects are carried out.

use super::{
    event::*,
    hook::RunHookOwed,
    outcome::{Ending, Outcome},
    state::Run,
};
use crate::{
    session::{ELSEWHERE, forgone},
    time::Moment,
};

impl Run {
    /// Whether it was imported from another home and not taken over. Nothing of it runs here.
    pub fn is_foreign(&self) -> bool {
        self.imported && !self.taken_over
    }

    /// Returns the events that leave nothing pending here. They judge nothing about the work: an
    /// open run is cancelled in this copy of the record.
    pub fn close_elsewhere(&self, now: Moment) -> Vec<Event> {
        let mut run = self.clone();
        let mut events = Vec::new();
        while let Some(event) = run.let_go(now) {
            run.evolve(now, &event);
            events.push(event);
        }
        events
    }

    fn let_go(&self, now: Moment) -> Option<Event> {
        let leg = self.leg();
        let because = || ELSEWHERE.to_owned();
        let stop = (!self.is_sealed() && leg.stopped.is_none())
            .then(|| RunCancelled { because: because() }.into());
        let seal = || {
            let (ending, detail, head) = (Ending::Cancelled, because(), self.head.clone());
            let outcome = Outcome { ending, cause: None, detail, head, at: now };
            (!self.is_sealed()).then(|| RunSealed { leg: leg.no, outcome }.into())
        };
        let unwritten = || self.legs.iter().find(|leg| leg.sealed.is_some() && !leg.card);
        stop.or_else(seal).or_else(|| self.hooks.first().map(|hook| forgo(hook, now))).or_else(
            || {
                let leg = unwritten()?.no;
                Some(CardWritten { leg, failure: Some(because()), changed: None }.into())
            },
        )
    }
}

fn forgo(hook: &RunHookOwed, now: Moment) -> Event {
    HookFinished { key: hook.key, end: forgone(hook.at, now) }.into()
}
