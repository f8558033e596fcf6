//! The law over all sessions of one account: they go on one after the other.

use std::collections::BTreeMap;

use provost_core::{
    session::{Event, Session},
    time::Moment,
};

use crate::laws::Broken;

/// When a session of each account went on last after a limit, over all sessions and crashes.
#[derive(Debug, Default)]
pub(crate) struct Turns(BTreeMap<String, u64>);

impl Turns {
    /// Judges one event of any session: never do two of one account go on within the spacing.
    pub(crate) fn event(
        &mut self,
        before: &Session,
        at: Moment,
        event: &Event,
    ) -> Result<(), Broken> {
        let (Event::LimitLifted(_), Some(account)) = (event, &before.spec.agent.carried.account)
        else {
            return Ok(());
        };
        let spacing = before.spec.bounds.limit_spacing_ms;
        let last = self.0.insert(account.clone(), at.mono_ms);
        match last.is_none_or(|last| at.mono_ms >= last + spacing) {
            true => Ok(()),
            false => {
                Err(format!("two sessions of one account went on at {last:?} and {}", at.mono_ms))
            }
        }
    }
}
