//! Effects that encountered a shortage. They are retried for as long as they are pending.

use super::{
    command::SessionRejection,
    effect::{DeadlineKind, SessionEffect},
    event::{EffectRetried, EffectShortage, Event},
    state::Session,
};
use crate::{
    rules::rules,
    shortage::{EffectWait, Shortage, retry_after_ms},
    time::Moment,
};

impl Session {
    /// Returns how many times an effect has failed because of a shortage. A result with a different
    /// number is late.
    pub fn tries_of(&self, effect: &str) -> u32 {
        self.effect_wait(effect).map_or(0, |wait| wait.tries)
    }

    /// Returns the effect that has been waiting for a resource the longest.
    pub fn longest_wait(&self) -> Option<&EffectWait> {
        self.effect_waits.iter().min_by_key(|wait| wait.since.mono_ms)
    }

    fn effect_wait(&self, effect: &str) -> Option<&EffectWait> {
        self.effect_waits.iter().find(|wait| wait.effect == effect)
    }

    /// Whether an effect is waiting and must not be retried yet.
    pub(super) fn is_waiting(&self, effect: &SessionEffect) -> bool {
        !self.effect_waits.is_empty()
            && self.effect_wait(&effect.key()).is_some_and(|wait| !wait.retrying)
    }

    pub(super) fn decide_shortage(
        &self,
        effect: &str,
        tries: u32,
        shortage: &Shortage,
    ) -> Result<Vec<Event>, SessionRejection> {
        let pending = self.pending_effects();
        let waiting = pending.iter().find(|one| one.key() == effect && one.can_wait_for_resource());
        let waits = self.effect_wait(effect).is_some_and(|wait| !wait.retrying);
        let in_time = !waits && self.tries_of(effect) == tries;
        let current = if in_time { waiting } else { None };
        let current = current.ok_or(SessionRejection::NothingNew)?;
        Ok(vec![rules().record_shortage(current, shortage)])
    }

    pub(super) fn record_shortage(&mut self, met: &EffectShortage, at: Moment) {
        let before = self.effect_wait(&met.effect);
        let tries = before.map_or(0, |wait| wait.tries).saturating_add(1);
        let wait = EffectWait {
            effect: met.effect.clone(),
            shortage: met.shortage.clone(),
            tries,
            since: before.map_or(at, |wait| wait.since),
            retry_at_ms: at.deadline(retry_after_ms(tries)),
            retrying: false,
        };
        self.effect_waits.retain(|wait| wait.effect != met.effect);
        self.effect_waits.push(wait);
    }

    pub(super) fn retry(&mut self, retried: &EffectRetried) {
        let waits = self.effect_waits.iter_mut().filter(|wait| wait.effect == retried.effect);
        waits.for_each(|wait| wait.retrying = true);
    }

    /// Discards the waits of effects that are no longer pending.
    pub(super) fn forget_waits(&mut self) {
        if !self.effect_waits.is_empty() {
            let pending: Vec<String> =
                self.pending_effects().iter().map(SessionEffect::key).collect();
            self.effect_waits.retain(|wait| pending.contains(&wait.effect));
        }
    }

    fn next_retry(&self) -> Option<&EffectWait> {
        let waits = self.effect_waits.iter().filter(|wait| rules().will_retry(wait));
        waits.min_by_key(|wait| wait.retry_at_ms)
    }

    pub(super) fn retry_deadline(&self) -> Option<(u64, DeadlineKind)> {
        self.next_retry().map(|wait| (wait.retry_at_ms, DeadlineKind::Retry))
    }

    pub(super) fn retry_if_due(&self, now: Moment) -> Option<Event> {
        let due = self.next_retry().filter(|wait| now.mono_ms >= wait.retry_at_ms)?;
        Some(EffectRetried { effect: due.effect.clone() }.into())
    }
}
