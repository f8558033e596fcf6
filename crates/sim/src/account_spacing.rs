//! The law for all sessions of one account: they resume one after another.

use std::collections::BTreeMap;

use provost_core::{
    session::{BudgetEvent, Event, Session},
    time::Moment,
};

use crate::session_laws::BrokenLaw;

/// For each account, the last time at which any of its sessions resumed after a usage limit. Survives crashes of the
/// engine.
#[derive(Debug, Default)]
pub(crate) struct AccountSpacing(BTreeMap<String, u64>);

impl AccountSpacing {
    /// Checks one event of any session: two sessions of one account never resume within the spacing.
    pub(crate) fn check_event(
        &mut self,
        before: &Session,
        at: Moment,
        event: &Event,
    ) -> Result<(), BrokenLaw> {
        let (Event::Budget(BudgetEvent::LimitLifted(_)), Some(account)) =
            (event, &before.spec.agent.profile.account)
        else {
            return Ok(());
        };
        let spacing = before.spec.bounds.limit_spacing_ms;
        let last = self.0.insert(account.clone(), at.mono_ms);
        if last.is_none_or(|last| at.mono_ms >= last + spacing) {
            Ok(())
        } else {
            Err(format!("two sessions of one account resumed at {last:?} and {}", at.mono_ms))
        }
    }
}
